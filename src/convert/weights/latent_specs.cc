#include "convert/weights/latent_specs.h"

#include <string>

namespace weft::convert {
namespace {

class LatentSpecs {
 public:
  LatentSpecs(const ModelConfig& config, uint32_t layer, const TensorMap& tensors,
              std::vector<WeightSpec>* weights)
      : latent_(*config.latent),
        hidden_(config.hidden_columns),
        heads_(config.heads),
        prefix_(LayerPrefix(layer) + "self_attn."),
        is_split_(tensors.contains(prefix_ + "k_b_proj.weight")),
        weights_(weights) {}

  void Add() {
    AddQuery();
    AddKey();
    AddHeads();
    const uint64_t width = heads_ * latent_.value;
    Push("o_proj.weight", WeightRole::kMatrix, {hidden_, width},
         {{prefix_ + "o_proj.weight", {hidden_, width}, hidden_, width}});
    if (latent_.bias) Vector("o_proj.bias", hidden_);
  }

 private:
  void Push(const std::string& name, WeightRole role, std::vector<uint64_t> shape,
            std::vector<SourcePiece> pieces) {
    weights_->push_back({prefix_ + name, role, std::move(shape), std::move(pieces), 0, {}});
  }
  void Vector(const std::string& name, uint64_t columns) {
    Push(name, WeightRole::kVector, {columns}, {{prefix_ + name, {columns}, 1, columns}});
  }

  // Rows [first, first + rows) of every head's stretch in `tensor`.
  void OfHeads(const std::string& name, const std::string& tensor, uint64_t stretch, uint64_t first,
               uint64_t rows, uint64_t columns) {
    std::vector<SourcePiece> pieces;
    for (uint64_t head = 0; head < heads_; ++head) {
      pieces.push_back(
          {prefix_ + tensor, {heads_ * stretch, columns}, rows, columns, head * stretch + first});
    }
    Push(name, WeightRole::kMatrix, {heads_ * rows, columns}, std::move(pieces));
  }

  // A head's rows are [plain | rotated].
  void AddQuery() {
    const uint64_t stretch = latent_.nope + latent_.rope, rank = latent_.query_rank;
    if (rank > 0) {
      Push("q_a_proj.weight", WeightRole::kMatrix, {rank, hidden_},
           {{prefix_ + "q_a_proj.weight", {rank, hidden_}, rank, hidden_}});
      if (latent_.bias) Vector("q_a_proj.bias", rank);
      Vector("q_a_layernorm.weight", rank);
    }
    const std::string tensor = rank > 0 ? "q_b_proj.weight" : "q_proj.weight";
    const uint64_t columns = rank > 0 ? rank : hidden_;
    OfHeads("q_b_nope.weight", tensor, stretch, 0, latent_.nope, columns);
    OfHeads("q_b_rope.weight", tensor, stretch, latent_.nope, latent_.rope, columns);
  }

  // [latent | rotated] becomes [rotated | latent].
  void AddKey() {
    const uint64_t rank = latent_.rank, rope = latent_.rope, rows = rank + rope;
    const std::string tensor = prefix_ + "kv_a_proj_with_mqa";
    Push("kv_a_proj.weight", WeightRole::kMatrix, {rows, hidden_},
         {{tensor + ".weight", {rows, hidden_}, rope, hidden_, rank},
          {tensor + ".weight", {rows, hidden_}, rank, hidden_, 0}});
    if (latent_.bias) {
      // Read as a matrix of one column.
      Push("kv_a_proj.bias", WeightRole::kVector, {rows},
           {{tensor + ".bias", {rows}, rope, 1, rank}, {tensor + ".bias", {rows}, rank, 1, 0}});
    }
    Vector("kv_a_layernorm.weight", rank);
  }

  // kv_b_proj has [keys | values] a head, of `rank` columns. Queries are multiplied with the
  // transpose of the first.
  void AddHeads() {
    const uint64_t stretch = latent_.nope + latent_.value, rank = latent_.rank;
    if (is_split_) {
      Push("k_b_proj.weight", WeightRole::kMatrix, {heads_ * rank, latent_.nope},
           {{prefix_ + "k_b_proj.weight",
             {heads_, rank, latent_.nope},
             heads_ * rank,
             latent_.nope}});
      Push("v_b_proj.weight", WeightRole::kMatrix, {heads_ * latent_.value, rank},
           {{prefix_ + "v_b_proj.weight",
             {heads_, latent_.value, rank},
             heads_ * latent_.value,
             rank}});
      return;
    }
    std::vector<SourcePiece> keys;
    for (uint64_t head = 0; head < heads_; ++head) {
      SourcePiece piece{prefix_ + "kv_b_proj.weight", {heads_ * stretch, rank}, rank, latent_.nope};
      piece.transposed = true;
      piece.matrix = head;
      piece.matrix_rows = stretch;
      keys.push_back(std::move(piece));
    }
    Push("k_b_proj.weight", WeightRole::kMatrix, {heads_ * rank, latent_.nope}, std::move(keys));
    OfHeads("v_b_proj.weight", "kv_b_proj.weight", stretch, latent_.nope, latent_.value, rank);
  }

  const LatentConfig& latent_;
  const uint64_t hidden_, heads_;
  const std::string prefix_;
  const bool is_split_;  // k_b_proj and v_b_proj instead of kv_b_proj: GGUF
  std::vector<WeightSpec>* const weights_;
};

}  // namespace

void SpecifyLatent(const ModelConfig& config, uint32_t layer, const TensorMap& tensors,
                   std::vector<WeightSpec>* weights) {
  LatentSpecs(config, layer, tensors, weights).Add();
}

}  // namespace weft::convert
