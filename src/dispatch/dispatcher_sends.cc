// What the dispatcher has queued, as messages in the order in which they go on the line, and when
// it wants to be woken.
#include <algorithm>
#include <cmath>
#include <map>

#include "dispatch/dispatcher.h"

namespace weft::dispatch {

// The line to the holders carries one message after the other. First those with an expert that even
// the fastest one asked takes long for, then those that somebody waits for, then copies.
std::vector<uint32_t> Dispatcher::SendingOrder() const {
  const auto usual_us = [this](uint32_t id) {
    const LatencyWindow& round_trips = holders_.at(id).round_trips;
    return round_trips.empty() ? kUnknownRoundTripUs
                               : static_cast<double>(round_trips.Quantile(0.5).us);
  };
  double fastest = HUGE_VAL;
  for (const auto& [id, queued] : outbox_) fastest = std::min(fastest, usual_us(id));
  std::vector<std::pair<int, uint32_t>> order;
  for (const auto& [id, queued] : outbox_) {
    int place = 2;
    for (const Queued& item : queued) {
      double best = HUGE_VAL;
      for (const Copy& copy : item.task->copies) best = std::min(best, usual_us(copy.holder));
      if (best > 2 * fastest) place = 0;
      if (item.task->copies.front().holder == id) place = std::min(place, 1);
    }
    order.emplace_back(options_.adaptive ? place : 0, id);
  }
  std::sort(order.begin(), order.end());
  std::vector<uint32_t> ids;
  for (const auto& [place, id] : order) ids.push_back(id);
  return ids;
}

wire::ExpertFrame Dispatcher::FrameFor(uint32_t id, const HolderState& holder, Batch& batch,
                                       const Task& task) {
  const bool in_integers = holder.takes_integers && !task.integers.empty();
  wire::ExpertFrame frame;
  frame.sequence = batch.sequence;
  frame.layer = batch.layer;
  frame.expert = task.expert;
  frame.hidden = batch.hidden;
  frame.tokens = static_cast<uint32_t>(task.slots.size());
  frame.row_type = in_integers ? wire::RowType::kIntegers : batch.row_type;
  frame.rows = in_integers ? task.integers : task.rows;
  frame.may_sum = batch.kind == SlotKind::kSums;
  frame.best = batch.kind == SlotKind::kBest;
  frame.takes_steps = batch.slot_step > 0 && holder.sends_steps;
  frame.may_lose = IsInShare(batch, task, id);
  return frame;
}

void Dispatcher::FlushSends(Instant now) {
  for (auto& [id, frames] : cancels_) {
    for (size_t from = 0; from < frames.size(); from += wire::kMaxShardFrames) {
      const size_t to = std::min(frames.size(), from + wire::kMaxShardFrames);
      actions_.sends.push_back({id,
                                {frames.begin() + static_cast<std::ptrdiff_t>(from),
                                 frames.begin() + static_cast<std::ptrdiff_t>(to)}});
    }
  }
  cancels_.clear();
  for (const uint32_t id : SendingOrder()) {
    std::vector<Queued>& queued = outbox_.at(id);
    HolderState& holder = holders_.at(id);
    // Those with the same rows stand beside each other, so that the rows go once: in the order in
    // which rows are first named, whatever their addresses are.
    std::map<const uint8_t*, size_t> ranks;
    for (const Queued& item : queued) ranks.emplace(item.task->rows.bytes().data(), ranks.size());
    std::stable_sort(queued.begin(), queued.end(), [&](const Queued& a, const Queued& b) {
      return std::pair(a.batch, ranks.at(a.task->rows.bytes().data())) <
             std::pair(b.batch, ranks.at(b.task->rows.bytes().data()));
    });
    size_t row_count = 0;
    for (const Queued& item : queued) row_count += item.task->slots.size();
    Send send{id, {}};
    uint64_t message_bytes = 0;
    for (const auto& [batch_index, task] : queued) {
      Batch& batch = batches_[batch_index];
      // Of the answers, which have f32 in any case.
      const uint64_t row_bytes = task->rows.byte_count();
      if (send.frames.size() == wire::kMaxShardFrames ||
          message_bytes + row_bytes > wire::kMaxShardRowBytes) {
        actions_.sends.push_back(std::exchange(send, {id, {}}));
        message_bytes = 0;
      }
      message_bytes += row_bytes;
      wire::ExpertFrame frame = FrameFor(id, holder, batch, *task);
      frame.same_rows = !send.frames.empty() && send.frames.back().sequence == batch.sequence &&
                        send.frames.back().rows.bytes().data() == frame.rows.bytes().data();
      if (!frame.same_rows) holder.stats.sent_bytes += frame.rows.byte_count();
      holder.last_sequence[batch_index] = batch.sequence;
      for (Copy& copy : task->copies) {
        if (copy.holder != id) continue;
        copy.deadline =
            now + (IsOfHead(batch.kind) ? RangeTimeoutOf(holder, task->slots.size(), copy.sends)
                                        : TimeoutOf(holder, row_count, copy.sends));
      }
      if (task->next_copy && task->copies.back().holder == id)
        task->next_copy = now + LateAfter(holder, row_count);
      send.frames.push_back(std::move(frame));
    }
    actions_.sends.push_back(std::move(send));
  }
  outbox_.clear();
}

void Dispatcher::SetTimer() {
  const auto at = [this](Instant time) {
    actions_.timer = actions_.timer ? std::min(*actions_.timer, time) : time;
  };
  for (Batch& batch : batches_) {
    for (const Share& share : batch.shares)
      if (share.has_come) at(share.merge_at);
    bool is_waiting = false;  // for somebody who was asked: nothing else can be late
    for (const Task& task : batch.tasks) {
      if (task.is_done) continue;
      if (task.next_copy) at(*task.next_copy);
      for (const Copy& copy : task.copies) {
        if (!IsWaitedFor(copy)) continue;
        if (IsInShare(batch, task, copy.holder) && FindShare(batch, copy.holder)->has_come)
          continue;
        at(copy.deadline);
        is_waiting = true;
      }
    }
    if (is_waiting && batch.next_look) at(*batch.next_look);
  }
}

}  // namespace weft::dispatch
