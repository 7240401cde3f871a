#include "lower/trace/functions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft::lower::trace {
namespace {

// Functions are computed in double, from constants that are float32 (or float16: 0.7979 in a
// float16 model).
constexpr double kSame = 2e-3;
constexpr double kExact = 1e-9;
// Angles of float32 tables carry the rounding of position * inv_freq.
constexpr double kAngleFloor = 3e-3, kAnglePerRadian = 3e-7;

constexpr size_t kReach = 0, kTiny = 1;  // places of 1e9 and 1e-4 in the sample inputs

bool Near(double a, double b, double tolerance) {
  return std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(b));
}

template <typename Function>
bool Matches(const std::vector<double>& samples, double tolerance, const Function& function) {
  const std::vector<double>& inputs = SampleInputs(Kind::kForms);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!Near(samples[i], function(inputs[i]), tolerance)) return false;
  }
  return samples.size() == inputs.size();
}

double Wrap(double angle) {
  return std::remainder(angle, 2 * std::numbers::pi);
}

// How far cos and sin of position * f are from what was seen, beyond what rounding explains.
double Miss(const std::vector<Turn>& turns, size_t pair, float f) {
  double worst = 0;
  for (const Turn& turn : turns) {
    const float angle = static_cast<float>(turn.position) * f;
    const double difference =
        std::max(std::fabs(std::cos(static_cast<double>(angle)) - turn.cos[pair]),
                 std::fabs(std::sin(static_cast<double>(angle)) - turn.sin[pair]));
    worst = std::max(worst, difference / (kAngleFloor +
                                          kAnglePerRadian * std::fabs(static_cast<double>(angle))));
  }
  return worst;
}

double Distance(const std::vector<Turn>& turns, size_t pair, float f) {
  double sum = 0;
  for (const Turn& turn : turns) {
    const float angle = static_cast<float>(turn.position) * f;
    sum += std::fabs(static_cast<double>(std::cos(angle)) - turn.cos[pair]) +
           std::fabs(static_cast<double>(std::sin(angle)) - turn.sin[pair]);
  }
  return sum;
}

// The frequency of one pair. An angle is known up to whole turns only, so it begins with the angle
// between neighbours, f = angle(p + 1) - angle(p), which is below half a turn for every table in
// use, and is then made more exact with every larger distance: angle(p) - f p is the error that f
// makes over p positions, wrapped into half a turn, so dividing it by p brings f closer by that
// much. With f = 0.1 off by 1e-7, position 4000 shows 4e-4; what remains is the table's own
// rounding, 3e-5 at an angle of 400, over 4000: 8e-9.
std::optional<float> FitFrequency(const std::vector<Turn>& turns, size_t pair) {
  const auto angle = [&](const Turn& turn) { return std::atan2(turn.sin[pair], turn.cos[pair]); };
  double f = 0;
  bool started = false;
  for (size_t i = 0; i + 1 < turns.size() && !started; ++i) {
    if (turns[i + 1].position != turns[i].position + 1) continue;
    f = Wrap(angle(turns[i + 1]) - angle(turns[i]));
    started = true;
  }
  if (!started) return std::nullopt;
  for (const Turn& turn : turns) {
    if (turn.position >= 1) f += Wrap(angle(turn) - f * turn.position) / turn.position;
  }
  // Of the nearest floats the one whose table, rounded as tables are, is closest.
  float best = static_cast<float>(f), below = best, above = best;
  for (int step = 0; step < 4; ++step) {
    below = std::nextafter(below, -INFINITY);
    above = std::nextafter(above, INFINITY);
    for (const float near : {below, above}) {
      if (Distance(turns, pair, near) < Distance(turns, pair, best)) best = near;
    }
  }
  if (!(Miss(turns, pair, best) <= 1)) return std::nullopt;
  return best;
}

}  // namespace

const std::vector<double>& SampleInputs(Kind base) {
  static const std::vector<double> reals = {1e9,  1e-4, -12, -6, -2.5, -1, -0.5, -0.1, 0,
                                            0.05, 0.3,  0.7, 1,  1.5,  3,  6,    12,   40};
  static const std::vector<double> means = {0, 1e-7, 1e-4, 0.01, 0.5, 1, 2, 10, 1000};
  return base == Kind::kMeanSquare ? means : reals;
}

std::optional<double> AsFactor(const std::vector<double>& samples) {
  const double factor = samples[kTiny] / SampleInputs(Kind::kForms)[kTiny];
  if (!Matches(samples, kExact, [&](double x) { return factor * x; })) return std::nullopt;
  return factor;
}

std::optional<Cap> AsSoftcap(const std::vector<double>& samples) {
  const Cap cap{samples[kReach], samples[kTiny] / SampleInputs(Kind::kForms)[kTiny]};
  const bool fits = std::isfinite(cap.cap) && cap.cap > 0 && Matches(samples, 1e-6, [&](double x) {
                      return cap.cap * std::tanh(cap.factor * x / cap.cap);
                    });
  if (!fits) return std::nullopt;
  return cap;
}

std::optional<Activation> AsActivation(const std::vector<double>& samples) {
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  const auto gelu = [](double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); };
  const auto gelu_tanh = [](double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  };
  // The two gelus differ by 5e-4 at most: the closer one is meant.
  const auto worst = [&](const auto& function) {
    double difference = 0;
    for (size_t i = 0; i < samples.size(); ++i) {
      const double x = SampleInputs(Kind::kForms)[i], y = function(x);
      difference = std::max(difference, std::fabs(samples[i] - y) / std::max(1.0, std::fabs(y)));
    }
    return difference;
  };
  const double as_silu = worst(silu), as_gelu = worst(gelu), as_tanh = worst(gelu_tanh);
  const double best = std::min({as_silu, as_gelu, as_tanh});
  if (!(best <= kSame / 10)) return std::nullopt;
  return best == as_silu   ? Activation::kSilu
         : best == as_gelu ? Activation::kGelu
                           : Activation::kGeluTanh;
}

bool IsSquare(const std::vector<double>& samples) {
  return Matches(samples, kExact, [](double x) { return x * x; });
}

std::optional<double> AsInverseRoot(const std::vector<double>& samples) {
  const std::vector<double>& inputs = SampleInputs(Kind::kMeanSquare);
  if (samples.size() != inputs.size() || !std::isfinite(samples[0]) || samples[0] <= 0) {
    return std::nullopt;
  }
  const double epsilon = 1 / (samples[0] * samples[0]);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!Near(samples[i] * std::sqrt(inputs[i] + epsilon), 1, kExact)) return std::nullopt;
  }
  return epsilon;
}

std::optional<std::vector<float>> FitFrequencies(std::vector<Turn> turns) {
  std::stable_sort(turns.begin(), turns.end(),
                   [](const Turn& a, const Turn& b) { return a.position < b.position; });
  if (turns.empty()) return std::nullopt;
  std::vector<float> frequencies;
  for (size_t pair = 0; pair < turns[0].cos.size(); ++pair) {
    const auto frequency = FitFrequency(turns, pair);
    if (!frequency) return std::nullopt;
    frequencies.push_back(*frequency);
  }
  return frequencies;
}

std::optional<uint32_t> FitWindow(const std::vector<MaskSeen>& masks) {
  int64_t window = 0, longest = 0;
  for (const MaskSeen& mask : masks) {
    const int64_t total = mask.past + mask.rows;
    for (int64_t row = 0; row < mask.rows; ++row) {
      const uint8_t* allowed = mask.allowed.data() + row * total;
      const int64_t position = mask.past + row;
      int64_t seen = 0;
      while (seen <= position && allowed[position - seen] != 0) ++seen;
      const auto count = std::count_if(allowed, allowed + total, [](uint8_t a) { return a != 0; });
      if (seen == 0 || count != seen) return std::nullopt;
      if (seen <= position && window != 0 && window != seen) return std::nullopt;
      if (seen <= position) window = seen;
      longest = std::max(longest, seen);
    }
  }
  if (window != 0 && longest > window) return std::nullopt;
  return static_cast<uint32_t>(window);
}

}  // namespace weft::lower::trace
