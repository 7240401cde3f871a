// Pre-tokenizers of a tokenizer.json: cut normalised text into pieces that the model encodes one by
// one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/pre_tokens.h"

namespace weft {

class PreTokenizer {
 public:
  PreTokenizer() = default;  // the whole text is one piece

  // `value` is the field "pre_tokenizer"; null stands for none. Errors: kInvalidData, kUnsupported
  // naming the type.
  static Result<PreTokenizer> FromJson(const boost::json::value& value, std::string where);

  Status Apply(PreTokens& tokens) const;

 private:
  Status Add(const JsonFields& fields, const std::string& type);
  void Finish();

  std::vector<std::shared_ptr<const PreTokenizerStep>> steps_;
};

}  // namespace weft
