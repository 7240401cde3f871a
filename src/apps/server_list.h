// ServerList: where a worker finds its swarm: the addresses that its user gave, then those that the
// server named as its successors (Init). After a failure the next one is tried, round and round.
//
//   given a; a names b and c          tried after a has gone
//   a, and b and c since its Init     b, c and a at once each, then b, c, a, ... with pauses
//
// The first try of each address has no pause; whoever asks knows the others (Backoff). What a
// server names counts as far as it is no worse than what the user gave: a user who asked for TLS is
// never sent elsewhere without it. Its certificate's fingerprint counts for that address alone. The
// same in TypeScript: web/packages/worker/src/threads/serverList.ts.
#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/address.h"
#include "net/client.h"
#include "wire/control.pb.h"

namespace weft::apps {

struct ServerAddress {
  net::Url url;  // its path and query mean nothing
  net::ClientTls tls;
};

// Reads the addresses that a user gives. `fingerprints`: of their certificates, none, one for all,
// or one for each. kInvalidArgument.
Result<std::vector<ServerAddress>> ParseServers(const std::vector<std::string>& urls,
                                                const std::vector<std::string>& fingerprints,
                                                bool insecure);

// Any thread.
class ServerList {
 public:
  // REQUIRES: one at least. The first one is the current one, and counts as tried.
  explicit ServerList(std::vector<ServerAddress> given);

  // The one that is tried, or that the worker is connected to.
  ServerAddress current() const;
  // All of them, the current one first.
  std::vector<ServerAddress> InOrder() const;
  size_t size() const;

  // Takes these in place of those that were named before; the current one stays. Beyond the first
  // kMostSuccessors, and where they cannot be used, they are left out with a warning.
  static constexpr int kMostSuccessors = 8;
  void SetSuccessors(const std::vector<wire::pb::Init::Successor>& successors);

  // The current one has failed: the next one is the current one. True: it was not tried since
  // Settle.
  bool Next();
  // The same, with the one that the server named (wire/elsewhere.h), where that can be used. An
  // address that is known keeps the certificate that is known.
  bool NextIs(std::string_view reason);
  // A connection was good: all others count as not tried.
  void Settle();

 private:
  // nullopt: it cannot be used.
  std::optional<ServerAddress> Accept(std::string_view url, const std::string& fingerprint) const;
  bool Try(size_t index);
  size_t Find(const net::Url& url) const;
  void Add(std::vector<ServerAddress>& list, const ServerAddress& address) const;

  mutable std::mutex mutex_;
  const std::vector<ServerAddress> given_;
  std::vector<ServerAddress> all_;  // given_ first
  size_t current_ = 0;              // of all_
  std::set<std::string> tried_;     // "host:port", since Settle
};

}  // namespace weft::apps
