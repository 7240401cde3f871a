// What is known of a device when plans are made: measured, or assumed of its kind until something
// is. The one way to the planner's numbers, for workers that are connected (Costs::Metrics) and for
// those that somebody describes in a file (`weft plan`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/problem.h"
#include "swarm/workers/measurement.h"

namespace weft::swarm {

// Of a device that nothing is known of: a tab that somebody has opened for half an hour.
inline constexpr double kAssumedStayS = 1800;
inline constexpr double kAssumedLossesPerS = 1 / kAssumedStayS;

struct DeviceNumbers {
  std::string name;
  bool native = true;           // false: in a browser
  bool needs_onnx = false;      // builds ONNX sessions instead of running programs
  bool messages = false;        // rows between two of these do not pass the server
  bool rows_to_server = false;  // as a hub it leaves it to the server whom to ask
  uint64_t memory_bytes = 0;
  double weight_factor = 1;  // resident bytes per byte of weights
  // 0: not known.
  double download_bytes_per_s = 0, upload_bytes_per_s = 0;
  // Unset: not measured yet.
  std::optional<double> overhead_us;   // SO_w, of every step
  std::optional<double> bytes_per_us;  // CS_w, weights and keys and values read
  std::optional<double> latency_us;    // P_w, round trip of a ping
  std::optional<double> handover_us;   // what a small step's line takes beyond that
  std::optional<double> batch_gain;    // rows of a chunk in the time of a token
  std::optional<double> load_bytes_per_us;
  double losses_per_s = kAssumedLossesPerS;
  std::vector<bool> cached_layers;
};

// A device that does not know its download rate gets a modest home line's, one that does not know
// its upload rate that of its downloads.
double DownloadRate(double bytes_per_s);
double UploadRate(double bytes_per_s, double download_bytes_per_s);

// The server's own work for a step: the planner's delta.
inline constexpr double kServerStepUs = 40;

// What is assumed of a device's kind.
StepSpeed AssumedSpeed(const DeviceNumbers& device);
double OverheadUs(const DeviceNumbers& device);
double BytesPerUs(const DeviceNumbers& device);
double LatencyUs(const DeviceNumbers& device);
// P and H together: what the line of a step takes that carries next to nothing.
double StepLatencyUs(const DeviceNumbers& device);

planner::WorkerMetrics MetricsOf(const DeviceNumbers& device);

}  // namespace weft::swarm
