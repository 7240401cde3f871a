#include "server/metrics.h"

namespace weft::server {

std::string MetricsText(const SwarmHost& host) {
  const HostCounters& counters = host.counters();
  const swarm::Snapshot snapshot = host.snapshot();
  std::string text;
  const auto add = [&](const char* name, const char* kind, const char* help, double value) {
    text += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + kind + "\n" +
            name + " " + std::to_string(value) + "\n";
  };
  add("weft_core_seconds_total", "counter", "Time inside the orchestrator's core",
      counters.core_time.seconds());
  add("weft_core_events_total", "counter", "Events handled by the core",
      static_cast<double>(counters.events));
  add("weft_frames_sent_total", "counter", "Step frames sent",
      static_cast<double>(counters.frames_sent));
  add("weft_frames_received_total", "counter", "Result frames received",
      static_cast<double>(counters.frames_received));
  add("weft_frame_bytes_sent_total", "counter", "Bytes of step frames",
      static_cast<double>(counters.bytes_sent));
  add("weft_frame_bytes_received_total", "counter", "Bytes of result frames",
      static_cast<double>(counters.bytes_received));
  add("weft_generated_tokens_total", "counter", "Tokens generated",
      static_cast<double>(snapshot.generated_tokens));
  add("weft_requests_completed_total", "counter", "Requests that ended well",
      static_cast<double>(snapshot.completed_requests));
  add("weft_requests_failed_total", "counter", "Requests that ended with an error",
      static_cast<double>(snapshot.failed_requests));
  add("weft_workers", "gauge", "Connected workers", static_cast<double>(snapshot.workers.size()));
  add("weft_up", "gauge", "1 when a full plan serves",
      snapshot.state == swarm::SwarmState::kUp ? 1 : 0);
  add("weft_predicted_us_per_token", "gauge", "The plan's time per token",
      snapshot.predicted_us_per_token);
  add("weft_measured_us_per_token", "gauge", "The measured time per token",
      snapshot.measured_us_per_token);
  if (snapshot.initial_error)
    add("weft_initial_prediction_error_ratio", "gauge",
        "Mean of |predicted - measured| / measured of steps, predicted with their plan",
        *snapshot.initial_error);
  if (snapshot.running_error)
    add("weft_running_prediction_error_ratio", "gauge",
        "Mean of |predicted - measured| / measured of steps, predicted when they were sent",
        *snapshot.running_error);
  return text;
}

}  // namespace weft::server
