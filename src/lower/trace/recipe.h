// How the weights of a traced program come out of the constants of the graph: the tracer says it,
// src/convert does it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::lower {

// How a weight of a program is made of the constants of the graph.
struct WeightRecipe {
  enum class Form {
    kPlain,       // as `data` lies there
    kTransposed,  // `data` [.., K, N] with its last two axes exchanged
    kBlocks,      // MatMulNBits' arrays: blocks of `block_size` values become blocks of 32
    kMade,        // `values`
  };
  Form form = Form::kPlain;
  std::string data, scale, zero;  // initializers; "": none
  int64_t block_size = 0;
  // Each expert's rows are those of gate and up interleaved; the weight has gate first, up below.
  bool interleaved = false;
  std::vector<float> values;
  bool operator==(const WeightRecipe&) const = default;
};

}  // namespace weft::lower
