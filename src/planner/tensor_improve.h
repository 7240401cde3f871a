// Makes a schedule of whole groups faster by local search.
#pragma once

#include "planner/tensor_problem.h"

namespace weft::planner {

// Moves single groups off the slowest devices, and exchanges groups of two blocks where memory is
// full, while that makes computing faster and everything fits. REQUIRES: the schedule fits.
void ImproveByGroups(const TensorProblem& problem, TensorSchedule* schedule);

}  // namespace weft::planner
