// Splice: one answer that a gateway streams while servers compute it in turn. It counts the tokens
// of the answer, so that each goes out once and in its place, whoever sends it:
//
//   attempt 1 at a:  0:The 1:cat 2:sat |  a is killed; 2 was on its way
//   attempt 2 at b:  knows The, cat    |  2:sat 3:on ... end of 9 tokens
//   the client:      The cat sat on ...
//
// Every attempt has the same seed and begins behind the tokens that went out, so b draws what a
// would have drawn. What earlier attempts still send is dropped by their number.
//
// Leadership decides whom to ask. Both are machines without I/O, and know no text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/strong_id.h"
#include "cluster/ids.h"

namespace weft::cluster {

// A connection to a server, or this server itself. Numbered by the host, another one each time.
using LinkId = StrongId<struct LinkTag, uint64_t>;

// Who leads a cell, as far as a gateway knows. Deposed leaders may be heard for a while: who has a
// lower incarnation than another one had is not asked.
class Leadership {
 public:
  // A leader is heard over the link. True: what nobody has is to be asked there. Over another link
  // than before everything is; over the same one its server tells of what it does not have.
  bool OnFound(LinkId link, Incarnation incarnation);
  // The link is lost, or its server leads no more. True: nobody can be asked now.
  bool OnLost(LinkId link);
  // Not set: nobody is known.
  LinkId leader() const { return leader_; }

 private:
  LinkId leader_;
  Incarnation incarnation_;  // the highest that was heard
};

using AttemptId = StrongId<struct AttemptTag>;  // of one answer, rising

class Splice {
 public:
  // The request begins once more, with the tokens that went out as known ones.
  AttemptId Ask();
  // Whoever had it is gone: nothing that it sends counts any more.
  void Lose() { attempt_ = AttemptId(); }

  enum class Taken {
    kGiven,   // the client gets it, as the next one
    kKnown,   // the client has it
    kStale,   // an earlier attempt sent it
    kTooFar,  // tokens before it are missing: ask again, or give up (HasTriedEnough)
  };
  Taken OnToken(AttemptId attempt, size_t index, int32_t token_id);

  enum class Ending {
    kEnd,    // the client hears it
    kStale,  // an earlier attempt sent it
    kShort,  // tokens before it are missing, as of kTooFar
  };
  // `generated`: tokens of the whole answer, as its server counts them; of one that failed or was
  // cancelled nullopt.
  Ending OnEnd(AttemptId attempt, std::optional<size_t> generated);

  // Whether asking once more would be in vain: tokens were missing so often, and no new one came.
  bool HasTriedEnough() const { return vain_ >= kMostVainAttempts; }
  // A server has it, or had it when it was last heard.
  bool is_asked() const { return attempt_.is_set(); }
  bool is_current(AttemptId attempt) const { return is_asked() && attempt == attempt_; }
  const std::vector<int32_t>& answer() const { return answer_; }
  // Tokens that came as others than those that went out before; not one, if all is well.
  uint64_t differences() const { return differences_; }

 private:
  static constexpr int kMostVainAttempts = 4;

  std::vector<int32_t> answer_;  // what went out
  AttemptId attempt_;            // not set: nobody has it
  AttemptId last_attempt_;
  int vain_ = 0;  // attempts with missing tokens since the last new one
  uint64_t differences_ = 0;
};

}  // namespace weft::cluster
