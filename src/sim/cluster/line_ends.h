// What workers and servers say to each other over a line, and servers over a link, as either end
// hears it.
#pragma once

#include <cstdint>

#include "cluster/events.h"
#include "sim/cluster/network.h"
#include "sim/cluster/request_messages.h"
#include "sim/model_worker.h"
#include "wire/control.pb.h"

namespace weft::sim {

// One connection of a worker with a server.
using LineId = uint64_t;

// The address of the line's WebSocket, and who is at its other end.
struct WorkerHello {
  Node worker = 0;
  cluster::CellId cell;
};

class WorkerEnd {
 public:
  virtual ~WorkerEnd() = default;
  virtual void OnControl(const wire::pb::ServerMessage& message) = 0;
  virtual void OnFrame(const Slice& frame) = 0;
  virtual void OnRedirect(cluster::ServerId to) = 0;
};

class ServerEnd {
 public:
  virtual ~ServerEnd() = default;
  virtual void OnWorkerHello(const Channel* channel, const WorkerHello& hello) = 0;
  virtual void OnWorkerMessage(const Channel* channel, const FromWorker& message) = 0;
  virtual void OnPeerHello(cluster::ServerId peer, const cluster::Hello& hello) = 0;
  virtual void OnPeerAsks(cluster::ServerId peer, cluster::CellId cell, const ToLeader& asked) = 0;
  virtual void OnPeerTells(cluster::ServerId peer, cluster::CellId cell, const ToGateway& told) = 0;
};

}  // namespace weft::sim
