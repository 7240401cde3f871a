#include "convert/weights/expert_specs.h"

namespace weft::convert {
namespace {

// How a checkpoint writes the experts of a layer under "<block>.experts.". width = columns of an
// expert.
enum class Spelling {
  kSeparate,  // <n>.gate_proj.weight, up_proj, down_proj: Qwen
  kNumbered,  // <n>.w1.weight (gate), w2 (down), w3 (up): Mixtral
  kStacked,   // gate_up_proj [n, 2 * width, hidden], down_proj [n, hidden, width]: transformers 5
  kStackedSeparate,  // gate_proj and up_proj [n, width, hidden], down_proj as above: GGUF; without
                     // gates up_proj alone
  kInterleaved,  // gate_up_proj [n, hidden, 2 * width], gate and up columns interleaved, down_proj
                 // [n, width, hidden]: gpt-oss
  kMxfp4,  // gate_up_proj_blocks, _scales (rows interleaved), down_proj_blocks, _scales: gpt-oss
};

class ExpertPlanner {
 public:
  ExpertPlanner(const ModelConfig& config, uint32_t layer, const TensorMap& tensors)
      : config_(config),
        layer_(layer),
        experts_(config.experts.count),
        width_(config.experts.columns),
        hidden_(config.hidden_columns) {
    const std::string prefix = LayerPrefix(layer);
    // Mixtral's name for the block; transformers 5 may write the other one.
    const bool is_mixtral = tensors.contains(prefix + "block_sparse_moe.gate.weight");
    block_ = prefix + (is_mixtral ? "block_sparse_moe." : "mlp.");
    router_ = block_ + (tensors.contains(block_ + "router.weight") ? "router" : "gate");
    stack_ = block_ + "experts.";
    if (config.experts.beside_mlp) {
      router_ = prefix + "router.proj";
      stack_ = prefix + "experts.";
      factors_ = prefix + "router.per_expert_scale";
    }
    spelling_ = FindSpelling(tensors);
    is_stacked_up_ = tensors.contains(stack_ + "up_proj");
    if (is_stacked_up_ && !config.has_gates()) spelling_ = Spelling::kStackedSeparate;
  }

  void AddRouter(std::vector<WeightSpec>* weights) const {
    const std::string name = LayerPrefix(layer_) + "mlp.router";
    weights->push_back({name + ".weight",
                        WeightRole::kRouter,
                        {experts_, hidden_},
                        {{router_ + ".weight", {experts_, hidden_}, experts_, hidden_}},
                        0,
                        {}});
    const auto vector = [&](const char* own, const char* tensor) {
      weights->push_back({name + own,
                          WeightRole::kVector,
                          {experts_},
                          {{router_ + tensor, {experts_}, 1, experts_}},
                          0,
                          {}});
    };
    if (config_.experts.router_bias) vector(".bias", ".bias");
    if (config_.experts.choice_bias) vector(".choice_bias", ".e_score_correction_bias");
  }

  void AddExpert(uint32_t expert, std::vector<WeightSpec>* weights) const {
    const std::string prefix = ExpertPrefix(layer_, expert);
    const auto add = [&](const char* name, WeightRole role, std::vector<uint64_t> shape,
                         std::vector<SourcePiece> pieces) {
      weights->push_back({prefix + name, role, std::move(shape), std::move(pieces), 0, prefix});
    };
    const uint64_t rows = config_.has_gates() ? 2 * width_ : width_;
    add("gate_up_proj.weight", WeightRole::kExpert, {rows, hidden_}, GateUp(expert));
    std::vector<SourcePiece> down = Down(expert);
    if (!factors_.empty()) {
      down[0].factors = factors_;
      down[0].factor_count = experts_;
      down[0].factor_index = expert;
    }
    add("down_proj.weight", WeightRole::kExpert, {hidden_, width_}, std::move(down));
    if (!config_.experts.bias) return;
    add("down_proj.bias", WeightRole::kVector, {hidden_},
        {{stack_ + "down_proj_bias", {experts_, hidden_}, 1, hidden_, expert}});
    if (spelling_ == Spelling::kStackedSeparate) {
      add("gate_up_proj.bias", WeightRole::kVector, {2 * width_},
          {{stack_ + "gate_proj_bias", {experts_, width_}, 1, width_, expert},
           {stack_ + "up_proj_bias", {experts_, width_}, 1, width_, expert}});
      return;
    }
    // [n, 2 * width] with gate and up interleaved, read as a matrix of one column.
    const std::string gate_up = stack_ + "gate_up_proj_bias";
    add("gate_up_proj.bias", WeightRole::kVector, {2 * width_},
        {{gate_up, {experts_, 2 * width_}, width_, 1, expert * 2 * width_, 2},
         {gate_up, {experts_, 2 * width_}, width_, 1, expert * 2 * width_ + 1, 2}});
  }

 private:
  Spelling FindSpelling(const TensorMap& tensors) const {
    if (tensors.contains(stack_ + "gate_up_proj_blocks")) return Spelling::kMxfp4;
    if (tensors.contains(stack_ + "gate_up_proj")) {
      return config_.architecture == "gpt_oss" ? Spelling::kInterleaved : Spelling::kStacked;
    }
    if (tensors.contains(stack_ + "gate_proj")) return Spelling::kStackedSeparate;
    return tensors.contains(stack_ + "0.w1.weight") ? Spelling::kNumbered : Spelling::kSeparate;
  }

  std::string Numbered(uint32_t expert, const char* name) const {
    return stack_ + std::to_string(expert) + "." + name + ".weight";
  }

  // All of tensor [rows, columns].
  static SourcePiece Whole(std::string tensor, uint64_t rows, uint64_t columns) {
    return {std::move(tensor), {rows, columns}, rows, columns};
  }

  std::vector<SourcePiece> GateUp(uint32_t expert) const {
    const uint64_t first = uint64_t{expert} * 2 * width_;
    const std::string both = stack_ + "gate_up_proj";
    if (!config_.has_gates()) return {Up(expert)};
    switch (spelling_) {
      case Spelling::kSeparate:
        return {Whole(Numbered(expert, "gate_proj"), width_, hidden_),
                Whole(Numbered(expert, "up_proj"), width_, hidden_)};
      case Spelling::kNumbered:
        return {Whole(Numbered(expert, "w1"), width_, hidden_),
                Whole(Numbered(expert, "w3"), width_, hidden_)};
      case Spelling::kStacked:
        return {{both, {experts_, 2 * width_, hidden_}, 2 * width_, hidden_, first}};
      case Spelling::kStackedSeparate: {
        const std::vector<uint64_t> shape = {experts_, width_, hidden_};
        return {{stack_ + "gate_proj", shape, width_, hidden_, expert * width_},
                {stack_ + "up_proj", shape, width_, hidden_, expert * width_}};
      }
      case Spelling::kInterleaved: {
        const std::vector<uint64_t> shape = {experts_, hidden_, 2 * width_};
        return {{both, shape, width_, hidden_, 0, 2, true, expert},
                {both, shape, width_, hidden_, 1, 2, true, expert}};
      }
      case Spelling::kMxfp4: {
        const std::vector<uint64_t> shape = {experts_, 2 * width_, hidden_ / kBlockValues, 16};
        const std::string blocks = both + "_blocks", scales = both + "_scales";
        return {{blocks, shape, width_, hidden_, first, 2, false, 0, scales},
                {blocks, shape, width_, hidden_, first + 1, 2, false, 0, scales}};
      }
    }
    CHECK(false, "unknown spelling");
  }

  // Of experts without a gate: one matrix each, or all in one tensor.
  SourcePiece Up(uint32_t expert) const {
    if (!is_stacked_up_) return Whole(Numbered(expert, "up_proj"), width_, hidden_);
    return {stack_ + "up_proj", {experts_, width_, hidden_}, width_, hidden_, expert * width_};
  }

  std::vector<SourcePiece> Down(uint32_t expert) const {
    const uint64_t first = uint64_t{expert} * hidden_;
    const std::string stacked = stack_ + "down_proj";
    switch (spelling_) {
      case Spelling::kSeparate:
        return {Whole(Numbered(expert, "down_proj"), hidden_, width_)};
      case Spelling::kNumbered:
        return {Whole(Numbered(expert, "w2"), hidden_, width_)};
      case Spelling::kStacked:
      case Spelling::kStackedSeparate:
        return {{stacked, {experts_, hidden_, width_}, hidden_, width_, first}};
      case Spelling::kInterleaved:
        return {{stacked, {experts_, width_, hidden_}, hidden_, width_, 0, 1, true, expert}};
      case Spelling::kMxfp4:
        return {{stacked + "_blocks",
                 {experts_, hidden_, width_ / kBlockValues, 16},
                 hidden_,
                 width_,
                 first,
                 1,
                 false,
                 0,
                 stacked + "_scales"}};
    }
    CHECK(false, "unknown spelling");
  }

  const ModelConfig& config_;
  uint32_t layer_;
  uint64_t experts_, width_, hidden_;
  std::string block_, router_, stack_;
  std::string factors_;  // of the experts' results; "": none
  Spelling spelling_ = Spelling::kSeparate;
  bool is_stacked_up_ = false;
};

}  // namespace

void SpecifyExperts(const ModelConfig& config, uint32_t layer, const TensorMap& tensors,
                    std::vector<WeightSpec>* weights) {
  const ExpertPlanner planner(config, layer, tensors);
  planner.AddRouter(weights);
  for (uint32_t expert = 0; expert < config.experts.count; ++expert) {
    planner.AddExpert(expert, weights);
  }
}

}  // namespace weft::convert
