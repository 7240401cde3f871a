// LinkedRequests: requests of other servers' clients, for the core of the cell that this server
// leads. What one turn of the loop brings for a peer goes to it in one message. A peer whose link
// is full gets more later, in fewer messages; the core does not wait.
//
// A peer that goes takes its requests with it, but for those with a key: they come to their end,
// and whoever submits the same key again within a minute gets the tokens that it lacks.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/strong_id.h"
#include "net/loop.h"
#include "server/constraint_cache.h"
#include "server/generator.h"
#include "server/request_channel.h"

namespace weft::server {

using PeerId = StrongId<struct PeerTag, uint64_t>;  // one link to a server; never reused

class LinkedRequests {
 public:
  // `loop` and `core` outlive this. `compile`: makes a constraint of its source, on a thread.
  LinkedRequests(net::EventLoop& loop, Generator& core, ConstraintCache::Compile compile);
  ~LinkedRequests();
  LinkedRequests(const LinkedRequests&) = delete;
  LinkedRequests& operator=(const LinkedRequests&) = delete;

  // `channel` lives until Detach.
  PeerId Attach(RequestChannel& channel);
  // kInvalidData: the link has to be closed, with this sentence.
  Status OnMessage(PeerId peer, wire::pb::RequestMessage message);
  // The peer's channel is full no more.
  void OnDrained(PeerId peer);
  void Detach(PeerId peer);
  // Requests go on at the cell's next leader, also those that come later. Call it before the core
  // ends them.
  void StopLeading();

 private:
  // One request, from its submission until nobody asks for it any more.
  struct Answer {
    PeerId peer;          // not set: nobody listens
    uint64_t number = 0;  // on that link
    std::string key;
    bool want_logprobs = false;
    swarm::RequestId id;        // not set: its constraint is being compiled, or it has ended
    bool is_cancelled = false;  // meanwhile
    bool is_accepted = false;
    bool tells_accepted = false;  // the peer has not heard it
    bool tells_received = true;   // the same
    // With a key all tokens, those that were known first; without one those that wait.
    std::vector<swarm::EmitToken> tokens;
    size_t told = 0;         // of `tokens`
    size_t known = 0;        // of those with a key: that came with the request, without logprobs
    bool has_begun = false;  // a token or rows came
    std::deque<wire::pb::RequestEvent::HeadRows> rows;
    std::optional<swarm::RequestProgress> progress, told_progress;
    std::optional<swarm::SessionTrace> trace, told_trace;
    std::optional<swarm::FinishRequest> end;
    Instant ended_at;
  };
  using AnswerPtr = std::shared_ptr<Answer>;
  struct Peer {
    RequestChannel* channel = nullptr;
    std::map<uint64_t, AnswerPtr> answers;  // by number
    std::set<uint64_t> waiting;             // numbers of those with something to send
    uint64_t last_number = 0;
    std::string told_readiness;  // as bytes
  };

  Status OnSubmit(PeerId id, wire::pb::SubmitRequest message);
  bool GoOn(PeerId peer, uint64_t number, const swarm::Request& request);
  void Keep(const AnswerPtr& answer, const swarm::Request& request);
  void Begin(const AnswerPtr& answer, swarm::Request request);
  void Cancel(const AnswerPtr& answer);
  void End(const AnswerPtr& answer, const swarm::FinishRequest& end);
  void OnCancel(Peer& peer, uint64_t number);

  void SendLater(const Answer& answer);
  void Flush();
  void Flush(Peer& peer);
  void Fill(Answer& answer, wire::pb::RequestEvent& event);
  void Look();
  void LookAt(Answer& answer);
  void TellReadiness(Peer& peer, const wire::pb::CellReadiness& readiness);
  void ForgetEnded(Instant now);
  wire::pb::CellReadiness Readiness() const;

  net::EventLoop& loop_;
  Generator& core_;
  std::map<PeerId, Peer> peers_;
  PeerId last_peer_;
  std::map<std::string, AnswerPtr> keyed_;  // by key
  bool has_stopped_ = false;
  bool is_flush_posted_ = false;
  net::EventLoop::Timer look_timer_;
  bool looks_ = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  ConstraintCache constraints_;
};

}  // namespace weft::server
