// q4s with AVX-512 VNNI: four bytes times four bytes a 32-bit lane (vpdpbusd), sixteen outputs a
// register.
//
// Few rows read a weight once and are bound by memory. Levels q = 0..15 are multiplied as they are
// stored; after 16 columns H and L fit 16 bits, lie side by side in a lane, and one instruction
// (vpdpwssd) adds 256 m * H + m * L.
//
// More rows share bytes m * (q - 8) + 128, made once for all of them: an instruction for 64
// products then, and nothing beside it. 128 times the sum of a row's x is taken off at the end.
#include "kernels/panel_x86.h"
#include "kernels/q4s_panels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

namespace weft::kernels {

bool HasVnni512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}

WEFT_BEGIN_TARGET("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c");

namespace {

inline __m512i Word(const int8_t* four) {
  int32_t word;
  std::memcpy(&word, four, 4);
  return _mm512_set1_epi32(word);
}
inline __m512i Low(__m512i nibbles) {
  return _mm512_and_si512(nibbles, _mm512_set1_epi8(15));
}
inline __m512i High(__m512i nibbles) {
  return Low(_mm512_srli_epi16(nibbles, 4));
}
inline __m512 ScalesOf(const PanelPart& part) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(part.scales())));
}
inline __m512 AddScaled(__m512i sum, __m512 scales, float scale, __m512 y) {
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(scales, _mm512_set1_ps(scale)), y);
}

// ---- few rows

// The two halves of a lane: m for L and 256 m for H, for |m| = 0 to 15.
inline __m512i PairTable(int sign) {
  const __m512i m = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i pairs = _mm512_or_si512(m, _mm512_slli_epi32(m, 24));
  return sign > 0 ? pairs : _mm512_sub_epi16(_mm512_setzero_si512(), pairs);
}

// 16 columns of a row: -8 times the sums of its bytes is where the sums of q * x begin.
inline __m512i AddColumns(const __m512i (&q)[4], const IntegerInput& in, size_t i, __m512i m,
                          __m512i sum) {
  __m512i h = _mm512_set1_epi32(in.high_zero[i]);
  __m512i l = _mm512_set1_epi32(in.low_zero[i]);
  WEFT_UNROLL
  for (size_t j = 0; j < 4; ++j) {
    h = _mm512_dpbusd_epi32(h, q[j], Word(in.high + 16 * i + 4 * j));
    l = _mm512_dpbusd_epi32(l, q[j], Word(in.low + 16 * i + 4 * j));
  }
  const __m512i both = _mm512_mask_blend_epi16(0xaaaaaaaau, l, _mm512_slli_epi32(h, 16));
  return _mm512_dpwssd_epi32(sum, both, m);
}

// A superblock of kPanels panels for kRows rows.
template <size_t kRows, size_t kPanels>
inline void AddSuperblock(const PanelPart (&parts)[kPanels], const IntegerInput* in, size_t stride,
                          __m512i positive, __m512i negative, __m512 (&y)[kRows][kPanels]) {
  __m512i sum[kRows][kPanels];
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) WEFT_UNROLL
  for (size_t p = 0; p < kPanels; ++p) sum[r][p] = _mm512_setzero_si512();
  for (size_t i = 0; i < parts[0].blocks * 2; ++i) {
    const __m512i shift = _mm512_set1_epi32(static_cast<int>(i % 8 * 4));
    WEFT_UNROLL
    for (size_t p = 0; p < kPanels; ++p) {
      const uint8_t* at = parts[p].nibbles + i * 128;
      __builtin_prefetch(at + 4096);
      __builtin_prefetch(at + 4096 + 64);
      const __m512i a = _mm512_loadu_si512(at), c = _mm512_loadu_si512(at + 64);
      const __m512i q[4] = {Low(a), High(a), Low(c), High(c)};
      // The permutation looks at the low four bits alone.
      const __m512i magnitude = _mm512_srlv_epi32(
          _mm512_loadu_si512(parts[p].magnitudes() + i / 8 * kPanelOutputs), shift);
      const __m512i m = _mm512_mask_permutexvar_epi32(_mm512_permutexvar_epi32(magnitude, positive),
                                                      parts[p].signs()[i], magnitude, negative);
      WEFT_UNROLL
      for (size_t r = 0; r < kRows; ++r) sum[r][p] = AddColumns(q, in[r * stride], i, m, sum[r][p]);
    }
  }
  WEFT_UNROLL
  for (size_t p = 0; p < kPanels; ++p) {
    const __m512 scales = ScalesOf(parts[p]);
    WEFT_UNROLL
    for (size_t r = 0; r < kRows; ++r)
      y[r][p] = AddScaled(sum[r][p], scales, in[r * stride].scale, y[r][p]);
  }
}

template <size_t kRows, size_t kPanels>
void RunFew(const PanelProduct& product, size_t panel, size_t row) {
  const size_t superblocks = product.superblocks();
  const __m512i positive = PairTable(1), negative = PairTable(-1);
  __m512 y[kRows][kPanels];
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) WEFT_UNROLL
  for (size_t p = 0; p < kPanels; ++p) y[r][p] = _mm512_setzero_ps();
  for (size_t b = 0; b < superblocks; ++b) {
    PanelPart parts[kPanels];
    WEFT_UNROLL
    for (size_t p = 0; p < kPanels; ++p)
      parts[p] = PartOf(product.Panel(panel + p), product.weight.columns, b);
    AddSuperblock<kRows, kPanels>(parts, product.in + row * superblocks + b, superblocks, positive,
                                  negative, y);
  }
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    WEFT_UNROLL
    for (size_t p = 0; p < kPanels; ++p) {
      alignas(64) float values[kPanelOutputs];
      _mm512_store_ps(values, y[r][p]);
      StorePanel(product, panel + p, row + r, values);
    }
  }
}

template <size_t kRows>
void RunFewRows(const PanelProduct& product, size_t first, size_t end, size_t row) {
  constexpr size_t kPanels = kRows == 1 ? 4 : 2;
  size_t panel = first;
  for (; panel + kPanels <= end; panel += kPanels) RunFew<kRows, kPanels>(product, panel, row);
  for (; panel < end; ++panel) RunFew<kRows, 1>(product, panel, row);
}

// ---- many rows

constexpr size_t kPair = 2;        // panels that share the loads of a row
constexpr size_t kTileRows = 6;    // 6 x 2 outputs, two sums each: 24 registers
constexpr size_t kPassRows = 96;   // whose superblocks stay in the second cache
constexpr size_t kPassPanels = 4;  // whose bytes stay in the first

// m * (q - 8) + 128 of one superblock: [64][16] words of four columns.
struct alignas(64) PanelBytesOf {
  uint8_t bytes[64][64];
};

// m of 16 outputs, each in both halves of its lane.
inline __m512i Twice(__m512i m) {
  return _mm512_or_si512(_mm512_and_si512(m, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32(m, 16));
}

// Products of bytes, each below 256, by two multiplications of every other byte.
inline __m512i TimesBytes(__m512i q, __m512i m, __m512i zero) {
  const __m512i even = _mm512_mullo_epi16(_mm512_and_si512(q, _mm512_set1_epi16(0x00ff)), m);
  const __m512i odd = _mm512_mullo_epi16(_mm512_srli_epi16(q, 8), m);
  const __m512i both =
      _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaaull, even, _mm512_slli_epi16(odd, 8));
  return _mm512_add_epi8(both, zero);
}

void Expand(const PanelPart& part, PanelBytesOf* out) {
  for (size_t i = 0; i < part.blocks * 2; ++i) {
    const __m512i shift = _mm512_set1_epi32(static_cast<int>(i % 8 * 4));
    const __m512i magnitudes = _mm512_loadu_si512(part.magnitudes() + i / 8 * kPanelOutputs);
    const __m512i magnitude =
        _mm512_and_si512(_mm512_srlv_epi32(magnitudes, shift), _mm512_set1_epi32(15));
    const __m512i m =
        _mm512_mask_sub_epi32(magnitude, part.signs()[i], _mm512_setzero_si512(), magnitude);
    const __m512i twice = Twice(m);
    // 128 - 8 m in every byte.
    const __m512i zero16 = _mm512_sub_epi16(_mm512_set1_epi16(128), _mm512_slli_epi16(twice, 3));
    const __m512i zero = _mm512_or_si512(_mm512_and_si512(zero16, _mm512_set1_epi16(0x00ff)),
                                         _mm512_slli_epi16(zero16, 8));
    const __m512i a = _mm512_loadu_si512(part.nibbles + i * 128);
    const __m512i c = _mm512_loadu_si512(part.nibbles + i * 128 + 64);
    _mm512_store_si512(out->bytes[4 * i], TimesBytes(Low(a), twice, zero));
    _mm512_store_si512(out->bytes[4 * i + 1], TimesBytes(High(a), twice, zero));
    _mm512_store_si512(out->bytes[4 * i + 2], TimesBytes(Low(c), twice, zero));
    _mm512_store_si512(out->bytes[4 * i + 3], TimesBytes(High(c), twice, zero));
  }
}

// y [kPassRows] of a panel.
struct alignas(64) PanelSums {
  float y[kPassRows][kPanelOutputs];
};

template <size_t kRows>
inline void AddTile(const PanelBytesOf* bytes, size_t words, const __m512 (&scales)[kPair],
                    const IntegerInput* in, size_t stride, PanelSums* sums, size_t row) {
  __m512i high[kRows][kPair], low[kRows][kPair];
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    WEFT_UNROLL
    for (size_t p = 0; p < kPair; ++p) {
      high[r][p] = _mm512_setzero_si512();
      low[r][p] = _mm512_set1_epi32(in[r * stride].byte_zero);
    }
  }
  for (size_t j = 0; j < words; ++j) {
    const __m512i w[kPair] = {_mm512_load_si512(bytes[0].bytes[j]),
                              _mm512_load_si512(bytes[1].bytes[j])};
    WEFT_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      const __m512i h = Word(in[r * stride].high + 4 * j);
      const __m512i l = Word(in[r * stride].low + 4 * j);
      WEFT_UNROLL
      for (size_t p = 0; p < kPair; ++p) {
        high[r][p] = _mm512_dpbusd_epi32(high[r][p], w[p], h);
        low[r][p] = _mm512_dpbusd_epi32(low[r][p], w[p], l);
      }
    }
  }
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    WEFT_UNROLL
    for (size_t p = 0; p < kPair; ++p) {
      const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high[r][p], 8), low[r][p]);
      float* y = sums[p].y[row + r];
      _mm512_store_ps(y, AddScaled(sum, scales[p], in[r * stride].scale, _mm512_load_ps(y)));
    }
  }
}

// Rows [row, row + count) of one pair of panels and one superblock.
inline void AddRows(const PanelBytesOf* bytes, size_t words, const __m512 (&scales)[kPair],
                    const IntegerInput* in, size_t stride, PanelSums* sums, size_t count) {
  size_t r = 0;
  for (; r + kTileRows <= count; r += kTileRows)
    AddTile<kTileRows>(bytes, words, scales, in + r * stride, stride, sums, r);
  for (; r + 2 <= count; r += 2) AddTile<2>(bytes, words, scales, in + r * stride, stride, sums, r);
  if (r < count) AddTile<1>(bytes, words, scales, in + r * stride, stride, sums, r);
}

// Panels [first, end), at most kPassPanels, of rows [row, row + count), at most kPassRows.
void RunPass(const PanelProduct& product, size_t first, size_t end, size_t row, size_t count) {
  const size_t superblocks = product.superblocks();
  PanelSums sums[kPassPanels];
  std::memset(sums, 0, sizeof(sums));
  PanelBytesOf bytes[kPassPanels];
  for (size_t b = 0; b < superblocks; ++b) {
    for (size_t pair = first; pair < end; pair += kPair) {
      __m512 scales[kPair];
      PanelBytesOf* at = bytes + (pair - first);
      WEFT_UNROLL
      for (size_t p = 0; p < kPair; ++p) {
        // An odd last panel is computed twice.
        const size_t panel = pair + p < end ? pair + p : end - 1;
        const PanelPart part = PartOf(product.Panel(panel), product.weight.columns, b);
        scales[p] = ScalesOf(part);
        Expand(part, at + p);
      }
      const size_t words = BlocksInSuperblock(product.weight.columns, b) * 8;
      AddRows(at, words, scales, product.in + row * superblocks + b, superblocks,
              sums + (pair - first), count);
    }
  }
  for (size_t panel = first; panel < end; ++panel)
    for (size_t r = 0; r < count; ++r)
      StorePanel(product, panel, row + r, sums[panel - first].y[r]);
}

// Bytes are worth making from so many rows on (measured).
constexpr size_t kManyRows = 10;

void RunSome(const PanelProduct& product, size_t first, size_t end) {
  size_t row = 0;
  for (; row + 4 <= product.rows; row += 4) RunFewRows<4>(product, first, end, row);
  switch (product.rows - row) {
    case 3:
      return RunFewRows<3>(product, first, end, row);
    case 2:
      return RunFewRows<2>(product, first, end, row);
    case 1:
      return RunFewRows<1>(product, first, end, row);
    default:
      return;
  }
}

}  // namespace

void RunQ4sVnni512(const PanelProduct& product, size_t first, size_t end) {
  if (product.rows < kManyRows) return RunSome(product, first, end);
  for (size_t row = 0; row < product.rows; row += kPassRows) {
    const size_t left = product.rows - row;
    for (size_t panel = first; panel < end; panel += kPassPanels) {
      RunPass(product, panel, panel + kPassPanels < end ? panel + kPassPanels : end, row,
              left < kPassRows ? left : kPassRows);
    }
  }
}

WEFT_END_TARGET;

}  // namespace weft::kernels

#endif  // __x86_64__
