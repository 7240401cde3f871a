#include "api/tool_choice.h"

#include <boost/json/object.hpp>
#include <utility>

namespace weft::api {
namespace json = boost::json;

namespace {

const json::object* ObjectIn(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr ? nullptr : value->if_object();
}

}  // namespace

const json::object* FunctionOf(const json::value& tool) {
  const json::object* outer = tool.if_object();
  if (outer == nullptr) return nullptr;
  const json::object* inner = ObjectIn(*outer, "function");
  const json::object* function = inner != nullptr ? inner : outer;
  return NameOf(*function).empty() ? nullptr : function;
}

std::string_view NameOf(const json::object& function) {
  const json::value* name = function.if_contains("name");
  return name != nullptr && name->is_string() ? std::string_view(name->as_string()) : "";
}

bool IsStrict(const json::object& function) {
  const json::value* strict = function.if_contains("strict");
  return strict != nullptr && *strict == true;
}

std::optional<ApiError> CheckChoice(const ToolChoice& choice, const json::array& tools,
                                    const std::string& shown) {
  if (choice.kind == ToolChoice::Kind::kAuto) return std::nullopt;
  std::string names;
  for (const json::value& tool : tools) {
    const json::object* function = FunctionOf(tool);
    if (function == nullptr) continue;
    if (choice.kind == ToolChoice::Kind::kNamed && NameOf(*function) == choice.name)
      return std::nullopt;
    names += (names.empty() ? "" : ", ") + std::string(NameOf(*function));
  }
  if (names.empty())
    return RefuseField("tool_choice", "'tool_choice' is " + shown +
                                          "; 'tools' has no function that could be called.");
  if (choice.kind == ToolChoice::Kind::kRequired) return std::nullopt;
  return RefuseField("tool_choice",
                     "'tool_choice' is " + shown + "; expected one of 'tools': " + names + ".");
}

std::optional<ToolChoice> ReadToolChoice(const json::value& choice) {
  if (choice == "auto") return ToolChoice{};
  if (choice == "required") return ToolChoice{ToolChoice::Kind::kRequired};
  const json::object* object = choice.if_object();
  const json::value* type = object == nullptr ? nullptr : object->if_contains("type");
  if (type == nullptr || *type != "function") return std::nullopt;
  const json::object* function = FunctionOf(choice);
  if (function == nullptr) return std::nullopt;
  return ToolChoice{ToolChoice::Kind::kNamed, std::string(NameOf(*function))};
}

}  // namespace weft::api
