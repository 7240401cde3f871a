// A device's Connect as a message, for tests of the server.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "swarm/options.h"
#include "wire/control.pb.h"
#include "wire/version.h"

namespace weft::server {

// Gives the Connect of a native worker that offers 1 GiB; a token of "" is none.
inline Slice ConnectMessage(const std::string& join_token = "") {
  wire::pb::WorkerMessage message;
  wire::pb::Connect& connect = *message.mutable_connect();
  connect.set_protocol_version(wire::kProtocolVersion);
  connect.set_program_version(swarm::ModelInfo().program_version);
  connect.set_package_format(swarm::ModelInfo().package_format);
  connect.set_kind("native");
  connect.set_engine("native");
  connect.set_memory_bytes(1 << 30);
  connect.set_weight_factor(1);
  connect.set_join_token(join_token);
  std::vector<uint8_t> bytes(1 + message.ByteSizeLong());
  bytes[0] = wire::kControlByte;
  CHECK(message.SerializeToArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
  return Slice(std::move(bytes));
}

}  // namespace weft::server
