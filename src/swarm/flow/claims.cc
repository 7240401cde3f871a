#include "swarm/flow/claims.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/check.h"

namespace weft::swarm {

void Claims::Note(SessionId session, Claim claim, Instant until) {
  Claimed& claimed = sessions_[session];
  claimed.until = std::max(claimed.until, until);
  claimed.claims.insert_or_assign(claim.stage.binding, std::move(claim));
}

std::vector<BindingId> Claims::BindingsOf(SessionId session) const {
  std::vector<BindingId> bindings;
  const auto found = sessions_.find(session);
  if (found != sessions_.end())
    for (const BindingId binding : std::views::keys(found->second.claims))
      bindings.push_back(binding);
  return bindings;
}

std::vector<BindingId> Claims::HoldersOf(const SessionTrace& trace, size_t positions) const {
  std::vector<BindingId> holders;
  const auto found = sessions_.find(trace.session);
  if (found != sessions_.end())
    for (const auto& [binding, claim] : found->second.claims)
      if (claim.IsOf(trace) && claim.positions >= positions) holders.push_back(binding);
  return holders;
}

std::vector<Claim> Claims::Take(SessionId session) {
  const auto taken = sessions_.extract(session);
  std::vector<Claim> claims;
  if (taken)
    for (Claim& claim : std::views::values(taken.mapped().claims))
      claims.push_back(std::move(claim));
  return claims;
}

void Claims::Forget(const std::function<bool(const BoundStage&)>& is_gone) {
  for (Claimed& claimed : std::views::values(sessions_))
    std::erase_if(claimed.claims, [&](const auto& each) { return is_gone(each.second.stage); });
}

SessionId Claims::DropFirst() {
  CHECK(!sessions_.empty());
  const auto first = std::ranges::min_element(
      sessions_, {}, [](const auto& each) { return each.second.until.us; });
  const SessionId session = first->first;
  sessions_.erase(first);
  return session;
}

std::vector<SessionId> Claims::DropOverdue(Instant now) {
  std::vector<SessionId> dropped;
  std::erase_if(sessions_, [&](const auto& each) {
    const bool is_over = each.second.until <= now;
    if (is_over) dropped.push_back(each.first);
    return is_over;
  });
  return dropped;
}

std::optional<Instant> Claims::next_timer() const {
  std::optional<Instant> next;
  for (const Claimed& claimed : std::views::values(sessions_))
    if (!next || claimed.until < *next) next = claimed.until;
  return next;
}

}  // namespace weft::swarm
