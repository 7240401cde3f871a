// For tests: a worker's socket that keeps what it was told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/http.h"

namespace weft::server {

class FakeSocket : public net::WebSocket {
 public:
  void Send(std::vector<Slice>) override { ++sent; }
  void Close(std::string reason, uint16_t code) override {
    closed.push_back(std::to_string(code) + " " + reason);
  }
  void SetMessageLimit(size_t byte_count) override { message_limit = byte_count; }
  void SetAllowance(std::optional<size_t> byte_count) override { allowance = byte_count; }
  void SetReading(bool) override {}
  void SetSilence(Duration) override {}
  std::string remote_address() const override { return "10.0.0.1"; }
  size_t queued_bytes() const override { return 0; }

  int sent = 0;                     // messages
  std::vector<std::string> closed;  // "CODE REASON"
  size_t message_limit = 0;
  std::optional<size_t> allowance;
};

}  // namespace weft::server
