#include "grammar/grammar.h"

#include "base/sentence.h"
#include "grammar/gbnf.h"
#include "grammar/regex.h"
#include "grammar/rules.h"
#include "grammar/schema.h"
#include "grammar/utf8.h"

namespace weft::grammar {

Compiled CompileSchema(const boost::json::value& schema) {
  Rules rules;
  ASSIGN_OR_RETURN(const RuleId root, AddSchema(schema, rules));
  return Automaton::Compile(rules, root);
}

Compiled CompileAnyObject() {
  Rules rules;
  const RuleId root = AddAnyObject(rules);
  return Automaton::Compile(rules, root);
}

Compiled CompileGbnf(std::string_view text) {
  Rules rules;
  ASSIGN_OR_RETURN(const RuleId root, AddGbnf(text, rules));
  return Automaton::Compile(rules, root);
}

Compiled CompileRegex(std::string_view pattern) {
  Rules rules;
  const RuleId root = rules.Declare("The regular expression");
  ASSIGN_OR_RETURN(const ExprId body, AddRegex(pattern, {}, rules));
  rules.Define(root, body);
  return Automaton::Compile(rules, root);
}

Compiled CompileChoice(const std::vector<std::string>& texts) {
  if (texts.empty() || texts.size() > kMaxChoices)
    return Error(
        ErrorCode::kInvalidArgument,
        Sentence("There are ", texts.size(), " choices; expected 1 to ", kMaxChoices, "."));
  Rules rules;
  std::vector<ExprId> ways;
  size_t bytes = 0;
  for (const std::string& text : texts) {
    bytes += text.size();
    if (text.empty() || !IsUtf8(text))
      return Error(ErrorCode::kInvalidArgument,
                   "A choice is empty or not valid UTF-8; expected a text.");
    ways.push_back(rules.Bytes(text));
  }
  if (bytes > kMaxChoiceBytes)
    return Error(
        ErrorCode::kLimitExceeded,
        Sentence("The choices have ", bytes, " bytes, the limit is ", kMaxChoiceBytes, "."));
  const RuleId root = rules.Declare("The choice");
  rules.Define(root, rules.Choice(std::move(ways)));
  return Automaton::Compile(rules, root);
}

}  // namespace weft::grammar
