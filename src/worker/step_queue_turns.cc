// What has its turn, and what came of it.
#include "worker/answers.h"
#include "worker/step_queue.h"

namespace weft::worker {

namespace pb = wire::pb;

void StepQueue::ComputeNext(const TakeInstall& take_install) {
  // Steps that were begun come before others.
  while (!out_.ended() && running_.empty()) {
    if (std::exchange(experts_turn_, false) && BeginExperts()) break;
    if (BeginResume()) break;
    const bool held_up = !waiting_.empty() && IsHeldUp(waiting_.front());
    if (held_up && AbandonStuckFor(waiting_.front())) continue;
    const bool others_wait = !waiting_.empty() && !held_up;
    const bool makes_tokens = generates_.IsNext(others_wait);
    if (!makes_tokens && !others_wait) {
      if (!BeginExperts()) BeginPrediction();
      break;
    }
    experts_turn_ = true;
    if (makes_tokens) {
      BeginBatch();
      continue;
    }
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    Begin(std::move(next), take_install);
  }
  while (MayBeginBehind()) {
    Work next = std::get<Work>(std::move(waiting_.front()));
    waiting_.pop_front();
    BeginWork(std::move(next));
  }
}

bool StepQueue::MayBeginBehind() const {
  if (running_.empty() || running_.size() >= steps_in_flight_ || waiting_.empty() || out_.ended())
    return false;
  const auto* work = std::get_if<Work>(&waiting_.front());
  const auto* step = work ? std::get_if<RunStep>(work) : nullptr;
  if (step == nullptr || IsHub(step->form) || experts_.has_dispatches() || generates_.IsNext(true))
    return false;
  const std::vector<wire::Run>& runs = step->frame.runs;
  return std::ranges::all_of(running_, [&runs](const Running& running) {
    return running.step && !running.place && std::ranges::none_of(runs, [&](const wire::Run& run) {
             return std::ranges::find(running.sessions, run.session) != running.sessions.end();
           });
  });
}

void StepQueue::Begin(Waiting waiting, const TakeInstall& take_install) {
  if (auto* message = std::get_if<pb::WorkerMessage>(&waiting)) {
    answers_.emplace_back();
    return AnswerStep(first_answer_ + answers_.size() - 1, SendControl{std::move(*message)});
  }
  if (auto* work = std::get_if<Work>(&waiting)) return BeginWork(std::move(*work));
  if (auto* generate = std::get_if<wire::Generate>(&waiting))
    return generates_.Join(std::move(*generate));
  auto& install = std::get<Install>(waiting);
  const uint32_t ticket = install.ticket;
  std::optional<Work> work = take_install(std::move(install));
  if (!work) return;  // retired while it waited
  generates_.Passed();
  running_.push_back({.install = ticket});
  out_.Do(Compute{*std::move(work)});
}

void StepQueue::BeginWork(Work work) {
  Running running;
  running.measures = std::holds_alternative<MeasureSpeed>(work);
  running.keeps =
      std::holds_alternative<KeepLayers>(work) || std::holds_alternative<ReleaseAll>(work);
  running.takes_stock = std::holds_alternative<TakeStock>(work);
  if (auto* step = std::get_if<RunStep>(&work)) {
    const wire::FrameHeader& header = step->frame.header;
    answers_.push_back({header.sequence, header.binding, header.stage});
    running.step = first_answer_ + answers_.size() - 1;
    for (const wire::Run& run : step->frame.runs) running.sessions.push_back(run.session);
    if (IsHub(step->form)) {
      Hub& hub = experts_.hub();
      running.place = step->place = hub.Begin(*running.step, step->frame.runs);
      step->predicts = hub.MayLose(step->place);
    }
  }
  if (running.step || running.measures) generates_.Passed();
  running_.push_back(std::move(running));
  out_.Do(Compute{std::move(work)});
}

void StepQueue::BeginBatch() {
  GenerateQueue::Batch batch = generates_.Take();
  for (const wire::Generate& generate : batch.unwanted)
    out_.SendBytes(
        wire::EncodeWholeFrame(wire::Tokens{generate.sequence, generate.binding, true, 0, {}}));
  if (batch.wanted.empty()) return;
  Running running;
  for (const wire::Generate& generate : batch.wanted)
    running.generates.emplace_back(generate.sequence, generate.binding);
  running_.push_back(std::move(running));
  out_.Do(Compute{MakeTokens{std::move(batch.wanted)}});
}

bool StepQueue::BeginExperts() {
  auto next = experts_.Next();
  if (!next) return false;
  Running running;
  running.experts_for = next->peer;
  running_.push_back(std::move(running));
  out_.Do(Compute{RunExperts{std::move(next->dispatches)}});
  return true;
}

void StepQueue::OnStepDone(const Running& ran, Result<Outcome> outcome) {
  Hub& hub = experts_.hub();
  if (outcome.ok())
    if (const auto* waits = std::get_if<StepWaits>(&*outcome)) {
      hub.Wait(out_.now(), *ran.place, *waits);
      return experts_.Carry();
    }
  if (ran.place && outcome.ok()) SayLosses(*ran.step, *ran.place);
  if (ran.place) hub.End(*ran.place);
  if (!outcome.ok()) return FailStep(*ran.step, outcome.error());
  AnswerStep(*ran.step, SendFrame{std::move(std::get<StepReply>(*outcome).message)});
}

void StepQueue::AnswerStep(uint64_t number, Action answer) {
  answers_.at(number - first_answer_).answer = std::move(answer);
  while (!answers_.empty() && answers_.front().answer) {
    if (answers_.front().before) out_.Send(*std::move(answers_.front().before));
    out_.DoIfConnected(*std::move(answers_.front().answer));
    answers_.pop_front();
    ++first_answer_;
  }
}

void StepQueue::FailStep(uint64_t number, const Error& error) {
  const Answer& step = answers_.at(number - first_answer_);
  AnswerStep(number,
             SendControl{StepFailedMessage(step.sequence, step.binding, step.stage, error)});
}

void StepQueue::OnMadeTokens(const Running& ran, Result<Outcome> outcome) {
  if (!outcome.ok()) {
    for (const auto& [sequence, binding] : ran.generates) {
      out_.Send(StepFailedMessage(sequence, binding, 0, outcome.error()));
      generates_.End(sequence);
    }
    return;
  }
  for (MadeOfOne& made : std::get<MadeTokens>(*outcome).of_each) {
    const uint32_t sequence = made.tokens.sequence;
    if (generates_.IsStopped(sequence)) made.tokens.last = true;
    const bool goes_on = !made.error && !made.tokens.last;
    if (made.error)
      out_.Send(StepFailedMessage(sequence, made.tokens.binding, 0, *made.error));
    else
      out_.SendBytes(wire::EncodeWholeFrame(std::move(made.tokens)));
    if (goes_on)
      generates_.GoOn(std::move(made.rest));
    else
      generates_.End(sequence);
  }
}

}  // namespace weft::worker
