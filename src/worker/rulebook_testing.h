// The words of tests/conformance/membership (its README.md has the vocabulary): what a membership
// asks for as JSON, and messages and outcomes from it. The counterparts in TypeScript are
// rulebookWords.ts and rulebookFrames.ts in web/packages/worker/src/test.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/membership_events.h"

namespace weft::worker {

// The member of an object, or null where it has none.
const boost::json::value& At(const boost::json::value& words, const char* name);
uint32_t Number(const boost::json::value& words, const char* name, uint32_t otherwise = 0);
std::string TextOf(const boost::json::value& words);

// An error with the code of that name.
Error ErrorOf(const boost::json::value& code);

// The Init of these tests with changes, as a control message.
std::vector<uint8_t> InitBytes(const boost::json::value& changes);
// A message of a server that is called so; {"server": ...} is a control message.
std::vector<uint8_t> MessageBytes(const std::string& name, const boost::json::value& words);

// nullopt: not in the vocabulary, since it is between membership and what reads layers.
std::optional<boost::json::value> WordOf(const Action& action);

// What work comes to that succeeds, with the details that a case gives.
class PlayedWork {
 public:
  // Notes what the outcome repeats of it.
  explicit PlayedWork(const Work& work);
  Outcome Of(const boost::json::value& details) const;

 private:
  std::vector<wire::ExpertFrame> dispatches_;
  std::vector<wire::Generate> generates_;
  std::vector<LayerRange> measured_;
  std::vector<wire::pb::HeldBinding> bindings_;
  Outcome plain_ = Done{};
};

}  // namespace weft::worker
