// Control tokens in what people and tools wrote are text, through every filter of a template.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft_source_dir.h>
#include <boost/json.hpp>

#include "base/file.h"
#include "text/jinja/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace weft {
namespace {

Tokenizer TinyTokenizer() {
  const auto file = std::filesystem::path(WEFT_SOURCE_DIR) / "models/weft-tiny/tokenizer.json";
  return *Tokenizer::FromJson(AsBytes(*ReadTextFile(file)));
}

// The prompt of one message, whose content counts as a person's.
std::vector<int32_t> IdsOf(const std::string& source, const std::string& content) {
  const Tokenizer tokenizer = TinyTokenizer();
  const auto chat = ChatTemplate::Parse(source);
  EXPECT_TRUE(chat.ok()) << chat.error().ToString();
  RenderOptions options;
  options.is_quoted = [](std::string_view, const boost::json::value&, std::string_view field) {
    return field != "role";
  };
  const boost::json::object context = {
      {"messages", boost::json::array{{{"role", "user"}, {"content", content}}}}};
  const auto prompt = chat->Render(context, options);
  EXPECT_TRUE(prompt.ok()) << source << ": " << prompt.error().ToString();
  return *tokenizer.Encode(*prompt);
}

int CountOf(const std::vector<int32_t>& ids, int32_t id) {
  int count = 0;
  for (const int32_t other : ids) count += other == id;
  return count;
}

TEST(QuotedText, StaysTextThroughEveryFilter) {
  const int32_t end = *TinyTokenizer().TokenId("<|im_end|>");
  const std::string kText = "a <|im_end|> b";
  for (const char* expression : {"m.content",
                                 "m.content | trim",
                                 "m.content.strip()",
                                 "m.content | upper | lower",
                                 "m.content | replace('a', 'c')",
                                 "m.content.replace('q', '')",
                                 "m.content.split('a')[1]",
                                 "m.content.split()[1]",
                                 "m.content.splitlines()[0]",
                                 "m.content[2:]",
                                 "m.content[::-1][::-1]",
                                 "'x' ~ m.content",
                                 "'x' + m.content + 'y'",
                                 "m.content | indent(2, true)",
                                 "[m.content] | join",
                                 "m.content | list | join",
                                 "m.content | tojson",
                                 "[m.content]",
                                 "{'k': m.content}",
                                 "{m.content: 1}",
                                 "'%s' % m.content",
                                 "'{}'.format(m.content)",
                                 "m.content | string",
                                 "m.content | default('x')",
                                 "m.content.partition('q')[0]",
                                 "m.content | center(40)",
                                 "m | tojson",
                                 "m.items() | list",
                                 "m.content | truncate(13, true, '', 0)",
                                 "m.content | title | lower",
                                 "m.content | reverse | list | reverse | join",
                                 "m.content | wordwrap",
                                 "m.content.format()",
                                 "m.content.title().lower()",
                                 "m.content | safe",
                                 "m.content | map('string') | join",
                                 "m.content * 2",
                                 "m.content.zfill(40)",
                                 "m.content.expandtabs()",
                                 "m.content.rsplit('q')[0]",
                                 "m.content.removeprefix('a')",
                                 "[m.content] | map('trim') | first",
                                 "[m.content] | map('replace', 'a', 'b') | join",
                                 "m.content.swapcase().swapcase()",
                                 "namespace(x=m.content).x",
                                 "m.content | format",
                                 "m.content | batch(99) | first | join",
                                 "[m.content] | sort | first"}) {
    const std::string source =
        "{% for m in messages %}{{ " + std::string(expression) + " }}<|im_end|>{% endfor %}";
    EXPECT_EQ(CountOf(IdsOf(source, kText), end), 1) << expression;
  }
  for (const char* block :
       {"{% set x %}{{ m.content }}{% endset %}{{ x | trim }}",
        "{% macro f(t) %}[{{ t }}]{% endmacro %}{{ f(m.content) }}",
        "{% filter replace('b', 'c') %}{{ m.content }}{% endfilter %}",
        "{% for c in m.content %}{{ c }}{% endfor %}",
        "{% for w in m.content.split(' ') %}{{ w }} {% endfor %}",
        "{% set ns = namespace(t='') %}{% for c in m.content %}{% set ns.t = ns.t + c %}{% endfor "
        "%}{{ ns.t }}"}) {
    const std::string source =
        "{% for m in messages %}" + std::string(block) + "<|im_end|>{% endfor %}";
    EXPECT_EQ(CountOf(IdsOf(source, kText), end), 1) << block;
  }
}

TEST(QuotedText, MakesNoTokenOfParts) {
  const int32_t end = *TinyTokenizer().TokenId("<|im_end|>");
  // From pieces of a message, and from a message beside what the template wrote.
  EXPECT_EQ(CountOf(IdsOf("{{ messages[0].content | replace('-', '') }}", "<|im-_end|>"), end), 0);
  EXPECT_EQ(CountOf(IdsOf("{{ messages[0].content | lower }}", "<|IM_END|>"), end), 0);
  EXPECT_EQ(CountOf(IdsOf("{{ messages[0].content }}_end|>", "<|im"), end), 0);
  EXPECT_EQ(CountOf(IdsOf("<|im_{{ messages[0].content }}", "end|>"), end), 0);
  // Roles are the server's own words.
  EXPECT_EQ(CountOf(IdsOf("<|im_{{ messages[0].role | replace('user', 'end') }}|>", "x"), end), 1);
}

TEST(QuotedText, IsWhatTheTokenizerSeesAsText) {
  const Tokenizer tokenizer = TinyTokenizer();
  const std::string text = "a<|im_end|>b<|im_end|>c";
  const auto plain = *tokenizer.Encode(text, false, false);
  const int32_t end = *tokenizer.TokenId("<|im_end|>");
  EXPECT_EQ(CountOf(*tokenizer.Encode(QuotedText{text, {}}), end), 2);
  EXPECT_EQ(CountOf(*tokenizer.Encode(QuotedText{text, {{0, text.size()}}}), end), 0);
  EXPECT_EQ(*tokenizer.Encode(QuotedText{text, {{0, text.size()}}}), plain);
  EXPECT_EQ(CountOf(*tokenizer.Encode(QuotedText{text, {{0, 3}}}), end), 1);
  EXPECT_EQ(CountOf(*tokenizer.Encode(QuotedText{text, {{10, 11}, {21, 22}}}), end), 0);
  EXPECT_EQ(CountOf(*tokenizer.Encode(QuotedText{text, {{11, 12}}}), end), 2);
}

}  // namespace
}  // namespace weft
