#include "sim/cluster/cluster_worker.h"

#include <algorithm>
#include <utility>

namespace weft::sim {
namespace {

constexpr Duration kPatience = Seconds(1);     // with one attempt to connect
constexpr Duration kMostSilence = Seconds(3);  // of a server
constexpr Duration kLooksEvery = Milliseconds(250);
constexpr Duration kKeepsRows = Seconds(60);  // without a leader

}  // namespace

ClusterWorker::ClusterWorker(World& world, Node node, cluster::CellId cell,
                             std::vector<cluster::ServerId> servers)
    : world_(world),
      node_(node),
      cell_(cell),
      process_(std::make_shared<Process>(world.scheduler)),
      servers_(std::move(servers)),
      left_at_(world.scheduler.now()) {}

// It pauses only when it has tried all of them.
void ClusterWorker::TryNext() {
  if (world_.scheduler.now() - left_at_ > kKeepsRows) DropRows();
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
  channel_->SetClosed(node_, [this, attempt] { OnClosed(attempt); });
  heard_at_ = world_.scheduler.now();
  const WorkerHello hello{node_, cell_, seen_, rows_};
  ServerEnd& server = world_.ServerAt(world_.NodeOf(server_));
  channel_->Send(
      node_, [&server, channel = channel_.get(), hello] { server.OnWorkerHello(channel, hello); });
  WatchSilence(attempt);
}

void ClusterWorker::WatchSilence(uint64_t attempt) {
  world_.scheduler.After(kLooksEvery, [this, attempt] {
    if (attempt != attempt_) return;
    if (world_.scheduler.now() - heard_at_ > kMostSilence) return Leave();
    WatchSilence(attempt);
  });
}

void ClusterWorker::OnClosed(uint64_t attempt) {
  if (attempt == attempt_) Leave();
}

void ClusterWorker::Leave() {
  ++attempt_;
  if (channel_) std::exchange(channel_, nullptr)->Close(node_);
  if (std::exchange(has_joined_, false)) {
    left_at_ = world_.scheduler.now();
    next_ = 0;
    world_.log("worker " + std::to_string(node_) + " has lost server " + ToString(server_));
    world_.worker_has_left();
  }
  TryNext();
}

void ClusterWorker::OnInit(const InitMessage& init) {
  heard_at_ = world_.scheduler.now();
  if (world_.scenario.workers_refuse_lower && init.incarnation < seen_) return Leave();
  seen_ = std::max(seen_, init.incarnation);
  rows_ = init.position;
  has_joined_ = true;
  // The successors come first, then those that it knew before, and last the leader itself: so no
  // server is forgotten.
  std::vector<cluster::ServerId> order = init.successors;
  for (const cluster::ServerId server : servers_)
    if (server != server_ && std::ranges::find(order, server) == order.end())
      order.push_back(server);
  order.push_back(server_);
  servers_ = std::move(order);
  next_ = 0;
  world_.log("worker " + std::to_string(node_) + " follows server " + ToString(server_) + " (" +
             ToString(init.incarnation) + ")");
  world_.worker_has_joined();
}

void ClusterWorker::OnStep(const StepMessage& step) {
  heard_at_ = world_.scheduler.now();
  if (!has_joined_) return;
  if (step.incarnation < ran_)
    world_.violate("worker " + std::to_string(node_) + " ran a step of incarnation " +
                   ToString(step.incarnation) + " after one of " + ToString(ran_));
  ran_ = std::max(ran_, step.incarnation);
  seen_ = std::max(seen_, step.incarnation);
  rows_ = std::max(rows_, step.position);
  ServerEnd& server = world_.ServerAt(world_.NodeOf(server_));
  channel_->Send(node_, [&server, channel = channel_.get(), position = step.position] {
    server.OnWorkerAnswer(channel, position);
  });
}

void ClusterWorker::OnRedirect(cluster::ServerId to) {
  next_ = 0;
  sent_to_ = to;
  Leave();
}

void ClusterWorker::OnRefused() {
  DropRows();
  Leave();
}

void ClusterWorker::DropRows() {
  if (std::exchange(rows_, 0) > 0) ++dropped_;
}

}  // namespace weft::sim
