// Search for swarms too big for the exact one, with a lower bound beside what it finds.
//
// Each worker has a price for its use (price_path.h). It is raised where the relaxed way uses the
// worker more than once and lowered where it does not, so that the bound rises. The cuts of the
// relaxed ways, with their workers matched anew, are first assignments. A beam steered by the final
// prices finds better ones, and windows of a few stages solved exactly improve those. Bounded by
// counts of stage costs looked at: one input, one result.
#pragma once

#include "planner/search_result.h"

namespace weft::planner {

// Of a table for latency.
SearchResult FindByPrices(const StageTable& table, const SearchOptions& options);

}  // namespace weft::planner
