// `weft tokenize` and `weft render` over the reference data's real tokenizers and templates, whose
// ids and texts other implementations wrote.
#include "apps/text_tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "text/test_data.h"

namespace weft::apps {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using testing::HasSubstr;

struct Outcome {
  std::string out;
  std::string error;  // empty: none
};

Outcome TokenizeText(const std::string& source, const std::string& input,
                     const TokenizeOptions& options = {}) {
  const auto texts = ReadModelTexts(source, "tokenizer.json");
  if (!texts.ok()) return {"", texts.error().ToString()};
  const auto tokenizer = Tokenizer::FromJson(AsBytes(texts->at("tokenizer.json")));
  if (!tokenizer.ok()) return {"", tokenizer.error().ToString()};
  std::istringstream in(input);
  std::ostringstream out;
  const Status status = TokenizeLines(*tokenizer, options, in, out);
  return {out.str(), status.ok() ? "" : status.error().ToString()};
}

Outcome RenderText(const std::string& source, const std::string& variables) {
  const auto texts = ReadModelTexts(source, "chat_template.jinja");
  if (!texts.ok()) return {"", texts.error().ToString()};
  const auto chat = api::ModelTemplate::Load(*texts);
  if (!chat.ok()) return {"", chat.error().ToString()};
  std::istringstream in(variables);
  const auto text = RenderVariables(*chat, in);
  return text.ok() ? Outcome{*text, ""} : Outcome{"", text.error().ToString()};
}

// A folder of its own with the files given.
class Folder {
 public:
  using Files = std::vector<std::pair<const char*, std::string>>;
  explicit Folder(const Files& files) {
    static int count = 0;
    path_ = fs::temp_directory_path() /
            ("weft-text-tools-" + std::to_string(getpid()) + "-" + std::to_string(count++));
    fs::create_directories(path_);
    for (const auto& [name, text] : files) std::ofstream(path_ / name) << text;
  }
  ~Folder() { fs::remove_all(path_); }
  std::string path(const std::string& name = "") const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

// Byte-level in the smallest: two letters, their pair, and one special token.
constexpr const char* kTinyTokenizer = R"({
  "added_tokens": [{"id": 3, "content": "<end>", "special": true, "single_word": false,
                    "lstrip": false, "rstrip": false, "normalized": false}],
  "normalizer": null, "decoder": {"type": "ByteLevel"},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "post_processor": null,
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})";

TEST(TokenizeCommand, ALineOfTextGivesALineOfIds) {
  const Folder folder(
      Folder::Files{{"tokenizer.json", kTinyTokenizer}, {"other.json", kTinyTokenizer}});
  for (const std::string& source :
       {folder.path("tokenizer.json"), folder.path("other.json"), folder.path()}) {
    const Outcome got = TokenizeText(source, "\"abba\"\n\"\"\n \"b\\u0061\" \n");
    EXPECT_EQ(got.error, "");
    EXPECT_EQ(got.out, "[2,1,0]\n[]\n[1,0]\n");
  }
}

TEST(TokenizeCommand, SpecialTokensCanBePlainText) {
  const Folder folder(Folder::Files{{"tokenizer.json", kTinyTokenizer}});
  EXPECT_EQ(TokenizeText(folder.path(), "\"a<end>b\"").out, "[0,3,1]\n");
  EXPECT_EQ(TokenizeText(folder.path(), "\"a<end>b\"", {.parse_special = false}).out, "[0,1]\n");
}

TEST(TokenizeCommand, ErrorsNameTheLineAndKeepWhatCameBefore) {
  const Folder folder(Folder::Files{{"tokenizer.json", kTinyTokenizer}});
  for (const auto& [bad, why] : {std::pair{"hello", "Line 2 of the input is not JSON"},
                                 {"\"half", "Line 2 of the input is not JSON: incomplete JSON"},
                                 {"\"a\" \"b\"", "Line 2 of the input is not JSON: extra data"},
                                 {"", "Line 2 of the input is not JSON"},
                                 {"[1, 2]", "Line 2 of the input is not a JSON string"},
                                 {"\"\xff\"", "Line 2 of the input"}}) {
    const Outcome got = TokenizeText(folder.path(), std::string("\"ab\"\n") + bad + "\n\"a\"\n");
    EXPECT_EQ(got.out, "[2]\n");
    EXPECT_THAT(got.error, HasSubstr(why)) << bad;
  }
}

TEST(TokenizeCommand, SourcesThatAreNoneSayWhatWasTried) {
  EXPECT_THAT(TokenizeText("/nowhere/tokenizer.json", "").error, HasSubstr("/nowhere"));
  const Folder folder(Folder::Files{{"broken.json", "{\"model\": "}, {"broken.gguf", "GGUX"}});
  EXPECT_THAT(TokenizeText(folder.path("broken.gguf"), "").error, HasSubstr("broken.gguf"));
  EXPECT_NE(TokenizeText(folder.path("broken.json"), "").error, "");
}

class RealTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(RealTokenizer, GivesTheIdsOfHuggingFace) {
  const fs::path folder = TestDataFolder() / "tokenizers" / GetParam();
  WEFT_NEED_DATA(folder);
  std::string input, expected;
  const json::value cases = json::parse(*ReadTextFile(folder / "expected.json"));
  for (const json::value& test : cases.as_array()) {
    input += json::serialize(test.at("text")) + "\n";
    expected += json::serialize(test.at("ids")) + "\n";
  }
  const Outcome got = TokenizeText((folder / "tokenizer.json").string(), input);
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.out, expected);
}
INSTANTIATE_TEST_SUITE_P(Tokenizers, RealTokenizer, testing::Values("gpt2", "phi3"));

class GgufTokenizer : public testing::TestWithParam<const char*> {};

// llama.cpp's own cases: texts between lines of a marker, ids a line.
TEST_P(GgufTokenizer, GivesTheIdsOfLlamaCpp) {
  const fs::path file = TestDataFolder() / "tokenizers" / (std::string(GetParam()) + ".gguf");
  WEFT_NEED_DATA(file);
  const std::string texts = *ReadTextFile(file.string() + ".inp");
  const std::string marker = "\n__ggml_vocab_test__\n";
  std::string input;
  for (size_t at = 0; at < texts.size();) {
    const size_t end = std::min(texts.find(marker, at), texts.size());
    if (end == texts.size()) break;  // what follows the last marker is no case
    input += json::serialize(json::string(texts.substr(at, end - at))) + "\n";
    at = end + marker.size();
  }
  std::string expected;
  std::istringstream ids(*ReadTextFile(file.string() + ".out"));
  for (std::string line; std::getline(ids, line);) {
    json::array row;
    std::istringstream numbers(line);
    for (int32_t id = 0; numbers >> id;) row.push_back(id);
    expected += json::serialize(row) + "\n";
  }
  const Outcome got = TokenizeText(file.string(), input);
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.out, expected);
}
INSTANTIATE_TEST_SUITE_P(Vocabularies, GgufTokenizer,
                         testing::Values("vocab-gpt-2", "vocab-llama-bpe", "vocab-qwen2"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(RenderCommand, VariablesBecomeTheTemplatesText) {
  const Folder folder(
      Folder::Files{{"chat.txt",
                     "{{ bos_token }}{% for m in messages %}{{ m.role }}: "
                     "{{ m.content }}\n{% endfor %}"},
                    {"chat_template.jinja", "{{ bos_token }}{{ x }}{{ eos_token }}"},
                    {"tokenizer_config.json",
                     R"({"bos_token": "<s>", "eos_token": {"content": "</s>"},
                            "chat_template": "{{ bos_token }}from the config"})"}});
  EXPECT_EQ(
      RenderText(folder.path("chat.txt"), R"({"messages": [{"role": "user", "content": "Grüße"}]})")
          .out,
      "user: Grüße\n");
  EXPECT_EQ(RenderText(folder.path("tokenizer_config.json"), "{}").out, "<s>from the config");
  // A folder's own template goes before the configuration's, given tokens before the folder's.
  EXPECT_EQ(RenderText(folder.path(), R"({"x": "hi"})").out, "<s>hi</s>");
  EXPECT_EQ(RenderText(folder.path(), R"({"x": 1, "eos_token": "!"})").out, "<s>1!");
}

TEST(RenderCommand, ErrorsNameTheLine) {
  const Folder folder(Folder::Files{{"good.jinja", "{{ x }}"}, {"bad.jinja", "one\ntwo {% if %}"}});
  EXPECT_THAT(RenderText(folder.path("bad.jinja"), "{}").error, HasSubstr("ine 2"));
  EXPECT_THAT(RenderText(folder.path("good.jinja"), "{\n\"x\": 1,\n\"y\": }\n").error,
              HasSubstr("Line 3 of the input is not JSON"));
  EXPECT_THAT(RenderText(folder.path("good.jinja"), "[1]").error,
              HasSubstr("not a JSON object of variables"));
  EXPECT_THAT(RenderText(folder.path("good.jinja"), "").error, HasSubstr("Line 1"));
}

TEST(RenderCommand, RendersARealTemplate) {
  const fs::path file = TestDataFolder() / "templates" / "Qwen-Qwen3-0.6B.jinja";
  WEFT_NEED_DATA(file);
  const Outcome got = RenderText(file.string(), R"({"add_generation_prompt": true,
      "enable_thinking": false, "messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.out,
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

}  // namespace
}  // namespace weft::apps
