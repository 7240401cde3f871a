// `weft tokenize` and `weft render`: a model's tokenizer and chat template by themselves, to see
// what a prompt becomes.
#include <iostream>

#include "apps/commands.h"
#include "apps/text_tools.h"

namespace weft::apps {
namespace {

Status Tokenize(const std::string& source, const TokenizeOptions& options) {
  ASSIGN_OR_RETURN(const Tokenizer tokenizer, ReadModelTokenizer(source));
  return TokenizeLines(tokenizer, options, std::cin, std::cout);
}

Status Render(const std::string& source) {
  ASSIGN_OR_RETURN(const auto texts, ReadModelTexts(source, "chat_template.jinja"));
  ASSIGN_OR_RETURN(const api::ModelTemplate chat, api::ModelTemplate::Load(texts));
  if (chat.named.empty()) {
    return Error(
        ErrorCode::kNotFound,
        "'" + source +
            "' has no chat template: neither chat_template.jinja nor chat_template.json nor a "
            "chat_template in tokenizer_config.json.");
  }
  ASSIGN_OR_RETURN(const std::string text, RenderVariables(chat, std::cin));
  std::cout << text << std::flush;
  return OkStatus();
}

}  // namespace

void AddTextCommands(CLI::App& app, int* exit_code) {
  struct Options : TokenizeOptions {
    std::string source;
    bool plain = false;
  };
  auto tokens = std::make_shared<Options>();
  CLI::App* tokenize = app.add_subcommand(
      "tokenize", "Turn texts into token ids: a JSON string a line in, a list of ids a line out.");
  tokenize
      ->add_option("source", tokens->source,
                   "A tokenizer.json, a GGUF file, a package or a checkpoint's folder")
      ->required();
  tokenize->add_flag("--add-special", tokens->add_special,
                     "Add what the tokenizer puts around a text, such as <s>");
  tokenize->add_flag("--plain", tokens->plain,
                     "Take the texts of special tokens as plain text, as in a user's message");
  tokenize->callback([tokens, exit_code] {
    tokens->parse_special = !tokens->plain;
    *exit_code = ReportStatus(Tokenize(tokens->source, *tokens));
  });

  auto template_source = std::make_shared<std::string>();
  CLI::App* render = app.add_subcommand(
      "render",
      "Render a chat template: a JSON object of variables in, the prompt's text out, byte for "
      "byte. The package's bos_token and eos_token are used unless the variables have them.");
  render
      ->add_option("source", *template_source,
                   "A Jinja template, a tokenizer_config.json, a GGUF file, a package or a "
                   "checkpoint's folder")
      ->required();
  render->callback(
      [template_source, exit_code] { *exit_code = ReportStatus(Render(*template_source)); });
}

}  // namespace weft::apps
