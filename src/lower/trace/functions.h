// Names for functions that were seen at sample points only: activations, soft caps, norms' inverse
// roots, rotations' frequencies and attention windows.
#pragma once

#include <optional>

#include "lower/program_names.h"
#include "lower/trace/forms.h"

namespace weft::lower::trace {

// Where a function of elements of a `base` value is sampled: reals for kForms and kScores, what a
// mean of squares can be for kMeanSquare.
const std::vector<double>& SampleInputs(Kind base);

// samples = factor * x
std::optional<double> AsFactor(const std::vector<double>& samples);
// samples = cap * tanh(factor * x / cap)
struct Cap {
  double cap = 0, factor = 1;
};
std::optional<Cap> AsSoftcap(const std::vector<double>& samples);
std::optional<Activation> AsActivation(const std::vector<double>& samples);
bool IsSquare(const std::vector<double>& samples);
// At SampleInputs(kMeanSquare): epsilon when samples = 1 / sqrt(x + epsilon).
std::optional<double> AsInverseRoot(const std::vector<double>& samples);

// inv_freq of rotations by position * inv_freq. The turns of several runs in any order. nullopt
// when some turn is by another angle.
std::optional<std::vector<float>> FitFrequencies(std::vector<Turn> turns);

// Which of [rows, past + rows] a mask lets through.
struct MaskSeen {
  int64_t past = 0, rows = 0;
  std::vector<uint8_t> allowed;
};
// 0 for plain causal attention, w when a position sees itself and the w - 1 before it; nullopt when
// the masks are neither.
std::optional<uint32_t> FitWindow(const std::vector<MaskSeen>& masks);

}  // namespace weft::lower::trace
