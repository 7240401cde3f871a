// Reading fields of a JSON object with errors that name the field: "tokenizer.json: model.vocab
// must be an object, but is a string."
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace weft {

// Parses one JSON document of at most `depth` levels. Errors: kInvalidData naming `what` and the
// offset. Values live in memory of their own, freed together with the document.
Result<boost::json::value> ParseJson(ByteSpan bytes, std::string_view what, size_t depth = 64);

// An object together with its place in the document, such as "tokenizer.json: model".
class JsonFields {
 public:
  // Errors: kInvalidData unless `value` is an object.
  static Result<JsonFields> Of(const boost::json::value& value, std::string where);

  const boost::json::object& object() const { return *object_; }
  const std::string& where() const { return where_; }

  // Gives nullptr when the field is absent or null.
  const boost::json::value* Find(std::string_view key) const;

  // The named field; a fallback stands for an absent or null one. Errors: kInvalidData.
  Result<std::string> String(std::string_view key) const;
  Result<std::string> String(std::string_view key, std::string_view fallback) const;
  Result<bool> Bool(std::string_view key, bool fallback) const;
  Result<int64_t> Integer(std::string_view key, int64_t fallback, int64_t lowest,
                          int64_t highest) const;
  Result<JsonFields> Object(std::string_view key) const;
  Result<const boost::json::array*> Array(std::string_view key) const;

  std::string Place(std::string_view key) const;
  Error Wrong(std::string_view key, std::string_view expected) const;

 private:
  JsonFields(const boost::json::object* object, std::string where)
      : object_(object), where_(std::move(where)) {}

  const boost::json::object* object_;
  std::string where_;
};

// The steps of a pipeline (normalizers, decoders, ...) in order: `value` is one step, or a
// "Sequence" whose field `list` has such. `add` gets each step with its type. Errors: those of
// `add`; kInvalidData for what is no step, or is nested too deeply.
using AddStep = std::function<Status(const JsonFields& step, const std::string& type)>;
Status ForEachStep(const boost::json::value& value, const std::string& where, std::string_view list,
                   const AddStep& add);
// For `add`: a type that nobody here knows.
Error UnknownType(const JsonFields& step, const std::string& type);

// "a string", "an object", ... for messages.
std::string_view JsonKindName(const boost::json::value& value);

}  // namespace weft
