// The search that fits the size of a problem, or that was asked for.
#pragma once

#include "planner/search_result.h"

namespace weft::planner {

// By `options.choice`. `workers`: those of the model behind the table's rows.
SearchResult Search(const CostModel& model, const std::vector<int>& workers,
                    const StageTable& table, const SearchOptions& options);

}  // namespace weft::planner
