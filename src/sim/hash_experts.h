// The experts of the hash model that a device holds for hubs, as an engine whose layers are shards
// (worker/expert_host.h). Its time and its memory are the device's (hash_engine.h).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/random.h"
#include "sim/hash_engine.h"

namespace weft::sim {

class HashExperts : public engine::StageEngine {
 public:
  HashExperts(Machine& machine, uint64_t seed) : machine_(machine), random_(seed) {}

  Result<std::unique_ptr<engine::LoadedLayers>> Read(std::span<const program::Program> programs,
                                                     engine::WeightSource& source) override;
  void Install(std::unique_ptr<engine::LoadedLayers> layers) override;
  void Unload(LayerRange range) override;
  bool IsLoaded(LayerRange range) const override;
  // Rows as program::ExpertProgram takes and gives them, or program::RangesProgram.
  Result<engine::StepOutput> Step(const engine::StepInput& input) override;
  Status Truncate(uint32_t session, uint32_t generation, uint32_t position) override;
  Status Fork(LayerRange layers, const engine::SessionFork& fork) override;
  void Release(uint32_t) override {}
  void ReleaseAll() override {}
  engine::HeldSession Held(uint32_t, LayerRange) const override { return {}; }
  Result<std::vector<uint8_t>> ExportKv(uint32_t session, uint32_t layer, uint32_t first,
                                        uint32_t count) override;
  Status ImportKv(uint32_t session, uint32_t generation, uint32_t layer, uint32_t first,
                  uint32_t count, ByteSpan kv) override;
  engine::MemoryUse memory() const override;

 private:
  using Parts = std::vector<HashModel::HeldPart>;
  using Shards = std::map<uint32_t, Parts>;  // by the engine's number
  class Loaded;

  // Give how many bytes of weights that reads.
  double RunExperts(const Parts& held, const engine::StepInput& input,
                    engine::StepOutput& output) const;
  double RunRanges(const Parts& held, const engine::StepInput& input,
                   engine::StepOutput& output) const;

  Machine& machine_;
  SeededRandom random_;
  Shards shards_;
};

}  // namespace weft::sim
