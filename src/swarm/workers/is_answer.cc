#include "swarm/workers/is_answer.h"

namespace weft::swarm {

bool IsAnswer(const Worker& worker, const wire::pb::WorkerMessage& message, uint32_t layer_count) {
  using Kind = wire::pb::WorkerMessage;
  const auto is_loading = [&worker](BindingId id) {
    const Binding* binding = worker.Find(id);
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
      return message.layer_downloaded().layer() < layer_count &&
             worker.IsFetching(message.layer_downloaded().layer()) &&
             !worker.layers->cached.Has(message.layer_downloaded().layer());
    case Kind::kPrepared:
      return is_loading(BindingId(message.prepared().binding()));
    case Kind::kExpertsHeld:
      return !worker.holding->answered;
    case Kind::kFailed: {
      const BindingId id(message.failed().binding());
      if (!id.is_set())
        return worker.measure->phase != MeasureJob::Phase::kNone ||
               worker.measure->late_answers > 0 || !worker.layers->requested.empty();
      return is_loading(id) || (!worker.holding->answered && worker.holding->binding == id);
    }
    default:
      return true;
  }
}

}  // namespace weft::swarm
