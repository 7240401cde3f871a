// For tests only: the same transformer as ModelBuilder's, straight from the spec, in double
// precision, whole sequence at once, without any of the engine's code. Keys and values may be
// rounded to f16 as the engine's KV is.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "engine/test_model.h"
#include "tensor/half.h"

namespace weft::engine {

class Oracle {
 public:
  using Row = std::vector<double>;
  using Matrix = std::vector<Row>;

  Oracle(const ModelSpec& spec, TensorGetter tensors, bool kv_in_f16)
      : spec_(spec), tensors_(std::move(tensors)), kv_in_f16_(kv_in_f16) {}

  // The residual stream after layer `last` (0: the embedding), [rows][hidden]; after the head, the
  // logits.
  Matrix Run(const std::vector<int32_t>& ids, uint32_t last) const {
    Matrix x;
    const Matrix embed = Weights("embed", spec_.vocabulary, spec_.hidden);
    for (const int32_t id : ids) {
      x.push_back(embed[static_cast<size_t>(id)]);
      const float scale = spec_.gemma ? std::sqrt(static_cast<float>(spec_.hidden)) : 1.0f;
      for (double& value : x.back()) value *= scale;
    }
    for (uint32_t i = 0; i < std::min(last, spec_.layers); ++i) Layer(i, x);
    if (last <= spec_.layers) return x;
    Matrix logits = Product(spec_.tied ? "embed" : "head", Norm("final_norm", x), spec_.vocabulary);
    if (spec_.final_softcap > 0) {
      for (Row& row : logits) {
        for (double& l : row) l = spec_.final_softcap * std::tanh(l / spec_.final_softcap);
      }
    }
    return logits;
  }

 private:
  // The weight as the engine sees it: through its stored format.
  Matrix Weights(const std::string& name, uint64_t rows, uint64_t columns,
                 std::vector<uint64_t> shape = {}) const {
    if (shape.empty()) shape = {rows, columns};
    const std::vector<float> values = tensors_(name, shape);
    Matrix result(rows);
    for (uint64_t r = 0; r < rows; ++r) {
      std::vector<float> row(values.begin() + static_cast<ptrdiff_t>(r * columns),
                             values.begin() + static_cast<ptrdiff_t>((r + 1) * columns));
      ThroughFormat(row);
      result[r].assign(row.begin(), row.end());
    }
    return result;
  }
  void ThroughFormat(std::vector<float>& row) const {
    const DType dtype = spec_.matrix_dtype;
    if (!IsBlockFormat(dtype)) {
      std::vector<uint8_t> bytes(row.size() * static_cast<size_t>(ElementBytes(dtype)));
      FromF32(row, dtype, bytes.data());
      ToF32(dtype, bytes.data(), row);
      return;
    }
    const auto blocks = static_cast<size_t>(BlockCount(static_cast<int64_t>(row.size())));
    std::vector<uint8_t> data(blocks * static_cast<size_t>(BlockDataBytes(dtype)));
    std::vector<uint16_t> scales(
        static_cast<size_t>(ScaleWords(dtype, static_cast<int64_t>(row.size()))));
    QuantizeRow(dtype, row, data, scales);
    DequantizeRow(dtype, data, scales, {}, row);
  }
  Row Vector(const std::string& name, uint64_t count) const {
    const std::vector<float> values = tensors_(name, {count});
    return Row(values.begin(), values.end());
  }

  static double Dot(const Row& a, const Row& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  }
  static Matrix Times(const Matrix& weight, const Matrix& x) {
    Matrix out(x.size(), Row(weight.size()));
    for (size_t r = 0; r < x.size(); ++r) {
      for (size_t n = 0; n < weight.size(); ++n) out[r][n] = Dot(weight[n], x[r]);
    }
    return out;
  }
  Matrix Product(const std::string& name, const Matrix& x, uint64_t columns,
                 bool bias = false) const {
    Matrix out = Times(Weights(name, columns, x[0].size()), x);
    if (!bias) return out;
    const Row offsets = Vector(name + ".bias", columns);
    for (Row& row : out) {
      for (size_t n = 0; n < row.size(); ++n) row[n] += offsets[n];
    }
    return out;
  }
  void NormRow(double* x, const Row& weight) const {
    const size_t n = weight.size();
    const double mean = std::inner_product(x, x + n, x, 0.0) / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) x[i] = x[i] / std::sqrt(mean + spec_.epsilon) * weight[i];
  }
  // Each of `groups` equal parts of a row by itself.
  Matrix Norm(const std::string& name, Matrix x, size_t groups = 1) const {
    const Row weight = Vector(name, x[0].size());
    const auto columns = static_cast<ptrdiff_t>(weight.size() / groups);
    for (Row& row : x) {
      for (auto part = weight.begin(); part < weight.end(); part += columns) {
        NormRow(&row[static_cast<size_t>(part - weight.begin())], Row(part, part + columns));
      }
    }
    return x;
  }
  static void AddTo(Matrix& x, const Matrix& y) {
    for (size_t r = 0; r < x.size(); ++r) {
      for (size_t i = 0; i < x[r].size(); ++i) x[r][i] += y[r][i];
    }
  }

  // Norm and rotation of each head of q or k.
  void Place(Matrix& x, const std::string& norm_name) const {
    const size_t columns = spec_.head_columns;
    const std::vector<float> inv_freq = spec_.InvFreq();
    for (size_t position = 0; position < x.size(); ++position) {
      for (size_t first = 0; first < x[position].size(); first += columns) {
        double* head = &x[position][first];
        if (spec_.qk_norm) NormRow(head, Vector(norm_name, columns));
        for (size_t i = 0; i < columns / 2; ++i) {
          const double angle = static_cast<float>(position) * inv_freq[i];
          const double a = head[i], b = head[i + columns / 2];
          head[i] = a * std::cos(angle) - b * std::sin(angle);
          head[i + columns / 2] = b * std::cos(angle) + a * std::sin(angle);
        }
      }
    }
  }
  void RoundKv(Matrix& x) const {
    if (!kv_in_f16_) return;
    for (Row& row : x) {
      for (double& value : row) value = F16ToF32(F32ToF16(static_cast<float>(value)));
    }
  }

  void Layer(uint32_t i, Matrix& x) const {
    const std::string prefix = "layers." + std::to_string(i) + ".";
    Matrix attended = Attention(prefix, i, Norm(prefix + "input_norm", x));
    if (spec_.gemma) attended = Norm(prefix + "post_attention_norm", attended);
    AddTo(x, attended);
    const Matrix normed = Norm(prefix + "feed_forward_norm", x, spec_.norm_groups);
    Matrix out = spec_.experts > 0 ? Experts(prefix, normed) : FeedForward(prefix, normed);
    if (spec_.gemma) out = Norm(prefix + "post_feed_forward_norm", out);
    AddTo(x, out);
  }

  Matrix Attention(const std::string& prefix, uint32_t layer, const Matrix& normed) const {
    const size_t columns = spec_.head_columns;
    Matrix q = Product(prefix + "q", normed, spec_.heads * columns, spec_.attention_bias);
    Matrix k = Product(prefix + "k", normed, spec_.kv_heads * columns, spec_.attention_bias);
    Matrix v = Product(prefix + "v", normed, spec_.kv_heads * columns, spec_.attention_bias);
    Place(q, prefix + "q_norm");
    Place(k, prefix + "k_norm");
    RoundKv(k);
    RoundKv(v);
    const Row sinks = spec_.sinks ? Vector(prefix + "sinks", spec_.heads) : Row();
    const uint32_t window = spec_.window(layer);
    Matrix out(q.size(), Row(q[0].size()));
    for (size_t row = 0; row < q.size(); ++row) {
      for (size_t h = 0; h < spec_.heads; ++h) {
        const size_t kv_first = h * spec_.kv_heads / spec_.heads * columns;
        Row weights;
        const size_t start = window > 0 && row + 1 > window ? row + 1 - window : 0;
        for (size_t p = start; p <= row; ++p) {
          double score = std::inner_product(&q[row][h * columns], &q[row][h * columns] + columns,
                                            &k[p][kv_first], 0.0) /
                         std::sqrt(static_cast<double>(columns));
          if (spec_.attention_softcap > 0) {
            score = spec_.attention_softcap * std::tanh(score / spec_.attention_softcap);
          }
          weights.push_back(std::exp(score));  // small models: no overflow
        }
        const double sum =
            std::accumulate(weights.begin(), weights.end(), spec_.sinks ? std::exp(sinks[h]) : 0.0);
        for (size_t p = start; p <= row; ++p) {
          for (size_t d = 0; d < columns; ++d) {
            out[row][h * columns + d] += weights[p - start] / sum * v[p][kv_first + d];
          }
        }
      }
    }
    return Product(prefix + "o", out, spec_.hidden);
  }

  double Activate(double gate, double up) const {
    switch (spec_.activation) {
      case program::Activation::kSilu:
        return gate / (1 + std::exp(-gate)) * up;
      case program::Activation::kGeluTanh:
        return 0.5 * gate *
               (1 + std::tanh(0.7978845608028654 * (gate + 0.044715 * std::pow(gate, 3)))) * up;
      case program::Activation::kGelu:
        return 0.5 * gate * (1 + std::erf(gate / std::sqrt(2.0))) * up;
      case program::Activation::kSwigluOai:
        gate = std::min(gate, 7.0);
        return gate / (1 + std::exp(-1.702 * gate)) * (std::clamp(up, -7.0, 7.0) + 1);
      case program::Activation::kRelu:
        return std::max(gate, 0.0) * up;
    }
    return 0;
  }
  Row Activated(const Row& gate_up) const {
    Row hidden(spec_.width);
    for (size_t i = 0; i < hidden.size(); ++i) {
      hidden[i] = Activate(gate_up[i], spec_.gates ? gate_up[spec_.width + i] : gate_up[i]);
    }
    return hidden;
  }
  Matrix FeedForward(const std::string& prefix, const Matrix& normed) const {
    Matrix hidden;
    for (const Row& row : Product(prefix + "gate_up", normed, spec_.gate_up_rows())) {
      hidden.push_back(Activated(row));
    }
    return Product(prefix + "down", hidden, spec_.hidden);
  }
  Matrix Experts(const std::string& prefix, const Matrix& normed) const {
    const Matrix logits = Product(prefix + "router", normed, spec_.experts);
    const uint64_t width = spec_.width, hidden = spec_.hidden, experts = spec_.experts;
    const uint64_t both = spec_.gate_up_rows();
    const Matrix gate_up =
        Weights(prefix + "experts.gate_up", experts * both, hidden, {experts, both, hidden});
    const Matrix down =
        Weights(prefix + "experts.down", experts * hidden, width, {experts, hidden, width});
    Matrix out;
    for (size_t r = 0; r < normed.size(); ++r) {
      std::vector<size_t> order(experts);
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return logits[r][a] > logits[r][b]; });
      order.resize(spec_.top_k);
      double sum = 0;
      if (spec_.route == program::RouteKind::kSoftmaxTopKNormalized) {
        for (const size_t e : order) sum += std::exp(logits[r][e]);
      } else {
        for (const double l : logits[r]) sum += std::exp(l);
      }
      Row total(hidden);
      for (const size_t e : order) {
        const auto slice = [&](const Matrix& all, uint64_t rows) {
          const auto first = all.begin() + static_cast<ptrdiff_t>(e * rows);
          return Matrix(first, first + static_cast<ptrdiff_t>(rows));
        };
        const Row inner = Activated(Times(slice(gate_up, both), {normed[r]})[0]);
        const Row result = Times(slice(down, hidden), {inner})[0];
        for (size_t i = 0; i < hidden; ++i) total[i] += std::exp(logits[r][e]) / sum * result[i];
      }
      out.push_back(std::move(total));
    }
    return out;
  }

  const ModelSpec spec_;
  const TensorGetter tensors_;
  const bool kv_in_f16_;
};

}  // namespace weft::engine
