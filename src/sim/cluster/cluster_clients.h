// Clients of a run. Each asks some server for one answer after another, and compares it with that
// of the run without any fault. One whose server dies asks another server, from the beginning.
//
// Invariants:
//   a client is given each token once, in its place, and it is the expected one;
//   an answer has one end, with the expected reason, and counts the tokens that were given;
//   where leaders are well no answer moves to another leader;
//   in the end no answer is open, and no core has a request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "sim/cluster/server_host.h"
#include "sim/hash_model.h"

namespace weft::sim {

class ClusterClients {
 public:
  struct Counts {
    uint64_t answers = 0, tokens = 0, cut = 0, cancelled = 0;
    Duration longest_wait;  // for a token, or for the end
  };

  // Both outlive it.
  ClusterClients(World& world, const std::vector<std::unique_ptr<ServerHost>>& servers,
                 uint64_t seed)
      : world_(world), servers_(servers), random_(seed) {}

  void Start();
  // Nobody asks for anything new from now on.
  void Stop() { is_over_ = true; }
  void NoteDeath(cluster::ServerId server);
  bool AnyOpen() const;
  // Says what is still open.
  void CheckEnd();
  const Counts& counts() const { return counts_; }

 private:
  struct Client {
    std::string name;
    cluster::CellId cell;
    swarm::Request request;
    Expected expected;
    cluster::ServerId server;  // whom it has asked
    uint64_t attempt = 0;      // of all times that it has asked
    uint64_t id = 0;           // of the request at that server's gateway; 0: it has not come there
    std::vector<int32_t> tokens;
    Instant heard_at;
    bool is_open = false, is_cancelled = false;
  };

  void AskLater(Client& client);
  void AskSomething(Client& client);
  void Ask(Client& client);
  void Submit(Client& client, ServerHost& server);
  void Cancel(Client& client);
  void OnToken(Client& client, const swarm::EmitToken& token);
  void OnEnd(Client& client, const swarm::FinishRequest& end);
  void OnMoving(const Client& client);
  void NoteWait(Client& client);
  Duration UpTo(double seconds);
  void Violate(const Client& client, const std::string& what);

  World& world_;
  const std::vector<std::unique_ptr<ServerHost>>& servers_;
  SeededRandom random_;
  Counts counts_;
  std::vector<std::unique_ptr<Client>> clients_;
  bool is_over_ = false;
};

}  // namespace weft::sim
