// Every template at hand: its family is found, and what it renders of an assistant's calls reads as
// these calls again.
#include "chat/detect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <set>

#include "base/data_testing.h"
#include "base/file.h"
#include "chat/answer_testing.h"
#include "chat/template_testing.h"
#include "text/jinja/chat_template.h"

namespace weft::chat {
namespace {

namespace json = boost::json;

Format Detected(const std::string& source) {
  return DetectFormat(source, RenderOf(Template(source)));
}

struct Known {
  const char* file;
  const char* family;
  const char* thinking = "</think>";
  bool renders_calls = true;  // false: its template shows no calls, or not as objects
  bool one_call = false;      // shows one at most

  friend std::ostream& operator<<(std::ostream& out, const Known& known) {
    return out << known.file;
  }
};

const Known kKnown[] = {
    {"Apriel-1.6-15b-Thinker-fixed", "tool-calls", "[BEGIN FINAL RESPONSE]"},
    {"ByteDance-Seed-OSS", "seed", "</seed:think>"},
    {"CohereForAI-c4ai-command-r-plus-tool_use", "command-r"},
    {"GLM-4.6", "glm"},
    {"GigaChat3-10B-A1.8B", "gigachat", "</think>", true, true},
    {"HuggingFaceTB-SmolLM3-3B", "", "</think>", false},
    {"Kimi-K2-Thinking", "kimi"},
    {"LFM2-8B-A1B", "lfm2", "</think>", false},
    {"LFM2.5-Instruct", "lfm2", "</think>", false},
    {"MiniMax-M1", "tool-calls"},
    {"MiniMax-M3", "minimax-m3", "</mm:think>"},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen-coder"},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"},
    {"Qwen-QwQ-32B", "hermes"},
    {"Qwen-Qwen3-0.6B", "hermes"},
    {"Qwen3.5-4B", "qwen-coder"},
    {"Spark2.5", "glm"},
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek", "</think>", false},
    {"deepseek-ai-DeepSeek-V3.1", "deepseek"},
    {"deepseek-ai-DeepSeek-V4-Flash-0731", "deepseek-dsml"},
    {"fireworks-ai-llama-3-firefunction-v2", "functools"},
    {"google-gemma-4-31B-it-interleaved", "gemma", "<channel|>"},
    {"ibm-granite-granite-3.3-2B-Instruct", "granite", "</think>", false},
    {"ibm-granite-granite-4.1", "hermes"},
    // It writes a list that Jinja2 cannot write either where there are tools.
    {"llama-cpp-deepseek-r1", "deepseek", "</think>", false},
    {"meetkai-functionary-medium-v3.1", "functionary"},
    {"meta-llama-Llama-3.1-8B-Instruct", "llama3", "</think>", true, true},
    {"meta-llama-Llama-3.3-70B-Instruct", "llama3", "</think>", true, true},
    {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral", "[/THINK]"},
    {"moonshotai-Kimi-K2", "kimi"},
    {"openai-gpt-oss-120b", "harmony", "", true, true},
    {"phi3", "", "</think>", false},
    {"poolside-Laguna-S-2.1", "glm"},
    {"poolside-Laguna-XS.2", "glm"},
    {"unsloth-Apriel-1.5", "tool-calls"},
    {"upstage-Solar-Open-100B", "solar", "<|end|>"},
};

std::string Source(const std::string& name) {
  auto text = ReadTextFile(TestDataFolder() / "templates" / (name + ".jinja"));
  EXPECT_TRUE(text.ok()) << name;
  return std::move(text).value();
}

TEST(DetectFormat, KnowsEveryTemplateAtHand) {
  std::set<std::string> files;
  for (const Known& known : kKnown) {
    SCOPED_TRACE(known.file);
    files.insert(known.file);
    const Format format = Detected(Source(known.file));
    EXPECT_EQ(format.family, known.family);
    EXPECT_EQ(format.thinking.end, known.thinking);
  }
  for (const auto& entry : std::filesystem::directory_iterator(TestDataFolder() / "templates"))
    EXPECT_TRUE(files.contains(entry.path().stem().string())) << entry.path();
}

const json::array& RoundTripTools() {
  static const json::array kTools = json::parse(R"([
    {"type": "function", "function": {"name": "get_weather", "description": "Weather.",
      "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "Where."},
        "days": {"type": "integer", "description": "How many."},
        "limit": {"type": "number", "description": "A limit."},
        "exact": {"type": "boolean", "description": "Whether."},
        "at": {"type": "object", "description": "A place.",
               "additionalProperties": {"type": "string"}, "properties": {
          "name": {"type": "string"}, "lat": {"type": "number"},
          "inner": {"type": "object", "properties": {"deep": {"type": "boolean"}}}}},
        "tags": {"type": "array", "description": "Tags.", "items": {"type": "string"}}}}}},
    {"type": "function", "function": {"name": "now", "description": "The time.",
      "parameters": {"type": "object", "properties": {}}}}])")
                                        .as_array();
  return kTools;
}

// Arguments with what breaks parsers; names in the order in which some templates sort them.
const char* const kArguments[] = {
    R"({"city": "Bern"})",
    R"({"city": "Zürich \"Nord\" 東京 🌧 'x' {a} [b] \\n"})",
    R"({"city": "two\nlines\tand a tab"})",
    R"({"city": "42", "days": 42})",
    R"({"city": "true", "exact": true, "limit": 2.5})",
    R"({"city": "", "days": -1, "tags": ["a", "b c", "d,e"]})",
    R"({"at": {"inner": {"deep": false}, "lat": 46.9, "name": "Bern"}, "city": "a: b, c=d"})",
    R"({"city": "null"})",
};

json::object CallJson(const std::string& name, const json::value& arguments, int number) {
  return {{"id", "call" + std::to_string(10000 + number)},
          {"type", "function"},
          {"function", {{"name", name}, {"arguments", arguments}}}};
}

class RoundTrip : public testing::TestWithParam<Known> {
 protected:
  void SetUp() override {
    source_ = Source(GetParam().file);
    render_ = RenderOf(Template(source_));
    format_ = Detected(source_);
  }

  std::string Rendered(const json::array& messages, bool opens_answer) {
    auto text = render_({{"messages", messages},
                         {"tools", RoundTripTools()},
                         {"functions", "[]"},
                         {"datetime", "today"},
                         {"enable_thinking", true},
                         {"thinking", true},
                         {"add_generation_prompt", opens_answer}});
    EXPECT_TRUE(text.ok()) << text.error().ToString();
    return text.ok() ? text.value() : "";
  }

  // What the model says: behind what opens its turn, in front of what ends it. The turn's end is
  // what a turn of plain text ends with, too.
  std::string Said(const json::object& message) {
    const json::object user = {{"role", "user"}, {"content", "Hi"}};
    const std::string prompt = Rendered({user}, true);
    const std::string whole = Rendered({user, message}, false);
    const std::string plain =
        Rendered({user, {{"role", "assistant"}, {"content", "weft_said"}}}, false);
    // A template that opens thoughts in prompts may show earlier turns without any.
    const bool goes_on = whole.starts_with(prompt);
    std::string said(std::ranges::mismatch(whole, goes_on ? prompt : plain).in1, whole.end());
    const std::string tail = plain.substr(plain.rfind("weft_said") + 9);
    if (!tail.empty() && said.ends_with(tail)) said.resize(said.size() - tail.size());
    opens_thinking_ =
        goes_on && !format_.thinking.begin.empty() &&
        prompt.find_last_not_of("\n ") != std::string::npos &&
        prompt.substr(0, prompt.find_last_not_of("\n ") + 1).ends_with(format_.thinking.begin);
    return said;
  }

  Answer Parsed(const std::string& said) {
    AnswerParser parser(
        format_, std::make_shared<const Tools>(RoundTripTools()),
        {.parses_calls = true, .splits_thinking = true, .opens_thinking = opens_thinking_});
    Answer answer;
    for (const char c : said) answer.Take(parser.Push(std::string_view(&c, 1)));
    answer.Take(parser.Flush());
    return answer;
  }

  std::string source_;
  RenderTemplate render_;
  Format format_;
  bool opens_thinking_ = false;
};

void ExpectCalls(const Answer& answer, const std::vector<std::pair<std::string, json::value>>& all,
                 const std::string& said) {
  ASSERT_EQ(answer.calls.size(), all.size()) << said << "\n" << answer;
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(answer.calls[i].name, all[i].first);
    EXPECT_EQ(json::parse(answer.calls[i].arguments), all[i].second) << said;
  }
}

TEST_P(RoundTrip, OneCallWithWhateverArguments) {
  for (const char* text : kArguments) {
    const json::value arguments = json::parse(text);
    const std::string said =
        Said({{"role", "assistant"},
              {"content", ""},
              {"tool_calls", json::array{CallJson("get_weather", arguments, 0)}}});
    const Answer answer = Parsed(said);
    ExpectCalls(answer, {{"get_weather", arguments}}, said);
    // Some end turns with calls otherwise than turns of text.
    EXPECT_TRUE(said.ends_with(answer.content)) << answer.content << " of " << said;
  }
}

TEST_P(RoundTrip, SeveralCallsAfterText) {
  if (GetParam().one_call) return;
  json::array calls;
  std::vector<std::pair<std::string, json::value>> wanted;
  for (const char* text : kArguments) {
    wanted.emplace_back("get_weather", json::parse(text));
    wanted.emplace_back("now", json::object());
  }
  for (const auto& [name, arguments] : wanted)
    calls.push_back(CallJson(name, arguments, static_cast<int>(calls.size())));
  const std::string said =
      Said({{"role", "assistant"}, {"content", ""}, {"tool_calls", std::move(calls)}});
  ExpectCalls(Parsed(said), wanted, said);
}

// Where a template shows the thoughts of a turn, they are read as such. Some show none.
TEST_P(RoundTrip, ThoughtsBeforeText) {
  const std::string said = Said({{"role", "assistant"},
                                 {"content", "It is four."},
                                 {"reasoning_content", "Two and two."},
                                 {"reasoning", "Two and two."},
                                 {"thinking", "Two and two."}});
  // Apriel leaves out the line with which its prompts open thoughts.
  opens_thinking_ |= said.find(format_.thinking.begin) == std::string::npos &&
                     said.find(format_.thinking.end) != std::string::npos;
  const Answer answer = Parsed(said);
  const bool shows_thoughts = said.find("Two and two.") != std::string::npos;
  EXPECT_EQ(answer.reasoning, shows_thoughts ? "Two and two." : "") << said;
  EXPECT_TRUE(answer.content.starts_with("It is four.")) << answer << " of " << said;
}

std::vector<Known> RenderingCalls() {
  std::vector<Known> known;
  for (const Known& each : kKnown)
    if (each.renders_calls) known.push_back(each);
  return known;
}

INSTANTIATE_TEST_SUITE_P(Templates, RoundTrip, testing::ValuesIn(RenderingCalls()),
                         [](const auto& test) {
                           std::string name;
                           for (const char c : std::string(test.param.file))
                             if (std::isalnum(static_cast<unsigned char>(c))) name += c;
                           return name;
                         });

TEST(DetectFormat, TakesFormsThatNoFamilyHasFromTheTemplate) {
  const std::string source = R"({%- for m in messages %}[{{ m.role }}]
{%- if m.tool_calls %}{% for c in m.tool_calls -%}
@call {"name": "{{ c.function.name }}", "args": {{ c.function.arguments | tojson }}} @done
{%- endfor %}{% else %}{{ m.content }}{% endif %}[end]
{%- endfor %}{% if add_generation_prompt %}[assistant]{% endif %})";
  const Format format = Detected(source);
  EXPECT_EQ(format.family, "derived");
  ASSERT_EQ(format.calls.size(), 1U);
  EXPECT_EQ(format.calls[0].begin, "@call");
  EXPECT_EQ(format.calls[0].end, "@done");
  AnswerParser parser(format, std::make_shared<const Tools>(), {.parses_calls = true});
  Answer answer;
  answer.Take(parser.Push(R"(Ok. @call {"name": "f", "args": {"x": 1}} @done)"));
  answer.Take(parser.Flush());
  EXPECT_EQ(answer, (Answer{"Ok.", "", {{"f", R"({"x": 1})", ""}}}));
}

TEST(DetectFormat, FindsNothingWhereTheTemplateShowsNothing) {
  const Format format = Detected("{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(format.family, "");
  EXPECT_TRUE(format.calls.empty());
}

}  // namespace
}  // namespace weft::chat
