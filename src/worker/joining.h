// A worker comes in and back by this: from Init to Connect, what of it is kept between two
// connections and for how long, and how it goes. A part of membership (membership.h). The same in
// TypeScript: web/packages/worker/src/membership/joining.ts.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/keeping.h"
#include "worker/loads.h"
#include "worker/offer.h"
#include "worker/outbox.h"
#include "worker/step_queue.h"

namespace weft::worker {

class Joining {
 public:
  Joining(Outbox& out, const StageTable& stages, StepQueue& queue, Loads& loads, Offer offer)
      : out_(out), stages_(stages), queue_(queue), loads_(loads), offer_(std::move(offer)) {}

  // Connect was sent on this connection.
  bool is_member() const { return is_member_; }
  bool is_leaving() const { return is_leaving_; }
  bool chooses_tokens() const { return offer_.makes_tokens > 0; }
  // A layer is on this device.
  void AddCached(uint32_t layer);

  // ---- from Init to Connect ----

  void OnInit(const wire::pb::Init& init);
  void OnRefused(const wire::pb::Refused& refused);
  // Asks for what Connect has to say: what is held, or what there is to hold.
  void AnswerInit();
  void OnJoined(Result<JoinedPackage> package);
  void OnStock(Stock stock);
  void SayWish(const WholeWished& wish);

  // These servers may lead next, in the place of those before.
  using Successors = google::protobuf::RepeatedPtrField<wire::pb::Init::Successor>;
  void KnowSuccessors(const Successors& successors);

  // ---- between connections ----

  void OnConnectionLost();
  void OnConnectedAgain();
  void OnKeptLongEnough();
  // The user goes.
  void Leave(const LeaveAsked& asked);

 private:
  void SayConnect(std::vector<wire::pb::HeldBinding> held);
  // The server has nothing to say to this worker now.
  void HangUp(std::string reason, bool later);
  void KeepOrForget();
  // Nothing that is held means anything any more.
  void Forget();

  Outbox& out_;
  const StageTable& stages_;
  StepQueue& queue_;
  Loads& loads_;
  const Offer offer_;
  Keeping keeping_;
  std::optional<JoinedPackage> package_;  // what is held is of
  std::optional<wire::pb::Init> init_;    // until it is answered by Connect
  bool init_seen_ = false, is_member_ = false, is_leaving_ = false;
  bool joins_ = false, joins_in_vain_ = false, takes_stock_ = false;
  std::vector<std::string> successors_;  // that were told last, by their bytes
};

}  // namespace weft::worker
