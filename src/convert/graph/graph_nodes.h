// The nodes that decoders are made of, in a graph that is being written. Every method returns the
// name of the value that it computes; a node called "/a/b" writes "/a/b/output_0".
#pragma once

#include <string>
#include <vector>

#include "convert/weights/stored_weight.h"
#include "onnx/graph.h"

namespace weft::convert {

inline constexpr char kMicrosoft[] = "com.microsoft";
// Operators with recurrent state, which onnxruntime has not (recurrent_nodes.h).
inline constexpr char kWeft[] = "weft";

class GraphNodes {
 public:
  // `weights` outlives the object.
  explicit GraphNodes(const StoredWeights& weights) : weights_(weights) {}

  onnx::Graph& graph() { return graph_; }

  std::string Node(const std::string& name, const std::string& op, std::vector<std::string> inputs,
                   std::vector<onnx::Attribute> attributes = {}, const std::string& domain = "");
  // Initializers, each made once; they return their name.
  std::string Constant(const std::string& name, std::vector<int64_t> dims,
                       std::initializer_list<int64_t> values);
  std::string Scalar(const std::string& name, float value);
  // Bytes of a blob. REQUIRES: as many as type and dims need.
  std::string External(const std::string& name, onnx::ElementType type, std::vector<int64_t> dims,
                       const StoredArray& array);

  // REQUIRES: there is one of that name.
  const StoredWeight& Weight(const std::string& name) const;
  // The weight in its plain dtype.
  std::string Plain(const std::string& name);
  // A plain weight as a float value; `node` names the Cast if one is needed.
  std::string FloatWeight(const std::string& name, const std::string& node);
  // The scales of a block-format matrix, stored as f16 and cast: onnxruntime takes no f16 scales
  // with f32 activations.
  std::string Scales(const std::string& name, const std::string& node);

  std::string ToFloat(const std::string& node, const std::string& value);
  // x W^T (+ bias). `path` is of "<path>.weight" and "<path>.bias".
  std::string Linear(const std::string& node, const std::string& x, const std::string& path,
                     bool has_bias);
  std::string RmsNorm(const std::string& node, const std::string& x, const std::string& weight,
                      float epsilon);
  // Without bias.
  std::string LayerNorm(const std::string& node, const std::string& x, const std::string& weight,
                        float epsilon);
  // The norm of each head of `head_columns` of x [1, S, columns], with one weight for all heads.
  std::string HeadNorm(const std::string& node, const std::string& x, const std::string& weight,
                       uint64_t columns, uint64_t head_columns, float epsilon);
  // Columns [first, first + count) of x.
  std::string Columns(const std::string& node, const std::string& x, uint64_t first,
                      uint64_t count);
  // cap * tanh(x / cap)
  std::string Softcap(const std::string& node, const std::string& x, float cap);

 private:
  const StoredWeights& weights_;
  onnx::Graph graph_;
};

// Bits of a value of a block format.
constexpr int BlockBits(DType dtype) {
  return dtype == DType::kQ8 ? 8 : 4;
}

// Bytes of a row's records of superblocks (tensor/dtype.h). Operators of onnxruntime have them in
// place of scales, and their number says the form: a graph that has any is read by our lowering
// alone.
constexpr uint64_t RecordBytes(DType dtype, int64_t columns) {
  return 2 * static_cast<uint64_t>(ScaleWords(dtype, columns));
}

std::vector<int64_t> Dims(std::initializer_list<uint64_t> values);

}  // namespace weft::convert
