#include "sim/cluster/cluster_worker.h"

#include <algorithm>
#include <utility>

namespace weft::sim {
namespace {

constexpr Duration kPatience = Seconds(1);     // with one attempt to connect
constexpr Duration kMostSilence = Seconds(3);  // of a server
constexpr Duration kLooksEvery = Milliseconds(250);

}  // namespace

ClusterWorker::ClusterWorker(World& world, Node node, cluster::CellId cell, const CellModel& model,
                             Device device, std::vector<cluster::ServerId> servers)
    : world_(world),
      node_(node),
      cell_(cell),
      model_(model),
      device_(std::move(device)),
      process_(std::make_shared<Process>(world.scheduler)),
      servers_(std::move(servers)) {}

// ---- the way to a server ----

// It pauses only when it has tried all of them.
void ClusterWorker::TryNext() {
  if (sent_to_.is_set()) return Try(std::exchange(sent_to_, {}));
  if (next_ < servers_.size()) return Try(servers_[next_++]);
  next_ = 0;
  const double us = static_cast<double>(kLooksEvery.us) * (0.75 + 0.5 * world_.random.Uniform());
  world_.scheduler.After(Microseconds(static_cast<int64_t>(us)), [this, attempt = attempt_] {
    if (attempt == attempt_) TryNext();
  });
}

void ClusterWorker::Try(cluster::ServerId server) {
  const uint64_t attempt = ++attempt_;
  server_ = server;
  world_.network.Connect(
      {node_, process_, {}}, world_.NodeOf(server),
      [this, attempt](Network::Outcome outcome, std::shared_ptr<Channel> channel) {
        OnOutcome(attempt, outcome, std::move(channel));
      });
  world_.scheduler.After(kPatience, [this, attempt] {
    if (attempt == attempt_ && !channel_) {
      ++attempt_;
      TryNext();
    }
  });
}

void ClusterWorker::OnOutcome(uint64_t attempt, Network::Outcome outcome,
                              std::shared_ptr<Channel> channel) {
  if (attempt != attempt_) {
    if (channel) channel->Close(node_);
    return;
  }
  if (outcome != Network::Outcome::kOpened) {
    ++attempt_;
    return TryNext();
  }
  channel_ = std::move(channel);
  channel_->SetClosed(node_, [this, attempt] { LeaveIf(attempt); });
  heard_at_ = world_.scheduler.now();
  ServerEnd& server = world_.ServerAt(world_.NodeOf(server_));
  channel_->Send(node_, [&server, channel = channel_.get(), hello = WorkerHello{node_, cell_}] {
    server.OnWorkerHello(channel, hello);
  });
  if (worker_ && !worker_->refused())
    worker_->ConnectAgain();
  else
    Begin();
  WatchSilence(attempt);
}

void ClusterWorker::WatchSilence(uint64_t attempt) {
  world_.scheduler.After(kLooksEvery, [this, attempt] {
    if (attempt != attempt_) return;
    if (world_.scheduler.now() - heard_at_ > kMostSilence) return Leave();
    WatchSilence(attempt);
  });
}

void ClusterWorker::Leave() {
  ++attempt_;
  if (channel_) {
    std::exchange(channel_, nullptr)->Close(node_);
    worker_->LoseConnection();
  }
  if (std::exchange(has_joined_, false)) {
    // The one behind it comes next, and itself last.
    const auto at = std::ranges::find(servers_, server_);
    if (at != servers_.end()) std::rotate(servers_.begin(), at + 1, servers_.end());
    next_ = 0;
    world_.log(device_.id + " has lost server " + ToString(server_));
    world_.worker_has_left();
  }
  TryNext();
}

void ClusterWorker::OnRedirect(cluster::ServerId to) {
  next_ = 0;
  sent_to_ = to;
  Leave();
}

// The successors come first, then those that it knew before, and last the leader itself: so no
// server is forgotten.
void ClusterWorker::KnowSuccessors(const std::vector<wire::pb::Init::Successor>& successors) {
  std::vector<cluster::ServerId> order;
  for (const auto& successor : successors) order.push_back(ServerOf(successor.url()));
  for (const cluster::ServerId server : servers_)
    if (server != server_ && std::ranges::find(order, server) == order.end())
      order.push_back(server);
  order.push_back(server_);
  servers_ = std::move(order);
  next_ = 0;
}

// ---- the worker ----

void ClusterWorker::Begin() {
  ModelWorker::Hooks hooks;
  hooks.send = [this](FromWorker message) { Say(std::move(message)); };
  hooks.violation = [this](const std::string& text) { world_.violate(text); };
  hooks.crash = [this] { world_.violate(device_.id + " crashed, which nobody wanted"); };
  hooks.numbers_failed = [](uint32_t) {};
  hooks.datagrams = [](const auto&) {};
  hooks.begins_anew = [this] { ++begins_; };
  hooks.hangs_up = [this] {
    world_.scheduler.After({}, [this, attempt = attempt_] { LeaveIf(attempt); });
  };
  hooks.knows_successors = [this](const auto& successors) { KnowSuccessors(successors); };
  worker_ = std::make_shared<ModelWorker>(model_.options, model_.costs, model_.hash, device_,
                                          world_.scheduler, world_.random.Next(), std::move(hooks));
}

void ClusterWorker::OnControl(const wire::pb::ServerMessage& message) {
  heard_at_ = world_.scheduler.now();
  wire::pb::ServerMessage heard = message;
  if (heard.has_init()) {
    incarnation_ = heard.init().incarnation();
    // As that of a server from before there were incarnations, whom every worker follows.
    if (!world_.scenario.workers_refuse_lower) heard.mutable_init()->set_incarnation(0);
  }
  worker_->OnControl(std::move(heard));
}

void ClusterWorker::OnFrame(const Slice& frame) {
  heard_at_ = world_.scheduler.now();
  if (incarnation_ < ran_)
    world_.violate(device_.id + " got a frame of incarnation " + std::to_string(incarnation_) +
                   " after one of " + std::to_string(ran_));
  ran_ = incarnation_;
  worker_->OnFrame(frame);
}

void ClusterWorker::Say(FromWorker message) {
  if (!channel_) return;
  auto* control = std::get_if<wire::pb::WorkerMessage>(&message);
  if (control != nullptr && control->has_connect()) {
    if (!world_.scenario.workers_refuse_lower) control->mutable_connect()->set_seen_incarnation(0);
    if (control->connect().seen_incarnation() <= incarnation_) NoteJoined();
  }
  ServerEnd& server = world_.ServerAt(world_.NodeOf(server_));
  channel_->Send(node_, [&server, channel = channel_.get(), message = std::move(message)] {
    server.OnWorkerMessage(channel, message);
  });
}

void ClusterWorker::NoteJoined() {
  has_joined_ = true;
  world_.log(device_.id + " follows server " + ToString(server_) + " (" +
             std::to_string(incarnation_) + ")");
  world_.worker_has_joined();
}

}  // namespace weft::sim
