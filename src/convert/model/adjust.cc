#include "convert/model/adjust.h"

namespace weft::convert {

Result<uint32_t> Window(const JsonReader& config) {
  ASSIGN_OR_RETURN(const uint64_t window, config.Whole("sliding_window", 0, 1 << 30, 0));
  return static_cast<uint32_t>(window);
}

Status SetAttentionBias(const JsonReader& config, bool if_absent, ModelConfig* model) {
  ASSIGN_OR_RETURN(const bool bias, config.Bool("attention_bias", if_absent));
  model->qkv_bias = model->output_bias = bias;
  return OkStatus();
}

Status SetExperts(const JsonReader& config, uint64_t columns, ModelConfig* model) {
  constexpr uint64_t kMaxExperts = 4096;
  const char* count_name = config.Has("num_experts")        ? "num_experts"
                           : config.Has("n_routed_experts") ? "n_routed_experts"
                                                            : "num_local_experts";
  ASSIGN_OR_RETURN(const uint64_t count, config.Whole(count_name, 1, kMaxExperts));
  if (count * model->layer_count() > (1 << 16)) {
    return Error(ErrorCode::kInvalidData,
                 "config.json has " + std::to_string(model->layer_count()) + " layers of " +
                     std::to_string(count) + " experts; at most 2^16 experts in all.");
  }
  const char* chosen_name = config.Has("num_experts_per_tok") ? "num_experts_per_tok"
                            : config.Has("top_k_experts")     ? "top_k_experts"
                                                              : "experts_per_token";
  ASSIGN_OR_RETURN(const uint64_t chosen, config.Whole(chosen_name, 1, count));
  model->experts.count = static_cast<uint32_t>(count);
  model->experts.chosen = static_cast<uint32_t>(chosen);
  model->experts.columns = static_cast<uint32_t>(columns);
  for (LayerConfig& layer : model->layers) layer.has_experts = true;
  return OkStatus();
}

Status AdjustMistral(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const uint32_t window, Window(config));
  for (LayerConfig& layer : model->layers) layer.window = window;
  return OkStatus();
}

}  // namespace weft::convert
