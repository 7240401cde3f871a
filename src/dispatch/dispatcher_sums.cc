// The dispatcher's layers that are shared out: who computes how much of one, and when a sum counts.
//
// Everybody's share takes equally long where each expert is given to who is done with it soonest
// (share_cost.h).
#include <algorithm>
#include <cmath>

#include "base/sentence.h"
#include "dispatch/dispatcher.h"

namespace weft::dispatch {
double Dispatcher::ShareUs(const HolderState& holder, SlotKind kind, bool is_long,
                           double count) const {
  if (const ShareCost& cost = CostsOf(holder, kind)[is_long]; cost.is_known())
    return cost.Us(count);
  double sum = 0;
  size_t known = 0;
  for (const auto& [id, each] : holders_) {
    const ShareCost& cost = CostsOf(each, kind)[is_long];
    if (!cost.is_known()) continue;
    sum += cost.Us(count);
    ++known;
  }
  return known > 0 ? sum / static_cast<double>(known) : count;
}

void Dispatcher::NoteComputed(HolderState& holder, size_t row_count, size_t groups) const {
  if (!times_.computed || row_count != 1) return;
  holder.stats.computed_groups += groups;
  holder.stats.computed_us += static_cast<uint64_t>(std::max<int64_t>(times_.computed->us, 0));
}

// Ranges of unlike products have costs of their own lengths: theirs are counted in 2^20 weights.
double Dispatcher::WorkOf(const Batch& batch, double parts) {
  constexpr double kWeights = 1 << 20;
  return batch.kind == SlotKind::kProducts ? parts * batch.hidden * batch.slot_hidden / kWeights
                                           : parts;
}

// The ranges of a share are answered one by one: its cost is known with the last of them.
void Dispatcher::NoteRanges(Instant came, HolderState& holder, const Batch& batch, const Copy& copy,
                            size_t row_count) {
  size_t asked = 0;
  for (const Task& task : batch.tasks)
    for (const Copy& other : task.copies) {
      if (other.holder != copy.holder || other.sent != copy.sent) continue;
      ++asked;
      if (&other != &copy && !other.is_closed) return;
    }
  const bool is_long = row_count > kShortRows;
  const bool in_products = batch.kind == SlotKind::kProducts;
  const double work = WorkOf(batch, static_cast<double>(asked * (is_long ? row_count : 1)));
  ShareCost& cost = CostsOf(holder, batch.kind)[is_long];
  if (in_products) Sample(holder, came - copy.sent, row_count);
  if (in_products && !is_long)
    cost.Note(came - copy.sent, times_.computed, work);
  else
    cost.NoteLongAnswers(came - copy.sent, times_.computed, work);
  if (copy.is_timed_out) return;
  holder.timeouts_in_a_row = 0;
  holder.demoted_until = {};
}

// The head is by far the longest of the layers, and says nothing of their round trips.
Duration Dispatcher::RangeTimeoutOf(const HolderState& holder, size_t row_count,
                                    uint32_t sends) const {
  constexpr double kMostRanges = 64;
  const bool is_long = row_count > kShortRows;
  const ShareCost& cost = holder.range_costs[is_long];
  const double rows = is_long ? static_cast<double>(row_count) : 1;
  const double usual_us = cost.is_known() ? cost.Us(kMostRanges * rows) : 0;
  return options_.timeout * std::min(sends, kMostBackoff) +
         Microseconds(static_cast<int64_t>(4 * usual_us));
}

// Experts that few can be asked for are given out first, each to who is done with it soonest.
void Dispatcher::DispatchShares(Instant now, uint32_t batch_index) {
  Batch& batch = batches_[batch_index];
  std::vector<Choice> choices;
  for (Task& task : batch.tasks) choices.push_back({&task, Candidates(now, batch.layer, task), 0});
  std::stable_sort(choices.begin(), choices.end(),
                   [](const Choice& a, const Choice& b) { return a.ids.size() < b.ids.size(); });
  std::map<uint32_t, uint32_t> given;
  for (auto& [task, ids, chosen] : choices) {
    if (ids.empty()) continue;
    std::tuple<bool, double, uint32_t> best{true, HUGE_VAL, 0};
    for (const uint32_t id : ids) {
      const HolderState& holder = holders_.at(id);
      const double us = ShareUs(holder, batch.kind, task->slots.size() > kShortRows,
                                WorkOf(batch, given[id] + 1));
      best = std::min(best, {now < holder.demoted_until, us, id});
    }
    chosen = std::get<2>(best);
    ++given[chosen];
  }
  if (batch.account) {
    PutCriticalFirst(batch, choices);
    MakeShares(now, batch, choices);
  }
  // Holders add up what comes by rising number and in the same way.
  const auto order = [&batch](const Choice& choice) {
    return std::pair(IsInShare(batch, *choice.task, choice.id), choice.task->expert);
  };
  std::sort(choices.begin(), choices.end(),
            [&order](const Choice& a, const Choice& b) { return order(a) < order(b); });
  for (const auto& [task, ids, chosen] : choices)
    ids.empty() ? Redispatch(now, batch_index, *task) : Ask(now, batch_index, *task, chosen);
  for (const auto& [id, count] : given) {
    if (count > 0) continue;
    for (ShareCost& cost : CostsOf(holders_.at(id), batch.kind)) cost.Forget();
  }
}

Status Dispatcher::AcceptSum(Instant now, uint32_t id, const wire::ExpertFrame& frame) {
  const uint32_t index = (frame.sequence & wire::kBatchBit) ? 1 : 0;
  Batch& batch = batches_[index];
  HolderState& holder = holders_.at(id);
  if (batch.kind != SlotKind::kSums)
    return Error(ErrorCode::kInvalidData,
                 Sentence("It adds up experts of layer ", frame.layer,
                          ", expected rows of each that it was asked for."));
  struct Part {
    Task* task = nullptr;
    Copy* copy = nullptr;
  };
  std::vector<Part> parts;
  ASSIGN_OR_RETURN(Copy* const first, AskedFor(id, frame, frame.expert));
  parts.push_back({FindTask(batch, frame.expert), first});
  for (const uint16_t expert : frame.added) {
    ASSIGN_OR_RETURN(Copy* const copy, AskedFor(id, frame, expert));
    parts.push_back({FindTask(batch, expert), copy});
  }
  holder.silent_since.reset();
  Status rows = CheckRows(batch, *parts.front().task, frame);
  const bool counts = rows.ok() && std::none_of(parts.begin(), parts.end(), [](const Part& part) {
                        return part.task->is_done;
                      });
  if (rows.ok()) {
    const size_t groups = batch.account ? AskedTogether(batch, *first) : parts.size();
    NoteAnswer(times_.came.value_or(now), holder, *first, frame.tokens, groups);
    NoteComputed(holder, frame.tokens, groups);
  }
  if (counts) TakeRows(batch, *parts.front().task, frame);
  for (const auto& [task, copy] : parts) {
    ++copy->answers;
    Close(*copy);
    if (counts) CountWin(holder, *copy), End(now, batch, *task);
  }
  // What is in a sum that does not count is owed by nobody now.
  for (const auto& [task, copy] : parts) Redispatch(now, index, *task);
  if (!counts) return rows;
  EndIfDone(now, index);
  return OkStatus();
}

}  // namespace weft::dispatch
