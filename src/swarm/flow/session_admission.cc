// Which session a request is given, and which ones begin alike.
#include <algorithm>
#include <functional>

#include "base/check.h"
#include "swarm/flow/mark_positions.h"
#include "swarm/flow/session.h"

namespace weft::swarm {
namespace {

// Positions whose loss is no reason to keep a session whole: computing them again takes one step.
constexpr uint32_t kSmallLoss = 8;

// So many times as many sessions as there are places may be claimed at first.
constexpr size_t kClaimsAtFirst = 4;

uint32_t CommonPrefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t limit = std::min(a.size(), b.size());
  const auto end =
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(limit), b.begin());
  return static_cast<uint32_t>(end.first - a.begin());
}

// The last known token always runs: its output is the first new token.
uint32_t Shareable(std::span<const int32_t> a, std::span<const int32_t> known) {
  return std::min(CommonPrefix(a, known), static_cast<uint32_t>(known.size()) - 1);
}

void AddKin(Session& session, Kin kin) {
  const auto at = std::ranges::upper_bound(session.kin, kin.common, std::greater(), &Kin::common);
  session.kin.insert(at, kin);
}

}  // namespace

SessionTable::Continuation SessionTable::BestToContinue(const Request& request,
                                                        std::span<const int32_t> known) const {
  Continuation best;
  if (request.want_logits) return best;
  for (const auto& session : sessions_) {
    if (session->active || !session->kept.empty() || session->salt != request.salt) continue;
    const uint32_t common =
        session->ReusableUpTo(std::min(Shareable(session->tokens, known), session->completed));
    const uint32_t lost = session->completed - common;
    if (common == 0 || common < best.prefix) continue;
    if (common == best.prefix && lost >= best.lost) continue;
    best = {session.get(), common, lost};
  }
  return best;
}

uint32_t SessionTable::LongestShare(const Request& request, std::span<const int32_t> known) const {
  uint32_t longest = 0;
  if (request.want_logits) return longest;
  for (const auto& session : sessions_) {
    if (session->salt != request.salt) continue;
    const uint32_t common = Shareable(session->tokens, known);
    if (common < kLeastShare) continue;
    longest = std::max(longest, session->active
                                    ? session->WillPass(common)
                                    : session->ReusableUpTo(std::min(common, session->completed)));
  }
  return longest;
}

uint64_t SessionTable::CountLiveRows() const {
  uint64_t rows = 0;
  for (const auto& session : sessions_) {
    if (!session->active) continue;
    uint32_t counted = 0;
    for (const Kin& kin : session->kin) {
      if (kin.common <= counted) break;
      const Session* other = kin.session < session->id ? Find(kin.session) : nullptr;
      if (other != nullptr && other->active)
        counted = std::max(counted, std::min(kin.common, other->completed));
    }
    rows += session->completed - std::min(counted, session->completed);
  }
  return rows;
}

Session* SessionTable::LeastRecent() const {
  Session* oldest = nullptr;
  for (const auto& session : sessions_)
    if (!session->active && session->kept.empty() &&
        (!oldest || session->idle_since < oldest->idle_since))
      oldest = session.get();
  return oldest;
}

uint32_t SessionTable::LossOf(const Session& session) const {
  uint32_t kept = 0;
  for (const Kin& kin : session.kin)
    kept = std::max(kept, std::min(kin.common, Find(kin.session)->completed));
  return session.completed - std::min(kept, session.completed);
}

void SessionTable::ForgetKin(SessionId id) {
  for (const auto& session : sessions_) {
    if (session->id == id) session->kin.clear();
    std::erase_if(session->kin, [id](const Kin& kin) { return kin.session == id; });
  }
}

void SessionTable::NoteKin(Session& session) {
  ForgetKin(session.id);
  for (const auto& other : sessions_) {
    if (other.get() == &session || other->salt != session.salt) continue;
    const uint32_t common = CommonPrefix(other->tokens, session.tokens);
    if (common < kLeastShare) continue;
    AddKin(session, {other->id, common});
    AddKin(*other, {session.id, common});
  }
}

SessionId SessionTable::NextId() {
  do last_id_ = last_id_.Next();
  while (claims_.Has(last_id_) || Find(last_id_) != nullptr);
  return last_id_;
}

std::unique_ptr<Session> SessionTable::Make(SessionId id) const {
  auto session = std::make_unique<Session>();
  session->id = id;
  session->recurrent = recurrent_;
  session->mark_limit = mark_limit_;
  session->CountFrom(generations_above_);
  session->history.CountIn(history_tally_);
  return session;
}

// Devices hold sessions up to the limit: in place of claimed ones, which nobody may ever want, then
// of idle ones.
Session& SessionTable::Add(std::unique_ptr<Session> session, std::vector<SessionId>& released) {
  while (claims_.session_count() > 0 &&
         sessions_.size() + claims_.session_count() >= session_limit_)
    released.push_back(claims_.DropFirst());
  if (sessions_.size() >= session_limit_) {
    const SessionId oldest = LeastRecent()->id;
    released.push_back(oldest);
    Remove(oldest);
  }
  const auto place = std::ranges::lower_bound(sessions_, session->id, {},
                                              [](const auto& each) { return each->id; });
  return **sessions_.insert(place, std::move(session));
}

void SessionTable::NoteClaim(SessionId session, Claim claim, Instant until) {
  // Before anything has begun nobody is given more than it holds, and old sessions of one device
  // must not keep out what another one holds of an answer.
  const size_t limit = sessions_.empty() ? kClaimsAtFirst * session_limit_ : session_limit_;
  const bool has_place = sessions_.size() + claims_.session_count() < limit;
  if (Find(session) == nullptr && (claims_.Has(session) || has_place))
    claims_.Note(session, std::move(claim), until);
}

Session* SessionTable::Adopt(const Request& request, std::span<const int32_t> known, uint32_t least,
                             std::vector<SessionId>& released) {
  if (!request.resume || request.wants_rows()) return nullptr;
  const SessionTrace& trace = *request.resume;
  const bool was_claimed = claims_.Has(trace.session);
  const std::vector<Claim> claims = claims_.Take(trace.session);
  if (claims.empty()) {
    // Its layers are elsewhere by now, but devices still count it among their sessions.
    if (was_claimed) released.push_back(trace.session);
    return nullptr;
  }
  auto adopted = Make(trace.session);
  adopted->tokens.assign(known.begin(), known.end());
  adopted->Adopt(claims, trace);
  if (adopted->completed > least) return &Add(std::move(adopted), released);
  released.push_back(trace.session);
  return nullptr;
}

Session& SessionTable::Admit(ActiveRequest request, std::vector<SessionId>& released) {
  CHECK(HasPlace());
  std::vector<int32_t> known = request.request.prompt_ids;
  const std::vector<int32_t>& answer = request.request.answer_ids;
  known.insert(known.end(), answer.begin(), answer.end());
  const Continuation best = BestToContinue(request.request, known);
  const uint32_t shared = LongestShare(request.request, known);
  const bool full = sessions_.size() >= session_limit_;
  const Session* oldest = full ? LeastRecent() : nullptr;
  const bool costs_less =
      full && best.session && (best.session == oldest || best.lost <= LossOf(*oldest));
  const bool continues =
      best.session && best.prefix + kSmallLoss > shared && (best.lost < kSmallLoss || costs_less);
  Session* adopted = Adopt(request.request, known, continues ? best.prefix : shared, released);
  request.request.resume.reset();
  const uint32_t prefix = adopted != nullptr ? adopted->completed : continues ? best.prefix : 0;
  Session& session = adopted != nullptr ? *adopted
                     : continues        ? *best.session
                                        : Add(Make(NextId()), released);
  request.trace = {session.id, session.last_generation() + 1, session.last_generation()};
  session.BeginAgain(prefix);
  // As things are; what a stage has to compute all the same is taken off (Pipeline::AddRun).
  if (!request.is_paused)
    request.cached_prompt_tokens = std::min(prefix > 0 ? prefix : shared, request.prompt_tokens);
  if (mark_limit_ > 0)
    session.mark_positions = MarkPositions(request.request, prefix, session.mark_positions);
  session.salt = request.request.salt;
  session.admission = ++admissions_;
  session.tokens = std::move(known);
  session.alone = false;
  session.told.reset();
  for (StageProgress& stage : session.progress) stage.held_at_failure.reset();
  session.active = std::move(request);
  NoteKin(session);
  return session;
}

}  // namespace weft::swarm
