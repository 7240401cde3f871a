#include "tensor/q4s_search.h"

#include <limits>

namespace weft {
namespace {

// a * b / 2^15, rounded, as processors with vectors have it.
int32_t MulRound(int32_t a, int32_t b) {
  return (a * b + 0x4000) >> 15;
}

int32_t LevelOf(int32_t x, const Q4sStep& step) {
  return std::clamp(MulRound(MulRound(x, step.inverse), 512), -8, 7);
}

// One value after another.
struct ScalarOps {
  static float Extreme(const float* values) {
    float extreme = 0;
    for (int64_t i = 0; i < kSuperblockValues; ++i)
      extreme = std::max(extreme, std::fabs(values[i]));
    return extreme;
  }

  static void Prepare(const float* values, float extreme, Q4sValues* in) {
    const float scale = kLargestX / extreme;
    for (size_t g = 0; g < kMultipliers; ++g, values += kMultiplierValues) {
      int32_t least = 0, most = 0;
      for (int64_t i = 0; i < kMultiplierValues; ++i) {
        const auto x = static_cast<int32_t>(std::lrintf(values[i] * scale));
        least = std::min(least, x);
        most = std::max(most, x);
        in->pairs[i / 2][2 * g + static_cast<size_t>(i % 2)] = static_cast<int16_t>(x);
      }
      const int32_t sign = most > -least ? -1 : 1;
      in->sign[g] = static_cast<int8_t>(sign);
      in->extreme[g] = std::max(most, -least);
      for (auto& pairs : in->pairs) {
        pairs[2 * g] = static_cast<int16_t>(pairs[2 * g] * sign);
        pairs[2 * g + 1] = static_cast<int16_t>(pairs[2 * g + 1] * sign);
      }
    }
  }

  static void Around(const Q4sValues& in, float per_x, Q4sMultipliers* around) {
    for (size_t g = 0; g < kMultipliers; ++g) {
      const auto m = static_cast<int32_t>(std::lrintf(static_cast<float>(in.extreme[g]) * per_x));
      around->m[g] = std::clamp(m, 1, 15);
    }
  }

  static int32_t Best(const Q4sValues& in, float unit, const Q4sMultipliers& around,
                      Q4sMultipliers* best) {
    int32_t total = 0;
    for (size_t g = 0; g < kMultipliers; ++g) {
      const int32_t first = around.m[g];
      int32_t least = std::numeric_limits<int32_t>::max();
      for (const int32_t m : {first, std::max(first - 1, 1), std::min(first + 1, 15)}) {
        const Q4sStep step = StepOf(unit, m);
        int32_t error = 0;
        for (const auto& pairs : in.pairs) {
          for (const int32_t x : {pairs[2 * g], pairs[2 * g + 1]}) {
            const int32_t difference = x - LevelOf(x, step) * step.step;
            error += difference * difference;
          }
        }
        if (error >= least) continue;
        least = error;
        best->m[g] = m;
      }
      total += least >> 4;
    }
    return total;
  }

  static float Fit(const Q4sValues& in, float unit, const Q4sMultipliers& multipliers) {
    int32_t products = 0, squares = 0;
    for (size_t g = 0; g < kMultipliers; ++g) {
      const Q4sStep step = StepOf(unit, multipliers.m[g]);
      for (const auto& pairs : in.pairs) {
        for (const int32_t x : {pairs[2 * g], pairs[2 * g + 1]}) {
          const int32_t w = LevelOf(x, step) * multipliers.m[g];
          products += w * x;
          squares += w * w;
        }
      }
    }
    return squares == 0 ? unit : static_cast<float>(products) / static_cast<float>(squares);
  }

  static void Store(const float* values, const float* steps, uint8_t* data, size_t data_bytes) {
    for (size_t i = 0; i < data_bytes; ++i) {
      const float step = steps[2 * i / kMultiplierValues];
      const float inverse = step == 0 ? 0 : 1 / step;
      const auto level = [&](float x) {
        return static_cast<int>(std::clamp(std::nearbyintf(x * inverse), -8.0f, 7.0f)) + 8;
      };
      data[i] = static_cast<uint8_t>(level(values[2 * i]) | level(values[2 * i + 1]) << 4);
    }
  }
};

}  // namespace

void QuantizeQ4sRowReference(std::span<const float> values, uint8_t* data, uint16_t* words) {
  SearchRow<ScalarOps>(values.data(), values.size(), data, words);
}

}  // namespace weft
