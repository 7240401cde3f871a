// Connections and what passes over them: latency, bandwidth, order.
#include <algorithm>

#include "sim/swarm_run.h"

namespace weft::sim {
namespace {

// Two of three are the owner's, so that the others are checked by them.
bool IsTrusted(const Device& device) {
  return device.id.back() % 3 != 0;
}

}  // namespace

Connection* SwarmRun::Any(WorkerId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

Connection* SwarmRun::Find(WorkerId id) {
  Connection* connection = Any(id);
  return connection && connection->open ? connection : nullptr;
}

std::string SwarmRun::Name(WorkerId id) {
  Connection* connection = Any(id);
  return (connection ? connection->device->id : "?") + "#" + ToString(id);
}

Instant SwarmRun::Arrival(Connection& connection, size_t byte_count, Instant& last) {
  const Device& device = *connection.device;
  const double us = static_cast<double>(byte_count + 20) / device.link_bytes_per_us;
  const Instant begin =
      std::max({scheduler_.now() + device.latency, last, connection.paused_until});
  last = begin + Microseconds(static_cast<int64_t>(us) + static_cast<int64_t>(random_.Below(200)));
  return last;
}

void SwarmRun::Open(Device& device, std::shared_ptr<ModelWorker> worker, const Connection* before) {
  for (const auto& [id, connection] : connections_)
    if (connection.device == &device && connection.open && !connection.broken) return;
  const WorkerId id = next_worker_++;
  if (scenario_.new_names && !worker) device.id = "stranger" + ToString(id);
  Connection& connection =
      connections_.try_emplace(id, before ? before->told : Told(model_.layer_count)).first->second;
  connection.device = &device;
  connection.last_down = connection.last_up = scheduler_.now();
  if (worker) {
    connection.reported_factor = before->reported_factor;
    connection.earlier_factor = std::max(before->reported_factor, before->earlier_factor);
    connection.doubted = before->doubted;
    connection.ran_out = before->ran_out;
    connection.worker = std::move(worker);
    connection.line = before->line;
    *connection.line = id;
    ++outcome_.resumed;
    Log("back " + Name(id));
    connection.worker->ConnectAgain();
    return Feed(swarm::WorkerConnected{id, kDeviceAddress, "", IsTrusted(device)});
  }
  connection.line = std::make_shared<WorkerId>(id);
  ModelWorker::Hooks hooks;
  hooks.send = [this, to = connection.line](FromWorker it) { SendUp(*to, std::move(it)); };
  hooks.violation = [this](const std::string& text) { Violate(text); };
  hooks.numbers_failed = [this](uint32_t) {
    // Which request it was only the core knows: any that runs may be the one.
    for (auto& [request, tracked] : requests_)
      if (tracked.ends == 0) tracked.may_fail = true;
  };
  hooks.served = [this](bool is_given) {
    ++(is_given ? outcome_.served_rows : outcome_.refused_rows);
  };
  hooks.interrupted = [this] { ++outcome_.interrupted; };
  hooks.generated = [this](size_t count, size_t sessions) {
    (sessions > 1 ? outcome_.generated_together : outcome_.generated_alone) += count;
  };
  hooks.datagrams = [this, &device](std::vector<OutgoingDatagram> datagrams) {
    for (OutgoingDatagram& each : datagrams) SendDatagram(device, std::move(each));
  };
  hooks.lied = [this, &device] { NoteLie(device); };
  hooks.crash = [this, line = connection.line] {
    if (Find(*line)) Crash(*line, true);
  };
  connection.worker = std::make_shared<ModelWorker>(scenario_.options, costs_, model_, device,
                                                    scheduler_, random_.Next(), std::move(hooks));
  Log("join " + Name(id) + " with " + std::to_string(device.memory_bytes) + " bytes");
  Feed(swarm::WorkerConnected{id, kDeviceAddress, "", IsTrusted(device)});
}

void SwarmRun::Reopen(Device& device, Duration delay) {
  scheduler_.After(delay, [this, &device] { Open(device); });
}

void SwarmRun::SendUp(WorkerId id, FromWorker message) {
  Connection* connection = Any(id);
  if (!connection || connection->broken) return;
  const auto* control = std::get_if<wire::pb::WorkerMessage>(&message);
  const size_t bytes =
      control ? control->ByteSizeLong() + 1 : std::get<Slice>(message).byte_count();
  const Instant at = Arrival(*connection, bytes, connection->last_up);
  const Device& device = *connection->device;
  // Tokens are believed whoever has the whole model, so a device that mixes them up cannot be
  // told from one that makes up others.
  if (!control && wire::IsWholeFrame(std::get<Slice>(message).bytes()))
    return Deliver(id, std::move(message), bytes, at, true);
  if (random_.Uniform() < device.late_message) {  // those after it are there before
    ++outcome_.overtaken;
    const Duration late = Milliseconds(1 + static_cast<int64_t>(random_.Below(500)));
    return Deliver(id, std::move(message), bytes, at + late, false);
  }
  if (random_.Uniform() < device.duplicate_message) {
    ++outcome_.repeated;
    Deliver(id, message, bytes, at, false);
  }
  Deliver(id, std::move(message), bytes, at, true);
}

void SwarmRun::Deliver(WorkerId id, FromWorker message, size_t bytes, Instant at, bool in_order) {
  scheduler_.At(at, [this, id, bytes, in_order, message = std::move(message)] {
    Connection* from = Find(id);
    if (!from || from->broken) return;
    const uint64_t limit = from->message_limit;
    if (const auto* text = std::get_if<wire::pb::WorkerMessage>(&message)) {
      if (text->has_connect()) {
        from->reported_factor = text->connect().weight_factor();
      }
      // One that refuses the server's number hangs up, and names nothing of what it keeps.
      if (text->connect().seen_incarnation() <= from->incarnation)
        from->told.Note(*text, model_.layer_count);
      if (text->has_prepared()) {
        from->reported_factor = text->prepared().weight_factor();
        from->earlier_factor = 0;
      }
      if (text->failed().code() == ErrorCodeName(ErrorCode::kOutOfMemory)) from->ran_out = true;
      // A server that starts again knows nothing of groups that an answer lost before.
      if (text->has_groups_lost() && scenario_.options.loss_limit) lossy_ = true;
      CountUnasked(*from, *text);
      const bool often = from->device->unasked_per_ms > 0 || text->has_pong() ||
                         text->has_loss_report() || text->has_holder_stats();
      if (!often) Log("<- " + Name(id) + " " + text->ShortDebugString());
      Feed(swarm::WorkerControl{id, *text});
    } else {
      Feed(swarm::WorkerData{id, std::get<Slice>(message)});
    }
    // A host closes a connection where a message is too long. The core closes it as well where the
    // message is an answer to nothing, as after a failure that was made up.
    if (in_order && bytes > limit && Find(id) != nullptr)
      Violate("a message of " + std::to_string(bytes) + " bytes of " + Name(id) +
              " would have been cut off at " + std::to_string(limit));
  });
}

// Datagrams pass the server by. Some are lost, come twice or late.
void SwarmRun::SendDatagram(const Device& from, OutgoingDatagram datagram) {
  ++outcome_.datagrams;
  const Device* to = nullptr;
  for (const auto& [id, connection] : connections_)
    if (connection.device->datagram_port == datagram.to.port && datagram.to.port != 0)
      to = connection.device;
  if (to == nullptr || line_random_.Uniform() < scenario_.datagram_loss) {
    ++outcome_.datagrams_lost;
    return;
  }
  const int copies = line_random_.Uniform() < scenario_.datagram_repeats ? 2 : 1;
  outcome_.datagrams_repeated += static_cast<uint64_t>(copies - 1);
  for (int i = 0; i < copies; ++i) {
    Duration delay =
        from.latency + to->latency + Microseconds(static_cast<int64_t>(line_random_.Below(200)));
    if (line_random_.Uniform() < scenario_.datagram_late) {
      ++outcome_.datagrams_late;
      delay = delay + Microseconds(static_cast<int64_t>(line_random_.Below(30'000)));
    }
    scheduler_.After(delay, [this, sender = AddressOf(from), datagram] {
      for (auto& [id, connection] : connections_)
        if (connection.device->datagram_port == datagram.to.port && !connection.broken)
          return connection.worker->OnDatagram(sender, datagram.bytes);
    });
  }
}

}  // namespace weft::sim
