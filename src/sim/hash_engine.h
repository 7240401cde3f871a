// The hash model as an engine: the verbs and rules of engine/engine.h over hash chains, so that the
// real worker runs on it. Computing takes time on a clock of its own, by the numbers of a Device.
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
#include "swarm/costs.h"

namespace weft::sim {

// Columns of a row between layers: a byte of the hash each, which every dtype of the wire holds.
inline constexpr uint32_t kRowColumns = 8;

class HashEngine : public engine::StageEngine {
 public:
  struct Hooks {
    // What goes wrong instead of a step of these runs, or of reading layers; empty: nothing.
    std::function<std::optional<Error>(std::span<const engine::Run>)> step_fault;
    std::function<std::optional<Error>()> read_fault;
    // A run was refused because it does not continue what is held.
    std::function<void(const engine::Run&, const std::string& why)> refused;
  };

  HashEngine(const HashModel& model, const swarm::Costs& costs, Device& device, uint64_t seed,
             Hooks hooks)
      : model_(model),
        costs_(costs),
        device_(device),
        random_(seed),
        hooks_(std::move(hooks)),
        loaded_(model.layer_count) {}

  // Where the engine's clock stands; a piece of work begins at `now`.
  Instant clock() const { return clock_; }
  void BeginWork(Instant now) {
    clock_ = now;
    overhead_due_ = true;
  }

  // Only the numbers of `programs` count.
  Result<std::unique_ptr<engine::LoadedLayers>> Read(std::span<const program::Program> programs,
                                                     engine::WeightSource& source) override;
  void Install(std::unique_ptr<engine::LoadedLayers> layers) override;
  void Unload(engine::LayerRange range) override;
  bool IsLoaded(engine::LayerRange range) const override;
  Result<engine::StepOutput> Step(const engine::StepInput& input) override;
  Status Truncate(uint32_t session, uint32_t generation, uint32_t position) override;
  Status Fork(engine::LayerRange layers, const engine::SessionFork& fork) override;
  void Release(uint32_t session) override { sessions_.erase(session); }
  void ReleaseAll() override { sessions_.clear(); }
  uint32_t SessionLength(uint32_t session, engine::LayerRange range) const override;
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

  void TakeTime(const engine::StepInput& input, size_t row_count);
  Status CheckRun(const engine::Run& run, engine::LayerRange layers) const;
  void BeginRun(const engine::Run& run, engine::LayerRange layers);
  void EndRun(const engine::Run& run, engine::LayerRange layers);
  uint64_t RunRow(Session& session, engine::LayerRange layers, uint64_t row) const;
  void Give(const engine::Run& run, uint64_t row, bool last_of_run,
            engine::StepOutput& output) const;

  const HashModel& model_;
  const swarm::Costs& costs_;
  Device& device_;
  SeededRandom random_;
  const Hooks hooks_;
  Instant clock_;
  bool overhead_due_ = true;
  swarm::LayerSet loaded_;
  std::map<uint32_t, Session> sessions_;
};

}  // namespace weft::sim
