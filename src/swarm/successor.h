// A server that may lead a swarm after the one that leads it now.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::swarm {

// A server that may lead a swarm after another one.
struct Successor {
  std::string url;          // "wss://host:port"
  std::string fingerprint;  // SHA-256 of its own certificate, in hex; "": whom the system trusts
  bool operator==(const Successor&) const = default;
};

// Those of now, the best first.
struct SuccessorList {
  std::vector<Successor> servers;
  uint64_t version = 0;  // rises with every change
};

}  // namespace weft::swarm
