#include "swarm/measuring.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace weft::swarm {
namespace {

constexpr Duration kMeasureAgain = Seconds(600);

using Range = std::pair<uint32_t, uint32_t>;

// Transformer layers that may be run alone, or kept together, in stretches.
struct Stretches {
  std::vector<Range> alone, kept;
};

Stretches StretchesOf(const Costs& costs) {
  Stretches found;
  const uint32_t layers_end = costs.layer_count() - 1;  // the head
  for (uint32_t first = 0; first < layers_end;) {
    uint32_t end = first + 1;
    while (end < layers_end && !costs.MayCut(end)) ++end;
    const bool is_embedding = first == 0 && end == 1;
    if (end - first > 1) {
      if (costs.MayCut(end)) found.kept.emplace_back(first, end);
    } else if (!found.alone.empty() && found.alone.back().second == first) {
      found.alone.back().second = end;
    } else if (!is_embedding) {
      found.alone.emplace_back(first, end);
    }
    first = end;
  }
  return found;
}

}  // namespace

// The longest run of transformer layers that the worker runs (when it is in a plan) or has cached,
// else the first ones; cut to as many as are run and to what fits beside what is loaded. Where not
// even two layers are, some that are kept together; nullopt: none.
std::optional<MeasureRanges> Measuring::PickRanges(const Worker& worker) const {
  const Stretches stretches = StretchesOf(costs_);
  uint32_t first = 0, count = 0;
  const bool used = lifecycle_.IsUsed(worker.id);
  const LayerSet& at_hand = used ? worker.layers.loaded : worker.layers.cached;
  // Sessions of ONNX stages are built anew for each range.
  uint32_t most = worker.offer.needs_onnx ? kMeasureLayers : kMeasureLayersAtHand;
  const auto take_longer = [&](uint32_t begin, uint32_t end) {
    if (end <= begin || end - begin <= count) return;
    first = begin;
    count = end - begin;
  };
  for (const auto& [range_first, range_end] : at_hand.Ranges())
    for (const auto& [begin, end] : stretches.alone)
      take_longer(std::max(range_first, begin), std::min(range_end, end));
  if (count < 2 && !used) {
    for (const auto& [begin, end] : stretches.alone) take_longer(begin, end);
    most = kMeasureLayers;
  }
  for (count = std::min(count, most); count >= 2; --count)
    if (Fits(worker, first, first + count)) return RangesOf(first, count);
  return PickKept(worker);
}

// Of layers that are kept together the first that the worker runs, or has room for.
std::optional<MeasureRanges> Measuring::PickKept(const Worker& worker) const {
  for (const auto& [first, end] : StretchesOf(costs_).kept) {
    const bool is_there = !lifecycle_.IsUsed(worker.id) || worker.layers.loaded.HasAll(first, end);
    if (is_there && Fits(worker, first, end)) return MeasureRanges{first, end, end};
  }
  return std::nullopt;
}

// Layers in hub form are measured by the answers that they compute: their experts are not here, and
// a layer is held in one form only.
bool Measuring::Fits(const Worker& worker, uint32_t first, uint32_t end) const {
  for (uint32_t layer = first; layer < end; ++layer)
    if (worker.layers.loaded_hubs.Has(layer)) return false;
  LayerSet held = worker.layers.loaded;
  held.AddRange(first, end);
  return costs_.MemoryBytes(worker.memory.weight_factor, held, worker.layers.loaded_hubs) +
             worker.experts.memory_bytes <=
         worker.memory.limit;
}

bool Measuring::Settle(bool calm, bool idle, Instant now) {
  bool gave_up = false;
  for (auto& [id, worker] : roster_) {
    if (!worker.ready) continue;
    if (!CanCompute(worker.offer, options_.model)) continue;  // it never gets a stage
    if (worker.measure.phase == MeasureJob::Phase::kDownloading) {
      if (lifecycle_.IsUsed(id))
        worker.measure.phase = MeasureJob::Phase::kNone;
      else if (worker.layers.cached.HasAll(worker.measure.first, worker.measure.end))
        Ask(worker, now);
      continue;
    }
    if (!calm || worker.measure.phase != MeasureJob::Phase::kNone) continue;
    // Devices get hot, or are used for other things: what was measured is measured again, while
    // nobody waits and with layers that are there.
    const bool again =
        worker.times.overhead_us && idle && now >= worker.measure.again_at && !worker.IsLoading();
    if (!again && (worker.measure.tried || worker.times.overhead_us)) continue;
    // An ONNX worker would have to build sessions beside those that it serves with.
    if (lifecycle_.IsUsed(id) && (!idle || worker.offer.needs_onnx || !worker.steps.idle()))
      continue;
    const auto ranges = PickRanges(worker);
    if (ranges)
      Start(worker, *ranges, now);
    else
      gave_up = worker.measure.tried = true;
  }
  return gave_up;
}

void Measuring::Start(Worker& worker, const MeasureRanges& ranges, Instant now) {
  const double download_us =
      static_cast<double>(costs_.MissingBytes(worker.layers, {ranges.first, ranges.end})) /
      (worker.offer.download_bytes_per_s * 1e-6) * options_.timeouts.prepare_factor;
  worker.measure = {MeasureJob::Phase::kDownloading, ranges.first, ranges.middle, ranges.end,
                    now + options_.timeouts.prepare_min +
                        Microseconds(static_cast<int64_t>(std::min(download_us, 86400e6)))};
  if (worker.layers.cached.HasAll(ranges.first, ranges.end))
    Ask(worker, now);
  else
    lifecycle_.Download(worker, ranges.first, ranges.end);
  outbox_.NoteChange();
}

void Measuring::Ask(Worker& worker, Instant now) {
  MeasureJob& job = worker.measure;
  if (!Fits(worker, job.first, job.end)) return GiveUp(worker, now);  // it holds more since
  job.phase = MeasureJob::Phase::kRunning;
  job.deadline = now + options_.timeouts.measure_limit;
  worker.measure.tried = true;
  worker.layers.loaded.AddRange(job.first, job.end);
  auto& message = *outbox_.Control(worker.id).mutable_measure_speed();
  message.set_runs(kMeasureRuns);
  const MeasureRanges ranges{job.first, job.middle, job.end};
  for (const LayerSpan layers : {ranges.small(), ranges.large()}) {
    auto& range = *message.add_ranges();
    range.set_first(layers.first);
    range.set_end(layers.end);
  }
}

Status Measuring::OnMeasured(Worker& worker, const wire::pb::Measured& measured, Instant now) {
  const MeasureJob job = worker.measure;
  if (job.phase != MeasureJob::Phase::kRunning)
    return Error(ErrorCode::kInvalidData, "Measured came though no measurement was asked for.");
  ASSIGN_OR_RETURN(const Speed speed,
                   SpeedFromMeasured(measured, {job.first, job.middle, job.end},
                                     [this](LayerSpan layers) { return costs_.Cost(layers); }));
  worker.times.overhead_us = speed.overhead_us;
  worker.times.speed.Add(speed.ops_per_us);
  worker.times.repeated_speed = speed.ops_per_us;
  GiveUp(worker, now);
  return OkStatus();
}

bool Measuring::OnFailed(Worker& worker, Instant now) {
  if (worker.measure.phase == MeasureJob::Phase::kNone) return false;
  GiveUp(worker, now);
  return true;
}

bool Measuring::IsOverdue(const Worker& worker, Instant now) const {
  return worker.measure.phase != MeasureJob::Phase::kNone && now >= worker.measure.deadline;
}

void Measuring::GiveUp(Worker& worker, Instant now) {
  worker.measure.phase = MeasureJob::Phase::kNone;
  worker.measure.again_at = now + kMeasureAgain;
  worker.measure.tried = true;
  lifecycle_.Retire(worker);
  outbox_.NoteChange();
}

std::optional<Instant> Measuring::next_timer() const {
  std::optional<Instant> next;
  for (const auto& [id, worker] : roster_)
    if (worker.measure.phase != MeasureJob::Phase::kNone &&
        (!next || worker.measure.deadline < *next))
      next = worker.measure.deadline;
  return next;
}

}  // namespace weft::swarm
