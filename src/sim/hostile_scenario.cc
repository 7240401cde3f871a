// Swarms with devices that mean ill, and with many who ask at once.
#include "sim/simulation.h"

namespace weft::sim {
namespace {

// A device that the owner trusts or not, by the last digit of its name (swarm_network.cc): 1, 2, 4
// and 5 are his.
Device Native(const std::string& id, uint64_t memory_bytes, double bytes_per_us,
              SeededRandom& random) {
  Device device;
  device.id = id;
  device.memory_bytes = memory_bytes;
  device.overhead_us = 50 + 200 * random.Uniform();
  device.bytes_per_us = bytes_per_us;
  device.link_bytes_per_us = 20 + 30 * random.Uniform();
  device.latency = Microseconds(100 + static_cast<int64_t>(random.Below(5000)));
  return device;
}

uint64_t Share(uint64_t bytes, double share) {
  return static_cast<uint64_t>(static_cast<double>(bytes) * share);
}

// Of whole layers and short contexts, with nothing that goes wrong by itself.
Scenario QuietScenario(uint64_t seed) {
  Scenario scenario;
  for (uint64_t i = 0;; ++i) {
    scenario = MakeScenario(seed * 64 + i + (1ull << 32));
    if (scenario.options.plan_kind == swarm::PlanKind::kLayers &&
        scenario.options.context_length < 1000)
      break;
  }
  scenario.devices.clear();
  scenario.faults_per_minute = scenario.restarts_per_minute = 0;
  scenario.cancel_probability = 0;
  scenario.longest_answer = 20;
  scenario.options.queue_limit = 400;
  return scenario;
}

uint64_t WholeBytes(const Scenario& scenario) {
  const swarm::Costs costs(scenario.options);
  return costs.MemoryBytes(1, {0, costs.layer_count()});
}

// One honest device can hold the model, and the quick ones lie: about numbers that are none, about
// all numbers from the beginning, or once they have passed their check.
void HaveLiars(Scenario& scenario, SeededRandom& random) {
  const uint64_t whole = WholeBytes(scenario);
  scenario.is_hostile = true;
  scenario.chaos = Seconds(20);
  scenario.requests_per_minute = 40 + 50 * random.Uniform();
  scenario.devices.push_back(
      Native("device1", Share(whole, 1.3), 200 + 400 * random.Uniform(), random));
  if (random.Below(2) == 0)
    scenario.devices.push_back(Native("device2", Share(whole, 0.4 + 0.6 * random.Uniform()),
                                      400 + 800 * random.Uniform(), random));
  const uint64_t count = random.Below(4) == 0 ? 2 : 1;
  for (uint64_t i = 0; i < count; ++i) {
    Device liar = Native("device" + std::to_string(3 * i), Share(whole, 0.4 + random.Uniform()),
                         2000 + 4000 * random.Uniform(), random);
    if (random.Below(3) == 0) {  // chooses tokens by itself where it has the whole model
      liar.kind = "web";
      liar.engine = "webgpu";
      liar.token_batch = 1 + static_cast<uint32_t>(random.Below(4));
    }
    const uint64_t kind = random.Below(4);
    liar.lies.not_finite = kind == 0;
    liar.lies.finite = !liar.lies.not_finite;
    liar.lies.from = Instant{Seconds(7).us + static_cast<int64_t>(random.Below(6'000'000))};
    if (kind == 1) {
      liar.lies.from = {};
      liar.joins_after = Seconds(5);  // the first plan waits for no check
    }
    scenario.devices.push_back(std::move(liar));
  }
}

// A device says that it needs no time, and needs more than all others together; another one says
// what nobody asks for.
void HaveClaims(Scenario& scenario, SeededRandom& random) {
  const uint64_t whole = WholeBytes(scenario);
  scenario.is_hostile = true;
  scenario.chaos = Seconds(45);
  scenario.requests_per_minute = 15 + 15 * random.Uniform();
  scenario.devices.push_back(Native("device1", Share(whole, 1.3), 300, random));
  Device slow = Native("device0", Share(whole, 0.6 + random.Uniform()), 30, random);
  slow.lies.claimed_us = random.Below(3) == 0 ? 0u : 2u;
  slow.lies.from = {};
  scenario.devices.push_back(std::move(slow));
  Device flood = Native("device3", Share(whole, 0.3 + 0.5 * random.Uniform()), 1000, random);
  flood.unasked_per_ms = 1 + static_cast<uint32_t>(random.Below(50));
  flood.unasked_from = Instant{Seconds(6).us + static_cast<int64_t>(random.Below(20'000'000))};
  scenario.devices.push_back(std::move(flood));
  scenario.silent_strangers = 300;
}

void HaveCrowd(Scenario& scenario, SeededRandom& random) {
  const uint64_t whole = WholeBytes(scenario);
  scenario.chaos = Seconds(12);
  scenario.requests_per_minute = 0;
  scenario.options.turn_rows = 16 + static_cast<uint32_t>(random.Below(100));
  scenario.options.session_count = 1 + static_cast<uint32_t>(random.Below(4));
  scenario.crowd = {1 + static_cast<uint32_t>(random.Below(3)), 25};
  for (const char* id : {"device1", "device2"})
    scenario.devices.push_back(
        Native(id, Share(whole, 0.6 + random.Uniform()), 1000 + 3000 * random.Uniform(), random));
}

}  // namespace

Scenario MakeHostileScenario(uint64_t seed) {
  SeededRandom random(seed ^ 0x11a25ull);
  Scenario scenario = QuietScenario(seed);
  switch (seed / 2 % 8) {
    case 0:
      HaveClaims(scenario, random);
      break;
    case 1:
    case 2:
      HaveCrowd(scenario, random);
      break;
    default:
      HaveLiars(scenario, random);
      break;
  }
  return scenario;
}

// Two devices hold a half each, and a slower one stands by with everything. Its history has no room
// for the rows of conversations, so that it has to begin with their first.
Scenario MakeLeftScenario(uint64_t seed, uint32_t conversations) {
  SeededRandom random(seed ^ 0x1ef7ull);
  Scenario scenario = QuietScenario(seed);
  swarm::CoreOptions& options = scenario.options;
  options.context_length = 1000 + static_cast<uint32_t>(random.Below(2000));
  options.prefill_chunk_rows = 64 + static_cast<uint32_t>(random.Below(65));
  options.prefill_chunk_time = Milliseconds(50);
  options.session_count = 4;
  options.history_bytes = 20'000;
  scenario.strangers_per_minute = 0;
  scenario.requests_per_minute = 0;
  scenario.chaos = Seconds(65);
  scenario.left = {true, conversations};
  const uint64_t whole = WholeBytes(scenario);
  for (const char* id : {"device1", "device2"})
    scenario.devices.push_back(Native(id, Share(whole, 0.7), 20'000, random));
  scenario.devices.push_back(Native("device4", Share(whole, 1.2), 1'000, random));
  for (Device& device : scenario.devices)
    device.latency = Microseconds(100 + static_cast<int64_t>(random.Below(200)));
  return scenario;
}

}  // namespace weft::sim
