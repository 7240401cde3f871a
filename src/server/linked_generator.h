// LinkedGenerator: a core at another server, over the link to it. It knows nothing of moving: when
// the link is lost its owner ends it, and whoever asked is told nothing (clustered_generator.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "server/generator.h"
#include "server/request_channel.h"

namespace weft::server {

class LinkedGenerator : public Generator {
 public:
  // `channel` outlives this.
  explicit LinkedGenerator(RequestChannel& channel) : channel_(channel) {}
  LinkedGenerator(const LinkedGenerator&) = delete;
  LinkedGenerator& operator=(const LinkedGenerator&) = delete;

  // A message of the leader's. kInvalidData: the link has to be closed, with this sentence. Its
  // callbacks must not end this.
  Status OnMessage(const wire::pb::RequestMessage& message);

  swarm::RequestId Submit(swarm::Request request, RequestCallbacks callbacks) override;
  void Cancel(swarm::RequestId request) override;
  void ForgetPrefix(const std::string& salt, const std::string& name) override;
  bool has_received(swarm::RequestId request) const override;
  bool has_accepted(swarm::RequestId request) const override;
  // Of before the leader's first word: it is not up.
  bool is_up() const override { return readiness_.up(); }
  bool is_loading() const override { return readiness_.loading(); }
  std::optional<uint32_t> loading_percent() const override;
  std::string message() const override { return readiness_.message(); }
  std::optional<swarm::RequestProgress> progress(swarm::RequestId request) const override;

 private:
  struct Open {
    RequestCallbacks callbacks;
    bool is_received = false, is_accepted = false;
    std::optional<swarm::RequestProgress> progress;
  };
  Status OnEvent(const wire::pb::RequestEvent& event);
  Status TakeTokens(uint64_t number, const wire::pb::RequestEvent& event);
  Status TakeRows(uint64_t number, const wire::pb::RequestEvent& event);
  void TakeEnd(uint64_t number, const wire::pb::RequestEnd& end);

  RequestChannel& channel_;
  std::map<uint64_t, Open> open_;  // by number
  uint64_t last_number_ = 0;
  wire::pb::CellReadiness readiness_;
};

}  // namespace weft::server
