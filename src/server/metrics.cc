#include "server/metrics.h"

#include <string>
#include <utility>
#include <vector>

namespace weft::server {

namespace {

using Counts = std::vector<std::pair<std::string, uint64_t>>;

double AsDouble(uint64_t count) {
  return static_cast<double>(count);
}

// Of all hubs that may lose groups, by reason.
void AddLosses(MetricFamilies& families, const std::vector<swarm::LossSnapshot>& hubs) {
  if (hubs.empty()) return;
  const auto add = [&families](const std::string& name, const char* help, const char* label,
                               const Counts& counts) {
    std::vector<MetricValue> values;
    for (const auto& [reason, count] : counts) {
      values.push_back({{}, AsDouble(count)});
      if (label != nullptr) values.back().labels.emplace_back(label, reason);
    }
    AddFamily(families, name, help, values);
  };
  const auto sum = [&hubs](auto&& of) {
    Counts sums = of(hubs.front());
    for (size_t hub = 1; hub < hubs.size(); ++hub)
      for (size_t i = 0; i < sums.size(); ++i) sums[i].second += of(hubs[hub])[i].second;
    return sums;
  };
  using Hub = swarm::LossSnapshot;
  add("weft_datagrams_total", "Datagrams of neuron groups' sums that were accepted", nullptr,
      sum([](const Hub& hub) {
        return Counts{{"", hub.datagrams}};
      }));
  add("weft_datagrams_dropped_total", "Datagrams that were not computed with", "reason",
      sum([](const Hub& hub) { return hub.dropped; }));
  add("weft_sum_fragments_total", "Fragments of sums by what became of them", "outcome",
      sum([](const Hub& hub) { return hub.fragments; }));
  add("weft_late_fragments_total", "Fragments that were taken for lost and came", nullptr,
      sum([](const Hub& hub) {
        return Counts{{"", hub.late}};
      }));
  add("weft_loss_canaries_total", "Layers whose losses were asked for again, to measure them",
      nullptr, sum([](const Hub& hub) {
        return Counts{{"", hub.canaries}};
      }));
  std::vector<MetricValue> drifts;
  for (const Hub& hub : hubs)
    drifts.push_back({{{"hub", std::to_string(hub.hub.value())}}, hub.drift});
  AddFamily(families, "weft_loss_drift",
            "The norm of what layers lost lately, by the norm of their sums", drifts);
  add("weft_loss_falls_total", "How often so much was lost that nothing could be for a while",
      nullptr, sum([](const Hub& hub) {
        return Counts{{"", hub.falls}};
      }));
}

// Of workers that hold experts for hubs, by their numbers.
void AddHolders(MetricFamilies& families, const std::vector<swarm::WorkerSnapshot>& workers) {
  const auto add = [&](const std::string& name, const char* help, auto&& of) {
    std::vector<MetricValue> values;
    for (const swarm::WorkerSnapshot& worker : workers)
      if (worker.holder)
        values.push_back(
            {{{"worker", ToString(worker.id)}}, static_cast<double>(of(*worker.holder))});
    AddFamily(families, name, help, values);
  };
  using Holder = swarm::HolderSnapshot;
  const auto count = [&add](const char* name, const char* help,
                            uint64_t swarm::HolderCounts::*field) {
    add(name, help, [field](const Holder& holder) { return holder.counts.*field; });
  };
  using Of = swarm::HolderCounts;
  count("weft_holder_calls_total", "Experts that hubs asked a holder for", &Of::calls);
  count("weft_holder_rows_total", "Rows that these were to be computed for", &Of::rows);
  count("weft_holder_hedges_total", "Of the calls, those where another had been asked already",
        &Of::hedges);
  count("weft_holder_wins_total", "Calls that it answered first", &Of::wins);
  count("weft_holder_losses_total", "Calls that were cancelled", &Of::losses);
  count("weft_holder_won_hedges_total", "Of the wins, hedges", &Of::won_hedges);
  count("weft_holder_lost_hedges_total", "Of the losses, hedges", &Of::lost_hedges);
  count("weft_holder_timeouts_total", "Messages to it that were not answered in time",
        &Of::timeouts);
  count("weft_holder_refused_total", "Its answers that could not be used", &Of::refused);
  count("weft_holder_sent_bytes_total", "Bytes of rows sent to it", &Of::sent_bytes);
  count("weft_holder_received_bytes_total", "Bytes of rows received from it", &Of::received_bytes);
  add("weft_holder_p50_ms", "Median of its last round trips",
      [](const Holder& holder) { return holder.times.p50_ms; });
  add("weft_holder_slowest_ms", "The slowest of its last round trips",
      [](const Holder& holder) { return holder.times.slowest_ms; });
  add("weft_holder_queue_ms", "What waits there",
      [](const Holder& holder) { return holder.times.queue_ms; });
}

void AddTimes(MetricFamilies& families, const SwarmHost& host, const swarm::Snapshot& snapshot) {
  const HostTimes& times = host.times();
  AddHistogram(families, "weft_time_to_first_token_seconds",
               "From the moment that the core was asked to the first token",
               {{{}, times.first_token}});
  AddHistogram(families, "weft_time_between_tokens_seconds", "Between two tokens of one answer",
               {{{}, times.between_tokens}});
  AddHistogram(families, "weft_queue_seconds", "That requests waited for a session",
               {{{}, snapshot.queued_times}});
  std::vector<MetricTimes> steps;
  for (const swarm::WorkerSnapshot& worker : snapshot.workers)
    if (worker.step_times.count() > 0)
      steps.push_back({{{"worker", ToString(worker.id)}}, worker.step_times});
  AddHistogram(families, "weft_step_seconds",
               "Of a stage's step, from sending it to its answer, by worker", steps);
}

}  // namespace

net::HttpResponse MetricsResponse(const MetricFamilies& families) {
  return net::TextResponse(200, "text/plain; version=0.0.4; charset=utf-8", MetricText(families));
}

void AddSwarmMetrics(MetricFamilies& families, const SwarmHost& host) {
  const HostCounters& counters = host.counters();
  const swarm::Snapshot snapshot = host.snapshot();
  const bool is_up = snapshot.state == swarm::SwarmState::kUp;
  struct Metric {
    const char* name;
    const char* help;
    double value;
  };
  const auto count = AsDouble;
  std::vector<Metric> metrics = {
      {"weft_core_seconds_total", "Time inside the orchestrator's core",
       counters.core_time.seconds()},
      {"weft_core_events_total", "Events handled by the core", count(counters.events)},
      {"weft_frames_sent_total", "Step frames sent", count(counters.frames_sent)},
      {"weft_frames_received_total", "Result frames received", count(counters.frames_received)},
      {"weft_frame_bytes_sent_total", "Bytes of step frames", count(counters.bytes_sent)},
      {"weft_frame_bytes_received_total", "Bytes of result frames", count(counters.bytes_received)},
      {"weft_generated_tokens_total", "Tokens generated", count(snapshot.generated_tokens)},
      {"weft_side_tokens_total", "Of those: that plans beside the active one made",
       count(snapshot.side_tokens)},
      {"weft_forced_tokens_total", "Of those: that a grammar left no choice of, computed together",
       count(snapshot.forced_tokens)},
      {"weft_prompt_tokens_total", "Tokens of the prompts of requests that have ended",
       count(snapshot.prompt_tokens)},
      {"weft_cached_prompt_tokens_total", "Of them, those that had been computed before",
       count(snapshot.cached_prompt_tokens)},
      {"weft_computed_positions_total", "Rows computed for requests, of prompts and of answers",
       count(snapshot.computed_positions)},
      {"weft_lost_groups_total", "Neuron groups that rows of answers had to do without",
       count(snapshot.lost_groups)},
      {"weft_requests_completed_total", "Requests that ended well",
       count(snapshot.completed_requests)},
      {"weft_requests_failed_total", "Requests that ended with an error",
       count(snapshot.failed_requests)},
      {"weft_workers", "Connected workers", count(snapshot.workers.size())},
      {"weft_up", "1 when a full plan serves", is_up ? 1.0 : 0.0},
      {"weft_predicted_us_per_token", "The plan's time per token", snapshot.predicted_us_per_token},
      {"weft_measured_us_per_token", "The measured time per token", snapshot.measured_us_per_token},
  };
  if (snapshot.initial_error) {
    metrics.push_back({"weft_initial_prediction_error_ratio",
                       "Mean of |predicted - measured| / measured of steps, predicted with their "
                       "plan",
                       *snapshot.initial_error});
  }
  if (snapshot.running_error) {
    metrics.push_back({"weft_running_prediction_error_ratio",
                       "Mean of |predicted - measured| / measured of steps, predicted when they "
                       "were sent",
                       *snapshot.running_error});
  }
  AddLosses(families, snapshot.losses);
  AddHolders(families, snapshot.workers);
  for (const auto& [name, help, value] : metrics) AddFamily(families, name, help, {{{}, value}});
  AddTimes(families, host, snapshot);
}

void AddMoveMetrics(MetricFamilies& families, const ClusteredGenerator::Counts& counts) {
  const auto add = [&families](const char* name, const char* help, uint64_t count) {
    AddFamily(families, name, help, {{{}, AsDouble(count)}});
  };
  add("weft_requests_forwarded_total", "Requests that were sent to the server that leads the cell",
      counts.forwarded);
  add("weft_requests_moved_total", "Requests that were sent once more, to the cell's next leader",
      counts.moved);
  add("weft_requests_lost_total", "Requests that were sent once more, to the same server",
      counts.lost);
  add("weft_splice_differs_total",
      "Tokens that a next leader gave otherwise than the one before; 0 if all is well",
      counts.differences);
}

void AddKeyMetrics(MetricFamilies& families, const KeyTable& table) {
  constexpr store::Role kRoles[store::kRoleCount] = {store::Role::kUser, store::Role::kAdmin,
                                                     store::Role::kMetrics, store::Role::kHelper};
  const auto add = [&](const std::string& name, const char* help, auto&& of) {
    std::vector<MetricValue> values;
    for (const store::Role role : kRoles)
      values.push_back(
          {{{"role", std::string(store::RoleName(role))}}, static_cast<double>(of(role))});
    AddFamily(families, name, help, values);
  };
  const auto count = [&](const char* name, const char* help, int64_t store::Usage::*field) {
    add(name, help, [&](store::Role role) { return table.UsageOf(role).*field; });
  };
  add("weft_keys", "Named API keys that are good",
      [&](store::Role role) { return table.LiveCount(role); });
  count("weft_key_requests_total", "Requests that named API keys were let in with",
        &store::Usage::requests);
  count("weft_key_prompt_tokens_total", "Tokens of their prompts", &store::Usage::prompt_tokens);
  count("weft_key_cached_prompt_tokens_total", "Of them, those that had been computed before",
        &store::Usage::cached_tokens);
  count("weft_key_generated_tokens_total", "Tokens generated for them",
        &store::Usage::generated_tokens);
}

}  // namespace weft::server
