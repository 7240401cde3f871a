#include "cluster/rendezvous.h"

#include <algorithm>

namespace weft::cluster {
namespace {

// The finalizer of splitmix64: a bijection in which every bit of the input moves half of the bits.
uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

uint64_t Weight(CellId cell, ServerId server) {
  return Mix(Mix(cell.value() + 0x9E3779B97F4A7C15ull) + server.value());
}

}  // namespace

std::vector<ServerId> RendezvousOrder(CellId cell, std::vector<ServerId> servers) {
  std::ranges::sort(servers, [cell](ServerId a, ServerId b) {
    const uint64_t weight_a = Weight(cell, a), weight_b = Weight(cell, b);
    return weight_a != weight_b ? weight_a > weight_b : a < b;
  });
  return servers;
}

}  // namespace weft::cluster
