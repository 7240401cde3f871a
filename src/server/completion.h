// Completion: one generation of the API from the core's acceptance to its last byte. Its tokens
// become text and that text events of a stream or one answer; a client that goes away cancels it.
//
// No byte is sent before the core has the request in its queue and the swarm is up, so that a full
// queue and a swarm that stays down are told as what they are, with a status. From then on the
// answer is under way, and what goes wrong is an event of the stream.
#pragma once

#include <boost/json/array.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/answer_text.h"
#include "api/openai_response.h"
#include "base/clock.h"
#include "net/http.h"
#include "net/loop.h"
#include "server/swarm_host.h"
#include "text/tokenizer/tokenizer.h"

namespace weft::server {

// What all completions share. Host and loop outlive them.
struct CompletionContext {
  SwarmHost& host;
  net::EventLoop& loop;
  const Tokenizer& tokenizer;
  // How long a request waits for a swarm that is down before it is given up (503).
  Duration wait;
};

// Has the core generate: the request's number, for cancelling and progress. Tokens that are known
// already, and the end, may come before it returns.
using Generate = std::function<swarm::RequestId(RequestCallbacks)>;

class Completion : public std::enable_shared_from_this<Completion> {
 public:
  // Calls `generate`. The core's callbacks, a timer and the connection keep the
  // completion alive until its end.
  static void Start(const CompletionContext& context, const api::CompletionHead& head,
                    const api::ChatRequest& chat, const Generate& generate,
                    std::shared_ptr<net::Responder> responder);

 private:
  Completion(const CompletionContext& context, const api::CompletionHead& head,
             const api::ChatRequest& chat, std::shared_ptr<net::Responder> responder);

  void Submit(const Generate& generate);
  // Before the answer is under way: whether it can be now.
  void AwaitSwarm();
  void GiveUp();
  void Begin();

  // While it is: comments that keep proxies and people from giving up.
  void KeepAlive();
  void SayProgress();

  void OnToken(const swarm::EmitToken& token);
  void OnFinish(const swarm::FinishRequest& finish);
  void Fail(const api::ApiError& error);
  // Those of the tokens that have come into the text since the last call.
  boost::json::array TakeLogprobs();
  void WriteText(const std::string& text);
  void FinishStream(const std::string& rest, const std::string& reason, const api::Usage& usage);
  void FinishWhole(const std::string& rest, const std::string& reason, const api::Usage& usage);
  boost::json::value LogprobOf(const swarm::EmitToken& token) const;

  SwarmHost& host_;
  const Tokenizer tokenizer_;
  const Duration wait_;
  const api::CompletionHead head_;
  const bool stream_;
  const bool include_usage_;
  const bool logprobs_;
  const std::shared_ptr<net::Responder> responder_;
  api::AnswerText answer_;
  net::EventLoop::Timer timer_;
  const Instant submitted_;
  swarm::RequestId id_ = 0;

  bool under_way_ = false;  // from the first byte of a stream; of a whole answer, from "up"
  bool finished_ = false;
  std::optional<api::ApiError> given_up_;
  bool has_token_ = false;
  bool quiet_ = true;                             // nothing was written since the last look
  std::string said_;                              // the last comment about progress
  int unchanged_looks_ = 0;                       // since then
  std::string text_;                              // of a whole answer
  std::deque<boost::json::value> held_logprobs_;  // of tokens whose text is held back
  boost::json::array all_logprobs_;               // of a whole answer
};

}  // namespace weft::server
