// Other ways to share out the layers, to compare with: an equal split, a split by memory, the
// thesis' search over orders. They read the same table and keep within the same limits of memory.
#pragma once

#include "planner/search_result.h"

namespace weft::planner {

// dynamic-graph-partitioning 7.4: every part has ceil(n / parts) layers, the first may have fewer;
// which worker has which part is optimal. Without options.equal_parts: the most parts that fit.
SearchResult FindEqualSplit(const StageTable& table, const SearchOptions& options);

// Every worker, the largest offer first, has layers in proportion to its offer. `workers`: those of
// the model behind the table's rows.
SearchResult FindMemorySplit(const CostModel& model, const std::vector<int>& workers,
                             const StageTable& table);

// dynamic-graph-partitioning 5.5: all orders of fewer than 8 workers (n^2 m < 20,000), annealing
// (n^2 m < 50,000), or random orders. The thesis' dynamic program prices each order.
SearchResult FindPermutation(const StageTable& table, const SearchOptions& options);

}  // namespace weft::planner
