// What a device is measured to do, for as long as it is known (dynamic-graph-partitioning 4.3.2):
// made of steps that it answers anyway, of pings, of loads, and of one small probe of its line, so
// that measuring takes nothing from answers. A step of the device:
//
// A hub also waits for experts, as often as it has layers with some; how long says nothing of its
// line, but of what exchange_costs.h expects of all hubs.
//
//     sent                                                       answered
//      |--- I / down ---|-- queue --|--- compute ---|--- O / up ---|
//      |<------------------------- elapsed ------------------------->|
//
// The device says queue and compute. The rest is its line: P + H + I / down + O / up. P is the
// round trip of an idle ping, H (handing over between the threads of both ends) what is left of
// small steps, and the rates are what is left of large ones.
#pragma once

#include <cstdint>
#include <optional>

#include "swarm/workers/batch_times.h"
#include "swarm/workers/measurement.h"
#include "swarm/workers/ring.h"

namespace weft::swarm {

// An answered step.
struct StepTime {
  uint32_t rows = 0;
  uint64_t bytes_down = 0, bytes_up = 0;
  double elapsed_us = 0, queue_us = 0, compute_us = 0;
  bool alone = false;  // nothing else was in flight when it was sent
};

// Bytes per us.
struct LineRates {
  double down = 0, up = 0;
};

struct WorkerTimes {
  Ring<7> latency_us;    // P: round trip of a ping, only while idle
  Ring<15> pong_us;      // the same, whatever it did
  Ring<15> handover_us;  // H; negative where steps are quicker than pings
  // SO_w, and CS_w in bytes per us: as measured (MeasureSpeed), then of steps.
  Ring<15> overhead_us, speed;
  // What the last measurement said, or the medians that a restarted server remembers.
  std::optional<StepSpeed> measured;
  // CS_w of a few layers that were run again and again: faster than in answers, whose layers do not
  // fit the processor's caches.
  std::optional<double> repeated_speed;
  // The same of a holder of neuron groups, as hubs tell it of its answers.
  Ring<7> group_speed;
  Ring<15> batch_gain;         // how many rows of a chunk take as long as a token
  Ring<7> down_rate, up_rate;  // of the line, bytes per us
  Ring<15> waits_us;           // of a hub at each exchange, since its holders changed last
  // Of a hub: such waits against those expected, when both were known last.
  std::optional<double> wait_share;
  Ring<7> load_rate;  // from its disk into its engine, bytes of weights per us
  // Of the binding that it runs now.
  Ring<15> compute_us;  // of one-row steps
  Ring<15> stage_us;    // the same from sending to the answer
  BatchTimes batches;   // from when a step was the oldest to its answer
  BatchTimes together;  // the same of one row of each of several sessions, and of their tokens
  BatchTimes computed;  // what the device says that it computed
  BatchTimes behind;    // the same of steps that waited for the one before them

  // What a step of so many rows keeps the device from other steps. A GPU takes the next step while
  // one is computed (docs/webgpu.md), so that one that was waiting takes less than one that met it
  // idle. A step of 4.0 ms that is on the GPU for 2.9 takes 2.9 behind others, where all the rest
  // of it overlaps. nullopt: nothing was measured.
  std::optional<double> BusyUs(uint32_t rows) const;

  // CS_w of steps, before any of what it holds for hubs; nullopt: neither is known.
  std::optional<double> BytesPerUs() const {
    const auto of_steps = speed.Median();
    return of_steps ? of_steps : group_speed.Median();
  }

  // It runs other layers from now on.
  void ClearBinding();
  void AddSpeed(const StepSpeed& speed);
  void AddMeasured(const StepSpeed& speed);
  // The line's share of a step that was alone. `rates`: what is counted with until now.
  void AddLine(const StepTime& step, const LineRates& rates);
  // A one-row step of a hub that was alone, and so waited for experts only: what the device says
  // of its queue is that. `exchanges`: how often it waited.
  void AddWaits(const StepTime& step, double step_latency_us, int exchanges);
  // A chunk's compute time against that of a token, SO + C / CS.
  void AddBatch(const StepTime& step, double token_us);
  // A message of so many bytes from the device took so much longer than a ping.
  void AddUpload(uint64_t bytes, double us);
};

// The mean of |predicted - measured| / measured, of the last few hundred.
class MeanError {
 public:
  void Add(double predicted_us, double measured_us);
  // nullopt before there is anything to compare.
  std::optional<double> value() const;
  uint64_t count() const { return count_; }

 private:
  double mean_ = 0;
  uint64_t count_ = 0;
};

}  // namespace weft::swarm
