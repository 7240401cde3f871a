#include "text/tokenizer/named_pre_tokenizer.h"

#include <algorithm>
#include <initializer_list>

#include "text/tokenizer/split.h"

namespace weft {
namespace {

constexpr std::string_view kSpaces = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kContractions = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
constexpr std::string_view kUpper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";
constexpr std::string_view kLower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
constexpr std::string_view kNotHan = R"((?!\p{Han}))";
// A sign with a word behind it, words with their marks, signs.
constexpr std::string_view kSignedWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
    R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+)";
// Sentences of languages that are written without spaces, and what ends them.
constexpr std::string_view kPhrases = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
// Digits in threes from the right.
constexpr std::string_view kThrees = R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))";

std::string Joined(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) all += part;
  return all;
}

// Words of any case, digits in groups of up to `digits`.
std::string PlainWords(std::string_view digits) {
  return Joined({kContractions, R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})", digits,
                 R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)", kSpaces});
}

// Words cut where a capital follows a small letter. `before` is looked for at each letter.
std::string CasedWords(std::string_view digits, bool contractions, std::string_view before = "") {
  const std::string suffix = contractions ? Joined({kContractions, "?"}) : "";
  const std::string upper = Joined({"(?:", before, kUpper, ")"});
  const std::string lower = Joined({"(?:", before, kLower, ")"});
  return Joined({R"([^\r\n\p{L}\p{N}]?)", upper, "*", lower, "+", suffix, R"(|[^\r\n\p{L}\p{N}]?)",
                 upper, "+", lower, "*", suffix, R"(|\p{N})", digits,
                 R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)", kSpaces});
}

// Runs of many spaces are cut at powers of two.
std::string CountedSpaces() {
  std::string pattern = Joined({kContractions, R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})",
                                R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"});
  for (int count = 512; count > 2; count /= 2) {
    pattern += R"(|\s{)" + std::to_string(count) + R"(}(?!\S))";
  }
  return pattern + R"(|\s{1,2}(?!\S)|\s)";
}

struct Kind {
  std::initializer_list<std::string_view> names;
  NamedPreTokenizer (*make)();
};

const Kind kPlainKinds[] = {
    {{"gpt-2",      "gpt2",       "phi-2",           "olmo",         "mpt",
      "jais",       "trillion",   "granite-docling", "exaone4",      "a.x-4.0",
      "gigachat",   "mellum",     "modern-bert",     "jina-es",      "jina-de",
      "jina-v2-es", "jina-v2-de", "jina-v1-en",      "jina-v2-code", "roberta-bpe"},
     [] { return NamedPreTokenizer{.patterns = {std::string(kGpt2Pattern)}}; }},
    {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2", "midm-2.0",
      "jina-v5-nano"},
     [] {
       return NamedPreTokenizer{
           .patterns = {PlainWords("{1,3}")}, .ignore_merges = true, .add_bos = true};
     }},
    {{"glm4", "chatglm-bpe", "smaug-bpe", "dbrx"},
     [] { return NamedPreTokenizer{.patterns = {PlainWords("{1,3}")}, .ignore_merges = true}; }},
    {{"qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "kormo", "f2llmv2"},
     [] { return NamedPreTokenizer{.patterns = {PlainWords("")}, .nfc = true}; }},
    {{"solar-open", "grok-2"}, [] { return NamedPreTokenizer{.patterns = {PlainWords("")}}; }},
    {{"laguna"},
     [] {
       return NamedPreTokenizer{.patterns = {R"([^\n]+|[\n]+)", PlainWords("")}};
     }},
    {{"minicpm5"},
     [] {
       return NamedPreTokenizer{.patterns = {R"(\p{N}{1,3})", PlainWords("+")},
                                .ignore_merges = true};
     }},
    {{"ufakzeka"},
     [] {
       return NamedPreTokenizer{
           .patterns = {
               Joined({R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)", kSpaces})}};
     }},
    {{"qwen35"},
     [] {
       // Marks belong to the letters that they follow.
       return NamedPreTokenizer{
           .patterns = {Joined({kContractions, R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})",
                                R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)", kSpaces})},
           .nfc = true};
     }},
    {{"exaone-moe"},
     [] {
       // Several words with the spaces between them are one piece.
       return NamedPreTokenizer{
           .patterns = {Joined({kContractions,
                                R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N})",
                                R"(| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"})}};
     }},
    {{"bailingmoe", "bailingmoe2", "llada-moe"},
     [] {
       return NamedPreTokenizer{
           .patterns = {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N})"
                        R"(| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}};
     }},
    {{"seed-coder"},
     [] {
       return NamedPreTokenizer{
           .patterns = {Joined({kContractions, R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})",
                                R"(| ?[^\s\p{L}\p{N}\r\n]+)", kSpaces})}};
     }},
    {{"jais-2"}, [] { return NamedPreTokenizer{.patterns = {CountedSpaces()}}; }},
};

const Kind kCasedKinds[] = {
    {{"gpt-4o", "llama4", "gpt-oss", "kanana2", "talkie", "minimax-m2"},
     [] { return NamedPreTokenizer{.patterns = {CasedWords("{1,3}", true)}}; }},
    {{"granite-embed-multi-97m"},
     [] {
       return NamedPreTokenizer{.patterns = {CasedWords("{1,3}", true)}, .ignore_merges = true};
     }},
    {{"tekken"},
     [] {
       return NamedPreTokenizer{
           .patterns = {CasedWords("", false)}, .ignore_merges = true, .add_bos = true};
     }},
    {{"tiny_aya", "cohere2moe"},
     [] {
       return NamedPreTokenizer{
           .patterns = {R"(\d{1,3}(?=(?:\d{3})*\b))", CasedWords("{1,3}", true)}};
     }},
    {{"kimi-k2"},
     [] {
       return NamedPreTokenizer{.patterns = {R"(\p{Han}+)", CasedWords("{1,3}", true, kNotHan)}};
     }},
    {{"youtu"},
     [] {
       return NamedPreTokenizer{
           .patterns =
               {R"([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)",
                CasedWords("", true)},
           .ignore_merges = true};
     }},
};

const Kind kOtherKinds[] = {
    {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
     [] {
       return NamedPreTokenizer{.patterns = {R"(\p{N})", std::string(kGpt2Pattern)}};
     }},
    {{"superbpe"},
     [] {
       return NamedPreTokenizer{.patterns = {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}};
     }},
    {{"falcon"},
     [] {
       return NamedPreTokenizer{
           .patterns = {R"([\p{P}\$\+<=>\^~\|`]+)", std::string(kGpt2Pattern), "[0-9][0-9][0-9]"}};
     }},
    {{"deepseek-llm"},
     [] {
       return NamedPreTokenizer{
           .patterns = {R"([\r\n])",
                        // Letters with case, but neither Georgian nor mathematical ones.
                        R"(\s?(?:(?![ა-ჿ𝐀-𝟿])[\p{Lu}\p{Ll}\p{Lt}])+)",
                        R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+$)",
                        R"([一-龥ࠀ-一가-퟿]+)", R"(\p{N}+)"}};
     }},
    {{"deepseek-coder"},
     [] {
       return NamedPreTokenizer{.patterns = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                             R"([一-龥ࠀ-一가-퟿]+)", R"(\p{N})"}};
     }},
    {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
     [] {
       return NamedPreTokenizer{.patterns = {R"(\p{N}{1,3})", R"([一-龥぀-ゟ゠-ヿ]+)",
                                             Joined({kSignedWords, R"([\r\n]*)", kSpaces})}};
     }},
    {{"spark2_5"},
     [] {
       return NamedPreTokenizer{.patterns = {R"(\p{N}{1,3})", R"([一-龥぀-ゟ゠-ヿ]+)",
                                             Joined({kSignedWords, R"(|[\r\n]|\s+(?!\S)|\s+)"}),
                                             R"(\p{N})"}};
     }},
    {{"afmoe"},
     [] {
       return NamedPreTokenizer{
           .patterns = {
               std::string(kThrees),
               R"([一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+)",
               Joined({kSignedWords, R"([\r\n]*)", kSpaces})}};
     }},
    {{"sarvam-moe"},
     [] {
       return NamedPreTokenizer{
           .patterns = {R"([^\n]+|[\n]+)"}, .is_text = true, .escapes_spaces = true};
     }},
    {{"whitespace"}, [] { return NamedPreTokenizer{.patterns = {R"(\S+)"}, .is_text = true}; }},
    {{"bloom", "poro-chat", "gpt3-finnish"},
     [] { return NamedPreTokenizer{.patterns = {std::string(kPhrases)}}; }},
    {{"viking"},
     [] {
       return NamedPreTokenizer{.patterns = {std::string(kPhrases), R"(\p{N})"}};
     }},
    {{"chameleon"},
     [] {
       return NamedPreTokenizer{
           .patterns = {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
                        R"(([\t\n]|    |  ))", R"(\p{N})", R"([\p{P}!-/:-@\[-`{-~])",
                        std::string(kGpt2Pattern)},
           .add_bos = true};
     }},
    {{"", "default"},
     [] {
       return NamedPreTokenizer{.patterns = {R"([\p{P}\$\+<=>\^~\|]+)", std::string(kGpt2Pattern),
                                             R"(\p{N}+)", "[0-9][0-9][0-9]"}};
     }},
};

}  // namespace

Result<NamedPreTokenizer> PreTokenizerNamed(std::string_view name) {
  const auto find = [name](const auto& kinds) -> const Kind* {
    for (const Kind& kind : kinds) {
      if (std::find(kind.names.begin(), kind.names.end(), name) != kind.names.end()) return &kind;
    }
    return nullptr;
  };
  for (const Kind* kind : {find(kPlainKinds), find(kCasedKinds), find(kOtherKinds)}) {
    if (kind != nullptr) return kind->make();
  }
  return Error(ErrorCode::kUnsupported,
               "The vocabulary's pre-tokenizer is \"" + std::string(name) +
                   "\", which weft does not know; use the model's tokenizer.json instead.");
}

}  // namespace weft
