// Requests and what becomes of them as messages between servers (wire/cluster_requests.proto): the
// one place that knows both forms. Messages are a peer's: whatever they hold, reading them gives a
// value or an error.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "base/result.h"
#include "swarm/events.h"
#include "swarm/snapshot.h"
#include "wire/cluster_requests.pb.h"

namespace weft::server {

// Kinds of errors below: kInvalidData, with a sentence about the message.

// `request` without its id, which the number of the link takes the place of.
void FillSubmit(const swarm::Request& request, uint64_t number, wire::pb::SubmitRequest& out);
// A request whose constraint is still to be made of `constraint_source`; "": it has none.
struct SubmittedRequest {
  swarm::Request request;
  std::string constraint_source;
};
Result<SubmittedRequest> ReadSubmit(wire::pb::SubmitRequest message);

// `token` is the next one behind those that the event has. REQUIRES: they come one after another,
// and all of them with logprobs, or none.
void AddToken(const swarm::EmitToken& token, wire::pb::RequestEvent& out);
Result<std::vector<swarm::EmitToken>> ReadTokens(const wire::pb::RequestEvent& message);

// In pieces of whole rows, so that none is much longer than `piece_bytes`.
void AddRows(const swarm::EmitLogits& rows, size_t piece_bytes,
             std::deque<wire::pb::RequestEvent::HeadRows>& out);
Result<swarm::EmitLogits> ReadRows(const wire::pb::RequestEvent::HeadRows& message);

wire::pb::SessionTrace ToMessage(const swarm::SessionTrace& trace);
swarm::SessionTrace FromMessage(const wire::pb::SessionTrace& message);
wire::pb::RequestEvent::RequestProgress ToMessage(const swarm::RequestProgress& progress);
swarm::RequestProgress FromMessage(const wire::pb::RequestEvent::RequestProgress& message);

wire::pb::RequestEnd ToMessage(const swarm::FinishRequest& end);
// REQUIRES: its reason is none of LEADS_NO_MORE. Reasons and codes that nobody knows are errors.
swarm::FinishRequest FromMessage(const wire::pb::RequestEnd& message);

}  // namespace weft::server
