// Tokenizers from GGUF vocabularies, by way of the tokenizer.json that says the same, against the
// ids that the llama.cpp project publishes with them, and on thousands of generated strings against
// @huggingface/tokenizers (tools/text_oracle/tokenizers.mjs).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "text/test_data.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocabulary_spec.h"

namespace weft {
namespace {

using testing::HasSubstr;

// The tokenizer.* fields of a GGUF file, no more; src/convert has the reader that checks.
class GgufFields {
 public:
  explicit GgufFields(const std::filesystem::path& path) : file_(*MappedFile::Open(path)) {
    at_ = 8;
    Number<uint64_t>();  // tensors
    const auto field_count = Number<uint64_t>();
    for (uint64_t i = 0; i < field_count; ++i) {
      const std::string key = Text();
      ReadValue(key, Number<uint32_t>());
    }
  }
  VocabularySpec spec;

 private:
  template <typename T>
  T Number() {
    const T value = LoadLe<T>(file_->bytes().subspan(at_, sizeof(T)).data());
    at_ += sizeof(T);
    return value;
  }
  std::string Text() {
    const auto length = Number<uint64_t>();
    std::string text(AsText(file_->bytes().subspan(at_, length)));
    at_ += length;
    return text;
  }
  void ReadValue(const std::string& key, uint32_t type) {
    static constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == 8) {
      const std::string text = Text();
      if (key == "tokenizer.ggml.model") spec.model = text;
      if (key == "tokenizer.ggml.pre") spec.pre = text;
    } else if (type == 9) {
      const auto item_type = Number<uint32_t>();
      const auto count = Number<uint64_t>();
      for (uint64_t i = 0; i < count; ++i) ReadItem(key, item_type, kSizes[item_type]);
    } else if (type == 7) {
      const bool flag = Number<uint8_t>() != 0;
      if (key == "tokenizer.ggml.add_bos_token") spec.add_bos = flag;
      if (key == "tokenizer.ggml.add_eos_token") spec.add_eos = flag;
      if (key == "tokenizer.ggml.add_space_prefix") spec.add_space_prefix = flag;
    } else if (kSizes[type] == 4) {
      const auto value = static_cast<int32_t>(Number<uint32_t>());
      if (key == "tokenizer.ggml.bos_token_id") spec.bos_id = value;
      if (key == "tokenizer.ggml.eos_token_id") spec.eos_id = value;
      if (key == "tokenizer.ggml.unknown_token_id") spec.unknown_id = value;
    } else {
      at_ += kSizes[type];
    }
  }
  void ReadItem(const std::string& key, uint32_t type, size_t byte_count) {
    if (type == 8) {
      std::string text = Text();
      if (key == "tokenizer.ggml.tokens")
        spec.tokens.push_back(std::move(text));
      else if (key == "tokenizer.ggml.merges")
        spec.merges.push_back(std::move(text));
    } else if (key == "tokenizer.ggml.scores") {
      spec.scores.push_back(Number<float>());
    } else if (key == "tokenizer.ggml.token_type") {
      spec.types.push_back(Number<int32_t>());
    } else {
      at_ += byte_count;
    }
  }

  std::shared_ptr<const MappedFile> file_;
  size_t at_ = 0;
};

Result<Tokenizer> FromVocabulary(const VocabularySpec& spec) {
  ASSIGN_OR_RETURN(const std::string json, TokenizerJson(spec));
  return Tokenizer::FromJson(AsBytes(json));
}

class GgufVocabulary : public testing::TestWithParam<const char*> {};

TEST_P(GgufVocabulary, SameIds) {
  const auto path =
      TestDataFolder() / "tokenizers" / (std::string("vocab-") + GetParam() + ".gguf");
  WEFT_NEED_DATA(path);
  const auto tokenizer = FromVocabulary(GgufFields(path).spec);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
  // Texts between lines of "__ggml_vocab_test__"; one line of ids each.
  const std::string inputs = *ReadTextFile(path.string() + ".inp");
  std::ifstream outputs(path.string() + ".out");
  const std::string separator = "\n__ggml_vocab_test__\n";
  size_t count = 0;
  for (size_t begin = 0; begin <= inputs.size(); ++count) {
    const size_t end = std::min(inputs.find(separator, begin), inputs.size());
    const std::string text = inputs.substr(begin, end - begin);
    begin = end + separator.size();
    std::string line;
    if (!std::getline(outputs, line)) break;
    std::istringstream numbers(line);
    std::vector<int32_t> expected;
    for (int32_t id = 0; numbers >> id;) expected.push_back(id);
    const auto ids = tokenizer->Encode(text, false);
    ASSERT_TRUE(ids.ok()) << ids.error().ToString();
    EXPECT_EQ(*ids, expected) << "test " << count << ": " << text;
    // Qwen's normal form may change the text; these texts are in it.
    EXPECT_EQ(tokenizer->Decode(expected, false), text);
  }
  EXPECT_GE(count, 40u);
}

TEST_P(GgufVocabulary, SameIdsAndTextOfGeneratedStrings) {
  const std::string name = GetParam();
  const auto path = TestDataFolder() / "tokenizers" / ("vocab-" + name + ".gguf");
  WEFT_NEED_DATA(path);
  const auto answers = TextOracleFolder() / ("tokenizer-gguf-" + name + ".json");
  WEFT_NEED_ORACLE(answers, "tokenizers.mjs");
  const auto tokenizer = FromVocabulary(GgufFields(path).spec);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
  const boost::json::value oracle = boost::json::parse(*ReadTextFile(answers));
  const boost::json::array& cases = oracle.at("cases").as_array();
  EXPECT_GE(cases.size(), 2000u);
  int failures = 0;
  for (const boost::json::value& test : cases) {
    const std::string text(test.at("text").as_string());
    const auto wanted = boost::json::value_to<std::vector<int32_t>>(test.at("ids"));
    const auto ids = tokenizer->Encode(text, false);
    ASSERT_TRUE(ids.ok()) << ids.error().ToString();
    Detokenizer detokenizer(*tokenizer, true);
    std::string streamed;
    for (const int32_t id : wanted) streamed += detokenizer.Push(id);
    streamed += detokenizer.Flush();
    const bool same = *ids == wanted &&
                      tokenizer->Decode(wanted, false) == test.at("decoded").as_string() &&
                      streamed == test.at("decoded_skip").as_string();
    if (!same && ++failures <= 3) ADD_FAILURE() << boost::json::serialize(test);
  }
  EXPECT_EQ(failures, 0) << " of " << cases.size() << " strings";
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, GgufVocabulary,
                         testing::Values("gpt-2", "llama-bpe", "qwen2", "deepseek-llm",
                                         "llama-spm"));

// "q" and an acute accent (bytes CC 81), which has no letter of its own, are one word to Qwen3.5.
TEST(Vocabulary, Qwen35KeepsMarksWithLetters) {
  VocabularySpec spec{
      .model = "gpt2", .pre = "qwen35", .tokens = {"q", "Ì", "ģ", "qÌ"}, .merges = {"q Ì"}};
  const std::string text = "q\xCC\x81";
  const auto joined = FromVocabulary(spec);
  ASSERT_TRUE(joined.ok()) << joined.error().ToString();
  EXPECT_EQ(*joined->Encode(text, false), (std::vector<int32_t>{3, 2}));
  spec.pre = "qwen2";
  const auto apart = FromVocabulary(spec);
  ASSERT_TRUE(apart.ok()) << apart.error().ToString();
  EXPECT_EQ(*apart->Encode(text, false), (std::vector<int32_t>{0, 1, 2}));
}

// Digits stand alone to Seed-OSS, and what is neither a letter nor a digit takes no line end along.
TEST(Vocabulary, SeedCutsDigitsAndLineEndsOff) {
  VocabularySpec spec{.model = "gpt2",
                      .pre = "seed-coder",
                      .tokens = {"1", "2", "!", "\u010A", "12", "!\u010A"},
                      .merges = {"1 2", "! \u010A"}};
  const auto apart = FromVocabulary(spec);
  ASSERT_TRUE(apart.ok()) << apart.error().ToString();
  EXPECT_EQ(*apart->Encode("12!\n", false), (std::vector<int32_t>{0, 1, 2, 3}));
  spec.pre = "llama-bpe";
  const auto joined = FromVocabulary(spec);
  ASSERT_TRUE(joined.ok()) << joined.error().ToString();
  EXPECT_EQ(*joined->Encode("12!\n", false), (std::vector<int32_t>{4, 5}));
}

// Gemma 4: spaces replaced and none put in front, the merges in their order, bytes for the rest.
TEST(Vocabulary, Gemma4HasMergesOfEscapedText) {
  VocabularySpec spec{.model = "gemma4",
                      .tokens = {"<unk>", "<bos>", "a", "b", "\u2581", "ab", "\u2581a", "<0xC3>",
                                 "<0xA9>", "<turn|>", "\n", "\n\n"},
                      .types = {2, 3, 1, 1, 1, 1, 1, 6, 6, 3, 1, 1},
                      .merges = {"\u2581 a", "a b", "\n \n"},
                      .bos_id = 1,
                      .unknown_id = 0};
  const auto tokenizer = FromVocabulary(spec);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
  const std::string text = "ab ab\n\n\xC3\xA9";
  const std::vector<int32_t> ids{5, 6, 3, 11, 7, 8};
  EXPECT_EQ(*tokenizer->Encode(text, false), ids);
  EXPECT_EQ(tokenizer->Decode(ids, false), text);
  EXPECT_EQ(*tokenizer->Encode(" b<turn|>", true), (std::vector<int32_t>{1, 4, 3, 9}));
  spec.merges = {"a \u2581"};
  const auto refused = FromVocabulary(spec);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("not in the vocabulary"));
}

TEST(Vocabulary, WhatEndsATurnIsAControlTokenWhateverItsType) {
  VocabularySpec spec{.model = "gpt2",
                      .pre = "gpt-2",
                      .tokens = {"<", "|", "e", "n", "d", ">", "<|end|>", "</s>"},
                      .types = {1, 1, 1, 1, 1, 1, 1, 1}};
  EXPECT_EQ(*FromVocabulary(spec)->Encode("<|end|>", false), (std::vector<int32_t>{6}));
  EXPECT_EQ(FromVocabulary(spec)->Decode(std::vector<int32_t>{0, 6}, true), "<");
  spec.types.clear();
  EXPECT_EQ(*FromVocabulary(spec)->Encode("<|end|>", false), (std::vector<int32_t>{6}));
  // A word of HTML, unless the file says more.
  const std::vector<int32_t> as_word = *FromVocabulary(spec)->Encode("</s>", false);
  EXPECT_NE(as_word, (std::vector<int32_t>{7}));
  spec.eos_id = 7;
  EXPECT_EQ(*FromVocabulary(spec)->Encode("</s>", false), (std::vector<int32_t>{7}));
  // More types and scores than tokens: llama.cpp takes that.
  spec.types = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_TRUE(FromVocabulary(spec).ok());
}

// As llama.cpp cuts it out of any text that may have control tokens.
TEST(Vocabulary, TheUnknownTokenIsASpecialToken) {
  const VocabularySpec spec{.model = "gpt2",
                            .pre = "gpt-2",
                            .tokens = {"<", "u", "n", "k", ">", "<unk>"},
                            .types = {1, 1, 1, 1, 1, 2}};
  EXPECT_EQ(*FromVocabulary(spec)->Encode("<unk>", false), (std::vector<int32_t>{5}));
  EXPECT_EQ(*FromVocabulary(spec)->Encode("<unk>", false, /*parse_special=*/false),
            (std::vector<int32_t>{0, 1, 2, 3, 4}));
}

TEST(Vocabulary, MergesWinOverScoresThatAreIndices) {
  VocabularySpec spec{.model = "llama",
                      .tokens = {"<unk>", "a", "b", "c", "ab", "bc"},
                      .scores = {0, -1, -2, -3, -4, -5},
                      .types = {2, 1, 1, 1, 1, 1},
                      .unknown_id = 0,
                      .add_space_prefix = false};
  EXPECT_EQ(*FromVocabulary(spec)->Encode("abc", false), (std::vector<int32_t>{4, 3}));
  spec.merges = {"b c", "a b"};
  EXPECT_EQ(*FromVocabulary(spec)->Encode("abc", false), (std::vector<int32_t>{1, 5}));
  spec.scores.clear();
  EXPECT_EQ(*FromVocabulary(spec)->Encode("abc", false), (std::vector<int32_t>{1, 5}));
  // Merges of another vocabulary say nothing.
  spec.merges = {"x y"};
  EXPECT_FALSE(FromVocabulary(spec).ok());
  spec.scores = {0, -1, -2, -3, -4, -5};
  EXPECT_EQ(*FromVocabulary(spec)->Encode("abc", false), (std::vector<int32_t>{4, 3}));
}

TEST(Vocabulary, Phi3TakesTheWhiteSpaceBehindItsTokens) {
  VocabularySpec spec{.model = "llama",
                      .tokens = {"<unk>", "<s>", "\n", "a", "<|user|>", "<|endoftext|>"},
                      .scores = {0, 0, -1, -2, 0, 0},
                      .types = {2, 3, 1, 1, 3, 3},
                      .unknown_id = 0,
                      .add_space_prefix = false};
  const auto ids = [&](const char* text) { return *FromVocabulary(spec)->Encode(text, false); };
  EXPECT_EQ(ids("<|user|>\n\na"), (std::vector<int32_t>{4, 2, 2, 3}));
  spec.strips_behind_tokens = true;
  EXPECT_EQ(ids("<|user|>\n\na"), (std::vector<int32_t>{4, 3}));
  EXPECT_EQ(ids("<s>\na<|endoftext|>\n"), (std::vector<int32_t>{1, 2, 3, 5, 2}));
}

// Texts that each name cuts in a way of its own; what the words are is seen by a vocabulary of
// bytes alone with one merge across each place where one may be cut.
TEST(Vocabulary, EveryNameThatLlamaCppKnowsHasItsPattern) {
  const auto words = [](std::string_view pre, std::initializer_list<std::string> merged,
                        const std::string& text) {
    VocabularySpec spec{.model = "gpt2", .pre = std::string(pre)};
    for (char c = 33; c < 127; ++c) spec.tokens.emplace_back(1, c);
    spec.tokens.emplace_back("\u0120");
    for (const std::string& pair : merged) {
      spec.merges.push_back(pair.substr(0, 1) + " " + pair.substr(1));
      spec.tokens.push_back(pair);
    }
    const auto tokenizer = FromVocabulary(spec);
    EXPECT_TRUE(tokenizer.ok()) << pre << tokenizer.error().ToString();
    std::string shown;
    const auto ids = tokenizer->Encode(text, false);
    for (const int32_t id : *ids) {
      shown += (shown.empty() ? "" : "|") + spec.tokens[static_cast<size_t>(id)];
    }
    return shown;
  };
  EXPECT_EQ(words("superbpe", {"12", "23", "34"}, "1234"), "1|23|4");
  EXPECT_EQ(words("tiny_aya", {"12", "23", "34"}, "1234"), "1|23|4");
  EXPECT_EQ(words("afmoe", {"12", "23", "34"}, "1234"), "1|23|4");
  EXPECT_EQ(words("llama-bpe", {"12", "23", "34"}, "1234"), "12|3|4");
  EXPECT_EQ(words("solar-open", {"12", "ab"}, "12ab"), "1|2|ab");
  EXPECT_EQ(words("minicpm5", {"34", "45"}, "12345"), "1|2|3|45");
  EXPECT_EQ(words("kimi-k2", {"aB", "Bc"}, "aBc"), "a|Bc");
  EXPECT_EQ(words("ufakzeka", {"'s"}, "a's"), "a|'s");
  EXPECT_EQ(words("bloom", {"12", "a."}, "12a."), "12|a|.");
  EXPECT_EQ(words("viking", {"12"}, "12"), "1|2");
  for (const char* name : {"a.x-4.0",    "bailingmoe", "chameleon", "cohere2moe",
                           "exaone-moe", "f2llmv2",    "gigachat",  "granite-embed-multi-97m",
                           "grok-2",     "hy_v4",      "jais-2",    "kanana2",
                           "kormo",      "laguna",     "mellum",    "mellum2",
                           "midm-2.0",   "minimax-m2", "poro-chat", "spark2_5",
                           "talkie",     "youtu"}) {
    EXPECT_EQ(words(name, {"ab"}, "ab cd!"), "ab|\u0120|c|d|!") << name;
  }
}

// Sarvam: as Gemma 4, but that runs of line ends are cut off.
TEST(Vocabulary, SarvamHasMergesOfEscapedText) {
  const VocabularySpec spec{
      .model = "gpt2",
      .pre = "sarvam-moe",
      .tokens = {"a", "b", "\u2581", "\u2581a", "\n", "\n\n", "b\n", "<0xC3>", "<0xA9>"},
      .types = {1, 1, 1, 1, 1, 1, 1, 6, 6},
      .merges = {"b \n", "\u2581 a", "\n \n"}};
  const auto tokenizer = FromVocabulary(spec);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
  const std::string text = "a ab\n\n\xC3\xA9";
  const std::vector<int32_t> ids{0, 3, 1, 5, 7, 8};
  EXPECT_EQ(*tokenizer->Encode(text, true), ids);
  EXPECT_EQ(tokenizer->Decode(ids, false), text);
}

// Words without what is between them where the kind says so, else white space is words, too.
TEST(Vocabulary, WhitespaceCutsWordsOfCharacters) {
  VocabularySpec spec{.model = "whitespace",
                      .pre = "whitespace",
                      .tokens = {"a", "b", "ab", " ", "b ", "\u00e9", "<0xC3>", "<0x89>"},
                      .types = {1, 1, 1, 1, 1, 1, 6, 6, 1},
                      .merges = {"b  ", "a b"}};
  using Ids = std::vector<int32_t>;
  const auto ids = [&](const char* text) { return *FromVocabulary(spec)->Encode(text, false); };
  EXPECT_EQ(ids(" ab \n b\u00e9\u00c9"), (Ids{2, 1, 5, 6, 7}));
  EXPECT_EQ(FromVocabulary(spec)->Decode(Ids{2, 1, 6, 7}, false), "abb\u00c9");
  spec.lowercase = true;
  EXPECT_EQ(ids("AB\u00c9"), (Ids{2, 5}));
  spec.tokens.emplace_back("i");
  EXPECT_EQ(ids("\u0130"), (Ids{8}));  // one character of one
  spec.pre = "gpt-2";
  EXPECT_FALSE(FromVocabulary(spec).ok());
  spec = {.model = "gpt2", .pre = "whitespace", .tokens = spec.tokens, .merges = spec.merges};
  EXPECT_EQ(ids("ab b"), (Ids{2, 3, 1}));
}

VocabularySpec UnigramSpec() {
  return {.model = "t5",
          .tokens = {"<pad>", "</s>", "<unk>", "\u2581", "a", "b", "\u2581a", "ab", "<0x61>",
                     "user", "low", "X"},
          .scores = {0, 0, 0, -2, -3, -3, -3.5, -4, 0, -50, -99, -3},
          .types = {3, 3, 2, 1, 1, 1, 1, 1, 6, 4, 5, 1},
          .eos_id = 1,
          .add_space_prefix = false};
}

// Spaces in front, between and behind as T5's and XLM-R's files want them.
TEST(Vocabulary, UnigramSpaces) {
  VocabularySpec spec = UnigramSpec();
  using Ids = std::vector<int32_t>;
  const auto ids = [&](const char* text) { return *FromVocabulary(spec)->Encode(text, false); };
  EXPECT_EQ(ids("  a  b "), (Ids{3, 6, 3, 3, 5, 3}));
  EXPECT_EQ(ids("ab"), (Ids{7}));
  spec.add_space_prefix = true;
  EXPECT_EQ(ids("  a  b "), (Ids{3, 3, 6, 3, 3, 5, 3}));
  EXPECT_EQ(ids("ab"), (Ids{3, 7}));
  EXPECT_EQ(ids("  "), (Ids{3, 3}));
  EXPECT_EQ(ids("a\nb"), (Ids{6, 2, 5}));
  EXPECT_EQ(FromVocabulary(spec)->Decode(Ids{3, 7, 6}, false), "ab a");
  spec.remove_extra_spaces = true;
  EXPECT_EQ(ids("  a  b "), (Ids{6, 3, 5}));
  EXPECT_EQ(ids("  "), Ids{});
  EXPECT_EQ(ids(""), Ids{});
  spec.add_space_prefix = false;
  EXPECT_EQ(ids(" a"), (Ids{6}));
}

TEST(Vocabulary, UnigramTokensByTheirTypes) {
  VocabularySpec spec = UnigramSpec();
  using Ids = std::vector<int32_t>;
  const auto ids = [&](const char* text, bool parse_special = true) {
    return *FromVocabulary(spec)->Encode(text, false, parse_special);
  };
  EXPECT_EQ(ids("auserb"), (Ids{4, 9, 5}));
  EXPECT_EQ(ids("a</s>"), (Ids{4, 1}));
  EXPECT_EQ(ids("a</s>", false), (Ids{4, 2}));
  EXPECT_EQ(ids("<0x61>"), (Ids{2}));
  // Three unknown characters at -14 each, ten below the worst normal token, beat an unused one.
  EXPECT_EQ(ids("low"), (Ids{2}));
  spec.scores[10] = -40;
  EXPECT_EQ(ids("low"), (Ids{10}));
  EXPECT_EQ(*FromVocabulary(spec)->Encode("b", true), (Ids{5, 1}));
  spec.add_eos = false;
  EXPECT_EQ(*FromVocabulary(spec)->Encode("b", true), (Ids{5}));
  spec.unknown_id = 5;
  EXPECT_EQ(ids("x"), (Ids{5}));
}

// Of "a" -> "X" and "ab" -> "b" the longer one counts.
TEST(Vocabulary, UnigramCharacterMap) {
  VocabularySpec spec = UnigramSpec();
  spec.charsmap.resize(4 + 4 * 256);
  const auto unit = [&](uint32_t at, uint32_t value) {
    StoreLe<uint32_t>(spec.charsmap.data() + 4 + 4 * at, value);
  };
  StoreLe<uint32_t>(spec.charsmap.data(), 4 * 256);
  unit(0, 1u << 10);
  unit(1 ^ 'a', 'a' | 1u << 8 | (1 ^ 'a' ^ 4) << 10);
  unit(4, 1u << 31);
  unit(4 ^ 'b', 'b' | 1u << 8 | (4 ^ 'b' ^ 8) << 10);
  unit(8, 1u << 31 | 2);
  for (const char c : {'X', '\0', 'b', '\0'}) spec.charsmap.push_back(static_cast<uint8_t>(c));
  const auto tokenizer = FromVocabulary(spec);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
  EXPECT_EQ(*tokenizer->Encode("aabb", false), (std::vector<int32_t>{11, 5, 5}));
  spec.charsmap.resize(100);
  ASSERT_FALSE(FromVocabulary(spec).ok());
  EXPECT_THAT(FromVocabulary(spec).error().ToString(), HasSubstr("character map"));
}

TEST(Vocabulary, RefusesWhatDoesNotFitTogether) {
  const auto message = [](const VocabularySpec& spec) {
    const auto tokenizer = FromVocabulary(spec);
    return tokenizer.ok() ? std::string("ok") : tokenizer.error().message();
  };
  VocabularySpec good{
      .model = "gpt2", .pre = "gpt-2", .tokens = {"a", "b", "ab"}, .merges = {"a b"}};
  EXPECT_EQ(message(good), "ok");
  auto spec = good;
  spec.model = "bert";
  EXPECT_THAT(message(spec), HasSubstr("bert"));
  spec = good;
  spec.pre = "no-such";
  EXPECT_THAT(message(spec), HasSubstr("no-such"));
  spec = good;
  spec.merges = {"ab"};
  EXPECT_THAT(message(spec), HasSubstr("left right"));
  spec.merges = {"b b"};
  EXPECT_THAT(message(spec), HasSubstr("not in the vocabulary"));
  spec = good;
  spec.types = {1};
  EXPECT_THAT(message(spec), HasSubstr("1 types"));
  spec = good;
  spec.tokens[1] = "\xff";
  EXPECT_THAT(message(spec), HasSubstr("UTF-8"));
  spec = good;
  spec.bos_id = 7;
  EXPECT_THAT(message(spec), HasSubstr("bos token is 7"));
  spec = {.model = "llama", .tokens = {"a"}};
  EXPECT_THAT(message(spec), HasSubstr("scores"));
  spec.scores = {NAN};
  EXPECT_THAT(message(spec), HasSubstr("finite"));
  spec = {.model = "gpt2"};
  EXPECT_THAT(message(spec), HasSubstr("0 tokens"));
  spec = UnigramSpec();
  spec.scores.clear();
  EXPECT_THAT(message(spec), HasSubstr("0 scores"));
  spec = UnigramSpec();
  spec.scores[4] = NAN;
  EXPECT_THAT(message(spec), HasSubstr("score of token 4"));
  spec = UnigramSpec();
  spec.unknown_id = 12;
  EXPECT_THAT(message(spec), HasSubstr("unknown token is 12"));
}

}  // namespace
}  // namespace weft
