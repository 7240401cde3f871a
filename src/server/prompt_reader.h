// PromptReader turns a body's text into tokens, and the form of its answer into an automaton. All
// that takes time before the core is asked. Any number of threads may use one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/constraint_source.h"
#include "api/model_text.h"
#include "server/completion.h"
#include "server/dialect.h"
#include "server/request_ledger.h"
#include "swarm/events.h"

namespace weft::server {

// What a body is read for, beside itself.
struct Asked {
  std::shared_ptr<const Dialect> dialect;
  std::string client, salt;  // of net::HttpRequest
  std::string idempotency_key;
  std::string prefix;         // that is to be kept; "": an answer is wanted
  uint64_t known_events = 0;  // of a stream whose client lost it
};

struct Prompt {
  Asked asked;
  std::optional<api::ApiError> error;  // then nothing below counts
  std::optional<KeyedCall> call;
  Question question;
  std::vector<int32_t> opening;   // that is to be kept
  bool keeps_while_room = false;  // it is by `prompt_cache_key`
  std::vector<int32_t> ids;
  std::vector<uint32_t> marks;  // swarm::Request::marks
  AnswerReading reading;
  std::shared_ptr<const sampling::Constraint> constraint;
  // The same of an answer whose thoughts were ended.
  std::shared_ptr<const sampling::Constraint> form_behind_thoughts;
};

class PromptReader {
 public:
  struct Options {
    std::string model_name;
    bool recurrent = false;       // the model has layers with recurrent state
    uint32_t vocabulary = 0;      // tokens that the model has; 0: not known
    bool takes_any_name = false;  // of ChatRoutes
  };
  PromptReader(Options options, std::shared_ptr<const api::ModelText> text)
      : options_(std::move(options)), text_(std::move(text)) {}

  Prompt Read(Asked asked, std::string_view body) const;

 private:
  std::optional<api::ApiError> ReadBody(Prompt& prompt, std::string_view body) const;
  std::optional<api::ApiError> CheckTokens(const Question& question) const;
  std::optional<api::ApiError> ReadOpening(Prompt& prompt) const;
  void ReadCachedOpening(Prompt& prompt) const;
  Result<std::vector<int32_t>> Encode(const Question& question) const;
  std::optional<api::ApiError> CompileForm(Prompt& prompt) const;
  std::optional<api::ApiError> CompileCalls(Prompt& prompt) const;
  std::optional<api::ApiError> Constrain(Prompt& prompt, api::ConstraintSource source) const;

  const Options options_;
  const std::shared_ptr<const api::ModelText> text_;
};

}  // namespace weft::server
