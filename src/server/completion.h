// Completion: one answer of the API from the core's acceptance to its last byte. Its tokens
// become text, and the text becomes content, thoughts and calls. A writer gives these the asked
// form (answer_writer.h). A client that goes away cancels it.
//
// No byte is sent before the core has the request in its queue and the swarm is up. So a full queue
// and a swarm that stays down are told as such, with a status. From then on the answer is under
// way, and what goes wrong is an event of the stream. Only where devices load one of several models
// a stream begins earlier: that may take minutes, and proxies cut connections without a byte.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/answer.h"
#include "api/answer_text.h"
#include "api/model_text.h"
#include "base/clock.h"
#include "chat/answer_parser.h"
#include "net/loop.h"
#include "server/answer_writer.h"
#include "server/generator.h"

namespace weft::server {

// What all completions share. All of it outlives them.
struct CompletionContext {
  Generator& generator;
  net::EventLoop& loop;
  const api::ModelText& text;
  // How long a request waits for a swarm that is down before it is given up (503), and for one
  // whose devices load the model where that may be longer.
  Duration wait, load_wait = {};
  std::string model = {};  // its name, for who waits until it is loaded
};

// Has the core generate: the request's number, for cancelling and progress. Tokens that are known
// already, and the end, may come before it returns.
using Generate = std::function<swarm::RequestId(RequestCallbacks)>;
// The same for what follows when the answer begins with these tokens.
using GoOn =
    std::function<swarm::RequestId(const std::vector<int32_t>& answer_ids, RequestCallbacks)>;

// How an answer is read.
struct AnswerReading {
  std::shared_ptr<const chat::Tools> tools;
  bool opens_thinking = false;  // the prompt ends in the middle of thoughts
};

class Completion : public std::enable_shared_from_this<Completion> {
 public:
  // Calls `generate`, and `go_on` where thoughts were ended. The core's callbacks, a timer and the
  // connection keep the completion alive until its end.
  static void Start(const CompletionContext& context, const api::ChatRequest& chat,
                    const AnswerReading& reading, const Generate& generate, GoOn go_on,
                    std::unique_ptr<AnswerWriter> writer);

 private:
  Completion(const CompletionContext& context, const api::ChatRequest& chat,
             const AnswerReading& reading, GoOn go_on, std::unique_ptr<AnswerWriter> writer);

  void Submit(const Generate& generate);
  RequestCallbacks Callbacks();
  // Before the answer is under way: whether it can be now.
  void AwaitSwarm();
  void SayLoading();
  void GiveUp();
  void Begin();

  // While it is: comments that keep proxies and people from giving up.
  void KeepAlive();
  void SayProgress();

  void OnToken(const swarm::EmitToken& token);
  void Take(const swarm::EmitToken& token);
  bool has_answer() const { return answer_.stopped() || parser_.is_done(); }
  // When thoughts have had their tokens: what ends them is said in the model's place, and it goes
  // on from there.
  bool ThinksTooLong(bool thought_before);
  void EndThoughts(swarm::FinishRequest first);
  void GoOnBehindThoughts();
  void OnFinish(const swarm::FinishRequest& finish);
  void Finish(const swarm::FinishRequest& finish);
  // Those of the tokens that have come into the text since the last call.
  std::vector<api::SaidToken> TakeSaid();
  void Tell(std::vector<chat::Event> events);
  api::SaidToken SaidOf(const swarm::EmitToken& token) const;
  api::EndReason ReasonOf(const swarm::FinishRequest& finish) const;

  Generator& generator_;
  net::EventLoop& loop_;
  const api::ModelText& text_;
  const std::string model_;
  const Duration wait_, load_wait_;
  const bool logprobs_;
  const bool shows_thinking_;
  const std::optional<uint32_t> max_tokens_, max_thinking_tokens_;
  const GoOn go_on_;
  const std::unique_ptr<AnswerWriter> writer_;
  api::AnswerText answer_;
  chat::AnswerParser parser_;
  net::EventLoop::Timer timer_;
  const Instant submitted_;
  swarm::RequestId id_;

  bool under_way_ = false;  // the swarm is up
  bool has_begun_ = false;  // the writer's Begin was called
  std::optional<Instant> said_loading_at_;
  std::optional<uint32_t> said_percent_;
  bool finished_ = false;
  std::optional<api::ApiError> given_up_;
  bool has_token_ = false;
  bool quiet_ = true;                           // nothing was written since the last look
  std::optional<swarm::RequestProgress> told_;  // the last progress
  int unchanged_looks_ = 0;                     // since then
  std::deque<api::SaidToken> held_;             // whose text is held back, where asked for
  uint32_t thought_tokens_ = 0;                 // of all that were taken

  // Of thoughts with a limit.
  std::vector<int32_t> answer_ids_;
  uint32_t thinking_tokens_ = 0;
  bool is_cut_ = false;                        // the core is to end the first part
  std::optional<swarm::FinishRequest> first_;  // which has ended
  bool is_gone_ = false;                       // the client
};

}  // namespace weft::server
