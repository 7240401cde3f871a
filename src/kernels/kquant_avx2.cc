// q4k, q5k and q6k with AVX2: levels times bytes in pairs (vpmaddubsw), at most 63 * 128 * 2 =
// 16,128, whose sums of four columns are 32-bit lanes (vpmaddwd with ones), eight outputs a
// register. Otherwise as kquant_vnni512.cc.
#include "kernels/kquant_panels.h"
#include "kernels/panel_x86.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

namespace weft::kernels {

WEFT_BEGIN_TARGET("avx2,fma,f16c");

namespace {

constexpr size_t kHalfBytes = 32;  // of eight outputs

inline __m256i Load(const uint8_t* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}
inline __m256i Word(const int8_t* four) {
  int32_t word;
  std::memcpy(&word, four, 4);
  return _mm256_set1_epi32(word);
}
inline __m256i Bytes(int byte) {
  return _mm256_set1_epi8(static_cast<char>(byte));
}
// The high two bits of each byte, as bits 4 and 5.
inline __m256i TopBits(__m256i packed) {
  return _mm256_and_si256(_mm256_srli_epi16(packed, 2), Bytes(0x30));
}
inline __m256i ShiftRight(__m256i words, size_t bits) {
  return _mm256_srlv_epi32(words, _mm256_set1_epi32(static_cast<int>(bits)));
}
inline __m256 Halves(const uint8_t* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}
inline __m256i Dot(__m256i sum, __m256i q, const int8_t* four) {
  const __m256i pairs = _mm256_maddubs_epi16(q, Word(four));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

// Eight outputs of a superblock of a panel.
template <DType kForm>
struct Part {
  static constexpr KQuantLayout kLayout = LayoutOf(kForm);
  const uint8_t* at;
  size_t half;

  __m256i Words(size_t offset, size_t i) const {
    return Load(at + offset + i * 64 + half * kHalfBytes);
  }
  __m256 Factors(size_t i) const {
    return Halves(at + kLayout.factors + i * 2 * kPanelOutputs + half * kHalfBytes / 2);
  }

  // The levels of 32 columns, four columns a register.
  void Levels(size_t j, __m256i (&q)[8]) const {
    WEFT_UNROLL
    for (size_t t = 0; t < 4; ++t) {
      const __m256i both = Words(0, 4 * j + t);
      q[2 * t] = _mm256_and_si256(both, Bytes(15));
      q[2 * t + 1] = _mm256_and_si256(_mm256_srli_epi16(both, 4), Bytes(15));
    }
    if constexpr (kForm == DType::kQ5K) {
      const __m256i fifth = Words(kLayout.upper, j);
      WEFT_UNROLL
      for (size_t k = 0; k < 8; ++k)
        q[k] = _mm256_or_si256(
            q[k], _mm256_slli_epi16(_mm256_and_si256(ShiftRight(fifth, k), Bytes(1)), 4));
    }
    if constexpr (kForm == DType::kQ6K) {
      WEFT_UNROLL
      for (size_t k = 0; k < 8; ++k) {
        const __m256i upper = Words(kLayout.upper, 2 * j + k / 4);
        q[k] = _mm256_or_si256(
            q[k], _mm256_slli_epi16(_mm256_and_si256(ShiftRight(upper, k % 4 * 2), Bytes(3)), 4));
      }
    }
  }
};

// s and m of a superblock, four bytes a lane.
template <DType kForm>
struct Scales {
  __m256i s[kForm == DType::kQ6K ? 4 : 2];
  __m256i m[2];

  explicit Scales(const Part<kForm>& part) {
    constexpr KQuantLayout kLayout = LayoutOf(kForm);
    if constexpr (kForm == DType::kQ6K) {
      WEFT_UNROLL
      for (size_t i = 0; i < 4; ++i) s[i] = part.Words(kLayout.scales, i);
    } else {
      const __m256i a = part.Words(kLayout.scales, 0), b = part.Words(kLayout.scales, 1),
                    c = part.Words(kLayout.scales, 2);
      s[0] = _mm256_and_si256(a, Bytes(63));
      m[0] = _mm256_and_si256(b, Bytes(63));
      s[1] = _mm256_or_si256(_mm256_and_si256(c, Bytes(15)), TopBits(a));
      m[1] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(c, 4), Bytes(15)), TopBits(b));
    }
  }
  // Scale `i`: of 32 columns, in q6k of 16.
  __m256i Of(size_t i) const {
    if constexpr (kForm == DType::kQ6K) {
      const auto shift = static_cast<int>(24 - i % 4 * 8);
      return _mm256_srai_epi32(_mm256_sllv_epi32(s[i / 4], _mm256_set1_epi32(shift)), 24);
    } else {
      return _mm256_and_si256(ShiftRight(s[i / 4], i % 4 * 8), _mm256_set1_epi32(255));
    }
  }
};

struct Sums {
  __m256i high, low;
};

// Adds s times the sums of q * high and of q * low of 4 * kCount columns from `column` on.
template <size_t kCount>
inline void AddColumns(const __m256i* q, const IntegerInput& in, size_t column, __m256i high,
                       __m256i low, __m256i s, Sums* sums) {
  WEFT_UNROLL
  for (size_t k = 0; k < kCount; ++k) {
    high = Dot(high, q[k], in.high + column + 4 * k);
    low = Dot(low, q[k], in.low + column + 4 * k);
  }
  sums->high = _mm256_add_epi32(sums->high, _mm256_mullo_epi32(high, s));
  sums->low = _mm256_add_epi32(sums->low, _mm256_mullo_epi32(low, s));
}

// The sum of m times the row's sums.
inline __m256 Minima(const __m256i (&m)[2], const IntegerInput& in) {
  __m256i sum = _mm256_setzero_si256();
  WEFT_UNROLL
  for (size_t plane = 3; plane-- > 0;) {
    sum = Dot(_mm256_slli_epi32(sum, 8), m[0], in.sums[plane]);
    sum = Dot(sum, m[1], in.sums[plane] + 4);
  }
  return _mm256_cvtepi32_ps(sum);
}

template <DType kForm, size_t kRows>
inline void AddSuperblock(const Part<kForm>& part, const IntegerInput* in, size_t stride,
                          __m256 (&y)[kRows]) {
  const Scales<kForm> scales(part);
  Sums sums[kRows];
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) sums[r] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  for (size_t j = 0; j < 8; ++j) {
    __m256i q[8];
    part.Levels(j, q);
    if constexpr (kForm == DType::kQ6K) {
      WEFT_UNROLL
      for (size_t i = 0; i < 2; ++i) {
        const __m256i s = scales.Of(2 * j + i);
        WEFT_UNROLL
        for (size_t r = 0; r < kRows; ++r) {
          const IntegerInput& row = in[r * stride];
          // -32 times the sums of 16 bytes.
          AddColumns<4>(q + 4 * i, row, 32 * j + 16 * i,
                        _mm256_set1_epi32(4 * row.high_zero[2 * j + i]),
                        _mm256_set1_epi32(4 * row.low_zero[2 * j + i]), s, &sums[r]);
        }
      }
    } else {
      const __m256i s = scales.Of(j), zero = _mm256_setzero_si256();
      WEFT_UNROLL
      for (size_t r = 0; r < kRows; ++r)
        AddColumns<8>(q, in[r * stride], 32 * j, zero, zero, s, &sums[r]);
    }
  }
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    const IntegerInput& row = in[r * stride];
    const __m256 scale = _mm256_set1_ps(row.scale);
    const __m256 both = _mm256_mul_ps(part.Factors(0), scale);
    y[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[r].high),
                           _mm256_mul_ps(_mm256_set1_ps(256), both), y[r]);
    y[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[r].low), both, y[r]);
    if constexpr (kForm != DType::kQ6K)
      y[r] = _mm256_fnmadd_ps(Minima(scales.m, row), _mm256_mul_ps(part.Factors(1), scale), y[r]);
  }
}

template <DType kForm, size_t kRows>
void RunPanel(const PanelProduct& product, size_t panel, size_t row) {
  const size_t superblocks = product.superblocks();
  alignas(32) float values[kRows][kPanelOutputs];
  for (size_t half = 0; half < 2; ++half) {
    __m256 y[kRows];
    WEFT_UNROLL
    for (size_t r = 0; r < kRows; ++r) y[r] = _mm256_setzero_ps();
    for (size_t b = 0; b < superblocks; ++b) {
      const Part<kForm> part{product.Panel(panel) + b * LayoutOf(kForm).end, half};
      AddSuperblock<kForm, kRows>(part, product.in + row * superblocks + b, superblocks, y);
    }
    WEFT_UNROLL
    for (size_t r = 0; r < kRows; ++r) _mm256_store_ps(values[r] + half * 8, y[r]);
  }
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) StorePanel(product, panel, row + r, values[r]);
}

template <DType kForm>
void RunForm(const PanelProduct& product, size_t first, size_t end) {
  for (size_t panel = first; panel < end; ++panel) {
    size_t row = 0;
    for (; row + 2 <= product.rows; row += 2) RunPanel<kForm, 2>(product, panel, row);
    if (row < product.rows) RunPanel<kForm, 1>(product, panel, row);
  }
}

}  // namespace

void RunKQuantAvx2(const PanelProduct& product, size_t first, size_t end) {
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
