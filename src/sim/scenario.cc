// What a seed makes of a scenario.
#include <algorithm>

#include "program/ir.h"
#include "sim/simulation.h"

namespace weft::sim {

namespace {

// Half of the models in neuron groups have products in ranges, too, which some devices do not know.
void DivideProducts(Scenario& scenario) {
  SeededRandom random(scenario.options.model.layers[1].weight_bytes);
  if (random.Below(2) == 0) return;
  for (swarm::ModelLayer& layer : scenario.options.model.layers) {
    if (!layer.groups) continue;
    layer.range_count = 2 + static_cast<uint32_t>(random.Below(4));
    layer.range_exchanges = 1;
    layer.range_columns = kRangeColumns;
    const uint64_t rest = layer.weight_bytes - layer.expert_count * layer.expert_bytes;
    layer.range_bytes = rest * (3 + random.Below(5)) / 10 / layer.range_count;
  }
  for (Device& device : scenario.devices) device.divides_products = random.Below(6) != 0;
  scenario.devices[0].divides_products = true;
}

// Nobody but tabs may be a hub, until fresh devices come.
void LetTabsBeHubs(Scenario& scenario) {
  const swarm::CoreOptions& options = scenario.options;
  const auto layers = static_cast<uint32_t>(options.model.layers.size());
  for (Device& device : scenario.devices) device.is_no_hub = true;
  Device& tab = scenario.devices[0];
  tab.kind = "web";
  tab.engine = "webgpu";
  tab.needs_onnx = tab.pings_wait = tab.is_no_hub = false;
  tab.rows_to_server = true;
  tab.part_spread = 0;
  tab.token_batch = std::max(tab.token_batch, 1u);
  tab.memory_bytes = std::max(tab.memory_bytes, swarm::Costs(options).MemoryBytes(1, {0, layers}));
}

// Of seeds that are about hubs a third each has experts, neuron groups, and groups whose sums go
// over lossy lines.
void BeAboutHubs(Scenario& scenario, SeededRandom& random) {
  swarm::CoreOptions& options = scenario.options;
  const uint64_t kind = random.Below(3);
  const uint32_t layers = static_cast<uint32_t>(options.model.layers.size());
  const uint32_t experts = 2 + static_cast<uint32_t>(random.Below(11));
  for (uint32_t i = 1; i + 1 < layers; ++i) {
    if (kind == 0 && random.Below(4) == 0) continue;  // dense layers between them
    swarm::ModelLayer& layer = options.model.layers[i];
    layer.expert_count = experts;
    layer.experts_per_token =
        kind == 0 ? 1 + static_cast<uint32_t>(random.Below(experts)) : experts;
    layer.expert_bytes = layer.weight_bytes * (5 + random.Below(4)) / 10 / experts;
    layer.groups = kind != 0;
    const uint64_t resting = experts - layer.experts_per_token;
    layer.read_bytes_per_token -= resting * layer.expert_bytes;
  }
  options.model.layers[1].expert_count = experts;
  if (options.model.layers[1].experts_per_token == 0) {
    options.model.layers[1].experts_per_token = 1;
    options.model.layers[1].expert_bytes = options.model.layers[1].weight_bytes / 2 / experts;
  }
  options.plan_kind = kind == 0 ? swarm::PlanKind::kExperts : swarm::PlanKind::kTensor;
  // Some move between hubs and whole layers.
  if (kind != 2 && options.model.layers[0].weight_bytes % 3 == 0)
    options.plan_kind = swarm::PlanKind::kAuto;
  options.expert_copies = kind == 0 && random.Below(2) == 0 ? 2 : 0;
  for (Device& device : scenario.devices) {
    // Lines on which a round trip a layer makes sense.
    device.latency = Microseconds(100 + static_cast<int64_t>(random.Below(3000)));
    device.link_bytes_per_us *= 4;
    device.room_bytes = 0;  // what an engine takes for itself is no room for experts
    device.is_hub_and_holder = device.kind == "native" || random.Below(2) == 0;
    device.needs_onnx = device.needs_onnx && !device.is_hub_and_holder;
    if (device.kind == "native")
      device.part_spread = 0.5 * HashModel::ShareOf(device.memory_bytes % 997, 0);
  }
  for (Device& device : scenario.devices)
    device.rows_to_server = device.engine == "webgpu" && device.is_hub_and_holder;
  scenario.devices[0].is_hub_and_holder = true;
  // Losses and ranges want a native hub.
  if (kind != 0) scenario.devices[0].rows_to_server = false;
  if (kind == 0 && scenario.options.model.layers[1].weight_bytes % 2 == 0) LetTabsBeHubs(scenario);
  scenario.devices[0].needs_onnx = false;
  if (kind != 0) DivideProducts(scenario);
  if (kind != 2) return;
  options.loss_limit = 0.02 + 0.2 * random.Uniform();
  scenario.datagram_loss = 0.2 * random.Uniform() * random.Uniform();
  scenario.datagram_repeats = random.Below(2) == 0 ? 0.05 : 0;
  scenario.datagram_late = random.Below(2) == 0 ? 0.1 : 0;
  for (size_t i = 0; i < scenario.devices.size(); ++i)
    if (scenario.devices[i].is_hub_and_holder && random.Below(6) != 0)
      scenario.devices[i].datagram_port = static_cast<uint16_t>(i + 1);
}

// Contexts of thousands of positions, read in chunks by devices that are quick enough for them, and
// a history that has not room for all of their rows.
void BeLong(Scenario& scenario, SeededRandom& random) {
  swarm::CoreOptions& options = scenario.options;
  const uint64_t before =
      swarm::Costs(options).MemoryBytes(1, {0, static_cast<uint32_t>(options.model.layers.size())});
  options.context_length = 1000 + static_cast<uint32_t>(random.Below(4000));
  options.prefill_chunk_rows = 64 + static_cast<uint32_t>(random.Below(65));
  options.history_bytes = 20'000 + random.Below(200'000);
  scenario.longest_prompt = options.context_length;
  scenario.requests_per_minute = 5 + 10 * random.Uniform();
  const uint64_t now =
      swarm::Costs(options).MemoryBytes(1, {0, static_cast<uint32_t>(options.model.layers.size())});
  for (Device& device : scenario.devices) {
    device.memory_bytes =
        static_cast<uint64_t>(static_cast<double>(device.memory_bytes) * static_cast<double>(now) /
                              static_cast<double>(before));
    device.bytes_per_us *= 20;
    device.link_bytes_per_us += 20;
  }
}

void ChooseKinds(Scenario& scenario, uint64_t seed) {
  SeededRandom random(seed ^ 0x6b1d5ull);
  if (random.Below(4) == 0) BeAboutHubs(scenario, random);
  if (random.Below(8) == 0) BeLong(scenario, random);
}

}  // namespace

Scenario MakeScenario(uint64_t seed) {
  SeededRandom random(seed ^ 0xabcdef12345ull), engine_random(seed ^ 0x5ea1ed0fe2ull);
  Scenario scenario;
  swarm::CoreOptions& options = scenario.options;
  const uint32_t layers = 4 + static_cast<uint32_t>(random.Below(9));
  options.model.name = "hash";
  options.model.vocabulary = 512;
  options.model.hidden_columns = kRowColumns;
  options.model.program_version = program::kOldestProgramVersion;
  for (uint32_t i = 0; i < layers; ++i) {
    swarm::ModelLayer layer;
    layer.weight_bytes = layer.download_bytes = 500'000 + random.Below(1'000'000);
    layer.read_bytes_per_token = layer.weight_bytes;
    layer.kv_bytes_per_position = i > 0 && i + 1 < layers ? 64 : 0;
    options.model.layers.push_back(layer);
  }
  // A third of the seeds has a model in which three layers of four carry recurrent state.
  SeededRandom state_random(seed ^ 0x57a7eull);
  const bool is_recurrent = state_random.Below(3) == 0;
  for (uint32_t i = 1; is_recurrent && i + 1 < layers; ++i) {
    if (i % 4 == 0) continue;
    options.model.layers[i].state_bytes = 1000 + state_random.Below(4000);
    options.model.layers[i].kv_bytes_per_position = 0;
  }
  if (is_recurrent) options.marks = static_cast<uint32_t>(state_random.Below(5));
  options.context_length = 48 + static_cast<uint32_t>(random.Below(100));
  options.session_count = 1 + static_cast<uint32_t>(random.Below(4));
  if (engine_random.Below(8) == 0) options.session_count = 8;
  options.queue_limit = 20;
  options.prefill_chunk_rows = 1 + static_cast<uint32_t>(random.Below(32));
  if (engine_random.Below(2) == 0) options.prefill_chunk_time = {};
  options.candidate_count = 4 + static_cast<uint32_t>(random.Below(64));
  scenario.longest_prompt = options.context_length;
  scenario.longest_answer = 40;

  const swarm::Costs costs(options);
  const uint64_t whole = costs.MemoryBytes(1, {0, layers});
  const size_t device_count = 1 + random.Below(5);
  for (size_t i = 0; i < device_count; ++i) {
    Device device;
    device.id = "device" + std::to_string(i);
    if (random.Below(3) == 0) {
      device.kind = "web";
      device.engine = "ort-wasm";
      device.needs_onnx = !is_recurrent;  // onnxruntime cannot run recurrent layers
      device.pings_wait = true;
    } else if (random.Below(3) == 0) {  // chooses tokens by itself where it has the whole model
      device.kind = "web";
      device.engine = "webgpu";
      device.token_batch = engine_random.Below(3) == 0 ? 1 : 2 + static_cast<uint32_t>(i);
    }
    device.memory_bytes = whole / 5 + random.Below(whole + whole / 2);
    device.weight_factor = random.Below(4) == 0 ? 1.0 + random.Uniform() * 0.5 : 1.0;
    if (engine_random.Below(2) == 0) device.room_bytes = engine_random.Below(whole);
    device.overhead_us = 50 + 2000 * random.Uniform();
    device.bytes_per_us = 100 + 4000 * random.Uniform();
    device.link_bytes_per_us = 1 + 50 * random.Uniform();
    device.latency = Microseconds(100 + static_cast<int64_t>(random.Below(60'000)));
    scenario.devices.push_back(std::move(device));
  }
  scenario.chaos = Seconds(20 + static_cast<int64_t>(random.Below(100)));
  // Twenty faults and more, but for a tenth of the seeds, in which everything has to be quiet.
  const double least = 25 * 60 / scenario.chaos.seconds();
  scenario.faults_per_minute = random.Below(10) == 0 ? 0 : least * (1 + random.Uniform());
  scenario.requests_per_minute = 10 + 80 * random.Uniform();
  if (engine_random.Below(3) == 0) scenario.restarts_per_minute = 1 + 4 * engine_random.Uniform();
  ChooseKinds(scenario, seed);
  return scenario;
}

void SetSampling(SeededRandom& random, uint32_t vocabulary, sampling::Parameters& sampling) {
  sampling.temperature = 0.5f + 1.5f * static_cast<float>(random.Uniform());
  sampling.seed = random.Next();
  switch (random.Below(5)) {
    case 0:
      sampling.top_p = 0.5f + 0.5f * static_cast<float>(random.Uniform());
      break;
    case 1:
      sampling.min_p = 0.2f * static_cast<float>(random.Uniform());
      break;
    case 2:
      sampling.repetition_penalty = 1.2f;
      sampling.frequency_penalty = 0.5f;
      break;
    case 3:
      sampling.temperature = random.Below(2) == 0 ? 0 : sampling.temperature;
      sampling.logit_bias = {{static_cast<int32_t>(random.Below(vocabulary)), 12},
                             {static_cast<int32_t>(random.Below(vocabulary)), -100}};
      break;
    default:
      break;
  }
}

}  // namespace weft::sim
