#include "swarm/flow/fair_queue.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace weft::swarm {
namespace {

// Clients without a request whose count is remembered. Beyond that those served least go first:
// they are nearest to what a newcomer begins with.
constexpr size_t kMostRemembered = 1024;

}  // namespace

Room RoomFor(size_t total, size_t own, size_t limit) {
  if (own >= std::max<size_t>(1, limit / 2)) return Room::kOverShare;
  return total < (own == 0 ? 2 * limit : limit) ? Room::kFree : Room::kFull;
}

std::shared_ptr<ClientShare> FairQueue::Enter(const std::string& client) {
  std::optional<uint64_t> least;
  for (const auto& [name, share] : shares_)
    if (share->requests > 0 && name != client)
      least = std::min(least.value_or(UINT64_MAX), share->served);
  auto& share = shares_[client];
  if (!share) share = std::make_shared<ClientShare>();
  if (share->requests == 0) share->served = std::max(share->served, least.value_or(0));
  share->client = client;
  ++share->requests;
  return share;
}

void FairQueue::Leave(ClientShare& share) {
  --share.requests;
  const bool anyone = std::any_of(shares_.begin(), shares_.end(),
                                  [](const auto& each) { return each.second->requests > 0; });
  if (!anyone) return shares_.clear();
  if (client_count() <= kMostRemembered) return;
  auto least = shares_.end();
  for (auto each = shares_.begin(); each != shares_.end(); ++each)
    if (each->second->requests == 0 &&
        (least == shares_.end() || each->second->served < least->second->served))
      least = each;
  if (least != shares_.end()) shares_.erase(least);
}

std::optional<size_t> FairQueue::Next(const CountActive& active, const MayBegin& may_begin) const {
  std::optional<size_t> best;
  std::pair<uint32_t, uint64_t> best_turn;
  std::set<const ClientShare*> seen;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    if (!may_begin(waiting_[i])) continue;
    const ClientShare* share = waiting_[i].share.get();
    if (!seen.insert(share).second) continue;
    const std::pair turn(active(*share), share->served);
    if (best && turn >= best_turn) continue;
    best = i;
    best_turn = turn;
  }
  return best;
}

// Next's order, without looking at all of them for each: of each client the first one stands in
// line, by what decides whose turn it is.
std::map<RequestId, uint32_t> FairQueue::CountAhead(const CountActive& active) const {
  struct Client {
    std::deque<size_t> places;
    uint32_t sessions = 0;
  };
  std::map<const ClientShare*, Client> clients;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    const auto [client, is_new] = clients.try_emplace(waiting_[i].share.get());
    if (is_new) client->second.sessions = active(*client->first);
    client->second.places.push_back(i);
  }
  std::set<std::tuple<uint32_t, uint64_t, size_t>> line;  // sessions, served, place
  const auto stand = [&line](const ClientShare& share, const Client& client) {
    if (!client.places.empty()) line.emplace(client.sessions, share.served, client.places.front());
  };
  for (const auto& [share, client] : clients) stand(*share, client);
  std::map<RequestId, uint32_t> ahead;
  while (!line.empty()) {
    const size_t place = std::get<2>(line.extract(line.begin()).value());
    const ActiveRequest& next = waiting_[place];
    ahead.emplace(next.request.id, static_cast<uint32_t>(ahead.size()));
    Client& client = clients.at(next.share.get());
    client.places.pop_front();
    ++client.sessions;
    stand(*next.share, client);
  }
  return ahead;
}

ActiveRequest FairQueue::Take(size_t place) {
  const auto at = waiting_.begin() + static_cast<std::ptrdiff_t>(place);
  ActiveRequest taken = std::move(*at);
  waiting_.erase(at);
  return taken;
}

size_t FairQueue::CountOf(const std::string& client) const {
  return static_cast<size_t>(
      std::count_if(waiting_.begin(), waiting_.end(),
                    [&](const ActiveRequest& each) { return each.request.client == client; }));
}

}  // namespace weft::swarm
