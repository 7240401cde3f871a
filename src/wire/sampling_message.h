// Sampling parameters as a control message: the one place that knows both forms.
#pragma once

#include "base/result.h"
#include "sampling/parameters.h"
#include "wire/control.pb.h"

namespace weft::wire {

// `parameters` with the seed that the generation uses (its own is not looked at).
void FillSamplingParams(const sampling::Parameters& parameters, uint64_t seed,
                        pb::SamplingParams& out);

// The seed is always set. kInvalidData: numbers that cannot be computed with
// (sampling::CheckComputable), unequal lists of biases, or more than 65,536 of them.
Result<sampling::Parameters> ReadSamplingParams(const pb::SamplingParams& params);

}  // namespace weft::wire
