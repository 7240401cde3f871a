// A "model" whose every layer remembers what it has seen, so that wrong keys and values show as a
// wrong token: layer l keeps a hash chain over its inputs, and its output at a position depends on
// the chain up to there.
//
//   row(0, p)     = Mix(token, p)                     embedding
//   chain(l, p)   = Mix(chain(l, p - 1), row(l, p))   what a transformer layer keeps
//   row(l + 1, p) = Mix(row(l, p), chain(l, p))
//   the head ranks the vocabulary by row(last, p)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "swarm/events.h"
#include "swarm/options.h"

namespace weft::sim {

struct HashModel {
  uint32_t layer_count = 0;     // n + 2
  uint32_t vocabulary = 512;    // a power of two
  std::vector<bool> recurrent;  // [layer_count]: layers that know their last position only

  static HashModel Of(const swarm::ModelInfo& info);
  static uint64_t Mix(uint64_t a, uint64_t b);
  static uint64_t Embed(int32_t token_id, uint32_t position);
  bool IsTransformer(uint32_t layer) const { return layer > 0 && layer + 1 < layer_count; }
  bool IsRecurrent(uint32_t layer) const { return layer < recurrent.size() && recurrent[layer]; }

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

// The rows in front of the head for every position of `tokens`.
std::vector<uint64_t> ReferenceRows(const HashModel& model, std::span<const int32_t> tokens);

}  // namespace weft::sim
