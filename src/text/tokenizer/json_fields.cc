#include "text/tokenizer/json_fields.h"

#include <exception>

namespace weft {
namespace {

constexpr int kMaxStepDepth = 8;

Status AddSteps(const boost::json::value& value, const std::string& where, std::string_view list,
                const AddStep& add, int depth) {
  if (depth > kMaxStepDepth) {
    return Error(ErrorCode::kInvalidData,
                 where + " is nested more than " + std::to_string(kMaxStepDepth) + " levels deep.");
  }
  ASSIGN_OR_RETURN(const JsonFields step, JsonFields::Of(value, where));
  ASSIGN_OR_RETURN(const std::string type, step.String("type"));
  if (type != "Sequence") return add(step, type);
  ASSIGN_OR_RETURN(const auto* parts, step.Array(list));
  for (size_t i = 0; i < parts->size(); ++i) {
    TRY(AddSteps((*parts)[i], where + "[" + std::to_string(i) + "]", list, add, depth + 1));
  }
  return OkStatus();
}

}  // namespace

Result<boost::json::value> ParseJson(ByteSpan bytes, std::string_view what, size_t depth) {
  boost::json::parse_options options;
  options.max_depth = depth;
  try {
    boost::json::parser parser(boost::json::storage_ptr(), options);
    // One counted arena for all values: a vocabulary has hundreds of thousands of small strings.
    parser.reset(boost::json::make_shared_resource<boost::json::monotonic_resource>());
    boost::system::error_code error;
    const std::string_view text = AsText(bytes);
    const size_t consumed = parser.write(text.data(), text.size(), error);
    if (error) {
      return Error(ErrorCode::kInvalidData, std::string(what) + " is not valid JSON at byte " +
                                                std::to_string(consumed) + ": " + error.message() +
                                                ".");
    }
    return parser.release();
  } catch (const std::exception& failure) {
    return Error(ErrorCode::kInvalidData,
                 std::string(what) + " could not be read as JSON: " + failure.what() + ".");
  }
}

std::string_view JsonKindName(const boost::json::value& value) {
  switch (value.kind()) {
    case boost::json::kind::null:
      return "null";
    case boost::json::kind::bool_:
      return "a boolean";
    case boost::json::kind::int64:
    case boost::json::kind::uint64:
    case boost::json::kind::double_:
      return "a number";
    case boost::json::kind::string:
      return "a string";
    case boost::json::kind::array:
      return "an array";
    case boost::json::kind::object:
      return "an object";
  }
  return "unknown";
}

Result<JsonFields> JsonFields::Of(const boost::json::value& value, std::string where) {
  if (!value.is_object()) {
    return Error(ErrorCode::kInvalidData,
                 where + " must be an object, but is " + std::string(JsonKindName(value)) + ".");
  }
  return JsonFields(&value.get_object(), std::move(where));
}

const boost::json::value* JsonFields::Find(std::string_view key) const {
  const boost::json::value* value = object_->if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string JsonFields::Place(std::string_view key) const {
  const char* separator = where_.empty() || where_.find(':') == std::string::npos ? ": " : ".";
  return where_ + separator + std::string(key);
}

Error JsonFields::Wrong(std::string_view key, std::string_view expected) const {
  const boost::json::value* value = object_->if_contains(key);
  return Error(ErrorCode::kInvalidData,
               Place(key) + " must be " + std::string(expected) + ", but is " +
                   std::string(value == nullptr ? "missing" : JsonKindName(*value)) + ".");
}

Result<std::string> JsonFields::String(std::string_view key) const {
  const boost::json::value* value = Find(key);
  if (value == nullptr || !value->is_string()) return Wrong(key, "a string");
  return std::string(value->get_string());
}

Result<std::string> JsonFields::String(std::string_view key, std::string_view fallback) const {
  if (Find(key) == nullptr) return std::string(fallback);
  return String(key);
}

Result<bool> JsonFields::Bool(std::string_view key, bool fallback) const {
  const boost::json::value* value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_bool()) return Wrong(key, "a boolean");
  return value->get_bool();
}

Result<int64_t> JsonFields::Integer(std::string_view key, int64_t fallback, int64_t lowest,
                                    int64_t highest) const {
  const boost::json::value* value = Find(key);
  if (value == nullptr) return fallback;
  const std::string range =
      "an integer from " + std::to_string(lowest) + " to " + std::to_string(highest);
  if (!value->is_int64()) return Wrong(key, range);
  if (value->get_int64() < lowest || value->get_int64() > highest) {
    return Error(ErrorCode::kInvalidData, Place(key) + " is " + std::to_string(value->get_int64()) +
                                              ", but must be " + range + ".");
  }
  return value->get_int64();
}

Result<JsonFields> JsonFields::Object(std::string_view key) const {
  const boost::json::value* value = Find(key);
  if (value == nullptr) return Wrong(key, "an object");
  return Of(*value, Place(key));
}

Result<const boost::json::array*> JsonFields::Array(std::string_view key) const {
  const boost::json::value* value = Find(key);
  if (value == nullptr || !value->is_array()) return Wrong(key, "an array");
  return &value->get_array();
}

Status ForEachStep(const boost::json::value& value, const std::string& where, std::string_view list,
                   const AddStep& add) {
  return AddSteps(value, where, list, add, 0);
}

Error UnknownType(const JsonFields& step, const std::string& type) {
  return Error(ErrorCode::kUnsupported,
               step.where() + " has the type \"" + type + "\", which weft does not support.");
}

}  // namespace weft
