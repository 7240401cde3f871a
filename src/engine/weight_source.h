// Where an engine reads weights from: a package on disk, a worker's blob cache, or memory in tests.
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "program/ir.h"

namespace weft::engine {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // The bytes of one part, verified against the blob's digest at some point before they are
  // returned (SECURITY.md 6). The slice keeps them alive. kNotFound names the blob.
  virtual Result<Slice> Read(const program::Part& part) = 0;
};

}  // namespace weft::engine
