// Superblocks where bytes are multiplied in pairs (pmaddubsw), and 16-bit numbers, too (pmaddwd),
// whatever the width of registers: SSSE3 and AVX2. A file includes it once, behind
// registers_128-inl.h or registers_256-inl.h and
//   BytePairs(q, x)    sums of two products of unsigned q with signed x, in 16 bits
//   HalfPairs(a, b)    sums of two products of signed 16-bit numbers, a lane
//   kPanelsOfOneRow, kPanelsOfFewRows, kTileRows, kManyRows: what was measured

namespace q4s {

#include "kernels/q4s_parts-inl.h"

// m in both halves of a lane.
inline Ints Pairs(Ints magnitudes, size_t i, uint32_t signs) {
  const Ints m = Negated(And(ShiftRight(magnitudes, 4 * i), AllWords(15)), signs);
  return Halves(m, ShiftLeft(m, 16));
}

// Few rows: 8 columns a 16-bit lane are at most 8 * 15 * 128 = 15,360, and -8 times the sum of 16
// bytes, in one of both lanes, at most 16,384: 31,744 fits. One more multiplication then adds the
// pairs and multiplies by m, or by 256 m.

// 16 columns of bytes in 16-bit halves; `zero` is -8 times their sum.
inline Ints DotOf16(const Ints (&q)[4], const int8_t* x, int32_t zero) {
  const Ints first = AddHalves(BytePairs(q[0], WordOf(x)), BytePairs(q[1], WordOf(x + 4)));
  const Ints second = AddHalves(BytePairs(q[2], WordOf(x + 8)), BytePairs(q[3], WordOf(x + 12)));
  return AddHalves(AllWords(zero & 0xffff), AddHalves(first, second));
}
inline Ints AddColumns(const Ints (&q)[4], const IntegerInput& in, size_t i, Ints m, Ints sum) {
  const Ints h = DotOf16(q, in.high + 16 * i, in.high_zero[i]);
  const Ints l = DotOf16(q, in.low + 16 * i, in.low_zero[i]);
  return AddInts(sum, AddInts(HalfPairs(h, HalvesUp(m, 8)), HalfPairs(l, m)));
}

#include "kernels/q4s_few-inl.h"

// Many rows share weights m * (q - 8) in 16 bits, and x is one number of 16 bits again. Of four
// columns the even ones are a word of an output, and the odd ones the next, as bytes of a lane fall
// apart. A sum over 256 columns is at most 256 * 120 * 32,639.

struct alignas(64) PanelWords {
  uint8_t even[64][64];  // [four columns][output]
  uint8_t odd[64][64];
};
struct alignas(64) RowWords {
  int32_t even[64], odd[64];
};

inline void Widen(const PanelPart& part, PanelWords* out) {
  for (size_t i = 0; i < part.blocks * 2; ++i) {
    __builtin_prefetch(part.nibbles + i * 128 + 4096);
    __builtin_prefetch(part.nibbles + i * 128 + 4096 + 64);
    for (size_t first = 0; first < kPanelOutputs; first += kLanes) {
      const Ints m = Pairs(MagnitudesOf(part, i, first), i % 8,
                           static_cast<uint32_t>(part.signs()[i]) >> first);
      const Ints zero = SubtractHalves(ZeroInts(), HalvesUp(m, 3));
      const Ints a = LoadInts(part.nibbles + i * 128 + first * 4);
      const Ints c = LoadInts(part.nibbles + i * 128 + 64 + first * 4);
      const Ints q[4] = {Low(a), High(a), Low(c), High(c)};
      WEFT_UNROLL
      for (size_t j = 0; j < 4; ++j) {
        const Ints even = And(q[j], AllWords(0x00ff00ff)), odd = HalvesDown(q[j], 8);
        StoreInts(out->even[4 * i + j] + first * 4, AddHalves(TimesHalves(even, m), zero));
        StoreInts(out->odd[4 * i + j] + first * 4, AddHalves(TimesHalves(odd, m), zero));
      }
    }
  }
}
inline void Widen(const IntegerInput& in, RowWords* out) {
  for (size_t c = 0; c < 256; c += 4 * kLanes) {
    const Ints high = LoadInts(reinterpret_cast<const uint8_t*>(in.high + c));
    const Ints low = LoadInts(reinterpret_cast<const uint8_t*>(in.low + c));
    const Ints even = AddHalves(HalvesUp(high, 8), HalvesDownSigned8(HalvesUp(low, 8)));
    const Ints odd = AddHalves(HalvesUp(HalvesDown(high, 8), 8), HalvesDownSigned8(low));
    StoreInts(reinterpret_cast<uint8_t*>(out->even + c / 4), even);
    StoreInts(reinterpret_cast<uint8_t*>(out->odd + c / 4), odd);
  }
}

constexpr size_t kPassRows = 64;  // whose superblocks stay in the second cache
constexpr size_t kPassPanels = 4;
constexpr size_t kTileGroups = kLanes == 8 ? 2 : 4;
static_assert(kTileGroups * kLanes == kPanelOutputs);

// Adds a tile of rows and all outputs of a panel to `y`, over `fours` times four columns.
template <size_t kRows>
__attribute__((noinline)) void AddTile(const PanelWords& weights, size_t fours,
                                       const Floats (&scales)[kTileGroups], const RowWords* x,
                                       const IntegerInput* in, size_t stride,
                                       float (*y)[kPanelOutputs]) {
  Ints sum[kTileGroups][kRows];
  WEFT_UNROLL
  for (size_t g = 0; g < kTileGroups; ++g) WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) sum[g][r] = ZeroInts();
  const auto add = [&](const uint8_t* bytes, const int32_t* word) {
    Ints w[kTileGroups];
    WEFT_UNROLL
    for (size_t g = 0; g < kTileGroups; ++g) w[g] = LoadInts(bytes + g * kLanes * 4);
    WEFT_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      const Ints all = AllWords(word[r * (sizeof(RowWords) / sizeof(int32_t))]);
      WEFT_UNROLL
      for (size_t g = 0; g < kTileGroups; ++g) sum[g][r] = AddInts(sum[g][r], HalfPairs(w[g], all));
    }
  };
  for (size_t j = 0; j < fours; ++j) {
    add(weights.even[j], x->even + j);
    add(weights.odd[j], x->odd + j);
  }
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    WEFT_UNROLL
    for (size_t g = 0; g < kTileGroups; ++g) {
      float* at = y[r] + g * kLanes;
      StoreFloats(at, AddScaled(sum[g][r], scales[g], in[r * stride].scale, LoadFloats(at)));
    }
  }
}

template <size_t kRows>
inline void AddTileOf(size_t count, const PanelWords& weights, size_t fours,
                      const Floats (&scales)[kTileGroups], const RowWords* x,
                      const IntegerInput* in, size_t stride, float (*y)[kPanelOutputs]) {
  if constexpr (kRows > 1) {
    if (count < kRows) return AddTileOf<kRows - 1>(count, weights, fours, scales, x, in, stride, y);
  }
  AddTile<kRows>(weights, fours, scales, x, in, stride, y);
}

// Panels [first, end), at most kPassPanels, of rows [row, row + count), at most kPassRows.
void RunPass(const PanelProduct& product, size_t first, size_t end, size_t row, size_t count) {
  const size_t superblocks = product.superblocks();
  alignas(64) float y[kPassPanels][kPassRows][kPanelOutputs];
  std::memset(y, 0, sizeof(y));
  RowWords x[kPassRows];
  PanelWords weights;
  for (size_t b = 0; b < superblocks; ++b) {
    const IntegerInput* in = product.in + row * superblocks + b;
    for (size_t r = 0; r < count; ++r) Widen(in[r * superblocks], &x[r]);
    for (size_t panel = first; panel < end; ++panel) {
      const PanelPart part = PartOf(product.Panel(panel), product.weight.columns, b);
      Widen(part, &weights);
      Floats scales[kTileGroups];
      WEFT_UNROLL
      for (size_t g = 0; g < kTileGroups; ++g) scales[g] = ScalesOf(part, g * kLanes);
      const size_t tiles = (count + kTileRows - 1) / kTileRows;
      for (size_t tile = 0, r = 0; tile < tiles; ++tile) {
        const size_t next = (tile + 1) * count / tiles;
        AddTileOf<kTileRows>(next - r, weights, part.blocks * 8, scales, x + r,
                             in + r * superblocks, superblocks, y[panel - first] + r);
        r = next;
      }
    }
  }
  for (size_t panel = first; panel < end; ++panel)
    for (size_t r = 0; r < count; ++r) StorePanel(product, panel, row + r, y[panel - first][r]);
}

inline void RunQ4s(const PanelProduct& product, size_t first, size_t end) {
  if (product.rows < kManyRows) return RunSome(product, first, end);
  const size_t passes = (product.rows + kPassRows - 1) / kPassRows;
  for (size_t pass = 0, row = 0; pass < passes; ++pass) {
    const size_t next = (pass + 1) * product.rows / passes;
    for (size_t panel = first; panel < end; panel += kPassPanels)
      RunPass(product, panel, panel + kPassPanels < end ? panel + kPassPanels : end, row,
              next - row);
    row = next;
  }
}

}  // namespace q4s

namespace kquants {

constexpr size_t kPanelsOfOneRow = 1;
constexpr size_t kTileRows = 2;

// At most 63 * 128 * 2 a pair.
inline Ints Dot(Ints sum, Ints q, const int8_t* x) {
  return AddInts(sum, HalfPairs(BytePairs(q, WordOf(x)), AllWords(0x00010001)));
}

#include "kernels/kquant-inl.h"

}  // namespace kquants

inline void RunPanels(const PanelProduct& product, size_t first, size_t end) {
  if (IsKQuant(product.weight.dtype)) return kquants::RunKQuants(product, first, end);
  q4s::RunQ4s(product, first, end);
}
