// Marks: positions of a session whose recurrent state is kept, so that the session can be cut back
// to them. The orchestrator asks for marks and works out which of them an engine still holds, so
// both follow the rule of this header. web/packages/engine/src/stage/marks.ts is its twin.
#pragma once

#include <cstddef>
#include <iterator>

namespace weft {

// Of a session. A data frame has four bits for the number.
inline constexpr size_t kMaxMarks = 8;

// A run asked for one more mark and for at most `limit`, at least 1, in all: which of `marks`, a
// set or map ordered by position, have to go. The second lowest goes first, so that the first mark,
// usually behind the system prompt, and the latest stay:
//
//   limit 3   marks 20 400 900   and 1300 -> 20 900 1300
//   limit 1   marks 20           and 400  -> 400
template <typename Marks>
void DropMarks(Marks& marks, size_t limit) {
  while (marks.size() > limit) marks.erase(limit > 1 ? std::next(marks.begin()) : marks.begin());
}

}  // namespace weft
