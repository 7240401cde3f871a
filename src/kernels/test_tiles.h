// For tests only: the kernel for tiles (amx-inl.h) over a scalar model of AMX, so that its bits are
// known on machines without such units, too.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/panel_matmul.h"
#include "kernels/q4s_panels.h"
#include "tensor/half.h"

namespace weft::kernels {
namespace tile_model {

struct PanelBytesOf {
  uint8_t bytes[64][64];
};
struct TileSums {
  int32_t high[16][16];
  int32_t low[16][16];
};

// m * (q - 8), four columns of 16 outputs after the other.
inline void Expand(const PanelPart& part, PanelBytesOf* out) {
  for (size_t c = 0; c < part.blocks * 32; ++c) {
    for (size_t o = 0; o < kPanelOutputs; ++o) {
      const int byte = part.nibbles[(c / 8 * kPanelOutputs + o) * 4 + c % 4];
      const int level = (c % 8 < 4 ? byte & 15 : byte >> 4) - 8;
      const uint32_t magnitudes = part.magnitudes()[c / 128 * kPanelOutputs + o];
      const auto m = static_cast<int>((magnitudes >> (c / 16 % 8 * 4)) & 15);
      const bool negative = ((part.signs()[c / 16] >> o) & 1) != 0;
      out->bytes[c / 4][o * 4 + c % 4] = static_cast<uint8_t>(level * (negative ? -m : m));
    }
  }
}

// tdpbssd as Intel's manual describes it: C [row][n] += sum over k and i of A [row][4 k + i] times
// B [k][4 n + i], signed bytes, 32-bit sums. Rows that were not configured are 0.
class Tiles {
 public:
  void Begin(size_t rows) {
    CHECK(rows_ == 0 && rows >= 1 && rows <= 16);
    rows_ = rows;
  }
  void End() { rows_ = 0; }
  void Clear() { sums_ = {}; }
  void Multiply(const int8_t* high, const int8_t* low, size_t stride_bytes, const uint8_t* b) {
    for (size_t row = 0; row < rows_; ++row) {
      Add(sums_.high[row], high + row * stride_bytes, b);
      Add(sums_.low[row], low + row * stride_bytes, b);
    }
  }
  void Store(TileSums* sums) const { *sums = sums_; }

 private:
  static void Add(int32_t (&c)[16], const int8_t* a, const uint8_t* b) {
    for (size_t k = 0; k < 16; ++k)
      for (size_t n = 0; n < 16; ++n)
        for (size_t i = 0; i < 4; ++i)
          c[n] += a[4 * k + i] * static_cast<int8_t>(b[64 * k + 4 * n + i]);
  }

  size_t rows_ = 0;
  TileSums sums_ = {};
};

inline void AddTileSums(const TileSums& sums, const PanelPart& part, const IntegerInput* in,
                        size_t stride, size_t rows, float (*y)[kPanelOutputs]) {
  for (size_t r = 0; r < rows; ++r) {
    for (size_t o = 0; o < kPanelOutputs; ++o) {
      const auto sum = static_cast<float>(sums.high[r][o] * 256 + sums.low[r][o]);
      y[r][o] = std::fma(sum, F16ToF32(part.scales()[o]) * in[r * stride].scale, y[r][o]);
    }
  }
}

#include "kernels/amx-inl.h"

inline void Run(const PanelProduct& product, size_t first, size_t end) {
  const size_t done = IsKQuant(product.weight.dtype) ? 0 : RunTiles(product, first, end);
  const PanelProduct rest = product.Rows(done, product.rows - done);
  if (rest.rows > 0) PanelKernels().back().run(rest, first, end);
}

}  // namespace tile_model

// All kernels, and the model behind them.
inline std::vector<PanelKernel> PanelKernelsAndModel() {
  std::vector<PanelKernel> kernels(PanelKernels().begin(), PanelKernels().end());
  kernels.push_back({"tile-model", [] { return true; }, PrepareIntegers, tile_model::Run});
  return kernels;
}

}  // namespace weft::kernels
