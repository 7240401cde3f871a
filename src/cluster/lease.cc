#include "cluster/lease.h"

#include <algorithm>

namespace weft::cluster {
namespace {

// A server that gave a cell away says so until somebody leads it, or for so long.
constexpr Duration kTellsOfGiving = Seconds(5);
// A worker may be a stranger's, and say anything. Its number is believed as far as a clock in
// milliseconds might be wrong by: ten years.
constexpr uint64_t kMostAhead = uint64_t{10} * 365 * 24 * 3600 * 1000;

}  // namespace

// ---- facts ----

void Lease::OnRow(const CellRow& row) {
  row_ = row;
  row_is_new_ = true;
  wants_row_ = false;
  highest_ = std::max(highest_, row.incarnation);
}

void Lease::OnRowGone(Instant now, Outbox& out) {
  row_.reset();
  row_is_new_ = false;
  if (leads() && state_ != State::kHandingOver) StepDownFor({}, now, out);
  wants_row_ = false;
}

void Lease::OnTakeAnswered(const TakeAnswered& answer, Instant now, Outbox& out) {
  // A late answer changes nothing: if the row is this server's, the next read says so.
  if (!asked_ || asked_->query != answer.query) return;
  const Claim claim = asked_->claim;
  asked_.reset();
  wants_row_ = !answer.incarnation;
  if (!answer.incarnation) return;
  incarnation_ = *answer.incarnation;
  highest_ = std::max(highest_, incarnation_);
  row_ = CellRow{cell_, incarnation_, self_, false};
  took_by_refusals_ = claim.by_refusals ? std::optional(now) : std::nullopt;
  given_.reset();
  if (leads())
    out.Add(Raise{cell_, incarnation_});
  else
    out.Add(Lead{cell_, incarnation_});
  state_ = State::kLeading;
  has_news_ = true;
}

void Lease::OnQueryFailed(QueryId query) {
  if (!asked_ || asked_->query != query) return;
  asked_.reset();
  wants_row_ = true;
}

void Lease::OnNotMine(Incarnation incarnation) {
  if (state_ != State::kLeading || incarnation != incarnation_) return;
  state_ = State::kContested;
  row_is_new_ = false;
}

void Lease::OnWorkers(uint32_t workers, bool up) {
  if (!leads()) return;
  has_news_ = has_news_ || (workers_ == 0) != (workers == 0);
  workers_ = workers;
  up_ = up;
}

void Lease::OnWorkerSaw(Incarnation incarnation) {
  if (incarnation > highest_ && incarnation.value() - highest_.value() > kMostAhead) return;
  highest_ = std::max(highest_, incarnation);
  if (state_ != State::kLeading || incarnation <= incarnation_) return;
  state_ = State::kContested;
  row_is_new_ = false;
}

void Lease::OnHandedOver(bool is_given, Instant now, Outbox& out) {
  if (state_ != State::kHandingOver) return;
  state_ = State::kLeading;
  if (!is_given) {
    hand_over_at_ = now + options_.hand_over_again;
    return;
  }
  given_ = Given{handing_to_->server, incarnation_, now + kTellsOfGiving};
  StepDownFor(handing_to_->server, now, out);
}

// ---- decisions ----

void Lease::Decide(bool is_draining, Instant now, Outbox& out) {
  is_draining_ = is_draining;
  if (const auto leader = peers_.LeaderOf(cell_, now))
    highest_ = std::max(highest_, leader->state.incarnation);
  if (asked_ && now >= asked_->until) OnQueryFailed(asked_->query);
  if (took_by_refusals_ && !IsOnProbation(now)) {  // the refusals were true
    took_by_refusals_.reset();
    next_distrust_ = options_.distrust;
  }
  if (state_ == State::kStandby) {
    const auto claim = ReasonToTake(now);
    if (claim && !asked_) Ask(*claim, now, out);
    PlaceIfChanged(now, out);
  } else if (state_ != State::kHandingOver) {
    Defend(now, out);
  }
}

// A successor takes with a reason of its own, never because the row has expired alone. A leader
// whose database is slow, but who is heard, keeps its lease.
std::optional<Lease::Claim> Lease::ReasonToTake(Instant now) const {
  if (is_draining_ || !row_ || !row_is_new_) return std::nullopt;
  if (const auto given = peers_.GivenToSelf(cell_, now); given && *given >= row_->incarnation)
    return Claim{*given, true};
  // Somebody leads, with or without the row. If that is wrong, its next renewal tells it.
  if (peers_.LeaderOf(cell_, now)) return std::nullopt;
  const Holder holder = row_->holder;
  // The row names an earlier start of this server, which the lock on its folder proves gone. Or it
  // names this start, when the answer to a take was lost.
  if (holder.server == self_.server) return Claim{row_->incarnation, true};
  if (peers_.HasLeft(holder, now)) return Claim{row_->incarnation, true};
  if (peers_.IsRefused(holder.server) && BelievesRefusals(now))
    return Claim{row_->incarnation, true, true};
  if (IsDeadBySilence(now)) return Claim{row_->incarnation, false};
  return std::nullopt;
}

// The holder was not heard for `silence`, and for `silence_step` more for each successor that comes
// before this server. And the row has expired, so the holder does not reach the database either.
bool Lease::IsDeadBySilence(Instant now) const {
  if (!row_->has_expired) return false;
  int64_t rank = 0;
  for (const Holder& candidate : peers_.Candidates(cell_, true, has_package_, now)) {
    if (candidate == self_) break;
    if (candidate.server != row_->holder.server) ++rank;
  }
  return peers_.SilenceOf(row_->holder, now) >= options_.silence + options_.silence_step * rank;
}

void Lease::Defend(Instant now, Outbox& out) {
  const auto leader = peers_.LeaderOf(cell_, now);
  if (leader && leader->state.incarnation > incarnation_) {
    if (leader->state.workers > 0 || workers_ == 0 || is_draining_) {
      if (!asked_) StepDownFor(leader->server, now, out);
      return;
    }
    if (state_ == State::kLeading) row_is_new_ = false;
    state_ = State::kContested;
  }
  if (asked_) return;
  if (state_ == State::kContested)
    DecideContest(now, out);
  else if (is_draining_)
    BeginHandOver(now, out);
}

// The lease follows the workers. Without this rule a cell could end with a leader that no worker
// can reach.
void Lease::DecideContest(Instant now, Outbox& out) {
  if (!row_is_new_) {
    wants_row_ = true;
    return;
  }
  const Holder holder = row_->holder;
  const bool is_mine = holder == self_ && row_->incarnation == incarnation_;
  if (is_mine && highest_ <= incarnation_) {
    state_ = State::kLeading;
    return;
  }
  if (holder.server != self_.server && (workers_ == 0 || is_draining_)) {
    const auto leader = peers_.LeaderOf(cell_, now);
    return StepDownFor(leader ? leader->server : holder.server, now, out);
  }
  if (!peers_.IsHeard(holder, now) && peers_.IsRefused(holder.server) &&
      row_->incarnation > incarnation_ && (!BelievesRefusals(now) || IsOnProbation(now)))
    return StepDownFor(holder.server, now, out);  // the refusals are a firewall's: the row decides
  if (const auto claim = ReasonToTakeAgain(now)) Ask(*claim, now, out);
}

// The row names another start of this server, or another server though this one has workers. Or it
// has a lower incarnation than is known.
std::optional<Lease::Claim> Lease::ReasonToTakeAgain(Instant now) const {
  const Holder holder = row_->holder;
  const Incarnation seen = row_->incarnation;
  // The database went back to an older state, or a worker has seen more than the row has.
  if (holder.server == self_.server || seen < incarnation_) return Claim{seen, true};
  // The holder leads without workers, or does not lead.
  if (peers_.IsHeard(holder, now)) return Claim{seen, true};
  if (peers_.IsRefused(holder.server)) return Claim{seen, true, true};
  if (IsDeadBySilence(now)) return Claim{seen, false};
  return std::nullopt;
}

bool Lease::IsOnProbation(Instant now) const {
  return took_by_refusals_ && now - *took_by_refusals_ < options_.probation;
}

void Lease::Ask(const Claim& claim, Instant now, Outbox& out) {
  asked_ = Asked{out.NextQuery(), claim, now + options_.query_timeout};
  row_is_new_ = false;
  out.Add(Take{asked_->query, cell_, claim.seen, claim.has_evidence, highest_});
}

void Lease::BeginHandOver(Instant now, Outbox& out) {
  if (now < hand_over_at_) return;
  const auto candidates = peers_.Candidates(cell_, false, false, now);
  if (candidates.empty()) return;
  handing_to_ = candidates.front();
  state_ = State::kHandingOver;
  out.Add(HandOver{cell_, incarnation_, *handing_to_});
}

void Lease::StepDownFor(ServerId other, Instant now, Outbox& out) {
  const ServerId to = other == self_.server ? ServerId{} : other;
  if (IsOnProbation(now)) {
    distrusts_until_ = now + next_distrust_;
    next_distrust_ = std::min(next_distrust_ * 2, options_.longest_distrust);
  }
  took_by_refusals_.reset();
  state_ = State::kStandby;
  incarnation_ = {};
  workers_ = 0;
  up_ = false;
  row_is_new_ = false;
  wants_row_ = true;
  has_news_ = true;
  placed_ = to;
  out.Add(StepDown{cell_, to});
  out.Add(PlaceWorkers{cell_, to});
}

void Lease::PlaceIfChanged(Instant now, Outbox& out) {
  const auto leader = peers_.LeaderOf(cell_, now);
  if (given_ && (leader || now >= given_->until)) given_.reset();
  const ServerId to = leader ? leader->server : given_ ? given_->server : ServerId{};
  if (to == placed_) return;
  placed_ = to;
  out.Add(PlaceWorkers{cell_, to});
}

std::optional<Instant> Lease::next_timer() const {
  return asked_ ? std::optional(asked_->until) : std::nullopt;
}

std::optional<CellState> Lease::Told(Instant now) const {
  if (leads()) return CellState{cell_, true, incarnation_, up_, workers_, {}};
  if (given_ && now < given_->until)
    return CellState{cell_, false, given_->incarnation, false, 0, given_->server};
  return std::nullopt;
}

}  // namespace weft::cluster
