// What is known of a device when plans are made: measured, or assumed of its kind until something
// is. The one way to the planner's numbers, for workers that are connected (Costs::Metrics) and for
// those that somebody describes in a file (`weft plan`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/problem.h"

namespace weft::swarm {

struct DeviceNumbers {
  std::string name;
  bool native = true;       // false: in a browser
  bool needs_onnx = false;  // builds ONNX sessions instead of running programs
  uint64_t memory_bytes = 0;
  double weight_factor = 1;  // resident bytes per byte of weights
  // 0: not known.
  double download_bytes_per_s = 0, upload_bytes_per_s = 0;
  // Unset: not measured yet.
  std::optional<double> overhead_us;   // SO_w, of every step
  std::optional<double> bytes_per_us;  // CS_w, weights and keys and values read
  std::optional<double> latency_us;    // P_w, round trip
  std::vector<bool> cached_layers;
};

// A device that does not know its download rate gets a modest home line's, one that does not know
// its upload rate that of its downloads.
double DownloadRate(double bytes_per_s);
double UploadRate(double bytes_per_s, double download_bytes_per_s);

double OverheadUs(const DeviceNumbers& device);
double BytesPerUs(const DeviceNumbers& device);
double LatencyUs(const DeviceNumbers& device);

planner::WorkerMetrics MetricsOf(const DeviceNumbers& device);

}  // namespace weft::swarm
