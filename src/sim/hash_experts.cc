#include "sim/hash_experts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::sim {
namespace {

Error NoSessions() {
  return Error(ErrorCode::kUnsupported, "Experts have no sessions.");
}

}  // namespace

class HashExperts::Loaded : public engine::LoadedLayers {
 public:
  Shards shards;
};

Result<std::unique_ptr<engine::LoadedLayers>> HashExperts::Read(
    std::span<const program::Program> programs, engine::WeightSource&) {
  auto loaded = std::make_unique<Loaded>();
  for (const program::Program& program : programs)
    loaded->shards[program.layer_index] = machine_.model.PartsOf(program);
  return std::unique_ptr<engine::LoadedLayers>(std::move(loaded));
}

void HashExperts::Install(std::unique_ptr<engine::LoadedLayers> layers) {
  shards_.merge(static_cast<Loaded&>(*layers).shards);
}

void HashExperts::Unload(LayerRange range) {
  shards_.erase(shards_.lower_bound(range.first), shards_.lower_bound(range.end));
}

bool HashExperts::IsLoaded(LayerRange range) const {
  for (uint32_t layer = range.first; layer < range.end; ++layer)
    if (!shards_.contains(layer)) return false;
  return true;
}

Result<engine::StepOutput> HashExperts::Step(const engine::StepInput& input) {
  const auto shard = shards_.find(input.layers.first);
  if (shard == shards_.end()) return Error(ErrorCode::kInvalidArgument, "The shard is not loaded.");
  const Parts& held = shard->second;
  const bool ranges = machine_.model.IsRange(held.at(0).layer, held.at(0).part);
  engine::StepOutput output;
  const double bytes = ranges ? RunRanges(held, input, output) : RunExperts(held, input, output);
  std::vector<float>& given = ranges ? output.logits : output.hidden;
  if (random_.Uniform() < machine_.device.numbers_failure)
    given[random_.Below(given.size())] = std::numeric_limits<float>::quiet_NaN();
  machine_.Take(machine_.device.overhead_us);
  machine_.Compute(bytes);
  return output;
}

double HashExperts::RunExperts(const Parts& held, const engine::StepInput& input,
                               engine::StepOutput& output) const {
  constexpr size_t kColumns = kRowColumns + 2;
  double bytes = 0;
  for (size_t at = 0; at < input.hidden.size(); at += kColumns) {
    const std::span<const float> row = input.hidden.subspan(at, kColumns);
    // Of one expert, or the sum of those that all rows want.
    const auto own = static_cast<uint32_t>(row[kRowColumns]);
    const std::span<const uint32_t> places = input.parts.empty() ? std::span(&own, 1) : input.parts;
    std::vector<float> sum(kRowColumns);
    for (const uint32_t place : places) {
      const auto& [layer, expert] = held.at(place);
      const auto columns = HashModel::ExpertRow(layer, expert, RowOf(row));
      for (size_t c = 0; c < kRowColumns; ++c) sum[c] += columns[c];
      bytes += static_cast<double>(machine_.model.PartBytes(layer, expert));
    }
    output.hidden.insert(output.hidden.end(), sum.begin(), sum.end());
  }
  return bytes;
}

// The columns of ranges that are not wanted are 0.
double HashExperts::RunRanges(const Parts& held, const engine::StepInput& input,
                              engine::StepOutput& output) const {
  double bytes = 0;
  for (size_t at = 0; at < input.hidden.size(); at += kRowColumns) {
    const uint64_t row = RowOf(input.hidden.subspan(at, kRowColumns));
    std::vector<float> columns(held.size() * kRangeColumns);
    for (const uint32_t place : input.parts) {
      const auto& [layer, part] = held.at(place);
      std::ranges::copy(HashModel::RangeRow(layer, part, row),
                        columns.begin() + static_cast<ptrdiff_t>(place * kRangeColumns));
      bytes += static_cast<double>(machine_.model.PartBytes(layer, part));
    }
    output.logits.insert(output.logits.end(), columns.begin(), columns.end());
  }
  return bytes;
}

Status HashExperts::Truncate(uint32_t, uint32_t, uint32_t) {
  return NoSessions();
}
Status HashExperts::Fork(LayerRange, const engine::SessionFork&) {
  return NoSessions();
}
Result<std::vector<uint8_t>> HashExperts::ExportKv(uint32_t, uint32_t, uint32_t, uint32_t) {
  return NoSessions();
}
Status HashExperts::ImportKv(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, ByteSpan) {
  return NoSessions();
}

engine::MemoryUse HashExperts::memory() const {
  double weights = 0;
  for (const auto& [index, parts] : shards_)
    for (const auto& [layer, part] : parts)
      weights += static_cast<double>(machine_.model.PartBytes(layer, part)) *
                 (1 + machine_.device.part_spread * HashModel::ShareOf(layer, part));
  engine::MemoryUse use;
  use.weight_bytes = static_cast<uint64_t>(std::ceil(weights * machine_.device.weight_factor));
  return use;
}

}  // namespace weft::sim
