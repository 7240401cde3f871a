// A gateway of one cell: the clients' side of a simulated server. The answers are spliced by the
// real cluster::Splice, and the real cluster::Leadership says whom to ask. What ClusteredGenerator
// (server/clustered_generator.h) does between them on an event loop is done here on a virtual
// clock. It has no patience limit, so every request comes to its end.
//
// Now and then it asks without the tokens that it has, so that they come again and must be dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/random.h"
#include "cluster/splice.h"
#include "sim/cluster/request_messages.h"

namespace weft::sim {

// A client's request, from when it asks until its answer has ended.
struct GatewayClient {
  std::function<void(const swarm::EmitToken&)> token;
  std::function<void(const swarm::FinishRequest&)> end;  // once, last
  std::function<void()> moving;                          // another server goes on with the answer
};

class Gateway {
 public:
  // Rules that tests take out.
  struct Rules {
    bool drops_what_is_known = true;  // and what former leaders send
    bool submits_again = true;
    bool trusts_claims = false;  // its session at the next leader is good for any generation
  };
  struct Counts {
    uint64_t moved = 0, adopted = 0, known = 0, stale = 0, differences = 0;
  };

  // `counts` outlives it.
  Gateway(Rules rules, uint64_t seed, Counts& counts)
      : rules_(rules), random_(seed), counts_(counts) {}

  using Tell = std::function<void(const ToLeader&)>;
  // A leader is heard. `tell` is good until LoseLeader.
  void FindLeader(cluster::LinkId link, cluster::Incarnation incarnation, Tell tell);
  // `is_heard`: the link is there, and what was asked at its end is cancelled.
  void LoseLeader(cluster::LinkId link, bool is_heard = false);
  // The link is gone: nothing comes over it any more.
  void ForgetLink(cluster::LinkId link);
  void OnTold(const ToGateway& told);

  uint64_t Submit(swarm::Request request, GatewayClient client);
  void Cancel(uint64_t request);

 private:
  struct Open {
    uint64_t id = 0;
    swarm::Request request;
    GatewayClient client;
    cluster::Splice splice;
    uint64_t number = 0;  // of the attempt under way
    std::optional<swarm::SessionTrace> trace;
    swarm::SessionId asked_for;  // as the trace of the leader before had it
    bool was_accepted = false, is_cancelled = false, is_over = false;
  };
  using OpenPtr = std::shared_ptr<Open>;
  struct Attempt {
    OpenPtr open;
    cluster::AttemptId id;
    cluster::LinkId link;
  };

  void Ask(const OpenPtr& open);
  void AskAgain(const OpenPtr& open);
  void OnLost(const OpenPtr& open);
  void End(const OpenPtr& open, swarm::FinishRequest end);
  void On(const Attempt&, const Accepted&);
  void On(const Attempt& attempt, const swarm::SessionTrace& trace);
  void On(const Attempt& attempt, const swarm::EmitToken& token);
  void On(const Attempt& attempt, const swarm::FinishRequest& end);
  void On(const Attempt& attempt, const LeadsNoMore&);

  const Rules rules_;
  SeededRandom random_;
  Counts& counts_;
  cluster::Leadership leadership_;
  cluster::LinkId asked_link_;  // of tell_
  Tell tell_;                   // empty: nobody leads
  std::map<uint64_t, OpenPtr> open_;
  std::map<uint64_t, Attempt> attempts_;  // by number
  uint64_t last_id_ = 0, last_number_ = 0;
};

}  // namespace weft::sim
