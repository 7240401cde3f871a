// What hubs say of neuron groups that were lost: counted for the answers, and kept to be shown.
#include <algorithm>
#include <utility>

#include "swarm/core/state.h"
#include "wire/datagram.h"
#include "wire/group_sums.h"

namespace weft::swarm {
namespace {

Error BadReport(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

bool IsShare(double share) {
  return share >= 0 && share <= 1;  // not where it is no number
}

}  // namespace

// It comes right before the result of its step, so that the step is under way.
Status State::OnGroupsLost(Worker& worker, const wire::pb::GroupsLost& lost) {
  auto& in_flight = worker.steps.in_flight;
  const auto sent = std::find_if(in_flight.begin(), in_flight.end(), [&](const SentFrame& frame) {
    return frame.sequence == lost.sequence() && frame.epoch == lost.epoch();
  });
  if (!options.loss_limit || sent == in_flight.end() || !sent->layers.is_hub() ||
      lost.sessions_size() != lost.groups_size())
    return BadReport("GroupsLost names a step that was not to lose anything.");
  if (std::exchange(sent->told_losses, true)) return BadReport("GroupsLost came twice for a step.");
  uint64_t most = 0;
  for (uint32_t layer = sent->layers.first; layer < sent->layers.end; ++layer)
    most += options.model.layers[layer].expert_count;
  for (int i = 0; i < lost.sessions_size(); ++i) {
    const uint32_t id = lost.sessions(i);
    const bool named = std::any_of(sent->runs.begin(), sent->runs.end(),
                                   [id](const wire::Run& run) { return run.session == id; });
    if (!named || lost.groups(i) > most)
      return BadReport("GroupsLost says that session " + std::to_string(id) + " did without " +
                       std::to_string(lost.groups(i)) + " groups, expected one of its step and " +
                       std::to_string(most) + " at most.");
    if (Session* session = sessions.Find(id)) requests.NoteLost(*session, lost.groups(i));
  }
  return OkStatus();
}

Status State::OnLossReport(Worker& worker, const wire::pb::LossReport& report) {
  const bool shares = std::all_of(report.lines().begin(), report.lines().end(),
                                  [](const auto& line) { return IsShare(line.loss()); });
  if (!options.loss_limit || !worker.experts.was_hub || !shares || !IsShare(report.share()) ||
      !IsShare(report.fell_at()) || report.lines_size() > static_cast<int>(options.worker_limit) ||
      report.dropped_size() != static_cast<int>(wire::kDatagramFaults) ||
      report.fragments_size() != static_cast<int>(wire::kSumsOutcomes))
    return BadReport("A LossReport came that is none.");
  worker.experts.losses = report;
  changes.Note({.view = true});
  return OkStatus();
}

}  // namespace weft::swarm
