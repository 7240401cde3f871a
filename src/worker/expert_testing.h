// Dispatches for tests.
#pragma once

#include <vector>

#include "wire/expert_frame.h"

namespace weft::worker {

// One row of one column.
inline wire::ExpertFrame Dispatch(uint32_t sequence, uint16_t layer, uint16_t expert) {
  wire::ExpertFrame frame;
  frame.sequence = sequence;
  frame.layer = layer;
  frame.expert = expert;
  frame.tokens = frame.hidden = 1;
  frame.rows = Slice(std::vector<uint8_t>(4));
  return frame;
}

}  // namespace weft::worker
