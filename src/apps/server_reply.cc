#include "apps/server_reply.h"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include "apps/terminal_text.h"

namespace weft::apps {
namespace json = boost::json;

std::string ErrorText(const std::string& body) {
  boost::system::error_code error;
  const json::value value = json::parse(body, error);
  if (error || !value.is_object()) return TerminalText(body.substr(0, 500));
  const json::value* inner = value.as_object().if_contains("error");
  const json::object* object = inner != nullptr ? inner->if_object() : nullptr;
  const json::value* message = object != nullptr ? object->if_contains("message") : nullptr;
  return TerminalText(message != nullptr && message->is_string() ? std::string(message->as_string())
                                                                 : body.substr(0, 500));
}

}  // namespace weft::apps
