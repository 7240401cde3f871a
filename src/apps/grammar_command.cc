// `weft grammar`: what a grammar of structured output accepts, to see before a model is asked.
#include <iostream>

#include "api/vocabulary_trie.h"
#include "apps/commands.h"
#include "apps/grammar_tools.h"
#include "apps/text_tools.h"

namespace weft::apps {
namespace {

// Single bytes, where no vocabulary is named.
std::shared_ptr<const grammar::TokenTrie> ByteTrie() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return std::make_shared<const grammar::TokenTrie>(std::move(tokens), std::vector<int32_t>{});
}

Status RunGrammar(const std::string& source) {
  if (source.empty()) return RunGrammarLines(ByteTrie(), std::cin, std::cout);
  ASSIGN_OR_RETURN(const Tokenizer tokenizer, ReadModelTokenizer(source));
  return RunGrammarLines(api::VocabularyTrie(tokenizer, {}), std::cin, std::cout);
}

}  // namespace

void AddGrammarCommand(CLI::App& app, int* exit_code) {
  auto source = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "grammar",
      "Try grammars of structured output: a JSON object a line in, with 'json' (a schema), "
      "'json_object', 'regex', 'choice' or 'grammar' and 'check' (texts) or 'sample' (a number); "
      "one a line out.");
  command->add_option("--tokenizer", *source,
                      "Whose tokens samples are made of: a tokenizer.json, a GGUF file, a package "
                      "or a checkpoint's folder; without it single bytes");
  command->callback([source, exit_code] { *exit_code = ReportStatus(RunGrammar(*source)); });
}

}  // namespace weft::apps
