#include "convert/model/sparse_families.h"

#include "convert/model/adjust.h"
#include "program/ir.h"

namespace weft::convert {
namespace {

Error WrongGroups(const ExpertConfig& experts) {
  return Error(ErrorCode::kInvalidData,
               "config.json chooses " + std::to_string(experts.chosen) + " of " +
                   std::to_string(experts.count) + " experts in 'topk_group' " +
                   std::to_string(experts.top_groups) + " of 'n_group' " +
                   std::to_string(experts.groups) +
                   " groups; expected groups of equal size, of which the chosen ones have enough "
                   "experts.");
}

// `n_group`, `topk_group`: a group is worth the sum of its `best` best experts.
Status SetGroups(const JsonReader& config, uint32_t best, ExpertConfig* experts) {
  constexpr uint64_t kMost = program::kMaxRouteGroups;
  ASSIGN_OR_RETURN(const uint64_t groups, config.Whole("n_group", 1, kMost, 1));
  ASSIGN_OR_RETURN(const uint64_t top_groups, config.Whole("topk_group", 1, kMost, 1));
  experts->groups = static_cast<uint32_t>(groups);
  experts->top_groups = static_cast<uint32_t>(top_groups);
  if (groups == 1) {
    experts->top_groups = 1;
    return OkStatus();
  }
  experts->group_best = best;
  const uint64_t members = experts->count / groups;
  const bool fits = experts->count % groups == 0 && members >= best && top_groups <= groups &&
                    experts->chosen <= top_groups * members;
  return fits ? OkStatus() : WrongGroups(*experts);
}

// Experts of `moe_intermediate_size` columns behind `first_k_dense_replace` dense layers, and some
// more of that width that every row goes to.
Status SetSparseLayers(const JsonReader& config, uint64_t shared_if_absent, ModelConfig* model) {
  ASSIGN_OR_RETURN(const uint64_t columns, config.Whole("moe_intermediate_size", 1, 1 << 22));
  TRY(SetExperts(config, columns, model));
  ASSIGN_OR_RETURN(const uint64_t dense,
                   config.Whole("first_k_dense_replace", 0, model->layer_count));
  for (uint32_t i = 0; i < dense; ++i) model->sparse[i] = false;
  ASSIGN_OR_RETURN(const uint64_t shared,
                   config.Whole("n_shared_experts", 0, 1 << 8, shared_if_absent));
  if (shared * columns > (1 << 22)) {
    return Error(ErrorCode::kInvalidData, "config.json has " + std::to_string(shared) +
                                              " 'n_shared_experts' of " + std::to_string(columns) +
                                              " columns; at most 2^22 in all.");
  }
  model->experts.shared_columns = static_cast<uint32_t>(shared * columns);
  ASSIGN_OR_RETURN(const double scale, config.Real("routed_scaling_factor", 1e-6, 1e6, 1));
  model->experts.scale = static_cast<float>(scale);
  return OkStatus();
}

// DeepSeek-V3's choice: sigmoids with a bias, the best groups by their two best experts.
Status SetSigmoidChoice(const JsonReader& config, ModelConfig* model) {
  ExpertConfig& experts = model->experts;
  experts.sigmoid = experts.choice_bias = true;
  ASSIGN_OR_RETURN(experts.normalized, config.Bool("norm_topk_prob", true));
  return SetGroups(config, 2, &experts);
}

}  // namespace

Status AdjustGlm4Moe(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(model->qkv_bias, config.Bool("attention_bias", false));
  ASSIGN_OR_RETURN(const bool has_norm, config.Bool("use_qk_norm", false));
  if (has_norm) model->qk_norm = QkNorm::kHead;
  TRY(SetSparseLayers(config, 1, model));
  return SetSigmoidChoice(config, model);
}

}  // namespace weft::convert
