// A plan as a drawing for terminals, in ASCII.
#pragma once

#include <string>
#include <vector>

#include "planner/problem.h"

namespace weft::planner {

// One line for each stage. Its layers are a bar under a ruler from the first layer to the last. Its
// time per token is another bar, divided by where the time goes:
//
//             embedding, layers 1-24, head  time per token: # compute, o overhead, ~ network
//   desktop   [============]                ##############o~~~            12.3 ms
//   laptop                  [===========]   ######o~                       6.1 ms
//                                                                         18.4 ms
//
// Ends with a newline; at most 100 columns for names of up to 20 characters.
std::string DrawPlan(const std::vector<LayerCost>& layers,
                     const std::vector<WorkerMetrics>& workers, const Plan& plan);

}  // namespace weft::planner
