#include "worker/hub.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "dispatch/holder_statement.h"

namespace weft::worker {

bool Hub::CanBegin(std::span<const wire::Run> runs) const {
  const bool has_place = std::any_of(steps_.begin(), steps_.end(),
                                     [](const Step& step) { return step.phase == Phase::kFree; });
  return has_place && std::none_of(runs.begin(), runs.end(),
                                   [this](const wire::Run& run) { return Uses(run.session); });
}

bool Hub::Uses(uint32_t session) const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [session](const Step& step) { return step.sessions.contains(session); });
}

bool Hub::IsIdle() const {
  return std::all_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.phase == Phase::kFree; });
}

uint32_t Hub::Begin(uint64_t number, std::span<const wire::Run> runs) {
  const auto step = std::find_if(steps_.begin(), steps_.end(),
                                 [](const Step& each) { return each.phase == Phase::kFree; });
  CHECK(step != steps_.end());
  step->phase = Phase::kComputes;
  step->number = number;
  for (const wire::Run& run : runs) {
    step->sessions.insert(run.session);
    step->row_sessions.push_back(run.session);
  }
  // A chunk of a prompt may be one row, as a token is, but it asks for nothing.
  const auto gives_token = [](const wire::Run& run) {
    return run.count == 1 && run.output != wire::OutputKind::kNone;
  };
  if (!std::all_of(runs.begin(), runs.end(), gives_token)) step->row_sessions.clear();
  return static_cast<uint32_t>(step - steps_.begin());
}

void Hub::Wait(Instant now, uint32_t place, const StepWaits& waits) {
  CHECK(steps_[place].phase == Phase::kComputes);
  steps_[place].phase = Phase::kWaits;
  if (!IsShared(waits.kind)) stats_.NoteRoutes(waits.layer, waits.experts);
  std::map<uint32_t, double> lines;
  for (const uint32_t holder : senders_)
    if (channels_.StateOf(holder) == dispatch::ChannelState::kReady)
      lines[holder] = channels_.LossOf(holder);
  dispatcher_.SetLines(std::move(lines));
  const bool may_lose =
      lossy_ && waits.rows.size() == steps_[place].row_sessions.size() * waits.columns;
  steps_[place].predicts = may_lose && waits.kind == SlotKind::kSums;
  Apply(now, dispatcher_.Begin(now, place,
                               {waits.layer, waits.top_k, waits.columns, waits.rows, waits.experts,
                                waits.kind, may_lose, waits.norms, waits.largest_slot,
                                waits.range_columns, waits.slot_step, waits.in_integers}));
}

std::optional<ResumeStep> Hub::Next() {
  for (uint32_t place = 0; place < steps_.size(); ++place) {
    Step& step = steps_[place];
    if (step.phase != Phase::kReady) continue;
    step.phase = Phase::kComputes;
    return ResumeStep{place, std::exchange(step.slot_rows, {})};
  }
  return std::nullopt;
}

std::optional<uint32_t> Hub::TakePrediction() {
  for (uint32_t place = 0; place < steps_.size(); ++place)
    if (steps_[place].phase == Phase::kWaits && std::exchange(steps_[place].predicts, false))
      return place;
  return std::nullopt;
}

uint64_t Hub::End(uint32_t place) {
  CHECK(steps_[place].phase == Phase::kComputes);
  return std::exchange(steps_[place], {}).number;
}

std::vector<Hub::Abandoned> Hub::AbandonStuck(Instant now) {
  std::vector<Abandoned> abandoned;
  for (uint32_t place = 0; place < steps_.size(); ++place) {
    if (steps_[place].phase != Phase::kWaits || !dispatcher_.IsMissing(place)) continue;
    Apply(now, dispatcher_.Abandon(now, place));
    abandoned.push_back({place, std::exchange(steps_[place], {}).number});
  }
  return abandoned;
}

Status Hub::SetHolders(Instant now, const wire::pb::ExpertHolders& statement,
                       uint32_t layer_count) {
  ASSIGN_OR_RETURN(std::vector<dispatch::Holder> holders,
                   dispatch::HoldersOf(statement, layer_count));
  self_ = statement.self();
  lossy_ = statement.has_losses();
  senders_.clear();
  std::map<uint32_t, bool> channels;
  for (const auto& named : statement.holders()) {
    if (named.peer() == self_) continue;
    if (lossy_ && named.datagrams()) senders_.push_back(named.peer());
    // Sums that may be lost have datagrams of their own beside messages.
    if (lossy_ ? named.datagrams() : named.messages()) channels[named.peer()] = named.messages();
  }
  channels_.SetHolders(now, channels);
  std::map<uint16_t, std::vector<float>> norms;
  for (const auto& layer : statement.losses().norms())
    norms[static_cast<uint16_t>(layer.layer())] = {layer.norms().begin(), layer.norms().end()};
  dispatcher_.SetLosses(statement.losses().limit(), std::move(norms));
  dispatcher_.FixCopies(statement.copies());
  dispatcher_.SetRowType(statement.half_rows() ? wire::RowType::kF16 : wire::RowType::kF32);
  stats_.SetInterval(Milliseconds(statement.stats_ms()));
  stats_.Collect(dispatcher_);
  Apply(now, dispatcher_.SetHolders(now, statement.statement(), std::move(holders)));
  stats_.DropWhoIsGone(dispatcher_);
  return OkStatus();
}

void Hub::Hear(Instant now, uint32_t holder, std::span<const wire::ExpertFrame> frames,
               std::optional<Instant> came) {
  const auto times = dispatch::Dispatcher::TimesOf(frames, came);
  for (const wire::ExpertFrame& frame : frames) {
    if (frame.type == wire::ExpertFrameType::kResult)
      Apply(now, dispatcher_.OnResult(now, holder, frame, times));
    else if (frame.type == wire::ExpertFrameType::kHeartbeat)
      Apply(now, dispatcher_.OnHeartbeat(now, holder, wire::ReadHeartbeat(frame)));
    else if (frame.type == wire::ExpertFrameType::kReady)
      channels_.OnReady(now, holder, wire::ReadReady(frame));
  }
}

void Hub::OnMalformed(Instant now, uint32_t holder, const std::string& sentence) {
  Apply(now, dispatcher_.OnMalformed(now, holder, sentence));
}

dispatch::HolderChannels::Heard Hub::OnDatagram(Instant now, const DatagramAddress& from,
                                                ByteSpan datagram) {
  auto heard = channels_.OnDatagram(now, from, datagram);
  if (!heard) return {};
  if (heard->type == wire::DatagramType::kSums)
    Apply(now, dispatcher_.OnSums(now, heard->holder, heard->body));
  else if (heard->type == wire::DatagramType::kSent)
    Apply(now, dispatcher_.OnSent(now, heard->holder, heard->body));
  return std::move(*heard);
}

void Hub::OnTimer(Instant now) {
  channels_.OnTimer(now);
  Apply(now, dispatcher_.OnTimer(now));
}

void Hub::Clear() {
  *this = Hub(options_, channel_options_);
}

std::vector<dispatch::Send> Hub::TakeSends(Instant now) {
  for (const uint32_t holder : channels_.TakeBroken(now))
    Apply(now, dispatcher_.AskAgain(now, holder));
  std::vector<dispatch::Send> others;
  for (dispatch::Send& send : std::exchange(sends_, {})) {
    const auto pieces = wire::EncodeShardMessage(send.holder, send.frames);
    if (channels_.HasRoomFor(send.holder, wire::ByteCount(pieces)))
      channels_.Send(now, send.holder, wire::Joined(pieces));
    else
      others.push_back(std::move(send));
  }
  for (const auto& [holder, channel] : channels_.TakeAgreements())
    others.push_back({holder, {wire::ChannelFrame(channel)}});
  return others;
}

std::optional<Instant> Hub::timer() const {
  const std::optional<Instant> retry = channels_.timer();
  return timer_ && retry ? std::min(*timer_, *retry) : timer_ ? timer_ : retry;
}

std::optional<wire::pb::LossReport> Hub::Report(Instant now) const {
  if (!lossy_) return std::nullopt;
  wire::pb::LossReport report;
  const dispatch::LossGuard& guard = dispatcher_.guard();
  for (const uint32_t holder : senders_) {
    auto& line = *report.add_lines();
    line.set_peer(holder);
    line.set_ready(channels_.StateOf(holder) == dispatch::ChannelState::kReady);
    line.set_blocked(channels_.StateOf(holder) == dispatch::ChannelState::kBlocked);
    line.set_loss(channels_.LossOf(holder));
  }
  report.set_reliable(!guard.MayLose(now));
  report.set_groups(dispatcher_.losses().groups);
  report.set_lost(dispatcher_.losses().lost);
  report.set_share(guard.share());
  report.set_falls(guard.falls());
  report.set_fell_at(guard.fell_at());
  report.set_datagrams(channels_.accepted());
  for (size_t fault = 0; fault < wire::kDatagramFaults; ++fault)
    report.add_dropped(channels_.faults(static_cast<wire::DatagramFault>(fault)));
  for (const uint64_t fragments : dispatcher_.losses().fragments) report.add_fragments(fragments);
  report.set_late(dispatcher_.losses().late);
  report.set_canaries(dispatcher_.losses().canaries);
  report.set_drift(dispatcher_.losses().drift);
  return report;
}

void Hub::Apply(Instant now, dispatch::Actions actions) {
  timer_ = actions.timer;
  std::move(actions.sends.begin(), actions.sends.end(), std::back_inserter(sends_));
  for (dispatch::Done& done : actions.done) {
    CHECK(steps_[done.batch].phase == Phase::kWaits);
    steps_[done.batch].phase = Phase::kReady;
    Step& step = steps_[done.batch];
    step.slot_rows = std::move(done.slot_rows);
    for (size_t row = 0; row < done.lost.size(); ++row)
      if (done.lost[row] > 0) step.lost[step.row_sessions[row]] += done.lost[row];
  }
  for (const uint32_t holder : actions.doubted) channels_.Doubt(now, holder);
  const dispatch::LossGuard& guard = dispatcher_.guard();
  if (guard.falls() == std::exchange(told_falls_, guard.falls())) return;
  LogWarn(
      "{:.1f}% of the neuron groups' weight was lost, at most {:.1f}% may be: for {:.0f} s "
      "nothing may be lost",
      100 * guard.fell_at(), 100 * guard.limit(), dispatch::LossGuard::kReliable.seconds());
}

}  // namespace weft::worker
