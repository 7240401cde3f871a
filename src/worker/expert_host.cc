#include "worker/expert_host.h"

#include <algorithm>
#include <optional>
#include <string>

#include "program/head_ranges.h"
#include "program/shards.h"

namespace weft::worker {

namespace {

// Whether the result of `later` may go into that of `first`.
bool MayAdd(const wire::ExpertFrame& first, const wire::ExpertFrame& later) {
  return first.may_sum && later.may_sum && first.may_lose == later.may_lose &&
         first.sequence == later.sequence && first.layer == later.layer &&
         first.expert < later.expert && first.rows.bytes().data() == later.rows.bytes().data() &&
         first.rows.byte_count() == later.rows.byte_count();
}

void AddRows(const Slice& more, std::vector<uint8_t>& sum) {
  const uint8_t* from = more.bytes().data();
  for (size_t i = 0; i < sum.size(); i += sizeof(float))
    StoreLe<float>(&sum[i], LoadLe<float>(&sum[i]) + LoadLe<float>(from + i));
}

// Results on a grid are added up as they come: the order changes no bit (kernels/sum_grid.h).
std::vector<wire::ExpertFrame> AddedUp(std::span<const wire::ExpertFrame> dispatches,
                                       std::vector<wire::ExpertFrame> results) {
  std::vector<wire::ExpertFrame> added_up;
  std::optional<size_t> first;  // of the dispatches whose results go into the last of added_up
  std::vector<uint8_t> sum;
  const auto end_sum = [&] {
    if (first && !added_up.back().added.empty()) added_up.back().rows = Slice(std::move(sum));
    first.reset();
  };
  for (size_t i = 0; i < results.size(); ++i) {
    wire::ExpertFrame& result = results[i];
    if (first && !result.failed && MayAdd(dispatches[*first], dispatches[i]) &&
        (added_up.back().added.empty() || added_up.back().added.back() < result.expert)) {
      if (added_up.back().added.empty()) {
        const ByteSpan bytes = added_up.back().rows.bytes();
        sum.assign(bytes.begin(), bytes.end());
      }
      AddRows(result.rows, sum);
      added_up.back().added.push_back(result.expert);
      continue;
    }
    end_sum();
    if (!result.failed) first = i;
    added_up.push_back(std::move(result));
  }
  end_sum();
  return added_up;
}

// Where the expert stands among those that are held. REQUIRES: it does.
size_t PlaceOf(const std::vector<uint32_t>& held, uint32_t expert) {
  return static_cast<size_t>(std::lower_bound(held.begin(), held.end(), expert) - held.begin());
}

uint64_t AnswerBytes(const wire::ExpertFrame& asked, uint32_t slot_columns) {
  return uint64_t{asked.tokens} * (asked.best ? kBestColumns : slot_columns) *
         wire::ElementBytes(wire::AnswerType(asked.row_type));
}

wire::ExpertFrame ResultOf(const wire::ExpertFrame& asked, uint32_t columns,
                           std::span<const float> values) {
  const wire::RowType type = wire::AnswerType(asked.row_type);
  std::vector<uint8_t> bytes(values.size() * wire::ElementBytes(type));
  wire::StoreRow(values, type, bytes.data());
  wire::ExpertFrame result;
  result.row_type = type;
  result.type = wire::ExpertFrameType::kResult;
  result.sequence = asked.sequence;
  result.layer = asked.layer;
  result.expert = asked.expert;
  result.tokens = asked.tokens;
  result.hidden = static_cast<uint16_t>(columns);
  result.may_lose = asked.may_lose;
  result.takes_steps = asked.takes_steps;
  result.rows = Slice(std::move(bytes));
  return result;
}

}  // namespace

// What Read gives to Install: the new shards, and which ones are held from then on.
class ExpertHost::LoadedExperts : public engine::LoadedLayers {
 public:
  std::unique_ptr<engine::LoadedLayers> layers;
  Shards shards;
};

Result<std::unique_ptr<engine::LoadedLayers>> ExpertHost::Read(
    const std::vector<wire::LayerExperts>& sets, std::span<const program::Program> layers,
    engine::WeightSource& source) {
  auto loaded = std::make_unique<LoadedExperts>();
  std::vector<program::Program> programs;
  for (size_t i = 0; i < sets.size(); ++i) {
    const wire::LayerExperts& set = sets[i];
    {
      const std::lock_guard lock(mutex_);
      const auto held = shards_.find(set.layer);
      if (held != shards_.end() && held->second.experts == set.experts) {
        loaded->shards.insert(*held);
        continue;
      }
    }
    ASSIGN_OR_RETURN(auto parts, program::PartPrograms(layers[i], set.experts));
    // A changed shard is other layers of the engine: the old ones compute until they are replaced,
    // and what both hold is read once.
    Shard& shard = loaded->shards[set.layer];
    shard.layers.first = next_index_;
    const program::MoeExperts* experts = program::FindExperts(layers[i]);
    shard.step = experts != nullptr ? experts->grid.step : 0;
    for (program::Program& part : parts) {
      part.layer_index = next_index_++;
      shard.slot_columns = part.buffers[part.output].columns;
      programs.push_back(std::move(part));
    }
    shard.layers.end = next_index_;
    shard.experts = set.experts;
    const std::optional<program::HeadRanges> ranges = program::FindHeadRanges(layers[i]);
    shard.in_ranges = ranges.has_value();
    shard.columns = ranges ? std::get<program::MatMul>(layers[i].ops[ranges->product]).in.columns
                           : shard.slot_columns;
  }
  ASSIGN_OR_RETURN(loaded->layers, engine_->Read(programs, source));
  return std::unique_ptr<engine::LoadedLayers>(std::move(loaded));
}

uint64_t ExpertHost::Install(std::unique_ptr<engine::LoadedLayers> read) {
  auto& loaded = static_cast<LoadedExperts&>(*read);
  engine_->Install(std::move(loaded.layers));
  const std::lock_guard lock(mutex_);
  for (const auto& [layer, shard] : shards_) {
    const auto kept = loaded.shards.find(layer);
    if (kept == loaded.shards.end() || kept->second.layers.first != shard.layers.first)
      engine_->Unload(shard.layers);
  }
  shards_ = std::move(loaded.shards);
  const engine::MemoryUse use = engine_->memory();
  return use.weight_bytes + use.kv_bytes + use.scratch_bytes;
}

void ExpertHost::Clear() {
  engine_->ReleaseAll();
  const std::lock_guard lock(mutex_);
  for (const auto& [layer, shard] : shards_) engine_->Unload(shard.layers);
  shards_.clear();
}

std::vector<wire::ExpertFrame> ExpertHost::Run(std::span<const wire::ExpertFrame> dispatches) {
  std::vector<wire::ExpertFrame> results(dispatches.size());
  std::map<uint32_t, std::vector<size_t>> by_layer;
  // Ranges of a head answer with more columns than they are asked with.
  uint64_t answered_bytes = 0;
  for (size_t i = 0; i < dispatches.size(); ++i) {
    const wire::ExpertFrame& asked = dispatches[i];
    const auto shard = shards_.find(asked.layer);
    const bool held =
        shard != shards_.end() && std::binary_search(shard->second.experts.begin(),
                                                     shard->second.experts.end(), asked.expert);
    if (!held) {
      results[i] =
          wire::FailedResult(asked, "Expert " + std::to_string(asked.expert) + " of layer " +
                                        std::to_string(asked.layer) + " is not held here.");
    } else if (asked.hidden != shard->second.columns) {
      results[i] =
          wire::FailedResult(asked, "The rows have " + std::to_string(asked.hidden) +
                                        " columns, layer " + std::to_string(asked.layer) +
                                        " takes " + std::to_string(shard->second.columns) + ".");
    } else if ((answered_bytes += AnswerBytes(asked, shard->second.slot_columns)) >
               wire::kMaxShardRowBytes) {
      results[i] = wire::FailedResult(asked, "The answers to a message would have " +
                                                 std::to_string(answered_bytes) +
                                                 " bytes of rows, expected at most " +
                                                 std::to_string(wire::kMaxShardRowBytes) + ".");
    } else {
      by_layer[asked.layer].push_back(i);
    }
  }
  for (const auto& [layer, which] : by_layer) {
    const Status status = RunLayer(shards_.at(layer), dispatches, which, results);
    if (status.ok()) continue;
    for (const size_t i : which)
      results[i] = wire::FailedResult(dispatches[i], status.error().ToString());
  }
  std::vector<wire::ExpertFrame> added_up = AddedUp(dispatches, std::move(results));
  for (wire::ExpertFrame& result : added_up) PutInSteps(result);
  return added_up;
}

void ExpertHost::PutInSteps(wire::ExpertFrame& result) const {
  if (result.failed || !result.takes_steps) return;
  const float step = shards_.at(result.layer).step;
  if (step == 0) return;
  if (auto steps = wire::StepsOf(result.rows, step)) {
    result.rows = *std::move(steps);
    result.row_type = wire::RowType::kSteps;
  }
}

Status ExpertHost::RunLayer(const Shard& shard, std::span<const wire::ExpertFrame> dispatches,
                            std::span<const size_t> which,
                            std::vector<wire::ExpertFrame>& results) {
  if (!shard.in_ranges) return RunExperts(shard, dispatches, which, results);
  for (const size_t i : which) TRY(RunRange(shard, dispatches[i], results[i]));
  return OkStatus();
}

Status ExpertHost::RunExperts(const Shard& shard, std::span<const wire::ExpertFrame> dispatches,
                              std::span<const size_t> which,
                              std::vector<wire::ExpertFrame>& results) {
  const size_t columns = shard.columns;
  size_t row_count = 0;
  for (const size_t i : which) row_count += dispatches[i].tokens;
  std::vector<float> rows(row_count * (columns + 2));
  float* row = rows.data();
  for (const size_t i : which) {
    const wire::ExpertFrame& asked = dispatches[i];
    const auto expert = static_cast<float>(PlaceOf(shard.experts, asked.expert));
    const uint8_t* from = asked.rows.bytes().data();
    for (size_t token = 0; token < asked.tokens; ++token, row += columns + 2) {
      wire::ReadRow(from, asked.row_type, token, {row, columns});
      row[columns] = expert;
      row[columns + 1] = 1;
    }
  }
  ASSIGN_OR_RETURN(const engine::StepOutput output,
                   Step(shard.layers.first, engine::OutputKind::kHidden, rows, row_count));
  std::span<const float> rest(output.hidden);
  for (const size_t i : which) {
    const auto values = rest.first(dispatches[i].tokens * columns);
    rest = rest.subspan(values.size());
    results[i] = ResultOf(dispatches[i], shard.slot_columns, values);
  }
  return OkStatus();
}

Status ExpertHost::RunRange(const Shard& shard, const wire::ExpertFrame& asked,
                            wire::ExpertFrame& result) {
  std::vector<float> rows(size_t{asked.tokens} * asked.hidden);
  for (size_t token = 0; token < asked.tokens; ++token)
    wire::ReadRow(asked.rows.bytes().data(), asked.row_type, token,
                  std::span(rows).subspan(token * asked.hidden, asked.hidden));
  const auto layer =
      static_cast<uint32_t>(shard.layers.first + PlaceOf(shard.experts, asked.expert));
  if (!asked.best) {
    ASSIGN_OR_RETURN(const engine::StepOutput output,
                     Step(layer, engine::OutputKind::kLogits, rows, asked.tokens));
    result = ResultOf(asked, shard.slot_columns, output.logits);
    return OkStatus();
  }
  // A run gives the best of its last row: each row is a run.
  std::vector<engine::Run> runs;
  ++steps_;
  for (uint32_t row = 0; row < asked.tokens; ++row)
    runs.push_back({row, steps_, 0, 1, {engine::OutputKind::kArgmax}});
  ASSIGN_OR_RETURN(const engine::StepOutput output,
                   engine_->Step({{layer, layer + 1}, runs, {}, rows}));
  std::vector<float> best;
  for (const engine::Selection& selection : output.selections)
    for (const sampling::TokenLogit& each :
         {selection.candidates.at(0), selection.candidates.at(1)})
      best.insert(best.end(), {each.logit, static_cast<float>(each.token_id)});
  result = ResultOf(asked, kBestColumns, best);
  return OkStatus();
}

// Nothing of it is a session's: shards have no keys and values.
Result<engine::StepOutput> ExpertHost::Step(uint32_t layer, engine::OutputKind kind,
                                            std::span<const float> rows, size_t row_count) {
  const engine::Run run = {0, ++steps_, 0, static_cast<uint32_t>(row_count), {kind}};
  return engine_->Step({{layer, layer + 1}, {&run, 1}, {}, rows});
}

}  // namespace weft::worker
