#include "sim/cluster/gateway.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace weft::sim {

using Taken = cluster::Splice::Taken;
using Ending = cluster::Splice::Ending;

// Each request stands in front of those that came before: the first one is asked last.
void Gateway::FindLeader(cluster::LinkId link, cluster::Incarnation incarnation, Tell tell) {
  if (!leadership_.OnFound(link, incarnation)) return;
  const Tell former = std::exchange(tell_, std::move(tell));
  const bool is_same = std::exchange(asked_link_, link) == link;
  std::vector<OpenPtr> all;
  for (const auto& [id, open] : open_)
    if (!is_same || !open->splice.is_asked()) all.push_back(open);
  for (auto open = all.rbegin(); open != all.rend(); ++open) {
    if (former && (*open)->splice.is_asked()) {
      const uint64_t number = (*open)->number;
      OnLost(*open);
      former(CancelAsked{number});
    }
    if (!(*open)->is_over) Ask(*open);
  }
}

void Gateway::LoseLeader(cluster::LinkId link, bool is_heard) {
  if (!leadership_.OnLost(link)) return;
  const Tell former = std::exchange(tell_, nullptr);
  asked_link_ = {};
  const auto all = open_;
  for (const auto& [id, open] : all) {
    if (!open->splice.is_asked()) continue;
    const uint64_t number = open->number;
    OnLost(open);
    if (is_heard && former) former(CancelAsked{number});
  }
}

void Gateway::ForgetLink(cluster::LinkId link) {
  std::erase_if(attempts_, [link](const auto& each) { return each.second.link == link; });
}

uint64_t Gateway::Submit(swarm::Request request, GatewayClient client) {
  const auto open = std::make_shared<Open>();
  open->id = ++last_id_;
  open->request = std::move(request);
  open->client = std::move(client);
  open_[open->id] = open;
  if (tell_) Ask(open);
  return open->id;
}

void Gateway::Ask(const OpenPtr& open) {
  const bool is_first = open->number == 0;
  if (!is_first && !rules_.submits_again) return;
  open->number = ++last_number_;
  attempts_[open->number] = {open, open->splice.Ask(), asked_link_};
  swarm::Request request = open->request;
  if (random_.Below(4) != 0) {
    request.answer_ids = open->splice.answer();
    request.resume = open->trace;
    if (request.resume && rules_.trusts_claims)
      request.resume = swarm::SessionTrace{open->trace->session, 0, UINT32_MAX / 2};
  }
  if (request.resume) open->asked_for = request.resume->session;
  request.was_accepted = open->was_accepted;
  if (open->was_accepted) ++counts_.moved;
  tell_(SubmitAsked{open->number, std::move(request)});
}

void Gateway::AskAgain(const OpenPtr& open) {
  open->splice.Lose();
  if (!tell_) return;
  tell_(CancelAsked{open->number});
  Ask(open);
}

void Gateway::OnTold(const ToGateway& told) {
  const auto found = attempts_.find(told.number);
  if (found == attempts_.end()) return;
  const Attempt attempt = found->second;
  const bool is_last = std::holds_alternative<swarm::FinishRequest>(told.event) ||
                       std::holds_alternative<LeadsNoMore>(told.event);
  if (is_last) attempts_.erase(found);
  if (!attempt.open->is_over)
    std::visit([&](const auto& event) { On(attempt, event); }, told.event);
}

void Gateway::On(const Attempt& attempt, const Accepted&) {
  if (attempt.open->splice.is_current(attempt.id)) attempt.open->was_accepted = true;
}

void Gateway::On(const Attempt& attempt, const swarm::SessionTrace& trace) {
  Open& open = *attempt.open;
  if (!open.splice.is_current(attempt.id)) return;
  open.trace = trace;
  if (std::exchange(open.asked_for, {}) == trace.session) ++counts_.adopted;
}

void Gateway::On(const Attempt& attempt, const swarm::EmitToken& token) {
  Open& open = *attempt.open;
  if (open.is_cancelled) return;
  const uint64_t differences = open.splice.differences();
  const Taken taken = open.splice.OnToken(attempt.id, token.index, token.token_id);
  if (open.splice.differences() != differences) ++counts_.differences;
  if (taken == Taken::kTooFar) return AskAgain(attempt.open);
  if (taken == Taken::kKnown) ++counts_.known;
  if (taken == Taken::kStale) ++counts_.stale;
  if (taken != Taken::kGiven && rules_.drops_what_is_known) return;
  open.client.token(token);
}

void Gateway::On(const Attempt& attempt, const swarm::FinishRequest& end) {
  Open& open = *attempt.open;
  const bool has_tokens =
      end.reason == swarm::FinishReason::kStop || end.reason == swarm::FinishReason::kLength;
  std::optional<size_t> generated;
  if (has_tokens && !open.is_cancelled) generated = end.generated_tokens;
  switch (open.splice.OnEnd(attempt.id, generated)) {
    case Ending::kStale:
      return;
    case Ending::kShort:
      return AskAgain(attempt.open);
    case Ending::kEnd:
      return End(attempt.open, end);
  }
}

void Gateway::On(const Attempt& attempt, const LeadsNoMore&) {
  if (attempt.open->splice.is_current(attempt.id)) OnLost(attempt.open);
}

void Gateway::OnLost(const OpenPtr& open) {
  open->splice.Lose();
  if (open->is_cancelled) return End(open, {});
  if (open->was_accepted) open->client.moving();
}

void Gateway::End(const OpenPtr& open, swarm::FinishRequest end) {
  if (std::exchange(open->is_over, true)) return;
  open_.erase(open->id);
  if (open->is_cancelled) {
    end.reason = swarm::FinishReason::kCancelled;
    end.error.reset();
    end.prompt_tokens = static_cast<uint32_t>(open->request.prompt_ids.size());
    end.generated_tokens = static_cast<uint32_t>(open->splice.answer().size());
  }
  open->client.end(end);
}

void Gateway::Cancel(uint64_t request) {
  const auto found = open_.find(request);
  if (found == open_.end()) return;
  const OpenPtr open = found->second;
  if (std::exchange(open->is_cancelled, true)) return;
  if (!tell_ || !open->splice.is_asked()) return End(open, {});
  tell_(CancelAsked{open->number});
}

}  // namespace weft::sim
