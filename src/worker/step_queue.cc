// What comes into the queue, and what leaves it when the connection breaks.
#include "worker/step_queue.h"

#include "base/check.h"
#include "worker/answers.h"

namespace weft::worker {

namespace pb = wire::pb;

namespace {

bool Unloads(const Work& work) {
  return std::holds_alternative<KeepLayers>(work) || std::holds_alternative<ReleaseAll>(work);
}

// What leaves less behind, whoever asked for it.
bool Forgets(const Work& work) {
  return Unloads(work) || std::holds_alternative<ReleaseSessions>(work) ||
         std::holds_alternative<AbandonSteps>(work);
}

}  // namespace

void StepQueue::Begin(uint32_t layer_count, uint32_t places) {
  layer_count_ = layer_count;
  generates_.Begin(places);
}

Result<StageTable::Binding> StepQueue::BindingFor(const wire::Frame& frame) {
  const StageTable::Binding* binding = stages_.ToRun(frame.header.binding, frame.header.stage);
  if (frame.header.type != wire::FrameType::kStep || binding == nullptr)
    return Error(ErrorCode::kInvalidArgument,
                 "Stage " + std::to_string(frame.header.stage) + " of binding " +
                     std::to_string(frame.header.binding) + " is not prepared on this worker.");
  TRY(sessions_.TakeRuns(frame.runs));
  return *binding;
}

void StepQueue::OnFrame(const Slice& message) {
  auto frame = wire::DecodeFrame(message);
  if (!frame.ok()) return out_.Finish(std::move(frame).error());
  const auto binding = BindingFor(*frame);
  if (binding.ok())
    return Push(RunStep{std::move(*frame), binding->layers, out_.now(), binding->form});
  SayInOrder(StepFailedMessage(frame->header.sequence, frame->header.binding, frame->header.stage,
                               binding.error()));
}

// A fork that cannot be made is not answered: the next step of its session does not continue what
// is held, and says so.
void StepQueue::OnFork(const wire::Fork& fork) {
  const StageTable::Binding* binding = stages_.ToRun(fork.binding, fork.stage);
  if (binding == nullptr || !sessions_.Take(fork.session, fork.position_count).ok()) return;
  Push(ForkSession{binding->layers,
                   {fork.from, fork.session, fork.generation, fork.position_count},
                   binding->form});
}

void StepQueue::OnGenerate(wire::Generate generate, bool is_member) {
  const StageTable::Binding* binding = stages_.ToRun(generate.binding, 0);
  Status status = OkStatus();
  if (!is_member || binding == nullptr || IsHub(binding->form) || binding->layers.first != 0 ||
      binding->layers.end != layer_count_)
    status = Error(ErrorCode::kInvalidArgument, "The whole model of binding " +
                                                    std::to_string(generate.binding) +
                                                    " is not prepared on this worker.");
  else
    status = sessions_.Take(generate.session, uint64_t{generate.position} + generate.count);
  if (!status.ok())
    return SayInOrder(StepFailedMessage(generate.sequence, generate.binding, 0, status.error()));
  generates_.Add(generate);
  waiting_.push_back(std::move(generate));
}

// Generates go on between other work, and would be found without their session or their layers.
void StepQueue::StopOver() {
  generates_.StopWhere([this](uint32_t session, uint32_t binding) {
    return !sessions_.Has(session) || !stages_.Has(binding);
  });
}

void StepQueue::Invalidate(const pb::InvalidateSessions& message) {
  ReleaseSessions release;
  for (const uint32_t session : message.sessions()) {
    sessions_.Forget(session);
    release.sessions.push_back(session);
  }
  StopOver();
  Push(std::move(release));
}

void StepQueue::ForgetSessions() {
  sessions_.Clear();
  StopOver();
}

void StepQueue::Push(Work work) {
  if (Unloads(work)) ++unloads_waiting_;
  waiting_.push_back(std::move(work));
}

void StepQueue::PushFront(Work work) {
  if (Unloads(work)) ++unloads_waiting_;
  waiting_.push_front(std::move(work));
}

bool StepQueue::DropInstalls() {
  return std::erase_if(waiting_, [](const Waiting& waiting) {
           return std::holds_alternative<Install>(waiting);
         }) > 0;
}

bool StepQueue::IsIdle() const {
  return running_.empty() && waiting_.empty() && !generates_.has_joined() &&
         !experts_.has_dispatches() && experts_.hub().IsIdle();
}

// Steps that wait came before whatever has dropped their binding since, and are still computed.
void StepQueue::AddNeeded(KeepLayers* keep) const {
  bool generates = generates_.has_joined();
  for (const Waiting& each : waiting_) {
    const auto* work = std::get_if<Work>(&each);
    if (const auto* step = work ? std::get_if<RunStep>(work) : nullptr)
      (IsHub(step->form) ? keep->hubs : keep->ranges).push_back(step->layers);
    generates = generates || std::holds_alternative<wire::Generate>(each);
  }
  if (generates) keep->ranges.push_back({0, layer_count_});
}

StepQueue::Running StepQueue::Ended() {
  CHECK(!running_.empty());
  Running ran = std::move(running_.front());
  running_.pop_front();
  if (ran.keeps) --unloads_waiting_;
  return ran;
}

void StepQueue::OnConnectionLost() {
  generates_.Clear();
  first_answer_ += answers_.size();
  answers_.clear();
  std::erase_if(waiting_, [](const Waiting& waiting) {
    const auto* work = std::get_if<Work>(&waiting);
    return work == nullptr || !Forgets(*work);
  });
  ForgetHub();
  for (Running& running : running_) running.unanswered = true;
}

}  // namespace weft::worker
