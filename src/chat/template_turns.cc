#include "chat/template_turns.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <utility>

namespace weft::chat {
namespace json = boost::json;

namespace {

json::object WithMessages(json::array messages) {
  const json::object parameters = {
      {"type", "object"},
      {"properties", {{"key", {{"type", "string"}, {"description", "A key."}}}}},
      {"required", json::array{"key"}}};
  const json::object function = {
      {"name", kProbeName}, {"description", "A probe."}, {"parameters", parameters}};
  return {{"messages", std::move(messages)},
          {"tools", json::array{{{"type", "function"}, {"function", function}}}},
          {"add_generation_prompt", false}};
}

}  // namespace

std::optional<std::string> TemplateTurns::Of(const json::object& assistant) const {
  const json::object user = {{"role", "user"}, {"content", "Hi"}};
  const auto with = render_(WithMessages({user, assistant}));
  const auto without = render_(WithMessages({user}));
  if (!with.ok() || !without.ok()) return std::nullopt;
  const auto parted = std::ranges::mismatch(with.value(), without.value()).in1;
  return std::string(parted, with.value().end());
}

std::optional<std::string> TemplateTurns::OfText() const {
  return Of({{"role", "assistant"}, {"content", kProbeText}});
}

std::optional<std::string> TemplateTurns::OfCalls(const json::array& arguments,
                                                  const CallMessageForm& form) const {
  json::array calls;
  for (const json::value& each : arguments) {
    const json::value given = form.arguments_in_text ? json::value(json::serialize(each)) : each;
    calls.push_back({{"id", kProbeId},
                     {"type", "function"},
                     {"function", {{"name", kProbeName}, {"arguments", given}}}});
  }
  const json::value content = form.null_content ? json::value(nullptr) : json::value("");
  return Of({{"role", "assistant"}, {"content", content}, {"tool_calls", std::move(calls)}});
}

std::optional<CallMessageForm> TemplateTurns::FindForm() const {
  const json::array arguments = {{{"key", "value"}}};
  const auto shows = [&](const CallMessageForm& form) {
    const auto turn = OfCalls(arguments, form);
    return turn && turn->find(kProbeName) != std::string::npos;
  };
  for (const bool null_content : {false, true}) {
    for (const bool in_text : {false, true}) {
      const CallMessageForm form = {null_content, in_text};
      if (shows(form)) return form;
    }
  }
  return std::nullopt;
}

}  // namespace weft::chat
