#include "swarm/workers/strangers.h"

#include <map>

namespace weft::swarm {

std::optional<WorkerId> StrangerToGo(const Roster& roster, const std::string& network,
                                     const CoreOptions& options) {
  struct Group {
    WorkerId oldest;
    size_t count = 0;
  };
  std::map<std::string, Group> groups;
  size_t total = 0;
  // By rising id: the first one that is met has come first.
  for (const auto& [id, worker] : roster) {
    if (worker.ready) continue;
    Group& group = groups[worker.stranger_network];
    if (group.count++ == 0) group.oldest = id;
    ++total;
  }
  const auto own = groups.find(network);
  if (own != groups.end() && own->second.count >= options.strangers_per_address)
    return own->second.oldest;
  if (total < options.stranger_limit) return std::nullopt;
  const Group* largest = nullptr;
  for (const auto& [name, group] : groups)
    if (largest == nullptr || group.count > largest->count ||
        (group.count == largest->count && group.oldest < largest->oldest))
      largest = &group;
  return largest ? std::optional(largest->oldest) : std::nullopt;
}

}  // namespace weft::swarm
