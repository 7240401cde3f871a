#include "worker/expert_queue.h"

#include <algorithm>
#include <string>

namespace weft::worker {
namespace {

using Type = wire::ExpertFrameType;

std::set<std::pair<uint32_t, uint32_t>> Pairs(const std::vector<wire::LayerExperts>& sets) {
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  for (const wire::LayerExperts& set : sets)
    for (const uint32_t expert : set.experts) pairs.emplace(set.layer, expert);
  return pairs;
}

// Of one hub: two batches are on their way at a time, each of one message to a holder.
constexpr uint64_t kMostWaitingBytes = 2 * wire::kMaxShardRowBytes;

// As the answer repeats them.
uint64_t RowBytes(const wire::ExpertFrame& dispatch) {
  return dispatch.tokens * wire::RowBytes(dispatch.row_type, dispatch.hidden);
}

}  // namespace

void ExpertQueue::Hold(const std::vector<wire::LayerExperts>& sets) {
  held_ = Pairs(sets);
}

void ExpertQueue::HoldOnly(const std::vector<wire::LayerExperts>& sets) {
  const auto kept = Pairs(sets);
  std::erase_if(held_, [&](const auto& each) { return !kept.contains(each); });
}

std::vector<wire::ExpertFrame> ExpertQueue::Take(uint32_t peer,
                                                 std::span<const wire::ExpertFrame> frames) {
  std::vector<wire::ExpertFrame> refusals;
  HubDispatches work;
  work.peer = peer;
  std::optional<uint64_t> waiting_bytes;
  for (const wire::ExpertFrame& frame : frames) {
    if (frame.type == Type::kCancel) Cancel(peer, frame);
    if (frame.type != Type::kDispatch) continue;
    Preempt(peer, frame.sequence);
    if (Holds(frame.layer, frame.expert)) {
      if (!waiting_bytes) waiting_bytes = WaitingBytes(peer);
      *waiting_bytes += RowBytes(frame);
      if (*waiting_bytes <= kMostWaitingBytes) {
        work.dispatches.push_back(frame);
        continue;
      }
      refusals.push_back(
          wire::FailedResult(frame, "Rows of " + std::to_string(*waiting_bytes) +
                                        " bytes would wait here for this hub, expected at most " +
                                        std::to_string(kMostWaitingBytes) + "."));
      continue;
    }
    refusals.push_back(wire::FailedResult(frame, "Expert " + std::to_string(frame.expert) +
                                                     " of layer " + std::to_string(frame.layer) +
                                                     " is not held here."));
  }
  if (work.dispatches.empty()) return refusals;
  hubs_.insert(peer);
  waiting_.push_back(std::move(work));
  return refusals;
}

uint64_t ExpertQueue::WaitingBytes(uint32_t peer) const {
  uint64_t bytes = 0;
  for (const HubDispatches& work : waiting_)
    if (work.peer == peer)
      for (const wire::ExpertFrame& dispatch : work.dispatches) bytes += RowBytes(dispatch);
  return bytes;
}

void ExpertQueue::Preempt(uint32_t peer, uint32_t sequence) {
  for (HubDispatches& work : waiting_) {
    if (work.peer != peer) continue;
    std::erase_if(work.dispatches, [&](const wire::ExpertFrame& each) {
      return each.sequence != sequence &&
             (each.sequence & wire::kBatchBit) == (sequence & wire::kBatchBit);
    });
  }
  std::erase_if(waiting_, [](const HubDispatches& work) { return work.dispatches.empty(); });
}

void ExpertQueue::Cancel(uint32_t peer, const wire::ExpertFrame& cancel) {
  for (HubDispatches& work : waiting_) {
    if (work.peer != peer) continue;
    std::erase_if(work.dispatches, [&](const wire::ExpertFrame& each) {
      return each.sequence == cancel.sequence && each.layer == cancel.layer &&
             (each.expert == cancel.expert || cancel.expert == wire::kAnyExpert);
    });
  }
  std::erase_if(waiting_, [](const HubDispatches& work) { return work.dispatches.empty(); });
}

std::optional<HubDispatches> ExpertQueue::Next() {
  if (waiting_.empty()) return std::nullopt;
  HubDispatches next = std::move(waiting_.front());
  waiting_.pop_front();
  return next;
}

uint32_t ExpertQueue::count() const {
  size_t count = 0;
  for (const HubDispatches& work : waiting_) count += work.dispatches.size();
  return static_cast<uint32_t>(count);
}

void ExpertQueue::Clear() {
  held_.clear();
  hubs_.clear();
  waiting_.clear();
}

}  // namespace weft::worker
