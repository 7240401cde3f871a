// What is to be measured, and rows that are to be computed so that others can compare them.
#include <algorithm>

#include "wire/probe_rows.h"
#include "worker/loads.h"

namespace weft::worker {
namespace {

constexpr uint32_t kMaxMeasureRuns = 64;

}  // namespace

void Loads::Measure(const wire::pb::MeasureSpeed& message) {
  Load load;
  for (const wire::pb::LayerRange& range : message.ranges()) {
    const auto checked = Checked(range);
    if (!checked) return;
    load.ranges.push_back(*checked);
  }
  load.timed = load.ranges;
  load.runs = std::clamp(message.runs(), 1u, kMaxMeasureRuns);
  for (const wire::pb::MeasureSpeed::Probe& probe : message.probes()) {
    const auto checked = Checked(probe.layers());
    if (!checked) return;
    if (checked->first == 0 || checked->end == layer_count_ || probe.rows() == 0 ||
        probe.rows() > wire::kMaxProbeRows || load.probes.size() == wire::kMaxProbes)
      return out_.Violation("The server asked for " + std::to_string(probe.rows()) +
                            " rows behind layers " + std::to_string(checked->first) + " to " +
                            std::to_string(checked->end) + ", expected 1 to " +
                            std::to_string(wire::kMaxProbeRows) +
                            " behind layers between embedding and head, and at most " +
                            std::to_string(wire::kMaxProbes) + " times.");
    load.probes.push_back({*checked, probe.seed(), probe.rows()});
    const bool is_timed =
        std::any_of(load.timed.begin(), load.timed.end(), [&](const LayerRange& range) {
          return range.first <= checked->first && checked->end <= range.end;
        });
    if (!is_timed) load.ranges.push_back(*checked);
  }
  Add(std::move(load));
}

}  // namespace weft::worker
