// Writes the config.json of a model from the metadata of its GGUF file. Keys:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; what a file leaves out is what
// llama.cpp takes then.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "convert/source/gguf.h"

namespace weft::convert {

// In what layers differ from each other.
enum class GgufLayers {
  kAlike,
  kVaried,  // sizes may be another number in every layer
  kHybrid,  // some have no attention: 0 heads of keys and values
};

// Values that no model reaches.
inline constexpr uint64_t kMostOfGguf = uint64_t{1} << 28;

class ConfigWriter {
 public:
  // Where layers differ, Sizes takes the least number of theirs that counts.
  ConfigWriter(const GgufModel& model, std::string architecture, GgufLayers layers)
      : model_(model), prefix_(std::move(architecture) + "."), kind_of_layers_(layers) {}

  const GgufMetadata& metadata() const { return model_.metadata; }
  std::string Key(std::string_view name) const { return prefix_ + std::string(name); }
  bool Has(std::string_view name) const { return metadata().Has(Key(name)); }
  bool HasTensor(std::string_view name) const {
    return model_.tensors.find(name) != model_.tensors.end();
  }
  Result<uint64_t> Whole(std::string_view name, uint64_t least,
                         std::optional<uint64_t> if_absent = std::nullopt) const {
    return metadata().Whole(Key(name), least, kMostOfGguf, if_absent);
  }
  Result<double> Real(std::string_view name, double least, double most,
                      std::optional<double> if_absent = std::nullopt) const {
    return metadata().Real(Key(name), least, most, if_absent);
  }

  // A number for each layer, from an array or from one for all; the first `count` of them.
  Result<std::vector<uint64_t>> ByLayer(std::string_view name, uint64_t count) const;
  // The shape of a tensor; empty where there is none.
  std::vector<uint64_t> ShapeOf(std::string_view name) const {
    const auto found = model_.tensors.find(name);
    return found == model_.tensors.end() ? std::vector<uint64_t>() : found->second.shape;
  }
  // Of a vector of F32 as long as the pairs of `columns` columns, how many of the first values are
  // 1 where all others are beyond 1e29: the pairs that turn.
  Result<uint64_t> TurningPairs(const std::string& name, uint64_t columns) const;

  Status Sizes();
  Status Rotation();
  Status Window();
  // [layers] with a window where `is_sliding`.
  template <typename IsSliding>
  void LayerTypes(const IsSliding& is_sliding) {
    boost::json::array types;
    for (uint64_t i = 0; i < layers_; ++i) {
      types.emplace_back(is_sliding(i) ? "sliding_attention" : "full_attention");
    }
    out["layer_types"] = std::move(types);
  }
  // [layers] by which of them have heads of keys and values; returns the index of the first one
  // that has, and of the first without (both there, or an error).
  Result<std::pair<uint64_t, uint64_t>> HybridLayers(const char* attention, const char* other);

  boost::json::object out;
  uint64_t layers_ = 0, heads_ = 0, head_columns_ = 0, hidden_ = 0, context_ = 0;

 private:
  Result<uint64_t> Least(std::string_view name, uint64_t most) const;
  Result<boost::json::array> Factors(const std::string& tensor_name, double times) const;
  Status LongRope(double theta, double times, boost::json::object* rope);
  Status Yarn(double factor, boost::json::object* rope);

  const GgufModel& model_;
  std::string prefix_;
  GgufLayers kind_of_layers_;
};

// The architecture's name in config.json.
void Name(ConfigWriter* config, const char* model_type, const char* architecture);

// How many experts there are, as `count_name`, and how many a row goes to.
Status AddRoutedExperts(ConfigWriter* config, const char* count_name = "num_local_experts");

}  // namespace weft::convert
