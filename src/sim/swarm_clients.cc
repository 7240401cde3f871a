// The requests of a run.
#include "sim/swarm_run.h"

namespace weft::sim {

void SwarmRun::ScheduleRequest() {
  if (scenario_.requests_per_minute <= 0) return;
  const double us = 60e6 / scenario_.requests_per_minute * (0.1 + 1.8 * random_.Uniform());
  scheduler_.After(Microseconds(static_cast<int64_t>(us)), [this] {
    if (scheduler_.now() >= chaos_end_) return;
    Submit();
    ScheduleRequest();
  });
}

swarm::Request SwarmRun::MakeRequest() {
  swarm::Request request;
  request.id = next_request_++;
  const uint32_t length = 1 + static_cast<uint32_t>(random_.Below(scenario_.longest_prompt));
  // Often the next turn of an earlier conversation, or one that begins like it.
  if (!finished_prefixes_.empty() && random_.Uniform() < 0.6) {
    request.prompt_ids = finished_prefixes_[random_.Below(finished_prefixes_.size())];
    if (random_.Uniform() < 0.4)
      request.prompt_ids.resize(1 + random_.Below(request.prompt_ids.size()));
  }
  while (request.prompt_ids.size() < length)
    request.prompt_ids.push_back(static_cast<int32_t>(random_.Below(model_.vocabulary)));
  if (request.prompt_ids.size() > scenario_.options.context_length)
    request.prompt_ids.resize(scenario_.options.context_length);
  for (uint64_t i = scenario_.options.model.is_recurrent() ? random_.Below(4) : 0; i > 0; --i)
    request.marks.push_back(static_cast<uint32_t>(random_.Below(request.prompt_ids.size() + 3)));
  request.max_tokens = 1 + static_cast<uint32_t>(random_.Below(scenario_.longest_answer));
  request.sampling.temperature = 0;
  if (random_.Uniform() < scenario_.sampled_probability)
    SetSampling(random_, model_.vocabulary, request.sampling);
  for (int i = 0; i < 8; ++i)
    request.stop_ids.push_back(static_cast<int32_t>(random_.Below(model_.vocabulary)));
  request.want_logits = random_.Uniform() < 0.05;
  if (request.want_logits) request.sampling = {.temperature = 0};
  return request;
}

// Some prompts are kept by name instead of being answered, and forgotten some time later.
void SwarmRun::MakeKept(swarm::Request& request) {
  if (request.want_logits || keep_random_.Uniform() >= 0.05) return;
  request.keep = "prefix " + std::to_string(keep_random_.Below(3));
  if (keep_random_.Uniform() < 0.5) return;
  scheduler_.After(Milliseconds(static_cast<int64_t>(keep_random_.Below(60'000))),
                   [this, name = request.keep] {
                     Feed(swarm::PrefixForgotten{"", name});
                   });
}

// Of others what the head gives for their last row is wanted, and nothing else.
void SwarmRun::MakeOfLastRow(swarm::Request& request) {
  if (request.want_logits || !request.keep.empty() || row_random_.Uniform() >= 0.05) return;
  request.want_last_row = true;
  request.max_tokens = 0;
}

void SwarmRun::Submit() {
  swarm::Request request = MakeRequest();
  MakeKept(request);
  MakeOfLastRow(request);
  const RequestId id = request.id;
  Submit(std::move(request));
  if (random_.Uniform() < scenario_.cancel_probability)
    scheduler_.After(Milliseconds(static_cast<int64_t>(random_.Below(5000))), [this, id] {
      const auto found = requests_.find(id);
      if (found == requests_.end() || found->second.ends > 0) return;
      found->second.cancelled = true;
      Feed(swarm::RequestCancelled{id});
    });
}

Tracked& SwarmRun::Submit(swarm::Request request) {
  const RequestId id = request.id;
  Tracked& tracked = requests_[id];
  tracked.submitted_at = scheduler_.now();
  if (scenario_.crowd.clients > 0)
    tracked.rows_before = core_.snapshot(scheduler_.now()).computed_positions;
  tracked.expected = request.keep.empty()
                         ? Reference(model_, request, scenario_.options.context_length)
                         : Expected{{}, swarm::FinishReason::kStop};
  tracked.request = request;
  ++unfinished_;
  ++outcome_.requests;
  std::vector<int32_t> whole = request.prompt_ids;
  whole.insert(whole.end(), tracked.expected.tokens.begin(), tracked.expected.tokens.end());
  if (whole.size() + 1 < scenario_.options.context_length)
    finished_prefixes_.push_back(std::move(whole));
  if (finished_prefixes_.size() > 8) finished_prefixes_.erase(finished_prefixes_.begin());
  Log("request " + ToString(id) + ": " + std::to_string(request.prompt_ids.size()) + " + " +
      std::to_string(request.max_tokens));
  Feed(swarm::RequestSubmitted{std::move(request)});
  return tracked;
}

// ---- a crowd ----

void SwarmRun::ScheduleCrowd() {
  const Crowd& crowd = scenario_.crowd;
  if (crowd.clients == 0) return;
  scheduler_.After(Seconds(8), [this, crowd] {
    for (uint32_t i = 0; i < crowd.clients * crowd.requests_each; ++i) {
      swarm::Request request = MakeRequest();
      request.client = "client " + std::to_string(i / crowd.requests_each);
      Submit(std::move(request));
    }
  });
  scheduler_.After(Milliseconds(8100 + static_cast<int64_t>(hostile_random_.Below(2000))), [this] {
    swarm::Request request = MakeRequest();
    request.client = "polite";
    request.stop_ids.clear();
    Submit(std::move(request));
  });
}

// Each of the others has one turn before it, and ends one: rows that a turn begins with are
// computed again at most, of a context at most. Beside its own prompt single rows are computed.
//
//   rows <= (clients + 1) * (turn_rows + 3 * context) + sessions * context
void SwarmRun::CheckWait(const Tracked& tracked) {
  if (tracked.request.client == "asks")
    outcome_.left_wait = scheduler_.now() - tracked.submitted_at;
  if (tracked.request.client != "polite") return;
  ++outcome_.waits;
  const swarm::CoreOptions& options = scenario_.options;
  const uint64_t rows = core_.snapshot(scheduler_.now()).computed_positions - tracked.rows_before;
  const uint64_t most =
      (scenario_.crowd.clients + 1ull) * (options.turn_rows + 3ull * options.context_length) +
      uint64_t{options.session_count} * options.context_length;
  if (rows > most)
    Violate("one of " + std::to_string(scenario_.crowd.clients + 1) + " clients waited for " +
            std::to_string(rows) + " rows, expected at most " + std::to_string(most));
}

// ---- conversations that were left ----

void SwarmRun::ScheduleLeft() {
  const Left& left = scenario_.left;
  if (!left.somebody_asks) return;
  scheduler_.After(Seconds(8), [this, left] {
    for (uint32_t i = 0; i < left.conversations; ++i) {
      swarm::Request request;
      request.id = next_request_++;
      while (request.prompt_ids.size() + 8 < scenario_.options.context_length)
        request.prompt_ids.push_back(
            static_cast<int32_t>(hostile_random_.Below(model_.vocabulary)));
      request.max_tokens = 2;
      request.sampling.temperature = 0;
      Submit(std::move(request));
    }
  });
  scheduler_.After(Seconds(60), [this] { AskBesideLeft(); });
}

// The last stage goes, so that its successor lacks everything.
void SwarmRun::AskBesideLeft() {
  const swarm::Snapshot picture = core_.snapshot(scheduler_.now());
  if (picture.state != swarm::SwarmState::kUp || picture.active_requests > 0)
    return Violate("conversations had not ended within 50 s");
  Crash(picture.stages.back().worker, true);
  // By then its successor has computed some steps, so that it is known how many rows a chunk holds.
  scheduler_.After(Seconds(3), [this] {
    // Where nobody stood by, the repair decides how long it takes.
    if (core_.snapshot(scheduler_.now()).state != swarm::SwarmState::kUp) return;
    swarm::Request request;
    request.id = next_request_++;
    request.prompt_ids = {1, 2, 3, 4, 5};
    request.max_tokens = 1;
    request.sampling.temperature = 0;
    request.client = "asks";
    Submit(std::move(request));
  });
}

}  // namespace weft::sim
