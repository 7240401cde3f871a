// Throughput: many streams fill the pipeline, so that its slowest stage limits it. The least
// slowest stage first, then the least sum.
#pragma once

#include "planner/search_result.h"

namespace weft::planner {

// `exact`: over subsets of the workers, at most 16 of them. Else so is the slowest stage alone, and
// of more workers it is the least for which a cover is found, its lower bound one that counting
// layers and compute gives.
// REQUIRES: a table for throughput.
SearchResult FindPipeline(const StageTable& table, const SearchOptions& options, bool exact);

}  // namespace weft::planner
