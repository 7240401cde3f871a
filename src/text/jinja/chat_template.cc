#include "text/jinja/chat_template.h"

#include <algorithm>

#include "text/jinja/eval.h"
#include "text/jinja/json.h"
#include "text/jinja/library.h"
#include "text/jinja/missing_names.h"
#include "text/jinja/parser.h"
#include "text/utf8.h"

namespace weft {

struct ChatTemplate::Tree {
  std::string source;
  jinja::Block block;
};

namespace {

// The variable as a value, with what the caller says is quoted marked so.
Result<jinja::Value> Variable(std::string_view name, const boost::json::value& value,
                              const RenderOptions& options) {
  if (!options.is_quoted) return jinja::FromJson(value, false);
  const boost::json::array* items = value.if_array();
  const bool rows = items != nullptr && !items->empty() && items->front().is_object();
  if (!rows) return jinja::FromJson(value, options.is_quoted(name, nullptr, ""));
  auto array = std::make_shared<jinja::ArrayData>();
  for (const boost::json::value& item : *items) {
    if (!item.is_object()) {
      ASSIGN_OR_RETURN(jinja::Value made,
                       jinja::FromJson(item, options.is_quoted(name, nullptr, "")));
      array->items.push_back(std::move(made));
      continue;
    }
    auto object = std::make_shared<jinja::ObjectData>();
    for (const auto& [key, field] : item.as_object()) {
      ASSIGN_OR_RETURN(jinja::Value made,
                       jinja::FromJson(field, options.is_quoted(name, item, key)));
      object->Set(jinja::ObjectKeyOf(key), std::move(made));
    }
    array->depth = std::max(array->depth, object->depth + 1);
    array->items.push_back(jinja::Value::Object(std::move(object)));
  }
  return jinja::Value::Array(std::move(array));
}

}  // namespace

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

Result<QuotedText> ChatTemplate::Render(const boost::json::object& context,
                                        const RenderOptions& options) const {
  jinja::Evaluator evaluator(jinja::kLibrary, options.limits, options.local_now_s);
  for (const auto& [key, value] : context) {
    ASSIGN_OR_RETURN(jinja::Value converted, Variable(key, value, options));
    evaluator.SetGlobal(std::string_view(key), std::move(converted));
  }
  ASSIGN_OR_RETURN(jinja::Text text, evaluator.Run(tree_->block));
  return std::move(text).Take();
}

std::vector<std::string> ChatTemplate::FindMissing() const {
  return jinja::FindMissingNames(tree_->block);
}

const std::string& ChatTemplate::source() const {
  return tree_->source;
}

}  // namespace weft
