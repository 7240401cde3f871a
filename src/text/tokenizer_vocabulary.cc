// Tokenizer::FromVocabulary: tokenizers from the plain vocabularies that GGUF files hold.
#include <algorithm>
#include <cmath>

#include "text/tokenizer_data.h"
#include "text/tokenizer_split.h"
#include "text/utf8.h"

namespace weft {
namespace {

// tokenizer.ggml.token_type
enum TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// No token of a merged vocabulary is longer; control tokens may be.
constexpr size_t kMaxMergedBytes = 1024;

constexpr std::string_view kSpaces = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kContractions = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
constexpr std::string_view kUpper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";
constexpr std::string_view kLower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";

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

// Words cut where a capital follows a small letter.
std::string CasedWords(std::string_view digits, bool contractions) {
  const std::string suffix = contractions ? Joined({kContractions, "?"}) : "";
  return Joined({R"([^\r\n\p{L}\p{N}]?)", kUpper, "*", kLower, "+", suffix,
                 R"(|[^\r\n\p{L}\p{N}]?)", kUpper, "+", kLower, "*", suffix, R"(|\p{N})", digits,
                 R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)", kSpaces});
}

struct PreKind {
  std::vector<std::string> patterns;
  bool ignore_merges = false;
  bool nfc = false;
};

// The pre-tokenizers that tokenizer.ggml.pre names.
Result<PreKind> PreKindOf(std::string_view pre) {
  const std::string gpt2(kGpt2Pattern);
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), pre) != names.end();
  };
  if (is({"gpt-2", "gpt2", "phi-2", "olmo", "mpt", "jais", "trillion", "granite-docling"})) {
    return PreKind{.patterns = {gpt2}};
  }
  if (is({"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2", "glm4",
          "chatglm-bpe", "smaug-bpe", "dbrx"})) {
    return PreKind{.patterns = {PlainWords("{1,3}")}, .ignore_merges = true};
  }
  if (is({"qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan"})) {
    return PreKind{.patterns = {PlainWords("")}, .nfc = true};
  }
  if (is({"gpt-4o", "llama4", "gpt-oss"})) return PreKind{.patterns = {CasedWords("{1,3}", true)}};
  if (is({"tekken"})) return PreKind{.patterns = {CasedWords("", false)}, .ignore_merges = true};
  if (is({"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"})) {
    return PreKind{.patterns = {R"(\p{N})", gpt2}};
  }
  if (is({"falcon"})) {
    return PreKind{.patterns = {R"([\p{P}\$\+<=>\^~\|`]+)", gpt2, "[0-9][0-9][0-9]"}};
  }
  if (is({"deepseek-llm"})) {
    return PreKind{
        .patterns = {R"([\r\n])",
                     // Letters with case, but neither Georgian nor mathematical ones.
                     R"(\s?(?:(?![\x{10D0}-\x{10FF}\x{1D400}-\x{1D7FF}])[\p{Lu}\p{Ll}\p{Lt}])+)",
                     R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+$)", R"([一-龥ࠀ-一가-퟿]+)",
                     R"(\p{N}+)"}};
  }
  if (is({"deepseek-coder"})) {
    return PreKind{.patterns = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                R"([一-龥ࠀ-一가-퟿]+)", R"(\p{N})"}};
  }
  if (is({"deepseek-v3", "hunyuan-dense", "joyai-llm"})) {
    return PreKind{
        .patterns = {
            R"(\p{N}{1,3})", R"([一-龥぀-ゟ゠-ヿ]+)",
            Joined({R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)",
                    R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)", kSpaces})}};
  }
  if (is({"", "default"})) {
    return PreKind{.patterns = {R"([\p{P}\$\+<=>\^~\|]+)", gpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}};
  }
  return Error(ErrorCode::kUnsupported,
               "The vocabulary's pre-tokenizer is \"" + std::string(pre) +
                   "\", which weft does not know; use the model's tokenizer.json instead.");
}

class VocabularyReader {
 public:
  VocabularyReader(const VocabularySpec& spec, TokenizerData& data) : spec_(spec), data_(data) {}

  Status Run() {
    TRY(CheckSizes());
    std::vector<Vocabulary::Entry> entries;
    entries.reserve(spec_.tokens.size());
    for (size_t id = 0; id < spec_.tokens.size(); ++id) {
      if (utf8::FindInvalid(spec_.tokens[id]) != std::string_view::npos) {
        return Error(ErrorCode::kInvalidData,
                     "Token " + std::to_string(id) + " of the vocabulary is not valid UTF-8.");
      }
      entries.push_back({spec_.tokens[id], static_cast<int64_t>(id)});
      AddSpecial(id);
    }
    ASSIGN_OR_RETURN(data_.vocabulary, Vocabulary::Build(entries));
    if (spec_.model == "gpt2") {
      TRY(ByteLevelModel());
    } else {
      TRY(SentencePieceModel());
    }
    TRY(AddFrame());
    return data_.IndexAddedTokens();
  }

 private:
  Status CheckSizes() const {
    if (spec_.model != "gpt2" && spec_.model != "llama") {
      return Error(ErrorCode::kUnsupported,
                   "The vocabulary is of the kind \"" + spec_.model +
                       "\"; weft supports gpt2 (byte-level) and llama (SentencePiece BPE).");
    }
    const size_t count = spec_.tokens.size();
    const auto wrong = [&](std::string_view what, size_t got) {
      return Error(ErrorCode::kInvalidData, "The vocabulary has " + std::to_string(count) +
                                                " tokens, but " + std::to_string(got) + " " +
                                                std::string(what) + ".");
    };
    if (count == 0 || count > (1u << 24))
      return wrong("is the count of them it can have", 1u << 24);
    if (!spec_.types.empty() && spec_.types.size() != count)
      return wrong("types", spec_.types.size());
    if (!spec_.scores.empty() && spec_.scores.size() != count) {
      return wrong("scores", spec_.scores.size());
    }
    if (spec_.model == "llama" && spec_.scores.empty()) return wrong("scores", 0);
    return OkStatus();
  }

  int32_t TypeOf(size_t id) const { return spec_.types.empty() ? kNormal : spec_.types[id]; }

  void AddSpecial(size_t id) {
    const int32_t type = TypeOf(id);
    const std::string& text = spec_.tokens[id];
    if ((type != kControl && type != kUserDefined) || text.empty() ||
        text.size() > kMaxMergedBytes) {
      return;
    }
    data_.added_tokens.push_back(
        {.id = static_cast<int32_t>(id), .content = text, .special = type == kControl});
  }

  Status ByteLevelModel() {
    ASSIGN_OR_RETURN(const PreKind pre, PreKindOf(spec_.pre));
    ASSIGN_OR_RETURN(data_.pre_tokenizer, PreTokenizer::FromPatterns(pre.patterns));
    if (pre.nfc) data_.normalizer = Normalizer::Nfc();
    data_.decoder = DecoderChain::ByteLevel();
    std::vector<BpeMerge> merges;
    merges.reserve(spec_.merges.size());
    for (size_t i = 0; i < spec_.merges.size(); ++i) {
      const std::string& merge = spec_.merges[i];
      const size_t space = merge.find(' ', 1);
      if (space == std::string::npos || space + 1 >= merge.size()) {
        return Error(ErrorCode::kInvalidData, "Merge " + std::to_string(i) + " is \"" + merge +
                                                  "\", but must be \"left right\".");
      }
      const auto left = data_.vocabulary.Find(merge.substr(0, space));
      const auto right = data_.vocabulary.Find(merge.substr(space + 1));
      const auto merged = data_.vocabulary.Find(merge.substr(0, space) + merge.substr(space + 1));
      if (!left || !right || !merged) {
        return Error(ErrorCode::kInvalidData,
                     "Merge " + std::to_string(i) + ", \"" + merge +
                         "\", is of tokens that are not in the vocabulary.");
      }
      merges.push_back({*left, *right, *merged, static_cast<uint32_t>(i)});
    }
    data_.model = BpeModel::Build(data_.vocabulary, merges, {.ignore_merges = pre.ignore_merges});
    return OkStatus();
  }

  // Any two neighbours that together are a token merge; the better the token's score, the sooner.
  Status SentencePieceModel() {
    std::vector<float> scores = spec_.scores;
    for (const float score : scores) {
      if (!std::isfinite(score)) {
        return Error(ErrorCode::kInvalidData, "A score of the vocabulary is not finite.");
      }
    }
    std::sort(scores.begin(), scores.end(), std::greater<>());
    scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
    std::vector<BpeMerge> merges;
    for (size_t id = 0; id < spec_.tokens.size(); ++id) {
      const std::string_view text = spec_.tokens[id];
      if (!Merges(id) || text.size() > kMaxMergedBytes) continue;
      const auto rank = static_cast<uint32_t>(
          std::lower_bound(scores.begin(), scores.end(), spec_.scores[id], std::greater<>()) -
          scores.begin());
      for (size_t at = 0; at < text.size();) {
        at += utf8::LengthOf(text[at]);
        if (at >= text.size()) break;
        const auto left = data_.vocabulary.Find(text.substr(0, at));
        const auto right = data_.vocabulary.Find(text.substr(at));
        if (!left || !right || !Merges(static_cast<size_t>(*left)) ||
            !Merges(static_cast<size_t>(*right))) {
          continue;
        }
        merges.push_back({*left, *right, static_cast<int32_t>(id), rank});
      }
    }
    BpeModel::Options options{.byte_fallback = true, .fuse_unknown = true};
    if (spec_.unknown_id && data_.vocabulary.Has(*spec_.unknown_id)) {
      options.unknown_id = *spec_.unknown_id;
    }
    data_.model = BpeModel::Build(data_.vocabulary, merges, options);
    data_.normalizer = Normalizer::SentencePiece(spec_.add_space_prefix ? "\u2581" : "");
    data_.decoder = DecoderChain::SentencePiece(spec_.add_space_prefix);
    return OkStatus();
  }

  bool Merges(size_t id) const {
    const int32_t type = TypeOf(id);
    return type != kUnknown && type != kControl && type != kByte;
  }

  Status AddFrame() {
    const auto add = [&](std::string_view name, const std::optional<int32_t>& id, bool wanted,
                         std::vector<int32_t>& ids) -> Status {
      if (!id) return OkStatus();
      if (!data_.vocabulary.Has(*id)) {
        return Error(ErrorCode::kInvalidData,
                     "The vocabulary's " + std::string(name) + " token is " + std::to_string(*id) +
                         ", but ids are 0 to " + std::to_string(spec_.tokens.size() - 1) + ".");
      }
      if (wanted) ids.push_back(*id);
      return OkStatus();
    };
    TRY(add("bos", spec_.bos_id, spec_.add_bos.value_or(spec_.model == "llama"), data_.prefix_ids));
    return add("eos", spec_.eos_id, spec_.add_eos.value_or(false), data_.suffix_ids);
  }

  const VocabularySpec& spec_;
  TokenizerData& data_;
};

}  // namespace

Result<Tokenizer> Tokenizer::FromVocabulary(const VocabularySpec& spec) {
  auto data = std::make_shared<TokenizerData>();
  TRY(VocabularyReader(spec, *data).Run());
  return Tokenizer(std::move(data));
}

}  // namespace weft
