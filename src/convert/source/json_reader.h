// Reads the JSON files of a checkpoint (config.json, safetensors headers): bounded depth, no key
// twice, every number ranged. Each error is a sentence with the file, the key, the value and what
// was expected.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace weft::convert {

// `what` names the text in errors ("config.json"). Numbers stay as the JSON library holds them.
Result<boost::json::value> ParseJson(std::string_view text, const std::string& what);

// Python writes numbers that JSON has not as words. Gives `text` with those outside of strings in
// the form of transformers 5: Infinity becomes {"__float__": "Infinity"}, and likewise -Infinity
// and NaN.
std::string ReplacePythonNumbers(std::string_view text);

// Typed access to the members of one JSON object, which must outlive the reader. A member that is
// null counts as absent, as Hugging Face writes "not set".
class JsonReader {
 public:
  JsonReader(const boost::json::object& object, std::string what)
      : object_(&object), what_(std::move(what)) {}

  const std::string& what() const { return what_; }
  const boost::json::object& object() const { return *object_; }
  bool Has(std::string_view key) const { return Find(key) != nullptr; }

  // Errors: kInvalidData when the key is absent and no default is given, of another type, or out of
  // range.
  Result<uint64_t> Whole(std::string_view key, uint64_t least, uint64_t most,
                         std::optional<uint64_t> if_absent = std::nullopt) const;
  Result<double> Real(std::string_view key, double least, double most,
                      std::optional<double> if_absent = std::nullopt) const;
  Result<bool> Bool(std::string_view key, bool if_absent) const;
  Result<std::string> Text(std::string_view key,
                           std::optional<std::string> if_absent = std::nullopt) const;
  // Gives nullptr when the key is absent.
  Result<const boost::json::object*> Object(std::string_view key) const;
  Result<const boost::json::array*> Array(std::string_view key) const;

 private:
  const boost::json::value* Find(std::string_view key) const;
  Error Missing(std::string_view key) const;
  Error Wrong(std::string_view key, const boost::json::value& value,
              const std::string& expected) const;

  const boost::json::object* object_;
  std::string what_;
};

// The start of a JSON value for an error sentence.
std::string Excerpt(const boost::json::value& value);
// A name from a file for an error sentence: printable, at most 160 bytes.
std::string Printable(std::string_view name);

}  // namespace weft::convert
