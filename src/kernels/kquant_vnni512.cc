// q4k, q5k and q6k with AVX-512 VNNI: four levels times four bytes a 32-bit lane (vpdpbusd),
// sixteen outputs a register. After 32 columns (q6k: 16) that share a scale, the sums of q * high
// and of q * low are multiplied by it. Levels are made once for up to four rows.
//
// Minima times sums of x are dots of bytes, too: eight m of an output are two words of the record
// once unpacked, and the eight sums of a row lie in three planes of bytes.
#include "kernels/kquant_panels.h"
#include "kernels/panel_x86.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

namespace weft::kernels {

WEFT_BEGIN_TARGET("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c");

namespace {

inline __m512i Word(const int8_t* four) {
  int32_t word;
  std::memcpy(&word, four, 4);
  return _mm512_set1_epi32(word);
}
inline __m512i Bytes(int byte) {
  return _mm512_set1_epi8(static_cast<char>(byte));
}
// The high two bits of each byte, as bits 4 and 5.
inline __m512i TopBits(__m512i packed) {
  return _mm512_and_si512(_mm512_srli_epi16(packed, 2), Bytes(0x30));
}
inline __m512i ShiftRight(__m512i words, size_t bits) {
  return _mm512_srlv_epi32(words, _mm512_set1_epi32(static_cast<int>(bits)));
}
inline __m512 Halves(const uint8_t* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}

// A superblock of a panel.
template <DType kForm>
struct Part {
  static constexpr KQuantLayout kLayout = LayoutOf(kForm);
  const uint8_t* at;

  __m512i Words(size_t offset, size_t i) const { return _mm512_loadu_si512(at + offset + i * 64); }

  // The levels of 32 columns, four columns a register.
  void Levels(size_t j, __m512i (&q)[8]) const {
    WEFT_UNROLL
    for (size_t t = 0; t < 4; ++t) {
      const uint8_t* nibbles = at + (4 * j + t) * 64;
      __builtin_prefetch(nibbles + 4096);
      const __m512i both = _mm512_loadu_si512(nibbles);
      q[2 * t] = _mm512_and_si512(both, Bytes(15));
      q[2 * t + 1] = _mm512_and_si512(_mm512_srli_epi16(both, 4), Bytes(15));
    }
    if constexpr (kForm == DType::kQ5K) {
      const __m512i fifth = Words(kLayout.upper, j);
      WEFT_UNROLL
      for (size_t k = 0; k < 8; ++k)
        q[k] = _mm512_or_si512(
            q[k], _mm512_slli_epi16(_mm512_and_si512(ShiftRight(fifth, k), Bytes(1)), 4));
    }
    if constexpr (kForm == DType::kQ6K) {
      WEFT_UNROLL
      for (size_t k = 0; k < 8; ++k) {
        const __m512i upper = Words(kLayout.upper, 2 * j + k / 4);
        q[k] = _mm512_or_si512(
            q[k], _mm512_slli_epi16(_mm512_and_si512(ShiftRight(upper, k % 4 * 2), Bytes(3)), 4));
      }
    }
  }
};

// s and m of a superblock, four bytes a lane.
template <DType kForm>
struct Scales {
  __m512i s[kForm == DType::kQ6K ? 4 : 2];
  __m512i m[2];

  explicit Scales(const Part<kForm>& part) {
    constexpr KQuantLayout kLayout = LayoutOf(kForm);
    if constexpr (kForm == DType::kQ6K) {
      WEFT_UNROLL
      for (size_t i = 0; i < 4; ++i) s[i] = part.Words(kLayout.scales, i);
    } else {
      const __m512i a = part.Words(kLayout.scales, 0), b = part.Words(kLayout.scales, 1),
                    c = part.Words(kLayout.scales, 2);
      s[0] = _mm512_and_si512(a, Bytes(63));
      m[0] = _mm512_and_si512(b, Bytes(63));
      s[1] = _mm512_or_si512(_mm512_and_si512(c, Bytes(15)), TopBits(a));
      m[1] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(c, 4), Bytes(15)), TopBits(b));
    }
  }
  // Scale `i`: of 32 columns, in q6k of 16.
  __m512i Of(size_t i) const {
    if constexpr (kForm == DType::kQ6K) {
      const auto shift = static_cast<int>(24 - i % 4 * 8);
      return _mm512_srai_epi32(_mm512_sllv_epi32(s[i / 4], _mm512_set1_epi32(shift)), 24);
    } else {
      return _mm512_and_si512(ShiftRight(s[i / 4], i % 4 * 8), _mm512_set1_epi32(255));
    }
  }
};

struct Sums {
  __m512i high, low;
};

// Adds s times the sums of q * high and of q * low of 4 * kCount columns from `column` on.
template <size_t kCount>
inline void AddColumns(const __m512i* q, const IntegerInput& in, size_t column, __m512i high,
                       __m512i low, __m512i s, Sums* sums) {
  WEFT_UNROLL
  for (size_t k = 0; k < kCount; ++k) {
    high = _mm512_dpbusd_epi32(high, q[k], Word(in.high + column + 4 * k));
    low = _mm512_dpbusd_epi32(low, q[k], Word(in.low + column + 4 * k));
  }
  sums->high = _mm512_add_epi32(sums->high, _mm512_mullo_epi32(high, s));
  sums->low = _mm512_add_epi32(sums->low, _mm512_mullo_epi32(low, s));
}

// The sum of m times the row's sums.
inline __m512 Minima(const __m512i (&m)[2], const IntegerInput& in) {
  __m512i sum = _mm512_setzero_si512();
  WEFT_UNROLL
  for (size_t plane = 3; plane-- > 0;) {
    sum = _mm512_slli_epi32(sum, 8);
    sum = _mm512_dpbusd_epi32(sum, m[0], Word(in.sums[plane]));
    sum = _mm512_dpbusd_epi32(sum, m[1], Word(in.sums[plane] + 4));
  }
  return _mm512_cvtepi32_ps(sum);
}

template <DType kForm, size_t kRows>
inline void AddSuperblock(const Part<kForm>& part, const IntegerInput* in, size_t stride,
                          __m512* y) {
  constexpr KQuantLayout kLayout = LayoutOf(kForm);
  const Scales<kForm> scales(part);
  Sums sums[kRows];
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) sums[r] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  for (size_t j = 0; j < 8; ++j) {
    __m512i q[8];
    part.Levels(j, q);
    if constexpr (kForm == DType::kQ6K) {
      WEFT_UNROLL
      for (size_t i = 0; i < 2; ++i) {
        const __m512i s = scales.Of(2 * j + i);
        WEFT_UNROLL
        for (size_t r = 0; r < kRows; ++r) {
          const IntegerInput& row = in[r * stride];
          // -32 times the sums of 16 bytes.
          AddColumns<4>(q + 4 * i, row, 32 * j + 16 * i,
                        _mm512_set1_epi32(4 * row.high_zero[2 * j + i]),
                        _mm512_set1_epi32(4 * row.low_zero[2 * j + i]), s, &sums[r]);
        }
      }
    } else {
      const __m512i s = scales.Of(j), zero = _mm512_setzero_si512();
      WEFT_UNROLL
      for (size_t r = 0; r < kRows; ++r)
        AddColumns<8>(q, in[r * stride], 32 * j, zero, zero, s, &sums[r]);
    }
  }
  const __m512 d = Halves(part.at + kLayout.factors);
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    const IntegerInput& row = in[r * stride];
    const __m512 scale = _mm512_set1_ps(row.scale);
    const __m512 both = _mm512_mul_ps(d, scale);
    y[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[r].high),
                           _mm512_mul_ps(_mm512_set1_ps(256), both), y[r]);
    y[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[r].low), both, y[r]);
    if constexpr (kForm != DType::kQ6K) {
      const __m512 e = Halves(part.at + kLayout.factors + 2 * kPanelOutputs);
      y[r] = _mm512_fnmadd_ps(Minima(scales.m, row), _mm512_mul_ps(e, scale), y[r]);
    }
  }
}

// kPanels panels that follow each other, so that their sums do not wait for each other.
template <DType kForm, size_t kRows, size_t kPanels>
void RunTile(const PanelProduct& product, size_t panel, size_t row) {
  const size_t superblocks = product.superblocks();
  __m512 y[kPanels][kRows];
  WEFT_UNROLL
  for (size_t p = 0; p < kPanels; ++p) WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) y[p][r] = _mm512_setzero_ps();
  for (size_t b = 0; b < superblocks; ++b) {
    WEFT_UNROLL
    for (size_t p = 0; p < kPanels; ++p) {
      const Part<kForm> part{product.Panel(panel + p) + b * LayoutOf(kForm).end};
      AddSuperblock<kForm, kRows>(part, product.in + row * superblocks + b, superblocks, y[p]);
    }
  }
  WEFT_UNROLL
  for (size_t p = 0; p < kPanels; ++p) {
    WEFT_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      alignas(64) float values[kPanelOutputs];
      _mm512_store_ps(values, y[p][r]);
      StorePanel(product, panel + p, row + r, values);
    }
  }
}

template <DType kForm, size_t kRows>
void RunRows(const PanelProduct& product, size_t first, size_t end, size_t row) {
  constexpr size_t kPanels = kRows == 1 ? 2 : 1;
  size_t panel = first;
  for (; panel + kPanels <= end; panel += kPanels)
    RunTile<kForm, kRows, kPanels>(product, panel, row);
  for (; panel < end; ++panel) RunTile<kForm, kRows, 1>(product, panel, row);
}

constexpr size_t kTileRows = 4;
constexpr size_t kPassRows = 64;  // whose superblocks stay in the second cache

template <DType kForm>
void RunForm(const PanelProduct& product, size_t first, size_t end) {
  for (size_t pass = 0; pass < product.rows; pass += kPassRows) {
    const size_t pass_end = pass + kPassRows < product.rows ? pass + kPassRows : product.rows;
    // A panel is read again from the caches for every tile of a pass.
    const size_t step = pass_end - pass > kTileRows ? 1 : end - first;
    for (size_t panel = first; panel < end; panel += step) {
      size_t row = pass;
      for (; row + kTileRows <= pass_end; row += kTileRows)
        RunRows<kForm, kTileRows>(product, panel, panel + step, row);
      switch (pass_end - row) {
        case 3:
          RunRows<kForm, 3>(product, panel, panel + step, row);
          break;
        case 2:
          RunRows<kForm, 2>(product, panel, panel + step, row);
          break;
        case 1:
          RunRows<kForm, 1>(product, panel, panel + step, row);
          break;
        default:
          break;
      }
    }
  }
}

}  // namespace

void RunKQuantVnni512(const PanelProduct& product, size_t first, size_t end) {
  switch (product.weight.dtype) {
    case DType::kQ4K:
      return RunForm<DType::kQ4K>(product, first, end);
    case DType::kQ5K:
      return RunForm<DType::kQ5K>(product, first, end);
    default:
      return RunForm<DType::kQ6K>(product, first, end);
  }
}

WEFT_END_TARGET;

}  // namespace weft::kernels

#endif  // __x86_64__
