#include "text/tokenizer/pretokenize.h"

#include "text/tokenizer/split.h"

namespace weft {
namespace {

// \w+|[^\w\s]+ as Rust's regular expressions have it: what joins letters is a word, too, and the
// digits that Oniguruma's \w adds are none.
constexpr std::string_view kRustWords = R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}]+)"
                                        R"(|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}\s]+)";

Result<SplitBehavior> BehaviorOf(const JsonFields& fields, std::string_view fallback) {
  ASSIGN_OR_RETURN(const std::string name, fields.String("behavior", fallback));
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return fields.Wrong("behavior",
                      "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

using StepResult = Result<std::shared_ptr<const PreTokenizerStep>>;

StepResult SplitFromJson(const JsonFields& fields) {
  ASSIGN_OR_RETURN(const SplitBehavior behavior, BehaviorOf(fields, "Isolated"));
  ASSIGN_OR_RETURN(const bool invert, fields.Bool("invert", false));
  ASSIGN_OR_RETURN(const JsonFields pattern, fields.Object("pattern"));
  if (pattern.Find("Regex") != nullptr) {
    ASSIGN_OR_RETURN(const std::string source, pattern.String("Regex"));
    return MakeRegexSplit(source, behavior, invert);
  }
  ASSIGN_OR_RETURN(std::string text, pattern.String("String"));
  if (text.empty()) return pattern.Wrong("String", "a text that is not empty");
  return MakeTextSplit(std::move(text), behavior, invert);
}

StepResult MetaspaceFromJson(const JsonFields& fields) {
  MetaspaceOptions options;
  ASSIGN_OR_RETURN(options.replacement, fields.String("replacement", "\u2581"));
  // An empty one would be found again and again at the same place.
  if (options.replacement.empty()) return fields.Wrong("replacement", "one character");
  ASSIGN_OR_RETURN(options.split, fields.Bool("split", true));
  // Files older than prepend_scheme say add_prefix_space.
  ASSIGN_OR_RETURN(const bool add_prefix_space, fields.Bool("add_prefix_space", true));
  ASSIGN_OR_RETURN(const std::string scheme,
                   fields.String("prepend_scheme", add_prefix_space ? "always" : "never"));
  if (scheme == "always") {
    options.prepend = MetaspaceOptions::Prepend::kAlways;
  } else if (scheme == "first") {
    options.prepend = MetaspaceOptions::Prepend::kFirst;
  } else if (scheme == "never") {
    options.prepend = MetaspaceOptions::Prepend::kNever;
  } else {
    return fields.Wrong("prepend_scheme", "always, first or never");
  }
  return MakeMetaspace(std::move(options));
}

StepResult StepFromJson(const JsonFields& fields, const std::string& type) {
  if (type == "Split") return SplitFromJson(fields);
  if (type == "Metaspace") return MetaspaceFromJson(fields);
  if (type == "Digits") {
    ASSIGN_OR_RETURN(const bool individual, fields.Bool("individual_digits", false));
    return MakeClassSplit(CharClass::kNumeric,
                          individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  if (type == "Punctuation") {
    ASSIGN_OR_RETURN(const SplitBehavior behavior, BehaviorOf(fields, "Isolated"));
    return MakeClassSplit(CharClass::kPunctuation, behavior);
  }
  if (type == "WhitespaceSplit") {
    return MakeClassSplit(CharClass::kWhiteSpace, SplitBehavior::kRemoved);
  }
  if (type == "Whitespace") {
    return MakeRegexSplit(kRustWords, SplitBehavior::kRemoved, true);
  }
  if (type == "CharDelimiterSplit") {
    ASSIGN_OR_RETURN(std::string delimiter, fields.String("delimiter"));
    if (delimiter.empty()) return fields.Wrong("delimiter", "one character");
    return MakeTextSplit(std::move(delimiter), SplitBehavior::kRemoved, false);
  }
  return UnknownType(fields, type);
}

}  // namespace

Result<PreTokenizer> PreTokenizer::FromJson(const boost::json::value& value, std::string where) {
  PreTokenizer pre_tokenizer;
  if (value.is_null()) return pre_tokenizer;
  TRY(ForEachStep(value, where, "pretokenizers",
                  [&](const JsonFields& step, const std::string& type) {
                    return pre_tokenizer.Add(step, type);
                  }));
  pre_tokenizer.Finish();
  return pre_tokenizer;
}

Status PreTokenizer::Add(const JsonFields& fields, const std::string& type) {
  if (type == "BertPreTokenizer") {
    steps_.push_back(MakeClassSplit(CharClass::kWhiteSpace, SplitBehavior::kRemoved));
    steps_.push_back(MakeClassSplit(CharClass::kPunctuation, SplitBehavior::kIsolated));
    return OkStatus();
  }
  if (type == "ByteLevel") {
    ASSIGN_OR_RETURN(const bool prefix_space, fields.Bool("add_prefix_space", true));
    ASSIGN_OR_RETURN(const bool use_regex, fields.Bool("use_regex", true));
    if (prefix_space) steps_.push_back(MakePrefixSpace());
    if (use_regex) {
      ASSIGN_OR_RETURN(auto split, MakeRegexSplit(kGpt2Pattern, SplitBehavior::kIsolated, false));
      steps_.push_back(std::move(split));
    }
    steps_.push_back(MakeByteLevel());
    return OkStatus();
  }
  ASSIGN_OR_RETURN(auto step, StepFromJson(fields, type));
  steps_.push_back(std::move(step));
  return OkStatus();
}

// Where the byte-level alphabet is the last step, the model maps the bytes itself: no copy of the
// text.
void PreTokenizer::Finish() {
  if (!steps_.empty() && IsByteLevel(*steps_.back())) steps_.back() = MakeBytesToModel();
}

Status PreTokenizer::Apply(PreTokens& tokens) const {
  tokens.pieces.clear();
  if (tokens.text.empty()) return OkStatus();
  if (tokens.text.size() > UINT32_MAX / 4) {
    return Error(ErrorCode::kOutOfMemory, "A text of " + std::to_string(tokens.text.size()) +
                                              " bytes is too long to be cut into pieces.");
  }
  tokens.pieces.push_back({0, static_cast<uint32_t>(tokens.text.size())});
  for (const auto& step : steps_) TRY(step->Apply(tokens));
  return OkStatus();
}

}  // namespace weft
