// Chat templates: the Jinja text that a model's files bring, which turns messages into the prompt
// that the model was trained on. Jinja without any way to the host, bounded in work, output and
// nesting; results equal those of Python's Jinja2 as transformers sets it up
// (chat_template_test.cc).
//
//   ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Parse(config.chat_template));
//   ASSIGN_OR_RETURN(const QuotedText prompt,
//                    chat.Render({{"messages", messages}, {"add_generation_prompt", true}}));
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/limits.h"
#include "text/quoted_text.h"

namespace weft {

struct RenderOptions {
  TemplateLimits limits;
  // What strftime_now() reads: the local wall clock, as seconds since 1970. Absent: this machine's.
  std::optional<int64_t> local_now_s;
  // Whether the strings of a variable are quoted: of its field `field` where it is an array of
  // objects, `item` being the one at hand, else with null and "". Absent: nothing is.
  std::function<bool(std::string_view variable, const boost::json::value& item,
                     std::string_view field)>
      is_quoted;
};

// Immutable and cheap to copy; any number of threads may render at once.
class ChatTemplate {
 public:
  // Errors: kInvalidData with the line; kUnsupported for include, import, extends and block.
  static Result<ChatTemplate> Parse(std::string source);

  // `context`: messages, tools, documents, add_generation_prompt, bos_token, eos_token and whatever
  // else the caller passes on. Errors: kInvalidArgument with the template's own sentence when it
  // refuses the conversation (raise_exception); kInvalidData when the template is at fault or
  // exceeds a limit.
  Result<QuotedText> Render(const boost::json::object& context,
                            const RenderOptions& options = {}) const;

  // A sentence for every filter, test, function or method that the template names and weft has not.
  // It walks the template: for who converts a model, not for who renders.
  std::vector<std::string> FindMissing() const;

  const std::string& source() const;

 private:
  struct Tree;
  explicit ChatTemplate(std::shared_ptr<const Tree> tree) : tree_(std::move(tree)) {}
  std::shared_ptr<const Tree> tree_;
};

}  // namespace weft
