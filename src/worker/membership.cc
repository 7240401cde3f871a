#include "worker/membership.h"

#include <algorithm>

#include "wire/fork_frame.h"
#include "wire/version.h"

namespace weft::worker {

namespace pb = wire::pb;

namespace {

// Of a Pong, whatever a Ping asks for.
constexpr uint32_t kMostPadding = 32 * 1024;

// Of no use to a worker that goes.
bool BringsLoads(const pb::ServerMessage& message) {
  return message.has_download_layers() || message.has_measure_speed() ||
         message.has_prepare_stage() || message.has_hold_experts();
}

}  // namespace

std::vector<Action> Membership::Handle(Event event, Instant now) {
  out_.Begin(now);
  if (!out_.ended()) std::visit([this](auto& each) { On(each); }, event);
  if (!out_.ended()) Advance();
  return out_.Take();
}

void Membership::Advance() {
  joining_.AnswerInit();
  loads_.FetchNext();
  queue_.ComputeNext(
      [this](StepQueue::Install install) { return loads_.TakeInstall(std::move(install)); });
  loads_.ReadNext();
}

void Membership::On(MessageReceived& event) {
  if (!out_.connected()) return;
  const ByteSpan bytes = event.message.bytes();
  if (bytes.empty()) return out_.Violation("The server sent an empty message.");
  if (wire::IsWholeFrame(bytes)) return OnWholeFrame(bytes);
  if (wire::IsForkFrame(bytes)) return OnFork(bytes);
  if (wire::IsShardMessage(bytes)) return experts_.OnShards(event.message, joining_.is_member());
  if (bytes[0] != wire::kControlByte) return queue_.OnFrame(event.message);
  pb::ServerMessage control;
  const ByteSpan body = bytes.subspan(1);
  if (!control.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return out_.Violation("The server sent a control message that cannot be parsed.");
  OnControl(std::move(control));
}

void Membership::On(ControlReceived& event) {
  if (out_.connected()) OnControl(std::move(event.message));
}

void Membership::On(LayerFetched& event) {
  joining_.AddCached(event.layer);
  loads_.OnLayer(event);
}

void Membership::OnControl(pb::ServerMessage message) {
  switch (message.kind_case()) {
    case pb::ServerMessage::kPing:
      return OnPing(message.ping());
    case pb::ServerMessage::kInit:
      return joining_.OnInit(message.init());
    case pb::ServerMessage::kRefused:
      return joining_.OnRefused(message.refused());
    default:
      break;
  }
  if (!joining_.is_member())
    return out_.Violation("The server sent work before Init was answered.");
  if (joining_.is_leaving() && BringsLoads(message)) return;
  OnOrder(message);
}

void Membership::OnOrder(pb::ServerMessage& message) {
  using Kind = pb::ServerMessage;
  switch (message.kind_case()) {
    case Kind::kDownloadLayers:
      return loads_.Download(message.download_layers());
    case Kind::kMeasureSpeed:
      return loads_.Measure(message.measure_speed());
    case Kind::kPrepareStage:
      return loads_.Prepare(message.prepare_stage());
    case Kind::kHoldExperts:
      return loads_.HoldExperts(message.hold_experts());
    case Kind::kExpertHolders:
      return experts_.OnHolders(message.expert_holders(), loads_.layer_count());
    case Kind::kRetire:
      return loads_.Retire(message.retire());
    case Kind::kInvalidateSessions:
      return queue_.Invalidate(message.invalidate_sessions());
    case Kind::kSampling:
      return queue_.Push(TakeSampling{std::move(*message.mutable_sampling())});
    case Kind::kRelease:
      return loads_.Release();
    default:
      return out_.Finish(Error(ErrorCode::kUnsupported,
                               "The server sent a control message that this worker does not know: "
                               "update weft on this device."));
  }
}

void Membership::OnPing(const pb::Ping& ping) {
  if (ping.has_successors() && joining_.is_member())
    joining_.KnowSuccessors(ping.successors().servers());
  pb::WorkerMessage reply;
  reply.mutable_pong()->set_nonce(ping.nonce());
  reply.mutable_pong()->set_padding(std::string(std::min(ping.answer_bytes(), kMostPadding), '\0'));
  out_.Send(std::move(reply));
  experts_.SayHeartbeats(queue_.ComputesExperts());
}

void Membership::OnFork(ByteSpan message) {
  if (!joining_.is_member())
    return out_.Violation("The server sent a fork before Init was answered.");
  const auto fork = wire::DecodeFork(message);
  if (!fork.ok()) return out_.Finish(fork.error());
  queue_.OnFork(*fork);
}

void Membership::OnWholeFrame(ByteSpan message) {
  if (!joining_.chooses_tokens())
    return out_.Violation(
        "The server sent a whole-model frame to a worker that chooses no tokens.");
  auto frame = wire::DecodeWholeFrame(message);
  if (!frame.ok()) return out_.Finish(std::move(frame).error());
  if (auto* generate = std::get_if<wire::Generate>(&*frame))
    return queue_.OnGenerate(std::move(*generate), joining_.is_member());
  if (const auto* stop = std::get_if<wire::StopGenerating>(&*frame))
    return queue_.Stop(stop->sequence);
  if (std::holds_alternative<wire::WholeModel>(*frame)) return;  // for a user's eyes
  out_.Violation("The server sent a frame that only workers send.");
}

}  // namespace weft::worker
