#include "server/swarm_host.h"

#include <algorithm>

#include "base/log.h"
#include "base/secret.h"
#include "wire/version.h"

namespace weft::server {
namespace {

Slice EncodeControl(const wire::pb::ServerMessage& message) {
  std::vector<uint8_t> bytes(1 + message.ByteSizeLong());
  bytes[0] = wire::kControlByte;
  CHECK(message.SerializeToArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
  return Slice(std::move(bytes));
}

swarm::FinishRequest Failed(swarm::RequestId id, const Error& error) {
  return {.request = id, .reason = swarm::FinishReason::kError, .error = error};
}

// One handler for each kind of action.
template <typename... Handlers>
struct ByKind : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
ByKind(Handlers...) -> ByKind<Handlers...>;

}  // namespace

SwarmHost::SwarmHost(net::EventLoop& loop, TaskQueue& pool)
    : loop_(loop),
      pool_(pool),
      relay_(loop, {.send =
                        [this](swarm::WorkerId receiver, std::vector<Slice> pieces) {
                          const auto worker = workers_.find(receiver);
                          if (worker == workers_.end()) return;
                          for (const Slice& piece : pieces)
                            line_bytes_[receiver].sent += piece.byte_count();
                          worker->second.send(std::move(pieces));
                        },
                    .hold = [this](swarm::WorkerId sender, bool held) { HoldBack(sender, held); }}),
      timer_(loop) {}

void SwarmHost::BeginLeading(swarm::CoreOptions options) {
  CHECK(!core_ && !handling_);
  ++term_;
  placement_version_ = 0;
  core_ = std::make_unique<swarm::Core>(std::move(options));
}

void SwarmHost::EndLeading(const std::string& elsewhere) {
  CHECK(core_ && !handling_);
  core_.reset();
  ++term_;
  timer_.Cancel();
  armed_for_.reset();
  deferred_.clear();
  const auto workers = std::exchange(workers_, {});
  token_hashes_.clear();
  line_bytes_.clear();
  for (const auto& [worker, sink] : workers) {
    relay_.Forget(worker);
    if (sink.send_elsewhere)
      sink.send_elsewhere(elsewhere);
    else
      sink.close("another server leads");
  }
  EndAll(Error(ErrorCode::kUnavailable,
               "Another server leads this model now: send the request again."));
  read_at_cancel_.clear();
  if (on_swarm_changed_) on_swarm_changed_();
}

void SwarmHost::SetStandby(std::string sentence, bool leader_is_up) {
  const auto state = leader_is_up ? swarm::SwarmState::kUp : swarm::SwarmState::kDown;
  const bool is_same = standby_ == sentence && standby_state_ == state;
  standby_ = std::move(sentence);
  standby_state_ = state;
  if (is_same || core_) return;
  if (on_swarm_changed_) on_swarm_changed_();
}

swarm::WorkerId SwarmHost::AttachWorker(WorkerSink sink, const std::string& address,
                                        const std::string& network, bool trusted) {
  const swarm::WorkerId worker = next_worker_++;
  workers_.emplace(worker, std::move(sink));
  Handle(swarm::WorkerConnected{worker, address, network, trusted});
  return worker;
}

void SwarmHost::OnWorkerMessage(swarm::WorkerId worker, Slice message) {
  if (!workers_.contains(worker)) return;
  if (message.empty() || message.bytes()[0] != wire::kControlByte) {
    ++counters_.frames_received;
    counters_.bytes_received += message.byte_count();
    line_bytes_[worker].received += message.byte_count();
    return Handle(swarm::WorkerData{worker, std::move(message)});
  }
  swarm::WorkerControl event{worker, {}};
  const ByteSpan body = message.bytes().subspan(1);
  if (body.size() > wire::kMaxControlBytes ||
      !event.message.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    const auto found = workers_.find(worker);
    LogWarn("worker {}: a control message of {} bytes cannot be parsed", worker.value(),
            body.size());
    found->second.close("a control message could not be parsed");
    return DetachWorker(worker, "malformed control message");
  }
  if (event.message.has_connect() && !event.message.connect().join_token().empty())
    token_hashes_[worker] = HashSecret(event.message.connect().join_token());
  Handle(event);
}

swarm::Snapshot SwarmHost::snapshot() const {
  swarm::Snapshot snapshot;
  snapshot.message = standby_;
  snapshot.state = standby_state_;
  if (core_) snapshot = core_->snapshot(MonotonicNow());
  for (swarm::WorkerSnapshot& worker : snapshot.workers) {
    const auto line = line_bytes_.find(worker.id);
    if (line == line_bytes_.end()) continue;
    worker.bytes_sent = line->second.sent;
    worker.bytes_received = line->second.received;
  }
  return snapshot;
}

void SwarmHost::CloseWorkers(const FindReason& find_reason) {
  std::vector<std::pair<swarm::WorkerId, std::string>> closed;
  for (const auto& [worker, hash] : token_hashes_)
    if (auto reason = find_reason(hash)) closed.emplace_back(worker, std::move(*reason));
  for (const auto& [worker, reason] : closed) {
    const auto found = workers_.find(worker);
    if (found == workers_.end()) continue;
    LogInfo("worker {} closed: {}", worker.value(), reason);
    found->second.close(reason);
    DetachWorker(worker, reason);
  }
}

// The core is not told: it ends with them.
void SwarmHost::CloseAllWorkers(const std::string& reason) {
  const auto workers = std::exchange(workers_, {});
  for (const auto& [worker, sink] : workers) sink.close(reason);
}

void SwarmHost::DetachWorker(swarm::WorkerId worker, const std::string& reason) {
  token_hashes_.erase(worker);
  line_bytes_.erase(worker);
  if (workers_.erase(worker) == 0) return;
  relay_.Forget(worker);
  Handle(swarm::WorkerLost{worker, reason});
}

void SwarmHost::HoldBack(swarm::WorkerId worker, bool held) {
  const auto found = workers_.find(worker);
  if (found == workers_.end() || !found->second.set_reading) return;
  found->second.set_reading(!held);
  Handle(swarm::WorkerHeldBack{worker, held});
}

swarm::RequestId SwarmHost::Submit(swarm::Request request, RequestCallbacks callbacks) {
  request.id = next_request_++;
  const swarm::RequestId id = request.id;
  if (ended_with_) {
    callbacks.on_finish(Failed(id, *ended_with_));
    return id;
  }
  if (!core_) {
    callbacks.on_finish(Failed(id, Error(ErrorCode::kUnavailable, standby_)));
    return id;
  }
  if (on_request_finished_) {
    callbacks.on_finish = [this, client = request.client,
                           tell = std::move(callbacks.on_finish)](const swarm::FinishRequest& end) {
      CountFinished(client, end);
      tell(end);
    };
  }
  requests_.emplace(
      id, OpenRequest{std::move(callbacks), request.client, MonotonicNow(), std::nullopt});
  Handle(swarm::RequestSubmitted{std::move(request)});
  return id;
}

std::map<std::string, uint32_t> SwarmHost::OpenRequests() const {
  std::map<std::string, uint32_t> open;
  for (const auto& [id, request] : requests_) ++open[request.client];
  return open;
}

void SwarmHost::Cancel(swarm::RequestId request) {
  if (!requests_.contains(request)) return;
  if (on_request_finished_) {
    const auto seen = progress(request);
    read_at_cancel_[request] = seen ? seen->prompt_done : 0;
  }
  Handle(swarm::RequestCancelled{request});
}

// Nobody pays for what waited and was given up, or was lost.
void SwarmHost::CountFinished(const std::string& client, swarm::FinishRequest end) {
  uint32_t read = end.reason == swarm::FinishReason::kError ? 0 : end.prompt_tokens;
  const auto cancelled = read_at_cancel_.find(end.request);
  if (cancelled != read_at_cancel_.end()) {
    read = std::min(read, cancelled->second);
    read_at_cancel_.erase(cancelled);
  }
  end.prompt_tokens = read;
  end.cached_prompt_tokens = std::min(end.cached_prompt_tokens, read);
  on_request_finished_(client, end);
}

void SwarmHost::ForgetPrefix(const std::string& salt, const std::string& name) {
  Handle(swarm::PrefixForgotten{salt, name});
}

void SwarmHost::EndRequests(const Error& error) {
  ended_with_ = error;
  EndAll(error);
}

void SwarmHost::EndAll(const Error& error) {
  const auto open = std::exchange(requests_, {});
  for (const auto& [id, request] : open) request.callbacks.on_finish(Failed(id, error));
}

void SwarmHost::Handle(swarm::Event event) {
  if (!core_) return;
  deferred_.push_back(std::move(event));
  if (handling_) return;
  handling_ = true;
  const Instant begin = MonotonicNow();
  while (!deferred_.empty()) {
    const swarm::Event next = std::move(deferred_.front());
    deferred_.pop_front();
    std::vector<swarm::Action> actions = core_->Handle(next, MonotonicNow());
    for (swarm::Action& action : actions) CarryOut(action);
    ++counters_.events;
  }
  if (on_placement_changed_ && core_->placement_version() != placement_version_) {
    placement_version_ = core_->placement_version();
    on_placement_changed_(core_->placement());
  }
  ArmTimer();
  counters_.core_time = counters_.core_time + (MonotonicNow() - begin);
  handling_ = false;
}

void SwarmHost::CarryOut(swarm::Action& action) {
  std::visit(ByKind{
                 [&](swarm::SendControl& send) {
                   const auto worker = workers_.find(send.worker);
                   if (worker != workers_.end()) worker->second.send({EncodeControl(send.message)});
                 },
                 [&](swarm::SendData& send) { Send(send); },
                 [&](swarm::CloseWorker& close) {
                   const auto worker = workers_.find(close.worker);
                   if (worker == workers_.end()) return;
                   const WorkerSink sink = std::move(worker->second);
                   line_bytes_.erase(close.worker);
                   workers_.erase(worker);
                   token_hashes_.erase(close.worker);
                   relay_.Forget(close.worker);
                   LogInfo("worker {} closed: {}", close.worker.value(), close.reason);
                   sink.close(close.reason);
                   // The core forgets it with the same event as any lost worker.
                   Handle(swarm::WorkerLost{close.worker, close.reason});
                 },
                 [&](swarm::SetMessageLimit& limit) {
                   const auto worker = workers_.find(limit.worker);
                   if (worker != workers_.end() && worker->second.limit_messages)
                     worker->second.limit_messages(limit.bytes);
                 },
                 [&](swarm::EmitSession& session) {
                   const auto request = requests_.find(session.request);
                   if (request != requests_.end() && request->second.callbacks.on_session)
                     request->second.callbacks.on_session(session.trace);
                 },
                 [&](swarm::EmitToken& token) {
                   const auto request = requests_.find(token.request);
                   if (request != requests_.end()) TellToken(request->second, token);
                 },
                 [&](swarm::EmitLogits& logits) {
                   const auto request = requests_.find(logits.request);
                   if (request != requests_.end() && request->second.callbacks.on_logits) {
                     request->second.callbacks.on_logits(logits);
                   }
                 },
                 [&](swarm::FinishRequest& finish) {
                   const auto request = requests_.find(finish.request);
                   if (request == requests_.end()) return;
                   const RequestCallbacks callbacks = std::move(request->second.callbacks);
                   requests_.erase(request);
                   callbacks.on_finish(finish);
                 },
                 [&](swarm::StartPlanning& job) { Plan(job); },
                 [&](swarm::Warn& warning) { LogWarn("{}", warning.sentence); },
                 [&](swarm::CheckLayers& layers) { Check(layers); },
                 [&](swarm::SwarmChanged&) {
                   if (on_swarm_changed_) on_swarm_changed_();
                 },
             },
             action);
}

void SwarmHost::TellToken(OpenRequest& request, const swarm::EmitToken& token) {
  const Instant now = MonotonicNow();
  if (request.last_token)
    times_.between_tokens.Add(now - *request.last_token);
  else
    times_.first_token.Add(now - request.submitted);
  request.last_token = now;
  request.callbacks.on_token(token);
}

void SwarmHost::Send(swarm::SendData& send) {
  const auto worker = workers_.find(send.worker);
  if (worker == workers_.end()) return;
  ++counters_.frames_sent;
  uint64_t byte_count = 0;
  for (const Slice& piece : send.pieces) byte_count += piece.byte_count();
  counters_.bytes_sent += byte_count;
  if (send.sender != 0) return relay_.Pass(send.sender, send.worker, std::move(send.pieces));
  line_bytes_[send.worker].sent += byte_count;
  worker->second.send(std::move(send.pieces));
}

// The host may end while its plan is being made: only the loop is safe to touch then.
void SwarmHost::Plan(const swarm::StartPlanning& job) {
  pool_.Push(
      [this, &loop = loop_, alive = std::weak_ptr(alive_), planner = planner_, term = term_, job] {
        planner::PlanOutcome outcome = planner(job);
        loop.Post([this, alive, term, work = job.work, outcome = std::move(outcome)] {
          if (!alive.expired() && term == term_) Handle(swarm::PlanFound{work, outcome});
        });
      });
}

void SwarmHost::Check(const swarm::CheckLayers& layers) {
  checking_thread_.Push(
      [this, alive = std::weak_ptr(alive_), checker = layer_checker_, term = term_, layers] {
        swarm::LayersChecked checked{layers.first, layers.end, std::nullopt};
        if (checker) checked.problem = checker(layers.first, layers.end);
        loop_.Post([this, alive, term, checked = std::move(checked)] {
          if (alive.expired() || term != term_) return;
          if (checked.problem) LogError("{}", *checked.problem);
          Handle(checked);
        });
      });
}

// The core's next deadline moves with every step, nearly always later. Setting the timer anew each
// time would cost a system call a step, so it is left alone unless it must fire earlier; one that
// fires too early looks again.
void SwarmHost::ArmTimer() {
  const auto next = core_->next_timer();
  if (!next || (armed_for_ && *armed_for_ <= *next)) return;
  armed_for_ = next;
  const Duration delay = std::max(*next - MonotonicNow(), Microseconds(0));
  timer_.FireAfter(delay, [this] {
    armed_for_.reset();
    const auto due = core_->next_timer();
    if (due && *due <= MonotonicNow()) {
      Handle(swarm::TimerFired{});
    } else {
      ArmTimer();
    }
  });
}

}  // namespace weft::server
