// ClusteredGenerator: answers for a cell whose leader may change while they are computed. Requests
// go to the core of this server while it leads, else over a link to the server that does. When a
// leader is lost they begin once more at the next one, behind the tokens that their clients have
// (cluster/splice.h). Nobody who asks notices, but for a pause.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cluster/splice.h"
#include "net/loop.h"
#include "server/generator.h"

namespace weft::server {

class ClusteredGenerator : public Generator {
 public:
  struct Options {
    Duration wait = Seconds(30);  // longest time of a request without a leader that serves
    size_t queue_limit = 0;       // requests that may wait for a leader
    // A leader says in a turn of its loop that it has a request. One that has not said so for this
    // long is asked once more.
    Duration receipt_limit = Seconds(1);
  };
  // Since the start, for /metrics.
  struct Counts {
    uint64_t forwarded = 0;    // submitted to another server, each time
    uint64_t moved = 0;        // submitted once more, to the next leader
    uint64_t lost = 0;         // submitted once more, to the same one
    uint64_t differences = 0;  // Splice::differences; 0 if all is well
  };
  enum class Place { kHere, kElsewhere };

  // `loop` outlives this.
  ClusteredGenerator(Options options, net::EventLoop& loop);
  ClusteredGenerator(const ClusteredGenerator&) = delete;
  ClusteredGenerator& operator=(const ClusteredGenerator&) = delete;

  // A leader of the cell is heard over the link, or this server itself has begun to lead. Requests
  // go there, unless one with a higher incarnation was heard. `generator` lives until LoseLeader.
  void FindLeader(cluster::LinkId link, cluster::Incarnation incarnation, Generator& generator,
                  Place place);
  // The link is lost, or what is at its end leads no more. Call it before that ends its requests.
  // `is_heard`: the link is there, and what was asked at its end is cancelled.
  void LoseLeader(cluster::LinkId link, bool is_heard = false);
  const Counts& counts() const { return counts_; }

  // Called with the client of each request that has ended, before whoever asked is told.
  using OnFinished = std::function<void(const std::string& client, const swarm::FinishRequest&)>;
  void OnRequestFinished(OnFinished callback) { on_request_finished_ = std::move(callback); }
  // Ends every request with `error`, those that come later too.
  void EndRequests(const Error& error);

  // Requests have a seed where anything of them is drawn.
  swarm::RequestId Submit(swarm::Request request, RequestCallbacks callbacks) override;
  void Cancel(swarm::RequestId request) override;
  void ForgetPrefix(const std::string& salt, const std::string& name) override;
  bool has_accepted(swarm::RequestId request) const override;
  bool is_up() const override { return leader_ != nullptr && leader_->is_up(); }
  bool is_loading() const override { return leader_ != nullptr && leader_->is_loading(); }
  std::optional<uint32_t> loading_percent() const override;
  std::string message() const override;
  std::optional<swarm::RequestProgress> progress(swarm::RequestId request) const override;

 private:
  struct Open {
    swarm::RequestId id;
    swarm::Request request;  // as it was asked first
    RequestCallbacks callbacks;
    cluster::Splice splice;  // of the tokens behind request.answer_ids
    swarm::RequestId id_at_leader;
    Instant asked_at;                          // the leader, last
    std::optional<swarm::SessionTrace> trace;  // of its session there, or at the one before
    bool was_accepted = false;                 // by any leader
    bool is_cancelled = false;                 // its client gets nothing but the end
    bool is_over = false;
    std::optional<Instant> waits_since;  // for a leader, or for the first word of one
  };
  using OpenPtr = std::shared_ptr<Open>;

  void Ask(const OpenPtr& open);
  RequestCallbacks CallbacksOf(const OpenPtr& open, cluster::AttemptId attempt);
  void AskAgain(const OpenPtr& open);
  // Asks once more for what the leader has not received.
  void AskForLost(Instant now);
  void OnToken(const OpenPtr& open, cluster::AttemptId attempt, const swarm::EmitToken& token);
  void OnEnd(const OpenPtr& open, cluster::AttemptId attempt, const swarm::FinishRequest& end);
  void LeaveAt(const OpenPtr& open, Generator& former);
  void OnLost(const OpenPtr& open);
  void End(const OpenPtr& open, swarm::FinishRequest end);
  void Fail(const OpenPtr& open, std::string sentence, bool has_no_room = false);
  void Refuse(const OpenPtr& open, Error error, bool has_no_room = false);
  size_t CountWaiting() const;
  const Open* Find(swarm::RequestId request) const;
  void LookLater();
  void Look();

  const Options options_;
  cluster::Leadership leadership_;
  Generator* leader_ = nullptr;  // leadership_.leader(); nullptr: nobody
  Place place_ = Place::kHere;   // of leader_
  std::map<swarm::RequestId, OpenPtr> open_;
  swarm::RequestId last_id_;
  Counts counts_;
  OnFinished on_request_finished_;
  std::optional<Error> ended_with_;  // what EndRequests was given
  net::EventLoop::Timer look_timer_;
  bool looks_ = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace weft::server
