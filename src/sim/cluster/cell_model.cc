#include "sim/cluster/cell_model.h"

#include <algorithm>
#include <charconv>

#include "base/random.h"
#include "program/ir.h"

namespace weft::sim {
namespace {

constexpr char kScheme[] = "wss://server-";

}  // namespace

CellModel::CellModel(uint64_t seed, cluster::CellId cell)
    : options(OptionsOf(seed, cell)), costs(options), hash(HashModel::Of(options.model)) {}

swarm::CoreOptions CellModel::OptionsOf(uint64_t seed, cluster::CellId cell) {
  SeededRandom random(seed ^ (0xce11ull + cell.value()));
  swarm::CoreOptions options;
  options.model.name = "hash";
  options.model.vocabulary = 128;
  options.model.hidden_columns = kRowColumns;
  options.model.program_version = program::kOldestProgramVersion;
  const uint32_t layers = 4 + static_cast<uint32_t>(random.Below(4));
  // A quarter of the cells has a model in which every other layer carries recurrent state.
  const bool is_recurrent = random.Below(4) == 0;
  for (uint32_t i = 0; i < layers; ++i) {
    swarm::ModelLayer layer;
    layer.weight_bytes = layer.download_bytes = 500'000 + random.Below(1'000'000);
    layer.read_bytes_per_token = layer.weight_bytes;
    const bool is_transformer = i > 0 && i + 1 < layers;
    if (is_transformer && is_recurrent && i % 2 == 1)
      layer.state_bytes = 1000;
    else if (is_transformer)
      layer.kv_bytes_per_position = 64;
    options.model.layers.push_back(layer);
  }
  options.context_length = 160;
  // Clients take turns soon, so that sessions go from one request to another.
  options.session_count = 1 + static_cast<uint32_t>(random.Below(3));
  options.turn_rows = 8 + static_cast<uint32_t>(random.Below(60));
  options.prefill_chunk_rows = 8 + static_cast<uint32_t>(random.Below(25));
  options.candidate_count = 16;
  options.swarm_id.assign(16, static_cast<char>(cell.value()));
  return options;
}

std::vector<Device> MakeDevices(uint64_t seed, const CellModel& model, uint32_t count,
                                const std::string& prefix) {
  SeededRandom random(seed ^ 0xde71ce5ull);
  const uint64_t whole = model.costs.MemoryBytes(1, {0, model.costs.layer_count()});
  std::vector<Device> devices;
  for (uint32_t i = 0; i < count; ++i) {
    Device device;
    device.id = prefix + std::to_string(i + 1);
    device.memory_bytes = std::min(whole * 3 / 2, whole * 2 / count + whole / 3);
    device.overhead_us = 25'000 + 50'000 * random.Uniform();
    device.bytes_per_us = 4000;
    device.link_bytes_per_us = 50;
    device.latency = Milliseconds(1);
    device.disk = device.disk_hubs = swarm::LayerSet(model.hash.layer_count);
    devices.push_back(std::move(device));
  }
  return devices;
}

swarm::Successor SuccessorOf(cluster::ServerId server) {
  return {kScheme + ToString(server), ""};
}

cluster::ServerId ServerOf(const std::string& url) {
  uint64_t number = 0;
  const std::string digits = url.substr(std::min(url.size(), sizeof(kScheme) - 1));
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return cluster::ServerId(number);
}

}  // namespace weft::sim
