#include "chat/format.h"

namespace weft::chat {
namespace {

// DeepSeek's bars and underlines are no ASCII.
#define BAR "\uFF5C"
#define LOW "\u2581"

CallSyntax Block(std::string begin, std::string end, CallForm form = CallForm::kAny) {
  return {.begin = std::move(begin), .end = std::move(end), .form = form};
}

Format Of(std::string family, std::vector<CallSyntax> calls, std::vector<std::string> silent = {}) {
  Format format;
  format.family = std::move(family);
  format.calls = std::move(calls);
  format.silent = std::move(silent);
  return format;
}

Format Mistral() {
  CallSyntax calls = Block("[TOOL_CALLS]", "", CallForm::kNamed);
  calls.name_end = "[ARGS]";
  Format format = Of("mistral", {calls}, {"[/TOOL_CALLS]"});
  format.short_ids = true;
  return format;
}

Format Kimi() {
  CallSyntax calls =
      Block("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", CallForm::kNamed);
  calls.call = "<|tool_call_begin|>";
  calls.name_end = "<|tool_call_argument_begin|>";
  calls.close = "<|tool_call_end|>";
  return Of("kimi", {calls});
}

// V3 and R1: function<sep>F\n```json\n{...}\n```, from V3.1 on F<sep>{...}
Format DeepSeek() {
  CallSyntax calls = Block("<" BAR "tool" LOW "calls" LOW "begin" BAR ">",
                           "<" BAR "tool" LOW "calls" LOW "end" BAR ">", CallForm::kNamed);
  calls.call = "<" BAR "tool" LOW "call" LOW "begin" BAR ">";
  calls.name_end = "<" BAR "tool" LOW "sep" BAR ">";
  calls.close = "<" BAR "tool" LOW "call" LOW "end" BAR ">";
  return Of("deepseek", {calls});
}

Format Solar() {
  CallSyntax calls = Block("<|tool_calls|>", "<|calls|>", CallForm::kNamed);
  calls.call = "<|tool_call:begin|>";
  calls.id_end = "<|tool_call:name|>";
  calls.name_end = "<|tool_call:args|>";
  calls.close = "<|tool_call:end|>";
  Format format = Of("solar", {calls}, {"<|begin|>assistant", "<|content|>", "<|end|>"});
  format.thinking = {"<|think|>", "<|end|>"};
  return format;
}

Format MiniMaxM3() {
  CallSyntax calls =
      Block("]<]minimax[>[<tool_call>", "]<]minimax[>[</tool_call>", CallForm::kElements);
  calls.call = "]<]minimax[>[";
  return Of("minimax-m3", {calls});
}

CallSyntax BareFunction() {
  CallSyntax calls = Block("<function=", "</function>");
  calls.keeps_begin = true;
  return calls;
}

// Qwen3-Coder at times begins with the function itself.
Format Tagged(std::string family, const std::string& begin, const std::string& end) {
  return Of(std::move(family), {Block(begin, end), BareFunction()});
}

Format Channels() {
  Format format = Of("harmony", {});
  format.has_channels = true;
  format.thinking = {};
  return format;
}

std::vector<Family> MakeFamilies() {
  const std::string dsml = "<" BAR "DSML" BAR, end_dsml = "</" BAR "DSML" BAR;
  return {
      {{"<|channel|>", "<|message|>"}, Channels()},
      {{"]<]minimax[>["}, MiniMaxM3()},
      {{BAR "DSML" BAR},
       Of("deepseek-dsml", {Block(dsml + "tool_calls>", end_dsml + "tool_calls>"),
                            Block(dsml + "function_calls>", end_dsml + "function_calls>")})},
      {{"<" BAR "tool" LOW "calls" LOW "begin" BAR ">"}, DeepSeek()},
      {{"<|tool_calls_section_begin|>"}, Kimi()},
      {{"<|tool_call:begin|>"}, Solar()},
      {{"<|tool_call>", "call:"},
       Of("gemma", {Block("<|tool_call>", "<tool_call|>", CallForm::kGemma)})},
      {{"[TOOL_CALLS]"}, Mistral()},
      {{"<|tool_call_start|>"},
       Of("lfm2", {Block("<|tool_call_start|>", "<|tool_call_end|>", CallForm::kPython)})},
      // The tokens of LFM2 are not in its template, which shows tools between these.
      {{"List of tools: "},
       Of("lfm2", {Block("<|tool_call_start|>", "<|tool_call_end|>", CallForm::kPython)})},
      {{"<|START_ACTION|>"},
       Of("command", {Block("<|START_ACTION|>", "<|END_ACTION|>")},
          {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"})},
      {{"Action:\n```json"}, Of("command-r", {Block("Action:\n```json", "```")})},
      {{"<seed:tool_call>"}, Tagged("seed", "<seed:tool_call>", "</seed:tool_call>")},
      {{"<minimax:tool_call>"},
       Of("minimax", {Block("<minimax:tool_call>", "</minimax:tool_call>")})},
      {{"<TOOLCALL>"}, Of("nemotron", {Block("<TOOLCALL>", "</TOOLCALL>")})},
      {{"functools["}, Of("functools", {Block("functools", "")})},
      {{"function call<|role_sep|>"},
       Of("gigachat", {Block("function call<|role_sep|>", "")}, {"<|message_sep|>"})},
      {{"<|tool_call|>"}, Of("granite", {Block("<|tool_call|>", "")}, {"<|/tool_call|>"})},
      {{"<tool_calls>"}, Of("tool-calls", {Block("<tool_calls>", "</tool_calls>")})},
      {{"<tool_call>", "<function="}, Tagged("qwen-coder", "<tool_call>", "</tool_call>")},
      {{"<tool_call>", "<arg_key>"}, Of("glm", {Block("<tool_call>", "</tool_call>")})},
      {{"<tool_call>"}, Of("hermes", {Block("<tool_call>", "</tool_call>")})},
      {{"<function="}, Of("functionary", {BareFunction()})},
      {{"<|python_start|>"},
       Of("llama4",
          {Block("<|python_start|>", "<|python_end|>", CallForm::kPython), Block("", "")})},
      {{"\"parameters\": ", "\"name\": "},
       Of("llama3", {Block("<|python_tag|>", ""), Block("", "")})},
  };
}

}  // namespace

std::vector<std::string> Format::Markers() const {
  std::vector<std::string> markers = silent;
  if (has_channels)
    markers = {"<|start|>", "<|channel|>", "<|message|>",  "<|end|>",
               "<|call|>",  "<|return|>",  "<|constrain|>"};
  for (const CallSyntax& syntax : calls)
    for (const std::string* text : {&syntax.begin, &syntax.end, &syntax.call, &syntax.id_end,
                                    &syntax.name_end, &syntax.close})
      markers.push_back(*text);
  if (family == "gemma") markers.push_back("<|\"|>");
  if (family == "glm") {
    for (const char* tag : {"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"})
      markers.push_back(tag);
  }
  markers.push_back(thinking.begin);
  markers.push_back(thinking.end);
  std::erase(markers, "");
  return markers;
}

const std::vector<Family>& Families() {
  static const std::vector<Family> kFamilies = MakeFamilies();
  return kFamilies;
}

const std::vector<Thinking>& ThinkingMarks() {
  static const std::vector<Thinking> kMarks = {
      {"<|channel>thought", "<channel|>"},
      {"<seed:think>", "</seed:think>"},
      {"<mm:think>", "</mm:think>"},
      {"<|START_THINKING|>", "<|END_THINKING|>"},
      {"[THINK]", "[/THINK]"},
      {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"},
  };
  return kMarks;
}

}  // namespace weft::chat
