// For tests only: every operation once more, in double precision and without the kernels' code, for
// one conformance case.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "kernels/test_case.h"

namespace weft::kernels {

using Doubles = std::vector<double>;

class NaiveCase {
 public:
  explicit NaiveCase(const ConformanceCase& c, bool kv_in_f16 = true)
      : c_(c), kv_in_f16_(kv_in_f16) {}

  Doubles Run() const {
    if (c_.op == "embed") return Embed();
    if (c_.op == "rms_norm") return RmsNorm();
    if (c_.op == "layer_norm") return LayerNorm();
    if (c_.op == "matmul")
      return MatMul(Input("in"), "weight", 0, c_.Rows("weight"), Input("bias"));
    if (c_.op == "add") return Zip("a", "b", [](double a, double b) { return a + b; });
    if (c_.op == "scale") return Map([&](double x) { return x * c_.Number("factor"); });
    if (c_.op == "softcap") {
      return Map([cap = c_.Number("cap")](double x) { return cap * std::tanh(x / cap); });
    }
    if (c_.op == "qk_norm_rope") return QkNormRope();
    if (c_.op == "attention") return Attention();
    if (c_.op == "gated_activation") {
      return Zip("gate", "up", [&](double g, double u) { return Activate(g, u); });
    }
    if (c_.op == "moe_route") return MoeRoute();
    if (c_.op == "moe_experts") return MoeExperts();
    if (c_.op == "penalize") return Penalize();
    if (c_.op == "top_k") return TopK();
    if (c_.op == "argmax") return Argmax();
    throw std::runtime_error("no such operation: " + c_.op);
  }

 private:
  Doubles Input(std::string_view name) const {
    const std::vector<float> values = c_.Floats(name);
    return Doubles(values.begin(), values.end());
  }
  template <typename F>
  Doubles Map(const F& f) const {
    Doubles out = Input("in");
    std::transform(out.begin(), out.end(), out.begin(), f);
    return out;
  }
  template <typename F>
  Doubles Zip(std::string_view a, std::string_view b, const F& f) const {
    Doubles out = Input(a);
    const Doubles other = Input(b);
    std::transform(out.begin(), out.end(), other.begin(), out.begin(), f);
    return out;
  }

  // Element [row, k] of a weight, decoded here from its arrays.
  static double Element(const Matrix& m, size_t row, size_t k) {
    const uint8_t* data = m.data + row * m.data_row_bytes();
    switch (m.dtype) {
      case DType::kF32:
        return LoadLe<float>(data + 4 * k);
      case DType::kF16:
        return F16ToF32(LoadLe<uint16_t>(data + 2 * k));
      case DType::kBF16:
        return BF16ToF32(LoadLe<uint16_t>(data + 2 * k));
      default:
        break;
    }
    const size_t block = k / 32;
    const double scale = F16ToF32(m.scale[row * m.blocks() + block]);
    if (m.dtype == DType::kQ8) return (data[k] - 128.0) * scale;
    const auto nibble = [](uint8_t byte, size_t i) { return i % 2 == 0 ? byte % 16 : byte / 16; };
    const double zero =
        m.zero == nullptr ? 8 : nibble(m.zero[row * ((m.blocks() + 1) / 2) + block / 2], block);
    return (nibble(data[k / 2], k) - zero) * scale;
  }
  // x [.., K] times rows [first, first + n) of a weight.
  Doubles MatMul(const Doubles& x, std::string_view weight, size_t first, size_t n,
                 const Doubles& bias) const {
    const CaseWeight stored = c_.Weight(weight);
    const Matrix m = stored.matrix();
    Doubles out;
    for (size_t r = 0; r < x.size() / m.columns; ++r) {
      for (size_t i = 0; i < n; ++i) {
        double sum = bias.empty() ? 0 : bias[i];
        for (size_t k = 0; k < m.columns; ++k)
          sum += x[r * m.columns + k] * Element(m, first + i, k);
        out.push_back(sum);
      }
    }
    return out;
  }

  Doubles Embed() const {
    const CaseWeight table = c_.Weight("table");
    Doubles out;
    for (const int32_t id : c_.Ints("token_ids")) {
      for (size_t k = 0; k < c_.Columns("table"); ++k) {
        out.push_back(Element(table.matrix(), static_cast<size_t>(id), k) * c_.Number("scale"));
      }
    }
    return out;
  }
  static void NormPart(double* x, const Doubles& weight, double epsilon) {
    double squares = 0;
    for (size_t i = 0; i < weight.size(); ++i) squares += x[i] * x[i];
    const double rms = std::sqrt(squares / static_cast<double>(weight.size()) + epsilon);
    for (size_t i = 0; i < weight.size(); ++i) x[i] *= weight[i] / rms;
  }
  Doubles RmsNorm() const {
    Doubles out = Input("in");
    const Doubles weight = Input("weight");
    // Group by group where the weight has a row for each.
    const size_t n = c_.Columns("weight");
    for (size_t at = 0; at < out.size(); at += n) {
      const auto first = weight.begin() + static_cast<std::ptrdiff_t>(at % weight.size());
      NormPart(&out[at], Doubles(first, first + static_cast<std::ptrdiff_t>(n)),
               c_.Number("epsilon"));
    }
    return out;
  }
  Doubles LayerNorm() const {
    Doubles out = Input("in");
    const Doubles weight = Input("weight"), bias = Input("bias");
    const auto n = static_cast<double>(weight.size());
    for (size_t at = 0; at < out.size(); at += weight.size()) {
      double sum = 0, squares = 0;
      for (size_t i = 0; i < weight.size(); ++i) sum += out[at + i];
      for (size_t i = 0; i < weight.size(); ++i) squares += std::pow(out[at + i] - sum / n, 2);
      for (size_t i = 0; i < weight.size(); ++i) {
        out[at + i] =
            (out[at + i] - sum / n) / std::sqrt(squares / n + c_.Number("epsilon")) * weight[i] +
            (bias.empty() ? 0 : bias[i]);
      }
    }
    return out;
  }
  Doubles QkNormRope() const {
    Doubles out = Input("in");
    const Doubles weight = Input("norm_weight");
    const std::vector<float> inv_freq = c_.Floats("inv_freq");
    const size_t columns = c_.Count("head_columns");
    for (size_t at = 0; at < out.size(); at += columns) {
      const size_t row = at / c_.Columns("in");
      if (!weight.empty()) NormPart(&out[at], weight, c_.Number("epsilon"));
      for (size_t i = 0; i < inv_freq.size(); ++i) {
        const bool pairs = c_.params.at("interleaved").as_bool();
        double& a = out[at + (pairs ? 2 * i : i)];
        double& b = out[at + (pairs ? 2 * i + 1 : i + inv_freq.size())];
        // The angle itself is f32 by definition.
        const double angle = static_cast<float>(c_.Count("first_position") + row) * inv_freq[i];
        const double x = a, y = b;
        a = (x * std::cos(angle) - y * std::sin(angle)) * c_.Number("rope_scale");
        b = (y * std::cos(angle) + x * std::sin(angle)) * c_.Number("rope_scale");
      }
    }
    return out;
  }
  Doubles KeptInPages(std::string_view name) const {
    Doubles values = Input(name);
    if (!kv_in_f16_) return values;
    for (double& x : values) x = F16ToF32(F32ToF16(static_cast<float>(x)));
    return values;
  }
  Doubles Attention() const {
    const Doubles q = Input("q"), k = KeptInPages("k"), v = KeptInPages("v"),
                  sinks = Input("sinks");
    const size_t rows = c_.Rows("q"), heads = c_.Count("heads"), kv_heads = c_.Count("kv_heads");
    const size_t columns = c_.Count("head_columns"), window = c_.Count("window");
    const double cap = c_.Number("softcap");
    // Values in keys are their last columns.
    const bool in_keys = c_.params.contains("value_columns");
    const size_t value_columns = in_keys ? c_.Count("value_columns") : columns;
    const Doubles& values = in_keys ? k : v;
    Doubles out;
    for (size_t row = rows - c_.Count("query_rows"); row < rows; ++row) {
      for (size_t h = 0; h < heads; ++h) {
        const size_t kv = h / (heads / kv_heads);
        Doubles scores;
        const size_t first = window > 0 && row >= window ? row - window + 1 : 0;
        for (size_t p = first; p <= row; ++p) {
          const double dot = std::inner_product(&q[(row * heads + h) * columns],
                                                &q[(row * heads + h) * columns] + columns,
                                                &k[(p * kv_heads + kv) * columns], 0.0) *
                             c_.Number("scale");
          scores.push_back(cap > 0 ? cap * std::tanh(dot / cap) : dot);
        }
        double largest = *std::max_element(scores.begin(), scores.end());
        if (!sinks.empty()) largest = std::max(largest, sinks[h]);
        double sum = sinks.empty() ? 0 : std::exp(sinks[h] - largest);
        for (const double s : scores) sum += std::exp(s - largest);
        for (size_t d = columns - value_columns; d < columns; ++d) {
          double value = 0;
          for (size_t p = first; p <= row; ++p) {
            value += std::exp(scores[p - first] - largest) / sum *
                     values[(p * kv_heads + kv) * columns + d];
          }
          out.push_back(value);
        }
      }
    }
    return out;
  }
  double Activate(double g, double u) const {
    if (c_.Is("kind", "silu")) return g / (1 + std::exp(-g)) * u;
    if (c_.Is("kind", "gelu")) return g * 0.5 * std::erfc(-g / std::sqrt(2.0)) * u;
    if (c_.Is("kind", "gelu_tanh")) {
      return 0.5 * g * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * std::pow(g, 3)))) * u;
    }
    if (c_.Is("kind", "relu")) return g > 0 ? g * u : 0;
    g = std::min(g, 7.0);
    return g / (1 + std::exp(-1.702 * g)) * (std::max(-7.0, std::min(u, 7.0)) + 1);
  }
  // Indices of the k largest, ties to the lower index.
  static std::vector<size_t> Largest(const Doubles& values, size_t k) {
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return values[a] > values[b]; });
    order.resize(k);
    return order;
  }
  static Doubles RowOf(const Doubles& values, size_t columns, size_t row) {
    const auto first = values.begin() + static_cast<ptrdiff_t>(row * columns);
    return Doubles(first, first + static_cast<ptrdiff_t>(columns));
  }
  static Doubles RouteRow(const Doubles& logits, size_t k, bool normalized) {
    Doubles out, weights;
    double sum = 0;
    for (const double l : logits) sum += std::exp(l);
    for (const size_t e : Largest(logits, k)) {
      out.push_back(static_cast<double>(e));
      weights.push_back(std::exp(logits[e]) / sum);
    }
    const double chosen = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (const double w : weights) out.push_back(normalized ? w / chosen : w);
    return out;
  }
  // The route of a row by the formulas that DeepSeek-V3's report gives, with sorted lists.
  Doubles ScoredRouteRow(const Doubles& logits) const {
    const Doubles bias = Input("bias");
    const bool softmax =
        c_.Is("kind", "softmax_top_k") || c_.Is("kind", "softmax_top_k_normalized");
    Doubles score;
    double all = 0;
    for (const double l : logits) {
      score.push_back(softmax ? std::exp(l) : 1 / (1 + std::exp(-l)));
      all += score.back();
    }
    Doubles choice;
    for (size_t e = 0; e < logits.size(); ++e) {
      if (softmax) score[e] /= all;
      choice.push_back(score[e] + (bias.empty() ? 0 : bias[e]));
    }
    const size_t groups = c_.params.contains("groups") ? c_.Count("groups") : 1;
    const size_t members = logits.size() / groups;
    if (groups > 1) {
      Doubles worth;
      for (size_t g = 0; g < groups; ++g) {
        Doubles sorted = RowOf(choice, members, g);
        std::ranges::sort(sorted, std::greater<>());
        const auto best = static_cast<ptrdiff_t>(c_.Count("group_best"));
        worth.push_back(std::accumulate(sorted.begin(), sorted.begin() + best, 0.0));
      }
      const std::vector<size_t> kept = Largest(worth, c_.Count("top_groups"));
      for (size_t e = 0; e < choice.size(); ++e) {
        if (std::ranges::find(kept, e / members) == kept.end()) choice[e] = 0;
      }
    }
    if (c_.Is("kind", "all")) {
      Doubles every(2 * choice.size(), 1.0);
      std::iota(every.begin(), every.begin() + static_cast<ptrdiff_t>(choice.size()), 0.0);
      return every;
    }
    const double scale = c_.NumberOr("scale", 1);
    const bool normalized =
        c_.Is("kind", "softmax_top_k_normalized") || c_.Is("kind", "sigmoid_top_k_normalized");
    const std::vector<size_t> chosen = Largest(choice, c_.Count("top_k"));
    double sum = 0;
    for (const size_t e : chosen) sum += score[e];
    const size_t parts = c_.params.contains("parts") ? c_.Count("parts") : 1;
    Doubles out;
    for (const size_t e : chosen)
      for (size_t part = 0; part < parts; ++part)
        out.push_back(static_cast<double>(e * parts + part));
    for (const size_t e : chosen)
      for (size_t part = 0; part < parts; ++part)
        out.push_back(scale * score[e] / (normalized ? sum : 1));
    return out;
  }
  Doubles MoeRoute() const {
    const Doubles logits = Input("logits");
    Doubles out;
    for (size_t row = 0; row < c_.Rows("logits"); ++row) {
      const Doubles route = ScoredRouteRow(RowOf(logits, c_.Columns("logits"), row));
      out.insert(out.end(), route.begin(), route.end());
    }
    return out;
  }
  double OnGrid(double value) const {
    const double step = c_.NumberOr("grid_step", 0), limit = c_.NumberOr("grid_limit", 0);
    if (step == 0) return value;
    return step * std::clamp(std::nearbyint(value / step), -limit, limit);
  }
  Doubles MoeExperts() const {
    const Doubles in = Input("in"), logits = Input("logits");
    const Doubles gate_up_bias = Input("gate_up_bias"), down_bias = Input("down_bias");
    const size_t columns = c_.Columns("in"), width = c_.Columns("down"), k = c_.Count("top_k");
    // Rows of gate and up; without a gate the one value is both.
    const size_t rows = c_.Shape("gate_up")[1];
    const auto bias_of = [](const Doubles& bias, size_t n, size_t e) {
      return bias.empty() ? bias : RowOf(bias, n, e);
    };
    Doubles out(in.size(), 0.0);
    for (size_t row = 0; row < c_.Rows("in"); ++row) {
      const Doubles route = RouteRow(RowOf(logits, c_.Columns("logits"), row), k, true);
      for (size_t slot = 0; slot < k; ++slot) {
        const auto e = static_cast<size_t>(route[slot]);
        const Doubles both = MatMul(RowOf(in, columns, row), "gate_up", e * rows, rows,
                                    bias_of(gate_up_bias, rows, e));
        Doubles hidden(width);
        for (size_t i = 0; i < width; ++i) hidden[i] = Activate(both[i], both[rows - width + i]);
        const Doubles result =
            MatMul(hidden, "down", e * columns, columns, bias_of(down_bias, columns, e));
        for (size_t i = 0; i < columns; ++i)
          out[row * columns + i] += route[k + slot] * OnGrid(result[i]);
      }
    }
    return out;
  }
  Doubles Penalize() const {
    Doubles logits = Input("logits");
    const auto each = [&](const char* list, const auto& change) {
      for (const auto& pair : c_.params.at(list).as_array()) {
        const auto id = pair.at(0).to_number<int64_t>();
        if (id < 0 || id >= static_cast<int64_t>(logits.size())) continue;
        change(logits[static_cast<size_t>(id)], pair.at(1).to_number<double>());
      }
    };
    each("biases", [](double& l, double bias) { l += bias; });
    each("counts", [&](double& l, double count) {
      if (count == 0) return;
      l = l > 0 ? l / c_.Number("repetition") : l * c_.Number("repetition");
      l -= c_.Number("frequency") * count + c_.Number("presence");
    });
    return logits;
  }
  Doubles TopK() const {
    const Doubles logits = Input("logits");
    Doubles out, values;
    for (const size_t id : Largest(logits, c_.Count("k"))) {
      out.push_back(static_cast<double>(id));
      values.push_back(logits[id]);
    }
    out.insert(out.end(), values.begin(), values.end());
    double sum = 0;
    for (const double l : logits) sum += std::exp(l);
    out.push_back(std::log(sum));
    return out;
  }
  Doubles Argmax() const {
    const Doubles logits = Input("logits");
    std::vector<size_t> best = Largest(logits, std::min<size_t>(2, logits.size()));
    if (best.size() == 1) best.push_back(best[0]);
    return {static_cast<double>(best[0]), logits[best[0]], static_cast<double>(best[1]),
            logits[best[1]]};
  }

  const ConformanceCase& c_;
  const bool kv_in_f16_;
};

}  // namespace weft::kernels
