#include "worker/session_limits.h"

#include <string>

#include "worker/membership_events.h"

namespace weft::worker {

Status SessionLimits::TakeRuns(std::span<const wire::Run> runs) {
  if (is_alone_ && runs.size() > 1)
    return Error(ErrorCode::kInvalidArgument, "A step has " + std::to_string(runs.size()) +
                                                  " runs, expected one: this worker runs ONNX.");
  for (const wire::Run& run : runs)
    TRY(Take(run.session, uint64_t{run.first_position} + run.count));
  return OkStatus();
}

Status SessionLimits::Take(uint32_t session, uint64_t end_position) {
  const auto refuse = [](std::string sentence) {
    return Error(ErrorCode::kInvalidArgument, std::move(sentence));
  };
  if (session == kMeasureSession)
    return refuse("Session " + std::to_string(session) + " is the one that measurements use.");
  if (context_length_ > 0 && end_position > context_length_)
    return refuse("Session " + std::to_string(session) + " would hold " +
                  std::to_string(end_position) + " positions, expected at most " +
                  std::to_string(context_length_) + ".");
  sessions_.insert(session);
  if (session_count_ == 0 || sessions_.size() <= session_count_) return OkStatus();
  sessions_.erase(session);
  return refuse("Session " + std::to_string(session) + " would be held beside " +
                std::to_string(session_count_) + " others, expected at most as many in all.");
}

}  // namespace weft::worker
