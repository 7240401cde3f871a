// What a chat template makes of the assistant's turns: probes by which others
// (detect.h, call_spelling.h) learn how a model writes.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "chat/render_template.h"

namespace weft::chat {

// Such as no template has of its own.
inline constexpr std::string_view kProbeName = "weft_probe";
inline constexpr std::string_view kProbeText = "weft_said";
inline constexpr std::string_view kProbeId = "abcdefghi";

// Templates differ in what an assistant's message with calls must be.
struct CallMessageForm {
  bool null_content = false;       // else ""
  bool arguments_in_text = false;  // JSON in a string; else an object
};

class TemplateTurns {
 public:
  // `render` outlives this.
  explicit TemplateTurns(const RenderTemplate& render) : render_(render) {}

  // Of an assistant that says kProbeText; nullopt where the template fails.
  std::optional<std::string> OfText() const;
  // Of one that calls kProbeName, once for each of `arguments`.
  std::optional<std::string> OfCalls(const boost::json::array& arguments,
                                     const CallMessageForm& form) const;
  // The form in which the template shows the name of what is called; nullopt: none.
  std::optional<CallMessageForm> FindForm() const;

 private:
  // What is said behind the rendering without it.
  std::optional<std::string> Of(const boost::json::object& assistant) const;

  const RenderTemplate& render_;
};

}  // namespace weft::chat
