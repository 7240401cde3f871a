// Where a conversation's recurrent state is kept, so that the next request finds it there
// (base/marks.h): the orchestrator alone decides it.
#pragma once

#include <cstdint>
#include <set>

#include "swarm/events.h"

namespace weft::swarm {

// Marks below the last one asked for are at least so far apart: a mark cuts a run in two, which
// costs a step, and computing a few rows again costs no more. The first one is kept all the same
// where it is the session's first: other sessions begin there, as forks of this one.
inline constexpr uint32_t kLeastMarkGap = 32;
// In a long prompt, beside what its request names.
inline constexpr uint32_t kMarkInterval = 2048;

// Positions of `request`'s prompt behind which state is worth keeping, those of `earlier` (of the
// session's earlier requests, up to `prefix`) among them: what the request names, every
// kMarkInterval positions, and the end of the prompt but for its last token, which always runs
// again, where the request names nothing.
//
// Example: a prompt of 5,000 tokens of which 700 are there already, behind a mark at 400. It names
// 690 (a system prompt), 4,980 (the last message) and 4,994 (the answer's beginning): the marks are
// 400, 2,048, 4,096 and 4,994. 690 has passed, 4,980 lies too near to the last.
std::set<uint32_t> MarkPositions(const Request& request, uint32_t prefix,
                                 const std::set<uint32_t>& earlier);

}  // namespace weft::swarm
