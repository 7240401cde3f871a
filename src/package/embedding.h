// What a package that makes embeddings says of them: which rows of a text become one vector, and
// what is done to it. Its head is the model's final norm alone, so that what the last layer gives
// are rows of `hidden_columns` (docs/decisions/0025).
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::package {

enum class Pooling {
  kMean,  // of the rows of all tokens
  kLast,  // the row of the last token
};

// "mean" or "last".
std::string_view PoolingName(Pooling pooling);
std::optional<Pooling> PoolingFromName(std::string_view name);

struct Embedding {
  Pooling pooling = Pooling::kMean;
  bool normalize = true;  // vectors have length 1
  // The first columns of a vector are an embedding, too.
  bool matryoshka = false;
  std::vector<uint32_t> dimensions;  // so many of them, rising; empty: any number
  // Texts that are put in front of an input, by what it is for ("query", "document").
  std::map<std::string, std::string> prompts;
  std::string default_prompt;  // the name of that which is used unasked; "": none

  bool operator==(const Embedding&) const = default;
};

inline constexpr size_t kMaxPrompts = 64;
inline constexpr size_t kMaxPromptNameBytes = 64;
inline constexpr size_t kMaxPromptBytes = 16 << 10;

// The object `embedding` of weft.json. Equal ones give equal bytes.
boost::json::object ToJson(const Embedding& embedding);
// Errors name the key, its value and what was expected.
Result<Embedding> ParseEmbedding(const boost::json::value& value, uint32_t hidden_columns);

}  // namespace weft::package
