// Neuron groups that a step had to do without, as its hub says.
#include <algorithm>
#include <utility>

#include "swarm/flow/pipeline.h"

namespace weft::swarm {
namespace {

Error BadReport(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

}  // namespace

// It comes right before the result of its step, so that the step is under way.
Result<std::vector<LostGroups>> Pipeline::OnGroupsLost(Worker& worker,
                                                       const wire::pb::GroupsLost& lost) {
  auto& in_flight = worker.steps.edit().in_flight;
  const auto sent = std::find_if(in_flight.begin(), in_flight.end(), [&](const SentFrame& frame) {
    return frame.sequence == lost.sequence() && frame.binding.value() == lost.binding();
  });
  if (!options_.loss_limit || sent == in_flight.end() || !sent->layers.is_hub() ||
      lost.sessions_size() != lost.groups_size())
    return BadReport("GroupsLost names a step that was not to lose anything.");
  if (std::exchange(sent->told_losses, true)) return BadReport("GroupsLost came twice for a step.");
  uint64_t most = 0;
  for (uint32_t layer = sent->layers.first; layer < sent->layers.end; ++layer)
    most += options_.model.layers[layer].expert_count;
  std::vector<LostGroups> losses;
  for (int i = 0; i < lost.sessions_size(); ++i) {
    const uint32_t id = lost.sessions(i);
    const bool named = std::any_of(sent->runs.begin(), sent->runs.end(),
                                   [id](const wire::Run& run) { return run.session == id; });
    if (!named || lost.groups(i) > most)
      return BadReport("GroupsLost says that session " + std::to_string(id) + " did without " +
                       std::to_string(lost.groups(i)) + " groups, expected one of its step and " +
                       std::to_string(most) + " at most.");
    losses.push_back({SessionId(id), lost.groups(i)});
  }
  return losses;
}

}  // namespace weft::swarm
