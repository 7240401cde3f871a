// Matrix-vector and matrix-matrix products against the read bandwidth of the same machine in the
// same run.
//   ninja -C build/release kernels_bench && build/release/kernels_bench
// GB/s counts the bytes of the weight as stored; the rotation over several weights keeps them out
// of the caches.
#include <benchmark/benchmark.h>

#include <numeric>
#include <utility>
#include <vector>

#include "base/large_memory.h"
#include "base/random.h"
#include "kernels/kernel_set.h"
#include "kernels/panel_matmul.h"
#include "kernels/panels.h"
#include "tensor/blocks.h"
#include "tensor/q4s.h"

namespace weft::kernels {
namespace {

constexpr size_t kWorkingSetBytes = 768 << 20;  // past the caches, big shared ones included

std::vector<float> RandomFloats(size_t count) {
  SeededRandom random(1);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.Uniform() - 0.5);
  return values;
}

// A weight of random bits: any pattern is a valid number of quanta, scales are small positive
// halves.
struct StoredWeight {
  std::vector<uint8_t> data;
  std::vector<uint16_t> scale;
  Matrix matrix;

  // `panels`: PanelsBytes bytes, where the form has panels.
  StoredWeight(DType dtype, size_t rows, size_t columns, uint8_t* panels) {
    matrix.dtype = dtype;
    matrix.rows = rows;
    matrix.columns = columns;
    data.resize(rows * matrix.data_row_bytes());
    SeededRandom random(rows);
    for (size_t i = 0; i + 8 <= data.size(); i += 8) {
      // 0x33 in the odd bytes keeps f16, bf16 and f32 patterns finite.
      StoreLe(&data[i], (random.Next() & 0x00ff00ff00ff00ffull) | 0x3300330033003300ull);
    }
    if (IsBlockFormat(dtype)) scale.assign(rows * matrix.scale_words(), 0x2c00);
    matrix.data = data.data();
    matrix.scale = scale.empty() ? nullptr : scale.data();
    if (IsSuperblockFormat(dtype)) Pack(panels);
  }
  // As an engine multiplies by them.
  void Pack(uint8_t* panels) {
    for (size_t i = 0; i < scale.size() && matrix.dtype == DType::kQ4S; ++i)
      scale[i] = i % kSuperblockWords == 0 ? 0x1000 : i % kSuperblockWords == 1 ? 0x5a5a : 0x37bf;
    CHECK(PackPanels(matrix, panels).ok());
    matrix.data = nullptr;
    matrix.scale = nullptr;
    matrix.panels = panels;
  }
  size_t bytes() const { return data.size() + scale.size() * 2; }
};

// Weights of one shape, one after the other in large pages as an engine has the panels of a layer.
// So many that no cache holds them, or one where `rows` compute for longer than they read.
struct StoredWeights {
  LargeMemory panels;
  std::vector<StoredWeight> each;

  StoredWeights(DType dtype, size_t outputs, size_t columns, size_t rows) {
    Matrix one;
    one.dtype = dtype;
    one.columns = columns;
    const size_t row_bytes =
        one.data_row_bytes() + (IsBlockFormat(dtype) ? 2 * one.scale_words() : 0);
    const size_t count = rows <= 8 ? kWorkingSetBytes / (outputs * row_bytes) + 1 : 1;
    const size_t panels_bytes =
        IsSuperblockFormat(dtype) ? PanelsBytes(dtype, outputs, columns) : 0;
    panels = LargeMemory(count * panels_bytes);
    for (size_t i = 0; i < count; ++i)
      each.emplace_back(dtype, outputs, columns, panels.data() + i * panels_bytes);
  }
};

// Every thread sums its share of a large array.
void ReadBandwidth(benchmark::State& state) {
  const auto threads = static_cast<size_t>(state.range(0));
  Workspace workspace(threads);
  const std::vector<uint64_t> memory(kWorkingSetBytes / 8, 1);
  constexpr size_t kChunk = 1 << 16;
  std::vector<uint64_t> sums(memory.size() / kChunk);
  for (auto _ : state) {
    workspace.threads().Run(sums.size(), [&](size_t task, size_t) {
      const uint64_t* from = memory.data() + task * kChunk;
      uint64_t lanes[32] = {};
      for (size_t i = 0; i < kChunk; i += 32) {
        for (size_t lane = 0; lane < 32; ++lane) lanes[lane] += from[i + lane];
      }
      sums[task] = std::accumulate(lanes, lanes + 32, uint64_t{0});
    });
    benchmark::DoNotOptimize(sums.data());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * memory.size() * 8));
}

// range: dtype, rows, threads, K, N. 2,560 to 4,096 are a 4B model's queries, 9,728 to 2,560 its
// `down`.
void MatMul(benchmark::State& state) {
  const auto dtype = static_cast<DType>(state.range(0));
  const auto rows = static_cast<size_t>(state.range(1));
  const auto k = static_cast<size_t>(state.range(3));
  const auto n = static_cast<size_t>(state.range(4));
  Workspace workspace(static_cast<size_t>(state.range(2)));
  const StoredWeights weights(dtype, n, k, rows);
  const std::vector<float> in = RandomFloats(rows * k);
  std::vector<float> out(rows * n);
  size_t next = 0;
  for (auto _ : state) {
    const StoredWeight& weight = weights.each[next++ % weights.each.size()];
    const MatMulArgs call = {{in.data(), rows, k, k}, weight.matrix, {}, {out.data(), rows, n, n}};
    FastKernels().matmuls({&call, 1}, workspace);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetLabel(std::string(DTypeName(dtype)));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * weights.each[0].bytes()));
  state.counters["GFLOP/s"] = benchmark::Counter(
      2e-9 * static_cast<double>(state.iterations() * rows * k * n), benchmark::Counter::kIsRate);
}

void MatMulCases(benchmark::internal::Benchmark* bench) {
  for (const int64_t threads : {1, 2}) {
    for (const int64_t rows : {1, 4, 8, 64, 512}) {
      for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8, DType::kQ4,
                                DType::kQ4S, DType::kQ4K, DType::kQ5K, DType::kQ6K}) {
        bench->Args({static_cast<int64_t>(dtype), rows, threads, 2560, 4096});
      }
    }
  }
  const auto q4s = static_cast<int64_t>(DType::kQ4S);
  // The down projections of a neuron group and of an expert of Qwen3-30B-A3B, and wider ones.
  const std::pair<int64_t, int64_t> shapes[] = {
      {256, 4096}, {768, 2048}, {1024, 4096}, {2048, 1536}, {4096, 4096}};
  for (const DType dtype : {DType::kQ4S, DType::kQ4K, DType::kQ6K})
    for (const auto& [k, n] : shapes) bench->Args({static_cast<int64_t>(dtype), 1, 1, k, n});
  bench->Args({q4s, 512, 16, 2560, 4096});
  for (const int64_t threads : {1, 16}) bench->Args({q4s, 512, threads, 9728, 2560});
}

// range: which of PanelKernels(), dtype, rows. One thread, the same matrix as above.
void Panels(benchmark::State& state) {
  const PanelKernel& kernel = PanelKernels()[static_cast<size_t>(state.range(0))];
  const auto dtype = static_cast<DType>(state.range(1));
  const auto rows = static_cast<size_t>(state.range(2));
  state.SetLabel(std::string(kernel.name) + " " + std::string(DTypeName(dtype)));
  if (!kernel.runs_here()) return state.SkipWithError("this processor lacks it");
  constexpr size_t kK = 2560;
  constexpr size_t kN = 4096;
  const StoredWeights weights(dtype, kN, kK, rows);
  const std::vector<float> in = RandomFloats(rows * kK);
  std::vector<IntegerInput> prepared(rows * kK / 256);
  std::vector<float> out(rows * kN);
  size_t next = 0;
  for (auto _ : state) {
    for (size_t row = 0; row < rows; ++row)
      kernel.prepare({in.data() + row * kK, kK}, prepared.data() + row * kK / 256);
    PanelProduct product;
    product.in = prepared.data();
    product.rows = rows;
    product.weight = weights.each[next++ % weights.each.size()].matrix;
    product.out = out.data();
    product.out_stride = kN;
    kernel.run(product, product.first_panel(), product.end_panel());
    benchmark::DoNotOptimize(out.data());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * weights.each[0].bytes()));
  state.counters["GMAC/s"] = benchmark::Counter(
      1e-9 * static_cast<double>(state.iterations() * rows * kK * kN), benchmark::Counter::kIsRate);
}

void PanelCases(benchmark::internal::Benchmark* bench) {
  // The last one is the scalar one.
  for (int64_t kernel = 0; kernel + 1 < static_cast<int64_t>(PanelKernels().size()); ++kernel)
    for (const DType dtype : {DType::kQ4S, DType::kQ4K, DType::kQ6K})
      for (const int64_t rows : {1, 2, 4, 8, 16, 64, 512})
        bench->Args({kernel, static_cast<int64_t>(dtype), rows});
}

// range: rows, positions. 16 heads of 128 columns share 8 kv heads; the rows are a session's last.
// Eight layers' pages take turns, so that decoding finds none in the second cache.
void Attention(benchmark::State& state) {
  constexpr KvShape kShape = {8, 128};
  constexpr size_t kHeads = 16, kLayers = 8;
  const auto rows = static_cast<size_t>(state.range(0));
  const auto positions = static_cast<size_t>(state.range(1));
  std::vector<std::vector<uint16_t>> memory;
  std::vector<std::vector<void*>> pages(kLayers);
  for (auto& layer : pages) {
    for (size_t i = 0; i < positions / kPagePositions; ++i) {
      memory.emplace_back(kShape.page_elements());
      for (size_t at = 0; at < kShape.page_elements(); ++at)
        memory.back()[at] = static_cast<uint16_t>(0x2c00 + (at * 7 + i) % 900);
      layer.push_back(memory.back().data());
    }
  }
  const size_t columns = kHeads * kShape.head_columns;
  const std::vector<float> q = RandomFloats(rows * columns);
  std::vector<float> out(rows * columns);
  Workspace workspace(1);
  size_t next = 0;
  for (auto _ : state) {
    std::vector<AttentionRow> kv_rows;
    for (size_t r = 0; r < rows; ++r)
      kv_rows.push_back(
          {static_cast<uint32_t>(positions - rows + r), pages[next % kLayers].data()});
    ++next;
    AttentionArgs args;
    args.q = {q.data(), rows, columns, columns};
    args.heads = kHeads;
    args.kv = kShape;
    args.scale = 0.1f;
    args.kv_rows = kv_rows;
    args.out = {out.data(), rows, columns, columns};
    FastKernels().attention(args, workspace);
    benchmark::DoNotOptimize(out.data());
  }
}

// range: DType. Checks and packs 2,560 x 4,096, as loading does.
void Packing(benchmark::State& state) {
  const StoredWeights weights(static_cast<DType>(state.range(0)), 4096, 2560, 512);
  const StoredWeight& weight = weights.each[0];
  Matrix stored = weight.matrix;
  stored.data = weight.data.data();
  stored.scale = weight.scale.data();
  stored.panels = nullptr;
  auto* panels = const_cast<uint8_t*>(weight.matrix.panels);
  for (auto _ : state) CHECK(PackPanels(stored, panels).ok());
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * weight.bytes()));
}

BENCHMARK(Packing)
    ->ArgName("form")
    ->DenseRange(static_cast<int64_t>(DType::kQ4S), static_cast<int64_t>(DType::kQ6K))
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(Attention)
    ->ArgsProduct({{1, 8, 128}, {2048}})
    ->Args({1, 256})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(Panels)->Apply(PanelCases)->Unit(benchmark::kMicrosecond);
BENCHMARK(ReadBandwidth)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(MatMul)->Apply(MatMulCases)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace weft::kernels

BENCHMARK_MAIN();
