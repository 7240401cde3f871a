// Multi-head latent attention in absorbed form (LatentConfig), in operators of the domain "weft"
// beside the standard ones:
//
//   LatentQuery      plain [1, S, heads * nope], source [1, S, columns], then two matrices, each
//                    followed by its f16 scales or nothing: rows [heads * rope, columns] of the
//                    rotated part, [heads * rank, nope] of the latent part
//                    -> [1, S, heads * (rope + rank)], not rotated; attributes heads, rope, rank
//   LatentKey        x [1, S, rope + rank], norm weight [rank] -> the same with the latent normed
//                    attribute epsilon
//   LatentAttention  q, k, past -> y [1, S, heads * value_columns], present
//                    values are the last columns of keys, of one head; attributes heads,
//                    value_columns, scale
//   HeadMatMul       x [1, S, heads * columns], matrix [heads * rows, columns], scales or nothing
//                    -> [1, S, heads * rows]: each head by its own rows; attribute heads
#pragma once

#include <string>

#include "convert/graph/graph_nodes.h"
#include "convert/model/model_config.h"

namespace weft::convert {

// The attention of one layer. `node` is the path of the nodes, `path` that of the weights.
class LatentNodes {
 public:
  LatentNodes(const ModelConfig& config, std::string node, std::string path, uint32_t index,
              GraphNodes* nodes)
      : config_(config),
        latent_(*config.latent),
        node_(std::move(node)),
        path_(std::move(path)),
        index_(index),
        nodes_(*nodes) {}

  // x [1, S, hidden] -> queries and keys, which the caller rotates.
  std::string Query(const std::string& x);
  std::string Key(const std::string& x);
  // What attention adds to the stream.
  std::string Attend(const std::string& q, const std::string& k);

 private:
  // The matrix `name` and its scales, which may be none.
  std::vector<std::string> Matrix(const std::string& name);

  const ModelConfig& config_;
  const LatentConfig& latent_;
  const std::string node_, path_;
  const uint32_t index_;
  GraphNodes& nodes_;
};

}  // namespace weft::convert
