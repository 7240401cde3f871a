#include "convert/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft::convert {
namespace {

namespace json = boost::json;

// One rotation that is being read. `reader` is the object that describes it, `config` the whole
// file.
struct Reading {
  const JsonReader& reader;
  const JsonReader& config;
  uint32_t head_columns;
  RopeConfig* rope;
  Ropes* ropes;  // notes and the context are written
};

Status ReadLlama3(const Reading& in) {
  RopeConfig& rope = *in.rope;
  rope.kind = RopeConfig::Kind::kLlama3;
  ASSIGN_OR_RETURN(rope.low_freq_factor, in.reader.Real("low_freq_factor", 1e-3, 1e6));
  ASSIGN_OR_RETURN(rope.high_freq_factor, in.reader.Real("high_freq_factor", 1e-3, 1e6));
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    return Error(ErrorCode::kInvalidData,
                 "'high_freq_factor' of " + in.reader.what() + " is not above 'low_freq_factor'.");
  }
  ASSIGN_OR_RETURN(const double context, in.config.Real("max_position_embeddings", 1, 1e9));
  ASSIGN_OR_RETURN(rope.original_context,
                   in.reader.Real("original_max_position_embeddings", 1, 1e9, context));
  return OkStatus();
}

double YarnScale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

// https://arxiv.org/abs/2309.00071
Status ReadYarn(const Reading& in) {
  RopeConfig& rope = *in.rope;
  rope.kind = RopeConfig::Kind::kYarn;
  ASSIGN_OR_RETURN(const double context, in.config.Real("max_position_embeddings", 1, 1e9));
  ASSIGN_OR_RETURN(rope.original_context,
                   in.reader.Real("original_max_position_embeddings", 1, 1e9, context));
  ASSIGN_OR_RETURN(rope.beta_fast, in.reader.Real("beta_fast", 1e-3, 1e6, 32));
  ASSIGN_OR_RETURN(rope.beta_slow, in.reader.Real("beta_slow", 1e-3, 1e6, 1));
  ASSIGN_OR_RETURN(rope.truncate, in.reader.Bool("truncate", true));
  if (rope.theta <= 1) {
    return Error(ErrorCode::kInvalidData,
                 "'rope_theta' of a yarn rotation in " + in.config.what() + " is not above 1.");
  }
  ASSIGN_OR_RETURN(const double mscale, in.reader.Real("mscale", 0, 1e3, 0));
  ASSIGN_OR_RETURN(const double mscale_all, in.reader.Real("mscale_all_dim", 0, 1e3, 0));
  double scale = YarnScale(rope.factor, 1);
  if (mscale > 0 && mscale_all > 0) {
    scale = YarnScale(rope.factor, mscale) / YarnScale(rope.factor, mscale_all);
  }
  ASSIGN_OR_RETURN(scale, in.reader.Real("attention_factor", 1e-3, 1e3, scale));
  rope.scale = static_cast<float>(scale);
  return OkStatus();
}

Status ReadDivisors(const Reading& in, const std::string& key) {
  ASSIGN_OR_RETURN(const json::array* factors, in.reader.Array(key));
  const size_t expected = in.rope->rotary_columns / 2;
  if (factors == nullptr || factors->size() != expected) {
    return Error(ErrorCode::kInvalidData,
                 "'" + key + "' of " + in.reader.what() + " has " +
                     std::to_string(factors == nullptr ? 0 : factors->size()) +
                     " entries; expected " + std::to_string(expected) + ".");
  }
  for (const json::value& factor : *factors) {
    const double value = factor.is_number() ? factor.to_number<double>() : 0;
    if (!(value > 1e-6 && value < 1e9)) {
      return Error(ErrorCode::kInvalidData, "'" + key + "' of " + in.reader.what() + " holds " +
                                                Excerpt(factor) + "; expected positive numbers.");
    }
    in.rope->divisors.push_back(value);
  }
  return OkStatus();
}

// Phi-3's two tables of divisors. transformers takes the short ones for as long as a text is within
// the original context, and computes it anew with the long ones when it grows beyond. Keys that are
// cached here cannot change, so the context that the package is made for decides.
Status ReadLongRope(const Reading& in) {
  RopeConfig& rope = *in.rope;
  rope.kind = RopeConfig::Kind::kLongRope;
  ASSIGN_OR_RETURN(const double most, in.config.Real("max_position_embeddings", 1, 1e9));
  // Older files have it beside rope_scaling, not in it.
  ASSIGN_OR_RETURN(const double outside,
                   in.config.Real("original_max_position_embeddings", 2, 1e9, most));
  ASSIGN_OR_RETURN(rope.original_context,
                   in.reader.Real("original_max_position_embeddings", 2, 1e9, outside));
  const double context = in.ropes->context_length.value_or(std::min(most, rope.original_context));
  in.ropes->context_length = static_cast<uint32_t>(context);
  const bool is_long = context > rope.original_context;
  TRY(ReadDivisors(in, is_long ? "long_factor" : "short_factor"));
  // The scale belongs to both tables.
  ASSIGN_OR_RETURN(const double factor,
                   in.reader.Real("factor", 1e-3, 1e6, most / rope.original_context));
  double scale = factor > 1 ? std::sqrt(1 + std::log(factor) / std::log(rope.original_context)) : 1;
  ASSIGN_OR_RETURN(scale, in.reader.Real("attention_factor", 1e-3, 1e3, scale));
  rope.scale = static_cast<float>(scale);
  const auto text = [](double value) { return std::to_string(static_cast<uint64_t>(value)); };
  if (is_long) {
    in.ropes->notes.push_back(
        "The rotation is longrope with its long factors, for texts of more than " +
        text(rope.original_context) + " positions; shorter ones are better without --context.");
  } else if (most > rope.original_context) {
    in.ropes->notes.push_back(
        "The rotation is longrope with its short factors: the package is made for "
        "texts of up to " +
        text(context) + " positions. For up to " + text(most) + ", convert with --context " +
        text(most) + ".");
  }
  return OkStatus();
}

// Gemma 4: the frequencies are those of the whole head, and only the first pairs turn at all. Other
// types with a `partial_rotary_factor` turn the first columns as if the head had no others.
Status ReadProportional(const Reading& in) {
  RopeConfig& rope = *in.rope;
  rope.kind = RopeConfig::Kind::kProportional;
  ASSIGN_OR_RETURN(rope.turning_share, in.reader.Real("partial_rotary_factor", 0, 1, 1.0));
  ASSIGN_OR_RETURN(rope.factor, in.reader.Real("factor", 1e-3, 1e6, 1.0));
  rope.rotary_columns = in.head_columns;
  return OkStatus();
}

// Hunyuan's form of the type dynamic: a base that is stretched once and for all.
Status ReadAlpha(const Reading& in) {
  RopeConfig& rope = *in.rope;
  ASSIGN_OR_RETURN(const double alpha, in.reader.Real("alpha", 1e-3, 1e9));
  const double columns = rope.rotary_columns;
  if (columns > 2) rope.theta *= std::pow(alpha, columns / (columns - 2));
  rope.factor = 1;
  return OkStatus();
}

Status ReadScaling(const Reading& in) {
  // "type" is the older name of "rope_type", "su" that of "longrope".
  ASSIGN_OR_RETURN(const std::string older, in.reader.Text("type", "default"));
  ASSIGN_OR_RETURN(const std::string type, in.reader.Text("rope_type", older));
  if (type == "default") return OkStatus();
  if (type == "proportional") return ReadProportional(in);
  if (type == "longrope" || type == "su") return ReadLongRope(in);
  if (type != "linear" && type != "dynamic" && type != "llama3" && type != "yarn") {
    return Error(ErrorCode::kUnsupported,
                 "The rope type '" + Printable(type) + "' of " + in.reader.what() +
                     " is not supported; weft converts models with the types default, linear, "
                     "dynamic, llama3, yarn, longrope and proportional.");
  }
  ASSIGN_OR_RETURN(in.rope->factor, in.reader.Real("factor", 1, 1e6));
  if (type == "llama3") return ReadLlama3(in);
  if (type == "yarn") return ReadYarn(in);
  if (type == "linear") {
    in.rope->kind = RopeConfig::Kind::kLinear;
    return OkStatus();
  }
  if (in.reader.Has("alpha")) return ReadAlpha(in);
  // The type dynamic changes the frequencies only beyond max_position_embeddings, which is as far
  // as we go.
  in.ropes->notes.push_back(
      "The rotation is dynamic, which stretches it beyond max_position_embeddings; weft serves "
      "contexts up to that.");
  return OkStatus();
}

// The rotation that `reader` describes; theta and the rotated share where it does not say.
Result<RopeConfig> ReadOne(const JsonReader& reader, const JsonReader& config,
                           uint32_t head_columns, Ropes* ropes) {
  RopeConfig rope;
  ASSIGN_OR_RETURN(const double theta, config.Real("rope_theta", 1, 1e12, 10000.0));
  ASSIGN_OR_RETURN(rope.theta, reader.Real("rope_theta", 1, 1e12, theta));
  ASSIGN_OR_RETURN(double share, config.Real("partial_rotary_factor", 1e-3, 1, 1.0));
  ASSIGN_OR_RETURN(share, reader.Real("partial_rotary_factor", 1e-3, 1, share));
  rope.rotary_columns = static_cast<uint32_t>(head_columns * share);
  TRY(ReadScaling({reader, config, head_columns, &rope, ropes}));
  if (rope.rotary_columns >= 2 && rope.rotary_columns % 2 == 0) return rope;
  return Error(ErrorCode::kUnsupported, config.what() + " asks for a rotation of " +
                                            std::to_string(rope.rotary_columns) + " of a head's " +
                                            std::to_string(head_columns) +
                                            " columns; it must be an even number of at least 2.");
}

// `rope_parameters` of transformers 5.
Result<Ropes> ReadParameters(const json::object& parameters, const JsonReader& config,
                             uint32_t head_columns, uint32_t local_head_columns, Ropes ropes) {
  const JsonReader all(parameters, "'rope_parameters' in " + config.what());
  ASSIGN_OR_RETURN(const json::object* full, all.Object("full_attention"));
  ASSIGN_OR_RETURN(const json::object* sliding, all.Object("sliding_attention"));
  if (full == nullptr && sliding == nullptr) {
    ASSIGN_OR_RETURN(ropes.rope, ReadOne(all, config, head_columns, &ropes));
    return ropes;
  }
  if (full == nullptr || sliding == nullptr) {
    return Error(ErrorCode::kInvalidData, all.what() +
                                              " has only one of 'full_attention' and "
                                              "'sliding_attention'.");
  }
  const auto read = [&](const json::object& object, const std::string& name, uint32_t columns) {
    const JsonReader reader(object, "'" + name + "' of " + all.what());
    return ReadOne(reader, config, columns, &ropes);
  };
  ASSIGN_OR_RETURN(ropes.rope, read(*full, "full_attention", head_columns));
  ASSIGN_OR_RETURN(ropes.local, read(*sliding, "sliding_attention", local_head_columns));
  return ropes;
}

double Frequency(const RopeConfig& rope, uint32_t pair) {
  return std::pow(rope.theta, -2.0 * pair / rope.rotary_columns);
}

// The pair that turns `turns` times over the original context, as a fraction.
double YarnPair(const RopeConfig& rope, double turns) {
  return rope.rotary_columns * std::log(rope.original_context / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

// 0: the pair turns fast and keeps its frequency; 1: it turns slowly and is stretched by `factor`.
double YarnRamp(const RopeConfig& rope, uint32_t pair) {
  double low = YarnPair(rope, rope.beta_fast), high = YarnPair(rope, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rope.rotary_columns - 1.0);
  if (low == high) high += 0.001;
  return std::clamp((pair - low) / (high - low), 0.0, 1.0);
}

// Long waves are stretched by `factor`, short ones kept, between them a linear blend.
double Llama3Frequency(const RopeConfig& rope, double frequency) {
  const double waves = rope.original_context * frequency / (2 * std::numbers::pi);
  const double blend = std::clamp(
      (waves - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor), 0.0, 1.0);
  return (1 - blend) * frequency / rope.factor + blend * frequency;
}

}  // namespace

Result<Ropes> ReadRopes(const JsonReader& config, uint32_t head_columns,
                        std::optional<uint32_t> context_length,
                        std::optional<uint32_t> local_head_columns) {
  Ropes ropes;
  ropes.context_length = context_length;
  ASSIGN_OR_RETURN(const json::object* parameters, config.Object("rope_parameters"));
  if (parameters != nullptr) {
    return ReadParameters(*parameters, config, head_columns,
                          local_head_columns.value_or(head_columns), std::move(ropes));
  }
  ASSIGN_OR_RETURN(const json::object* scaling, config.Object("rope_scaling"));
  const json::object nothing;
  const JsonReader reader(scaling == nullptr ? nothing : *scaling,
                          "'rope_scaling' in " + config.what());
  ASSIGN_OR_RETURN(ropes.rope, ReadOne(reader, config, head_columns, &ropes));
  if (config.Has("rope_local_base_freq")) {
    ASSIGN_OR_RETURN(const double theta, config.Real("rope_local_base_freq", 1, 1e12));
    ropes.local.emplace();
    ropes.local->theta = theta;
    ropes.local->rotary_columns = ropes.rope.rotary_columns;
  }
  return ropes;
}

std::vector<float> InverseFrequencies(const RopeConfig& rope) {
  std::vector<float> table;
  for (uint32_t pair = 0; pair < rope.rotary_columns / 2; ++pair) {
    double frequency = Frequency(rope, pair);
    switch (rope.kind) {
      case RopeConfig::Kind::kDefault:
        break;
      case RopeConfig::Kind::kLinear:
        frequency /= rope.factor;
        break;
      case RopeConfig::Kind::kLlama3:
        frequency = Llama3Frequency(rope, frequency);
        break;
      case RopeConfig::Kind::kYarn: {
        const double ramp = YarnRamp(rope, pair);
        frequency = frequency / rope.factor * ramp + frequency * (1 - ramp);
        break;
      }
      case RopeConfig::Kind::kLongRope:
        frequency /= rope.divisors[pair];
        break;
      case RopeConfig::Kind::kProportional: {
        const auto turning = std::floor(rope.turning_share * rope.rotary_columns / 2);
        frequency = pair < turning ? frequency / rope.factor : 0;
        break;
      }
    }
    table.push_back(static_cast<float>(frequency));
  }
  return table;
}

}  // namespace weft::convert
