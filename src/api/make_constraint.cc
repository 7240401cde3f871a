#include "api/make_constraint.h"

#include <string>
#include <utility>
#include <variant>

#include "api/call_grammar.h"

namespace weft::api {
namespace {

ApiResult<std::shared_ptr<const grammar::Automaton>> CompileAutomaton(
    const ConstraintSource& source, const ModelText& text) {
  if (!source.form)
    return CompileCalls(source.calls, text.answer_format(), text.call_spelling(), source.may_think);
  auto compiled = source.form->Compile();
  if (compiled.ok()) return std::move(compiled).value();
  const std::string& field = source.form->field;
  return RefuseField(field, "'" + field + "' cannot be followed. " + compiled.error().message());
}

}  // namespace

ApiResult<std::shared_ptr<const TokenGrammar>> MakeConstraint(ConstraintSource source,
                                                              const ModelText& text) {
  auto compiled = CompileAutomaton(source, text);
  if (auto* refused = std::get_if<ApiError>(&compiled)) return std::move(*refused);
  auto trie = source.form ? text.vocabulary_trie() : text.call_trie();
  const std::string begins_behind = source.begins_behind;
  return std::make_shared<const TokenGrammar>(
      std::get<std::shared_ptr<const grammar::Automaton>>(std::move(compiled)), std::move(trie),
      text.tokenizer(), begins_behind, std::make_shared<const ConstraintSource>(std::move(source)));
}

}  // namespace weft::api
