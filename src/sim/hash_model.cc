#include "sim/hash_model.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "sampling/draw.h"

namespace weft::sim {
namespace {

// That a part's weights take in the programs: a byte for each row of a range.
constexpr uint64_t kPartBytes = kRangeColumns;

}  // namespace

void AppendColumns(uint64_t row, std::vector<float>& to) {
  for (uint32_t i = 0; i < kRowColumns; ++i)
    to.push_back(static_cast<float>((row >> (8 * i)) & 0xff));
}

uint64_t RowOf(std::span<const float> columns) {
  uint64_t row = 0;
  for (uint32_t i = 0; i < kRowColumns; ++i)
    row |= (static_cast<uint64_t>(columns[i]) & 0xff) << (8 * i);
  return row;
}

HashModel HashModel::Of(const swarm::ModelInfo& info) {
  HashModel model;
  model.layer_count = static_cast<uint32_t>(info.layers.size());
  model.vocabulary = info.vocabulary;
  for (const swarm::ModelLayer& layer : info.layers) {
    model.recurrent.push_back(layer.state_bytes > 0);
    model.mixtures.push_back(
        {layer.expert_count, layer.experts_per_token, layer.groups, layer.range_count});
    model.hub_bytes.push_back(layer.weight_bytes - layer.parts_bytes());
    model.expert_bytes.push_back(layer.expert_bytes);
    model.range_bytes.push_back(layer.range_bytes);
  }
  return model;
}

uint64_t HashModel::Mix(uint64_t a, uint64_t b) {
  // The finaliser of splitmix64 over both words.
  uint64_t x = a * 0x9e3779b97f4a7c15ull + b + 0x7f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

uint64_t HashModel::Embed(int32_t token_id, uint32_t position) {
  return Mix(static_cast<uint64_t>(token_id) + 1, position);
}

std::vector<uint32_t> HashModel::Route(uint32_t layer, uint64_t mixed) const {
  const Mixture& mixture = mixtures[layer];
  std::vector<uint32_t> chosen(mixture.chosen);
  // Neighbours, from anywhere, are different ones.
  const uint64_t first = mixture.groups ? 0 : Mix(mixed, layer) % mixture.experts;
  for (uint32_t j = 0; j < mixture.chosen; ++j)
    chosen[j] = static_cast<uint32_t>((first + j) % mixture.experts);
  return chosen;
}

std::array<float, kRowColumns> HashModel::ExpertRow(uint32_t layer, uint32_t expert,
                                                    uint64_t mixed) {
  const uint64_t row = Mix(mixed, (uint64_t{layer} << 32) + expert + 1);
  std::array<float, kRowColumns> columns{};
  for (uint32_t i = 0; i < kRowColumns; ++i)
    columns[i] = static_cast<float>((row >> (8 * i)) & 0xff);
  return columns;
}

std::array<float, kRangeColumns> HashModel::RangeRow(uint32_t layer, uint32_t part,
                                                     uint64_t mixed) {
  std::array<float, kRangeColumns> columns{};
  const auto first = ExpertRow(layer, part, mixed), second = ExpertRow(layer, part, ~mixed);
  std::ranges::copy(second, std::ranges::copy(first, columns.begin()).out);
  return columns;
}

std::vector<float> HashModel::SumOf(std::span<const float> slots) {
  std::vector<float> sum(kRowColumns);
  for (size_t i = 0; i < slots.size(); ++i)
    sum[i % kRowColumns] += WeightOf(static_cast<uint32_t>(i / kRowColumns)) * slots[i];
  return sum;
}

uint64_t HashModel::Join(uint64_t mixed, std::span<const float> slots) {
  for (const float value : slots) mixed = Mix(mixed, static_cast<uint64_t>(value) + 1);
  return mixed;
}

uint64_t HashModel::AfterRanges(uint32_t layer, uint64_t mixed) const {
  const auto& [experts, chosen, groups, ranges] = mixtures[layer];
  std::vector<float> slots;
  for (uint32_t part = experts; part < experts + ranges; ++part) {
    const auto columns = RangeRow(layer, part, mixed);
    slots.insert(slots.end(), columns.begin(), columns.end());
  }
  return Join(mixed, slots);
}

uint64_t HashModel::AfterExperts(uint32_t layer, uint64_t mixed) const {
  const bool sums = mixtures[layer].groups;
  std::vector<float> slots(sums ? kRowColumns : 0);
  for (const uint32_t expert : Route(layer, mixed)) {
    const auto row = ExpertRow(layer, expert, mixed);
    if (!sums) slots.insert(slots.end(), row.begin(), row.end());
    for (uint32_t i = 0; sums && i < kRowColumns; ++i) slots[i] += row[i];
  }
  return Join(mixed, sums ? slots : SumOf(slots));
}

program::Program HashModel::ProgramOf(uint32_t layer) const {
  program::Program program;
  program.layer_index = layer;
  program.buffers = {{"row", kRowColumns}};
  if (layer > 0) program.input = 0;
  program.weights = {{"dense", DType::kF32, {kRowColumns, 1}, {{{}, 0, hub_bytes[layer]}}, {}, {}}};
  const program::View row = {0, 0, kRowColumns};
  program.ops = {program::MatMul{row, row, {0, 0, kRowColumns}, {}}};
  const Mixture& mixture = mixtures[layer];
  if (mixture.experts == 0) return program;
  program.buffers.push_back({"route", 2 * mixture.chosen});
  const program::View route = {1, 0, 2 * mixture.chosen};
  // Where a part's weights begin is its name.
  program::Weight weight = {"experts", DType::kF32, {mixture.experts, 1, 1}, {}, {}, {}};
  for (uint64_t expert = 0; expert < mixture.experts; ++expert)
    weight.data.push_back({{}, (uint64_t{layer} << 32) + expert * kPartBytes, kPartBytes});
  program.weights.push_back(weight);
  program::MoeRoute choose;
  choose.logits = row;
  choose.out = route;
  choose.experts = mixture.experts;
  choose.top_k = mixture.chosen;
  program::MoeExperts experts;
  experts.in = experts.out = row;
  experts.route = route;
  experts.experts = mixture.experts;
  experts.top_k = mixture.chosen;
  experts.gate_up = experts.down = 1;
  if (mixture.groups) {
    choose.kind = program::RouteKind::kAll;
    experts.grid = {1, 256};
  }
  if (mixture.ranges > 0) {
    const uint32_t columns = mixture.ranges * kRangeColumns;
    program.buffers.push_back({"ranges", columns});
    const program::Part all = {
        {}, (uint64_t{layer} << 32) + mixture.experts * kPartBytes, mixture.ranges * kPartBytes};
    program.weights.push_back({"ranges", DType::kF32, {columns, kRowColumns}, {all}, {}, {}});
    program.ops.push_back(
        program::MatMul{row, {2, 0, columns}, {2, 0, columns}, {}, mixture.ranges});
  }
  program.ops.push_back(choose);
  program.ops.push_back(experts);
  return program;
}

// A shard's weights are one array of experts, or an array of each range.
std::vector<HashModel::HeldPart> HashModel::PartsOf(const program::Program& shard) const {
  std::vector<HeldPart> parts;
  for (const program::Weight& weight : shard.weights)
    for (const program::Part& part : weight.data)
      parts.push_back({static_cast<uint32_t>(part.offset >> 32),
                       static_cast<uint32_t>((part.offset & 0xffffffff) / kPartBytes)});
  return parts;
}

int32_t HashModel::TokenOfRank(uint64_t row, uint32_t rank) const {
  // An odd factor permutes a power of two.
  const uint64_t factor = (row >> 32) | 1;
  return static_cast<int32_t>((row + rank * factor) % vocabulary);
}

std::vector<float> HashModel::Logits(uint64_t row) const {
  std::vector<float> logits(vocabulary);
  for (uint32_t rank = 0; rank < vocabulary; ++rank)
    logits[static_cast<size_t>(TokenOfRank(row, rank))] = LogitOfRank(rank);
  return logits;
}

engine::Selection HashModel::Best(std::span<const float> logits, std::span<const float> raw,
                                  uint32_t count, float temperature) {
  std::vector<sampling::TokenLogit> all;
  for (const float logit : logits) all.push_back({static_cast<int32_t>(all.size()), logit});
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.logit > b.logit; });
  engine::Selection selection;
  double scaled = 0, sum = 0;
  for (const float logit : logits)
    scaled += std::exp((static_cast<double>(logit) - all[0].logit) / temperature);
  for (const float logit : raw) sum += std::exp(static_cast<double>(logit));
  selection.scaled_sum = static_cast<float>(scaled);
  selection.logsumexp = static_cast<float>(std::log(sum));
  all.resize(count);
  selection.candidates = std::move(all);
  return selection;
}

uint64_t ReferenceRows::Next(int32_t token_id) {
  uint64_t row = HashModel::Embed(token_id, position_++);
  for (uint32_t layer = 1; layer + 1 < model_.layer_count; ++layer) {
    chains_[layer] = HashModel::Mix(chains_[layer], row);
    row = HashModel::Mix(row, chains_[layer]);
    if (model_.mixtures[layer].ranges > 0) row = model_.AfterRanges(layer, row);
    if (model_.HasExperts(layer)) row = model_.AfterExperts(layer, row);
  }
  return row;
}

Expected Reference(const HashModel& model, const swarm::Request& request, uint32_t context_length) {
  Expected expected;
  std::vector<int32_t> tokens = request.prompt_ids;
  const uint64_t seed = request.sampling.seed.value_or(request.id.value());
  ReferenceRows rows(model);
  uint64_t row = 0;
  for (const int32_t token_id : tokens) row = rows.Next(token_id);
  while (expected.tokens.size() < request.max_tokens && tokens.size() <= context_length) {
    const int32_t token_id = sampling::DrawAfterPenalties(
        request.sampling, tokens, model.Logits(row), CounterDouble(seed, tokens.size(), 0));
    if (std::find(request.stop_ids.begin(), request.stop_ids.end(), token_id) !=
        request.stop_ids.end()) {
      expected.reason = swarm::FinishReason::kStop;
      break;
    }
    expected.tokens.push_back(token_id);
    tokens.push_back(token_id);
    row = rows.Next(token_id);
  }
  return expected;
}

}  // namespace weft::sim
