// The search of q4s_search.h with vectors, bit for bit as without.
#include "tensor/q4s_search.h"

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/q4s_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace weft {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;
using DF = hn::CappedTag<float, kMultipliers>;
using DI = hn::RebindToSigned<DF>;
using DW = hn::Repartition<int16_t, DI>;
constexpr DF df;
constexpr DI di;
constexpr DW dw;
using VI = hn::Vec<DI>;
using VW = hn::Vec<DW>;
constexpr size_t kWidth = hn::MaxLanes(DF());

// A 32-bit lane is a multiplier, the two 16-bit lanes in it are a pair of its values.
HWY_INLINE VW Twice(VI x) {
  return hn::BitCast(dw, hn::Or(hn::And(x, hn::Set(di, 0xffff)), hn::ShiftLeft<16>(x)));
}

struct Steps {
  VW step, inverse;
};
HWY_INLINE Steps StepsOf(float unit, VI m) {
  const VI step = hn::NearestInt(hn::Mul(hn::Set(df, unit), hn::ConvertTo(df, m)));
  const VI inverse = hn::NearestInt(hn::Div(hn::Set(df, 0x1p21f), hn::ConvertTo(df, step)));
  return {Twice(step), Twice(inverse)};
}
HWY_INLINE VW LevelsOf(VW x, VW inverse) {
  const VW levels = hn::MulFixedPoint15(hn::MulFixedPoint15(x, inverse), hn::Set(dw, 512));
  return hn::Min(hn::Max(levels, hn::Set(dw, -8)), hn::Set(dw, 7));
}

// Adds a * b of both values of each multiplier.
struct PairSum {
  VI even, odd;
  HWY_INLINE void Clear() { even = odd = hn::Zero(di); }
  HWY_INLINE void Add(VW a, VW b) { even = hn::ReorderWidenMulAccumulate(di, a, b, even, odd); }
  HWY_INLINE VI Sum() const { return hn::RearrangeToOddPlusEven(even, odd); }
};

struct VectorOps {
  static float Extreme(const float* values) {
    auto most = hn::Zero(df);
    for (int64_t i = 0; i < kSuperblockValues; i += kWidth)
      most = hn::Max(most, hn::Abs(hn::LoadU(df, values + i)));
    return hn::GetLane(hn::MaxOfLanes(df, most));
  }

  static void Prepare(const float* values, float extreme, Q4sValues* in) {
    const auto scale = hn::Set(df, kLargestX / extreme);
    for (size_t g = 0; g < kMultipliers; ++g, values += kMultiplierValues) {
      HWY_ALIGN int32_t x[kMultiplierValues];
      VI least = hn::Zero(di), most = hn::Zero(di);
      for (int64_t i = 0; i < kMultiplierValues; i += kWidth) {
        const VI part = hn::NearestInt(hn::Mul(hn::LoadU(df, values + i), scale));
        least = hn::Min(least, part);
        most = hn::Max(most, part);
        hn::Store(part, di, x + i);
      }
      const int32_t low = hn::GetLane(hn::MinOfLanes(di, least));
      const int32_t high = hn::GetLane(hn::MaxOfLanes(di, most));
      const int32_t sign = high > -low ? -1 : 1;
      in->sign[g] = static_cast<int8_t>(sign);
      in->extreme[g] = high > -low ? high : -low;
      for (size_t j = 0; j < kPairRows; ++j) {
        in->pairs[j][2 * g] = static_cast<int16_t>(x[2 * j] * sign);
        in->pairs[j][2 * g + 1] = static_cast<int16_t>(x[2 * j + 1] * sign);
      }
    }
  }

  static void Around(const Q4sValues& in, float per_x, Q4sMultipliers* around) {
    for (size_t g = 0; g < kMultipliers; g += kWidth) {
      const auto x = hn::ConvertTo(df, hn::Load(di, in.extreme + g));
      const VI m = hn::NearestInt(hn::Mul(x, hn::Set(df, per_x)));
      hn::Store(hn::Min(hn::Max(m, hn::Set(di, 1)), hn::Set(di, 15)), di, around->m + g);
    }
  }

  static int32_t Best(const Q4sValues& in, float unit, const Q4sMultipliers& around,
                      Q4sMultipliers* best) {
    VI total = hn::Zero(di);
    for (size_t g = 0; g < kMultipliers; g += kWidth) {
      const VI m = hn::Load(di, around.m + g);
      const VI tried[3] = {m, hn::Max(hn::Sub(m, hn::Set(di, 1)), hn::Set(di, 1)),
                           hn::Min(hn::Add(m, hn::Set(di, 1)), hn::Set(di, 15))};
      const Steps steps[3] = {StepsOf(unit, tried[0]), StepsOf(unit, tried[1]),
                              StepsOf(unit, tried[2])};
      PairSum errors[3];
      for (PairSum& error : errors) error.Clear();
      HWY_UNROLL(8)
      for (size_t j = 0; j < kPairRows; ++j) {
        const VW x = hn::Load(dw, in.pairs[j] + 2 * g);
        HWY_UNROLL(3)
        for (size_t t = 0; t < 3; ++t) {
          const VW difference = hn::Sub(x, hn::Mul(LevelsOf(x, steps[t].inverse), steps[t].step));
          errors[t].Add(difference, difference);
        }
      }
      VI least = errors[0].Sum(), found = tried[0];
      for (size_t t = 1; t < 3; ++t) {
        const VI error = errors[t].Sum();
        const auto better = hn::Lt(error, least);
        least = hn::IfThenElse(better, error, least);
        found = hn::IfThenElse(better, tried[t], found);
      }
      hn::Store(found, di, best->m + g);
      total = hn::Add(total, hn::ShiftRight<4>(least));
    }
    return hn::GetLane(hn::SumOfLanes(di, total));
  }

  static float Fit(const Q4sValues& in, float unit, const Q4sMultipliers& multipliers) {
    VI products = hn::Zero(di), squares = hn::Zero(di);
    for (size_t g = 0; g < kMultipliers; g += kWidth) {
      const VI m = hn::Load(di, multipliers.m + g);
      const Steps steps = StepsOf(unit, m);
      const VW twice = Twice(m);
      PairSum product, square;
      product.Clear();
      square.Clear();
      for (const auto& pairs : in.pairs) {
        const VW x = hn::Load(dw, pairs + 2 * g);
        const VW w = hn::Mul(LevelsOf(x, steps.inverse), twice);
        product.Add(w, x);
        square.Add(w, w);
      }
      products = hn::Add(products, product.Sum());
      squares = hn::Add(squares, square.Sum());
    }
    const int32_t sum = hn::GetLane(hn::SumOfLanes(di, products));
    const int32_t most = hn::GetLane(hn::SumOfLanes(di, squares));
    return most == 0 ? unit : static_cast<float>(sum) / static_cast<float>(most);
  }

  static void Store(const float* values, const float* steps, uint8_t* data, size_t data_bytes) {
    const hn::Rebind<uint8_t, DF> du8;
    const auto all = static_cast<int64_t>(2 * data_bytes);
    HWY_ALIGN uint8_t levels[kSuperblockValues];
    for (int64_t i = 0; i < all; i += kWidth) {
      const float step = steps[i / kMultiplierValues];
      const auto inverse = hn::Set(df, step == 0 ? 0 : 1 / step);
      const auto rounded = hn::Round(hn::Mul(hn::LoadU(df, values + i), inverse));
      const auto level = hn::Clamp(rounded, hn::Set(df, -8.0f), hn::Set(df, 7.0f));
      const VI whole = hn::Add(hn::ConvertTo(di, level), hn::Set(di, 8));
      hn::StoreU(hn::DemoteTo(du8, whole), du8, levels + i);
    }
    for (size_t i = 0; i < data_bytes; ++i)
      data[i] = static_cast<uint8_t>(levels[2 * i] | levels[2 * i + 1] << 4);
  }
};

void QuantizeRowOfQ4s(const float* values, size_t columns, uint8_t* data, uint16_t* words) {
  SearchRow<VectorOps>(values, columns, data, words);
}
#else
void QuantizeRowOfQ4s(const float* values, size_t columns, uint8_t* data, uint16_t* words) {
  QuantizeQ4sRowReference({values, columns}, data, words);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace weft
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(QuantizeRowOfQ4s);

void QuantizeQ4sRow(std::span<const float> values, uint8_t* data, uint16_t* words) {
#if defined(__x86_64__)
  static const bool has_vectors = __builtin_cpu_supports("sse4.2") != 0;
  if (!has_vectors) return QuantizeQ4sRowReference(values, data, words);
#endif
  HWY_DYNAMIC_DISPATCH(QuantizeRowOfQ4s)(values.data(), values.size(), data, words);
}

}  // namespace weft
#endif  // HWY_ONCE
