// For tests and benchmarks only: small transformers as programs made by hand, with weights in
// memory. The spec describes the model; the same spec drives the double-precision oracle of
// test_oracle.h.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/weight_source.h"
#include "program/ir.h"
#include "tensor/blocks.h"
#include "tensor/q4s.h"

namespace weft::engine {

struct ModelSpec {
  uint32_t layers = 2;
  uint32_t hidden = 64;
  uint32_t heads = 4;
  uint32_t kv_heads = 2;
  uint32_t head_columns = 16;
  uint32_t width = 96;
  uint32_t vocabulary = 128;
  float epsilon = 1e-6f;
  float rope_theta = 10000;
  bool llama3_rope = false;  // frequencies as Llama 3 stretches them (see InvFreq)
  bool qk_norm = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool gemma = false;  // 1 + weight norms, norms after attention and feed-forward, scaled embedding
  bool tied = true;
  bool sinks = false;
  float attention_softcap = 0;
  float final_softcap = 0;
  std::vector<uint32_t> windows;  // [layers], or empty
  program::Activation activation = program::Activation::kSilu;
  bool gates = true;         // of the MLP or the experts; without, up is both factors
  uint32_t norm_groups = 1;  // of the norm before the MLP or the experts
  uint32_t experts = 0;
  uint32_t top_k = 0;
  program::RouteKind route = program::RouteKind::kSoftmaxTopKNormalized;
  DType matrix_dtype = DType::kF32;
  std::optional<DType> table_dtype;  // of embedding and head; none: matrix_dtype

  // Rows of gate and up together.
  uint64_t gate_up_rows() const { return gates ? 2 * width : width; }
  uint32_t window(uint32_t layer) const { return windows.empty() ? 0 : windows[layer]; }
  std::vector<float> InvFreq() const {
    std::vector<float> inv_freq;
    for (uint32_t i = 0; i < head_columns / 2; ++i) {
      double frequency = std::pow(static_cast<double>(rope_theta), -2.0 * i / head_columns);
      // Factor 8, low and high frequency factors 1 and 4, 128 positions at first: waves that do not
      // fit 128 positions are stretched, those that fit four times are kept.
      const double waves = 128 * frequency / (2 * 3.14159265358979323846);
      if (llama3_rope && waves < 1) {
        frequency /= 8;
      } else if (llama3_rope && waves < 4) {
        const double kept = (waves - 1) / 3;
        frequency = (1 - kept) * frequency / 8 + kept * frequency;
      }
      inv_freq.push_back(static_cast<float>(frequency));
    }
    return inv_freq;
  }
};

// The f32 values of a tensor by name ("layers.0.q", "embed", ...) and shape.
using TensorGetter =
    std::function<std::vector<float>(const std::string& name, const std::vector<uint64_t>& shape)>;

// Reproducible values around 0, each tensor different; norm weights around 1.
inline TensorGetter RandomTensors(uint64_t seed, float amplitude = 0.2f) {
  return [=](const std::string& name, const std::vector<uint64_t>& shape) {
    uint64_t count = 1;
    for (const uint64_t dimension : shape) count *= dimension;
    uint64_t name_seed = seed;
    for (const char c : name) name_seed = name_seed * 31 + static_cast<uint8_t>(c);
    SeededRandom random(name_seed);
    const bool norm = name.find("norm") != std::string::npos;
    std::vector<float> values(count);
    for (float& value : values) {
      value = static_cast<float>((random.Uniform() * 2 - 1) * amplitude) + (norm ? 1.0f : 0.0f);
    }
    return values;
  };
}

class MemorySource : public WeightSource {
 public:
  Result<Slice> Read(const program::Part& part) override {
    ++reads;
    const auto blob = blobs_.find(part.digest);
    if (blob == blobs_.end() || part.offset + part.byte_count > blob->second.byte_count()) {
      return Error(ErrorCode::kNotFound, "Blob " + ToHex(part.digest) + " is missing.");
    }
    return blob->second.Sub(part.offset, part.byte_count);
  }
  // Digests are counted, not computed: nothing here verifies them.
  program::Part Add(std::vector<uint8_t> bytes) {
    program::Part part;
    StoreLe(part.digest.data(), ++next_digest_);
    part.byte_count = bytes.size();
    blobs_.emplace(part.digest, Slice(std::move(bytes)));
    return part;
  }
  // What parts of program::kZeros are read as.
  void AddZeros(size_t byte_count) {
    blobs_.emplace(Sha256Digest{}, Slice(std::vector<uint8_t>(byte_count)));
  }
  void Remove(const program::Part& part) { blobs_.erase(part.digest); }
  int reads = 0;

 private:
  std::map<Sha256Digest, Slice> blobs_;
  uint64_t next_digest_ = 0;
};

// Stores `values` [.., columns] as a weight of the given dtype.
inline program::Weight StoreWeight(MemorySource& source, std::string name, DType dtype,
                                   std::vector<uint64_t> shape, std::span<const float> values) {
  program::Weight weight{std::move(name), dtype, std::move(shape), {}, {}, {}};
  const size_t columns = weight.shape.back();
  const size_t rows = values.size() / columns;
  std::vector<uint8_t> data;
  if (!IsBlockFormat(dtype)) {
    data.resize(values.size() * static_cast<size_t>(ElementBytes(dtype)));
    FromF32(values, dtype, data.data());
  } else {
    const auto blocks = static_cast<size_t>(BlockCount(static_cast<int64_t>(columns)));
    const size_t row_bytes = blocks * static_cast<size_t>(BlockDataBytes(dtype));
    const auto words = static_cast<size_t>(ScaleWords(dtype, static_cast<int64_t>(columns)));
    std::vector<uint16_t> scales(rows * words);
    data.resize(rows * row_bytes);
    for (size_t row = 0; row < rows; ++row) {
      QuantizeRow(dtype, values.subspan(row * columns, columns),
                  std::span(data).subspan(row * row_bytes, row_bytes),
                  std::span(scales).subspan(row * words, words));
    }
    const ByteSpan scale_bytes = AsBytes(std::span<const uint16_t>(scales));
    weight.scale.push_back(source.Add({scale_bytes.begin(), scale_bytes.end()}));
  }
  weight.data.push_back(source.Add(std::move(data)));
  return weight;
}

// Records of q4s: multipliers of -15 to 15 and S = 2^-11.
inline void FillRecords(std::span<uint8_t> bytes, int64_t columns) {
  const auto superblocks = static_cast<size_t>(SuperblockCount(columns));
  SeededRandom random(bytes.size());
  for (size_t b = 0; b * 2 * kSuperblockWords < bytes.size(); ++b) {
    Q4sRecord record{0x1000, {}};
    record.multipliers.fill(1);
    const int64_t left = columns - static_cast<int64_t>(b % superblocks) * kSuperblockValues;
    for (int64_t i = 0; i < static_cast<int64_t>(kMultipliers) && i * kMultiplierValues < left;
         ++i) {
      const int magnitude = static_cast<int>(random.Below(15)) + 1;
      record.multipliers[static_cast<size_t>(i)] =
          static_cast<int8_t>(random.Below(2) == 0 ? magnitude : -magnitude);
    }
    uint16_t words[kSuperblockWords];
    WriteQ4sRecord(record, words);
    std::memcpy(&bytes[b * sizeof(words)], words, sizeof(words));
  }
}

// A matrix of random bits, small and finite in every format: for benchmarks, whose weights need no
// meaning.
inline program::Weight StoreRandomBits(MemorySource& source, std::string name, DType dtype,
                                       std::vector<uint64_t> shape) {
  program::Weight weight{std::move(name), dtype, std::move(shape), {}, {}, {}};
  uint64_t rows = 1;
  for (size_t i = 0; i + 1 < weight.shape.size(); ++i) rows *= weight.shape[i];
  const auto columns = static_cast<int64_t>(weight.shape.back());
  SeededRandom random(rows);
  if (IsBlockFormat(dtype)) {
    const auto blocks = static_cast<uint64_t>(BlockCount(columns));
    std::vector<uint8_t> data(rows * blocks * static_cast<uint64_t>(BlockDataBytes(dtype)));
    for (size_t i = 0; i + 8 <= data.size(); i += 8) StoreLe(&data[i], random.Next());
    weight.data.push_back(source.Add(std::move(data)));
    std::vector<uint8_t> scale(rows * static_cast<uint64_t>(ScaleWords(dtype, columns)) * 2);
    for (size_t i = 0; i < scale.size(); i += 2) StoreLe<uint16_t>(&scale[i], 0x1c00);  // 2^-8
    if (dtype == DType::kQ4S) FillRecords(scale, columns);
    weight.scale.push_back(source.Add(std::move(scale)));
    return weight;
  }
  std::vector<uint8_t> data(rows * static_cast<uint64_t>(columns * ElementBytes(dtype)));
  // Sixteen bits that are +-2^-7 to 2^-5 as f16, and small as bf16 and as the upper half of an f32.
  for (size_t i = 0; i + 8 <= data.size(); i += 8) {
    StoreLe(&data[i], (random.Next() & 0x87ff87ff87ff87ffull) | 0x2000200020002000ull);
  }
  weight.data.push_back(source.Add(std::move(data)));
  return weight;
}

// Builds the programs of a whole model: 0 = embedding, 1..n = transformer layers, n + 1 = head.
// Without tensors the matrices are random bits and the vectors random values.
class ModelBuilder {
 public:
  ModelBuilder(const ModelSpec& spec, TensorGetter tensors, MemorySource& source)
      : spec_(spec), tensors_(std::move(tensors)), source_(source) {}

  std::vector<program::Program> Build() {
    std::vector<program::Program> programs{Embedding()};
    for (uint32_t i = 0; i < spec_.layers; ++i) programs.push_back(Layer(i));
    programs.push_back(Head());
    return programs;
  }

 private:
  program::View Buffer(const std::string& name, uint32_t columns) {
    program_.buffers.push_back({name, columns});
    return {static_cast<program::BufferId>(program_.buffers.size() - 1), 0, columns};
  }
  program::WeightId Weight(const std::string& name, std::vector<uint64_t> shape, bool matrix) {
    program_.weights.push_back(Stored(name, std::move(shape), matrix));
    return static_cast<program::WeightId>(program_.weights.size() - 1);
  }
  // A tensor that was stored before (tied embeddings) is shared.
  program::Weight Stored(const std::string& name, std::vector<uint64_t> shape, bool matrix) {
    const auto known = stored_.find(name);
    if (known != stored_.end()) return known->second;
    const bool table = name == "embed" || name == "head";
    const DType of_matrix =
        table ? spec_.table_dtype.value_or(spec_.matrix_dtype) : spec_.matrix_dtype;
    const DType dtype = matrix ? of_matrix : DType::kF32;
    program::Weight weight;
    if (matrix && !tensors_) {
      weight = StoreRandomBits(source_, name, dtype, shape);
    } else {
      const TensorGetter get = tensors_ ? tensors_ : RandomTensors(1);
      const std::vector<float> values = name == "inv_freq" ? spec_.InvFreq() : get(name, shape);
      weight = StoreWeight(source_, name, dtype, shape, values);
    }
    return stored_.emplace(name, std::move(weight)).first->second;
  }
  void Norm(const std::string& name, program::View in, program::View out, uint32_t groups = 1) {
    std::vector<uint64_t> shape = {in.columns};
    if (groups > 1) shape = {groups, in.columns / groups};
    program_.ops.push_back(
        program::RmsNorm{in, out, Weight(name, std::move(shape), false), spec_.epsilon});
  }
  void Product(const std::string& name, program::View in, program::View out, bool bias) {
    program::MatMul op{
        in, out, {Weight(name, {out.columns, in.columns}, true), 0, out.columns}, {}};
    if (bias) op.bias = Weight(name + ".bias", {out.columns}, false);
    program_.ops.push_back(op);
  }
  program::Program Finish(uint32_t index, std::optional<program::View> input,
                          program::View output) {
    program_.layer_index = index;
    if (input) program_.input = input->buffer;
    program_.output = output.buffer;
    return std::exchange(program_, {});
  }

  program::Program Embedding() {
    const program::View x = Buffer("x", spec_.hidden);
    const auto table = Weight("embed", {spec_.vocabulary, spec_.hidden}, true);
    program_.ops.push_back(
        program::Embed{table, x, spec_.gemma ? std::sqrt(static_cast<float>(spec_.hidden)) : 1.0f});
    return Finish(0, std::nullopt, x);
  }

  program::Program Layer(uint32_t i) {
    const std::string prefix = "layers." + std::to_string(i) + ".";
    const program::View x = Buffer("x", spec_.hidden);
    const program::View normed = Buffer("normed", spec_.hidden);
    Attention(prefix, i, x, normed);
    FeedForward(prefix, x, normed);
    return Finish(i + 1, x, x);
  }

  void Attention(const std::string& prefix, uint32_t i, program::View x, program::View normed) {
    const uint32_t q_columns = spec_.heads * spec_.head_columns;
    const uint32_t kv_columns = spec_.kv_heads * spec_.head_columns;
    const program::View q = Buffer("q", q_columns);
    const program::View k = Buffer("k", kv_columns);
    const program::View v = Buffer("v", kv_columns);
    const program::View attended = Buffer("attended", q_columns);
    const program::View out = Buffer("attention_out", spec_.hidden);
    Norm(prefix + "input_norm", x, normed);
    Product(prefix + "q", normed, q, spec_.attention_bias);
    Product(prefix + "k", normed, k, spec_.attention_bias);
    Product(prefix + "v", normed, v, spec_.attention_bias);
    const auto inv_freq = Weight("inv_freq", {spec_.head_columns / 2}, false);
    for (const bool is_query : {true, false}) {
      const program::View view = is_query ? q : k;
      program::QkNormRope op{
          view, view,          is_query ? spec_.heads : spec_.kv_heads, spec_.head_columns,
          {},   spec_.epsilon, program::Rope{inv_freq, 1, false}};
      if (spec_.qk_norm) {
        op.norm_weight =
            Weight(prefix + (is_query ? "q_norm" : "k_norm"), {spec_.head_columns}, false);
      }
      program_.ops.push_back(op);
    }
    program::Attention attention{q,
                                 k,
                                 v,
                                 attended,
                                 spec_.heads,
                                 spec_.kv_heads,
                                 spec_.head_columns,
                                 1 / std::sqrt(static_cast<float>(spec_.head_columns)),
                                 spec_.window(i),
                                 spec_.attention_softcap,
                                 {}};
    if (spec_.sinks) attention.sinks = Weight(prefix + "sinks", {spec_.heads}, false);
    program_.ops.push_back(attention);
    Product(prefix + "o", attended, out, false);
    if (spec_.gemma) Norm(prefix + "post_attention_norm", out, out);
    program_.ops.push_back(program::Add{x, out, x});
  }

  void FeedForward(const std::string& prefix, program::View x, program::View normed) {
    Norm(prefix + "feed_forward_norm", x, normed, spec_.norm_groups);
    const program::View out = Buffer("feed_forward_out", spec_.hidden);
    if (spec_.experts > 0) {
      const program::View logits = Buffer("route_logits", spec_.experts);
      const program::View route = Buffer("route", 2 * spec_.top_k);
      Product(prefix + "router", normed, logits, false);
      program_.ops.push_back(
          program::MoeRoute{logits, route, spec_.experts, spec_.top_k, spec_.route});
      program::MoeExperts op{normed, route, out, spec_.experts, spec_.top_k, spec_.activation, 0,
                             0,      {},    {}};
      op.gate_up = Weight(prefix + "experts.gate_up",
                          {spec_.experts, spec_.gate_up_rows(), spec_.hidden}, true);
      op.down = Weight(prefix + "experts.down", {spec_.experts, spec_.hidden, spec_.width}, true);
      program_.ops.push_back(op);
    } else {
      // Gate and up packed in one weight and one buffer, as views.
      const auto rows = static_cast<uint32_t>(spec_.gate_up_rows());
      const uint32_t first_up = rows - spec_.width;
      const program::View both = Buffer("gate_up", rows);
      const program::View gate = {both.buffer, 0, spec_.width};
      const program::View up = {both.buffer, first_up, spec_.width};
      const auto weight = Weight(prefix + "gate_up", {rows, spec_.hidden}, true);
      const auto bias = [&](const std::string& name) -> std::optional<program::WeightId> {
        if (!spec_.mlp_bias) return std::nullopt;
        return Weight(prefix + name, {spec_.width}, false);
      };
      program_.ops.push_back(
          program::MatMul{normed, gate, {weight, 0, spec_.width}, bias("gate.bias")});
      if (spec_.gates) {
        program_.ops.push_back(
            program::MatMul{normed, up, {weight, first_up, spec_.width}, bias("up.bias")});
      }
      program_.ops.push_back(program::GatedActivation{gate, up, gate, spec_.activation});
      Product(prefix + "down", gate, out, spec_.mlp_bias);
    }
    if (spec_.gemma) Norm(prefix + "post_feed_forward_norm", out, out);
    program_.ops.push_back(program::Add{x, out, x});
  }

  program::Program Head() {
    const program::View x = Buffer("x", spec_.hidden);
    const program::View normed = Buffer("normed", spec_.hidden);
    const program::View logits = Buffer("logits", spec_.vocabulary);
    Norm("final_norm", x, normed);
    Product(spec_.tied ? "embed" : "head", normed, logits, false);
    if (spec_.final_softcap > 0) {
      program_.ops.push_back(program::Softcap{logits, logits, spec_.final_softcap});
    }
    return Finish(spec_.layers + 1, x, logits);
  }

  const ModelSpec spec_;
  const TensorGetter tensors_;
  MemorySource& source_;
  program::Program program_;
  std::map<std::string, program::Weight> stored_;
};

}  // namespace weft::engine
