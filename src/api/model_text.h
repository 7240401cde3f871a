// The text side of a model: its tokenizer, chat template and end tokens, from the files of a
// package. Immutable; any number of threads may use it at once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/openai_request.h"
#include "base/result.h"
#include "text/jinja/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace weft::api {

// A model's chat template with the tokens that it is given beside the conversation.
struct ModelTemplate {
  std::optional<ChatTemplate> chat;  // absent: the files have none
  std::string bos_token, eos_token;  // empty: the files name none

  // Of chat_template.jinja, else of the chat_template in tokenizer_config.json. Errors name the
  // file.
  static Result<ModelTemplate> Load(const std::map<std::string, std::string>& files);
  // `variables` with bos_token and eos_token where it does not have them. REQUIRES: `chat`.
  Result<std::string> Render(boost::json::object variables) const;
};

class ModelText {
 public:
  // `files`: contents by name; tokenizer.json is needed, tokenizer_config.json,
  // generation_config.json, config.json and chat_template.jinja are used when there. Errors name
  // the file.
  static Result<ModelText> Load(const std::map<std::string, std::string>& files);

  // A text as it is, with the special tokens that the tokenizer puts around texts.
  Result<std::vector<int32_t>> EncodeText(std::string_view text) const;
  // The conversation through the model's chat template, with the assistant's turn opened. A model
  // without a template continues the contents of the messages, one after another.
  Result<std::vector<int32_t>> EncodeChat(const ChatRequest& request) const;
  // Positions of the conversation's `ids`, as EncodeChat gave them, that later requests are likely
  // to share: behind system prompt and tools, before the last message, before the assistant's turn.
  // Those that the template does not show are left out. What swarm::Request::marks asks for.
  std::vector<uint32_t> SharedPositions(const ChatRequest& request,
                                        const std::vector<int32_t>& ids) const;

  const Tokenizer& tokenizer() const { return tokenizer_; }
  const std::vector<int32_t>& stop_ids() const { return stop_ids_; }
  // What generation_config.json recommends; OpenAI's defaults otherwise.
  const sampling::Parameters& default_sampling() const { return default_sampling_; }

 private:
  explicit ModelText(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}
  // REQUIRES: there is a template.
  Result<std::string> RenderChat(const ChatRequest& request, const boost::json::array& messages,
                                 bool opens_answer) const;

  Tokenizer tokenizer_;
  ModelTemplate template_;
  std::vector<int32_t> stop_ids_;
  sampling::Parameters default_sampling_;
};

// The names that Load looks at.
inline constexpr const char* kTextFiles[] = {"tokenizer.json", "tokenizer_config.json",
                                             "generation_config.json", "config.json",
                                             "chat_template.jinja"};

}  // namespace weft::api
