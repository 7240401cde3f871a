#include "dispatch/dispatcher.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/sentence.h"

namespace weft::dispatch {
namespace {

constexpr double kUnknownRowUs = 10'000;
// Slots of a layer that is looked at expert by expert: two rows of eight experts, four of four.
constexpr size_t kForecastSlots = 32;
// A copy costs its holder and the line time that others may want: this share of a round trip.
constexpr double kCopyShare = 0.005;

Error Refused(std::string sentence) {
  return Error(ErrorCode::kInvalidData, std::move(sentence));
}

Duration Us(double us) {
  return Microseconds(static_cast<int64_t>(us));
}

}  // namespace

Dispatcher::Dispatcher(Options options) : first_options_(options), options_(options) {
  CHECK(options_.copies >= 1);
}

// ---- a layer begins and ends

Actions Dispatcher::Begin(Instant now, uint32_t batch_index, const LayerWork& work) {
  CHECK(batch_index < batches_.size() && !batches_[batch_index].is_active);
  CHECK(work.top_k >= 1 && work.hidden >= 1 && work.slot_hidden() >= 1 && !work.experts.empty());
  CHECK(work.experts.size() % work.top_k == 0);
  CHECK(work.rows.size() == work.experts.size() / work.top_k * work.hidden);
  Batch& batch = batches_[batch_index];
  batch = {};
  batch.is_active = true;
  counters_[batch_index] = (counters_[batch_index] + 1) & ~wire::kBatchBit;
  batch.sequence = counters_[batch_index] | (batch_index == 0 ? 0 : wire::kBatchBit);
  batch.layer = work.layer;
  batch.hidden = work.hidden;
  batch.slot_hidden = work.slot_hidden();
  batch.kind = work.kind;
  if (work.kind == SlotKind::kExperts) batch.row_type = row_type_;
  batch.largest_slot = work.largest_slot;
  batch.norms.assign(work.norms.begin(), work.norms.end());
  const bool in_integers =
      work.in_integers && batch.row_type == wire::RowType::kF32 &&
      std::ranges::any_of(holders_, [](const auto& each) { return each.second.takes_integers; });
  batch.tasks = MakeTasks(work, batch.row_type, in_integers);
  batch.left = batch.tasks.size();
  if (MayLose(now, work, batch))
    BeginLossy(work, batch);
  else
    batch.slot_rows.resize(work.kind == SlotKind::kSums ? work.rows.size()
                                                        : work.experts.size() * work.slot_hidden());
  // Sums that may be lost come as f32, in pieces of their own.
  if (work.kind == SlotKind::kSums && !batch.account) batch.slot_step = work.slot_step;
  batch.is_forecast =
      options_.adaptive && !IsShared(work.kind) && work.experts.size() <= kForecastSlots;
  if (IsShared(batch.kind)) {
    DispatchShares(now, batch_index);
  } else if (batch.is_forecast) {
    DispatchForecast(now, batch_index);
  } else {
    for (Task& task : batch.tasks) DispatchFirst(now, batch_index, task);
  }
  return Finish(now);
}

// One for each expert that the rows chose. Experts that the same rows chose share what is sent:
// for a single token all of them do. Slots of sums are rows.
std::vector<Dispatcher::Task> Dispatcher::MakeTasks(const LayerWork& work, wire::RowType type,
                                                    bool in_integers) {
  const bool sums = work.kind == SlotKind::kSums;
  std::map<uint16_t, std::vector<uint32_t>> slots_of;
  for (uint32_t slot = 0; slot < work.experts.size(); ++slot) {
    CHECK(work.experts[slot] < wire::kAnyExpert);
    slots_of[static_cast<uint16_t>(work.experts[slot])].push_back(sums ? slot / work.top_k : slot);
  }
  std::map<std::vector<uint32_t>, std::pair<Slice, Slice>> packed;  // by row numbers
  std::vector<Task> tasks;
  for (auto& [expert, slots] : slots_of) {
    std::vector<uint32_t> row_numbers;
    CHECK(!IsShared(work.kind) || slots.size() == work.experts.size() / work.top_k);
    for (const uint32_t slot : slots) row_numbers.push_back(sums ? slot : slot / work.top_k);
    auto& [rows, integers] = packed[row_numbers];
    if (rows.empty()) {
      rows = Packed(work, row_numbers, type);
      if (in_integers) integers = Packed(work, row_numbers, wire::RowType::kIntegers);
    }
    Task task;
    task.expert = expert;
    task.slots = std::move(slots);
    task.rows = rows;
    task.integers = integers;
    tasks.push_back(std::move(task));
  }
  return tasks;
}

Slice Dispatcher::Packed(const LayerWork& work, std::span<const uint32_t> rows,
                         wire::RowType type) {
  const size_t row_bytes = wire::RowBytes(type, work.hidden);
  std::vector<uint8_t> bytes(row_bytes * rows.size());
  for (size_t i = 0; i < rows.size(); ++i)
    wire::StoreRow(work.rows.subspan(size_t{rows[i]} * work.hidden, work.hidden), type,
                   &bytes[i * row_bytes]);
  return Slice(std::move(bytes));
}

Actions Dispatcher::Abandon(Instant now, uint32_t batch_index) {
  Batch& batch = batches_[batch_index];
  for (Task& task : batch.tasks) {
    if (!task.is_done) Cancel(now, batch, task);
  }
  batch = {};
  return Finish(now);
}

// ---- who is asked

Duration Dispatcher::Predicted(const HolderState& holder) const {
  double us = kUnknownRoundTripUs;
  if (!holder.round_trips.empty()) us = static_cast<double>(holder.round_trips.Quantile(0.5).us);
  us += static_cast<double>(BehindOf(holder).us);
  return Us(us);
}

// What is already asked of a holder is computed first.
Duration Dispatcher::BehindOf(const HolderState& holder) const {
  double us = kUnknownRoundTripUs;
  if (!holder.round_trips.empty()) us = static_cast<double>(holder.round_trips.Quantile(0.5).us);
  return holder.queue + Us(us * 0.125 * holder.open);
}

Duration Dispatcher::LateAfter(const HolderState& holder, size_t row_count) const {
  Duration late = options_.first_late;
  // What stalls now and then is late long before its stalls are over.
  if (!holder.round_trips.empty())
    late = std::min(holder.round_trips.Quantile(options_.late_share),
                    holder.round_trips.Quantile(0.5) * 2);
  if (row_count > kShortRows)
    late = late + Us(2 * holder.row_us.value_or(kUnknownRowUs) * static_cast<double>(row_count));
  return late;
}

Duration Dispatcher::TimeoutOf(const HolderState& holder, size_t row_count, uint32_t sends) const {
  Duration timeout = options_.timeout;
  if (options_.adaptive && holder.round_trips.count() >= kShortRows)
    timeout = std::clamp(holder.round_trips.Quantile(0.95) * 4,
                         std::min(options_.least_timeout, timeout), timeout);
  timeout = timeout * std::min(sends, kMostBackoff);
  if (row_count > kShortRows)
    timeout =
        timeout + Us(4 * holder.row_us.value_or(kUnknownRowUs) * static_cast<double>(row_count));
  return timeout;
}

std::vector<uint32_t> Dispatcher::Candidates(Instant now, uint16_t layer, const Task& task) const {
  // Those who let a dispatch pass come after the others, then those already asked for this one.
  std::vector<std::tuple<bool, bool, Duration, uint32_t>> order;
  for (const auto& [id, holder] : holders_) {
    if (holder.is_aside || holder.is_unhealthy) continue;
    if (!holder.experts.contains({layer, task.expert})) continue;
    const auto copy = std::find_if(task.copies.begin(), task.copies.end(),
                                   [id = id](const Copy& c) { return c.holder == id; });
    const bool is_asked = copy != task.copies.end();
    if (is_asked && IsWaitedFor(*copy)) continue;
    order.emplace_back(is_asked, now < holder.demoted_until, Predicted(holder), id);
  }
  std::sort(order.begin(), order.end());
  std::vector<uint32_t> ids;
  ids.reserve(order.size());
  for (const auto& entry : order) ids.push_back(std::get<3>(entry));
  return ids;
}

void Dispatcher::DispatchFirst(Instant now, uint32_t batch_index, Task& task) {
  const std::vector<uint32_t> ids = Candidates(now, batches_[batch_index].layer, task);
  if (ids.empty()) {
    Redispatch(now, batch_index, task);
    return;
  }
  const bool at_once_too = !options_.adaptive && options_.copy_time == CopyTime::kAtOnce;
  const size_t at_once = std::min<size_t>(at_once_too ? options_.copies : 1, ids.size());
  for (size_t i = 0; i < at_once; ++i) Ask(now, batch_index, task, ids[i]);
}

bool Dispatcher::IsAsked(const Task& task, uint32_t id) {
  return std::any_of(task.copies.begin(), task.copies.end(),
                     [id](const Copy& copy) { return copy.holder == id; });
}

// Experts that only slow holders have choose first.
void Dispatcher::DispatchForecast(Instant now, uint32_t batch_index) {
  Batch& batch = batches_[batch_index];
  std::vector<std::pair<double, Task*>> order;
  const auto expected_us = [this](uint32_t id) {
    const HolderState& holder = holders_.at(id);
    double us = kUnknownRoundTripUs;
    if (!holder.round_trips.empty()) us = static_cast<double>(holder.round_trips.Mean().us);
    return us + static_cast<double>(BehindOf(holder).us);
  };
  const auto best_of = [&](const Task& task) {
    std::tuple<bool, double, uint32_t> best{true, HUGE_VAL, 0};
    for (const uint32_t id : Candidates(now, batch.layer, task))
      best = std::min(best, {now < holders_.at(id).demoted_until, expected_us(id), id});
    return best;
  };
  for (Task& task : batch.tasks) order.emplace_back(-std::get<1>(best_of(task)), &task);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second->expert) < std::pair(b.first, b.second->expert);
  });
  for (const auto& [us, task] : order) {
    if (std::isinf(us)) {
      Redispatch(now, batch_index, *task);
    } else {
      Ask(now, batch_index, *task, std::get<2>(best_of(*task)));
    }
  }
  SendCopiesThatPay(now, batch_index);
}

Duration Dispatcher::SilenceOf(Instant now, const HolderState& holder) {
  if (!holder.silent_since || now >= holder.demoted_until) return {};
  return now - *holder.silent_since;
}

void Dispatcher::SendCopiesThatPay(Instant now, uint32_t batch_index) {
  Batch& batch = batches_[batch_index];
  batch.next_look.reset();
  LayerForecast forecast;
  std::vector<Task*> waiting;
  Duration soonest = Seconds(1);
  for (Task& task : batch.tasks) {
    if (task.is_done || task.is_missing) continue;
    std::vector<LayerForecast::Copy> copies;
    for (const Copy& copy : task.copies) {
      if (copy.is_closed) continue;
      const HolderState& holder = holders_.at(copy.holder);
      copies.push_back({&holder.round_trips, now - copy.sent, {}});
      const Duration usual =
          holder.round_trips.empty() ? options_.first_late : holder.round_trips.Quantile(0.5);
      soonest = std::min(soonest, std::max(usual, now - copy.sent));
    }
    forecast.AddExpert(copies);
    waiting.push_back(&task);
  }
  for (;;) {
    const double without = forecast.WeightedUs();
    double most = 0;
    size_t expert = 0;
    uint32_t best = 0;
    for (size_t i = 0; i < waiting.size(); ++i) {
      const Task& task = *waiting[i];
      if (task.copies.size() >= options_.copies) continue;
      for (const uint32_t id : Candidates(now, batch.layer, task)) {
        const HolderState& holder = holders_.at(id);
        if (IsAsked(task, id)) continue;
        const LayerForecast::Copy copy{&holder.round_trips, SilenceOf(now, holder),
                                       BehindOf(holder)};
        const double usual_us = holder.round_trips.empty()
                                    ? kUnknownRoundTripUs
                                    : static_cast<double>(holder.round_trips.Quantile(0.5).us);
        const double gain = without - forecast.WeightedUsWith(i, copy) - kCopyShare * usual_us;
        if (gain > most) std::tie(most, expert, best) = std::tuple(gain, i, id);
      }
    }
    if (most <= 0) break;
    const HolderState& holder = holders_.at(best);
    forecast.AddCopy(expert, {&holder.round_trips, SilenceOf(now, holder), BehindOf(holder)});
    Ask(now, batch_index, *waiting[expert], best);
  }
  // Each look comes an eighth of what was waited after the one before: few, and none much too late.
  if (!waiting.empty())
    batch.next_look = now + std::max(Microseconds(500), Us(static_cast<double>(soonest.us) / 8));
}

void Dispatcher::Ask(Instant now, uint32_t batch_index, Task& task, uint32_t id) {
  HolderState& holder = holders_.at(id);
  auto copy = std::find_if(task.copies.begin(), task.copies.end(),
                           [id](const Copy& c) { return c.holder == id; });
  const bool is_first = task.copies.empty();
  if (copy == task.copies.end()) {
    task.copies.push_back({});
    copy = task.copies.end() - 1;
    copy->holder = id;
    ++holder.open;
  } else if (copy->is_closed) {
    copy->is_closed = false;
    ++holder.open;
  }
  copy->sent = now;
  copy->is_timed_out = false;
  ++copy->sends;
  task.is_missing = false;
  const size_t row_count = task.slots.size();
  copy->deadline = now + TimeoutOf(holder, row_count, copy->sends);
  task.next_copy.reset();
  const bool may_copy = options_.adaptive || options_.copy_time == CopyTime::kWhenLate;
  if (!holder.silent_since) holder.silent_since = now;
  const Batch& batch = batches_[batch_index];
  if (may_copy && !batch.is_forecast && !IsShared(batch.kind) &&
      task.copies.size() < options_.copies)
    task.next_copy = now + LateAfter(holder, row_count);
  copy->is_hedge = !is_first;
  ++holder.stats.calls;
  holder.stats.rows += row_count;
  if (copy->is_hedge) ++holder.stats.hedges;
  outbox_[id].push_back({batch_index, &task});
}

void Dispatcher::Redispatch(Instant now, uint32_t batch_index, Task& task) {
  if (task.is_done) return;
  if (std::any_of(task.copies.begin(), task.copies.end(),
                  [this](const Copy& copy) { return IsWaitedFor(copy); }))
    return;
  Batch& batch = batches_[batch_index];
  const std::vector<uint32_t> ids = Candidates(now, batch.layer, task);
  if (!ids.empty()) {
    Ask(now, batch_index, task, ids.front());
    return;
  }
  task.next_copy.reset();
  if (task.is_missing) return;
  task.is_missing = true;
  if (actions_.missing.empty() || actions_.missing.back().batch != batch_index)
    actions_.missing.push_back({batch_index, batch.layer, {}});
  actions_.missing.back().experts.push_back(task.expert);
}

void Dispatcher::RetryMissing(Instant now) {
  for (uint32_t index = 0; index < batches_.size(); ++index) {
    for (Task& task : batches_[index].tasks) {
      if (task.is_missing) Redispatch(now, index, task);
    }
  }
}

// ---- answers

Dispatcher::AnswerTimes Dispatcher::TimesOf(std::span<const wire::ExpertFrame> frames,
                                            std::optional<Instant> came) {
  AnswerTimes times{came, std::nullopt};
  if (frames.size() > 1 && frames.back().type == wire::ExpertFrameType::kHeartbeat)
    times.computed = Microseconds(wire::ReadHeartbeat(frames.back()).compute_us);
  return times;
}

Actions Dispatcher::OnResult(Instant now, uint32_t holder, const wire::ExpertFrame& frame,
                             const AnswerTimes& times) {
  times_ = times;
  const auto found = holders_.find(holder);
  // What a holder said before it was lost or put aside is of no use and no harm.
  if (found == holders_.end() || found->second.is_aside) return Finish(now);
  found->second.stats.received_bytes += frame.rows.byte_count();
  const Status accepted = Accept(now, holder, frame);
  if (!accepted.ok()) CountBad(now, holder, accepted.error().message());
  return Finish(now);
}

Status Dispatcher::Accept(Instant now, uint32_t id, const wire::ExpertFrame& frame) {
  HolderState& holder = holders_.at(id);
  if (frame.type != wire::ExpertFrameType::kResult)
    return Refused(
        Sentence("It sent a frame of type ", static_cast<int>(frame.type), ", expected a result."));
  const uint32_t index = (frame.sequence & wire::kBatchBit) ? 1 : 0;
  Batch& batch = batches_[index];
  if (!batch.is_active || frame.sequence != batch.sequence) {
    const std::optional<uint32_t> last = holder.last_sequence[index];
    const uint32_t behind = (last.value_or(0) - frame.sequence) & ~wire::kBatchBit;
    if (!last || behind > (wire::kBatchBit >> 1))
      return Refused(Sentence("It answers the sequence ", frame.sequence,
                              ", expected one that it was asked."));
    ++holder.stats.stale_answers;
    holder.silent_since.reset();
    return OkStatus();
  }
  if (!frame.added.empty()) return AcceptSum(now, id, frame);
  ASSIGN_OR_RETURN(Copy* const copy, AskedFor(id, frame, frame.expert));
  ++copy->answers;
  holder.silent_since.reset();
  Task& task = *FindTask(batch, frame.expert);
  Status rows = frame.failed ? OkStatus() : CheckRows(batch, task, frame);
  if (frame.failed || !rows.ok()) {
    Close(*copy);
    // It does not hold what it was said to: it is not asked for this expert again.
    if (frame.failed) holder.experts.erase({batch.layer, frame.expert});
    Redispatch(now, index, task);
    return rows;
  }
  Take(now, index, task, *copy, frame);
  return OkStatus();
}

Dispatcher::Task* Dispatcher::FindTask(Batch& batch, uint16_t expert) {
  const auto task =
      std::lower_bound(batch.tasks.begin(), batch.tasks.end(), expert,
                       [](const Task& t, uint16_t sought) { return t.expert < sought; });
  return task != batch.tasks.end() && task->expert == expert ? &*task : nullptr;
}

Result<Dispatcher::Copy*> Dispatcher::AskedFor(uint32_t id, const wire::ExpertFrame& frame,
                                               uint16_t expert) {
  Batch& batch = batches_[(frame.sequence & wire::kBatchBit) ? 1 : 0];
  Copy* copy = nullptr;
  if (Task* const task = FindTask(batch, expert); task != nullptr && frame.layer == batch.layer) {
    for (Copy& candidate : task->copies) {
      if (candidate.holder == id) copy = &candidate;
    }
  }
  if (copy == nullptr)
    return Refused(Sentence("It answers for expert ", expert, " of layer ", frame.layer,
                            ", expected one of layer ", batch.layer, " that it was asked for."));
  if (copy->answers == copy->sends)
    return Refused(Sentence("It answers for expert ", expert, " of layer ", frame.layer,
                            " once more, expected ", copy->sends, " answers."));
  return copy;
}

Status Dispatcher::CheckRows(const Batch& batch, const Task& task, const wire::ExpertFrame& frame) {
  if (frame.tokens != task.slots.size() || frame.hidden != batch.slot_hidden)
    return Refused(Sentence("It answers expert ", frame.expert, " with ", frame.tokens, " rows of ",
                            frame.hidden, " columns, expected ", task.slots.size(), " of ",
                            batch.slot_hidden, "."));
  const size_t count = size_t{frame.tokens} * frame.hidden;
  const bool is_in_steps = frame.row_type == wire::RowType::kSteps && batch.slot_step > 0;
  if (frame.row_type != batch.row_type && !is_in_steps)
    return Refused(Sentence("Its rows of expert ", frame.expert, " have element type ",
                            static_cast<int>(frame.row_type), ", expected ",
                            static_cast<int>(batch.row_type), " as it was asked with."));
  if (frame.rows.byte_count() != count * wire::ElementBytes(frame.row_type))
    return Refused(Sentence("Its rows have ", frame.rows.byte_count(), " bytes, expected ", count,
                            " numbers."));
  values_.resize(count);
  wire::ReadValues(frame.rows, frame.row_type, batch.slot_step, values_);
  const size_t experts = 1 + frame.added.size();
  const float largest = batch.largest_slot * static_cast<float>(experts);
  const float most = largest > 0 ? largest : std::numeric_limits<float>::max();
  bool fits = true;
  for (const float value : values_) fits &= std::abs(value) <= most;  // no NaN either
  if (fits) return OkStatus();
  const auto bad =
      std::ranges::find_if(values_, [most](float v) { return !(std::abs(v) <= most); });
  const auto at = bad - values_.begin();
  if (std::isfinite(*bad))
    return Refused(Sentence("Its sum of ", experts, " experts of layer ", frame.layer, " holds ",
                            *bad, " at ", at, ", expected at most ", largest, "."));
  return Refused(Sentence("Its rows of expert ", frame.expert,
                          " hold a number that is not finite at ", at, ", expected finite ones."));
}

void Dispatcher::Take(Instant now, uint32_t index, Task& task, Copy& copy,
                      const wire::ExpertFrame& frame) {
  HolderState& holder = holders_.at(copy.holder);
  if (IsInRanges(batches_[index].kind))
    NoteRanges(times_.came.value_or(now), holder, batches_[index], copy, task.slots.size());
  else
    NoteAnswer(times_.came.value_or(now), holder, copy, task.slots.size(), 1);
  if (batches_[index].kind == SlotKind::kSums) NoteComputed(holder, task.slots.size(), 1);
  Close(copy);
  if (task.is_done) return;
  CountWin(holder, copy);
  Batch& batch = batches_[index];
  TakeRows(batch, task, frame);
  End(now, batch, task);
  EndIfDone(now, index);
}

void Dispatcher::NoteAnswer(Instant came, HolderState& holder, const Copy& copy, size_t row_count,
                            size_t shares) {
  Sample(holder, came - copy.sent, row_count);
  const bool is_long = row_count > kShortRows;
  holder.sum_costs[is_long].Note(came - copy.sent, times_.computed,
                                 static_cast<double>(shares * (is_long ? row_count : 1)));
  if (copy.is_timed_out) return;
  holder.timeouts_in_a_row = 0;
  holder.demoted_until = {};
}

void Dispatcher::TakeRows(Batch& batch, const Task& task, const wire::ExpertFrame& frame) const {
  if (batch.account) return TakeSum(batch, frame);
  const size_t columns = batch.slot_hidden;
  for (size_t i = 0; i < task.slots.size(); ++i) {
    float* out = &batch.slot_rows[task.slots[i] * columns];
    const float* row = &values_[i * columns];
    if (batch.kind == SlotKind::kSums)
      for (size_t c = 0; c < columns; ++c) out[c] += row[c];
    else
      std::copy_n(row, columns, out);
  }
}

void Dispatcher::End(Instant now, Batch& batch, Task& task) {
  task.is_done = true;
  task.is_missing = false;
  task.next_copy.reset();
  Cancel(now, batch, task);
  task.rows = task.integers = {};
  --batch.left;
}

void Dispatcher::EndIfDone(Instant now, uint32_t index) {
  Batch& batch = batches_[index];
  if (!batch.is_active || batch.left > 0) return;
  Done done{index, batch.layer, std::move(batch.slot_rows), {}};
  if (batch.account) NoteLosses(now, batch, done);
  actions_.done.push_back(std::move(done));
  batch = {};
}

// What is cancelled has taken at least this long: without it, who always loses would keep the good
// figures of its first answers. What was late already would most likely have taken as long again.
void Dispatcher::Cancel(Instant now, const Batch& batch, Task& task) {
  for (Copy& copy : task.copies) {
    if (copy.is_closed) continue;
    HolderState& holder = holders_.at(copy.holder);
    const Duration waited = now - copy.sent;
    if (!holder.round_trips.empty() && waited > holder.round_trips.Quantile(0.5)) {
      const bool is_late = waited > holder.round_trips.Quantile(0.5) * 2;
      Sample(holder, is_late ? waited * 2 : waited, task.slots.size());
    }
    ++holder.stats.losses;
    if (copy.is_hedge) ++holder.stats.lost_hedges;
    Close(copy);
    AvoidWhoIsSilent(now, holder);
    cancels_[copy.holder].push_back(wire::CancelFrame(batch.sequence, batch.layer, task.expert));
  }
}

// What was cancelled is never answered, so nothing tells when a holder that stalls is back. One
// that has been silent for longer than its usual round trip is asked after others for four times as
// long as it is silent by now; if it answers nothing then either, for four times all that.
void Dispatcher::AvoidWhoIsSilent(Instant now, HolderState& holder) {
  if (!options_.adaptive || holder.open > 0 || holder.round_trips.empty()) return;
  const Duration silent = now - holder.silent_since.value_or(now);
  if (silent > holder.round_trips.Quantile(0.5))
    holder.demoted_until =
        std::max(holder.demoted_until, now + std::min(silent * 4, options_.demotion));
}

void Dispatcher::Close(Copy& copy) {
  if (copy.is_closed) return;
  copy.is_closed = true;
  --holders_.at(copy.holder).open;
}

void Dispatcher::CountWin(HolderState& holder, const Copy& copy) {
  ++holder.stats.wins;
  if (copy.is_hedge) ++holder.stats.won_hedges;
}

void Dispatcher::Sample(HolderState& holder, Duration round_trip, size_t row_count) {
  if (row_count <= kShortRows) {
    holder.round_trips.Add(round_trip);
    return;
  }
  const double us = static_cast<double>(round_trip.us) / static_cast<double>(row_count);
  holder.row_us = holder.row_us ? 0.75 * *holder.row_us + 0.25 * us : us;
}

Actions Dispatcher::OnMalformed(Instant now, uint32_t holder, const std::string& sentence) {
  const auto found = holders_.find(holder);
  if (found != holders_.end() && !found->second.is_aside) CountBad(now, holder, sentence);
  return Finish(now);
}

void Dispatcher::CountBad(Instant now, uint32_t id, const std::string& sentence) {
  HolderState& holder = holders_.at(id);
  ++holder.stats.bad_answers;
  if (++holder.bad_answers < options_.bad_answers_to_aside) return;
  holder.is_aside = true;
  actions_.put_aside.push_back({id, sentence});
  Drop(now, id);
}

// ---- holders come and go

// Nothing is expected of it any more; what it was asked goes to others.
void Dispatcher::Drop(Instant now, uint32_t id) {
  outbox_.erase(id);
  cancels_.erase(id);
  for (uint32_t index = 0; index < batches_.size(); ++index) {
    // What came of it is in the sums already, and cannot be asked for again.
    if (const Share* share = FindShare(batches_[index], id); share != nullptr && share->has_come)
      EndShare(now, index, id);
    DropShare(batches_[index], id);
    for (Task& task : batches_[index].tasks) {
      const size_t asked = std::erase_if(task.copies, [this, id](Copy& copy) {
        if (copy.holder != id) return false;
        Close(copy);
        return true;
      });
      if (asked > 0) Redispatch(now, index, task);
    }
  }
}

void Dispatcher::FixCopies(uint32_t copies) {
  options_ = first_options_;
  if (copies == 0) return;
  options_.adaptive = false;
  options_.copies = copies;
  options_.copy_time = CopyTime::kAtOnce;
}

Actions Dispatcher::SetHolders(Instant now, uint32_t statement, std::vector<Holder> holders) {
  if (statement <= statement_) return Finish(now);
  statement_ = statement;
  std::set<uint32_t> named;
  for (Holder& holder : holders) {
    named.insert(holder.id);
    HolderState& state = holders_[holder.id];
    state.experts = {holder.experts.begin(), holder.experts.end()};
    state.sends_steps = holder.sends_steps;
    state.takes_integers = holder.takes_integers;
  }
  std::vector<uint32_t> gone;
  for (const auto& [id, state] : holders_) {
    if (!named.contains(id)) gone.push_back(id);
  }
  for (const uint32_t id : gone) holders_.at(id).is_aside = true;
  for (const uint32_t id : gone) {
    Drop(now, id);
    holders_.erase(id);
  }
  RetryMissing(now);
  return Finish(now);
}

Actions Dispatcher::OnHeartbeat(Instant now, uint32_t id, const wire::Heartbeat& heartbeat) {
  const auto found = holders_.find(id);
  if (found == holders_.end()) return Finish(now);
  HolderState& holder = found->second;
  // What it says of itself orders who is asked first, and no more: a minute is enough.
  const double queue_us = double{1} * heartbeat.waiting * heartbeat.compute_us;
  holder.queue = Us(std::min(queue_us, 60e6));
  holder.is_unhealthy = false;
  holder.timeouts_in_a_row = 0;
  RetryMissing(now);
  return Finish(now);
}

// ---- time

// Late answers still count, and nobody is slow who was not heard.
Actions Dispatcher::AskAgain(Instant now, uint32_t holder) {
  for (uint32_t index = 0; index < batches_.size(); ++index) {
    if (!batches_[index].is_active) continue;
    for (Task& task : batches_[index].tasks) {
      bool is_asked = false;
      for (Copy& copy : task.copies)
        if (copy.holder == holder && IsWaitedFor(copy)) is_asked = copy.is_timed_out = true;
      if (is_asked) Redispatch(now, index, task);
    }
  }
  return Finish(now);
}

Actions Dispatcher::OnTimer(Instant now) {
  MergeDue(now);
  for (uint32_t index = 0; index < batches_.size(); ++index) {
    Batch& batch = batches_[index];
    for (Task& task : batch.tasks) {
      if (!task.is_done) Expire(now, index, task);
    }
    if (batch.is_forecast && batch.next_look && now >= *batch.next_look)
      SendCopiesThatPay(now, index);
  }
  return Finish(now);
}

void Dispatcher::Expire(Instant now, uint32_t index, Task& task) {
  for (Copy& copy : task.copies) {
    if (!IsWaitedFor(copy) || now < copy.deadline) continue;
    if (IsInShare(batches_[index], task, copy.holder)) {
      if (FindShare(batches_[index], copy.holder)->has_come) continue;  // it is merged soon
      NoteSilence(batches_[index], copy.holder);
    }
    copy.is_timed_out = true;
    HolderState& holder = holders_.at(copy.holder);
    // Once may be a few datagrams of a line that loses some.
    const bool by_chance = holder.silent_shares == 1 && holder.silent_share == copy.sent;
    if (!by_chance) holder.demoted_until = now + options_.demotion;
    Sample(holder, now - copy.sent, task.slots.size());
    // All that one message asked runs out of time together, and counts once.
    if (holder.last_counted && copy.sent <= *holder.last_counted) continue;
    holder.last_counted = copy.sent;
    ++holder.stats.timeouts;
    if (++holder.timeouts_in_a_row >= options_.timeouts_to_unhealthy) holder.is_unhealthy = true;
  }
  Redispatch(now, index, task);
  if (!task.next_copy || now < *task.next_copy) return;
  task.next_copy.reset();
  const std::vector<uint32_t> ids = Candidates(now, batches_[index].layer, task);
  const auto fresh =
      std::find_if(ids.begin(), ids.end(), [&task](uint32_t id) { return !IsAsked(task, id); });
  if (fresh != ids.end()) Ask(now, index, task, *fresh);
}

// ---- actions

Actions Dispatcher::Finish(Instant now) {
  FlushSends(now);
  SetTimer();
  return std::exchange(actions_, {});
}

std::vector<uint32_t> Dispatcher::HolderIds() const {
  std::vector<uint32_t> ids;
  for (const auto& [id, holder] : holders_) ids.push_back(id);
  return ids;
}

std::optional<HolderStats> Dispatcher::StatsOf(uint32_t id) const {
  const auto found = holders_.find(id);
  if (found == holders_.end()) return std::nullopt;
  const HolderState& holder = found->second;
  HolderStats stats = holder.stats;
  stats.is_unhealthy = holder.is_unhealthy;
  stats.is_aside = holder.is_aside;
  if (!holder.round_trips.empty()) {
    stats.p50 = holder.round_trips.Quantile(0.5);
    stats.p95 = holder.round_trips.Quantile(0.95);
    stats.slowest = holder.round_trips.Quantile(1);
  }
  stats.queue = holder.queue;
  return stats;
}

bool Dispatcher::IsMissing(uint32_t batch) const {
  const std::vector<Task>& tasks = batches_[batch].tasks;
  return std::any_of(tasks.begin(), tasks.end(), [](const Task& task) { return task.is_missing; });
}

size_t Dispatcher::HeldBytes() const {
  size_t byte_count = 0;
  for (const Batch& batch : batches_) {
    byte_count += batch.slot_rows.size() * sizeof(float);
    if (batch.account) byte_count += batch.account->values().size_bytes();
    std::set<const uint8_t*> counted;
    for (const Task& task : batch.tasks)
      for (const Slice* rows : {&task.rows, &task.integers})
        if (counted.insert(rows->bytes().data()).second) byte_count += rows->byte_count();
  }
  return byte_count;
}

}  // namespace weft::dispatch
