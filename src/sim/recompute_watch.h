// A survivor of a loss computes nothing again because of it: right after a loss no serving stage is
// sent positions that it was sent already. The server's answer to a loss sends no serving stage any
// positions that it was sent already. (Followers may be: where small spares fill a hole together,
// the first of them gives its rows once more, for the next. And a stage that was fed rows before it
// served has given nothing for them. Where the layers were never cut before, no history holds its
// successor's rows, and it computes them once more.)
//
// Rows that the history's budget took are computed again as well: sessions from before count no
// more then.
//
// Other causes that make a stage go back (a failed step, another end of a conversation, a broken
// connection) have nothing to do with losses. Everything seen before is forgotten then. The same
// holds for a conversation that another plan's first stage is sent. Rows under way when it moved
// are not wanted, and are computed once more where it comes back or follows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "swarm/events.h"
#include "wire/data_frame.h"
#include "wire/whole_frame.h"

namespace weft::sim {

class RecomputeWatch {
 public:
  // `recurrent`: the model has layers that cannot go back by a row, so that a stage begins again at
  // a mark, or at 0, wherever another one would be asked for its last row.
  explicit RecomputeWatch(bool recurrent) : recurrent_(recurrent) {}

  // The event, and what the core does about it. A sentence: what a survivor was sent again.
  std::optional<std::string> OnEvent(const swarm::Event& event,
                                     const std::vector<swarm::Action>& actions) {
    bool is_loss = std::holds_alternative<swarm::WorkerLost>(event);
    for (const swarm::Action& action : actions) {
      is_loss = is_loss || std::holds_alternative<swarm::CloseWorker>(action);
      if (std::holds_alternative<swarm::FinishRequest>(action)) seen_.clear();
    }
    if (MayGoBack(event)) seen_.clear();
    const auto* control = std::get_if<swarm::WorkerControl>(&event);
    if (control != nullptr && control->message.has_step_failed())
      std::erase_if(seen_,
                    [control](const auto& each) { return each.second.worker == control->worker; });
    std::optional<std::string> problem;
    for (const swarm::Action& action : actions) {
      const auto* data = std::get_if<swarm::SendData>(&action);
      if (data == nullptr) continue;
      auto found = OnData(*data, is_loss);
      if (found && !problem) problem = std::move(found);
    }
    return problem;
  }
  // So often have rows been dropped for want of room until now (swarm::CoreSizes).
  void NoteTrims(uint64_t trims) {
    if (trims == trims_) return;
    trims_ = trims;
    for (const auto& [key, ever] : ever_) trimmed_.insert(key.second);
  }
  // Another core begins.
  void Restart() {
    seen_.clear();
    ever_.clear();
    first_.clear();
    trimmed_.clear();
    trims_ = 0;
  }
  // Frames to stages that served before the loss that they follow from.
  uint64_t survivor_frames() const { return survivor_frames_; }

 private:
  struct Sent {
    swarm::WorkerId worker;
    uint32_t generation = 0, end = 0;
    bool serves = false;  // it was asked for something that others need
  };

  // What is not forgotten.
  struct Ever {
    std::set<uint32_t> marks;          // that were asked for
    uint32_t gives_from = UINT32_MAX;  // the first position whose rows were asked for
    bool gave_rows = false;            // for another stage: it is not the last one
  };

  static bool MayGoBack(const swarm::Event& event) {
    const auto* control = std::get_if<swarm::WorkerControl>(&event);
    return (control != nullptr && control->message.has_connect()) ||
           std::holds_alternative<swarm::RequestSubmitted>(event) ||
           std::holds_alternative<swarm::RequestCancelled>(event);
  }

  // Stages are sent what waits from the last to the first: others of its plan have had theirs.
  void NoteFirst(uint32_t binding, uint32_t session) {
    const auto [at, is_new] = first_.try_emplace(session, binding);
    if (at->second == binding) return;
    at->second = binding;
    std::erase_if(seen_, [session](const auto& each) { return each.first.second == session; });
  }

  std::optional<std::string> OnData(const swarm::SendData& data, bool is_loss) {
    std::vector<uint8_t> bytes;
    for (const Slice& piece : data.pieces)
      bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
    // A worker that chooses tokens by itself has gone further than it was sent.
    if (wire::IsWholeFrame(bytes)) {
      seen_.clear();
      return std::nullopt;
    }
    const Result<wire::Frame> frame = wire::DecodeFrame(Slice(std::move(bytes)));
    if (!frame.ok()) return std::nullopt;  // its worker says so
    const uint32_t binding = frame.value().header.binding;
    std::optional<std::string> problem;
    for (const wire::Run& run : frame.value().runs) {
      const bool is_first = frame.value().header.dtype == DType::kI32;
      if (is_first && (is_loss || run.output != wire::OutputKind::kNone))
        NoteFirst(binding, run.session);
      Sent& sent = seen_[{binding, run.session}];
      Ever& ever = ever_[{binding, run.session}];
      if (is_loss && sent.serves && !trimmed_.contains(run.session)) {
        ++survivor_frames_;
        // The last stage may be asked for its last row once more, to draw from it.
        const bool begins =
            recurrent_ && (run.first_position == 0 || ever.marks.contains(run.first_position));
        const bool gave = run.first_position >= ever.gives_from;
        // Rows that no stage behind it is to get: it follows another plan from now on.
        const bool follows = run.output == wire::OutputKind::kNone && ever.gave_rows;
        const bool again = run.generation != sent.generation && gave &&
                           run.first_position + 1 < sent.end && !begins && !follows;
        if (again)
          problem = "worker " + ToString(data.worker) + " was sent position " +
                    std::to_string(run.first_position) + " of session " +
                    std::to_string(run.session) + " again because another worker was lost";
      }
      sent.worker = data.worker;
      sent.generation = run.generation;
      sent.end = run.first_position + run.count;
      if (run.marks > 0) ever.marks.insert(sent.end);
      if (run.output != wire::OutputKind::kNone)
        ever.gives_from = std::min(ever.gives_from, run.first_position);
      ever.gave_rows = ever.gave_rows || run.output == wire::OutputKind::kHidden;
      sent.serves = sent.serves || run.output != wire::OutputKind::kNone;
    }
    return problem;
  }

  std::map<std::pair<uint32_t, uint32_t>, Sent> seen_;  // by binding and session
  std::map<std::pair<uint32_t, uint32_t>, Ever> ever_;  // the same
  std::map<uint32_t, uint32_t> first_;  // by session, the binding of the first stage of its plan
  std::set<uint32_t> trimmed_;          // sessions that were there when rows were dropped
  uint64_t trims_ = 0;
  uint64_t survivor_frames_ = 0;
  const bool recurrent_;
};

}  // namespace weft::sim
