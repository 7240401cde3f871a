#include "sim/hash_model.h"

#include <algorithm>
#include <cmath>

#include "text/sampler.h"

namespace weft::sim {

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

float HashModel::Logsumexp() const {
  double sum = 0;
  for (uint32_t rank = 0; rank < vocabulary; ++rank)
    sum += std::exp(static_cast<double>(LogitOfRank(rank)));
  return static_cast<float>(std::log(sum));
}

wire::ArgmaxResult HashModel::Argmax(uint64_t row) const {
  return {TokenOfRank(row, 0), LogitOfRank(0), LogitOfRank(0) - LogitOfRank(1)};
}

wire::CandidatesResult HashModel::Candidates(uint64_t row, uint32_t count) const {
  wire::CandidatesResult result;
  result.logsumexp = Logsumexp();
  for (uint32_t rank = 0; rank < count; ++rank)
    result.candidates.push_back({TokenOfRank(row, rank), LogitOfRank(rank)});
  return result;
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

Expected Reference(const HashModel& model, const swarm::Request& request, uint32_t context_length,
                   uint32_t candidate_count) {
  Expected expected;
  std::vector<int32_t> tokens = request.prompt_ids;
  const bool greedy = request.sampling.IsGreedy() && !request.want_logprobs &&
                      request.top_logprobs == 0 && !request.sampling.ChangesLogits();
  uint32_t count = std::min(candidate_count, model.vocabulary);
  while (expected.tokens.size() < request.max_tokens && tokens.size() <= context_length) {
    const uint64_t row = ReferenceRows(model, tokens).back();
    int32_t token_id = model.Argmax(row).token_id;
    if (!greedy) {
      for (;;) {
        std::vector<SampleCandidate> candidates;
        for (const auto& candidate : model.Candidates(row, count).candidates)
          candidates.push_back({candidate.token_id, candidate.logit});
        const SampledToken sampled =
            Sample(request.sampling, candidates, model.Logsumexp(), tokens,
                   request.sampling.seed.value_or(request.id), tokens.size(), model.vocabulary);
        token_id = sampled.token_id;
        if (!sampled.in_tail || count >= std::min(256u, model.vocabulary)) break;
        count = std::min(256u, model.vocabulary);
      }
    }
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
