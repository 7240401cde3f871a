// `tool_choice` of a request: whether the answer has to call, and what.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"

namespace weft::api {

// With "none" a request has no tools.
struct ToolChoice {
  enum class Kind {
    kAuto,      // what the model likes
    kRequired,  // one of the tools at least
    kNamed,     // this one
  };
  Kind kind = Kind::kAuto;
  std::string name = {};  // kNamed
};

// The function of an entry of `tools`: {"type": "function", "function": {...}}, or the function
// itself. nullptr: it is no function with a name.
const boost::json::object* FunctionOf(const boost::json::value& tool);
std::string_view NameOf(const boost::json::object& function);
// Whether arguments have to be what the schema says: `strict` of the function.
bool IsStrict(const boost::json::object& function);

// Why `choice` cannot be kept with these tools: there are none to call, or none of that name.
// `shown`: the choice as the client wrote it.
std::optional<ApiError> CheckChoice(const ToolChoice& choice, const boost::json::array& tools,
                                    const std::string& shown);

// OpenAI's form: "auto", "required", {"type": "function", "function": {"name"}}, or without the
// inner object. "none" is not for here. nullopt: it is none of them.
std::optional<ToolChoice> ReadToolChoice(const boost::json::value& choice);

}  // namespace weft::api
