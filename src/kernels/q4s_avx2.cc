// q4s with AVX2: bytes times bytes in pairs (vpmaddubsw), whose sums over 16 columns fit 16 bits;
// one more multiplication (vpmaddwd) then adds the pairs and multiplies by m, or by 256 m.
//
// Eight outputs are a register. For 16 columns of a row, with levels q = 0..15:
//   sum of q * low: 8 columns a 16-bit lane, at most 8 * 15 * 128 = 15,360, and -8 times the sum of
//   16 low bytes in one of both lanes, at most 16,384: 31,744 fits.
#include "kernels/panel_x86.h"
#include "kernels/q4s_panels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

namespace weft::kernels {

// Every processor with AVX2 converts f16, too (which clang 14 has no name for).
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

WEFT_BEGIN_TARGET("avx2,fma,f16c");

namespace {

constexpr size_t kRegister = 8;  // outputs

inline __m256i Load(const void* at) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(at));
}
inline __m256i Word(const int8_t* four) {
  int32_t word;
  std::memcpy(&word, four, 4);
  return _mm256_set1_epi32(word);
}

// ---- rows

// 32 columns; `zeros` gets -8 times the sums of its two halves.
inline __m256i Rounded(const float* at, __m256 factor) {
  const __m256 magic = _mm256_set1_ps(0x1.8p23f);
  const __m256 sum = _mm256_fmadd_ps(_mm256_loadu_ps(at), factor, magic);
  return _mm256_sub_epi32(_mm256_castps_si256(sum), _mm256_set1_epi32(0x4b400000));
}
// Two halves of eight 32-bit numbers each as bytes in order.
inline __m256i Bytes(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
inline __m256i HighOf(__m256i x) {
  return _mm256_srai_epi32(_mm256_add_epi32(x, _mm256_set1_epi32(128)), 8);
}
inline __m256i LowOf(__m256i x, __m256i high) {
  return _mm256_sub_epi32(x, _mm256_slli_epi32(high, 8));
}
// Sums of the first and of the last 16 of 32 signed bytes.
inline void SumHalves(__m256i bytes, int32_t* sums) {
  const __m256i fours =
      _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(1));
  const __m256i twos = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0x4e));
  const __m256i all = _mm256_add_epi32(twos, _mm256_shuffle_epi32(twos, 0xb1));
  sums[0] = _mm256_extract_epi32(all, 0);
  sums[1] = _mm256_extract_epi32(all, 4);
}

inline void PrepareBlock(const float* at, __m256 factor, size_t block, IntegerInput* out) {
  const __m256i x[4] = {Rounded(at, factor), Rounded(at + 8, factor), Rounded(at + 16, factor),
                        Rounded(at + 24, factor)};
  const __m256i h[4] = {HighOf(x[0]), HighOf(x[1]), HighOf(x[2]), HighOf(x[3])};
  const __m256i high = Bytes(h[0], h[1], h[2], h[3]);
  const __m256i low =
      Bytes(LowOf(x[0], h[0]), LowOf(x[1], h[1]), LowOf(x[2], h[2]), LowOf(x[3], h[3]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out->high + block * 32), high);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out->low + block * 32), low);
  int32_t highs[2], lows[2];
  SumHalves(high, highs);
  SumHalves(low, lows);
  for (size_t i = 0; i < 2; ++i) {
    out->high_zero[block * 2 + i] = -8 * highs[i];
    out->low_zero[block * 2 + i] = -8 * lows[i];
    out->byte_zero -= 128 * (256 * highs[i] + lows[i]);
  }
}

inline uint32_t LargestBits(const float* row) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i most = _mm256_setzero_si256();
  for (size_t i = 0; i < 256; i += 8)
    most = _mm256_max_epu32(most, _mm256_and_si256(Load(row + i), magnitude));
  const __m128i four =
      _mm_max_epu32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
  const __m128i two = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
  const __m128i one = _mm_max_epu32(two, _mm_shuffle_epi32(two, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(one));
}

inline float PowerOfTwo(uint32_t biased_exponent) {
  const uint32_t bits = biased_exponent << 23;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

void PrepareSuperblock(const float* row, IntegerInput* out) {
  const uint32_t largest = LargestBits(row);
  uint32_t exponent = largest >> 23;
  exponent = exponent < kLeastExponent ? kLeastExponent : exponent;
  exponent = exponent > kMostExponent ? kMostExponent : exponent;
  out->byte_zero = 0;
  float factor = PowerOfTwo(268 - exponent) * kIntegerHeadroom;
  out->scale = PowerOfTwo(exponent - 14) * kIntegerInverseHeadroom;
  if (largest >= 0x7f800000u) {
    factor = 0;
    out->scale = __builtin_nanf("");
    std::memset(static_cast<void*>(out), 0, offsetof(IntegerInput, scale));
    return;
  }
  for (size_t block = 0; block < 8; ++block)
    PrepareBlock(row + block * 32, _mm256_set1_ps(factor), block, out);
  AddSums(out);
}

// ---- products

// m of eight outputs, in both halves of each 32-bit lane.
inline __m256i Multipliers(__m256i magnitudes, int nibble, __m256i signs, __m256i bit) {
  const __m256i m =
      _mm256_and_si256(_mm256_srli_epi32(magnitudes, 4 * nibble), _mm256_set1_epi32(15));
  const __m256i twice = _mm256_or_si256(m, _mm256_slli_epi32(m, 16));
  const __m256i negative = _mm256_cmpeq_epi32(_mm256_and_si256(signs, bit), bit);
  return _mm256_sub_epi16(_mm256_xor_si256(twice, negative), negative);
}

// Adds 256 H + L of 16 columns to `sum`: levels q[j] are columns 4 j to 4 j + 3.
inline __m256i AddColumns(const __m256i (&q)[4], const IntegerInput& in, size_t i, __m256i m,
                          __m256i m256, __m256i sum) {
  const __m256i first_lane = _mm256_set1_epi32(0xffff);
  const int8_t* high = in.high + 16 * i;
  const int8_t* low = in.low + 16 * i;
  __m256i h = _mm256_and_si256(_mm256_set1_epi32(in.high_zero[i]), first_lane);
  __m256i l = _mm256_and_si256(_mm256_set1_epi32(in.low_zero[i]), first_lane);
  const __m256i h01 = _mm256_add_epi16(_mm256_maddubs_epi16(q[0], Word(high)),
                                       _mm256_maddubs_epi16(q[1], Word(high + 4)));
  const __m256i h23 = _mm256_add_epi16(_mm256_maddubs_epi16(q[2], Word(high + 8)),
                                       _mm256_maddubs_epi16(q[3], Word(high + 12)));
  const __m256i l01 = _mm256_add_epi16(_mm256_maddubs_epi16(q[0], Word(low)),
                                       _mm256_maddubs_epi16(q[1], Word(low + 4)));
  const __m256i l23 = _mm256_add_epi16(_mm256_maddubs_epi16(q[2], Word(low + 8)),
                                       _mm256_maddubs_epi16(q[3], Word(low + 12)));
  h = _mm256_add_epi16(h, _mm256_add_epi16(h01, h23));
  l = _mm256_add_epi16(l, _mm256_add_epi16(l01, l23));
  return _mm256_add_epi32(sum,
                          _mm256_add_epi32(_mm256_madd_epi16(h, m256), _mm256_madd_epi16(l, m)));
}

// Eight outputs of a panel for kRows rows: outputs `half` * 8 on.
template <size_t kRows>
inline void RunHalf(const PanelProduct& product, const uint8_t* panel, size_t half, size_t row,
                    float (*y)[kPanelOutputs]) {
  const size_t superblocks = product.superblocks();
  const __m256i low_nibble = _mm256_set1_epi8(15);
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i bit = half == 0 ? bits : _mm256_slli_epi32(bits, 8);
  __m256 total[kRows];
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) total[r] = _mm256_setzero_ps();
  for (size_t b = 0; b < superblocks; ++b) {
    const PanelPart part = PartOf(panel, product.weight.columns, b);
    const IntegerInput* in = product.in + row * superblocks + b;
    __m256i sum[kRows];
    WEFT_UNROLL
    for (size_t r = 0; r < kRows; ++r) sum[r] = _mm256_setzero_si256();
    for (size_t i = 0; i < part.blocks * 2; ++i) {
      const uint8_t* at = part.nibbles + i * 128 + half * 32;
      __builtin_prefetch(at + 2048);
      const __m256i a = Load(at), c = Load(at + 64);
      const __m256i q[4] = {
          _mm256_and_si256(a, low_nibble), _mm256_and_si256(_mm256_srli_epi16(a, 4), low_nibble),
          _mm256_and_si256(c, low_nibble), _mm256_and_si256(_mm256_srli_epi16(c, 4), low_nibble)};
      const __m256i magnitudes = Load(part.magnitudes() + i / 8 * kPanelOutputs + half * 8);
      const __m256i m =
          Multipliers(magnitudes, static_cast<int>(i % 8), _mm256_set1_epi32(part.signs()[i]), bit);
      const __m256i m256 = _mm256_slli_epi16(m, 8);
      WEFT_UNROLL
      for (size_t r = 0; r < kRows; ++r)
        sum[r] = AddColumns(q, in[r * superblocks], i, m, m256, sum[r]);
    }
    const __m256 scale = _mm256_cvtph_ps(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(part.scales() + half * kRegister)));
    WEFT_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      const __m256 both = _mm256_mul_ps(scale, _mm256_set1_ps(in[r * superblocks].scale));
      total[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r]), both, total[r]);
    }
  }
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) _mm256_storeu_ps(y[r] + half * kRegister, total[r]);
}

template <size_t kRows>
void RunPanel(const PanelProduct& product, size_t panel, size_t row) {
  alignas(32) float y[kRows][kPanelOutputs];
  for (size_t half = 0; half < 2; ++half)
    RunHalf<kRows>(product, product.Panel(panel), half, row, y);
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) StorePanel(product, panel, row + r, y[r]);
}

}  // namespace

void PrepareIntegersAvx2(std::span<const float> row, IntegerInput* out) {
  size_t first = 0;
  for (; first + 256 <= row.size(); first += 256) PrepareSuperblock(row.data() + first, out++);
  if (first == row.size()) return;
  float padded[256] = {};
  std::memcpy(padded, row.data() + first, (row.size() - first) * sizeof(float));
  PrepareSuperblock(padded, out);
}

void RunQ4sAvx2(const PanelProduct& product, size_t first, size_t end) {
  for (size_t panel = first; panel < end; ++panel) {
    size_t row = 0;
    for (; row + 4 <= product.rows; row += 4) RunPanel<4>(product, panel, row);
    for (; row + 2 <= product.rows; row += 2) RunPanel<2>(product, panel, row);
    if (row < product.rows) RunPanel<1>(product, panel, row);
  }
}

WEFT_END_TARGET;

}  // namespace weft::kernels

#endif  // __x86_64__
