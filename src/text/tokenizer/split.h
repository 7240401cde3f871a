// The single steps that pre-tokenizers are made of.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizer/pre_tokens.h"

namespace weft {

// What becomes of a match; the text between matches always stays.
enum class SplitBehavior {
  kRemoved,             // "a-b" by "-": a b
  kIsolated,            // a - b
  kMergedWithPrevious,  // a- b
  kMergedWithNext,      // a -b
  kContiguous           // neighbouring matches become one piece
};
enum class CharClass { kNumeric, kPunctuation, kWhiteSpace };

using PreTokenizerStepPtr = std::shared_ptr<const PreTokenizerStep>;

inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// With `invert`, the text between matches is treated as the matches.
Result<PreTokenizerStepPtr> MakeRegexSplit(std::string_view pattern, SplitBehavior behavior,
                                           bool invert);
PreTokenizerStepPtr MakeTextSplit(std::string text, SplitBehavior behavior, bool invert);
PreTokenizerStepPtr MakeClassSplit(CharClass char_class, SplitBehavior behavior);

struct MetaspaceOptions {
  enum class Prepend { kAlways, kFirst, kNever };
  std::string replacement;
  Prepend prepend = Prepend::kAlways;
  bool split = true;
};
PreTokenizerStepPtr MakeMetaspace(MetaspaceOptions options);

// A space before each piece that does not start with one.
PreTokenizerStepPtr MakePrefixSpace();
// Rewrites the text in the byte-level alphabet.
PreTokenizerStepPtr MakeByteLevel();
bool IsByteLevel(const PreTokenizerStep& step);
// Leaves the rewriting to the model.
PreTokenizerStepPtr MakeBytesToModel();

}  // namespace weft
