// A whole swarm in one thread: the real core, the real workers' side of the protocol on modelled
// devices, and a network with latency and bandwidth. A seed decides everything that goes wrong. The
// same seed replays the same run.
//
// Invariants, checked while it runs and at its end:
//   every accepted request gets exactly one terminal event;
//   its tokens are those of the run without any fault (a prefix of them where it was cancelled or
//   failed on purpose); no worker is told to hold more memory or sessions than it offers; no worker
//   ever refuses what the core sends; once faults have stopped and devices are there that can hold
//   the model as they claim, whatever they report, no request hangs; what the core keeps stays
// bounded; a loss has no stage that goes on compute anything again (recompute_watch.h); a first
// message that is no Connect closes its connection; the incarnation of the frames that a worker
// runs never falls.
//
// Hostile swarms (hostile_scenario.cc) have more of them:
//   a device that lies is out before more than three requests have ended beside those that ran;
//   what it has spoilt is told to nobody afterwards; who never computed anything right passes no
//   check; who says that it is fast is believed no more than elapsed time allows, and is given no
//   layers for long; who floods is closed; how long a client waits for its first token depends on
//   how many clients there are, not on how much they ask for, nor on conversations that nobody
//   waits for.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "sim/hash_model.h"
#include "sim/model_worker.h"
#include "sim/scheduler.h"
#include "swarm/core/core.h"

namespace weft::sim {

// Clients that ask for many answers at once, and then one that asks for one.
struct Crowd {
  uint32_t clients = 0, requests_each = 0;
};

// Conversations that have come to their end when a device is lost that had a part in them, and
// somebody asks for something else.
struct Left {
  bool somebody_asks = false;
  uint32_t conversations = 0;
};

struct Scenario {
  swarm::CoreOptions options;
  std::vector<Device> devices;
  Duration chaos;  // faults and requests happen for so long
  double faults_per_minute = 0;
  double restarts_per_minute = 0;  // of the server, from what it has noted
  bool trusts_claims = false;      // whoever asks again names its session for any generation
  double requests_per_minute = 0;
  uint32_t longest_prompt = 40;
  uint32_t longest_answer = 30;
  double cancel_probability = 0.1;
  double sampled_probability = 0.3;
  // Of datagrams, the share that is lost, comes twice, and comes late.
  double datagram_loss = 0, datagram_repeats = 0, datagram_late = 0;
  bool new_names = false;  // a device that comes back is a stranger
  // Connections whose first message is another one than Connect, or that never say anything.
  double strangers_per_minute = 6;
  uint32_t silent_strangers = 0;  // at once
  bool is_hostile = false;        // devices tell what is not so
  Crowd crowd;
  Left left;
  bool log = true;
};

// What the seed makes of it: number and kind of devices, their memory (usually several are needed),
// links, faults.
Scenario MakeScenario(uint64_t seed);
// Another, short one, by turns with devices whose numbers are wrong, devices that claim to be fast
// or flood, and a crowd of clients. Nothing else goes wrong in it.
Scenario MakeHostileScenario(uint64_t seed);
// Somebody asks after a loss beside so many conversations that were left.
Scenario MakeLeftScenario(uint64_t seed, uint32_t conversations);
// Of a request that is not greedy, or is with biases.
void SetSampling(SeededRandom& random, uint32_t vocabulary, sampling::Parameters& sampling);

struct Outcome {
  std::vector<std::string> violations;  // empty: all invariants held
  std::deque<std::string> log;          // the last lines
  uint64_t events = 0, tokens = 0, requests = 0, finished = 0, cancelled = 0, failed_on_purpose = 0;
  uint64_t losses = 0, plans = 0, closed_by_core = 0;
  uint64_t faults = 0, repeated = 0, overtaken = 0;  // messages that came twice or out of order
  uint64_t wishes = 0;  // for the whole model on one device, or against it
  // Tokens that devices with the whole model chose by themselves, one session at a time.
  uint64_t generated_alone = 0;
  uint64_t generated_together = 0;  // those of batches of several sessions
  uint64_t side_tokens = 0;         // that plans beside the active one made
  uint64_t resumed = 0;             // connections of workers that had held on to what they hold
  uint64_t interrupted = 0;         // downloads that made way for others
  uint64_t restarts = 0, continued = 0;  // of the server; requests that went on by themselves
  uint64_t adopted = 0;                  // of them those that went on in their session
  uint64_t fallen_incarnations = 0;      // starts with a lower number than the start before
  uint64_t hung_up = 0;                  // workers that went from such a start
  uint64_t survivor_frames = 0;          // recompute_watch.h
  uint64_t forks = 0, kept = 0;          // sessions that begin as others; prefixes kept by name
  uint64_t doubts = 0;          // layers that workers were told beyond what they had reported
  uint64_t shard_messages = 0;  // between hubs and holders
  uint64_t served_rows = 0, refused_rows = 0;  // that hubs on tabs were given, or were not
  uint64_t datagrams = 0, datagrams_lost = 0, datagrams_repeated = 0, datagrams_late = 0;
  uint64_t lossy_ends = 0;  // requests that had to do without some neuron groups
  uint64_t strangers = 0;   // that were closed for their first message
  uint64_t lies = 0;        // answers to steps that were not so
  uint64_t liars_out = 0;   // how often devices that lie were found
  uint64_t given_up = 0;    // requests that ended with a sentence about wrong rows
  uint64_t claims = 0;      // ends of requests that a device which claims too much had a part in
  uint64_t unasked = 0;     // messages that nobody had asked for
  uint64_t waits = 0;       // of clients in a crowd, for their first token
  Duration left_wait;       // of whoever asks beside conversations that were left
  uint64_t digest = 0;      // of everything that happened
  Duration virtual_time;
  swarm::CoreSizes most;  // the largest of each that was seen
};

Outcome Simulate(uint64_t seed, const Scenario& scenario);
// MakeLeftScenario with and without conversations: a violation where they make somebody wait.
Outcome SimulateLeft(uint64_t seed);

}  // namespace weft::sim
