// The simulator's seeds as tests, and the named past failures of this field that only show over
// time.
#include <gtest/gtest.h>

#include "sim/run.h"
#include "sim/simulation.h"

namespace weft::sim {
namespace {

TEST(Simulation, SeedsHoldAllInvariants) {
  // A seed takes about 0.1 s; the step `sim` of the test run tries a thousand others.
  EXPECT_EQ(RunSimulation(1, 20, false), 0);
}

TEST(Simulation, OneSeedReplaysARunExactly) {
  for (const uint64_t seed : {5u, 8u, 77u}) {
    const Outcome first = Simulate(seed, MakeScenario(seed));
    const Outcome second = Simulate(seed, MakeScenario(seed));
    EXPECT_EQ(first.digest, second.digest);
    EXPECT_EQ(first.events, second.events);
    EXPECT_GT(first.events, 100u);
  }
  EXPECT_NE(Simulate(5, MakeScenario(5)).digest, Simulate(6, MakeScenario(6)).digest);
}

void CountRestarts(const Outcome& outcome, Outcome& sum) {
  sum.restarts += outcome.restarts;
  sum.continued += outcome.continued;
  sum.adopted += outcome.adopted;
}
void ExpectRestarts(const Outcome& sum) {
  EXPECT_GT(sum.restarts, 100u);
  EXPECT_GT(sum.continued, 100u);
  EXPECT_GT(sum.adopted, 20u);
}

void CountHubs(const Outcome& outcome, Outcome& sum) {
  sum.shard_messages += outcome.shard_messages;
  sum.served_rows += outcome.served_rows;
  sum.refused_rows += outcome.refused_rows;
  sum.datagrams += outcome.datagrams;
  sum.datagrams_lost += outcome.datagrams_lost;
  sum.datagrams_repeated += outcome.datagrams_repeated;
  sum.datagrams_late += outcome.datagrams_late;
  sum.lossy_ends += outcome.lossy_ends;
}
void ExpectHubs(const Outcome& sum) {
  EXPECT_GT(sum.shard_messages, 10'000u);
  EXPECT_GT(sum.served_rows, 1'000u);
  EXPECT_GT(sum.refused_rows, 0u);
  EXPECT_GT(sum.datagrams, 1'000u);
  EXPECT_GT(sum.datagrams_lost, 50u);
  EXPECT_GT(sum.datagrams_repeated, 10u);
  EXPECT_GT(sum.datagrams_late, 50u);
  EXPECT_GT(sum.lossy_ends, 0u);
}

// The seeds are only worth something if they reach what they are about.
TEST(Simulation, SeedsReachWhatTheyAreAbout) {
  Outcome sum;
  uint64_t eight_sessions = 0, long_contexts = 0, tokens_of_ranges = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Outcome outcome = Simulate(seed, MakeScenario(seed));
    sum.tokens += outcome.tokens;
    sum.requests += outcome.requests;
    sum.losses += outcome.losses;
    sum.closed_by_core += outcome.closed_by_core;
    sum.cancelled += outcome.cancelled;
    sum.failed_on_purpose += outcome.failed_on_purpose;
    sum.wishes += outcome.wishes;
    sum.faults += outcome.faults;
    sum.repeated += outcome.repeated;
    sum.overtaken += outcome.overtaken;
    sum.generated_alone += outcome.generated_alone;
    sum.generated_together += outcome.generated_together;
    sum.side_tokens += outcome.side_tokens;
    sum.interrupted += outcome.interrupted;
    sum.resumed += outcome.resumed;
    sum.doubts += outcome.doubts;
    CountRestarts(outcome, sum);
    sum.fallen_incarnations += outcome.fallen_incarnations;
    sum.hung_up += outcome.hung_up;
    sum.survivor_frames += outcome.survivor_frames;
    sum.forks += outcome.forks;
    sum.kept += outcome.kept;
    CountHubs(outcome, sum);
    const Scenario scenario = MakeScenario(seed);
    eight_sessions += scenario.options.session_count == 8 ? 1 : 0;
    long_contexts += scenario.options.context_length >= 1000 ? 1 : 0;
    if (scenario.options.model.divides_products()) tokens_of_ranges += outcome.tokens;
  }
  EXPECT_GT(sum.tokens, 50'000u);
  EXPECT_GT(sum.requests, 4'000u);
  EXPECT_GT(sum.losses, 300u);
  EXPECT_GT(sum.closed_by_core, 100u);
  EXPECT_GT(sum.cancelled, 50u);
  EXPECT_GT(sum.failed_on_purpose, 0u);
  EXPECT_GT(sum.wishes, 5u);
  EXPECT_GT(sum.faults, 160u * 20u);  // about a tenth of the seeds has none
  EXPECT_GT(sum.repeated, 50u);
  EXPECT_GT(sum.overtaken, 50u);
  EXPECT_GT(sum.generated_alone, 1'000u);
  EXPECT_GT(sum.generated_together, 50u);
  EXPECT_GT(sum.side_tokens, 1'000u);
  EXPECT_GT(sum.interrupted, 50u);
  EXPECT_GT(sum.resumed, 50u);
  EXPECT_GT(sum.doubts, 10u);
  ExpectRestarts(sum);
  EXPECT_GT(sum.fallen_incarnations, 20u);
  EXPECT_GT(sum.hung_up, 20u);
  EXPECT_GT(sum.survivor_frames, 5u);
  EXPECT_GT(sum.forks, 500u);
  EXPECT_GT(sum.kept, 20u);
  ExpectHubs(sum);
  EXPECT_GT(eight_sessions, 10u);
  EXPECT_GT(long_contexts, 10u);
  EXPECT_GT(tokens_of_ranges, 1'000u);
}

// Only rows of the generations that whoever asks again was told of may be gone on with. About one
// seed in a hundred shows it, so that many are tried.
TEST(Simulation, WhoTrustsAllClaimsGetsWrongRows) {
  uint64_t wrong = 0;
  for (uint64_t seed = 1; seed <= 1500 && wrong == 0; ++seed) {
    Scenario scenario = MakeScenario(seed);
    scenario.faults_per_minute = 5;
    scenario.restarts_per_minute = 6;
    scenario.requests_per_minute = 60;
    scenario.options.session_count = 3;
    scenario.trusts_claims = true;
    if (!Simulate(seed, scenario).violations.empty()) wrong = seed;
  }
  EXPECT_GT(wrong, 0u);
}

TEST(Simulation, HostileSeedsReachWhatTheyAreAbout) {
  Outcome sum;
  uint64_t left = 0;
  for (uint64_t seed = 2; seed <= 440; seed += 2) {
    const Outcome outcome = Simulate(seed, MakeHostileScenario(seed));
    sum.strangers += outcome.strangers;
    sum.lies += outcome.lies;
    sum.liars_out += outcome.liars_out;
    sum.given_up += outcome.given_up;
    sum.claims += outcome.claims;
    sum.unasked += outcome.unasked;
    sum.waits += outcome.waits;
    left += seed % 8 == 0 && SimulateLeft(seed).left_wait.us > 0 ? 1 : 0;
  }
  EXPECT_GT(sum.strangers, 200u);
  EXPECT_GT(sum.lies, 200u);
  EXPECT_GT(sum.liars_out, 40u);
  EXPECT_GT(sum.given_up, 0u);
  EXPECT_GT(sum.claims, 10u);
  EXPECT_GT(sum.unasked, 5'000u);
  EXPECT_GT(sum.waits, 40u);
  EXPECT_GT(left, 20u);
}

// "An event log that grows for 48 hours": two days of joins, leaves, faults and requests, and
// nothing that the core keeps grows with time. (Of the hundred thousands of draws one may fall
// within a rounding of the border between two tokens, where the core and the reference add in other
// orders; that is not what this seed is about.)
TEST(PastFailures, NothingGrowsForFortyEightHours) {
  Scenario scenario = MakeScenario(22);
  scenario.devices.resize(std::min<size_t>(scenario.devices.size(), 3));
  while (scenario.devices.size() < 3) scenario.devices.push_back(scenario.devices[0]);
  for (Device& device : scenario.devices) device.memory_bytes = 30'000'000;
  scenario.chaos = Seconds(48 * 3600);
  scenario.faults_per_minute = 0.3;
  scenario.requests_per_minute = 1;
  scenario.new_names = true;
  scenario.log = false;
  const Outcome outcome = Simulate(22, scenario);
  EXPECT_TRUE(outcome.violations.empty()) << outcome.violations.front();
  EXPECT_GE(outcome.virtual_time, Seconds(48 * 3600));
  EXPECT_GT(outcome.requests, 2000u);
  EXPECT_GT(outcome.losses, 300u);
  EXPECT_LE(outcome.most.workers, 8u);
  EXPECT_LE(outcome.most.sessions, scenario.options.session_count);
  EXPECT_LE(outcome.most.waiting_requests, scenario.options.queue_limit);
  EXPECT_LE(outcome.most.probation_records, 256u);
  // Two steps of each, and a Generate of each session.
  EXPECT_LE(outcome.most.frames_in_flight,
            2 * outcome.most.workers + scenario.options.session_count);
  EXPECT_LE(outcome.most.open_pings, 16 * outcome.most.workers);
  EXPECT_LE(outcome.most.session_tokens,
            size_t{scenario.options.session_count} * (scenario.options.context_length + 1));
  EXPECT_LE(outcome.most.waiting_rows, 16 * 128u);
}

}  // namespace
}  // namespace weft::sim
