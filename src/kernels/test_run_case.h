// For tests only: runs a conformance case through a set of kernels; the result is flat, as
// `expected` is.
#pragma once

#include <array>
#include <stdexcept>

#include "kernels/kernel_set.h"
#include "kernels/test_case.h"
#include "sampling/penalize.h"

namespace weft::kernels {

class CaseRunner {
 public:
  CaseRunner(const KernelSet& kernels, Workspace& workspace, DType kv_dtype = DType::kF16)
      : kernels_(kernels), workspace_(workspace), kv_dtype_(kv_dtype) {}

  std::vector<float> Run(const ConformanceCase& c) {
    if (c.op == "embed") return Embed(c);
    if (c.op == "rms_norm") return RmsNorm(c);
    if (c.op == "layer_norm") return LayerNorm(c);
    if (c.op == "matmul") return MatMul(c);
    if (c.op == "add") return Add(c);
    if (c.op == "scale") return Scale(c);
    if (c.op == "softcap") return Softcap(c);
    if (c.op == "qk_norm_rope") return QkNormRope(c);
    if (c.op == "attention") return Attention(c);
    if (c.op == "gated_activation") return GatedActivation(c);
    if (c.op == "moe_route") return MoeRoute(c);
    if (c.op == "moe_experts") return MoeExperts(c);
    if (c.op == "penalize") return Penalize(c);
    if (c.op == "top_k") return TopK(c);
    if (c.op == "argmax") return Argmax(c);
    throw std::runtime_error("no such operation: " + c.op);
  }

  static ActivationKind Activation(const ConformanceCase& c) {
    if (c.Is("kind", "silu")) return ActivationKind::kSilu;
    if (c.Is("kind", "gelu_tanh")) return ActivationKind::kGeluTanh;
    if (c.Is("kind", "gelu")) return ActivationKind::kGelu;
    if (c.Is("kind", "relu")) return ActivationKind::kRelu;
    return ActivationKind::kSwigluOai;
  }
  static std::vector<uint32_t> Positions(size_t first, size_t count) {
    std::vector<uint32_t> positions;
    for (size_t i = 0; i < count; ++i) positions.push_back(static_cast<uint32_t>(first + i));
    return positions;
  }

 private:
  static ConstRows In(const std::vector<float>& values, size_t columns) {
    return {values.data(), values.size() / columns, columns, columns};
  }
  // Results begin as NaN, so that what a kernel does not write shows.
  Rows Out(size_t rows, size_t columns) {
    out_.assign(rows * columns, NAN);
    return {out_.data(), rows, columns, columns};
  }

  std::vector<float> Embed(const ConformanceCase& c) {
    const CaseWeight table = c.Weight("table");
    const std::vector<int32_t> ids = c.Ints("token_ids");
    kernels_.embed({table.matrix(), ids, static_cast<float>(c.Number("scale")),
                    Out(ids.size(), c.Columns("table"))},
                   workspace_);
    return out_;
  }
  std::vector<float> RmsNorm(const ConformanceCase& c) {
    const auto in = c.Floats("in"), weight = c.Floats("weight");
    kernels_.rms_norm({In(in, c.Columns("in")), weight, static_cast<float>(c.Number("epsilon")),
                       Out(c.Rows("in"), c.Columns("in")), c.Columns("in") / c.Columns("weight")},
                      workspace_);
    return out_;
  }
  std::vector<float> LayerNorm(const ConformanceCase& c) {
    const auto in = c.Floats("in"), weight = c.Floats("weight"), bias = c.Floats("bias");
    kernels_.layer_norm(
        {In(in, c.Columns("in")), weight, bias, static_cast<float>(c.Number("epsilon")),
         Out(c.Rows("in"), c.Columns("in"))},
        workspace_);
    return out_;
  }
  std::vector<float> MatMul(const ConformanceCase& c) {
    const auto in = c.Floats("in"), bias = c.Floats("bias");
    const CaseWeight weight = c.Weight("weight");
    const MatMulArgs args = {In(in, c.Columns("in")), weight.matrix(), bias,
                             Out(c.Rows("in"), c.Rows("weight"))};
    kernels_.matmuls({&args, 1}, workspace_);
    return out_;
  }
  std::vector<float> Add(const ConformanceCase& c) {
    const auto a = c.Floats("a"), b = c.Floats("b");
    const size_t columns = c.Columns("a");
    kernels_.add({In(a, columns), In(b, columns), Out(c.Rows("a"), columns)}, workspace_);
    return out_;
  }
  std::vector<float> Scale(const ConformanceCase& c) {
    const auto in = c.Floats("in");
    kernels_.scale({In(in, c.Columns("in")), static_cast<float>(c.Number("factor")),
                    Out(c.Rows("in"), c.Columns("in"))},
                   workspace_);
    return out_;
  }
  std::vector<float> Softcap(const ConformanceCase& c) {
    const auto in = c.Floats("in");
    kernels_.softcap({In(in, c.Columns("in")), static_cast<float>(c.Number("cap")),
                      Out(c.Rows("in"), c.Columns("in"))},
                     workspace_);
    return out_;
  }
  std::vector<float> QkNormRope(const ConformanceCase& c) {
    const auto in = c.Floats("in"), weight = c.Floats("norm_weight"),
               inv_freq = c.Floats("inv_freq");
    const auto positions = Positions(c.Count("first_position"), c.Rows("in"));
    QkNormRopeArgs args;
    args.in = In(in, c.Columns("in"));
    args.heads = c.Count("heads");
    args.head_columns = c.Count("head_columns");
    args.norm_weight = weight;
    args.epsilon = static_cast<float>(c.Number("epsilon"));
    args.inv_freq = inv_freq;
    args.rope_scale = static_cast<float>(c.Number("rope_scale"));
    args.interleaved = c.params.at("interleaved").as_bool();
    args.positions = positions;
    args.out = Out(c.Rows("in"), c.Columns("in"));
    kernels_.qk_norm_rope(args, workspace_);
    return out_;
  }
  std::vector<float> Attention(const ConformanceCase& c) {
    const auto q = c.Floats("q"), k = c.Floats("k"), v = c.Floats("v"), sinks = c.Floats("sinks");
    AttentionArgs args;
    args.kv = {c.Count("kv_heads"), c.Count("head_columns"), kv_dtype_};
    if (c.params.contains("value_columns")) args.kv.value_columns = c.Count("value_columns");
    const size_t out_columns = c.Count("heads") * args.kv.out_columns();
    const size_t rows = c.Rows("q");
    // What a page held before must not matter: not-a-number everywhere.
    std::vector<uint8_t> memory((rows / 32 + 1) * args.kv.page_bytes(), uint8_t{0xff});
    std::vector<void*> pages;
    for (size_t i = 0; i <= rows / 32; ++i) pages.push_back(&memory[i * args.kv.page_bytes()]);
    std::vector<AttentionRow> kv_rows;
    for (const uint32_t p : Positions(0, rows)) kv_rows.push_back({p, pages.data()});
    args.q = In(q, c.Columns("q"));
    args.k = In(k, c.Columns("k"));
    if (!args.kv.values_in_keys()) args.v = In(v, c.Columns("v"));
    args.heads = c.Count("heads");
    args.scale = static_cast<float>(c.Number("scale"));
    args.window = static_cast<uint32_t>(c.Count("window"));
    args.softcap = static_cast<float>(c.Number("softcap"));
    args.sinks = sinks;
    args.kv_rows = kv_rows;
    args.out = Out(rows, out_columns);
    kernels_.attention(args, workspace_);
    const size_t wanted = c.Count("query_rows") * out_columns;
    return {out_.end() - static_cast<ptrdiff_t>(wanted), out_.end()};
  }
  std::vector<float> GatedActivation(const ConformanceCase& c) {
    const auto gate = c.Floats("gate"), up = c.Floats("up");
    const size_t columns = c.Columns("gate");
    kernels_.gated_activation(
        {In(gate, columns), In(up, columns), Activation(c), Out(c.Rows("gate"), columns)},
        workspace_);
    return out_;
  }
  std::vector<float> MoeRoute(const ConformanceCase& c) {
    const auto logits = c.Floats("logits");
    const auto bias = c.Floats("bias");
    const size_t parts = c.params.contains("parts") ? c.Count("parts") : 1;
    MoeRouteArgs args{In(logits, c.Columns("logits")), c.Count("top_k"), RouteKindOf(c),
                      Out(c.Rows("logits"), 2 * c.Count("top_k") * parts), bias};
    args.parts = parts;
    if (c.params.contains("groups")) {
      args.groups = c.Count("groups");
      args.top_groups = c.Count("top_groups");
      args.group_best = c.Count("group_best");
    }
    if (c.params.contains("scale")) args.scale = static_cast<float>(c.Number("scale"));
    kernels_.moe_route(args, workspace_);
    return out_;
  }
  static RouteKind RouteKindOf(const ConformanceCase& c) {
    if (c.Is("kind", "softmax_top_k")) return RouteKind::kSoftmaxTopK;
    if (c.Is("kind", "sigmoid_top_k")) return RouteKind::kSigmoidTopK;
    if (c.Is("kind", "sigmoid_top_k_normalized")) return RouteKind::kSigmoidTopKNormalized;
    if (c.Is("kind", "all")) return RouteKind::kAll;
    return RouteKind::kSoftmaxTopKNormalized;
  }
  static std::vector<Matrix> Split(const Matrix& all, size_t experts) {
    std::vector<Matrix> matrices;
    for (size_t e = 0; e < experts; ++e) {
      matrices.push_back(all.Sub(e * (all.rows / experts), all.rows / experts));
    }
    return matrices;
  }
  std::vector<float> MoeExperts(const ConformanceCase& c) {
    const auto in = c.Floats("in"), logits = c.Floats("logits");
    const auto gate_up_bias = c.Floats("gate_up_bias"), down_bias = c.Floats("down_bias");
    const size_t experts = c.Columns("logits");
    const size_t top_k = c.Count("top_k");
    kernels_.moe_route({In(logits, experts), top_k, RouteKind::kSoftmaxTopKNormalized,
                        Out(c.Rows("in"), 2 * top_k)},
                       workspace_);
    const std::vector<float> route = out_;
    const CaseWeight gate_up = c.Weight("gate_up"), down = c.Weight("down");
    const auto gate_ups = Split(gate_up.matrix(), experts), downs = Split(down.matrix(), experts);
    kernels_.moe_experts({In(in, c.Columns("in")),
                          In(route, 2 * top_k),
                          top_k,
                          Activation(c),
                          gate_ups,
                          downs,
                          gate_up_bias,
                          down_bias,
                          Out(c.Rows("in"), c.Columns("in")),
                          {static_cast<float>(c.NumberOr("grid_step", 0)),
                           static_cast<float>(c.NumberOr("grid_limit", 0))}},
                         workspace_);
    return out_;
  }
  std::vector<float> Penalize(const ConformanceCase& c) {
    std::vector<sampling::TokenCount> counts;
    for (const auto& pair : c.params.at("counts").as_array()) {
      counts.push_back({pair.at(0).to_number<int32_t>(), pair.at(1).to_number<uint32_t>()});
    }
    sampling::Parameters parameters;
    for (const auto& pair : c.params.at("biases").as_array()) {
      parameters.logit_bias.push_back(
          {pair.at(0).to_number<int32_t>(), pair.at(1).to_number<float>()});
    }
    std::vector<float> logits = c.Floats("logits");
    parameters.repetition_penalty = static_cast<float>(c.Number("repetition"));
    parameters.presence_penalty = static_cast<float>(c.Number("presence"));
    parameters.frequency_penalty = static_cast<float>(c.Number("frequency"));
    sampling::Penalize(parameters, counts, logits);
    return logits;
  }
  std::vector<float> TopK(const ConformanceCase& c) {
    const auto logits = c.Floats("logits");
    std::vector<TokenLogit> best(c.Count("k"));
    const float logsumexp = kernels_.top_k({logits, best});
    std::vector<float> out;
    for (const TokenLogit& token : best) out.push_back(static_cast<float>(token.token_id));
    for (const TokenLogit& token : best) out.push_back(token.logit);
    out.push_back(logsumexp);
    return out;
  }
  std::vector<float> Argmax(const ConformanceCase& c) {
    const ArgmaxResult result = kernels_.argmax(c.Floats("logits"));
    return {static_cast<float>(result.best.token_id), result.best.logit,
            static_cast<float>(result.second.token_id), result.second.logit};
  }

  const KernelSet& kernels_;
  Workspace& workspace_;
  const DType kv_dtype_;
  std::vector<float> out_;
};

}  // namespace weft::kernels
