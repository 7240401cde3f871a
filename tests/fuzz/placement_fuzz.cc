// The placement of an earlier start, out of a journal that somebody has changed: a core that is
// given it neither crashes nor keeps what cannot be, and what it places is what a next start takes.
#include "base/check.h"
#include "server/placement_record.h"
#include "store/records.pb.h"
#include "swarm/core/core.h"

namespace {

using namespace weft;

swarm::CoreOptions Options() {
  swarm::CoreOptions options;
  options.model.name = "fuzz";
  swarm::ModelLayer layer;
  layer.weight_bytes = layer.download_bytes = layer.read_bytes_per_token = 100000;
  layer.kv_bytes_per_position = 4;
  options.model.layers.assign(5, layer);
  options.model.layers[1].expert_count = 2;
  options.model.layers[1].experts_per_token = 1;
  options.model.layers[1].expert_bytes = 20000;
  options.model.hidden_columns = 4;
  options.model.vocabulary = 32;
  options.context_length = 64;
  options.session_count = 2;
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  store::pb::Placement record;
  if (!record.ParseFromArray(data, static_cast<int>(byte_count))) return 0;
  const swarm::Placement placement = server::FromRecord(record);
  swarm::CoreOptions options = Options();
  options.lifetimes = placement.lifetimes;
  options.popularity = placement.popularity;
  if (swarm::CheckPlacement(placement, 5).ok()) {
    options.swarm_id = placement.swarm_id;
    options.restored = placement;
  }
  swarm::Core core(options);
  Instant now{1'000'000};
  (void)core.Handle(swarm::WorkerConnected{1, "address"}, now);
  for (int turn = 0; turn < 5; ++turn) {
    now = now + Seconds(20);
    (void)core.Handle(swarm::TimerFired{}, now);
  }
  const swarm::Placement again = core.placement();
  CHECK(swarm::CheckPlacement(again, 5).ok(), swarm::CheckPlacement(again, 5).error().ToString());
  const store::pb::Placement written = server::ToRecord(again);
  CHECK(server::ToRecord(server::FromRecord(written)).SerializeAsString() ==
        written.SerializeAsString());
  return 0;
}
