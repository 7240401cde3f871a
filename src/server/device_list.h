// DeviceList: devices that may help every model of a server with several. Each asks again and again
// which models are loaded (GET /worker/cells), and hears of it when that changes:
//
//   GET /worker/cells?device=0f3a&memory=8589934592&seen=6
//   {"version": 7, "cells": [{"cell": 3, "model": "tiny", "need_bytes": 120000000}]}
//
// It opens a socket for each (GET /worker?cell=3). The memory of all that ask is what models may
// share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/http.h"
#include "net/loop.h"
#include "server/evictions.h"
#include "server/models.h"

namespace weft::server {

class DeviceList {
 public:
  // `models` and `evictions` outlive it.
  DeviceList(net::EventLoop& loop, Models& models, const Evictions& evictions);

  // Answers at once where the device has not seen the models as they are, else when they change,
  // or after a while. 400: a field that it cannot read.
  void Answer(const net::HttpRequest& request, std::shared_ptr<net::Responder> client);
  // Other models are loaded than before.
  void Changed();

 private:
  struct Device {
    uint64_t memory_bytes = 0;
    Instant heard_at;
    std::shared_ptr<net::Responder> waiting;  // null: it has its answer, and will ask again
    Instant waits_since;
  };

  void Send(Device& device);
  void Look();
  void CountMemory();

  Models& models_;
  const Evictions& evictions_;
  uint64_t version_ = 1;
  std::map<std::string, Device> devices_;
  std::vector<uint64_t> told_bytes_;
  net::EventLoop::Timer timer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace weft::server
