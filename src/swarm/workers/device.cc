#include "swarm/workers/device.h"

#include <algorithm>

namespace weft::swarm {
namespace {

constexpr double kUnknownRate = 2e6;  // bytes per s

struct Defaults {
  double bytes_per_us, overhead_us, latency_us, handover_us, session_init_us;
};
// Before anything is measured: a laptop's memory bandwidth for native code, a fifth of it in a
// browser. The wrong guess only lasts until the first steps have been timed.
constexpr Defaults kNativeDefaults = {5000, 100, 1000, 30, 50'000};
constexpr Defaults kWebDefaults = {1000, 3000, 4000, 500, 300'000};
constexpr Defaults kOnnxDefaults = {500, 3000, 4000, 500,
                                    1'000'000};  // builds a session for each stage

const Defaults& DefaultsOf(const DeviceNumbers& device) {
  if (device.needs_onnx) return kOnnxDefaults;
  return device.native ? kNativeDefaults : kWebDefaults;
}

}  // namespace

double DownloadRate(double bytes_per_s) {
  return bytes_per_s > 0 ? bytes_per_s : kUnknownRate;
}

double UploadRate(double bytes_per_s, double download_bytes_per_s) {
  return bytes_per_s > 0 ? bytes_per_s : DownloadRate(download_bytes_per_s);
}

StepSpeed AssumedSpeed(const DeviceNumbers& device) {
  const Defaults& assumed = DefaultsOf(device);
  return {assumed.overhead_us, assumed.bytes_per_us};
}

double OverheadUs(const DeviceNumbers& device) {
  return device.overhead_us.value_or(DefaultsOf(device).overhead_us);
}

double BytesPerUs(const DeviceNumbers& device) {
  return device.bytes_per_us.value_or(DefaultsOf(device).bytes_per_us);
}

double LatencyUs(const DeviceNumbers& device) {
  return device.latency_us.value_or(DefaultsOf(device).latency_us);
}

double StepLatencyUs(const DeviceNumbers& device) {
  const double latency_us = LatencyUs(device);
  return std::max(0.0, latency_us + device.handover_us.value_or(DefaultsOf(device).handover_us));
}

planner::WorkerMetrics MetricsOf(const DeviceNumbers& device) {
  planner::WorkerMetrics metrics;
  metrics.name = device.name;
  metrics.memory_bytes = device.memory_bytes;
  metrics.weight_factor = device.weight_factor;
  metrics.session_overhead_us = OverheadUs(device);
  metrics.compute_speed = BytesPerUs(device);
  metrics.bandwidth_down = DownloadRate(device.download_bytes_per_s) * 1e-6;
  metrics.bandwidth_up = UploadRate(device.upload_bytes_per_s, device.download_bytes_per_s) * 1e-6;
  metrics.latency_us = StepLatencyUs(device);
  // What loading takes was measured with everything that belongs to it.
  metrics.session_init_us = device.load_bytes_per_us ? 0 : DefaultsOf(device).session_init_us;
  metrics.load_bytes_per_us = device.load_bytes_per_us.value_or(0);
  metrics.batch_gain = std::max(1.0, device.batch_gain.value_or(1));
  metrics.departures_per_s = device.losses_per_s;
  metrics.cached_layers = device.cached_layers;
  return metrics;
}

}  // namespace weft::swarm
