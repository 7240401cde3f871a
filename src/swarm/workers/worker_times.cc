#include "swarm/workers/worker_times.h"

#include <algorithm>
#include <cmath>

namespace weft::swarm {
namespace {

// Steps that carry as much tell of the rates, smaller ones of the handing over.
constexpr uint64_t kLargeBytes = 32 * 1024;
// A step that carries this many times more one way tells of that way alone.
constexpr double kOneWay = 4;
// Clocks and threads are no better than this.
constexpr double kLeastUs = 20;
// Chunks of fewer rows say little about long prompts.
constexpr uint32_t kBatchRows = 16;
constexpr uint64_t kErrorWindow = 256;

}  // namespace

void WorkerTimes::ClearBinding() {
  compute_us.Clear();
  stage_us.Clear();
  batches.Clear();
  together.Clear();
  computed.Clear();
  behind.Clear();
}

std::optional<double> WorkerTimes::BusyUs(uint32_t rows) const {
  std::optional<double> least;
  for (const BatchTimes* times : {&computed, &behind})
    for (const std::optional<double> us : {times->ExpectedUs(rows), times->AtMostUs(rows)})
      if (us) least = std::min(*us, least.value_or(*us));
  return least;
}

void WorkerTimes::AddSpeed(const StepSpeed& sample) {
  overhead_us.Add(sample.overhead_us);
  speed.Add(sample.ops_per_us);
}

void WorkerTimes::AddMeasured(const StepSpeed& sample) {
  AddSpeed(sample);
  measured = sample;
}

// Example: 128 rows of 2 KiB each way, 256 KiB, over a line of 10 MB/s down and 2 MB/s up that is
// known as 10 and 10: 156 ms of line in place of 51. Both ways carry the same, so that both rates
// are counted three times too high: 3.4 and 3.4, and what the next steps say changes nothing. The
// ratio is left to steps of the first stage (ids down, rows up), of the last one (rows down,
// candidates up), and to the probe.
void WorkerTimes::AddLine(const StepTime& step, const LineRates& rates) {
  if (!step.alone || latency_us.count() == 0) return;
  const auto down = static_cast<double>(step.bytes_down), up = static_cast<double>(step.bytes_up);
  const double line_us =
      step.elapsed_us - step.queue_us - step.compute_us - latency_us.Median().value_or(0);
  if (step.bytes_down + step.bytes_up < kLargeBytes) {
    if (step.rows == 1) handover_us.Add(line_us - down / rates.down - up / rates.up);
    return;
  }
  const double transfer_us = std::max(line_us - handover_us.Median().value_or(0), kLeastUs);
  if (down > kOneWay * up) {
    down_rate.Add(down / std::max(transfer_us - up / rates.up, kLeastUs));
  } else if (up > kOneWay * down) {
    up_rate.Add(up / std::max(transfer_us - down / rates.down, kLeastUs));
  } else {
    const double times_faster = (down / rates.down + up / rates.up) / transfer_us;
    down_rate.Add(rates.down * times_faster);
    up_rate.Add(rates.up * times_faster);
  }
}

void WorkerTimes::AddWaits(const StepTime& step, double step_latency_us, int exchanges) {
  if (!step.alone || step.rows != 1 || exchanges == 0) return;
  const double waited_us = step.elapsed_us - step.compute_us - step_latency_us;
  waits_us.Add(std::max(waited_us, 0.0) / exchanges);
}

void WorkerTimes::AddBatch(const StepTime& step, double token_us) {
  if (step.rows < kBatchRows || step.compute_us <= 0) return;
  batch_gain.Add(std::max(step.rows * token_us / step.compute_us, 1.0));
}

void WorkerTimes::AddUpload(uint64_t bytes, double us) {
  up_rate.Add(static_cast<double>(bytes) / std::max(us, kLeastUs));
}

void MeanError::Add(double predicted_us, double measured_us) {
  if (!(measured_us > 0)) return;
  count_ += 1;
  const auto weight = static_cast<double>(std::min(count_, kErrorWindow));
  mean_ += (std::abs(predicted_us - measured_us) / measured_us - mean_) / weight;
}

std::optional<double> MeanError::value() const {
  if (count_ == 0) return std::nullopt;
  return mean_;
}

}  // namespace weft::swarm
