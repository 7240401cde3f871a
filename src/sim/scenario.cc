// What a seed makes of a scenario.
#include "program/ir.h"
#include "sim/simulation.h"

namespace weft::sim {

Scenario MakeScenario(uint64_t seed) {
  SeededRandom random(seed ^ 0xabcdef12345ull), engine_random(seed ^ 0x5ea1ed0fe2ull);
  Scenario scenario;
  swarm::CoreOptions& options = scenario.options;
  const uint32_t layers = 4 + static_cast<uint32_t>(random.Below(9));
  options.model.name = "hash";
  options.model.vocabulary = 512;
  options.model.hidden_columns = kRowColumns;
  options.model.program_version = program::kProgramVersion;
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
  options.queue_limit = 20;
  options.prefill_chunk_rows = 1 + static_cast<uint32_t>(random.Below(32));
  if (engine_random.Below(2) == 0) options.prefill_slice = {};
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
