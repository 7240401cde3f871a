#include "server/shard_relay.h"

#include <algorithm>
#include <mutex>

namespace weft::server {
namespace {

// Beside its bytes a message takes a few small pieces of memory.
constexpr size_t kMessageOverheadBytes = 256;

}  // namespace

// What slices know of the relay, which they may outlive.
struct ShardRelay::Shared {
  std::atomic<size_t> handed = 0;  // to all receivers
  std::atomic<bool> waits = false;
  std::mutex mutex;
  std::function<void()> pump_later;  // null once the relay is gone

  void OnTaken() {
    if (!waits.exchange(false)) return;
    const std::lock_guard lock(mutex);
    if (pump_later) pump_later();
  }
};

// A message in somebody's hands.
struct ShardRelay::Held {
  Held(Message given, std::shared_ptr<std::atomic<size_t>> of_receiver,
       std::shared_ptr<Shared> of_all)
      : message(std::move(given)), handed(std::move(of_receiver)), shared(std::move(of_all)) {
    *handed += message.byte_count;
    shared->handed += message.byte_count;
  }
  ~Held() {
    *handed -= message.byte_count;
    shared->handed -= message.byte_count;
    shared->OnTaken();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  const Message message;
  const std::shared_ptr<std::atomic<size_t>> handed;
  const std::shared_ptr<Shared> shared;
};

ShardRelay::ShardRelay(net::EventLoop& loop, Callbacks callbacks, Limits limits)
    : callbacks_(std::move(callbacks)), limits_(limits), shared_(std::make_shared<Shared>()) {
  shared_->pump_later = [&loop, this, weak = std::weak_ptr(shared_)] {
    loop.Post([this, weak] {
      const auto shared = weak.lock();
      if (shared && shared->pump_later) Pump();
    });
  };
}

ShardRelay::~ShardRelay() {
  const std::lock_guard lock(shared_->mutex);
  shared_->pump_later = nullptr;
}

void ShardRelay::Pass(swarm::WorkerId sender, swarm::WorkerId receiver, std::vector<Slice> pieces) {
  Message message{std::move(pieces), kMessageOverheadBytes};
  for (const Slice& piece : message.pieces) message.byte_count += piece.byte_count();
  Receiver& to = receivers_[receiver];
  if (to.pairs.empty() && MayHand(to, message.byte_count)) {
    to.served = sender;
    return Hand(receiver, to, std::move(message));
  }
  Pair& pair = to.pairs[sender];
  pair.byte_count += message.byte_count;
  waiting_bytes_ += message.byte_count;
  pair.messages.push_back(std::move(message));
  if (SendsTooMuch(sender, limits_.pair_bytes) && held_.insert(sender).second)
    callbacks_.hold(sender, true);
  Pump();
}

bool ShardRelay::MayHand(const Receiver& receiver, size_t byte_count) const {
  const auto fits = [byte_count](size_t handed, size_t limit) {
    return handed == 0 || (byte_count <= limit && handed <= limit - byte_count);
  };
  return fits(*receiver.handed, limits_.window_bytes) &&
         fits(shared_->handed, limits_.all_windows_bytes);
}

void ShardRelay::Hand(swarm::WorkerId id, const Receiver& receiver, Message message) {
  const auto held = std::make_shared<Held>(std::move(message), receiver.handed, shared_);
  std::vector<Slice> pieces;
  for (const Slice& piece : held->message.pieces) pieces.emplace_back(held, piece.bytes());
  callbacks_.send(id, std::move(pieces));
}

// Whoever is told something may turn out to be gone, so that receivers_ may change with each.
bool ShardRelay::HandNext() {
  for (auto& [id, receiver] : receivers_) {
    if (receiver.pairs.empty()) continue;
    auto next = receiver.pairs.upper_bound(receiver.served);
    if (next == receiver.pairs.end()) next = receiver.pairs.begin();
    if (!MayHand(receiver, next->second.messages.front().byte_count)) continue;
    Pair& pair = next->second;
    Message message = std::move(pair.messages.front());
    pair.messages.pop_front();
    pair.byte_count -= message.byte_count;
    waiting_bytes_ -= message.byte_count;
    receiver.served = next->first;
    if (pair.messages.empty()) receiver.pairs.erase(next);
    Hand(id, receiver, std::move(message));
    return true;
  }
  return false;
}

// What is taken between the last look and the flag is seen by one more look.
void ShardRelay::Pump() {
  do {
    while (HandNext()) {
    }
    shared_->waits = waiting_bytes_ > 0;
  } while (waiting_bytes_ > 0 && HandNext());
  ReleaseSenders();
}

bool ShardRelay::SendsTooMuch(swarm::WorkerId sender, size_t pair_limit) const {
  return std::any_of(receivers_.begin(), receivers_.end(), [&](const auto& each) {
    const auto pair = each.second.pairs.find(sender);
    return pair != each.second.pairs.end() &&
           (pair->second.byte_count > pair_limit || waiting_bytes_ > limits_.all_bytes);
  });
}

// At half of the limit, so that a sender is not held and released with each message.
void ShardRelay::ReleaseSenders() {
  const std::vector<swarm::WorkerId> held(held_.begin(), held_.end());
  for (const swarm::WorkerId sender : held)
    if (!SendsTooMuch(sender, limits_.pair_bytes / 2) && held_.erase(sender) > 0)
      callbacks_.hold(sender, false);
}

void ShardRelay::Forget(swarm::WorkerId worker) {
  held_.erase(worker);
  const auto drop = [this](const Pair& pair) { waiting_bytes_ -= pair.byte_count; };
  if (const auto gone = receivers_.find(worker); gone != receivers_.end()) {
    for (const auto& [sender, pair] : gone->second.pairs) drop(pair);
    receivers_.erase(gone);
  }
  for (auto& [id, receiver] : receivers_) {
    const auto pair = receiver.pairs.find(worker);
    if (pair == receiver.pairs.end()) continue;
    drop(pair->second);
    receiver.pairs.erase(pair);
  }
  ReleaseSenders();
}

}  // namespace weft::server
