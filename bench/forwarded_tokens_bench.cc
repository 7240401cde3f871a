// What it costs that another server has the client: tokens from a core over a link to a gateway, as
// bytes and back, at the same time for many answers. Sockets come on top (loopback_bench.cc).
#include <benchmark/benchmark.h>

#include <ctime>
#include <map>
#include <memory>
#include <vector>

#include "base/check.h"
#include "server/clustered_generator.h"
#include "server/linked_generator.h"
#include "server/linked_requests.h"

namespace weft::server {
namespace {

// Gives every request its next token when it is told to.
class PacedCore : public Generator {
 public:
  swarm::RequestId Submit(swarm::Request /*request*/, RequestCallbacks callbacks) override {
    open_.push_back(std::move(callbacks));
    return swarm::RequestId(open_.size());
  }
  void Cancel(swarm::RequestId /*request*/) override {}
  void ForgetPrefix(const std::string& /*salt*/, const std::string& /*name*/) override {}
  bool has_accepted(swarm::RequestId /*request*/) const override { return true; }
  bool is_up() const override { return true; }
  bool is_loading() const override { return false; }
  std::optional<uint32_t> loading_percent() const override { return std::nullopt; }
  std::string message() const override { return ""; }
  std::optional<swarm::RequestProgress> progress(swarm::RequestId /*request*/) const override {
    return std::nullopt;
  }
  void Step() {
    for (size_t i = 0; i < open_.size(); ++i) {
      swarm::EmitToken token;
      token.request = swarm::RequestId(i + 1);
      token.index = next_;
      token.token_id = static_cast<int32_t>(1000 + next_ % 1000);
      token.logprob = -0.5f;
      open_[i].on_token(token);
    }
    ++next_;
  }

 private:
  std::vector<RequestCallbacks> open_;
  uint32_t next_ = 0;
};

class ByteLink {
 public:
  explicit ByteLink(LinkedRequests& leader) : leader_(leader), peer_(leader.Attach(to_gateway_)) {}
  LinkedGenerator& gateway() { return gateway_; }

 private:
  struct Channel : RequestChannel {
    Channel(ByteLink& a_link, bool to_leader) : link(a_link), goes_to_leader(to_leader) {}
    void Send(wire::pb::RequestMessage message) override {
      const std::string bytes = message.SerializeAsString();
      wire::pb::RequestMessage read;
      CHECK(read.ParseFromString(bytes));
      // The peer's number is not known before it is attached; nothing of that word is wanted.
      const Status status = goes_to_leader ? link.leader_.OnMessage(link.peer_, std::move(read))
                                           : link.gateway_.OnMessage(read);
      CHECK(status.ok());
    }
    bool is_full() const override { return false; }
    ByteLink& link;
    const bool goes_to_leader;
  };
  LinkedRequests& leader_;
  Channel to_gateway_{*this, false}, to_leader_{*this, true};
  LinkedGenerator gateway_{to_leader_};
  PeerId peer_;
};

// range: answers at once. A step gives each a token; one turn of the loop brings all to the
// gateway. CPU time is that of both servers together.
void ForwardedTokens(benchmark::State& state) {
  net::EventLoop loop;
  PacedCore core;
  LinkedRequests requests(loop, core,
                          [](const std::string& source) -> Result<ConstraintCache::Constraint> {
                            return Error(ErrorCode::kUnsupported, source);
                          });
  ByteLink link(requests);
  ClusteredGenerator clustered({}, loop);
  clustered.FindLeader(1, 1, link.gateway(), ClusteredGenerator::Place::kElsewhere);
  uint64_t tokens = 0;
  for (int64_t i = 0; i < state.range(0); ++i) {
    swarm::Request request;
    request.prompt_ids.assign(100, 7);
    request.max_tokens = UINT32_MAX;
    RequestCallbacks callbacks;
    callbacks.on_token = [&tokens](const swarm::EmitToken&) { ++tokens; };
    callbacks.on_finish = [](const swarm::FinishRequest&) {};
    clustered.Submit(std::move(request), std::move(callbacks));
  }
  for (auto _ : state) {
    core.Step();
    loop.Post([&loop] { loop.Stop(); });
    loop.Run();
  }
  CHECK(tokens == static_cast<uint64_t>(state.iterations() * state.range(0)));
  state.SetItemsProcessed(static_cast<int64_t>(tokens));
}
BENCHMARK(ForwardedTokens)->Arg(1)->Arg(10)->Arg(100);

}  // namespace
}  // namespace weft::server

BENCHMARK_MAIN();
