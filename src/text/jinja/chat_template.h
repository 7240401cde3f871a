// Chat templates: the Jinja text that a model's files bring, which turns messages into the prompt
// that the model was trained on. A subset of Jinja without any way to the host, bounded in work,
// output and nesting; results equal @huggingface/jinja's (chat_template_test.cc).
//
//   ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Parse(config.chat_template));
//   ASSIGN_OR_RETURN(const std::string prompt,
//                    chat.Render({{"messages", messages}, {"add_generation_prompt", true}}));
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "text/jinja/limits.h"

namespace weft {

struct RenderOptions {
  TemplateLimits limits;
  // What strftime_now() reads: the local wall clock, as seconds since 1970. Absent: this machine's.
  std::optional<int64_t> local_now_s;
};

// Immutable and cheap to copy; any number of threads may render at once.
class ChatTemplate {
 public:
  // Errors: kInvalidData with the line; kUnsupported for include, import, extends, block and
  // recursive loops.
  static Result<ChatTemplate> Parse(std::string source);

  // `context`: messages, tools, documents, add_generation_prompt, bos_token, eos_token and whatever
  // else the caller passes on. Errors: kInvalidArgument with the template's own sentence when it
  // refuses the conversation (raise_exception); kInvalidData when the template is at fault or
  // exceeds a limit.
  Result<std::string> Render(const boost::json::object& context,
                             const RenderOptions& options = {}) const;

  const std::string& source() const;

 private:
  struct Tree;
  explicit ChatTemplate(std::shared_ptr<const Tree> tree) : tree_(std::move(tree)) {}
  std::shared_ptr<const Tree> tree_;
};

}  // namespace weft
