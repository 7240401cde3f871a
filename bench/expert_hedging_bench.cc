// What hedging does to the time of a layer whose experts are elsewhere, through the dispatcher on a
// virtual clock (`./dev bench expert-hedging`, JSON with --json; docs/experts.md).
//
// Table 1 of moex-expert-disaggregation: 8 h workers with one expert each, round trips log-normal
// (median 20 ms, sigma 0.5), each message on its own, so that they may overtake each other; beside
// it the integral of the paper's equation 8. Then a swarm of fast, slow and stalling workers on one
// 100 Mbit/s line, where copies cost time: fixed hedging against adaptive.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <numbers>
#include <string>

#include "base/random.h"
#include "dispatch/dispatcher.h"
#include "dispatch/virtual_time_testing.h"

namespace weft::dispatch {
namespace {

constexpr uint16_t kHidden = 2048;
constexpr uint32_t kTopK = 8;
constexpr double kMedianMs = 20, kSigma = 0.5;

double Normal(SeededRandom& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.Uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.Uniform());
}
Duration LogNormal(SeededRandom& random, double median_ms, double sigma) {
  return Microseconds(static_cast<int64_t>(1000 * median_ms * std::exp(sigma * Normal(random))));
}

// E[max over k experts of min over h copies] = integral of 1 - (1 - (1 - F(t))^h)^k, equation 8.
double Equation8Ms(int h) {
  double sum = 0;
  const double step = 0.01;
  for (double t = step / 2; t < 2000; t += step) {
    const double slower = 0.5 * std::erfc((std::log(t / kMedianMs) / kSigma) / std::numbers::sqrt2);
    sum += step * (1 - std::pow(1 - std::pow(slower, h), kTopK));
  }
  return sum;
}

struct Worker {
  double median_ms = kMedianMs, sigma = kSigma;  // of a round trip
  double compute_ms = 0;                         // of an expert
  bool is_stalling = false;                      // for 300 ms, once a second on average
};

struct Case {
  std::string name;
  std::vector<Worker> workers;
  std::vector<Holder> holders;   // worker i has id i
  uint32_t experts = kTopK;      // of which eight are chosen
  double line_bytes_per_us = 0;  // of the hub, each way; 0: no limit
  Options options;
};

struct Outcome {
  double mean_ms = 0, p50_ms = 0, p99_ms = 0;
  double bytes = 0;   // of rows to workers, a layer
  double copies = 0;  // asked for an expert
};

Outcome OutcomeOf(std::vector<double> times_ms) {
  Outcome outcome;
  for (const double ms : times_ms) outcome.mean_ms += ms;
  outcome.mean_ms /= static_cast<double>(times_ms.size());
  std::sort(times_ms.begin(), times_ms.end());
  outcome.p50_ms = times_ms[times_ms.size() / 2];
  outcome.p99_ms = times_ms[times_ms.size() * 99 / 100];
  return outcome;
}

class Run {
 public:
  Run(const Case& what, int layers, uint64_t seed)
      : case_(what), layers_(layers), random_(seed), dispatcher_(what.options) {
    states_.resize(what.workers.size());
    (void)dispatcher_.SetHolders({}, 1, what.holders);
  }

  // Times of layers in milliseconds; the first ones, which know nothing of the workers, are not
  // among them.
  std::vector<double> Measured() {
    Begin();
    while (static_cast<int>(times_ms_.size()) < layers_ && time_.RunNext()) {
    }
    times_ms_.erase(times_ms_.begin(), times_ms_.begin() + layers_ / 20);
    return times_ms_;
  }
  // Of rows sent to workers, and copies asked for an expert; of a layer.
  double row_bytes() const {
    return Sum([](const HolderStats& stats) { return stats.sent_bytes; }) / layers_;
  }
  double copies() const {
    return Sum([](const HolderStats& stats) { return stats.calls; }) / layers_ / kTopK;
  }

 private:
  struct State {
    std::deque<std::pair<wire::ExpertFrame, Duration>> queue;  // with the way back
    bool is_busy = false;
    Instant next_stall;
  };

  template <typename Of>
  double Sum(const Of& of) const {
    double sum = 0;
    for (const Holder& holder : case_.holders)
      sum += static_cast<double>(of(dispatcher_.StatsOf(holder.id).value()));
    return sum;
  }

  void Begin() {
    std::vector<uint32_t> experts(case_.experts);
    for (uint32_t i = 0; i < case_.experts; ++i) experts[i] = i;
    for (uint32_t i = 0; i < kTopK; ++i)
      std::swap(experts[i], experts[i + random_.Below(case_.experts - i)]);
    experts.resize(kTopK);
    began_ = time_.now();
    Do(dispatcher_.Begin(time_.now(), 0, {0, kTopK, kHidden, row_, experts}));
  }

  void Do(const Actions& actions) {
    for (const Send& send : actions.sends) OnSend(send);
    if (actions.timer) {
      const uint64_t number = ++timers_;
      time_.At(std::max(*actions.timer, time_.now()), [this, number] {
        if (number == timers_) Do(dispatcher_.OnTimer(time_.now()));
      });
    }
    for ([[maybe_unused]] const Done& done : actions.done) {
      times_ms_.push_back((time_.now() - began_).ms());
      time_.After(Milliseconds(1), [this] { Begin(); });
    }
  }

  // When the line has taken this much more in one direction.
  Instant OverLine(Instant& free_at, size_t byte_count) {
    free_at = std::max(free_at, time_.now());
    if (case_.line_bytes_per_us > 0)
      free_at = free_at + Microseconds(static_cast<int64_t>(static_cast<double>(byte_count) /
                                                            case_.line_bytes_per_us));
    return free_at;
  }

  void OnSend(const Send& send) {
    const Worker& worker = case_.workers[send.holder];
    for (const wire::ExpertFrame& frame : send.frames) {
      const size_t byte_count =
          wire::kExpertHeaderBytes + (frame.same_rows ? 0 : frame.rows.byte_count());
      const Duration way = Microseconds(LogNormal(random_, worker.median_ms, worker.sigma).us / 2);
      time_.At(OverLine(up_free_, byte_count) + way,
               [this, id = send.holder, frame, way] { OnArrival(id, frame, way); });
    }
  }

  void OnArrival(uint32_t id, const wire::ExpertFrame& frame, Duration way) {
    State& state = states_[id];
    if (frame.type == wire::ExpertFrameType::kCancel) {
      std::erase_if(state.queue, [&](const auto& waiting) {
        return waiting.first.sequence == frame.sequence && waiting.first.expert == frame.expert;
      });
      return;
    }
    state.queue.emplace_back(frame, way);
    Compute(id);
  }

  void Compute(uint32_t id) {
    State& state = states_[id];
    if (state.is_busy || state.queue.empty()) return;
    const Worker& worker = case_.workers[id];
    state.is_busy = true;
    Duration takes = Microseconds(static_cast<int64_t>(1000 * worker.compute_ms));
    if (worker.is_stalling && time_.now() >= state.next_stall) {
      if (state.next_stall.us > 0) takes = takes + Milliseconds(300);
      state.next_stall =
          time_.now() + Milliseconds(300 + static_cast<int64_t>(random_.Below(1400)));
    }
    const auto [frame, way] = state.queue.front();
    state.queue.pop_front();
    time_.After(takes, [this, id, dispatched = frame, back = way] {
      states_[id].is_busy = false;
      time_.After(back, [this, id, dispatched] { OnWayIn(id, dispatched); });
      Compute(id);
    });
  }

  void OnWayIn(uint32_t id, const wire::ExpertFrame& dispatched) {
    wire::ExpertFrame result = dispatched;
    result.type = wire::ExpertFrameType::kResult;
    result.same_rows = false;
    time_.At(OverLine(down_free_, wire::kExpertHeaderBytes + result.rows.byte_count()),
             [this, id, result] { Do(dispatcher_.OnResult(time_.now(), id, result)); });
  }

  const Case& case_;
  int layers_;
  SeededRandom random_;
  Dispatcher dispatcher_;
  VirtualTime time_;
  std::vector<State> states_;
  std::vector<float> row_ = std::vector<float>(kHidden, 0.5f);
  std::vector<double> times_ms_;
  Instant began_, up_free_, down_free_;
  uint64_t timers_ = 0;
};

Options Fixed(uint32_t copies, CopyTime time) {
  Options options;
  options.adaptive = false;
  options.copies = copies;
  options.copy_time = time;
  options.timeout = Seconds(10);  // of the paper's model there is none
  return options;
}

Case Table1Case(uint32_t h, CopyTime time) {
  Case table;
  table.name =
      "h = " + std::to_string(h) + (time == CopyTime::kAtOnce ? ", at once" : ", when late");
  table.options = Fixed(h, time);
  for (uint32_t id = 0; id < kTopK * h; ++id) {
    table.workers.push_back({});
    table.holders.push_back({id, {{0, static_cast<uint16_t>(id / h)}}});
  }
  return table;
}

// 16 workers, every second one fast, the others slow or stalling; 64 experts, each on four of them
// as a ring would choose: most have a fast holder, some have none.
Case Mixed(const Options& options, uint64_t placement) {
  Case mixed;
  mixed.options = options;
  mixed.experts = 64;
  mixed.line_bytes_per_us = 12.5;
  for (uint32_t id = 0; id < 16; ++id) {
    Worker worker{8, 0.3, 1, false};
    if (id % 4 == 1) worker = {40, 0.3, 4, false};
    if (id % 4 == 3) worker = {8, 0.3, 1, true};
    mixed.workers.push_back(worker);
    mixed.holders.push_back({id, {}});
  }
  SeededRandom random(placement);
  for (uint16_t expert = 0; expert < mixed.experts; ++expert) {
    for (uint32_t replica = 0; replica < 4;) {
      auto& held = mixed.holders[random.Below(16)].experts;
      if (!held.empty() && held.back().second == expert) continue;
      held.emplace_back(0, expert);
      ++replica;
    }
  }
  return mixed;
}

void Print(const std::string& name, const Outcome& outcome, double expected_ms, bool json) {
  if (json) {
    std::printf(
        "{\"case\": \"%s\", \"expected_ms\": %.2f, \"mean_ms\": %.2f, \"p50_ms\": %.2f, "
        "\"p99_ms\": %.2f, \"row_bytes\": %.0f, \"copies\": %.3f}\n",
        name.c_str(), expected_ms, outcome.mean_ms, outcome.p50_ms, outcome.p99_ms, outcome.bytes,
        outcome.copies);
    return;
  }
  std::printf("%-28s", name.c_str());
  if (expected_ms > 0) {
    std::printf(" %8.2f", expected_ms);
  } else {
    std::printf(" %8s", "-");
  }
  std::printf(" %8.2f %8.2f %8.2f %10.0f %7.2f\n", outcome.mean_ms, outcome.p50_ms, outcome.p99_ms,
              outcome.bytes, outcome.copies);
}

constexpr int kLayers = 10'000;

bool Table1(bool json) {
  bool is_good = true;
  for (const CopyTime time : {CopyTime::kAtOnce, CopyTime::kWhenLate}) {
    for (uint32_t h = 1; h <= 4; ++h) {
      if (h == 1 && time == CopyTime::kWhenLate) continue;
      const Case table = Table1Case(h, time);
      Run run(table, 2 * kLayers, h);
      Outcome outcome = OutcomeOf(run.Measured());
      outcome.bytes = run.row_bytes();
      outcome.copies = run.copies();
      const double expected = time == CopyTime::kAtOnce ? Equation8Ms(static_cast<int>(h)) : 0;
      Print(table.name, outcome, expected, json);
      if (expected > 0 && std::abs(outcome.mean_ms / expected - 1) > 0.1) is_good = false;
    }
  }
  return is_good;
}

// Over several placements: who is better on one of them may be lucky.
Outcome OverPlacements(const Options& options) {
  constexpr uint64_t kPlacements = 20;
  std::vector<double> times_ms;
  Outcome sum;
  for (uint64_t placement = 1; placement <= kPlacements; ++placement) {
    const Case mixed = Mixed(options, placement);
    Run run(mixed, kLayers, placement);
    const std::vector<double> measured = run.Measured();
    times_ms.insert(times_ms.end(), measured.begin(), measured.end());
    sum.bytes += run.row_bytes() / kPlacements;
    sum.copies += run.copies() / kPlacements;
  }
  Outcome outcome = OutcomeOf(times_ms);
  outcome.bytes = sum.bytes;
  outcome.copies = sum.copies;
  return outcome;
}

bool MixedSwarm(bool json) {
  const Outcome adaptive = OverPlacements({});
  bool is_good = true;
  for (const CopyTime time : {CopyTime::kAtOnce, CopyTime::kWhenLate}) {
    for (uint32_t h = 1; h <= 4; ++h) {
      if (h == 1 && time == CopyTime::kWhenLate) continue;
      Options options = Fixed(h, time);
      options.timeout = Milliseconds(500);
      const Outcome outcome = OverPlacements(options);
      Print(Table1Case(h, time).name, outcome, 0, json);
      if (adaptive.p50_ms > outcome.p50_ms || adaptive.p99_ms > outcome.p99_ms) is_good = false;
    }
  }
  Print("adaptive", adaptive, 0, json);
  return is_good;
}

int Main(bool json) {
  const auto head = [json](const char* title) {
    if (!json)
      std::printf("\n%s\n%-28s %8s %8s %8s %8s %10s %7s\n", title, "", "eq. 8 ms", "mean ms",
                  "p50 ms", "p99 ms", "row bytes", "copies");
  };
  head("Table 1: 8 h workers, one expert each");
  const bool is_table_good = Table1(json);
  head("Fast, slow and stalling workers on a line of 100 Mbit/s, twenty placements");
  const bool is_adaptive_better = MixedSwarm(json);
  std::fprintf(stderr, "Table 1 %s; adaptive hedging %s.\n",
               is_table_good ? "within 10% of equation 8" : "NOT within 10% of equation 8",
               is_adaptive_better ? "is better than every fixed one in p50 and p99"
                                  : "is NOT better than every fixed one in p50 and p99");
  return is_table_good && is_adaptive_better ? 0 : 1;
}

}  // namespace
}  // namespace weft::dispatch

int main(int argc, char** argv) {
  return weft::dispatch::Main(argc > 1 && std::string(argv[1]) == "--json");
}
