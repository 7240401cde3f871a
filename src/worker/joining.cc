#include "worker/joining.h"

#include <algorithm>
#include <set>

namespace weft::worker {

namespace pb = wire::pb;

void Joining::AddCached(uint32_t layer) {
  if (!package_) return;
  std::vector<uint32_t>& cached = package_->cached_layers;
  const auto place = std::lower_bound(cached.begin(), cached.end(), layer);
  if (place == cached.end() || *place != layer) cached.insert(place, layer);
}

void Joining::OnInit(const pb::Init& init) {
  if (init_seen_) return out_.Violation("The server sent Init twice.");
  init_seen_ = true;
  if (Status status = CheckInit(init); !status.ok()) return out_.Finish(std::move(status).error());
  init_ = init;
  out_.Do(LimitSilence{SilenceLimit(init)});
  const bool is_outdated = keeping_.IsOutdated(init);
  if (is_outdated && package_) return;  // nothing that is held changes
  loads_.Begin(init.layer_count());
  queue_.sessions().Begin(init.context_length(), init.session_count());
  if (is_outdated) return;
  keeping_.See(init);
  KnowSuccessors(init.successors());
  if (!package_) return;
  if (keeping_.Fits(init, out_.now()))
    keeping_.Resume();
  else
    Forget();
}

void Joining::KnowSuccessors(const Successors& successors) {
  std::vector<std::string> told;
  for (const auto& successor : successors) told.push_back(successor.SerializeAsString());
  if (told == successors_) return;
  successors_ = std::move(told);
  out_.Do(worker::KnowSuccessors{{successors.begin(), successors.end()}});
}

// A server that is full, or has evicted this device, says nothing against what it holds.
void Joining::OnRefused(const pb::Refused& refused) {
  if (refused.code() == ErrorCodeName(ErrorCode::kUnavailable))
    return HangUp(refused.message(), /*later=*/true);
  out_.Finish(Error(ErrorCode::kPermissionDenied, refused.message()));
}

void Joining::HangUp(std::string reason, bool later) {
  OnConnectionLost();
  out_.Do(worker::HangUp{std::move(reason), later});
}

void Joining::AnswerInit() {
  if (!init_ || joins_ || takes_stock_) return;
  if (package_) {
    if (keeping_.IsOutdated(*init_)) return SayConnect({});
    takes_stock_ = true;
    TakeStock stock;
    for (const StageTable::Binding& binding : stages_.bindings()) {
      pb::HeldBinding& held = stock.bindings.emplace_back();
      held.set_id(binding.id);
      held.set_stage(binding.stage);
      held.mutable_layers()->set_first(binding.layers.first);
      held.mutable_layers()->set_end(binding.layers.end);
      stock.forms.push_back(binding.form);
    }
    const std::set<uint32_t>& sessions = queue_.sessions().sessions();
    stock.sessions.assign(sessions.begin(), sessions.end());
    return queue_.Push(std::move(stock));
  }
  if (!queue_.IsIdle() || !loads_.IsIdle()) return;  // what is to go is not gone yet
  joins_ = true;
  joins_in_vain_ = false;
  Join join;
  std::copy(init_->package_digest().begin(), init_->package_digest().end(),
            join.package_digest.begin());
  join.probe_bytes = init_->probe_bytes();
  out_.Do(join);
}

void Joining::OnJoined(Result<JoinedPackage> package) {
  joins_ = false;
  if (joins_in_vain_) return;  // for a connection that is gone
  if (!package.ok()) return out_.Finish(std::move(package).error());
  if (package->layer_count != loads_.layer_count())
    return out_.Violation("The package has " + std::to_string(package->layer_count) +
                          " layers, the server announced " + std::to_string(loads_.layer_count()) +
                          ".");
  package_ = std::move(package).value();
  keeping_.Begin(*init_);
  SayConnect({});
}

void Joining::OnStock(Stock stock) {
  takes_stock_ = false;
  std::set<uint32_t> held;
  for (const pb::HeldBinding& binding : stock.bindings)
    held.insert(binding.sessions().begin(), binding.sessions().end());
  // The server hears nothing of the others, and may use their numbers again.
  ReleaseSessions release;
  const std::set<uint32_t>& sessions = queue_.sessions().sessions();
  std::set_difference(sessions.begin(), sessions.end(), held.begin(), held.end(),
                      std::back_inserter(release.sessions));
  if (!release.sessions.empty()) queue_.PushFront(std::move(release));
  queue_.sessions().KeepOnly(std::move(held));
  SayConnect(std::move(stock.bindings));
}

void Joining::SayConnect(std::vector<pb::HeldBinding> held) {
  const bool is_outdated = keeping_.IsOutdated(*init_);
  const uint64_t own = init_->incarnation(), seen = keeping_.SeenOf(*init_);
  const uint32_t places = TokenBatch(offer_, *init_);
  pb::WorkerMessage message;
  *message.mutable_connect() = MakeConnect(offer_, *package_, *init_);
  message.mutable_connect()->set_makes_tokens(places);
  message.mutable_connect()->mutable_held()->Assign(held.begin(), held.end());
  message.mutable_connect()->set_seen_incarnation(seen);
  init_.reset();
  out_.Send(std::move(message));
  if (is_outdated)
    return HangUp("The server is incarnation " + std::to_string(own) +
                      " of its swarm; this worker has seen " + std::to_string(seen) + ".",
                  /*later=*/false);
  is_member_ = true;
  queue_.Begin(loads_.layer_count(), places);
}

void Joining::SayWish(const WholeWished& wish) {
  if (is_member_) out_.SendBytes(wire::EncodeWholeFrame(wire::RunHere{wish.wanted, wish.api_key}));
}

void Joining::OnConnectionLost() {
  if (!out_.connected()) return;
  out_.SetConnected(false);
  if (is_leaving_) return out_.End();
  loads_.Drop();
  init_seen_ = is_member_ = takes_stock_ = false;
  init_.reset();
  joins_in_vain_ = joins_;
  queue_.OnConnectionLost();
  if (package_) KeepOrForget();
}

void Joining::OnConnectedAgain() {
  OnConnectionLost();  // whoever did not hear of it
  out_.SetConnected(!out_.ended());
}

void Joining::OnKeptLongEnough() {
  if (!out_.connected() && package_) KeepOrForget();
}

// Timers may fire early: then for what is left of the time.
void Joining::KeepOrForget() {
  const Duration time = keeping_.Lost(out_.now());
  if (time.us > 0)
    out_.Do(KeepFor{time});
  else
    Forget();
}

void Joining::Forget() {
  package_.reset();
  keeping_.End();
  loads_.Forget();
}

void Joining::Leave(const LeaveAsked& asked) {
  pb::WorkerMessage message;
  message.mutable_leaving()->set_reason(asked.reason);
  message.mutable_leaving()->set_draining(asked.draining);
  out_.Send(std::move(message));
  is_leaving_ = true;
  if (!asked.draining || !out_.connected()) return out_.End();
  loads_.Drop();
}

}  // namespace weft::worker
