#include "text/jinja/chat_template.h"

#include "text/jinja/eval.h"
#include "text/jinja/json.h"
#include "text/jinja/library.h"
#include "text/jinja/parser.h"
#include "text/utf8.h"

namespace weft {

struct ChatTemplate::Tree {
  std::string source;
  jinja::Block block;
};

Result<ChatTemplate> ChatTemplate::Parse(std::string source) {
  if (source.size() > kMaxTemplateBytes) {
    return Error(ErrorCode::kInvalidData, "The chat template has " + std::to_string(source.size()) +
                                              " bytes; the limit is " +
                                              std::to_string(kMaxTemplateBytes) + ".");
  }
  if (const size_t bad = utf8::FindInvalid(source); bad != std::string::npos) {
    return Error(ErrorCode::kInvalidData,
                 "The chat template is not valid UTF-8 at byte " + std::to_string(bad) + ".");
  }
  auto tree = std::make_shared<Tree>();
  ASSIGN_OR_RETURN(std::vector<jinja::Token> tokens, jinja::Tokenize(source));
  ASSIGN_OR_RETURN(tree->block, jinja::ParseTemplate(std::move(tokens)));
  tree->source = std::move(source);
  return ChatTemplate(std::move(tree));
}

Result<std::string> ChatTemplate::Render(const boost::json::object& context,
                                         const RenderOptions& options) const {
  jinja::Evaluator evaluator(jinja::kLibrary, options.limits, options.local_now_s);
  for (const auto& [key, value] : context) {
    ASSIGN_OR_RETURN(jinja::Value converted, jinja::FromJson(value));
    evaluator.SetGlobal(std::string_view(key), std::move(converted));
  }
  return evaluator.Run(tree_->block);
}

const std::string& ChatTemplate::source() const {
  return tree_->source;
}

}  // namespace weft
