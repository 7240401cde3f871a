// What workers say though nobody asked them for it. Some of it is in order: how far a download is,
// what a user wishes, an answer that crossed the message that made it needless. There is no need
// for much of it, and whoever sends more has his connection closed.
#include "swarm/core/state.h"

namespace weft::swarm {
namespace {

// More than any worker has to say at once, beside one message for each layer: and then again. A hub
// that loses sums reports with every pong, up to ten times a second.
constexpr double kUnaskedAtOnce = 256, kUnaskedPerS = 64;

}  // namespace

// Whether the message answers something that was asked of the worker and not answered yet. Messages
// that are illegal where they answer nothing close the connection by themselves.
bool State::IsAnswer(const Worker& worker, const wire::pb::WorkerMessage& message) const {
  using Kind = wire::pb::WorkerMessage;
  const auto is_loading = [&worker](BindingId epoch) {
    const Binding* binding = worker.Find(epoch);
    return binding != nullptr && !binding->loaded;
  };
  switch (message.kind_case()) {
    case Kind::kDownloadProgress:
    case Kind::kLossReport:
    case Kind::kHolderStats:
      return false;
    case Kind::kLeaving:
      return !worker.leaves_at;
    case Kind::kLayerDownloaded:
      return message.layer_downloaded().layer() < costs.layer_count() &&
             worker.IsFetching(message.layer_downloaded().layer()) &&
             !worker.layers.cached.Has(message.layer_downloaded().layer());
    case Kind::kPrepared:
      return is_loading(message.prepared().epoch());
    case Kind::kExpertsHeld:
      return !worker.experts.answered;
    case Kind::kFailed: {
      const BindingId epoch = message.failed().epoch();
      if (epoch == 0)
        return worker.measure.phase != MeasureJob::Phase::kNone ||
               worker.measure.late_answers > 0 || !worker.layers.requested.empty();
      return is_loading(epoch) || (!worker.experts.answered && worker.experts.epoch == epoch);
    }
    default:
      return true;
  }
}

Status State::CountUnasked(Worker& worker) {
  if (!worker.unasked)
    worker.unasked.emplace(kUnaskedAtOnce + 2 * costs.layer_count(), kUnaskedPerS, now);
  if (worker.unasked->Take(now)) return OkStatus();
  return Error(ErrorCode::kInvalidData,
               "It sent too many messages that nobody had asked it for: expected " +
                   std::to_string(static_cast<int>(kUnaskedPerS)) + " a second at most.");
}

}  // namespace weft::swarm
