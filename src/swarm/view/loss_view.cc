// What is lost of the sums of hubs' neuron groups, as people see it.
#include <algorithm>
#include <cmath>

#include "swarm/view/swarm_view.h"
#include "wire/datagram.h"
#include "wire/group_sums.h"

namespace weft::swarm {
namespace {

std::string Percent(double share) {
  return std::to_string(std::lround(1000 * share) / 10) + "." +
         std::to_string(std::lround(1000 * share) % 10) + "%";
}

}  // namespace

std::vector<LossSnapshot> SwarmView::PictureOfLosses() const {
  using Report = wire::pb::LossReport;
  std::vector<LossSnapshot> losses;
  for (const auto& [id, worker] : parts_.roster) {
    if (!worker.reports->losses || !worker.experts->is_hub) continue;
    const Report& report = *worker.reports->losses;
    LossSnapshot& out = losses.emplace_back();
    out.hub = id;
    for (const Report::Line& line : report.lines())
      out.lines.push_back({WorkerId(line.peer()), line.ready(), line.blocked(), line.loss()});
    const bool sends = std::any_of(report.lines().begin(), report.lines().end(),
                                   [](const Report::Line& line) { return line.ready(); });
    if (report.reliable()) {
      out.state = "reliable";
      out.message = "Too much was lost (" + Percent(report.fell_at()) +
                    " of the groups' weight, at most " + Percent(*parts_.options.loss_limit) +
                    " may be): for a minute nothing may be lost.";
    } else if (sends) {
      out.state = "lossy";
      out.message =
          "Sums of neuron groups come as datagrams, and what is lost of them is not waited for.";
      if (report.canaries() > 0)
        out.message += " It was " + Percent(report.drift()) + " of the layers' sums lately.";
    } else {
      out.state = "nobody";
      out.message = report.lines_size() == 0 ? "No device sends datagrams: nothing is lost."
                                             : "No device's datagrams get through: sums go over "
                                               "the WebSocket, where nothing is lost.";
    }
    out.groups = report.groups();
    out.lost = report.lost();
    out.share = report.share();
    out.falls = report.falls();
    out.datagrams = report.datagrams();
    out.late = report.late();
    out.canaries = report.canaries();
    out.drift = report.drift();
    for (size_t i = 0; i < wire::kDatagramFaults; ++i)
      out.dropped.emplace_back(wire::DatagramFaultName(static_cast<wire::DatagramFault>(i)),
                               report.dropped(static_cast<int>(i)));
    for (size_t i = 0; i < wire::kSumsOutcomes; ++i)
      out.fragments.emplace_back(wire::SumsOutcomeName(static_cast<wire::SumsOutcome>(i)),
                                 report.fragments(static_cast<int>(i)));
  }
  return losses;
}

}  // namespace weft::swarm
