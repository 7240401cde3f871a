// The sentence that says how the swarm does and what to do about it.
#include <algorithm>

#include "swarm/view/swarm_view.h"

namespace weft::swarm {
namespace {

std::string Devices(size_t count) {
  return std::to_string(count) + (count == 1 ? " device" : " devices");
}

// " (40%)", or nothing.
std::string InBrackets(const std::optional<uint32_t>& percent) {
  return percent ? " (" + std::to_string(*percent) + "%)" : "";
}

}  // namespace

const char* SwarmView::ExpertsInWords() const {
  const ModelInfo& model = parts_.options.model;
  if (model.divides_head()) return "neuron groups and ranges of the output head";
  return model.is_in_groups() ? "neuron groups" : "experts";
}

// ", 3 hold its experts"; the hubs among them count, too.
std::string SwarmView::DescribeHolders() const {
  const auto holders =
      std::count_if(parts_.roster.begin(), parts_.roster.end(), [](const auto& entry) {
        const std::vector<bool>& held = entry.second.holding->held;
        return std::find(held.begin(), held.end(), true) != held.end();
      });
  return ", " + std::to_string(holders) + (holders == 1 ? " holds" : " hold") + " its " +
         ExpertsInWords();
}

void SwarmView::DescribeExperts(Snapshot& picture) const {
  const Experts::Coverage& coverage = parts_.experts.coverage();
  picture.message += " Of " + std::to_string(coverage.needed) + " " + ExpertsInWords() + " " +
                     std::to_string(coverage.held) + " are loaded.";
  if (coverage.missing_bytes == 0) return;
  picture.missing_memory_bytes = coverage.missing_bytes;
  picture.message += " They need " + HumanBytes(coverage.missing_bytes) +
                     " more memory: open the join link on another device.";
}

// Of the bytes that the staged plan's workers download; nullopt: they download nothing.
std::optional<uint32_t> SwarmView::DownloadPercent() const {
  uint64_t done_bytes = 0, total_bytes = 0;
  const SwarmPlan* staged = parts_.lifecycle.staged();
  for (const auto& [id, worker] : parts_.roster) {
    if (!worker.ready || !staged || !staged->StageOf(id)) continue;
    done_bytes += worker.layers->downloaded_bytes;
    total_bytes += worker.layers->download_total_bytes;
  }
  if (total_bytes == 0) return std::nullopt;
  return static_cast<uint32_t>(std::min(done_bytes, total_bytes) * 100 / total_bytes);
}

std::string SwarmView::DescribeUp() const {
  const SwarmPlan& active = *parts_.lifecycle.active();
  const std::optional<WorkerId> whole_on = parts_.planning.whole_on();
  std::string message = whole_on && active.StageOf(*whole_on)
                            ? "Ready: " + parts_.roster.Find(*whole_on)->offer.name +
                                  " computes the whole model, as its user chose."
                            : "Ready: " + Devices(active.stages.size()) + " compute" +
                                  (active.stages.size() == 1 ? "s" : "") + " the model" +
                                  (active.is_hub() ? DescribeHolders() : "") + ".";
  size_t beside = 0;
  for (const SidePlan& side : parts_.side_plans.plans()) beside += side.plan.stages.size();
  if (beside > 0)
    message += std::string(" Beside ") + (active.stages.size() == 1 ? "it " : "them ") +
               Devices(beside) + " answer" + (beside == 1 ? "s" : "") + " other conversations.";
  if (const SwarmPlan* staged = parts_.lifecycle.staged())
    message += whole_on && staged->StageOf(*whole_on)
                   ? " A device is getting ready to compute the whole model."
                   : " A faster arrangement is being prepared.";
  return message;
}

void SwarmView::Describe(const ViewedNotes& notes, Snapshot& picture) const {
  const Planning& planning = parts_.planning;
  const SwarmPlan* staged = parts_.lifecycle.staged();
  switch (picture.state) {
    case SwarmState::kUp:
      picture.message = DescribeUp();
      if (const Experts::Coverage& experts = parts_.experts.coverage();
          parts_.lifecycle.active()->is_hub() && experts.held < experts.needed)
        DescribeExperts(picture);
      return;
    case SwarmState::kPreparing:
      picture.loading_percent = DownloadPercent();
      picture.message = "Preparing: " + Devices(staged->stages.size()) +
                        (staged->stages.size() == 1 ? " loads its" : " load their") + " layers" +
                        InBrackets(picture.loading_percent) + ".";
      if (staged->is_hub()) DescribeExperts(picture);
      break;
    case SwarmState::kRepairing:
      picture.message = staged
                            ? "A device has gone: another one takes over its layers" +
                                  InBrackets(DownloadPercent()) + "."
                            : "A device has gone and its layers are missing. " + planning.problem();
      picture.missing_memory_bytes = planning.missing_memory_bytes();
      break;
    case SwarmState::kDown:
      picture.missing_memory_bytes = planning.missing_memory_bytes();
      picture.message = planning.problem();
      if (picture.message.empty())
        picture.message =
            planning.under_way()
                ? "Looking for a way to share the model among the devices."
                : "No device computes for this swarm yet: open the join link on a device.";
      break;
  }
  if (!notes.package_problem.empty()) picture.message = notes.package_problem;
  if (planning.waits())
    picture.message = "The server has started again and waits for " + Devices(notes.awaited_count) +
                      " that computed before.";
}

}  // namespace weft::swarm
