// The hash model as an engine: the verbs and rules of engine/engine.h over hash chains, so that the
// real worker runs on it. Computing takes time on a clock of its own, by the numbers of a Device.
// Of layers in their hub form its steps stop where experts are asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "engine/engine.h"
#include "sim/device.h"
#include "sim/hash_model.h"
#include "swarm/workers/costs.h"

namespace weft::sim {

// What the engines of one device share.
struct Machine {
  Machine(const HashModel& a_model, const swarm::Costs& a_costs, Device& a_device)
      : model(a_model),
        costs(a_costs),
        device(a_device),
        whole(a_model.layer_count),
        hubs(a_model.layer_count) {}

  // A piece of work begins, once the one before it has ended.
  void BeginWork(Instant now) {
    clock = std::max(clock, now);
    overhead_due = true;
  }
  void Take(double us) { clock = clock + Microseconds(static_cast<int64_t>(us * device.slowdown)); }
  bool Lies() const { return device.lies.finite && device.lies.HaveBegun(clock); }
  // What its processor was made for takes so long.
  void Compute(double bytes) { Take(bytes / device.bytes_per_us); }

  const HashModel& model;
  const swarm::Costs& costs;
  Device& device;
  Instant clock;  // where the work under way stands
  bool overhead_due = true;
  swarm::LayerSet whole, hubs;  // layers that are loaded, by their form
};

class HashEngine : public engine::StageEngine {
 public:
  struct Hooks {
    // What goes wrong instead of a step of these runs, or of reading layers; empty: nothing.
    std::function<std::optional<Error>(std::span<const engine::Run>)> step_fault;
    std::function<std::optional<Error>()> read_fault;
    // A run was refused because it does not continue what is held.
    std::function<void(const engine::Run&, const std::string& why)> refused;
    // A step came to something else than it should have.
    std::function<void()> lied = [] {};
  };

  // `form`: of its layers.
  HashEngine(Machine& machine, LayerForm form, uint64_t seed, Hooks hooks)
      : machine_(machine), form_(form), random_(seed), hooks_(std::move(hooks)) {}

  // Only the numbers of `programs` count.
  Result<std::unique_ptr<engine::LoadedLayers>> Read(std::span<const program::Program> programs,
                                                     engine::WeightSource& source) override;
  void Install(std::unique_ptr<engine::LoadedLayers> layers) override;
  void Unload(LayerRange range) override;
  bool IsLoaded(LayerRange range) const override;
  Result<engine::StepOutput> Step(const engine::StepInput& input) override;
  Result<engine::StepProgress> Begin(const engine::StepInput& input) override;
  Result<engine::StepProgress> Resume(std::unique_ptr<engine::PendingStep> step,
                                      std::span<const float> slots) override;
  Status Truncate(uint32_t session, uint32_t generation, uint32_t position) override;
  Status Fork(LayerRange layers, const engine::SessionFork& fork) override;
  void Release(uint32_t session) override { sessions_.erase(session); }
  void ReleaseAll() override { sessions_.clear(); }
  engine::HeldSession Held(uint32_t session, LayerRange range) const override;
  Result<std::vector<uint8_t>> ExportKv(uint32_t session, uint32_t layer, uint32_t first,
                                        uint32_t count) override;
  Status ImportKv(uint32_t session, uint32_t generation, uint32_t layer, uint32_t first,
                  uint32_t count, ByteSpan kv) override;
  engine::MemoryUse memory() const override;

 private:
  struct Chain {
    uint32_t generation = 0;
    std::vector<uint64_t> links;  // by position
    std::set<uint32_t> marks;     // of layers with recurrent state
  };
  using Session = std::map<uint32_t, Chain>;  // by transformer layer

  class Pending;

  void TakeOverhead(const engine::StepInput& input);
  Status CheckRun(const engine::Run& run, LayerRange layers) const;
  Result<std::unique_ptr<Pending>> NewStep(const engine::StepInput& input);
  // Until it ends, or stops for want of experts: false.
  bool GoOn(Pending& step);
  void RunLayer(uint32_t layer, Pending& step) const;
  // Its rows become part of its sessions.
  engine::StepOutput End(const Pending& step);
  void Give(const engine::Run& run, uint64_t row, bool last_of_run,
            engine::StepOutput& output) const;
  bool is_hub() const { return form_ == LayerForm::kHub; }
  swarm::LayerSet& loaded() { return is_hub() ? machine_.hubs : machine_.whole; }
  const swarm::LayerSet& loaded() const { return is_hub() ? machine_.hubs : machine_.whole; }

  Machine& machine_;
  const LayerForm form_;
  SeededRandom random_;
  const Hooks hooks_;
  std::map<uint32_t, Session> sessions_;
};

}  // namespace weft::sim
