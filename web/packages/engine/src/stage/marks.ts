// Marks: positions of a session whose recurrent state is kept, so that the session can be cut back
// to them. The orchestrator works out which of them an engine still holds by the same rule
// (src/base/marks.h).
export const kMaxMarks = 8; // of a session

// A run asked for one more mark and for at most `limit`, at least 1, in all: takes those out of
// `marks`, ascending, that have to go, the second lowest first, and returns them. So the first
// mark, usually behind the system prompt, and the latest stay: with 1300 and a limit of 3
// [20, 400, 900, 1300] becomes [20, 900, 1300].
export function dropMarks(marks: number[], limit: number): number[] {
  return marks.splice(limit > 1 ? 1 : 0, Math.max(0, marks.length - limit));
}
