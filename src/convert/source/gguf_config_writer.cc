#include "convert/source/gguf_config_writer.h"

#include <algorithm>
#include <cmath>

#include "convert/source/json_reader.h"
#include "tensor/blocks.h"

namespace weft::convert {

namespace json = boost::json;

Result<std::vector<uint64_t>> ConfigWriter::ByLayer(std::string_view name, uint64_t count) const {
  ASSIGN_OR_RETURN(const std::vector<double> numbers, metadata().Numbers(Key(name)));
  std::vector<uint64_t> values;
  for (const double number : numbers) {
    if (!(number >= 0 && number <= kMostOfGguf && number == std::floor(number))) break;
    values.push_back(static_cast<uint64_t>(number));
  }
  if (values.size() == 1) values.resize(count, values[0]);
  if (values.size() >= count && values.size() >= numbers.size()) {
    values.resize(count);
    return values;
  }
  return Error(ErrorCode::kInvalidData, "'" + Key(name) + "' of '" + model_.file + "' has " +
                                            std::to_string(numbers.size()) +
                                            " numbers; expected whole ones up to " +
                                            std::to_string(kMostOfGguf) + ", one for each of " +
                                            std::to_string(count) + " layers.");
}

Result<uint64_t> ConfigWriter::Least(std::string_view name, uint64_t most) const {
  if (kind_of_layers_ == GgufLayers::kAlike) return metadata().Whole(Key(name), 1, most);
  ASSIGN_OR_RETURN(std::vector<uint64_t> values, ByLayer(name, layers_));
  if (kind_of_layers_ == GgufLayers::kHybrid) std::erase(values, 0);
  const uint64_t least = values.empty() ? 0 : *std::min_element(values.begin(), values.end());
  if (least >= 1 && least <= most) return least;
  return Error(ErrorCode::kInvalidData, "'" + Key(name) + "' of '" + model_.file + "' holds " +
                                            std::to_string(least) + "; expected 1 to " +
                                            std::to_string(most) + ".");
}

Result<uint64_t> ConfigWriter::TurningPairs(const std::string& name, uint64_t columns) const {
  const auto found = model_.tensors.find(name);
  std::vector<float> values;
  if (found != model_.tensors.end() && found->second.format == RowFormat::kF32 &&
      found->second.shape == std::vector<uint64_t>{columns / 2}) {
    values.resize(columns / 2);
    ToF32(DType::kF32, found->second.bytes.bytes().data(), values);
  }
  uint64_t turning = 0;
  while (turning < values.size() && values[turning] == 1) ++turning;
  const bool rest_stands = std::all_of(values.begin() + static_cast<std::ptrdiff_t>(turning),
                                       values.end(), [](float value) { return value >= 1e29f; });
  if (!values.empty() && rest_stands) return turning;
  return Error(ErrorCode::kUnsupported,
               "'" + model_.file + "' has no vector '" + name + "' of F32 with " +
                   std::to_string(columns / 2) +
                   " values that are 1, and then 1e30 for pairs of columns that do not turn.");
}

Status ConfigWriter::Sizes() {
  ASSIGN_OR_RETURN(hidden_, Whole("embedding_length", 1));
  ASSIGN_OR_RETURN(const uint64_t blocks, metadata().Whole(Key("block_count"), 1, 4000));
  // Blocks behind the model's layers draft tokens, which is not converted.
  ASSIGN_OR_RETURN(const uint64_t drafting,
                   metadata().Whole(Key("nextn_predict_layers"), 0, blocks - 1, 0));
  layers_ = blocks - drafting;
  ASSIGN_OR_RETURN(heads_, Whole("attention.head_count", 1));
  uint64_t kv_heads = heads_;
  if (Has("attention.head_count_kv")) {
    ASSIGN_OR_RETURN(kv_heads, Least("attention.head_count_kv", kMostOfGguf));
  }
  // A model whose layers all have experts may have no other width.
  const bool has_width = Has("feed_forward_length") || !Has("expert_feed_forward_length");
  ASSIGN_OR_RETURN(
      const uint64_t width,
      Least(has_width ? "feed_forward_length" : "expert_feed_forward_length", kMostOfGguf));
  ASSIGN_OR_RETURN(context_, Whole("context_length", 1));
  ASSIGN_OR_RETURN(head_columns_, Whole("attention.key_length", 1, hidden_ / heads_));
  ASSIGN_OR_RETURN(const uint64_t value_columns, Whole("attention.value_length", 1, head_columns_));
  if (head_columns_ == 0) {
    return Error(ErrorCode::kInvalidData,
                 "'" + model_.file + "' has " + std::to_string(heads_) + " heads in " +
                     std::to_string(hidden_) +
                     " columns; expected at least one column for each head.");
  }
  if (value_columns != head_columns_ && !Has("attention.kv_lora_rank")) {
    return Error(ErrorCode::kUnsupported,
                 "'" + model_.file + "' has keys of " + std::to_string(head_columns_) +
                     " columns and values of " + std::to_string(value_columns) +
                     "; weft converts models where they are the same.");
  }
  const auto table = model_.tensors.find("token_embd.weight");
  if (table == model_.tensors.end() || table->second.shape.size() != 2) {
    return Error(ErrorCode::kInvalidData,
                 "'" + model_.file + "' has no matrix 'token_embd.weight'.");
  }
  // Of norms that take away the mean, too, it has another name.
  const bool is_rms = !Has("attention.layer_norm_epsilon");
  ASSIGN_OR_RETURN(
      const double epsilon,
      Real(is_rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", 0, 0.1));
  out["hidden_size"] = hidden_;
  out["intermediate_size"] = width;
  out["num_hidden_layers"] = layers_;
  out["num_attention_heads"] = heads_;
  out["num_key_value_heads"] = kv_heads;
  out["head_dim"] = head_columns_;
  out["vocab_size"] = table->second.shape[0];
  out["max_position_embeddings"] = context_;
  out["rms_norm_eps"] = epsilon;
  out["tie_word_embeddings"] = !HasTensor("output.weight");
  out["hidden_act"] = "silu";
  out["attention_bias"] = HasTensor("blk.0.attn_q.bias");
  return OkStatus();
}

// A vector of divisors of the rotation's frequencies, each times `times`.
Result<json::array> ConfigWriter::Factors(const std::string& name, double times) const {
  const SourceTensor& tensor = model_.tensors.find(name)->second;
  if (tensor.format != RowFormat::kF32 || tensor.shape.size() != 1 ||
      tensor.shape[0] > head_columns_) {
    return Error(ErrorCode::kInvalidData, "Tensor '" + name + "' of '" + tensor.file +
                                              "' has shape " + ShapeText(tensor.shape) +
                                              " and type " + tensor.type_name +
                                              "; expected a vector of F32, one for each pair of a "
                                              "head's " +
                                              std::to_string(head_columns_) + " columns.");
  }
  std::vector<float> values(tensor.shape[0]);
  ToF32(DType::kF32, tensor.bytes.bytes().data(), values);
  json::array factors;
  for (const float value : values) factors.emplace_back(static_cast<double>(value) * times);
  return factors;
}

// Divisors as tensors: the one table of Llama 3, or Phi-3's two.
Status ConfigWriter::LongRope(double theta, double times, json::object* rope) {
  const bool single = HasTensor("rope_freqs.weight");
  ASSIGN_OR_RETURN(json::array longer,
                   Factors(single ? "rope_freqs.weight" : "rope_factors_long.weight", times));
  json::array shorter = longer;
  if (!single && HasTensor("rope_factors_short.weight")) {
    ASSIGN_OR_RETURN(shorter, Factors("rope_factors_short.weight", times));
  }
  // One table serves the whole context.
  ASSIGN_OR_RETURN(uint64_t original, Whole("rope.scaling.original_context_length", 2, context_));
  if (single) original = context_;
  const double ratio = static_cast<double>(context_) / static_cast<double>(original);
  const double scale =
      single || ratio <= 1
          ? 1
          : std::sqrt(1 + std::log(ratio) / std::log(static_cast<double>(original)));
  ASSIGN_OR_RETURN(const double attention_factor,
                   Real("rope.scaling.attn_factor", 1e-3, 1e3, scale));
  *rope = {{"rope_type", "longrope"},
           {"rope_theta", theta},
           {"long_factor", std::move(longer)},
           {"short_factor", std::move(shorter)},
           {"attention_factor", attention_factor},
           {"original_max_position_embeddings", original}};
  return OkStatus();
}

Status ConfigWriter::Yarn(double factor, json::object* rope) {
  (*rope)["rope_type"] = "yarn";
  (*rope)["factor"] = factor;
  ASSIGN_OR_RETURN(const uint64_t original,
                   Whole("rope.scaling.original_context_length", 1, context_));
  (*rope)["original_max_position_embeddings"] = original;
  ASSIGN_OR_RETURN(const double fast, Real("rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32));
  ASSIGN_OR_RETURN(const double slow, Real("rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1));
  (*rope)["beta_fast"] = fast;
  (*rope)["beta_slow"] = slow;
  return OkStatus();
}

Status ConfigWriter::Rotation() {
  ASSIGN_OR_RETURN(const double theta, Real("rope.freq_base", 1, 1e12, 10000));
  ASSIGN_OR_RETURN(const uint64_t rotated, Whole("rope.dimension_count", 2, head_columns_));
  // Older files name the factor of a linear scaling alone.
  ASSIGN_OR_RETURN(const double older, Real("rope.scale_linear", 1e-3, 1e6, 1));
  ASSIGN_OR_RETURN(double factor, Real("rope.scaling.factor", 0, 1e6, older));
  if (factor == 0) factor = 1;
  ASSIGN_OR_RETURN(const std::string type,
                   metadata().Text(Key("rope.scaling.type"), factor == 1 ? "none" : "linear"));
  json::object rope{{"rope_type", "default"}, {"rope_theta", theta}};
  if (HasTensor("rope_freqs.weight") || HasTensor("rope_factors_long.weight")) {
    TRY(LongRope(theta, type == "linear" ? factor : 1, &rope));
  } else if (type == "linear") {
    rope["rope_type"] = "linear";
    rope["factor"] = factor;
  } else if (type == "yarn") {
    TRY(Yarn(factor, &rope));
  } else if (type != "none") {
    return Error(ErrorCode::kUnsupported,
                 "'" + Key("rope.scaling.type") + "' of '" + model_.file + "' is '" +
                     Printable(type) +
                     "'; weft converts none, linear, yarn, and longrope with its tables.");
  }
  if (rotated != head_columns_) {
    rope["partial_rotary_factor"] =
        static_cast<double>(rotated) / static_cast<double>(head_columns_);
  }
  out["rope_parameters"] = std::move(rope);
  return OkStatus();
}

Status ConfigWriter::Window() {
  ASSIGN_OR_RETURN(const uint64_t window, Whole("attention.sliding_window", 0, 0));
  if (window > 0) out["sliding_window"] = window;
  return OkStatus();
}

Result<std::pair<uint64_t, uint64_t>> ConfigWriter::HybridLayers(const char* attention,
                                                                 const char* other) {
  ASSIGN_OR_RETURN(const auto kv_heads, ByLayer("attention.head_count_kv", layers_));
  json::array types;
  for (const uint64_t heads : kv_heads) types.emplace_back(heads > 0 ? attention : other);
  const auto find = [&](bool has_heads) {
    const auto found = std::find_if(kv_heads.begin(), kv_heads.end(),
                                    [&](uint64_t heads) { return (heads > 0) == has_heads; });
    return static_cast<uint64_t>(found - kv_heads.begin());
  };
  const std::pair<uint64_t, uint64_t> first = {find(true), find(false)};
  if (first.first == layers_ || first.second == layers_) {
    return Error(ErrorCode::kUnsupported,
                 "'" + Key("attention.head_count_kv") + "' of '" + model_.file + "' has " +
                     (first.first == layers_ ? "only zeros" : "no zero") +
                     "; expected layers with attention and, with 0 heads, layers without it.");
  }
  out["layer_types"] = std::move(types);
  return first;
}

void Name(ConfigWriter* config, const char* model_type, const char* architecture) {
  config->out["model_type"] = model_type;
  config->out["architectures"] = json::array{architecture};
}

Status AddRoutedExperts(ConfigWriter* config, const char* count_name) {
  ASSIGN_OR_RETURN(const uint64_t count, config->Whole("expert_count", 1));
  ASSIGN_OR_RETURN(const uint64_t used, config->Whole("expert_used_count", 1));
  config->out[count_name] = count;
  config->out["num_experts_per_tok"] = used;
  return OkStatus();
}

}  // namespace weft::convert
