// The dispatcher's layers that may lose groups (halo-lossy-networks III-B): sums that holders send
// in fragments, each a datagram, and when they are not waited for any more.
//
//   the last fragment that a holder owes came      its share is there
//   kSent came, and some fragments did not         they are lost: merged as soon as no datagram
//                                                  that was overtaken can still come
//   some fragments came, and no kSent              merged at the predicted arrival and a margin:
//                                                  10 ms as in the paper, 40 where the line jitters
//   nothing came                                   not a loss but a holder that is slow or gone:
//                                                  others are asked for its groups, as without loss
//
// The quarter of the groups with the largest outputs is not left to luck: its sums come the
// reliable way, as all do of the first layer, on which every other one stands.
//
// What is lost is left out of its own columns and counted. A fragment is lost by evidence, not by
// the clock alone: a device that computes for longer than it usually does loses nothing.
//
// One layer in 61 is a canary. What it lost is asked for again, the reliable way, and measured:
//
//   drift = |the sums that were lost| / |the whole sum|     3 of 5 groups lost: about 0.77 if all
//                                                           are alike and stand at right angles
#include <algorithm>
#include <cmath>

#include "base/sentence.h"
#include "dispatch/dispatcher.h"
#include "dispatch/hub_channel.h"

namespace weft::dispatch {
namespace {

// How long datagrams may overtake each other.
constexpr Duration kLongestOvertaking = Milliseconds(10);
// Behind the predicted arrival, where no kSent came. It is lost rarely, being sent twice, so that a
// device that lost its processor in the middle of sending may have time.
constexpr Duration kLeastMargin = Milliseconds(10), kLongestMargin = Milliseconds(40);
// Two processors of a busy device may hand its datagrams on in another order, a moment apart.
constexpr Duration kLeastOvertaking = Milliseconds(2);
// In a row: that all datagrams of so many shares are lost does not happen on a line that is worth
// anything.
constexpr uint32_t kSilentShares = 3;
// Of the groups of a layer, those that may not be lost where it is known how large they are.
constexpr size_t kCriticalPart = 4;
// A prime, so that every layer of a model has its turn. The drift is that of the last canaries.
constexpr uint64_t kLayersPerCanary = 61, kDriftCanaries = 32;

}  // namespace

void Dispatcher::SetLosses(double limit, std::map<uint16_t, std::vector<float>> norms) {
  guard_.SetLimit(limit);
  norms_ = std::move(norms);
}

// Prompts are sent reliably: they are many rows, which take their time on the line anyway, and what
// they lost would be in the keys and values of the whole answer.
bool Dispatcher::MayLose(Instant now, const LayerWork& work, const Batch& batch) const {
  const size_t groups = batch.tasks.size();
  const bool is_first = !norms_.empty() && work.layer == norms_.begin()->first;
  return work.kind == SlotKind::kSums && work.may_lose && !is_first && !lines_.empty() &&
         guard_.MayLose(now) && groups <= 8 * wire::kMaxGroupSetBytes &&
         batch.tasks.back().expert + 1u == groups &&
         work.rows.size() / work.hidden <= HubChannel::kMostRows;
}

void Dispatcher::BeginLossy(const LayerWork& work, Batch& batch) {
  batch.account.emplace(wire::SumsOf{batch.sequence, batch.layer, wire::kMlpBlock},
                        static_cast<uint32_t>(work.rows.size() / work.hidden), work.hidden,
                        static_cast<uint32_t>(batch.tasks.size()), batch.largest_slot);
  batch.is_canary = ++lossy_layers_ % kLayersPerCanary == 0;
  if (batch.is_canary) batch.lost_sums.resize(work.rows.size());
}

float Dispatcher::NormOf(const Batch& batch, uint32_t group) const {
  if (group < batch.norms.size()) return batch.norms[group];
  const auto norms = norms_.find(batch.layer);
  return norms == norms_.end() || group >= norms->second.size() ? 1 : norms->second[group];
}

bool Dispatcher::KnowsNorms(const Batch& batch) const {
  return !batch.norms.empty() || norms_.contains(batch.layer);
}

double Dispatcher::LossOf(uint32_t holder) const {
  const auto line = lines_.find(holder);
  return line == lines_.end() ? 0 : line->second;
}

// Algorithm 3: everybody keeps as many groups as he has, and the more of a line's datagrams are
// lost, the less critical are those who are sent over it. The paper cuts a list that is sorted by
// importance; here not everybody holds every group, so the list is sorted by exchanges of two
// groups whose holders both have both. Where everybody holds everything both give the same.
void Dispatcher::PutCriticalFirst(const Batch& batch, std::vector<Choice>& choices) const {
  const auto could_take = [](const Choice& choice, uint32_t id) {
    return std::ranges::find(choice.ids, id) != choice.ids.end();
  };
  std::stable_sort(choices.begin(), choices.end(), [&](const Choice& a, const Choice& b) {
    return NormOf(batch, a.task->expert) > NormOf(batch, b.task->expert);
  });
  for (auto critical = choices.begin(); critical != choices.end(); ++critical) {
    Choice* best = nullptr;
    for (auto other = critical + 1; other != choices.end(); ++other) {
      if (!could_take(*critical, other->id) || !could_take(*other, critical->id)) continue;
      if (LossOf(other->id) < LossOf(best ? best->id : critical->id)) best = &*other;
    }
    if (best != nullptr) std::swap(best->id, critical->id);
  }
}

void Dispatcher::MakeShares(Instant now, Batch& batch, std::span<const Choice> choices) const {
  const size_t critical = KnowsNorms(batch) ? choices.size() / kCriticalPart : 0;
  for (const Choice& choice : choices.subspan(critical)) {
    if (choice.ids.empty() || !lines_.contains(choice.id)) continue;
    Share* share = FindShare(batch, choice.id);
    if (share == nullptr) {
      const auto groups = static_cast<uint32_t>(batch.tasks.size());
      batch.shares.push_back({choice.id, wire::GroupSet(groups), now, now, now});
      share = &batch.shares.back();
    }
    share->groups.Add(choice.task->expert);
  }
}

Dispatcher::Share* Dispatcher::FindShare(Batch& batch, uint32_t holder) {
  const auto share = std::ranges::find(batch.shares, holder, &Share::holder);
  return share == batch.shares.end() ? nullptr : &*share;
}

bool Dispatcher::IsInShare(Batch& batch, const Task& task, uint32_t holder) {
  const Share* share = FindShare(batch, holder);
  return share != nullptr && share->groups.Has(task.expert);
}

size_t Dispatcher::AskedTogether(const Batch& batch, const Copy& copy) {
  const auto is_with = [&copy](const Copy& other) {
    return other.holder == copy.holder && other.sent == copy.sent;
  };
  return static_cast<size_t>(std::ranges::count_if(
      batch.tasks, [&](const Task& task) { return std::ranges::any_of(task.copies, is_with); }));
}

void Dispatcher::DropShare(Batch& batch, uint32_t holder) {
  std::erase_if(batch.shares, [holder](const Share& share) { return share.holder == holder; });
}

// All that it was asked for runs out of time at once.
void Dispatcher::NoteSilence(Batch& batch, uint32_t id) {
  HolderState& holder = holders_.at(id);
  holder.silent_share = FindShare(batch, id)->sent;
  DropShare(batch, id);
  if (++holder.silent_shares < kSilentShares) return;
  holder.silent_shares = 0;
  lines_.erase(id);
  actions_.doubted.push_back(id);
}

// ---- datagrams

Actions Dispatcher::OnSums(Instant now, uint32_t holder, ByteSpan body) {
  const auto found = holders_.find(holder);
  if (found == holders_.end() || found->second.is_aside) return Finish(now);
  found->second.stats.received_bytes += body.size();
  const wire::SumsOutcome outcome = CountSums(now, holder, body);
  ++losses_.fragments[static_cast<size_t>(outcome)];
  // These are its own, and no line makes them.
  if (outcome == wire::SumsOutcome::kMalformed || outcome == wire::SumsOutcome::kNotAsked)
    CountBad(now, holder,
             Sentence("It sent a fragment of sums that is ", SumsOutcomeName(outcome), "."));
  return Finish(now);
}

wire::SumsOutcome Dispatcher::CountSums(Instant now, uint32_t id, ByteSpan body) {
  const auto of = wire::ReadSumsOf(body);
  if (!of) return wire::SumsOutcome::kMalformed;
  const uint32_t index = (of->step & wire::kBatchBit) ? 1 : 0;
  Batch& batch = batches_[index];
  HolderState& holder = holders_.at(id);
  Share* share = batch.account && batch.sequence == of->step ? FindShare(batch, id) : nullptr;
  if (share == nullptr) {
    if (holder.given_up == of->step) {
      ++losses_.late;
      holder.overtaking = std::min(holder.overtaking * 2, kLongestOvertaking);
    }
    return wire::SumsOutcome::kElsewhere;
  }
  const wire::SumsOutcome outcome = batch.account->Add(body, share->groups);
  if (outcome != wire::SumsOutcome::kCounted) return outcome;
  NoteCame(now, index, *share);
  return outcome;
}

Actions Dispatcher::OnSent(Instant now, uint32_t id, ByteSpan body) {
  const auto of = wire::ReadSumsOf(body);
  if (!of || !holders_.contains(id)) return Finish(now);
  const uint32_t index = (of->step & wire::kBatchBit) ? 1 : 0;
  Batch& batch = batches_[index];
  if (!batch.account || batch.sequence != of->step) return Finish(now);
  if (Share* share = FindShare(batch, id); share != nullptr && !share->is_sent) {
    share->is_sent = true;
    NoteCame(now, index, *share);
  }
  return Finish(now);
}

// How much later than predicted a line's datagrams may be: more where its round trips differ.
Duration Dispatcher::MergeMargin(const HolderState& holder) const {
  if (holder.round_trips.empty()) return kLongestMargin;
  const Duration jitter = holder.round_trips.Quantile(0.95) - holder.round_trips.Quantile(0.5);
  return std::clamp(jitter * 4, kLeastMargin, kLongestMargin);
}

void Dispatcher::NoteCame(Instant now, uint32_t index, Share& share) {
  HolderState& holder = holders_.at(share.holder);
  holder.silent_since.reset();
  holder.silent_shares = 0;
  share.has_come = true;
  share.last_came = now;
  if (batches_[index].account->HasAll(share.groups)) {
    const int64_t less_us = holder.overtaking.us - holder.overtaking.us / 100;
    holder.overtaking = std::max(Microseconds(less_us), kLeastOvertaking);
    return EndShare(now, index, share.holder);
  }
  if (share.is_sent) {
    share.merge_at = now + holder.overtaking;
    return;
  }
  Instant predicted = now;
  if (!holder.round_trips.empty())
    predicted = std::max(now, share.sent + holder.round_trips.Quantile(0.5));
  share.merge_at = predicted + MergeMargin(holder);
}

// Of a share all that is there counts, and nothing else is waited for, but by a canary.
void Dispatcher::EndShare(Instant now, uint32_t index, uint32_t id) {
  Batch& batch = batches_[index];
  const Share share = *FindShare(batch, id);
  DropShare(batch, id);
  HolderState& holder = holders_.at(id);
  const bool is_whole = batch.account->HasAll(share.groups);
  if (!is_whole) holder.given_up = batch.sequence;
  const bool is_asked_again = batch.is_canary && !is_whole;
  if (is_asked_again) {
    if (!batch.given_up) batch.given_up.emplace(share.groups.groups());
    batch.given_up->AddAll(share.groups);
  }
  bool is_noted = false;
  for (Task& task : batch.tasks) {
    if (task.is_done || !share.groups.Has(task.expert)) continue;
    for (Copy& copy : task.copies) {
      if (copy.holder != id) continue;
      // When it came last: what is lost says nothing of how long it takes.
      if (!std::exchange(is_noted, true))
        NoteAnswer(share.last_came, holder, copy, task.slots.size(), AskedTogether(batch, copy));
      ++copy.answers;
      CountWin(holder, copy);
      Close(copy);
    }
    is_asked_again ? Redispatch(now, index, task) : End(now, batch, task);
  }
  EndIfDone(now, index);
}

void Dispatcher::MergeDue(Instant now) {
  for (uint32_t index = 0; index < batches_.size(); ++index) {
    const std::vector<Share> shares = batches_[index].shares;
    for (const Share& share : shares)
      if (share.has_come && now >= share.merge_at) EndShare(now, index, share.holder);
  }
}

// ---- what comes the reliable way, and the end

void Dispatcher::TakeSum(Batch& batch, const wire::ExpertFrame& frame) {
  wire::GroupSet groups(static_cast<uint32_t>(batch.tasks.size()));
  groups.Add(frame.expert);
  for (const uint16_t expert : frame.added) groups.Add(expert);
  std::vector<float> row(batch.hidden);
  for (uint32_t token = 0; token < frame.tokens; ++token) {
    const uint8_t* bytes = frame.rows.bytes().data() + size_t{token} * batch.hidden * sizeof(float);
    for (size_t column = 0; column < row.size(); ++column)
      row[column] = LoadLe<float>(bytes + column * sizeof(float));
    const wire::SumsOf of{batch.sequence, batch.layer, wire::kMlpBlock};
    const bool was_given_up = batch.given_up && groups.Within(*batch.given_up);
    const auto bodies = wire::SumsBodies(of, static_cast<uint16_t>(token), groups, row);
    for (size_t fragment = 0; fragment < bodies.size(); ++fragment) {
      if (batch.account->Add(bodies[fragment], groups) != wire::SumsOutcome::kCounted) continue;
      if (!was_given_up) continue;
      const size_t first = fragment * wire::kFragmentColumns;
      const size_t end = std::min(first + wire::kFragmentColumns, row.size());
      float* const lost = &batch.lost_sums[size_t{token} * batch.hidden];
      for (size_t column = first; column < end; ++column) lost[column] += row[column];
    }
  }
}

void Dispatcher::NoteDrift(const Batch& batch) {
  const auto norm_of = [](std::span<const float> values) {
    double squares = 0;
    for (const float value : values) squares += double{value} * value;
    return std::sqrt(squares);
  };
  const double all = norm_of(batch.account->values());
  const double drift = all > 0 ? norm_of(batch.lost_sums) / all : 0;
  ++losses_.canaries;
  losses_.drift +=
      (drift - losses_.drift) / static_cast<double>(std::min(losses_.canaries, kDriftCanaries));
}

void Dispatcher::NoteLosses(Instant now, const Batch& batch, Done& done) {
  const wire::GroupSums& account = *batch.account;
  const std::span<const float> values = account.values();
  done.slot_rows.assign(values.begin(), values.end());
  const auto groups = static_cast<uint32_t>(batch.tasks.size());
  const auto rows = static_cast<uint32_t>(values.size() / batch.hidden);
  losses_.groups += uint64_t{groups} * rows;
  if (batch.is_canary) NoteDrift(batch);
  if (account.complete()) return guard_.Note(now, 0);
  double lost = 0, all = 0;
  for (uint32_t group = 0; group < groups; ++group) {
    const double norm = NormOf(batch, group);
    lost += norm * account.MissingOf(group);
    all += norm;
  }
  const double fragments = static_cast<double>(account.pairs()) / groups;
  guard_.Note(now, all > 0 ? lost / (all * fragments) : 0);
  for (uint32_t row = 0; row < rows; ++row) {
    const auto missing = static_cast<uint32_t>(account.MissingGroups(row).size());
    done.lost.push_back(missing);
    losses_.lost += missing;
  }
}

}  // namespace weft::dispatch
