#include "swarm/workers/checks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "wire/probe_rows.h"

namespace weft::swarm {
namespace {

// Devices that failed, of which more than this are forgotten by their names' order.
constexpr size_t kMostFailed = 256;
// How far apart neighbouring values are, as a share of their size.
double RoundingOf(DType dtype) {
  return dtype == DType::kF16 ? 1.0 / 1024 : dtype == DType::kBF16 ? 1.0 / 128 : 1e-7;
}

// Devices of one kind give the same bytes. Browsers tune their kernels, each for itself.
std::string KindOf(const Offer& offer) {
  return offer.kind == "native" ? offer.engine + ", " + offer.device : "";
}

std::string Named(LayerSpan layers) {
  if (layers.end == layers.first + 1) return "layer " + std::to_string(layers.first);
  return "layers " + std::to_string(layers.first) + " to " + std::to_string(layers.end - 1);
}

// Of what the layers added to one row, beyond rounding.
double ErrorOfRow(const float* theirs, const float* ours, const float* input, size_t count,
                  double rounding) {
  double wrong = 0, added = 0, size = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(theirs[i])) return std::numeric_limits<double>::infinity();
    wrong += std::pow(double{theirs[i]} - ours[i], 2);
    added += std::pow(double{ours[i]} - input[i], 2);
    size += std::pow(double{ours[i]}, 2);
  }
  const double rounded = rounding * std::sqrt(size);
  return std::max(0.0, std::sqrt(wrong) - rounded) / std::max(std::sqrt(added), rounded + 1e-12);
}

}  // namespace

const char* CheckName(CheckState state) {
  switch (state) {
    case CheckState::kUnchecked:
      return "not checked";
    case CheckState::kTrusted:
      return "trusted";
    case CheckState::kPassed:
      return "passed";
    case CheckState::kFailed:
      return "failed";
  }
  return "not checked";
}

void Checks::Trust(Worker& worker) {
  worker.check.edit().state = CheckState::kTrusted;
  worker.check.edit().waiting.reset();
}

void Checks::OnConnect(Worker& worker) {
  if (worker.trusted) Trust(worker);
}

void Checks::Resume(Worker& worker, CheckState before) const {
  if (before == CheckState::kPassed && !worker.trusted)
    worker.check.edit().state = CheckState::kPassed;
}

void Checks::NoteAskedAgain(Worker& worker, uint64_t requests, Instant now) const {
  WorkerCheck& check = worker.check.edit();
  ++check.again_count;
  check.again_at = now;
  check.again_requests = requests;
}

// Transformer layers that can be run alone, and those that are kept together.
std::vector<LayerSpan> Checks::Units() const {
  std::vector<LayerSpan> units;
  for (uint32_t first = 1; first + 1 < costs_.layer_count();) {
    uint32_t end = first + 1;
    while (end < costs_.layer_count() && !costs_.MayCut(end)) ++end;
    if (costs_.MayCut(first) && end < costs_.layer_count()) units.push_back({first, end});
    first = end;
  }
  return units;
}

// The same for every device, or answers could not be compared; known to nobody before it is asked.
Probe Checks::ProbeAt(LayerSpan unit) const {
  const auto words =
      Philox4x32({unit.first, unit.end, 0, 0}, {static_cast<uint32_t>(options_.probe_seed),
                                                static_cast<uint32_t>(options_.probe_seed >> 32)});
  return {unit, uint64_t{words[1]} << 32 | words[0]};
}

std::optional<Probe> Checks::ProbeOf(const Worker& worker, LayerSpan within) const {
  if (worker.check->waiting || worker.check->state == CheckState::kFailed) return std::nullopt;
  const bool is_trusted = IsTrusted(worker);
  std::vector<LayerSpan> units = Units();
  std::erase_if(units, [&](const LayerSpan& unit) {
    return unit.first < within.first || unit.end > within.end;
  });
  const std::vector<Probe> wanted = Wanted();
  const auto is_wanted = [&](const LayerSpan& unit) {
    return std::any_of(wanted.begin(), wanted.end(),
                       [&](const Probe& probe) { return probe.layers == unit; });
  };
  const auto is_known = [&](const LayerSpan& unit) { return references_.contains(unit.first); };
  const auto is_near = [&](const LayerSpan& unit) {
    return std::any_of(roster_.begin(), roster_.end(), [&](const auto& each) {
      return IsTrusted(each.second) && each.second.layers->loaded.HasAll(unit.first, unit.end);
    });
  };
  const auto first_of = [&](const auto& wish) -> std::optional<Probe> {
    const auto found = std::find_if(units.begin(), units.end(), wish);
    return found == units.end() ? std::nullopt : std::optional(ProbeAt(*found));
  };
  if (is_trusted) return first_of(is_wanted);
  // What is known already costs nobody else anything; what a trusted device has loaded, little.
  for (const auto& probe : {first_of(is_known), first_of(is_near)})
    if (probe) return probe;
  return units.empty() ? std::nullopt : std::optional(ProbeAt(units.front()));
}

std::optional<Probe> Checks::ProbeOfLoaded(const Worker& worker) const {
  if (worker.check->state != CheckState::kUnchecked || worker.check->asked) return std::nullopt;
  for (const auto& [first, end] : worker.layers->loaded.Ranges())
    if (auto probe = ProbeOf(worker, {first, end})) {
      bool is_hub = false;
      for (uint32_t i = probe->layers.first; i < probe->layers.end; ++i)
        is_hub = is_hub || worker.layers->loaded_hubs.Has(i);
      if (!is_hub) return probe;
    }
  return std::nullopt;
}

// Of its bindings, in their form of whole layers.
std::vector<LayerSpan> Checks::LoadedUnits(const Worker& worker) const {
  std::vector<LayerSpan> units = Units();
  std::erase_if(units, [&](const LayerSpan& unit) {
    return std::none_of(worker.bindings->begin(), worker.bindings->end(), [&](const auto& binding) {
      return binding.loaded && !binding.layers.is_hub() && binding.layers.first <= unit.first &&
             unit.end <= binding.layers.end;
    });
  });
  return units;
}

bool Checks::IsVouched(LayerSpan unit) const {
  const auto known = references_.find(unit.first);
  return known != references_.end() &&
         std::any_of(known->second.begin(), known->second.end(),
                     [](const Reference& each) { return each.vouched; });
}

std::optional<Probe> Checks::ProbeAgain(const Worker& worker, uint64_t requests,
                                        Instant now) const {
  const WorkerCheck& check = *worker.check;
  if (check.state != CheckState::kPassed || !check.has_served) return std::nullopt;
  if (requests == check.passed_requests && now < check.passed_at + options_.timeouts.check_again)
    return std::nullopt;
  // A disk that fails once fails again a moment later.
  if (check.unanswered > 0 && requests == check.again_requests &&
      now < check.again_at + options_.timeouts.check_again)
    return std::nullopt;
  std::vector<LayerSpan> units = LoadedUnits(worker);
  std::erase_if(units, [this](const LayerSpan& unit) { return !IsVouched(unit); });
  if (units.empty()) return std::nullopt;
  return ProbeAt(units[check.again_count % units.size()]);
}

// Rows of a layer of each device that serves, where nothing vouches for any.
std::vector<Probe> Checks::WantedAgain() const {
  std::vector<Probe> wanted;
  for (const auto& [id, worker] : roster_) {
    if (worker.check->state != CheckState::kPassed || !worker.check->has_served) continue;
    const std::vector<LayerSpan> units = LoadedUnits(worker);
    const bool is_vouched = std::any_of(units.begin(), units.end(),
                                        [this](const LayerSpan& unit) { return IsVouched(unit); });
    if (!is_vouched && !units.empty()) wanted.push_back(ProbeAt(units.front()));
  }
  return wanted;
}

std::vector<Probe> Checks::Wanted() const {
  std::vector<Probe> wanted;
  for (const auto& [id, worker] : roster_) {
    if (!worker.check->waiting) continue;
    const Probe& probe = worker.check->waiting->first;
    const bool is_known = std::any_of(wanted.begin(), wanted.end(), [&](const Probe& each) {
      return each.layers == probe.layers;
    });
    if (!is_known) wanted.push_back(probe);
  }
  return wanted;
}

// Whether a trusted device may still compute what the worker has answered, or will.
bool Checks::SomebodyCouldCheck(const Worker& worker) const {
  const auto& waiting = worker.check->waiting;
  if (!waiting && worker.measure->tried && worker.measure->phase == MeasureJob::Phase::kNone)
    return false;  // it could not be asked
  if (!waiting && !references_.empty()) return true;
  return std::any_of(roster_.begin(), roster_.end(), [&](const auto& each) {
    const Worker& other = each.second;
    return other.ready && !other.leaves_at && IsTrusted(other) &&
           CanCompute(other.offer, options_.model) &&
           (!waiting || !other.check->tried.contains(waiting->first.layers.first));
  });
}

bool Checks::MayServe(const Worker& worker) const {
  if (worker.check->state == CheckState::kUnchecked) return !SomebodyCouldCheck(worker);
  return worker.check->state != CheckState::kFailed;
}

bool Checks::MayCompute(const Worker& worker) const {
  if (worker.check->state == CheckState::kFailed) return false;
  return worker.check->state != CheckState::kUnchecked ||
         !failed_devices_.contains(worker.probation_key);
}

Result<ProbeAnswer> Checks::Read(const wire::pb::Measured::Answer& answer) const {
  const size_t columns = wire::ProbeColumns(options_.model.hidden_columns).size();
  const auto values = static_cast<size_t>(answer.samples_size());
  if (answer.digest().size() != 32 || values != kProbeRows * columns)
    return Error(ErrorCode::kInvalidData, "Measured answers a probe with a digest of " +
                                              std::to_string(answer.digest().size()) +
                                              " bytes and " + std::to_string(values) +
                                              " values, expected 32 and " +
                                              std::to_string(kProbeRows * columns) + ".");
  return ProbeAnswer{answer.digest(), {answer.samples().begin(), answer.samples().end()}};
}

bool Checks::IsRight(const Worker& worker, const Probe& probe,
                     const wire::pb::Measured::Answer& answer) const {
  const Result<ProbeAnswer> read = Read(answer);
  return read.ok() && Difference(worker, probe, *read).empty();
}

Status Checks::OnAnswer(Worker& worker, const Probe& probe,
                        const wire::pb::Measured::Answer& answer, uint64_t requests, Instant now) {
  ASSIGN_OR_RETURN(ProbeAnswer kept, Read(answer));
  worker.check.edit().asked = true;
  if (worker.measure->again) {
    std::string problem = Difference(worker, probe, kept);
    if (problem.empty())
      NotePassed(worker, requests, now);
    else
      NoteFailed(worker, std::move(problem));
    return OkStatus();
  }
  if (!IsTrusted(worker)) {
    worker.check.edit().waiting = {probe, std::move(kept)};
    Judge(worker, requests, now);
    return OkStatus();
  }
  worker.check.edit().tried.insert(probe.layers.first);
  Keep(worker, probe, kept, worker.check->state == CheckState::kTrusted);
  for (auto& [id, other] : roster_)
    if (other.check->waiting) Judge(other, requests, now);
  return OkStatus();
}

void Checks::OnNoAnswer(Worker& worker, const Probe& probe) {
  worker.check.edit().asked = true;
  if (!worker.measure->again) {
    worker.check.edit().tried.insert(probe.layers.first);
    return;
  }
  if (++worker.check.edit().unanswered >= kMostUnanswered)
    NoteFailed(
        worker,
        "It has not answered " + std::to_string(kMostUnanswered) + " checks, one after the other.",
        false);
}

void Checks::Keep(const Worker& worker, const Probe& probe, const ProbeAnswer& answer,
                  bool vouched) {
  std::vector<Reference>& known = references_[probe.layers.first];
  const std::string kind = KindOf(worker.offer);
  const auto same = std::find_if(known.begin(), known.end(),
                                 [&](const Reference& each) { return each.kind == kind; });
  Reference fresh{kind, worker.offer.name, answer, vouched, worker.id};
  if (same == known.end())
    known.push_back(std::move(fresh));
  else if (vouched && !same->vouched)
    *same = std::move(fresh);
}

// Why the answer is not that of a trusted device; empty: it is.
std::string Checks::Difference(const Worker& worker, const Probe& probe,
                               const ProbeAnswer& answer) const {
  std::vector<Reference> known = references_.at(probe.layers.first);
  if (IsVouched(probe.layers))
    std::erase_if(known, [](const Reference& each) { return !each.vouched; });
  const std::string kind = KindOf(worker.offer);
  const auto same = std::find_if(known.begin(), known.end(), [&](const Reference& each) {
    return !kind.empty() && each.kind == kind;
  });
  const std::string whose = "Its rows of " + Named(probe.layers) + " are not those of ";
  if (same != known.end()) {
    if (same->answer.digest == answer.digest) return "";
    return whose + same->name + ", which computes with the same kernels and is trusted.";
  }
  const Reference& other = known.front();
  const auto columns = wire::ProbeColumns(options_.model.hidden_columns);
  const auto rows = wire::ProbeRows(probe.seed, kProbeRows, options_.model.hidden_columns);
  uint32_t right = 0;
  for (uint32_t row = 0; row < kProbeRows; ++row) {
    std::vector<float> input;
    for (const uint32_t column : columns)
      input.push_back(rows[size_t{row} * options_.model.hidden_columns + column]);
    const size_t at = row * columns.size();
    const double error = ErrorOfRow(&answer.samples[at], &other.answer.samples[at], input.data(),
                                    columns.size(), RoundingOf(options_.model.boundary_dtype));
    right += error <= kProbeTolerance ? 1 : 0;
  }
  if (2 * right >= kProbeRows) return "";
  return whose + other.name + ", which is trusted: " + std::to_string(kProbeRows - right) + " of " +
         std::to_string(kProbeRows) + " are too far off.";
}

void Checks::Judge(Worker& worker, uint64_t requests, Instant now) {
  const auto [probe, answer] = *worker.check->waiting;
  if (!references_.contains(probe.layers.first)) return;
  worker.check.edit().waiting.reset();
  std::string problem = Difference(worker, probe, answer);
  if (!problem.empty()) return NoteFailed(worker, std::move(problem));
  worker.check.edit().state = CheckState::kPassed;
  failed_devices_.erase(worker.probation_key);
  Keep(worker, probe, answer, IsVouched(probe.layers));
  NotePassed(worker, requests, now);
  verdicts_.push_back({worker.id, true, "", std::nullopt, false});
}

void Checks::NotePassed(Worker& worker, uint64_t requests, Instant now) {
  worker.check.edit().passed_at = now;
  worker.check.edit().passed_requests = requests;
  worker.check.edit().has_served = false;
  worker.check.edit().unanswered = 0;
}

// What only it has vouched for is worth nothing.
void Checks::NoteFailed(Worker& worker, std::string problem, bool is_proven) {
  WorkerCheck& check = worker.check.edit();
  std::optional<Instant> doubted_since;
  if (check.has_served)
    doubted_since = check.state == CheckState::kPassed ? check.passed_at : worker.connected_at;
  check.state = CheckState::kFailed;
  for (auto& [first, known] : references_)
    std::erase_if(known,
                  [&](const Reference& each) { return each.worker == worker.id && !each.vouched; });
  std::erase_if(references_, [](const auto& each) { return each.second.empty(); });
  failed_devices_.insert(worker.probation_key);
  if (failed_devices_.size() > kMostFailed) failed_devices_.erase(failed_devices_.begin());
  verdicts_.push_back({worker.id, false, problem + " It is not used.", doubted_since, is_proven});
}

}  // namespace weft::swarm
