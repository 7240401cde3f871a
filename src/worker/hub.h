// Hub: the steps of this worker whose layers' experts are elsewhere, from their beginning to their
// end. A state machine of membership (membership.h), without I/O; whom to ask, and again, is the
// dispatcher's to know (dispatch/dispatcher.h).
//
//   Begin -> the step computes -> Wait: its rows are with holders -> Next: it is resumed -> ...
//         -> End
//
// As many steps are under way as an engine has room for, of different sessions. One whose experts
// nobody holds waits until somebody does.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dispatch/dispatcher.h"
#include "dispatch/holder_channels.h"
#include "dispatch/hub_stats.h"
#include "wire/control.pb.h"
#include "wire/data_frame.h"
#include "worker/membership_events.h"

namespace weft::worker {

class Hub {
 public:
  explicit Hub(dispatch::Options options = {}, dispatch::HolderChannels::Options channels = {})
      : options_(options),
        channel_options_(std::move(channels)),
        dispatcher_(options),
        channels_(channel_options_) {}

  // Whether a step of these sessions may begin beside those under way.
  bool CanBegin(std::span<const wire::Run> runs) const;
  bool Uses(uint32_t session) const;
  bool IsIdle() const;
  // `number` is the caller's; gives the step's place, below engine::kStepsInFlight.
  // REQUIRES: CanBegin.
  uint32_t Begin(uint64_t number, std::span<const wire::Run> runs);
  // It stopped for want of these rows.
  void Wait(Instant now, uint32_t place, const StepWaits& waits);
  // Whether its layers may do without groups.
  bool MayLose(uint32_t place) const { return lossy_ && !steps_[place].row_sessions.empty(); }
  uint64_t NumberOf(uint32_t place) const { return steps_[place].number; }
  // A step that has its rows and is computed from now on.
  std::optional<ResumeStep> Next();
  // Gives its number.
  uint64_t End(uint32_t place);
  // Of each session of a step so far, the groups that its row had to do without.
  const std::map<uint32_t, uint32_t>& LostOf(uint32_t place) const { return steps_[place].lost; }
  struct Abandoned {
    uint32_t place = 0;
    uint64_t number = 0;
  };
  // A step that waits and whose next layer may lose something, once for each wait.
  std::optional<uint32_t> TakePrediction();
  // Ends those that wait for experts that nobody holds. Their engine has to forget them, too.
  std::vector<Abandoned> AbandonStuck(Instant now);

  // Who can be asked. kInvalidData: not of a model with so many layers.
  Status SetHolders(Instant now, const wire::pb::ExpertHolders& statement, uint32_t layer_count);
  // This worker's own number among the holders; 0: it is none of them.
  uint32_t self() const { return self_; }
  // What a holder says: results, heartbeats and about datagrams, everything else is not for a hub.
  // `came`: when it came, where that was known before it was looked at.
  void Hear(Instant now, uint32_t holder, std::span<const wire::ExpertFrame> frames,
            std::optional<Instant> came = std::nullopt);
  void OnMalformed(Instant now, uint32_t holder, const std::string& sentence);
  // Gives what a holder has said on its channel, to be heard as if it had come otherwise.
  dispatch::HolderChannels::Heard OnDatagram(Instant now, const DatagramAddress& from,
                                             ByteSpan datagram);
  void OnTimer(Instant now);
  // Nothing is under way any more and nobody can be asked.
  void Clear();

  // What is to be sent since the last call, and does not go on a channel.
  std::vector<dispatch::Send> TakeSends(Instant now);
  std::vector<OutgoingDatagram> TakeDatagrams() { return channels_.TakeDatagrams(); }
  // When OnTimer is due.
  std::optional<Instant> timer() const;
  // nullopt: nothing may be lost here.
  std::optional<wire::pb::LossReport> Report(Instant now) const;
  // What is to be told of holders now; nullopt: nothing.
  std::optional<wire::pb::HolderStats> TakeStats(Instant now) {
    return stats_.Take(now, dispatcher_);
  }
  const dispatch::Dispatcher& dispatcher() const { return dispatcher_; }

 private:
  enum class Phase { kFree, kComputes, kWaits, kReady };
  struct Step {
    Phase phase = Phase::kFree;
    uint64_t number = 0;
    std::set<uint32_t> sessions;
    std::vector<float> slot_rows;  // once it is ready
    // Of each row, where every session has one that gives a token. Else nothing of the step may be
    // lost: what a prompt did without would be missing in every answer that continues it.
    std::vector<uint32_t> row_sessions;
    std::map<uint32_t, uint32_t> lost;  // groups, by session
    bool predicts = false;              // what the next layer may lose is not ranked yet
  };

  void Apply(Instant now, dispatch::Actions actions);

  dispatch::Options options_;
  dispatch::HolderChannels::Options channel_options_;
  dispatch::Dispatcher dispatcher_;  // a place is its batch
  dispatch::HolderChannels channels_;
  dispatch::HubStats stats_;
  std::array<Step, engine::kStepsInFlight> steps_;
  std::vector<dispatch::Send> sends_;
  std::vector<uint32_t> senders_;  // of datagrams
  bool lossy_ = false;
  std::optional<Instant> timer_;
  uint32_t self_ = 0;
  uint32_t told_falls_ = 0;
};

}  // namespace weft::worker
