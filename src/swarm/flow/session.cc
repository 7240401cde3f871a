#include "swarm/flow/session.h"

#include <algorithm>

#include "base/check.h"
#include "base/marks.h"

namespace weft::swarm {

StageProgress* Session::Find(BindingId binding) {
  for (StageProgress& stage : progress)
    if (stage.binding == binding) return &stage;
  return nullptr;
}

StageProgress& Session::Track(const BoundStage& stage) {
  if (StageProgress* known = Find(stage.binding)) return *known;
  // Keys, values and state belong to layers: what earlier bindings of this worker left in all of
  // its layers need not be computed again.
  std::vector<const StageProgress*> earlier;
  for (const StageProgress& other : progress)
    if (other.worker == stage.worker && other.layers.form == stage.layers.form &&
        other.layers.Overlaps(stage.layers))
      earlier.push_back(&other);
  const auto in_all_layers = [&](auto&& has) {
    for (uint32_t layer = stage.layers.first; layer < stage.layers.end; ++layer)
      if (std::ranges::none_of(earlier, [&](const StageProgress* other) {
            return other->layers.Covers(layer) && has(*other);
          }))
        return false;
    return true;
  };
  uint32_t held = 0;
  std::set<uint32_t> marks;
  for (const StageProgress* other : earlier) {
    for (const uint32_t mark : other->marks)
      if (in_all_layers([&](const StageProgress& each) { return each.marks.contains(mark); }))
        marks.insert(mark);
    for (const uint32_t place : {other->held, LastUpTo(*other, other->held)})
      if (in_all_layers([&](const StageProgress& each) { return CanBeAt(each, place); }))
        held = std::max(held, place);
  }
  for (const uint32_t mark : marks)
    if (in_all_layers([&](const StageProgress& each) { return CanBeAt(each, mark); }))
      held = std::max(held, mark);
  Forget([&](const StageProgress& other) {
    return other.worker == stage.worker && other.layers.Overlaps(stage.layers);
  });
  StageProgress& fresh = progress.emplace_back();
  fresh.binding = stage.binding;
  fresh.worker = stage.worker;
  fresh.layers = stage.layers;
  fresh.held = held;
  fresh.marks = std::move(marks);
  Restart(fresh, held);
  return fresh;
}

void Session::Forget(const std::function<bool(const StageProgress&)>& is_gone) {
  std::erase_if(progress, is_gone);
}

void Session::MoveTo(PlanId next, const std::function<bool(BindingId)>& uses) {
  if (plan == next) return;
  plan = next;
  for (StageProgress& stage : progress)
    if (stage.sent > completed && !uses(stage.binding))
      RewindStage(stage, std::min(stage.held, completed));
}

void Session::Rewind(uint32_t position) {
  CHECK(position <= completed);
  completed = position;
  for (StageProgress& stage : progress)
    if (stage.sent > position) RewindStage(stage, position);
  for (auto& [layer, rows] : history) rows.Truncate(position);
}

void Session::BeginAgain(uint32_t position) {
  Rewind(position);
  for (StageProgress& stage : progress)
    if (stage.sent == stage.held) Restart(stage, stage.held);
}

StageProgress& Session::Believe(const Claim& claim, const SessionTrace& trace) {
  StageProgress& stage = progress.emplace_back();
  stage.binding = claim.stage.binding;
  stage.worker = claim.stage.worker;
  stage.layers = claim.stage.layers;
  stage.sent = claim.positions;
  const auto known = static_cast<uint32_t>(tokens.size());
  stage.held = claim.IsOf(trace) ? std::min(claim.positions, known) : 0;
  stage.marks = claim.marks;
  last_generation_ = std::max(last_generation_, claim.generation);
  return stage;
}

uint32_t Session::HeldByAllLayers() const {
  std::map<uint32_t, uint32_t> most;  // by layer
  for (const StageProgress& stage : progress)
    for (uint32_t layer = stage.layers.first; layer < stage.layers.end; ++layer)
      most[layer] = std::max(most[layer], stage.held);
  uint32_t least = UINT32_MAX;
  for (const auto& [layer, held] : most) least = std::min(least, held);
  return least;
}

void Session::Adopt(const std::vector<Claim>& claims, const SessionTrace& trace) {
  // A device that is not there may hold the session in a generation that none of the others know.
  constexpr uint32_t kUnknownGenerations = 1024;
  adopted_as = trace;
  last_generation_ = trace.last_generation;
  for (const Claim& claim : claims) Believe(claim, trace);
  // The last known token always runs: its output is the first new token. A device that stood by
  // may hold less than the one that answered, and is sent what it lacks if it has to take over.
  completed = std::min(static_cast<uint32_t>(tokens.size()) - 1, HeldByAllLayers());
  last_generation_ += kUnknownGenerations;
  adopted_from_ = trace;
  before_own_ = last_generation_;
  for (StageProgress& stage : progress) RewindStage(stage, completed);
  completed = std::min(completed, HeldByAllLayers());
}

bool Session::Knows(uint32_t generation) {
  if (generation > before_own_ && generation <= last_generation_) return true;
  if (adopted_from_ && generation >= adopted_from_->first_generation &&
      generation <= adopted_from_->last_generation)
    return true;
  last_generation_ = std::max(last_generation_, generation);
  return false;
}

void Session::AdoptLate(const Claim& claim) {
  if (!adopted_as || Find(claim.stage.binding) != nullptr) return;
  StageProgress& stage = Believe(claim, *adopted_as);
  RewindStage(stage, std::min(stage.held, completed));
}

std::vector<BindingId> Session::Holders() const {
  std::vector<BindingId> holders;
  for (const StageProgress& stage : progress)
    if (stage.held >= completed) holders.push_back(stage.binding);
  return holders;
}

void Session::Doubt() {
  completed = 0;
  adopted_as.reset();
  if (active) active->trace.first_generation = last_generation_ + 1;
  for (StageProgress& stage : progress) Restart(stage, 0);
  history.clear();
}

bool Session::CanBeAt(const StageProgress& stage, uint32_t position) const {
  if (!recurrent) return position <= stage.held;
  return position == 0 || (position == stage.held && stage.sent == stage.held) ||
         (position <= stage.held && stage.marks.contains(position));
}

uint32_t Session::LastUpTo(const StageProgress& stage, uint32_t position) const {
  position = std::min(position, stage.held);
  if (CanBeAt(stage, position)) return position;
  const auto above = stage.marks.upper_bound(position);
  return above == stage.marks.begin() ? 0 : *std::prev(above);
}

void Session::Fork(StageProgress& stage, const StageProgress& theirs, uint32_t position) {
  Restart(stage, position);
  stage.forked = true;
  stage.marks = {theirs.marks.begin(), theirs.marks.upper_bound(position)};
}

uint32_t Session::WillPass(uint32_t position) const {
  if (!recurrent) return position;
  const auto above = mark_positions.upper_bound(position);
  return above == mark_positions.begin() ? 0 : *std::prev(above);
}

uint32_t Session::ReusableUpTo(uint32_t position) const {
  if (!recurrent || position == completed) return position;
  // A stage that has not come as far is sent what it lacks in any case.
  const auto all_can_be = [this](uint32_t place) {
    return std::ranges::all_of(progress, [&](const StageProgress& stage) {
      return stage.held < place || CanBeAt(stage, place);
    });
  };
  uint32_t last = 0;
  for (const StageProgress& stage : progress)
    for (const uint32_t mark : stage.marks)
      if (mark > last && mark <= position && mark <= stage.held && all_can_be(mark)) last = mark;
  return last;
}

uint32_t Session::RowsToMark(uint32_t first) const {
  const auto next = mark_positions.upper_bound(first);
  return next == mark_positions.end() ? UINT32_MAX : *next - first;
}

uint8_t Session::Sent(StageProgress& stage, uint32_t count) const {
  stage.sent += count;
  if (!mark_positions.contains(stage.sent)) return 0;
  stage.marks.insert(stage.sent);
  DropMarks(stage.marks, mark_limit);
  return static_cast<uint8_t>(mark_limit);
}

void Session::Restart(StageProgress& stage, uint32_t position) {
  stage.generation = ++last_generation_;
  stage.sent = stage.held = position;
  stage.forked = false;
  stage.marks.erase(stage.marks.upper_bound(position), stage.marks.end());
}

void Session::RewindStage(StageProgress& stage, uint32_t position) {
  Restart(stage, LastUpTo(stage, position));
}

bool Session::RewindAfterFailure(StageProgress& stage) {
  stage.forks_in_vain = stage.forks_in_vain || stage.forked;
  const bool in_vain = stage.held > 0 && (stage.held_at_failure == stage.held || stage.forked);
  stage.held_at_failure = stage.held;
  Restart(stage, in_vain ? 0 : stage.held);
  return in_vain;
}

uint64_t Session::history_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [layer, rows] : history) bytes += rows.byte_count();
  return bytes;
}

wire::OutputKind Session::FinalOutput(uint32_t first, uint32_t count) const {
  if (!active || !active->request.keep.empty()) return wire::OutputKind::kNone;
  const uint32_t end = first + count;
  if (active->request.want_logits && end <= active->prompt_tokens && end > active->logits_emitted)
    return wire::OutputKind::kLogits;
  if (end != tokens.size()) return wire::OutputKind::kNone;
  if (active->wants_row) return wire::OutputKind::kLogits;
  if (active->stage_draws) return wire::OutputKind::kDraw;
  return active->candidate_count == 0 ? wire::OutputKind::kArgmax : wire::OutputKind::kCandidates;
}

uint32_t Session::RunLimit(uint32_t first, uint32_t row_limit) const {
  uint32_t end = static_cast<uint32_t>(tokens.size());
  if (active && active->request.want_logits && first < active->prompt_tokens)
    end = std::min(end, active->prompt_tokens);
  // Of the last row alone.
  if (active && active->wants_row && end - first > 1) --end;
  return std::min(end - first, row_limit);
}

void SessionTable::MakeIdle(Session& session, Instant now) {
  session.active.reset();
  session.adopted_as.reset();
  session.idle_since = now;
  // Steps still under way belong to a generation that is over: their answers are dropped.
  session.Rewind(session.completed);
  session.tokens.resize(session.completed);
}

void SessionTable::Keep(Session& session, Instant now) {
  const std::string name = session.active->request.keep;
  MakeIdle(session, now);
  Forget(session.salt, name);
  session.kept = name;
}

void SessionTable::Forget(const std::string& salt, const std::string& name) {
  for (const auto& session : sessions_)
    if (session->kept == name && session->salt == salt) session->kept.clear();
}

uint32_t SessionTable::kept_count() const {
  return static_cast<uint32_t>(
      std::ranges::count_if(sessions_, [](const auto& session) { return !session->kept.empty(); }));
}

void SessionTable::Remove(SessionId id) {
  ForgetKin(id);
  std::erase_if(sessions_, [id](const auto& session) { return session->id == id; });
}

void SessionTable::TrimHistory(
    uint64_t budget, const std::function<uint32_t(const Session&, uint32_t layer)>& keep_from) {
  if (history_bytes() <= budget) return;
  std::vector<Session*> order;
  for (const auto& session : sessions_) order.push_back(session.get());
  // Idle ones first, the one that was left alone for the longest in front.
  std::stable_sort(order.begin(), order.end(), [](const Session* a, const Session* b) {
    if (a->active.has_value() != b->active.has_value()) return !a->active;
    return !a->active && a->idle_since < b->idle_since;
  });
  for (Session* session : order)
    for (auto& [layer, rows] : session->history) {
      const uint32_t first = rows.first();
      rows.DropBefore(keep_from(*session, layer));
      if (rows.first() != first) ++history_trims_;
      if (history_bytes() <= budget) return;
    }
}

uint64_t SessionTable::history_bytes() const {
  return *history_tally_;
}

Session* SessionTable::Find(SessionId id) const {
  const auto at =
      std::ranges::lower_bound(sessions_, id, {}, [](const auto& session) { return session->id; });
  return at == sessions_.end() || (*at)->id != id ? nullptr : at->get();
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

uint32_t SessionTable::active_count(PlanId plan) const {
  return static_cast<uint32_t>(std::ranges::count_if(
      sessions_, [plan](const auto& each) { return each->active && each->plan == plan; }));
}

}  // namespace weft::swarm
