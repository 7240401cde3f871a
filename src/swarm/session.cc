#include "swarm/session.h"

#include <algorithm>

#include "base/check.h"

namespace weft::swarm {
namespace {

// Reusing a session destroys what lies behind the common prefix, so a prefix must be worth it: this
// many tokens, or half of what the session holds.
constexpr uint32_t kUsefulPrefix = 32;

uint32_t CommonPrefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t limit = std::min(a.size(), b.size());
  const auto end =
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(limit), b.begin());
  return static_cast<uint32_t>(end.first - a.begin());
}

}  // namespace

void Session::Rewind(uint32_t position) {
  CHECK(position <= completed);
  ++generation;
  scheduled = completed = position;
}

bool Session::RewindAfterFailure() {
  const bool in_vain = completed > 0 && completed_at_failure == completed;
  completed_at_failure = completed;
  Rewind(in_vain ? 0 : completed);
  return in_vain;
}

wire::OutputKind Session::FinalOutput(uint32_t first, uint32_t count) const {
  if (!active) return wire::OutputKind::kNone;
  const uint32_t end = first + count;
  if (active->request.want_logits && end <= active->prompt_tokens && end > active->logits_emitted)
    return wire::OutputKind::kLogits;
  if (end != tokens.size()) return wire::OutputKind::kNone;
  if (active->stage_draws) return wire::OutputKind::kDraw;
  return active->candidate_count == 0 ? wire::OutputKind::kArgmax : wire::OutputKind::kCandidates;
}

uint32_t Session::RunLimit(uint32_t first, uint32_t row_limit) const {
  uint32_t end = static_cast<uint32_t>(tokens.size());
  if (active && active->request.want_logits && first < active->prompt_tokens)
    end = std::min(end, active->prompt_tokens);
  return std::min(end - first, row_limit);
}

Session* SessionTable::ReusableFor(const ActiveRequest& request, uint32_t& prefix) {
  prefix = 0;
  if (request.request.want_logits) return nullptr;
  const std::vector<int32_t>& prompt = request.request.prompt_ids;
  const bool full = sessions_.size() >= session_limit_;
  Session* best = nullptr;
  for (const auto& session : sessions_) {
    if (session->active) continue;
    // The last prompt token always runs: its output is the first new token.
    const uint32_t common = std::min({CommonPrefix(session->tokens, prompt), session->completed,
                                      static_cast<uint32_t>(prompt.size()) - 1});
    if (common == 0 || common <= prefix) continue;
    if (!full && common < kUsefulPrefix && common * 2 < session->completed) continue;
    best = session.get();
    prefix = common;
  }
  return best;
}

Session& SessionTable::Admit(ActiveRequest request, std::vector<uint32_t>& released) {
  CHECK(active_count() < session_limit_);
  uint32_t prefix = 0;
  Session* session = ReusableFor(request, prefix);
  if (session) {
    session->Rewind(prefix);
    request.cached_prompt_tokens = prefix;
  } else {
    if (sessions_.size() >= session_limit_) {
      uint32_t oldest = 0;
      Instant oldest_since{INT64_MAX};
      for (const auto& candidate : sessions_)
        if (!candidate->active && candidate->idle_since < oldest_since) {
          oldest = candidate->id;
          oldest_since = candidate->idle_since;
        }
      released.push_back(oldest);
      Remove(oldest);
    }
    session = sessions_.emplace_back(std::make_unique<Session>()).get();
    session->id = next_id_++;
  }
  session->tokens = request.request.prompt_ids;
  session->alone = false;
  session->completed_at_failure.reset();
  session->active = std::move(request);
  return *session;
}

void SessionTable::MakeIdle(Session& session, Instant now) {
  session.active.reset();
  session.idle_since = now;
  // Steps still under way belong to a generation that is over: their answers are dropped.
  session.Rewind(session.completed);
  session.tokens.resize(session.completed);
}

void SessionTable::Remove(uint32_t id) {
  std::erase_if(sessions_, [id](const auto& session) { return session->id == id; });
}

void SessionTable::Restart(std::vector<uint32_t>& released) {
  for (const auto& session : sessions_) {
    if (session->active)
      session->Rewind(0);
    else
      released.push_back(session->id);
  }
  std::erase_if(sessions_, [](const auto& session) { return !session->active; });
}

Session* SessionTable::Find(uint32_t id) {
  for (const auto& session : sessions_)
    if (session->id == id) return session.get();
  return nullptr;
}

Session* SessionTable::FindRequest(RequestId request) {
  for (const auto& session : sessions_)
    if (session->active && session->active->request.id == request) return session.get();
  return nullptr;
}

uint32_t SessionTable::active_count() const {
  return static_cast<uint32_t>(
      std::count_if(sessions_.begin(), sessions_.end(),
                    [](const auto& session) { return session->active.has_value(); }));
}

}  // namespace weft::swarm
