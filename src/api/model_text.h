// The text side of a model: its tokenizer, chat template and end tokens, from the files of a
// package. Immutable; any number of threads may use it at once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/openai_request.h"
#include "base/result.h"
#include "chat/call_spelling.h"
#include "chat/format.h"
#include "grammar/token_trie.h"
#include "text/jinja/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace weft::api {

// A model's chat template with the tokens that it is given beside the conversation.
struct ModelTemplate {
  std::map<std::string, ChatTemplate> named;  // "default" and others, such as "tool_use"
  // bos_token, eos_token, unk_token, pad_token and so on, as far as the files name them.
  std::map<std::string, std::string> tokens;

  // chat_template.jinja, else chat_template.json, else the chat_template of tokenizer_config.json,
  // which may be several; and what additional_chat_templates/ has. Errors name the file.
  static Result<ModelTemplate> Load(const std::map<std::string, std::string>& files);
  // The one called "tool_use" where there are tools, else "default"; nullptr when there is none.
  const ChatTemplate* Choose(bool has_tools, const std::string& asked = "") const;
  std::string Token(const std::string& name) const;
  // Gives `variables` with the special tokens, and with tools and documents as null, as
  // transformers hands them on. Errors: kNotFound without a template.
  Result<QuotedText> Render(boost::json::object variables, const RenderOptions& options = {},
                            const std::string& asked = "") const;
};

class ModelText {
 public:
  // `files`: contents by name; tokenizer.json is needed, tokenizer_config.json,
  // generation_config.json, config.json and chat_template.jinja are used when there. Errors name
  // the file.
  static Result<ModelText> Load(const std::map<std::string, std::string>& files);

  // A text as it is, with the special tokens that the tokenizer puts around texts.
  Result<std::vector<int32_t>> EncodeText(std::string_view text) const;
  // The conversation through the model's chat template, with the assistant's turn opened. Texts of
  // control tokens in messages of others than the assistant are text, unless
  // `control_tokens_in_text`. Errors: kInvalidArgument for what the template cannot take, and for a
  // model without one.
  Result<std::vector<int32_t>> EncodeChat(const ChatRequest& request) const;
  // Gives the tokens that every conversation beginning with `messages` begins with, as far as the
  // template shows it. They end where the next message of the user stands. Errors are EncodeChat's,
  // and kInvalidArgument where there are none.
  Result<std::vector<int32_t>> EncodeOpening(const ChatRequest& request,
                                             boost::json::array messages) const;
  // Positions of the conversation's `ids`, as EncodeChat gave them, that later requests are likely
  // to share. They lie behind system prompt and tools, before the last message, and before the
  // assistant's turn. Those that the template does not show are left out. What
  // swarm::Request::marks asks for.
  std::vector<uint32_t> SharedPositions(const ChatRequest& request,
                                        const std::vector<int32_t>& ids) const;

  // Whether the conversation's `ids` end with the marker that begins thoughts, so that the answer
  // begins in the middle of them.
  bool OpensThinking(std::span<const int32_t> ids) const;
  // Gives what the answer itself begins behind where the conversation's `ids` leave room to think.
  // That is the marker that ends thoughts, or the one of the channel for answers. It is "" where
  // the answer begins at once.
  std::string AnswerBeginsBehind(std::span<const int32_t> ids) const;
  // Why the model cannot be told how much to think; nullopt: it can, or is not.
  std::optional<ApiError> CheckThinking(const ChatRequest& request) const;
  // Whether the answer may begin with thoughts: the model's template knows some, and the request
  // does not forbid them.
  bool MayThink(const ChatRequest& request) const;
  // What ends thoughts that have become too long.
  Result<std::vector<int32_t>> EndOfThinking() const;

  // Gives what it can be asked for. That is "completion", and "tools" where its template shows them
  // or its way of calling is known. "thinking" is there where the template has a setting or marks
  // for it.
  std::vector<std::string> Capabilities() const;

  const Tokenizer& tokenizer() const { return tokenizer_; }
  // How the model writes calls and thoughts, and the special tokens that it does so with.
  const chat::Format& answer_format() const { return format_; }
  const std::vector<int32_t>& marker_ids() const { return marker_ids_; }
  // How it spells calls; nullopt: its template does not show it.
  const std::optional<chat::CallSpelling>& call_spelling() const { return call_spelling_; }
  // The vocabulary as grammars see it; made when it is first asked for. That of calls has the
  // special tokens of `answer_format` as their text, too.
  std::shared_ptr<const grammar::TokenTrie> vocabulary_trie() const { return trie_->Get(*this); }
  std::shared_ptr<const grammar::TokenTrie> call_trie() const { return call_trie_->Get(*this); }
  const std::vector<int32_t>& stop_ids() const { return stop_ids_; }
  // Gives what generation_config.json recommends, and OpenAI's defaults otherwise.
  const sampling::Parameters& default_sampling() const { return default_sampling_; }
  const ModelTemplate& chat_templates() const { return template_; }
  void set_control_tokens_in_text(bool as_tokens) { control_tokens_in_text_ = as_tokens; }

 private:
  explicit ModelText(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}
  void LearnFormat();
  Result<QuotedText> RenderChat(const ChatRequest& request, const boost::json::array& messages,
                                bool opens_answer) const;

  Tokenizer tokenizer_;
  ModelTemplate template_;
  chat::Format format_;
  std::vector<int32_t> marker_ids_;
  std::optional<chat::CallSpelling> call_spelling_;
  std::vector<int32_t> stop_ids_;
  sampling::Parameters default_sampling_;
  bool control_tokens_in_text_ = false;
  class LazyTrie {
   public:
    explicit LazyTrie(bool shows_markers) : shows_markers_(shows_markers) {}
    std::shared_ptr<const grammar::TokenTrie> Get(const ModelText& text);

   private:
    const bool shows_markers_;
    std::once_flag once_;
    std::shared_ptr<const grammar::TokenTrie> trie_;
  };
  std::shared_ptr<LazyTrie> trie_ = std::make_shared<LazyTrie>(false);
  std::shared_ptr<LazyTrie> call_trie_ = std::make_shared<LazyTrie>(true);
};

// The system messages that a conversation begins with.
boost::json::array OpeningOf(const ChatRequest& request);

// The names that Load looks at.
inline constexpr const char* kTextFiles[] = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json",
    "config.json",    "chat_template.jinja",   "chat_template.json"};

}  // namespace weft::api
