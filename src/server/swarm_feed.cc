#include "server/swarm_feed.h"

#include <algorithm>
#include <utility>

#include "server/responses.h"

namespace weft::server {
namespace {

constexpr Duration kPublishInterval = Milliseconds(200);
// A picture also without a change: times and rates move on, and a dead connection is noticed.
constexpr Duration kHeartbeat = Seconds(2);
constexpr size_t kMaxSubscribers = 256;

}  // namespace

SwarmFeed::SwarmFeed(net::EventLoop& loop) : publish_timer_(loop), heartbeat_(loop) {
  Beat();
}

void SwarmFeed::Show(const SwarmHost* host, api::ModelCard model) {
  host_ = host;
  model_ = std::move(model);
  Changed();
}

std::string SwarmFeed::Picture() const {
  if (host_ != nullptr) return api::SwarmJson(host_->snapshot(), model_);
  return api::IdleSwarmJson();
}

void SwarmFeed::AnswerOnce(net::Responder& responder) const {
  responder.Send(JsonResponse(200, Picture()));
}

void SwarmFeed::AnswerHistory(net::Responder& responder) const {
  responder.Send(JsonResponse(200, history_.ToJson(MonotonicNow())));
}

void SwarmFeed::Subscribe(std::shared_ptr<net::Responder> responder) {
  if (subscribers_.size() >= kMaxSubscribers) {
    return responder->Send(ErrorResponse(Overloaded(
        std::to_string(kMaxSubscribers) + " pages watch this swarm already, the limit.")));
  }
  responder->StartStream(200, {{"Content-Type", kEventStreamType},
                               {"Cache-Control", "no-store"},
                               {"X-Accel-Buffering", "no"}});
  responder->Write("retry: 1000\nevent: swarm\ndata: " + Picture() + "\n\n");
  subscribers_.push_back(responder);
  responder->OnClosed([this, alive = std::weak_ptr(alive_), gone = responder.get()] {
    if (alive.expired()) return;
    std::erase_if(subscribers_, [&](const auto& subscriber) { return subscriber.get() == gone; });
  });
}

void SwarmFeed::Changed() {
  if (pending_ || subscribers_.empty()) return;
  pending_ = true;
  publish_timer_.FireAfter(kPublishInterval, [this] { Publish(); });
}

void SwarmFeed::Publish() {
  pending_ = false;
  if (subscribers_.empty()) return;
  const std::string event = "event: swarm\ndata: " + Picture() + "\n\n";
  const auto current = subscribers_;  // a write may end a subscription
  for (const auto& subscriber : current) subscriber->Write(event);
}

void SwarmFeed::Beat() {
  if (host_ != nullptr) history_.Add(MonotonicNow(), host_->snapshot());
  heartbeat_.FireAfter(kHeartbeat, [this] {
    Changed();
    Beat();
  });
}

}  // namespace weft::server
