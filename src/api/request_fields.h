// The table has every field of a request, and what weft does with each. Here are those of OpenAI's
// chats, and those of the servers that people move from. A field that would change the answer is
// followed or refused, never passed over. A document shows the same table, and a test compares
// them.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/api_error.h"

namespace weft::api {

enum class Handling {
  kDone,     // followed
  kIgnored,  // `why` it changes no answer of weft
  kRefused,  // 400 with `why`, unless the value is null or one of `neutral`
};

struct RequestField {
  std::string_view name;
  // The servers that have the field: O OpenAI, V vLLM, S SGLang, L llama.cpp, T Text Generation
  // Inference, W weft alone, A Anthropic, M Ollama.
  std::string_view servers;
  Handling handling = Handling::kRefused;
  // Values that change nothing, of a field of kRefused: a JSON array without its brackets. Of kDone
  // they are all that may be asked, where that is little, and "" for many.
  std::string_view neutral;
  std::string_view why;
};

// A table has the fields of one kind of object.
struct FieldTable {
  std::span<const RequestField> fields;
  std::string_view document;     // that shows them
  std::string_view prefix = {};  // in front of names in errors: "options."
};

std::span<const RequestField> RequestFields();
// Gives "OpenAI, vLLM" for "OV".
std::string ServerNames(std::string_view servers);

// Refuses the first field that cannot be followed, or that nobody knows.
std::optional<ApiError> RefuseFields(const boost::json::object& request, const FieldTable& table);
std::optional<ApiError> RefuseFields(const boost::json::object& request);

// Gives the beginning of a value as JSON, for a message, and never half a character.
std::string ShownValue(const boost::json::value& value);

}  // namespace weft::api
