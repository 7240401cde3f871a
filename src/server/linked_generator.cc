#include "server/linked_generator.h"

#include <utility>

#include "server/request_message.h"

namespace weft::server {

swarm::RequestId LinkedGenerator::Submit(swarm::Request request, RequestCallbacks callbacks) {
  const uint64_t number = ++last_number_;
  wire::pb::RequestMessage message;
  FillSubmit(request, number, *message.mutable_submit());
  if (request.constraint != nullptr && message.submit().constraint().empty()) {
    swarm::FinishRequest end;
    end.request = swarm::RequestId(number);
    end.reason = swarm::FinishReason::kError;
    end.error = Error(ErrorCode::kUnsupported,
                      "What this answer has to be is known to one server alone, and another one "
                      "leads the model's devices now.");
    callbacks.on_finish(end);
    return end.request;
  }
  open_[number].callbacks = std::move(callbacks);
  channel_.Send(std::move(message));
  return swarm::RequestId(number);
}

void LinkedGenerator::Cancel(swarm::RequestId request) {
  if (!open_.contains(request.value())) return;
  wire::pb::RequestMessage message;
  message.mutable_cancel()->set_number(request.value());
  channel_.Send(std::move(message));
}

void LinkedGenerator::ForgetPrefix(const std::string& salt, const std::string& name) {
  wire::pb::RequestMessage message;
  message.mutable_forget()->set_salt(salt);
  message.mutable_forget()->set_name(name);
  channel_.Send(std::move(message));
}

bool LinkedGenerator::has_received(swarm::RequestId request) const {
  const auto found = open_.find(request.value());
  return found == open_.end() || found->second.is_received;
}

bool LinkedGenerator::has_accepted(swarm::RequestId request) const {
  const auto found = open_.find(request.value());
  return found != open_.end() && found->second.is_accepted;
}

std::optional<uint32_t> LinkedGenerator::loading_percent() const {
  if (!readiness_.has_loading_percent()) return std::nullopt;
  return readiness_.loading_percent();
}

std::optional<swarm::RequestProgress> LinkedGenerator::progress(swarm::RequestId request) const {
  const auto found = open_.find(request.value());
  return found == open_.end() ? std::nullopt : found->second.progress;
}

Status LinkedGenerator::OnMessage(const wire::pb::RequestMessage& message) {
  if (message.has_readiness()) {
    readiness_ = message.readiness();
    return OkStatus();
  }
  if (!message.has_events())
    return Error(ErrorCode::kInvalidData,
                 "A server that leads a cell sent a message that is none of a leader's.");
  for (const wire::pb::RequestEvent& event : message.events().requests()) TRY(OnEvent(event));
  return OkStatus();
}

// Each callback may cancel the request, or end it: it is looked up again before the next one.
Status LinkedGenerator::OnEvent(const wire::pb::RequestEvent& event) {
  const uint64_t number = event.number();
  const auto found = open_.find(number);
  if (found == open_.end()) return OkStatus();
  found->second.is_received = true;
  if (event.has_progress()) found->second.progress = FromMessage(event.progress());
  if (event.accepted() && !std::exchange(found->second.is_accepted, true) &&
      found->second.callbacks.on_accepted)
    found->second.callbacks.on_accepted();
  if (event.has_session()) {
    const auto open = open_.find(number);
    if (open != open_.end() && open->second.callbacks.on_session)
      open->second.callbacks.on_session(FromMessage(event.session()));
  }
  TRY(TakeTokens(number, event));
  TRY(TakeRows(number, event));
  if (event.has_end()) TakeEnd(number, event.end());
  return OkStatus();
}

Status LinkedGenerator::TakeTokens(uint64_t number, const wire::pb::RequestEvent& event) {
  ASSIGN_OR_RETURN(const std::vector<swarm::EmitToken> tokens, ReadTokens(event));
  for (const swarm::EmitToken& token : tokens) {
    const auto open = open_.find(number);
    if (open == open_.end()) return OkStatus();
    open->second.callbacks.on_token(token);
  }
  return OkStatus();
}

Status LinkedGenerator::TakeRows(uint64_t number, const wire::pb::RequestEvent& event) {
  for (const auto& piece : event.rows()) {
    ASSIGN_OR_RETURN(const swarm::EmitLogits rows, ReadRows(piece));
    const auto open = open_.find(number);
    if (open == open_.end() || !open->second.callbacks.on_logits) return OkStatus();
    open->second.callbacks.on_logits(rows);
  }
  return OkStatus();
}

void LinkedGenerator::TakeEnd(uint64_t number, const wire::pb::RequestEnd& end) {
  const auto open = open_.find(number);
  if (open == open_.end()) return;
  const RequestCallbacks callbacks = std::move(open->second.callbacks);
  open_.erase(open);
  if (end.reason() != wire::pb::RequestEnd::LEADS_NO_MORE)
    return callbacks.on_finish(FromMessage(end));
  if (callbacks.on_moving) callbacks.on_moving();
}

}  // namespace weft::server
