// Pages of recurrent states as steps take them: every layer of a session gets a new one, reads the
// one before, and gives it back.
//   ./dev bench states [--benchmark_filter=...]
// The layers are those of Qwen3.5-9B that have a state: 24 of 32 heads with 128 x 128 numbers.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "engine/kv_cache.h"

namespace weft::engine {
namespace {

constexpr uint32_t kLayers = 24;
constexpr uint64_t kStateFloats = uint64_t{32} * 128 * 128;

// Steps of one row, which only copy.
void Steps(benchmark::State& bench) {
  KvCache cache;
  for (uint32_t layer = 0; layer < kLayers; ++layer) cache.AddLayer(layer, {{}, kStateFloats});
  uint32_t position = 0;
  for (auto _ : bench) {
    const Run run = {1, 0, position++, 1};
    auto append = cache.BeginAppend({0, kLayers}, {&run, 1});
    CHECK(append.ok());
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      const KvCache::LayerState& state = append->state(0, layer);
      const float* before = state.StateBefore();
      if (before == nullptr)
        std::fill_n(state.StateAfter(), kStateFloats, 0.0f);
      else
        std::copy_n(before, kStateFloats, state.StateAfter());
    }
    append->Commit();
  }
  bench.SetBytesProcessed(bench.iterations() * 2 * kLayers * kStateFloats * sizeof(float));
}
BENCHMARK(Steps)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft::engine

BENCHMARK_MAIN();
