// What workers and servers say to each other over a line, as either end hears it.
#pragma once

#include <cstdint>

#include "cluster/events.h"
#include "sim/cluster/led_cell.h"
#include "sim/cluster/network.h"

namespace weft::sim {

// The worker's first message on a line.
struct WorkerHello {
  Node worker = 0;
  cluster::CellId cell;
  cluster::Incarnation seen;
  uint64_t held_rows = 0;
};

class WorkerEnd {
 public:
  virtual ~WorkerEnd() = default;
  virtual void OnInit(const InitMessage& init) = 0;
  virtual void OnStep(const StepMessage& step) = 0;
  virtual void OnRedirect(cluster::ServerId to) = 0;
  virtual void OnRefused() = 0;
};

class ServerEnd {
 public:
  virtual ~ServerEnd() = default;
  virtual void OnWorkerHello(const Channel* channel, const WorkerHello& hello) = 0;
  virtual void OnWorkerAnswer(const Channel* channel, uint64_t position) = 0;
  virtual void OnPeerHello(cluster::ServerId peer, const cluster::Hello& hello) = 0;
};

}  // namespace weft::sim
