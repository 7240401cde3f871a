#include "server/linked_requests.h"

#include <algorithm>
#include <utility>

#include "server/request_message.h"

namespace weft::server {
namespace {

namespace pb = wire::pb;

// How often it is looked whether the cell is up, and how far prompts are.
constexpr Duration kLinkLookInterval = Milliseconds(250);
// Answers with a key stay so long after their end.
constexpr Duration kKeepsEnded = Seconds(60);
constexpr size_t kMostKeyed = 1024;  // with a key, those that run included

void AddLeadsNoMore(uint64_t number, pb::RequestMessage& message) {
  pb::RequestEvent& event = *message.mutable_events()->add_requests();
  event.set_number(number);
  event.mutable_end()->set_reason(pb::RequestEnd::LEADS_NO_MORE);
}

swarm::FinishRequest Failed(const Error& error) {
  swarm::FinishRequest end;
  end.reason = swarm::FinishReason::kError;
  end.error = error;
  return end;
}

Error BadMessage(const std::string& what) {
  return Error(ErrorCode::kInvalidData, "A server that asks for answers " + what + ".");
}

}  // namespace

LinkedRequests::LinkedRequests(net::EventLoop& loop, Generator& core,
                               ConstraintCache::Compile compile)
    : loop_(loop), core_(core), look_timer_(loop), constraints_(loop, std::move(compile)) {}

LinkedRequests::~LinkedRequests() = default;

PeerId LinkedRequests::Attach(RequestChannel& channel) {
  const PeerId peer = last_peer_ = last_peer_.Next();
  peers_[peer].channel = &channel;
  TellReadiness(peers_[peer], Readiness());
  if (!std::exchange(looks_, true)) Look();
  return peer;
}

Status LinkedRequests::OnMessage(PeerId id, pb::RequestMessage message) {
  const auto peer = peers_.find(id);
  if (peer == peers_.end()) return OkStatus();
  switch (message.kind_case()) {
    case pb::RequestMessage::kSubmit:
      return OnSubmit(id, std::move(*message.mutable_submit()));
    case pb::RequestMessage::kCancel:
      OnCancel(peer->second, message.cancel().number());
      return OkStatus();
    case pb::RequestMessage::kForget:
      core_.ForgetPrefix(message.forget().salt(), message.forget().name());
      return OkStatus();
    default:
      return BadMessage("sent a message that is none of a gateway's");
  }
}

Status LinkedRequests::OnSubmit(PeerId id, pb::SubmitRequest message) {
  Peer& peer = peers_.at(id);
  const uint64_t number = message.number();
  if (number <= peer.last_number)
    return BadMessage("submits number " + std::to_string(number) + " behind " +
                      std::to_string(peer.last_number) + "; expected a higher one");
  ASSIGN_OR_RETURN(SubmittedRequest submitted, ReadSubmit(std::move(message)));
  peer.last_number = number;
  if (has_stopped_) {
    pb::RequestMessage no_more;
    AddLeadsNoMore(number, no_more);
    peer.channel->Send(std::move(no_more));
    return OkStatus();
  }
  swarm::Request& request = submitted.request;
  if (GoOn(id, number, request)) return OkStatus();
  const auto answer = std::make_shared<Answer>();
  answer->peer = id;
  answer->number = number;
  answer->want_logprobs = request.want_logprobs;
  peer.answers[number] = answer;
  SendLater(*answer);  // that it has been received
  Keep(answer, request);
  if (submitted.constraint_source.empty()) {
    Begin(answer, std::move(request));
    return OkStatus();
  }
  constraints_.Make(std::move(submitted.constraint_source),
                    [this, answer, request](Result<ConstraintCache::Constraint> made) mutable {
                      if (answer->is_cancelled) return;
                      if (!made.ok()) return End(answer, Failed(made.error()));
                      request.constraint = std::move(made).value();
                      Begin(answer, std::move(request));
                    });
  return OkStatus();
}

// By its key, where it has one that nobody listens for. Rows are too large to be kept.
void LinkedRequests::Keep(const AnswerPtr& answer, const swarm::Request& request) {
  if (request.key.empty() || request.wants_rows()) return;
  const auto known = keyed_.find(request.key);
  if (known == keyed_.end() && keyed_.size() >= kMostKeyed) return;
  if (known != keyed_.end()) {
    if (known->second->peer.is_set()) return;
    Cancel(known->second);
  }
  answer->key = request.key;
  for (const int32_t id : request.answer_ids) {
    swarm::EmitToken& token = answer->tokens.emplace_back();
    token.index = static_cast<uint32_t>(answer->tokens.size()) - 1;
    token.token_id = id;
  }
  answer->told = answer->tokens.size();
  answer->known = answer->told;
  keyed_[request.key] = answer;
}

// An answer goes on to somebody else where nobody listens any more, and what it has so far begins
// as whoever asks knows it.
bool LinkedRequests::GoOn(PeerId peer, uint64_t number, const swarm::Request& request) {
  if (request.key.empty() || request.wants_rows()) return false;
  const auto found = keyed_.find(request.key);
  if (found == keyed_.end()) return false;
  Answer& answer = *found->second;
  const std::vector<int32_t>& known = request.answer_ids;
  if (answer.peer.is_set() || answer.is_cancelled || (answer.end && answer.end->error))
    return false;
  const bool has_all = !request.want_logprobs || known.size() >= answer.known;
  if (known.size() > answer.tokens.size() || !has_all) return false;
  const bool is_same =
      std::equal(known.begin(), known.end(), answer.tokens.begin(),
                 [](int32_t id, const auto& token) { return id == token.token_id; });
  if (!is_same) return false;
  answer.peer = peer;
  answer.number = number;
  answer.told = known.size();
  answer.tells_accepted = answer.is_accepted;
  answer.tells_received = true;
  answer.told_progress.reset();
  peers_.at(peer).answers[number] = found->second;
  SendLater(answer);
  return true;
}

void LinkedRequests::Begin(const AnswerPtr& answer, swarm::Request request) {
  RequestCallbacks callbacks;
  const auto on = [this, answer, alive = std::weak_ptr(alive_)](auto&& take) {
    return [this, answer, alive, take](const auto& event) {
      if (!alive.expired()) take(this, answer, event);
    };
  };
  callbacks.on_session = on([](LinkedRequests* self, const AnswerPtr& to, const auto& trace) {
    to->trace = trace;
    self->SendLater(*to);
  });
  callbacks.on_token = on([](LinkedRequests* self, const AnswerPtr& to, const auto& token) {
    to->has_begun = true;
    to->tokens.push_back(token);
    self->SendLater(*to);
  });
  callbacks.on_logits = on([](LinkedRequests* self, const AnswerPtr& to, const auto& rows) {
    to->has_begun = true;
    if (!to->peer.is_set()) return;
    AddRows(rows, kMessageBytes, to->rows);
    self->SendLater(*to);
  });
  callbacks.on_finish =
      on([](LinkedRequests* self, const AnswerPtr& to, const auto& end) { self->End(to, end); });
  const swarm::RequestId id = core_.Submit(std::move(request), std::move(callbacks));
  if (answer->end) return;
  answer->id = id;
  answer->is_accepted = answer->tells_accepted = true;
  SendLater(*answer);
}

void LinkedRequests::End(const AnswerPtr& answer, const swarm::FinishRequest& end) {
  answer->id = swarm::RequestId();
  answer->end = end;
  answer->ended_at = MonotonicNow();
  SendLater(*answer);
}

void LinkedRequests::OnCancel(Peer& peer, uint64_t number) {
  const auto found = peer.answers.find(number);
  if (found == peer.answers.end()) return;
  Cancel(AnswerPtr(found->second));
}

void LinkedRequests::Cancel(const AnswerPtr& answer) {
  if (std::exchange(answer->is_cancelled, true) || answer->end) return;
  if (answer->id.is_set()) return core_.Cancel(answer->id);
  swarm::FinishRequest end;
  end.reason = swarm::FinishReason::kCancelled;
  End(answer, end);
}

void LinkedRequests::Detach(PeerId id) {
  const auto peer = peers_.find(id);
  if (peer == peers_.end()) return;
  const std::map<uint64_t, AnswerPtr> answers = std::move(peer->second.answers);
  peers_.erase(peer);
  // One that is cancelled lets the next one begin, which says so at once.
  for (const auto& [number, answer] : answers) answer->peer = PeerId();
  for (const auto& [number, answer] : answers)
    if (answer->key.empty()) Cancel(answer);
}

void LinkedRequests::StopLeading() {
  has_stopped_ = true;
  keyed_.clear();
  for (auto& [id, peer] : peers_) {
    pb::RequestMessage message;
    const std::map<uint64_t, AnswerPtr> answers = std::exchange(peer.answers, {});
    peer.waiting.clear();
    for (const auto& [number, answer] : answers) {
      answer->peer = PeerId();
      AddLeadsNoMore(number, message);
    }
    if (message.has_events()) peer.channel->Send(std::move(message));
    for (const auto& [number, answer] : answers) Cancel(answer);
  }
}

void LinkedRequests::OnDrained(PeerId id) {
  const auto peer = peers_.find(id);
  if (peer != peers_.end()) Flush(peer->second);
}

void LinkedRequests::SendLater(const Answer& answer) {
  if (!answer.peer.is_set()) return;
  peers_.at(answer.peer).waiting.insert(answer.number);
  if (std::exchange(is_flush_posted_, true)) return;
  loop_.Post([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) Flush();
  });
}

void LinkedRequests::Flush() {
  is_flush_posted_ = false;
  for (auto& [id, peer] : peers_) Flush(peer);
}

void LinkedRequests::Flush(Peer& peer) {
  while (!peer.waiting.empty() && !peer.channel->is_full()) {
    pb::RequestMessage message;
    size_t bytes = 0;
    while (!peer.waiting.empty() && bytes < kMessageBytes) {
      const uint64_t number = *peer.waiting.begin();
      Answer& answer = *peer.answers.at(number);
      pb::RequestEvent& event = *message.mutable_events()->add_requests();
      Fill(answer, event);
      bytes += event.ByteSizeLong();
      if (!answer.rows.empty()) continue;
      peer.waiting.erase(number);
      if (!event.has_end()) continue;
      answer.peer = PeerId();
      peer.answers.erase(number);
    }
    peer.channel->Send(std::move(message));
  }
}

// Of rows one piece at a time; what follows them waits until all are on their way.
void LinkedRequests::Fill(Answer& answer, pb::RequestEvent& event) {
  event.set_number(answer.number);
  event.set_received(std::exchange(answer.tells_received, false));
  event.set_accepted(std::exchange(answer.tells_accepted, false));
  if (answer.progress && answer.progress != answer.told_progress) {
    *event.mutable_progress() = ToMessage(*answer.progress);
    answer.told_progress = answer.progress;
  }
  if (answer.trace && answer.trace != answer.told_trace) {
    *event.mutable_session() = ToMessage(*answer.trace);
    answer.told_trace = answer.trace;
  }
  for (; answer.told < answer.tokens.size(); ++answer.told)
    AddToken(answer.tokens[answer.told], event);
  if (answer.key.empty()) {
    answer.tokens.clear();
    answer.told = 0;
  }
  if (!answer.rows.empty()) {
    *event.add_rows() = std::move(answer.rows.front());
    answer.rows.pop_front();
  }
  if (answer.rows.empty() && answer.end) *event.mutable_end() = ToMessage(*answer.end);
}

pb::CellReadiness LinkedRequests::Readiness() const {
  pb::CellReadiness readiness;
  readiness.set_up(core_.is_up());
  // While it is up nobody asks, and the answers cost a picture of the swarm.
  if (readiness.up()) return readiness;
  readiness.set_loading(core_.is_loading());
  if (const auto percent = core_.loading_percent()) readiness.set_loading_percent(*percent);
  readiness.set_message(core_.message());
  return readiness;
}

void LinkedRequests::Look() {
  looks_ = !peers_.empty() || !keyed_.empty();
  if (!looks_) return;
  ForgetEnded(MonotonicNow());
  const pb::CellReadiness readiness = Readiness();
  for (auto& [id, peer] : peers_) {
    TellReadiness(peer, readiness);
    for (const auto& [number, answer] : peer.answers) LookAt(*answer);
  }
  look_timer_.FireAfter(kLinkLookInterval, [this] { Look(); });
}

void LinkedRequests::TellReadiness(Peer& peer, const pb::CellReadiness& readiness) {
  std::string bytes = readiness.SerializeAsString() + ".";  // never empty
  if (bytes == peer.told_readiness) return;
  peer.told_readiness = std::move(bytes);
  pb::RequestMessage message;
  *message.mutable_readiness() = readiness;
  peer.channel->Send(std::move(message));
}

void LinkedRequests::LookAt(Answer& answer) {
  if (answer.has_begun || !answer.id.is_set()) return;
  answer.progress = core_.progress(answer.id);
  if (answer.progress != answer.told_progress) SendLater(answer);
}

void LinkedRequests::ForgetEnded(Instant now) {
  std::erase_if(keyed_, [now](const auto& each) {
    const Answer& answer = *each.second;
    return answer.end && !answer.peer.is_set() && now - answer.ended_at >= kKeepsEnded;
  });
}

}  // namespace weft::server
