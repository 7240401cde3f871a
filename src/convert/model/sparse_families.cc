#include "convert/model/sparse_families.h"

#include <algorithm>
#include <cmath>

#include "convert/model/adjust.h"
#include "program/ir.h"

namespace weft::convert {
namespace {

namespace json = boost::json;

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

// `mlp_layer_types`: "dense" or "sparse" of every layer.
Status SetLayerTypes(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const json::array* types, config.Array("mlp_layer_types"));
  if (types == nullptr) return OkStatus();
  if (types->size() != model->layer_count()) {
    return Error(ErrorCode::kInvalidData, "'mlp_layer_types' in config.json has " +
                                              std::to_string(types->size()) + " entries for " +
                                              std::to_string(model->layer_count()) + " layers.");
  }
  for (uint32_t i = 0; i < model->layer_count(); ++i) {
    model->layers[i].has_experts = (*types)[i] == "sparse";
    if (model->layers[i].has_experts || (*types)[i] == "dense") continue;
    return Error(ErrorCode::kUnsupported, "'mlp_layer_types' in config.json names " +
                                              Excerpt((*types)[i]) + "; expected dense or sparse.");
  }
  return OkStatus();
}

// Experts of `moe_intermediate_size` columns behind `first_k_dense_replace` dense layers, and some
// more of that width that every row goes to.
Status SetSparseLayers(const JsonReader& config, uint64_t shared_if_absent, ModelConfig* model) {
  ASSIGN_OR_RETURN(const uint64_t columns, config.Whole("moe_intermediate_size", 1, 1 << 22));
  TRY(SetExperts(config, columns, model));
  ASSIGN_OR_RETURN(const uint64_t dense,
                   config.Whole("first_k_dense_replace", 0, model->layer_count()));
  for (uint32_t i = 0; i < dense; ++i) model->layers[i].has_experts = false;
  TRY(SetLayerTypes(config, model));
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

// What yarn multiplies queries and keys with, both times (`mscale_all_dim`).
Result<double> ScoreGrowth(const JsonReader& config) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    ASSIGN_OR_RETURN(const json::object* rope, config.Object(name));
    if (rope == nullptr) continue;
    const JsonReader reader(*rope, "'" + std::string(name) + "' in config.json");
    ASSIGN_OR_RETURN(const double share, reader.Real("mscale_all_dim", 0, 1e3, 0));
    ASSIGN_OR_RETURN(const double factor, reader.Real("factor", 1e-3, 1e6, 1));
    return share == 0 || factor <= 1 ? 1.0 : 0.1 * share * std::log(factor) + 1;
  }
  return 1.0;
}

// REQUIRES: `config` has defaults for what files may leave out.
Status SetLatent(const JsonReader& config, ModelConfig* model) {
  LatentConfig latent;
  const auto read = [&](std::string_view key, uint64_t least, uint32_t* out,
                        std::optional<uint64_t> if_absent = std::nullopt) -> Status {
    ASSIGN_OR_RETURN(const uint64_t value, config.Whole(key, least, 1 << 14, if_absent));
    *out = static_cast<uint32_t>(value);
    return OkStatus();
  };
  TRY(read("q_lora_rank", 1, &latent.query_rank, 0));
  TRY(read("kv_lora_rank", 1, &latent.rank));
  TRY(read("qk_nope_head_dim", 1, &latent.nope));
  TRY(read("qk_rope_head_dim", 2, &latent.rope));
  TRY(read("v_head_dim", 1, &latent.value));
  ASSIGN_OR_RETURN(latent.bias, config.Bool("attention_bias", false));
  const uint64_t widest = std::max(latent.rope + latent.rank, latent.nope + latent.value);
  if (latent.rope % 2 != 0 || model->heads * widest > (1 << 22)) {
    return Error(ErrorCode::kInvalidData,
                 "config.json has " + std::to_string(model->heads) +
                     " heads with a 'kv_lora_rank' " + "of " + std::to_string(latent.rank) +
                     " and a 'qk_rope_head_dim' of " + std::to_string(latent.rope) +
                     "; expected an even number of rotated columns, " +
                     "and at most 2^22 columns in all.");
  }
  ASSIGN_OR_RETURN(model->interleaved_pairs, config.Bool("rope_interleave", true));
  ASSIGN_OR_RETURN(Ropes ropes, ReadRopes(config, latent.rope, model->context_length));
  model->rope = std::move(ropes.rope);
  model->local_rope.reset();
  model->attention_scale = 1 / std::sqrt(static_cast<float>(latent.nope + latent.rope));
  model->head_columns = latent.rope + latent.rank;
  model->kv_heads = 1;
  model->latent = latent;
  return OkStatus();
}

Status GrowScores(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const double growth, ScoreGrowth(config));
  model->attention_scale *= static_cast<float>(growth * growth);
  return OkStatus();
}

}  // namespace

Status SetSigmoidChoice(const JsonReader& config, ModelConfig* model) {
  ExpertConfig& experts = model->experts;
  experts.sigmoid = experts.choice_bias = true;
  ASSIGN_OR_RETURN(experts.normalized, config.Bool("norm_topk_prob", true));
  return SetGroups(config, 2, &experts);
}

Status AdjustGlm4MoeLite(const JsonReader& config, ModelConfig* model) {
  TRY(SetLatent(config, model));
  TRY(GrowScores(config, model));
  TRY(SetSparseLayers(config, 1, model));
  return SetSigmoidChoice(config, model);
}

Status AdjustDeepseekV3(const JsonReader& config, ModelConfig* model) {
  return AdjustGlm4MoeLite(config, model);
}

Status AdjustDeepseekV2(const JsonReader& config, ModelConfig* model) {
  TRY(SetLatent(config, model));
  TRY(GrowScores(config, model));
  TRY(SetSparseLayers(config, 2, model));
  ExpertConfig& experts = model->experts;
  ASSIGN_OR_RETURN(const bool divides, config.Bool("norm_topk_prob", false));
  ASSIGN_OR_RETURN(const bool mlp_bias, config.Bool("mlp_bias", false));
  if (divides || mlp_bias) {
    return Error(ErrorCode::kUnsupported, std::string("config.json of a deepseek_v2 sets '") +
                                              (divides ? "norm_topk_prob" : "mlp_bias") +
                                              "'; weft converts those without.");
  }
  experts.normalized = false;
  ASSIGN_OR_RETURN(const std::string method, config.Text("topk_method", "greedy"));
  if (method == "greedy") return OkStatus();
  if (method == "group_limited_greedy") return SetGroups(config, 1, &experts);
  return Error(ErrorCode::kUnsupported, "'topk_method' in config.json is '" + Printable(method) +
                                            "'; expected greedy or group_limited_greedy.");
}

Status AdjustMistral4(const JsonReader& config, ModelConfig* model) {
  TRY(SetLatent(config, model));
  TRY(SetSparseLayers(config, 1, model));
  ASSIGN_OR_RETURN(model->experts.normalized, config.Bool("norm_topk_prob", true));
  TRY(SetGroups(config, 2, &model->experts));
  return EndWhereQueriesGrow(config, model);
}

Status AdjustGlm4Moe(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(model->qkv_bias, config.Bool("attention_bias", false));
  ASSIGN_OR_RETURN(const bool has_norm, config.Bool("use_qk_norm", false));
  if (has_norm) model->qk_norm = QkNorm::kHead;
  TRY(SetSparseLayers(config, 1, model));
  return SetSigmoidChoice(config, model);
}

}  // namespace weft::convert
