#include "convert/rope.h"

#include <cmath>
#include <numbers>

namespace weft::convert {
namespace {

namespace json = boost::json;

Status ReadScaling(const JsonReader& reader, const JsonReader& config, RopeConfig* rope) {
  // "type" is the older name of "rope_type".
  ASSIGN_OR_RETURN(const std::string older, reader.Text("type", "default"));
  ASSIGN_OR_RETURN(const std::string type, reader.Text("rope_type", older));
  if (type == "default") return OkStatus();
  if (type != "linear" && type != "llama3") {
    return Error(ErrorCode::kUnsupported, "The rope type '" + Printable(type) + "' of " +
                                              reader.what() +
                                              " is not supported; weft converts models with the "
                                              "types default, linear and llama3.");
  }
  ASSIGN_OR_RETURN(rope->factor, reader.Real("factor", 1, 1e6));
  rope->kind = RopeConfig::Kind::kLinear;
  if (type == "linear") return OkStatus();
  rope->kind = RopeConfig::Kind::kLlama3;
  ASSIGN_OR_RETURN(rope->low_freq_factor, reader.Real("low_freq_factor", 1e-3, 1e6));
  ASSIGN_OR_RETURN(rope->high_freq_factor, reader.Real("high_freq_factor", 1e-3, 1e6));
  if (rope->high_freq_factor <= rope->low_freq_factor) {
    return Error(ErrorCode::kInvalidData,
                 "'high_freq_factor' of " + reader.what() + " is not above 'low_freq_factor'.");
  }
  ASSIGN_OR_RETURN(const double context, config.Real("max_position_embeddings", 1, 1e9));
  ASSIGN_OR_RETURN(rope->original_context,
                   reader.Real("original_max_position_embeddings", 1, 1e9, context));
  return OkStatus();
}

}  // namespace

Result<RopeConfig> ReadRope(const JsonReader& config, uint32_t head_columns) {
  RopeConfig rope;
  ASSIGN_OR_RETURN(rope.theta, config.Real("rope_theta", 1, 1e12, 10000.0));
  ASSIGN_OR_RETURN(double share, config.Real("partial_rotary_factor", 1e-3, 1, 1.0));
  ASSIGN_OR_RETURN(const json::object* parameters, config.Object("rope_parameters"));
  ASSIGN_OR_RETURN(const json::object* scaling, config.Object("rope_scaling"));
  if (parameters != nullptr) {
    const JsonReader reader(*parameters, "'rope_parameters' in " + config.what());
    if (parameters->if_contains("full_attention") != nullptr ||
        parameters->if_contains("sliding_attention") != nullptr) {
      return Error(ErrorCode::kUnsupported,
                   reader.what() + " differ by layer type, which is not supported.");
    }
    ASSIGN_OR_RETURN(rope.theta, reader.Real("rope_theta", 1, 1e12, rope.theta));
    ASSIGN_OR_RETURN(share, reader.Real("partial_rotary_factor", 1e-3, 1, share));
    TRY(ReadScaling(reader, config, &rope));
  } else if (scaling != nullptr) {
    TRY(ReadScaling(JsonReader(*scaling, "'rope_scaling' in " + config.what()), config, &rope));
  }
  rope.rotary_columns = static_cast<uint32_t>(head_columns * share);
  if (rope.rotary_columns == 0 || rope.rotary_columns % 2 != 0) {
    return Error(ErrorCode::kUnsupported, config.what() + " asks for a rotation of " +
                                              std::to_string(rope.rotary_columns) +
                                              " of a head's " + std::to_string(head_columns) +
                                              " columns; it must be an even number of at least 2.");
  }
  return rope;
}

std::vector<float> InverseFrequencies(const RopeConfig& rope) {
  std::vector<float> table;
  for (uint32_t i = 0; i < rope.rotary_columns / 2; ++i) {
    double frequency = std::pow(rope.theta, -2.0 * i / rope.rotary_columns);
    if (rope.kind == RopeConfig::Kind::kLinear) frequency /= rope.factor;
    if (rope.kind == RopeConfig::Kind::kLlama3) {
      // Long waves are stretched by `factor`, short ones kept, between them a linear blend.
      const double waves = rope.original_context * frequency / (2 * std::numbers::pi);
      const double blend = std::clamp(
          (waves - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor), 0.0,
          1.0);
      frequency = (1 - blend) * frequency / rope.factor + blend * frequency;
    }
    table.push_back(static_cast<float>(frequency));
  }
  return table;
}

}  // namespace weft::convert
