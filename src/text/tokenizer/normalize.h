// Normalizers of a tokenizer.json: what happens to text before it is cut into pieces.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/regex.h"

namespace weft {

class Normalizer {
 public:
  Normalizer() = default;  // leaves text as it is

  // `value` is the field "normalizer"; null stands for none. Errors: kInvalidData, kUnsupported
  // naming the type.
  static Result<Normalizer> FromJson(const boost::json::value& value, std::string where);

  // Errors: kOutOfMemory when the text grows beyond kMaxNormalizedBytes; kInvalidData from regular
  // expressions. REQUIRES: `text` is well-formed UTF-8; so is the result.
  Result<std::string> Apply(std::string_view text) const;
  bool empty() const { return steps_.empty(); }

 private:
  enum class Kind {
    kPrepend,
    kReplaceText,
    kReplaceRegex,
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kLowercase,
    kStrip,
    kStripAccents,
    kByteLevel,
    kNmt,
    kCharsmap,
    kCharsmapLongest
  };
  struct Step {
    Kind kind;
    std::string text;     // what to prepend, or what to look for
    std::string content;  // what to put there
    bool left = false, right = false;
    std::shared_ptr<const Regex> regex;
    std::shared_ptr<const Charsmap> charsmap;
  };
  Status Add(const JsonFields& fields, const std::string& type);
  static Result<std::string> Run(const Step& step, std::string text);

  std::vector<Step> steps_;
};

inline constexpr size_t kMaxNormalizedBytes = size_t{1} << 30;

}  // namespace weft
