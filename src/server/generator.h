// Generator: whoever computes answers for a cell, as routes see it. In a server alone it is the
// host of its core (swarm_host.h). Of several servers another one may lead the cell. All of it
// happens on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "swarm/events.h"
#include "swarm/snapshot.h"

namespace weft::server {

struct RequestCallbacks {
  std::function<void(const swarm::EmitToken&)> on_token;
  std::function<void(const swarm::EmitLogits&)> on_logits;     // may be empty
  std::function<void(const swarm::FinishRequest&)> on_finish;  // exactly once, last
  // Where devices hold what is computed for it from now on (Request::resume). May be empty.
  std::function<void(const swarm::SessionTrace&)> on_session = {};
  // Generator::has_accepted is true from now on, and was not when Submit returned. May be empty.
  std::function<void()> on_accepted = {};
  // The server that computes it is lost. Another one goes on with the answer. May be empty.
  std::function<void()> on_moving = {};
};

class Generator {
 public:
  virtual ~Generator() = default;

  // Gives the request its id. Its callbacks may be called before this returns.
  virtual swarm::RequestId Submit(swarm::Request request, RequestCallbacks callbacks) = 0;
  // Unknown and finished ids are ignored.
  virtual void Cancel(swarm::RequestId request) = 0;
  // What is kept under the name (swarm::Request::keep) need not be any longer.
  virtual void ForgetPrefix(const std::string& salt, const std::string& name) = 0;

  // Whether whoever computes it has the request. Until then it may have been lost on its way.
  virtual bool has_received(swarm::RequestId /*request*/) const { return true; }
  // Whether the request has its place in the queue: it is not refused any more.
  virtual bool has_accepted(swarm::RequestId request) const = 0;
  virtual bool is_up() const = 0;
  // Devices download and load what the plan wants of them.
  virtual bool is_loading() const = 0;
  // The share of the download that they have, in percent, while somebody knows it.
  virtual std::optional<uint32_t> loading_percent() const = 0;
  // What is going on, in a sentence for people.
  virtual std::string message() const = 0;
  virtual std::optional<swarm::RequestProgress> progress(swarm::RequestId request) const = 0;
};

}  // namespace weft::server
