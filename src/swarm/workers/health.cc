#include "swarm/workers/health.h"

#include <algorithm>

#include "swarm/workers/connect.h"

namespace weft::swarm {
namespace {

constexpr Instant kNever{INT64_MAX};
// A worker that computes may answer late; more open pings than this say nothing new.
constexpr size_t kOpenPings = 16;
// After so many answers it is known how fast a worker answers.
constexpr size_t kPongsToTrust = 3;
// What the probe of a line's way up asks for: a quarter of a second on a line of a megabit.
constexpr uint32_t kProbeBytes = 32 * 1024;

// From when a Generate's tokens are waited for. Step frames pass between the batches of a device
// that takes several; one that takes them in turn has the others to do first.
Instant GenerateSince(const Worker& worker, const SentFrame& sent) {
  const Instant passed =
      worker.offer.makes_tokens > 1 ? worker.steps->answered_at : worker.OldestSince();
  return std::max(sent.told_at, passed);
}

std::string InSeconds(Duration duration) {
  if (duration < Milliseconds(1950)) return std::to_string(duration.us / 1000) + " ms";
  return std::to_string((duration.us + 500'000) / 1'000'000) + " s";
}

}  // namespace

Instant Health::SilentAt(const Worker& worker) const {
  const Timeouts& timeouts = options_.timeouts;
  if (worker.held_back_at) return *worker.held_back_at + timeouts.held_back_limit;
  if (worker.offer.kind == "native" && worker.times.pong_us.count() >= kPongsToTrust) {
    const auto longest = static_cast<int64_t>(*worker.times.pong_us.Largest());
    return worker.last_heard +
           std::max(timeouts.silence_limit_native,
                    std::min(timeouts.silence_limit,
                             timeouts.ping_interval + Microseconds(4 * longest)));
  }
  return worker.last_heard + (worker.Busy() ? timeouts.silence_limit_busy : timeouts.silence_limit);
}

// Last heard 1.8 s after a step that has 2 s: due after 3.8 s, and with every pong later, up to 10.
// Tabs alone are given that: others use their GPU as well.
Instant Health::OverdueAt(const Worker& worker, Instant since, Duration limit) const {
  const Timeouts& timeouts = options_.timeouts;
  if (worker.offer.kind == "native" || worker.last_heard <= since) return since + limit;
  return std::max(since + limit, std::min(worker.last_heard + timeouts.step_deadline_min,
                                          since + timeouts.step_deadline_alive));
}

Instant Health::StepDueAt(const Worker& worker) const {
  if (worker.steps->idle() || worker.experts->waits) return kNever;
  Instant due = kNever;
  const Duration least = worker.MeetsNewSize() ? options_.timeouts.step_deadline_first : Duration{};
  if (!worker.steps->in_flight.empty()) {
    due = OverdueAt(worker, worker.OldestSince(),
                    std::max(least, worker.steps->in_flight.front().limit));
    // A hub may wait for a holder that has gone without a word: that one is found out first.
    if (worker.experts->is_hub)
      due = std::max(due, worker.OldestSince() + options_.timeouts.silence_limit_busy);
  }
  for (const SentFrame& sent : worker.steps->generating)
    due =
        std::min(due, OverdueAt(worker, GenerateSince(worker, sent), std::max(least, sent.limit)));
  // Building ONNX sessions and measuring hold up the thread that computes.
  if (worker.offer.needs_onnx && worker.IsLoading()) due = std::max(due, AnswerDueAt(worker));
  if (worker.measure->phase == MeasureJob::Phase::kRunning && !worker.measure->again)
    due = std::max(due, worker.measure->deadline);
  return due;
}

Instant Health::UnansweredSince(const Worker& worker) const {
  Instant since = worker.steps->in_flight.empty() ? kNever : worker.OldestSince();
  for (const SentFrame& sent : worker.steps->generating)
    since = std::min(since, GenerateSince(worker, sent));
  return since;
}

// A hub's step is as slow as the holders that it asks: another hub would ask the same ones, after
// everything that this one holds. Of hubs, silence and deadlines tell (Probe, AnswerDueAt).
Instant Health::LateAt(const Worker& worker) const {
  if (worker.steps->in_flight.empty() || worker.steps->in_flight.front().was_late ||
      worker.steps->in_flight.front().layers.is_hub())
    return kNever;
  return worker.OldestSince() + worker.steps->in_flight.front().late;
}

bool Health::CanProbe(const Worker& worker) const {
  return worker.offer.kind == "native" && worker.times.pong_us.count() >= kPongsToTrust &&
         !worker.IsProbed() && !worker.held_back_at;
}

// Whoever owes an answer is asked for a sign of life long before the answer is late. A chunk of 128
// rows of a prompt takes a fifth of a 0.6B model 250 ms, so that it is late after 530; a binding's
// first steps are late after no time that is known. Silence is noticed after 250 ms all the same.
Instant Health::ProbeAt(const Worker& worker) const {
  if (worker.steps->in_flight.empty() || !CanProbe(worker)) return kNever;
  return std::max(worker.last_heard, worker.OldestSince()) + options_.timeouts.probe_after;
}

// Silence, however short, where an answer is owed: the worker's thread for the connection answers
// pings while steps are computed, so that a slow step and a dead machine can be told apart in the
// time of a few round trips. The ping waits behind steps that are on the line, and the pong behind
// an answer: two chunks of 256 KiB over a line of 2 MB/s are 256 ms.
void Health::Probe(Worker& worker, Instant now) {
  if (!CanProbe(worker)) return;
  const auto longest = static_cast<int64_t>(*worker.times.pong_us.Largest());
  const LineRates rates = worker.Rates();
  double line_us = 0;
  for (const SentFrame& sent : worker.steps->in_flight)
    line_us += static_cast<double>(sent.step_bytes) / rates.down +
               static_cast<double>(sent.answer_bytes) / rates.up;
  worker.pings.edit().probed_at = now;
  worker.pings.edit().probe_due =
      now + std::max(options_.timeouts.probe_limit, Microseconds(4 * longest)) +
      std::min(options_.timeouts.silence_limit, Microseconds(static_cast<int64_t>(line_us)));
  Ping(worker, now);
}

Instant Health::ProbeDueAt(const Worker& worker) const {
  return worker.IsProbed() && !worker.held_back_at ? worker.pings->probe_due : kNever;
}

std::vector<WorkerId> Health::TakeLate(Instant now) {
  std::vector<WorkerId> late;
  for (auto& [id, worker] : roster_)
    if (now >= LateAt(worker)) {
      Probe(worker, now);
      late.push_back(id);
    }
  return late;
}

Instant Health::AnswerDueAt(const Worker& worker) const {
  Instant due = kNever;
  for (const Binding& binding : *worker.bindings)
    if (!binding.loaded) due = std::min(due, binding.answer_deadline);
  if (!worker.holding->answered) due = std::min(due, worker.holding->answer_deadline);
  return due;
}

Instant Health::ConnectDueAt(const Worker& worker) const {
  // A stranger holds a slot for no longer. The download probe comes before Connect, but workers cut
  // it off after 2 s: by then it has said enough about a slow line.
  return worker.ready ? kNever : worker.connected_at + options_.timeouts.connect_limit;
}

void Health::Ping(Worker& worker, Instant now) {
  worker.pings.edit().next_at = now + options_.timeouts.ping_interval;
  if (worker.pings->open.size() >= kOpenPings) return;
  worker.pings.edit().open.push_back({worker.pings.edit().next_nonce++, now});
  auto& ping = *outbox_.Control(worker.id).mutable_ping();
  ping.set_nonce(worker.pings->open.back().nonce);
  if (worker.ready && worker.pings->told_successors != successors_.version) {
    worker.pings.edit().told_successors = successors_.version;
    auto& successors = *ping.mutable_successors();  // also where there are none
    for (const Successor& each : successors_.servers)
      *successors.add_servers() = MakeSuccessor(each);
  }
  // Once for each connection, until steps tell more.
  if (worker.pings->upload_probed || worker.times.latency_us.count() < kPongsToTrust ||
      !worker.steps->idle() || worker.Busy())
    return;
  worker.pings.edit().upload_probed = true;
  worker.pings.edit().open.back().answer_bytes = kProbeBytes;
  ping.set_answer_bytes(kProbeBytes);
}

Status Health::OnPong(Worker& worker, const wire::pb::Pong& pong, Instant now) {
  const auto answered =
      std::find_if(worker.pings->open.begin(), worker.pings->open.end(),
                   [&](const SentPing& ping) { return ping.nonce == pong.nonce(); });
  if (answered == worker.pings->open.end())
    return Error(ErrorCode::kInvalidData,
                 "Pong names " + std::to_string(pong.nonce()) + ", which no open ping has.");
  const SentPing ping = *answered;
  worker.pings.edit().open.erase(worker.pings.edit().open.begin(), answered + 1);
  if (pong.padding().size() > ping.answer_bytes)
    return Error(ErrorCode::kInvalidData, "Pong carries " + std::to_string(pong.padding().size()) +
                                              " bytes, expected " +
                                              std::to_string(ping.answer_bytes) + ".");
  const auto round_us = static_cast<double>((now - ping.sent_at).us);
  // Under load a round trip measures the queue, not the link (dynamic-graph-partitioning 4.3.2).
  const bool idle = worker.steps->idle() && worker.steps->last_at < ping.sent_at && !worker.Busy();
  if (ping.answer_bytes > 0) {
    // Workers of before answer without.
    if (idle && pong.padding().size() == ping.answer_bytes)
      worker.times.AddUpload(ping.answer_bytes,
                             round_us - worker.times.latency_us.Median().value_or(0));
    return OkStatus();
  }
  worker.times.pong_us.Add(round_us);
  if (idle) worker.times.latency_us.Add(round_us);
  return OkStatus();
}

std::vector<Casualty> Health::Tick(Instant now) {
  std::vector<Casualty> casualties;
  for (auto& [id, worker] : roster_) {
    std::string reason;
    bool refuses = false;
    if (now >= ConnectDueAt(worker))
      reason = "It did not send Connect within " + InSeconds(now - worker.connected_at) + ".";
    else if (worker.ready && now >= std::min(SilentAt(worker), ProbeDueAt(worker)))
      reason = "Nothing was heard from it for " + InSeconds(now - worker.last_heard) + ".";
    else if (now >= StepDueAt(worker)) {
      const Instant since = UnansweredSince(worker);
      reason = "It did not answer a step within " + InSeconds(now - since) + ".";
      refuses = worker.last_heard > since;
    } else if (now >= AnswerDueAt(worker)) {
      reason = "It did not prepare its layers in time.";
      refuses = true;
      for (const Binding& binding : *worker.bindings)
        if (!binding.loaded && worker.last_heard <= binding.asked_at) refuses = false;
    }
    if (!reason.empty()) {
      casualties.push_back({id, std::move(reason), refuses});
      continue;
    }
    if (!worker.ready) continue;
    if (now >= ProbeAt(worker))
      Probe(worker, now);
    else if (now >= worker.pings->next_at)
      Ping(worker, now);
  }
  return casualties;
}

Instant Health::NextOf(const Worker& worker) const {
  const Instant next = std::min({ConnectDueAt(worker), StepDueAt(worker), AnswerDueAt(worker),
                                 LateAt(worker), ProbeAt(worker), ProbeDueAt(worker)});
  return worker.ready ? std::min({next, SilentAt(worker), worker.pings->next_at}) : next;
}

std::optional<Instant> Health::next_timer() const {
  Instant next = kNever;
  for (const auto& [id, worker] : roster_) next = std::min(next, NextOf(worker));
  if (next == kNever) return std::nullopt;
  return next;
}

}  // namespace weft::swarm
