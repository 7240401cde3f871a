// Whether devices compute what they should. Who joins is asked, with the measurement of its speed,
// for rows that are made from a seed (wire/probe_rows.h) behind one layer, or behind a few that are
// kept together; its answer must be that of a device which is trusted. Trusted are the built-in
// worker, who came from this machine as the server's own user or with its API key, and then whoever
// has passed.
//
// Between devices of one description ("native, 2 threads, AVX-512") rows are equal byte by byte
// (docs/decisions/0006): their digest is compared. Between all others, and between browsers whose
// kernels are chosen by measuring, it is the values of some columns. What counts is what the layer
// added to a row: who hands the row back as it came has an error of 1.
//
//   error of a row = |theirs - ours| / |ours - input|     half of the rows must be below kTolerance
//
// Half of them, since a mixture of experts may choose others where two are nearly equal.
//
// Who has passed and serves is asked again, for a layer that it has loaded, by turns: after every
// request, and every half a minute. Its rows are compared with those of a device that is trusted to
// begin with, or that were compared with these: two that have passed and disagree could not be told
// apart. What it has computed since it passed last is in doubt where it fails (State::OnVerdicts).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "swarm/options.h"
#include "swarm/workers/costs.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

inline constexpr uint32_t kProbeRows = 4;
inline constexpr double kProbeTolerance = 0.2;
// Checks of one that serves that may remain without an answer: it may be busy.
inline constexpr uint32_t kMostUnanswered = 3;

// What a check came to.
struct Verdict {
  WorkerId worker;
  bool passed = false;
  std::string problem;  // where it has not, a sentence
  // From when on what it has computed is in doubt; nullopt: it has computed nothing that counts.
  std::optional<Instant> doubted_since;
  bool is_proven = false;  // its rows were wrong, and not just missing
};

class Checks {
 public:
  Checks(const CoreOptions& options, const Costs& costs, Roster& roster)
      : options_(options), costs_(costs), roster_(roster) {}

  // Who vouches for itself: see above.
  void Trust(Worker& worker);
  void OnConnect(Worker& worker);
  // The device is back, as it was judged before.
  void Resume(Worker& worker, CheckState before) const;

  // Whether plans that serve may be given to it: it is trusted or has passed, or there is nobody
  // who could check it.
  bool MayServe(const Worker& worker) const;
  // Whether it is used at all. One that has failed is not, nor is its device afterwards before it
  // has passed.
  bool MayCompute(const Worker& worker) const;
  bool IsTrusted(const Worker& worker) const {
    return worker.check->state == CheckState::kTrusted ||
           worker.check->state == CheckState::kPassed;
  }

  // What the worker is to compute of [first, end), which it will have loaded; nullopt: nothing.
  std::optional<Probe> ProbeOf(const Worker& worker, LayerSpan within) const;
  // Layers that this trusted worker should compute so that others can be checked; `fits`: whether
  // it can load them.
  template <typename Fits>
  std::optional<Probe> ProbeForOthers(const Worker& worker, const Fits& fits) const {
    if (!IsTrusted(worker) || !CanCompute(worker.offer, options_.model)) return std::nullopt;
    for (const Probe& probe : Wanted())
      if (!worker.check->tried.contains(probe.layers.first) && fits(probe.layers)) return probe;
    if (worker.check->state != CheckState::kTrusted) return std::nullopt;
    for (const Probe& probe : wanted_again_)
      if (!worker.check->tried.contains(probe.layers.first) && fits(probe.layers)) return probe;
    return std::nullopt;
  }
  // A layer, or layers kept together, of those that are loaded there; for a worker that serves and
  // was never asked.
  std::optional<Probe> ProbeOfLoaded(const Worker& worker) const;

  // One that has passed and serves, when it is time, of what it has loaded. `requests`: that have
  // ended until now.
  std::optional<Probe> ProbeAgain(const Worker& worker, uint64_t requests, Instant now) const;

  // Looks for whom ProbeForOthers is to ask: before it is called for all workers.
  void Settle() { wanted_again_ = WantedAgain(); }

  // It has answered a step as a stage of the plan.
  void NoteServed(Worker& worker) const { worker.check.edit().has_served = true; }
  // It is asked for rows; again, having passed before.
  void NoteAsked(Worker& worker) const { worker.check.edit().asked = true; }
  void NoteAskedAgain(Worker& worker, uint64_t requests, Instant now) const;

  // An error: the answer is malformed.
  Status OnAnswer(Worker& worker, const Probe& probe, const wire::pb::Measured::Answer& answer,
                  uint64_t requests, Instant now);
  // Whether OnAnswer would take it, and find it to be that of a trusted device. REQUIRES: the probe
  // is one of ProbeAgain.
  bool IsRight(const Worker& worker, const Probe& probe,
               const wire::pb::Measured::Answer& answer) const;
  // The worker could not compute it.
  void OnNoAnswer(Worker& worker, const Probe& probe);

  std::vector<Verdict> TakeVerdicts() { return std::exchange(verdicts_, {}); }

 private:
  struct Reference {
    std::string kind;  // whose rows are equal byte by byte; empty: nobody's
    std::string name;  // of the device
    ProbeAnswer answer;
    bool vouched =
        false;  // it is of a device that is trusted to begin with, or was compared with it
    WorkerId worker;
  };

  Result<ProbeAnswer> Read(const wire::pb::Measured::Answer& answer) const;
  std::vector<LayerSpan> Units() const;
  Probe ProbeAt(LayerSpan unit) const;
  std::vector<LayerSpan> LoadedUnits(const Worker& worker) const;
  bool IsVouched(LayerSpan unit) const;
  std::vector<Probe> Wanted() const;
  std::vector<Probe> WantedAgain() const;
  bool SomebodyCouldCheck(const Worker& worker) const;
  std::string Difference(const Worker& worker, const Probe& probe, const ProbeAnswer& answer) const;
  void Keep(const Worker& worker, const Probe& probe, const ProbeAnswer& answer, bool vouched);
  void Judge(Worker& worker, uint64_t requests, Instant now);
  void NotePassed(Worker& worker, uint64_t requests, Instant now);
  void NoteFailed(Worker& worker, std::string problem, bool is_proven = true);

  const CoreOptions& options_;
  const Costs& costs_;
  Roster& roster_;
  std::map<uint32_t, std::vector<Reference>> references_;  // by the first layer
  std::set<std::string> failed_devices_;
  std::vector<Probe> wanted_again_;
  std::vector<Verdict> verdicts_;
};

const char* CheckName(CheckState state);

}  // namespace weft::swarm
