#include "sim/hash_model.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "sampling/draw.h"

namespace weft::sim {

HashModel HashModel::Of(const swarm::ModelInfo& info) {
  HashModel model;
  model.layer_count = static_cast<uint32_t>(info.layers.size());
  model.vocabulary = info.vocabulary;
  for (const swarm::ModelLayer& layer : info.layers)
    model.recurrent.push_back(layer.state_bytes > 0);
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

std::vector<uint64_t> ReferenceRows(const HashModel& model, std::span<const int32_t> tokens) {
  std::vector<uint64_t> chains(model.layer_count, 0), rows;
  for (uint32_t position = 0; position < tokens.size(); ++position) {
    uint64_t row = HashModel::Embed(tokens[position], position);
    for (uint32_t layer = 1; layer + 1 < model.layer_count; ++layer) {
      chains[layer] = HashModel::Mix(chains[layer], row);
      row = HashModel::Mix(row, chains[layer]);
    }
    rows.push_back(row);
  }
  return rows;
}

Expected Reference(const HashModel& model, const swarm::Request& request, uint32_t context_length) {
  Expected expected;
  std::vector<int32_t> tokens = request.prompt_ids;
  const uint64_t seed = request.sampling.seed.value_or(request.id);
  while (expected.tokens.size() < request.max_tokens && tokens.size() <= context_length) {
    const uint64_t row = ReferenceRows(model, tokens).back();
    const int32_t token_id = sampling::DrawAfterPenalties(
        request.sampling, tokens, model.Logits(row), CounterDouble(seed, tokens.size(), 0));
    if (std::find(request.stop_ids.begin(), request.stop_ids.end(), token_id) !=
        request.stop_ids.end()) {
      expected.reason = swarm::FinishReason::kStop;
      break;
    }
    expected.tokens.push_back(token_id);
    tokens.push_back(token_id);
  }
  return expected;
}

}  // namespace weft::sim
