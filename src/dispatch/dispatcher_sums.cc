// The dispatcher's layers that want sums: who computes how much of one, and when a sum counts.
//
// Everybody's share takes equally long where experts are given out by the rate at which each holder
// has answered so far, the way there and back included. Example: 12 experts, A answers 4 of them in
// 4 ms, B 4 in 8 ms, because it is 4 ms away. By rates 1 and 0.5 A gets 8 and B 4: 8 ms each.
#include <algorithm>
#include <cmath>

#include "base/sentence.h"
#include "dispatch/dispatcher.h"

namespace weft::dispatch {
namespace {

// Of rates that are measured again and again.
constexpr double kNewShare = 0.25;
// Nobody knows whether who is too slow to be asked has become faster: it looks faster by so much
// with every layer, until it is asked again.
constexpr double kForgetting = 1.002;

}  // namespace

double Dispatcher::ShareRate(const HolderState& holder, bool is_long) const {
  if (holder.share_rates[is_long]) return *holder.share_rates[is_long];
  double sum = 0;
  size_t known = 0;
  for (const auto& [id, each] : holders_) {
    if (!each.share_rates[is_long]) continue;
    sum += *each.share_rates[is_long];
    ++known;
  }
  return known > 0 ? sum / static_cast<double>(known) : 1;
}

void Dispatcher::NoteShares(HolderState& holder, Duration round_trip, size_t row_count,
                            size_t shares) {
  const bool is_long = row_count > kShortRows;
  const double work = static_cast<double>(shares) * static_cast<double>(is_long ? row_count : 1);
  const double rate = 1000 * work / std::max(1.0, static_cast<double>(round_trip.us));
  std::optional<double>& known = holder.share_rates[is_long];
  known = known ? (1 - kNewShare) * *known + kNewShare * rate : rate;
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
      const double ms = (given[id] + 1) / ShareRate(holder, task->slots.size() > kShortRows);
      best = std::min(best, {now < holder.demoted_until, ms, id});
    }
    chosen = std::get<2>(best);
    ++given[chosen];
  }
  if (batch.account) {
    PutCriticalFirst(batch, choices);
    MakeShares(now, batch, choices);
  }
  // Holders add up what comes by rising number.
  std::sort(choices.begin(), choices.end(),
            [](const Choice& a, const Choice& b) { return a.task->expert < b.task->expert; });
  for (const auto& [task, ids, chosen] : choices)
    ids.empty() ? Redispatch(now, batch_index, *task) : Ask(now, batch_index, *task, chosen);
  for (const auto& [id, count] : given) {
    if (count > 0) continue;
    for (std::optional<double>& rate : holders_.at(id).share_rates)
      if (rate) *rate *= kForgetting;
  }
}

Status Dispatcher::AcceptSum(Instant now, uint32_t id, const wire::ExpertFrame& frame) {
  const uint32_t index = (frame.sequence & wire::kBatchBit) ? 1 : 0;
  Batch& batch = batches_[index];
  HolderState& holder = holders_.at(id);
  if (!batch.sums)
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
  if (rows.ok()) NoteAnswer(now, holder, *first, frame.tokens, parts.size());
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
