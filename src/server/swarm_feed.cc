#include "server/swarm_feed.h"

#include <algorithm>

namespace weft::server {
namespace {

constexpr Duration kPublishInterval = Milliseconds(200);
// A picture also without a change: times and rates move on, and a dead connection is noticed.
constexpr Duration kHeartbeat = Seconds(2);
constexpr size_t kMaxSubscribers = 256;

}  // namespace

SwarmFeed::SwarmFeed(net::EventLoop& loop, SwarmHost& host, api::ModelCard model)
    : host_(host), model_(std::move(model)), publish_timer_(loop), heartbeat_(loop) {
  Beat();
}

void SwarmFeed::AnswerOnce(net::Responder& responder, const net::Headers& extra_headers) const {
  net::HttpResponse response =
      net::TextResponse(200, "application/json", api::SwarmJson(host_.snapshot(), model_));
  response.headers.emplace_back("Cache-Control", "no-store");
  response.headers.insert(response.headers.end(), extra_headers.begin(), extra_headers.end());
  responder.Send(std::move(response));
}

void SwarmFeed::Subscribe(std::shared_ptr<net::Responder> responder,
                          const net::Headers& extra_headers) {
  if (subscribers_.size() >= kMaxSubscribers) {
    return responder->Send(net::TextResponse(503, "text/plain; charset=utf-8",
                                             "Too many pages watch this swarm already.\n"));
  }
  net::Headers headers = {{"Content-Type", "text/event-stream"},
                          {"Cache-Control", "no-store"},
                          {"X-Accel-Buffering", "no"}};
  headers.insert(headers.end(), extra_headers.begin(), extra_headers.end());
  responder->StartStream(200, headers);
  responder->Write("retry: 1000\nevent: swarm\ndata: " + api::SwarmJson(host_.snapshot(), model_) +
                   "\n\n");
  responder->OnClosed([this, alive = std::weak_ptr(alive_), gone = responder.get()] {
    if (alive.expired()) return;
    std::erase_if(subscribers_, [&](const auto& subscriber) { return subscriber.get() == gone; });
  });
  subscribers_.push_back(std::move(responder));
}

void SwarmFeed::Changed() {
  if (pending_ || subscribers_.empty()) return;
  pending_ = true;
  publish_timer_.FireAfter(kPublishInterval, [this] { Publish(); });
}

void SwarmFeed::Publish() {
  pending_ = false;
  if (subscribers_.empty()) return;
  const std::string event =
      "event: swarm\ndata: " + api::SwarmJson(host_.snapshot(), model_) + "\n\n";
  const auto current = subscribers_;  // a write may end a subscription
  for (const auto& subscriber : current) subscriber->Write(event);
}

void SwarmFeed::Beat() {
  heartbeat_.FireAfter(kHeartbeat, [this] {
    Changed();
    Beat();
  });
}

}  // namespace weft::server
