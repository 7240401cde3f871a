#include "swarm/workers/measuring.h"

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
  const LayerSet& at_hand = used ? worker.layers->loaded : worker.layers->cached;
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
    const bool is_there = !lifecycle_.IsUsed(worker.id) || worker.layers->loaded.HasAll(first, end);
    if (is_there && Fits(worker, first, end)) return MeasureRanges{first, end, end};
  }
  return std::nullopt;
}

// Layers in hub form are measured by the answers that they compute: their experts are not here, and
// a layer is held in one form only.
bool Measuring::Fits(const Worker& worker, uint32_t first, uint32_t end) const {
  for (uint32_t layer = first; layer < end; ++layer)
    if (worker.layers->loaded_hubs.Has(layer)) return false;
  LayerSet held = worker.layers->loaded;
  held.AddRange(first, end);
  return costs_.MemoryBytes(worker.memory->weight_factor, held, worker.layers->loaded_hubs) +
             worker.holding->memory_bytes <=
         worker.limit->bytes;
}

bool Measuring::Settle(bool calm, bool idle, uint64_t requests, Instant now) {
  bool gave_up = false;
  requests_ = requests;
  checks_.Settle();
  for (auto& [id, worker] : roster_) {
    if (!worker.ready) continue;
    if (!CanCompute(worker.offer, options_.model)) continue;  // it never gets a stage
    if (worker.measure->phase == MeasureJob::Phase::kDownloading) {
      if (lifecycle_.IsUsed(id))
        worker.measure.edit().phase = MeasureJob::Phase::kNone;
      else if (worker.layers->cached.HasAll(worker.measure->first, worker.measure->end))
        Ask(worker, now);
      continue;
    }
    if (worker.measure->phase != MeasureJob::Phase::kNone) continue;
    if (worker.check->has_served) AskAgain(worker, now);
    if (!calm || worker.measure->phase != MeasureJob::Phase::kNone) continue;
    if (MayMeasure(worker, idle, now)) {
      if (const auto ranges = PickRanges(worker)) {
        Start(worker, *ranges, std::nullopt, now);
        continue;
      }
      gave_up = worker.measure.edit().tried = true;
    }
    auto probe = PickProbe(worker);
    if (!probe) probe = MakeRoomForProbe(worker);
    if (probe) {
      const LayerSpan& layers = probe->layers;
      Start(worker, {layers.first, layers.end, layers.end}, probe, now);
    }
  }
  return gave_up;
}

void Measuring::Resume(Worker& worker, const WorkerTimes& times, bool was_tried) const {
  worker.times = times;
  worker.times.latency_us.Clear();
  worker.times.pong_us.Clear();
  worker.measure.edit().tried = was_tried;
}

// Devices get hot, or are used for other things: what was measured is measured again, while nobody
// waits and with layers that are there.
bool Measuring::MayMeasure(const Worker& worker, bool idle, Instant now) const {
  const bool again =
      worker.times.measured && idle && now >= worker.measure->again_at && !worker.IsLoading();
  if (!again && (worker.measure->tried || worker.times.measured)) return false;
  // An ONNX worker would have to build sessions beside those that it serves with.
  return (!lifecycle_.IsUsed(worker.id) && !*worker.serves_beside) ||
         (idle && !worker.offer.needs_onnx && worker.steps->idle());
}

// Rows of a layer take no longer than a step: they are asked of devices that serve, too.
std::optional<Probe> Measuring::PickProbe(const Worker& worker) const {
  if (worker.IsLoading() || (worker.offer.needs_onnx && lifecycle_.IsUsed(worker.id)))
    return std::nullopt;
  const auto fits = [&](LayerSpan layers) { return Fits(worker, layers.first, layers.end); };
  if (auto probe = checks_.ProbeForOthers(worker, fits)) return probe;
  if (auto probe = checks_.ProbeOfLoaded(worker)) return probe;
  // One that has no room for what a measurement takes, or was measured before it came back.
  if (!worker.measure->tried || worker.check->asked || checks_.IsTrusted(worker))
    return std::nullopt;
  const auto probe = checks_.ProbeOf(worker, {1, costs_.layer_count() - 1});
  return probe && fits(probe->layers) ? probe : std::nullopt;
}

// It takes no longer than a step, and holds up nothing: that a plan is being loaded elsewhere is no
// reason to wait. (An ONNX worker would have to build a session for it.)
void Measuring::AskAgain(Worker& worker, Instant now) {
  if (worker.IsLoading() || worker.offer.needs_onnx) return;
  const auto probe = checks_.ProbeAgain(worker, requests_, now);
  if (!probe || !Fits(worker, probe->layers.first, probe->layers.end)) return;
  checks_.NoteAskedAgain(worker, requests_, now);
  worker.measure.edit().again = true;
  Start(worker, {probe->layers.first, probe->layers.end, probe->layers.end}, probe, now);
}

// Rows of a device that serves are to be compared, and nobody who is trusted has room for such a
// layer: one that stands by lets go of what it holds ready. Planning gives it a stage again later.
std::optional<Probe> Measuring::MakeRoomForProbe(Worker& worker) {
  if (lifecycle_.IsUsed(worker.id) || *worker.serves_beside || worker.IsLoading() ||
      worker.holding->memory_bytes > 0)
    return std::nullopt;
  const auto probe = checks_.ProbeForOthers(worker, [&](LayerSpan layers) {
    return costs_.MemoryBytes(worker.memory->weight_factor, layers) <= worker.limit->bytes;
  });
  if (!probe) return std::nullopt;
  for (const auto& each : roster_) {
    const Worker& other = each.second;
    const auto has_room = [&](LayerSpan layers) {
      return layers == probe->layers && Fits(other, layers.first, layers.end);
    };
    if (other.ready && checks_.ProbeForOthers(other, has_room)) return std::nullopt;
  }
  lifecycle_.KeepStandbys(worker, [](LayerSpan) { return false; });
  return Fits(worker, probe->layers.first, probe->layers.end) ? probe : std::nullopt;
}

void Measuring::Start(Worker& worker, const MeasureRanges& ranges, std::optional<Probe> only,
                      Instant now) {
  const double download_us =
      static_cast<double>(costs_.MissingBytes(*worker.layers, {ranges.first, ranges.end})) /
      (worker.offer.download_bytes_per_s * 1e-6) * options_.timeouts.prepare_factor;
  MeasureJob& job = worker.measure.edit();
  job.phase = MeasureJob::Phase::kDownloading;
  job.first = ranges.first;
  job.middle = ranges.middle;
  job.end = ranges.end;
  job.deadline = now + options_.timeouts.prepare_min +
                 Microseconds(static_cast<int64_t>(std::min(download_us, 86400e6)));
  job.only_probes = only.has_value();
  job.probe = only;
  if (job.only_probes) checks_.NoteAsked(worker);
  if (worker.layers->cached.HasAll(ranges.first, ranges.end))
    Ask(worker, now);
  else
    lifecycle_.Download(worker, ranges.first, ranges.end);
  changes_.Note({.view = true});
}

void Measuring::Ask(Worker& worker, Instant now) {
  MeasureJob& job = worker.measure.edit();
  if (!Fits(worker, job.first, job.end)) return GiveUp(worker, now);  // it holds more since
  job.phase = MeasureJob::Phase::kRunning;
  job.deadline = now + (worker.offer.kind == "native" ? options_.timeouts.measure_limit
                                                      : options_.timeouts.measure_limit_kernels);
  job.asked_at = now;
  job.was_loaded = worker.layers->loaded.HasAll(job.first, job.end);
  lifecycle_.NoteLoaded(worker, {job.first, job.end});
  if (!job.only_probes) job.probe = checks_.ProbeOf(worker, {job.first, job.end});
  if (job.probe) checks_.NoteAsked(worker);
  auto& message = *outbox_.Control(worker.id).mutable_measure_speed();
  if (job.probe) {
    auto& probe = *message.add_probes();
    probe.mutable_layers()->set_first(job.probe->layers.first);
    probe.mutable_layers()->set_end(job.probe->layers.end);
    probe.set_seed(job.probe->seed);
    probe.set_rows(kProbeRows);
  }
  message.set_runs(kMeasureRuns);
  if (job.only_probes) return;
  job.tried = true;
  const MeasureRanges ranges{job.first, job.middle, job.end};
  for (const LayerSpan layers : {ranges.small(), ranges.large()}) {
    auto& range = *message.add_ranges();
    range.set_first(layers.first);
    range.set_end(layers.end);
  }
}

// Whether it answers what was given up. A connection keeps the order of messages, but what a worker
// was told to drop meanwhile it never answers: what is right now answers what is asked now.
bool Measuring::IsLate(const Worker& worker, const wire::pb::Measured& measured) const {
  const MeasureJob& job = *worker.measure;
  if (job.late_answers == 0 || job.phase != MeasureJob::Phase::kRunning)
    return job.late_answers > 0;
  const bool has_form = measured.answers_size() == (job.probe ? 1 : 0) &&
                        (measured.timings_size() == 0) == job.only_probes;
  return !has_form || (job.again && !checks_.IsRight(worker, *job.probe, measured.answers(0)));
}

Result<bool> Measuring::OnMeasured(Worker& worker, const wire::pb::Measured& measured,
                                   Instant now) {
  const MeasureJob job = *worker.measure;
  if (IsLate(worker, measured)) {
    --worker.measure.edit().late_answers;
    return false;
  }
  if (job.phase != MeasureJob::Phase::kRunning)
    return Error(ErrorCode::kInvalidData, "Measured came though no measurement was asked for.");
  const int probes = job.probe ? 1 : 0;
  if (measured.answers_size() != probes || (job.only_probes && measured.timings_size() > 0))
    return Error(ErrorCode::kInvalidData,
                 "Measured holds " + std::to_string(measured.answers_size()) + " answers and " +
                     std::to_string(measured.timings_size()) + " ranges, expected " +
                     std::to_string(probes) + " and " + (job.only_probes ? "0." : "2."));
  if (!job.only_probes) {
    const MeasuredWithin within{static_cast<double>((now - job.asked_at).us),
                                worker.times.latency_us.Median().value_or(0), job.was_loaded};
    ASSIGN_OR_RETURN(const StepSpeed speed,
                     SpeedFromMeasured(measured, {job.first, job.middle, job.end}, within,
                                       [this](LayerSpan layers) { return costs_.Cost(layers); }));
    if (!worker.times.measured) ++measured_count_;
    worker.times.AddMeasured(speed);
    worker.times.repeated_speed = speed.ops_per_us;
  }
  if (job.probe) TRY(checks_.OnAnswer(worker, *job.probe, measured.answers(0), requests_, now));
  worker.measure.edit().probe.reset();
  worker.measure.edit().late_answers = 0;
  GiveUp(worker, now);
  return !job.again;
}

bool Measuring::OnFailed(Worker& worker, Instant now) {
  if (worker.measure->late_answers > 0) {
    --worker.measure.edit().late_answers;
    return true;
  }
  if (worker.measure->phase == MeasureJob::Phase::kNone) return false;
  GiveUp(worker, now);
  return true;
}

bool Measuring::IsOverdue(const Worker& worker, Instant now) const {
  return worker.measure->phase != MeasureJob::Phase::kNone && now >= worker.measure->deadline;
}

void Measuring::EndOverdue(Worker& worker, Instant now) {
  if (worker.measure->phase == MeasureJob::Phase::kRunning) ++worker.measure.edit().late_answers;
  GiveUp(worker, now);
}

void Measuring::GiveUp(Worker& worker, Instant now) {
  MeasureJob& job = worker.measure.edit();
  job.phase = MeasureJob::Phase::kNone;
  if (job.probe) checks_.OnNoAnswer(worker, *job.probe);
  job.probe.reset();
  job.again = false;
  if (!job.only_probes) {
    job.again_at = now + kMeasureAgain;
    job.tried = true;
  }
  lifecycle_.Retire(worker);
  changes_.Note({.view = true});
}

std::optional<Instant> Measuring::next_timer() const {
  std::optional<Instant> next;
  for (const auto& [id, worker] : roster_)
    if (worker.measure->phase != MeasureJob::Phase::kNone &&
        (!next || worker.measure->deadline < *next))
      next = worker.measure->deadline;
  return next;
}

}  // namespace weft::swarm
