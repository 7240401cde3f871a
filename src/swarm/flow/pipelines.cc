#include "swarm/flow/pipelines.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "wire/data_frame.h"

namespace weft::swarm {
namespace {

// Where an answer may be longer, it is expected to be so many tokens.
constexpr uint32_t kExpectedTokens = 128;
// Plans that take about as long are alike: measured times waver by a tenth, and batches are so flat
// that a tenth is three conversations of sixteen. A fifth is too much: where 22 conversations take
// 7.3 ms a token and 10 take 5.9, the whole waits for the 22.
constexpr double kAlike = 1.15;
// A plan that nobody has seen answer is tried where it is guessed to take up to so many times as
// long as another one that others use: it may be far quicker, as devices that choose tokens by
// themselves are.
constexpr double kWorthTrying = 4;
// A device that answered conversations of its own is fed those of others once it has rested for so
// long. A frame for a standby takes the device for up to a chunk, and the next conversation would
// wait for it: where 32 come, and the next 32 when these have ended, in each round.
constexpr Duration kRest = Seconds(2);

}  // namespace

Pipelines::Pipelines(const CoreOptions& options, const Costs& costs, Roster& roster,
                     SessionTable& sessions, Outbox& outbox)
    : options_(options),
      costs_(costs),
      roster_(roster),
      sessions_(sessions),
      outbox_(outbox),
      active_(kActivePlan, options, costs, roster, sessions, outbox, totals_) {}

void Pipelines::SetPlans(const SwarmPlan* active, std::vector<BoundStage> followers,
                         const std::vector<SidePlan>& beside) {
  std::erase_if(beside_, [&](const auto& pipeline) {
    const bool stays = std::ranges::any_of(
        beside, [&](const SidePlan& each) { return each.id == pipeline->plan(); });
    if (!stays) pipeline->SetPlan(nullptr, {});
    return !stays;
  });
  active_.SetPlan(active, std::move(followers));
  for (const SidePlan& each : beside) {
    if (Find(each.id) != nullptr) continue;
    beside_.push_back(std::make_unique<Pipeline>(each.id, options_, costs_, roster_, sessions_,
                                                 outbox_, totals_));
    beside_.back()->SetPlan(&each.plan, {});
  }
}

void Pipelines::PlaceLeft() {
  for (const auto& session : sessions_.sessions()) {
    if (Find(session->plan) != nullptr) continue;
    // The devices of a plan beside may be those of the active plan now.
    if (const Pipeline* plan = FindServing(session->Holders()))
      MoveTo(*session, *plan);
    else
      PlaceAmong(*session, Serving());
  }
}

const Pipeline* Pipelines::Find(PlanId plan) const {
  if (plan == kActivePlan) return &active_;
  const auto found =
      std::ranges::find(beside_, plan, [](const auto& each) { return each->plan(); });
  return found == beside_.end() ? nullptr : found->get();
}

// What a plan asked for that is gone is the active one's where that took the binding over, and else
// nobody's: its sessions are elsewhere.
Pipeline& Pipelines::ThatSent(const std::deque<SentFrame>& frames, uint32_t sequence) {
  const auto sent = std::ranges::find(frames, sequence, &SentFrame::sequence);
  if (sent != frames.end())
    for (const auto& pipeline : beside_)
      if (pipeline->plan() == sent->plan) return *pipeline;
  return active_;
}

std::vector<const Pipeline*> Pipelines::Serving() const {
  std::vector<const Pipeline*> serving;
  if (active_.serves()) serving.push_back(&active_);
  for (const auto& pipeline : beside_) serving.push_back(pipeline.get());
  return serving;
}

// Of those that are expected to take about least: where the conversation is, or the one with the
// fewest others, or the first; none: the active plan will serve again.
void Pipelines::PlaceAmong(Session& session, const std::vector<const Pipeline*>& plans) {
  const uint32_t left =
      session.active ? session.active->max_tokens - session.active->generated_tokens : 1;
  const uint32_t tokens = std::clamp(left, 1u, kExpectedTokens);
  struct Choice {
    const Pipeline* plan = nullptr;
    double us = 0;
    uint32_t others = 0;
    bool is_home = false;
  };
  std::vector<Choice> choices;
  Choice least;
  for (const Pipeline* plan : plans) {
    const bool is_here = session.plan == plan->plan() && session.active;
    Choice choice{plan, 0, sessions_.active_count(plan->plan()) - (is_here ? 1 : 0),
                  plan->plan() == session.plan && session.completed > 0};
    const bool is_tried =
        least.plan != nullptr && least.others > 0 && choice.others == 0 && !plan->IsMeasured();
    choice.us = plan->ExpectedUs(session, tokens) * (is_tried ? 1 / kWorthTrying : 1);
    if (least.plan == nullptr || choice.us < least.us) least = choice;
    choices.push_back(choice);
  }
  Choice best = least;
  for (const Choice& choice : choices) {
    if (best.is_home || choice.us > kAlike * least.us) continue;
    if (choice.is_home || choice.others < best.others) best = choice;
  }
  MoveTo(session, best.plan ? *best.plan : active_);
}

void Pipelines::MoveTo(Session& session, const Pipeline& next) {
  session.MoveTo(next.plan(), [&next](BindingId binding) { return next.Uses(binding); });
}

// A last try is computed by those who stay the longest (Planning::SetSteady): the active plan's.
void Pipelines::Place(Session& session) {
  if (session.active && session.active->last_try) return MoveTo(session, active_);
  if (beside_.empty()) return;
  if (const Pipeline* plan = session.adopted_as ? FindServing(session.Holders()) : nullptr)
    return MoveTo(session, *plan);
  PlaceAmong(session, Serving());
}

const Pipeline* Pipelines::FindServing(std::span<const BindingId> bindings) const {
  for (const Pipeline* plan : Serving())
    if (plan->IsMadeOf(bindings)) return plan;
  return nullptr;
}

Duration Pipelines::ReadingTime(uint32_t rows) const {
  std::optional<double> least;
  for (const Pipeline* plan : Serving())
    least =
        std::min(least.value_or(std::numeric_limits<double>::infinity()), plan->ReadingUs(rows));
  return Microseconds(static_cast<int64_t>(std::min(least.value_or(0), 1e12)));
}

void Pipelines::Pump(Instant now) {
  active_.Pump(now);
  for (const auto& pipeline : beside_) pipeline->Pump(now);
  active_.FeedFollowers(now, [this, now](WorkerId worker) {
    return std::ranges::any_of(beside_, [&](const auto& pipeline) {
      const auto asked_at = pipeline->asked_at();
      return pipeline->IsOn(worker) && asked_at && now < *asked_at + kRest;
    });
  });
  sessions_.TrimHistory(options_.history_bytes, [this](const Session& session, uint32_t layer) {
    const Pipeline* plan = Find(session.plan);
    CHECK(plan != nullptr, "a session belongs to a plan that is gone");
    return plan->NeedsFrom(session, layer);
  });
}

Result<Pipeline::StepResult> Pipelines::OnResult(Worker& worker, Slice message, Instant now) {
  const auto& sent = worker.steps->in_flight;
  return ThatSent(sent, sent.empty() ? 0 : sent.front().sequence)
      .OnResult(worker, std::move(message), now);
}

Result<Pipeline::FailedRuns> Pipelines::OnStepFailed(Worker& worker,
                                                     const wire::pb::StepFailed& failed,
                                                     Instant now) {
  const auto& generating = worker.steps->generating;
  const bool generates =
      std::ranges::count(generating, failed.sequence(), &SentFrame::sequence) > 0;
  return ThatSent(generates ? generating : worker.steps->in_flight, failed.sequence())
      .OnStepFailed(worker, failed, now);
}

Result<GeneratedTokens> Pipelines::OnTokens(Worker& worker, const wire::Tokens& tokens,
                                            Instant now) {
  return ThatSent(worker.steps->generating, tokens.sequence).OnTokens(worker, tokens, now);
}

// Hubs are of the active plan.
Result<std::vector<LostGroups>> Pipelines::OnGroupsLost(Worker& worker,
                                                        const wire::pb::GroupsLost& lost) {
  return active_.OnGroupsLost(worker, lost);
}

bool Pipelines::Uses(BindingId binding) const {
  return active_.Uses(binding) || std::ranges::any_of(beside_, [binding](const auto& pipeline) {
           return pipeline->Uses(binding);
         });
}

void Pipelines::LimitMessages(Worker& worker) const {
  uint64_t bytes = 0;
  for (const auto& pipeline : beside_)
    bytes = std::max(bytes, pipeline->LongestAnswerOf(worker.id));
  active_.LimitMessages(worker, bytes);
}

uint64_t Pipelines::waiting_rows() const {
  uint64_t rows = active_.waiting_rows();
  for (const auto& pipeline : beside_) rows += pipeline->waiting_rows();
  return rows;
}

}  // namespace weft::swarm
