// Answers of every family, cut everywhere, and what broken ones give back.
#include "chat/answer_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "chat/answer_testing.h"

namespace weft::chat {
namespace {

using testing::HasSubstr;

std::shared_ptr<const Tools> SomeTools() {
  static const auto kTools = std::make_shared<const Tools>(boost::json::parse(R"([
    {"type": "function", "function": {"name": "get_weather", "parameters": {
      "type": "object",
      "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
                     "exact": {"type": "boolean"}, "at": {"type": "object"},
                     "tags": {"type": ["array", "null"]}}}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object",
                                                                    "properties": {}}}}])")
                                                               .as_array());
  return kTools;
}

const Format& FormatOf(std::string_view family) {
  for (const Family& each : Families())
    if (each.format.family == family) return each.format;
  ADD_FAILURE() << "no family " << family;
  return Families().front().format;
}

constexpr ParserOptions kAll = {.parses_calls = true, .splits_thinking = true};

// Equal for the whole text, for single bytes, and for every cut in two.
Answer Parsed(const Format& format, std::string_view text, const ParserOptions& options = kAll) {
  const auto parse = [&](size_t first, size_t step) {
    AnswerParser parser(format, SomeTools(), options);
    Answer answer;
    for (size_t at = 0; at < text.size();) {
      const size_t count = at == 0 ? first : step;
      answer.Take(parser.Push(text.substr(at, count)));
      at += count;
    }
    answer.Take(parser.Flush());
    return answer;
  };
  const Answer whole = parse(text.size(), text.size());
  EXPECT_EQ(whole, parse(1, 1)) << text;
  for (size_t cut = 1; cut < text.size(); ++cut)
    EXPECT_EQ(whole, parse(cut, text.size())) << "cut at " << cut << " of " << text;
  return whole;
}

struct Example {
  const char* family;
  const char* text;
  Answer answer;
};

const Call kBern = {"get_weather", R"({"city": "Bern"})", ""};
const Call kNow = {"now", "{}", ""};
const Call kBernDays = {"get_weather", R"({"city": "Bern", "days": 3})", ""};

const Example kExamples[] = {
    {"hermes",
     "<think>\nHm.\n</think>\n\nLet me see.\n<tool_call>\n"
     R"({"name": "get_weather", "arguments": {"city": "Bern"}})"
     "\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
     {"Let me see.", "Hm.", {kBern, kNow}}},
    {"hermes",
     "<tool_call>{\"arguments\": {\"city\": \"a</tool_call>b \\\"q\\\" \\u00e9\"}, \"name\": "
     "\"get_weather\"}</tool_call> done ",
     {"done ", "", {{"get_weather", "{\"city\": \"a</tool_call>b \\\"q\\\" \u00e9\"}", ""}}}},
    {"qwen-coder",
     "I look.\n\n<tool_call>\n<function=get_weather>\n<parameter=days>\n3\n</parameter>\n"
     "<parameter=city>\n3\n</parameter>\n<parameter=exact>\nTrue\n</parameter>\n<parameter=at>\n"
     "{\"lat\": 1.50}\n</parameter>\n<parameter=tags>\nnull\n</parameter>\n</function>\n"
     "</tool_call>",
     {"I look.",
      "",
      {{"get_weather",
        R"({"days": 3, "city": "3", "exact": true, "at": {"lat": 1.50}, )"
        R"("tags": null})",
        ""}}}},
    {"qwen-coder",
     "<function=get_weather>\n<parameter=city>\n two\nlines \n</parameter>\n</function>\n"
     "<function=now>\n</function>",
     {"", "", {{"get_weather", R"({"city": " two\nlines "})", ""}, kNow}}},
    {"glm",
     "<think>a</think>\nOf course.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n"
     "<arg_value>Bern</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>"
     "<tool_call>now</tool_call>",
     {"Of course.", "a", {kBernDays, kNow}}},
    {"llama3", R"({"name": "get_weather", "parameters": {"city": "Bern"}})", {"", "", {kBern}}},
    {"llama3", "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}", {"", "", {kNow}}},
    {"llama3",
     R"({"name": "Ada", "parameters": {"born": 1815}} it is)",
     {R"({"name": "Ada", "parameters": {"born": 1815}} it is)", "", {}}},
    {"mistral",
     R"([TOOL_CALLS]get_weather[ARGS]{"city": "Bern"}[TOOL_CALLS]now[ARGS]{})",
     {"", "", {kBern, kNow}}},
    {"mistral",
     R"(Hi[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Bern"}}, )"
     R"({"name": "now", "arguments": {}, "id": "abcdefghi"}])",
     {"Hi", "", {kBern, {"now", "{}", "abcdefghi"}}}},
    {"mistral", R"([TOOL_CALLS]now[CALL_ID]abcdefghi[ARGS]{})", {"", "", {kNow}}},
    {"gemma",
     "<|tool_call>call:get_weather{at:{<|\"|>x,y<|\"|>:[1,true]},city:<|\"|>a}b<tool_call|>\"c"
     "<|\"|>}<tool_call|><|tool_call>call:now{}<tool_call|>",
     {"",
      "",
      {{"get_weather", R"({"at": {"x,y": [1, true]}, "city": "a}b<tool_call|>\"c"})", ""}, kNow}}},
    {"deepseek",
     "Ok.<\uFF5Ctool\u2581calls\u2581begin\uFF5C><\uFF5Ctool\u2581call\u2581begin\uFF5C>function"
     "<\uFF5Ctool\u2581sep\uFF5C>get_weather\n```json\n{\"city\": \"Bern\"}\n```"
     "<\uFF5Ctool\u2581call\u2581end\uFF5C>\n<\uFF5Ctool\u2581call\u2581begin\uFF5C>now"
     "<\uFF5Ctool\u2581sep\uFF5C>{}<\uFF5Ctool\u2581call\u2581end\uFF5C>"
     "<\uFF5Ctool\u2581calls\u2581end\uFF5C>",
     {"Ok.", "", {kBern, kNow}}},
    {"deepseek-dsml",
     "\n\n<\uFF5CDSML\uFF5Ctool_calls>\n<\uFF5CDSML\uFF5Cinvoke name=\"get_weather\">\n"
     "<\uFF5CDSML\uFF5Cparameter name=\"city\" string=\"true\">Bern</\uFF5CDSML\uFF5Cparameter>\n"
     "<\uFF5CDSML\uFF5Cparameter name=\"days\" string=\"false\">3</\uFF5CDSML\uFF5Cparameter>\n"
     "</\uFF5CDSML\uFF5Cinvoke>\n</\uFF5CDSML\uFF5Ctool_calls>",
     {"", "", {kBernDays}}},
    {"minimax",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Bern"
     "</parameter>\n<parameter name=\"days\">3</parameter>\n</invoke>\n<invoke name=\"now\">\n"
     "</invoke>\n</minimax:tool_call>",
     {"", "", {kBernDays, kNow}}},
    {"minimax-m3",
     "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">]<]minimax[>[<at>"
     "]<]minimax[>[<lat>1]<]minimax[>[</lat>]<]minimax[>[</"
     "at>]<]minimax[>[<tags>]<]minimax[>[<item>"
     "x]<]minimax[>[</item>]<]minimax[>[</tags>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
     {"", "", {{"get_weather", R"({"at": {"lat": 1}, "tags": ["x"]})", ""}}}},
    {"kimi",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
     "<|tool_call_argument_begin|>{\"city\": \"Bern\"}<|tool_call_end|>"
     "<|tool_calls_section_end|>",
     {"", "", {{"get_weather", R"({"city": "Bern"})", "functions.get_weather:0"}}}},
    {"lfm2",
     "<|tool_call_start|>[get_weather(city='Bern', days=3), now()]<|tool_call_end|>Ok",
     {"Ok", "", {kBernDays, kNow}}},
    {"granite", R"(<|tool_call|>[{"name": "now", "arguments": {}}])", {"", "", {kNow}}},
    {"granite",
     R"(<|tool_call|>[{"name": "now", "arguments": {}}]<|/tool_call|>)",
     {"", "", {kNow}}},
    {"nemotron", R"(<TOOLCALL>[{"name": "now", "arguments": {}}]</TOOLCALL>)", {"", "", {kNow}}},
    {"command",
     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", "
     "\"parameters\": {\"city\": \"Bern\"}}\n]<|END_ACTION|>",
     {"", "", {kBern}}},
    {"functools", R"(functools[{"name": "now", "arguments": {}}])", {"", "", {kNow}}},
    {"functionary", R"(<function=get_weather>{"city": "Bern"}</function>)", {"", "", {kBern}}},
    {"harmony",
     "<|channel|>analysis<|message|>Weather.<|end|><|start|>assistant<|channel|>commentary"
     "<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather "
     "<|constrain|>json<|message|>{\"city\": \"Bern\"}<|call|>",
     {"I look.", "Weather.", {kBern}}},
    {"harmony",
     "<|channel|>analysis<|message|>Easy.<|end|><|start|>assistant<|channel|>final"
     "<|message|>Four. <|return|>",
     {"Four. ", "Easy.", {}}},
    {"harmony", " to=functions.now<|channel|>commentary json<|message|>{}", {"", "", {kNow}}},
    {"harmony", "no channels", {"no channels", "", {}}},
};

TEST(AnswerParser, ReadsEveryFamilyWhereverItIsCut) {
  for (const Example& example : kExamples) {
    SCOPED_TRACE(example.family);
    EXPECT_EQ(Parsed(FormatOf(example.family), example.text), example.answer) << example.text;
  }
}

TEST(AnswerParser, GivesBackWhatIsNoCall) {
  const char* texts[] = {
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"ci",  // cut off
      "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\"}}</tool_call> so",
      "The <tool_call> marker begins a call. </tool_call> ends it.",
      "<tool_call>{\"name\": 5, \"arguments\": {}}</tool_call>",
      "<tool_call>{\"name\": \"two words\"}</tool_call>",
      "<tool_call>[]</tool_call>",
      "<tool_call></tool_call>",
      "<tool_ca",
      "a <tool_",
      " plain \n\n",
      "if (a < b && c) {}",
  };
  for (const char* text : texts)
    EXPECT_EQ(Parsed(FormatOf("hermes"), text), (Answer{text, "", {}})) << text;
  EXPECT_EQ(Parsed(FormatOf("glm"), "<tool_call>f<arg_key>a</arg_key></tool_call>").content,
            "<tool_call>f<arg_key>a</arg_key></tool_call>");
  EXPECT_EQ(Parsed(FormatOf("mistral"), "[TOOL_CALLS] is a marker").content,
            "[TOOL_CALLS] is a marker");
  EXPECT_EQ(
      Parsed(FormatOf("harmony"), " to=functions.now<|channel|>commentary<|message|>{\"a").content,
      "{\"a");
}

TEST(AnswerParser, KeepsTheWholeCallsOfABlockThatBreaksOff) {
  const Answer answer = Parsed(
      FormatOf("lfm2"), "<|tool_call_start|>[now(), get_weather(city=Bern)]<|tool_call_end|>");
  EXPECT_EQ(answer, (Answer{", get_weather(city=Bern)]<|tool_call_end|>", "", {kNow}}));
}

TEST(AnswerParser, TellsNamesThatNoToolHas) {
  EXPECT_EQ(
      Parsed(FormatOf("hermes"), R"(<tool_call>{"name": "fly", "arguments": {}}</tool_call>)"),
      (Answer{"", "", {{"fly", "{}", ""}}}));
}

TEST(AnswerParser, LeavesTextAloneThatIsNotToBeParsed) {
  const char* text = "<think>a</think> <tool_call>{\"name\": \"now\"}</tool_call>";
  EXPECT_EQ(Parsed(FormatOf("hermes"), text, {}).content, text);
  EXPECT_EQ(Parsed(FormatOf("hermes"), text, {.splits_thinking = true}),
            (Answer{"<tool_call>{\"name\": \"now\"}</tool_call>", "a", {}}));
}

TEST(AnswerParser, ThoughtsMayBeOpenBeforeTheAnswer) {
  ParserOptions options = kAll;
  options.opens_thinking = true;
  EXPECT_EQ(Parsed(FormatOf("hermes"), " so\n</think>\nIt is <think>.", options),
            (Answer{"It is <think>.", "so", {}}));
  EXPECT_EQ(Parsed(FormatOf("hermes"), "never ends", options), (Answer{"", "never ends", {}}));
  EXPECT_EQ(Parsed(FormatOf("hermes"), "</think>Four."), (Answer{"Four.", "", {}}));
}

TEST(AnswerParser, EndsWithTheFirstCallWhereOneIsWanted) {
  ParserOptions options = kAll;
  options.ends_with_call = true;
  for (const Example& example : kExamples) {
    if (example.answer.calls.size() < 2) continue;
    const Answer answer = Parsed(FormatOf(example.family), example.text, options);
    EXPECT_THAT(answer.calls, testing::ElementsAre(example.answer.calls[0])) << example.text;
  }
}

// Long texts that come byte by byte: each costs as much as the one before.
TEST(AnswerParser, TakesTimeInProportionToTheText) {
  const std::string inputs[] = {std::string(2 << 20, ' '), std::string(2 << 20, '<'),
                                "<tool_call>{\"a\": \"" + std::string(2 << 20, 'x'),
                                "<tool_call>" + std::string(2 << 20, '{')};
  for (const std::string& input : inputs) {
    AnswerParser parser(FormatOf("hermes"), SomeTools(), kAll);
    Answer answer;
    for (const char c : input) answer.Take(parser.Push(std::string_view(&c, 1)));
    answer.Take(parser.Flush());
    EXPECT_EQ(answer.content, input);
  }
}

TEST(Families, NoMarkerBeginsAnother) {
  for (const Family& family : Families()) {
    std::vector<std::string> markers = family.format.silent;
    for (const CallSyntax& syntax : family.format.calls) markers.push_back(syntax.begin);
    for (const std::string& one : markers)
      for (const std::string& other : markers)
        EXPECT_TRUE(one.empty() || one == other || !other.starts_with(one)) << one;
  }
}

}  // namespace
}  // namespace weft::chat
