// AnswerWriter: how an answer goes out, in the form of whoever asked. A Completion (completion.h)
// tells it what happens; it knows nothing of tokens, queues or the swarm. All on the loop.
//
// A new form is a class of these (StreamingWriter does what most share) and a Dialect (dialect.h)
// that reads its bodies; chat_answers.h is OpenAI's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/answer.h"
#include "api/api_error.h"
#include "chat/answer_events.h"
#include "net/http.h"
#include "swarm/snapshot.h"

namespace weft::server {

// Begin, Write..., Finish; Fail in place of any of them, as the last. An answer that nobody waits
// for any more (OnClosed) ends without either.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // Whether anything goes out before the end: only then are there progress and signs of life.
  virtual bool is_stream() const = 0;
  // Called once when nobody waits for the answer any more. Asked for once.
  virtual void OnClosed(std::function<void()> callback) = 0;

  // The core has the request, and the swarm is up or loads the model: a stream has its status.
  virtual void Begin() = 0;
  // What the model said, in order: pieces of content and thoughts, calls whole. `said`: the tokens
  // whose text begins in it, where logprobs are asked for. One of both may be empty.
  virtual void Write(const std::vector<chat::Event>& events, std::vector<api::SaidToken> said) = 0;
  // Whether SayLoading has a form here that every client skips. Such a stream may begin before the
  // swarm is up, for what goes wrong later can be told in it.
  virtual bool tells_loading() const { return false; }
  // Devices load the model; `percent` of the download, where it is known. Behind Begin.
  virtual void SayLoading(const std::string& /*model*/, std::optional<uint32_t> /*percent*/) {}
  // Of a stream without a token so far, when it has changed, else every five seconds.
  virtual void SayProgress(const swarm::RequestProgress& progress) = 0;
  // Of a stream whose answer is to go on at another server. Forms without comments say nothing.
  virtual void SayMoving() {}
  // Of a stream in which nothing was written for five seconds.
  virtual void SayAlive() = 0;

  virtual void Finish(const api::AnswerEnd& end) = 0;
  // Before Begin it is an answer with a status of its own.
  virtual void Fail(const api::ApiError& error) = 0;
};

// One for each choice of the answer, most often one alone.
using Writers = std::vector<std::unique_ptr<AnswerWriter>>;

// A writer with a connection of its own. A stream is one of server-sent events, whose comments tell
// progress and life.
class StreamingWriter : public AnswerWriter {
 public:
  StreamingWriter(std::shared_ptr<net::Responder> responder, bool is_stream)
      : responder_(std::move(responder)), is_stream_(is_stream) {}

  bool is_stream() const override { return is_stream_; }
  void OnClosed(std::function<void()> callback) override {
    responder_->OnClosed(std::move(callback));
  }
  bool tells_loading() const override { return is_stream_; }
  void SayLoading(const std::string& model, std::optional<uint32_t> percent) override;
  void SayProgress(const swarm::RequestProgress& progress) override;
  void SayMoving() override;
  void SayAlive() override;

 protected:
  net::Responder& responder() { return *responder_; }

 private:
  const std::shared_ptr<net::Responder> responder_;
  const bool is_stream_;
};

// Of a stream of server-sent events in which nothing happens.
inline constexpr const char* kAliveComment = ": waiting\n\n";

// 200, with what keeps proxies from holding server-sent events back.
void StartEventStream(net::Responder& responder);

}  // namespace weft::server
