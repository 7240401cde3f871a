// A "model" whose every layer remembers its inputs, so that wrong keys and values show as a wrong
// token. Layer l keeps a hash chain over its inputs, and its output at a position depends on the
// chain up to there.
//
//   row(0, p)     = Mix(token, p)                     embedding
//   chain(l, p)   = Mix(chain(l, p - 1), row(l, p))   what a transformer layer keeps
//   mixed(l, p)   = Mix(row(l, p), chain(l, p))
//   row(l + 1, p) = mixed(l, p)
//   the head ranks the vocabulary by row(last, p)
//
// In a layer with experts, with those that mixed(l, p) chooses, in its order:
//   row(l + 1, p) = Join(mixed(l, p), sum of WeightOf(j) * ExpertRow(l, e_j, mixed(l, p)))
// Neuron groups, of which all are chosen, have the weight 1. Some layers have ranges of a product
// before that. Then Join(mixed(l, p), RangeRow(l, r, mixed(l, p)) of all) stands for mixed(l, p).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "program/ir.h"
#include "swarm/events.h"
#include "swarm/options.h"

namespace weft::sim {

// Columns of a row between layers: a byte of the hash each, which every dtype of the wire holds.
// Those of a range are as many as kernels take at once, at least.
inline constexpr uint32_t kRowColumns = 8, kRangeColumns = 16;

void AppendColumns(uint64_t row, std::vector<float>& to);
uint64_t RowOf(std::span<const float> columns);

struct HashModel {
  struct Mixture {
    uint32_t experts = 0, chosen = 0;  // 0: the layer has none
    bool groups = false;
    uint32_t ranges = 0;  // of a product, which are parts behind the experts
  };

  uint32_t layer_count = 0;       // n + 2
  uint32_t vocabulary = 512;      // a power of two
  std::vector<bool> recurrent;    // [layer_count]: layers that know their last position only
  std::vector<Mixture> mixtures;  // [layer_count]
  // [layer_count]: of weights, the latter two of each.
  std::vector<uint64_t> hub_bytes, expert_bytes, range_bytes;

  static HashModel Of(const swarm::ModelInfo& info);
  static uint64_t Mix(uint64_t a, uint64_t b);
  static uint64_t Embed(int32_t token_id, uint32_t position);
  bool IsTransformer(uint32_t layer) const { return layer > 0 && layer + 1 < layer_count; }
  bool IsRecurrent(uint32_t layer) const { return layer < recurrent.size() && recurrent[layer]; }
  bool HasExperts(uint32_t layer) const { return mixtures[layer].experts > 0; }
  bool IsRange(uint32_t layer, uint32_t part) const { return part >= mixtures[layer].experts; }
  // Of an expert or a range.
  uint64_t PartBytes(uint32_t layer, uint32_t part) const {
    return IsRange(layer, part) ? range_bytes[layer] : expert_bytes[layer];
  }

  // A number from 0 to 1 that is the part's own.
  static double ShareOf(uint32_t layer, uint32_t part) {
    return static_cast<double>(Mix(layer, part) % 1000) / 1000;
  }
  // The experts that the row chooses: different ones, or all in order of neuron groups.
  std::vector<uint32_t> Route(uint32_t layer, uint64_t mixed) const;
  static std::array<float, kRowColumns> ExpertRow(uint32_t layer, uint32_t expert, uint64_t mixed);
  static std::array<float, kRangeColumns> RangeRow(uint32_t layer, uint32_t part, uint64_t mixed);
  // The weight of an expert in its row's sum, so that its place counts.
  static float WeightOf(uint32_t slot) { return static_cast<float>(slot + 1); }
  // The weighted sum of slots [chosen, kRowColumns].
  static std::vector<float> SumOf(std::span<const float> slots);
  // `slots`: the sum of experts or of neuron groups, or ranges [ranges, kRangeColumns].
  static uint64_t Join(uint64_t mixed, std::span<const float> slots);
  // The row behind the layer's ranges, if it has any, and behind the layer, computed here.
  uint64_t AfterRanges(uint32_t layer, uint64_t mixed) const;
  uint64_t AfterExperts(uint32_t layer, uint64_t mixed) const;

  // As far as the worker's rules look at it: what a hub is without its parts, and which parts a
  // shard is cut to. Part.offset of a part's weights says which one it is (PartsOf).
  program::Program ProgramOf(uint32_t layer) const;
  struct HeldPart {
    uint32_t layer = 0, part = 0;
  };
  std::vector<HeldPart> PartsOf(const program::Program& shard) const;

  // The token of a rank in the order that a last row gives to the vocabulary.
  int32_t TokenOfRank(uint64_t row, uint32_t rank) const;
  static float LogitOfRank(uint32_t rank) { return 5.0f - 0.04f * static_cast<float>(rank); }
  std::vector<float> Logits(uint64_t row) const;  // by token
  // The `count` best of logits that penalties may have changed, with the sums that engine.h names;
  // `raw` are the logits before.
  static engine::Selection Best(std::span<const float> logits, std::span<const float> raw,
                                uint32_t count, float temperature);
};

// What a request must give without any fault: computed straight from the definition, with none of
// the core's parts, tokens drawn from all logits.
struct Expected {
  std::vector<int32_t> tokens;
  swarm::FinishReason reason = swarm::FinishReason::kLength;
};
Expected Reference(const HashModel& model, const swarm::Request& request, uint32_t context_length);

// The rows in front of the head, position by position.
class ReferenceRows {
 public:
  explicit ReferenceRows(const HashModel& model) : model_(model), chains_(model.layer_count, 0) {}
  uint64_t Next(int32_t token_id);

 private:
  const HashModel& model_;
  std::vector<uint64_t> chains_;  // by layer
  uint32_t position_ = 0;
};

}  // namespace weft::sim
