// Attention: spelt out as products, masks and softmax, as the Attention operator of operator set
// 23, or as GroupQueryAttention.
#include <algorithm>
#include <cmath>

#include "lower/refuse.h"
#include "lower/trace/numeric.h"
#include "lower/trace/rules.h"

namespace weft::lower::trace {
namespace {

using onnx::Node;

struct Heads {
  int64_t heads = 0, kv_heads = 0, columns = 0;
};

// Emits the operation; `scale` and `softcap` as functions of plain q k^T.
View EmitAttention(Tracer& tracer, const Node& node, const View& q, const View& k, const View& v,
                   const Heads& heads, const Cap& cap, AttentionSeen seen) {
  const View out = tracer.NewBuffer(node.Output(0), q.columns);
  seen.op = tracer.program().ops.size();
  seen.node = node.Describe();
  tracer.trace().attentions.push_back(std::move(seen));
  tracer.program().ops.push_back(Attention{.q = q,
                                           .k = k,
                                           .v = v,
                                           .out = out,
                                           .heads = static_cast<uint32_t>(heads.heads),
                                           .kv_heads = static_cast<uint32_t>(heads.kv_heads),
                                           .head_columns = static_cast<uint32_t>(heads.columns),
                                           .scale = static_cast<float>(cap.factor),
                                           .window = 0,
                                           .softcap = static_cast<float>(cap.cap),
                                           .sinks = {}});
  return out;
}

// Which cache `value` is, and times what.
struct KeptCache {
  std::string name;
  double factor = 1;
};
std::optional<KeptCache> FindKept(const Tracer& tracer, const ValuePtr& value, bool transposed) {
  if (value->kind == Kind::kShape && tracer.kept().contains(value->cache)) {
    return KeptCache{value->cache, value->factor};
  }
  for (const auto& [name, view] : tracer.kept()) {
    if (const auto factor = tracer.IsKept(*value, name, transposed)) {
      return KeptCache{name, *factor};
    }
  }
  return std::nullopt;
}

// The function before the softmax as scale and cap of what the queries and keys themselves give.
std::optional<Cap> CapOf(const ValuePtr& scores, double factor) {
  Cap cap;
  if (scores->kind == Kind::kPointwise) {
    if (const auto linear = AsFactor(scores->samples)) {
      cap.factor = *linear;
    } else if (const auto capped = AsSoftcap(scores->samples)) {
      cap = *capped;
    } else {
      return std::nullopt;
    }
  }
  cap.factor *= factor;
  return cap;
}

// The probabilities: kProbabilities of a mask of a function of q k^T.
Outputs Attend(Tracer& tracer, const Node& node, const Value& probabilities, const ValuePtr& v) {
  const ValuePtr& masked = probabilities.base;
  if (masked->kind != Kind::kMasked) return Refuse(node, "attends without a mask");
  const ValuePtr& function = masked->base;
  const ValuePtr& scores = function->kind == Kind::kPointwise ? function->base : function;
  const auto k_cache = FindKept(tracer, scores->other, true);
  const auto v_cache = FindKept(tracer, v, false);
  if (!k_cache || !v_cache || v_cache->factor != 1 || v->dims.size() != 4) {
    return Refuse(node, "attends to keys or values that are not a cache and the step's own");
  }
  ASSIGN_OR_RETURN(const Tracer::Placed q, tracer.Heads(node, scores->base));
  const auto cap = CapOf(function, q.factor * k_cache->factor);
  if (!cap) return Refuse(node, "attends by a function of scores that is no scale or softcap");
  const View k_view = tracer.kept().at(k_cache->name), v_view = tracer.kept().at(v_cache->name);
  const int64_t columns = tracer.head_columns();
  const Heads heads{q.view.columns / columns, k_view.columns / columns, columns};
  const bool in_heads = scores->base->dims.size() == 4 && scores->base->dims[1] == heads.heads &&
                        scores->base->dims[2] == tracer.rows();
  if (!in_heads || v_view.columns != k_view.columns || heads.kv_heads == 0 ||
      heads.heads % heads.kv_heads != 0 || v->dims[1] != heads.heads) {
    return Refuse(node, "has heads that do not fit");
  }
  AttentionSeen seen;
  seen.mask = {tracer.probe().past, tracer.rows(), masked->allowed};
  const View out =
      EmitAttention(tracer, node, q.view, k_view, v_view, heads, *cap, std::move(seen));
  return Values{tracer.RowsOf(out, scores->base->dims, Layout::kHeads)};
}

}  // namespace

std::optional<Outputs> AppendToCache(Tracer& tracer, const Node& node, const Values& in) {
  if (in.size() != 2 || !in[0] || !in[1]) return std::nullopt;
  const std::string& name = in[0]->cache;
  if (name.empty() || in[0]->dims.size() != 4 || in[0]->dims[2] != tracer.probe().past) {
    return std::nullopt;
  }
  const int64_t axis = node.Int("axis", 0);
  if (axis != 2 && axis != -2) return Refuse(node, "appends to a cache along another axis");
  auto placed = tracer.Heads(node, in[1]);
  if (!placed.ok()) return std::move(placed).error();
  if (in[1]->dims.size() != 4 || in[1]->dims[1] != in[0]->dims[1] ||
      in[1]->dims[2] != tracer.rows() || in[1]->dims[3] != in[0]->dims[3] || placed->factor != 1) {
    return Refuse(node, "appends to a cache what does not fit it");
  }
  tracer.KeepNew(name, placed->view);
  Value out{.kind = Kind::kShape, .dims = in[0]->dims, .cache = name};
  out.dims[2] = tracer.total();
  if (in[0]->kind == Kind::kForms) {
    out.kind = Kind::kForms;
    const int64_t heads = out.dims[1], columns = out.dims[3];
    const int64_t past = tracer.probe().past * columns, fresh = tracer.rows() * columns;
    for (int64_t head = 0; head < heads; ++head) {
      const auto& old_forms = in[0]->forms;
      const auto& new_forms = placed->value->forms;
      out.forms.insert(out.forms.end(), old_forms.begin() + head * past,
                       old_forms.begin() + (head + 1) * past);
      out.forms.insert(out.forms.end(), new_forms.begin() + head * fresh,
                       new_forms.begin() + (head + 1) * fresh);
    }
    out.cache.clear();
  }
  return Values{MakeValue(std::move(out))};
}

Outputs RunScores(Tracer& tracer, const Node& node, const ValuePtr& q, const ValuePtr& k,
                  double factor) {
  ASSIGN_OR_RETURN(const ValuePtr queries, tracer.Settle(node, q));
  const bool fits = queries->kind == Kind::kForms && queries->dims.size() == 4 &&
                    (k->kind == Kind::kForms || k->kind == Kind::kShape) && k->dims.size() == 4 &&
                    k->dims[1] == queries->dims[1] && k->dims[2] == queries->dims[3] &&
                    k->dims[3] == tracer.total();
  if (!fits) return Refuse(node, "multiplies hidden values that are not queries and keys");
  Dims dims = queries->dims;
  dims[3] = tracer.total();
  ValuePtr scores =
      MakeValue({.kind = Kind::kScores, .dims = std::move(dims), .base = queries, .other = k});
  if (factor == 1) return Values{std::move(scores)};
  std::vector<double> samples = SampleInputs(Kind::kScores);
  for (double& sample : samples) sample *= factor;
  return Values{MakeValue({.kind = Kind::kPointwise,
                           .dims = scores->dims,
                           .samples = std::move(samples),
                           .base = scores})};
}

Outputs RunFusedMatMul(Tracer& tracer, const Node& node, const Values& in) {
  if (in.size() != 2 || !in[0] || !in[1] || node.Int("transA", 0) != 0 ||
      node.Int("transBatchA", 0) != 0 || node.Int("transBatchB", 0) != 0) {
    return Refuse(node, "is transposed in a way that weft does not know");
  }
  const auto alpha = static_cast<double>(node.Float("alpha", 1));
  if (IsConstant(in[1]) || in[0]->kind == Kind::kProbabilities) {
    if (alpha != 1 || node.Int("transB", 0) != 0) {
      return Refuse(node, "scales or transposes a product that is not one of queries and keys");
    }
    return RunMatMul(tracer, node, in);
  }
  ValuePtr k = in[1];
  if (node.Int("transB", 0) != 0) {
    Node transpose;
    transpose.op_type = "Transpose";
    transpose.name = node.name;
    transpose.inputs = {"k"};
    transpose.outputs = {"k_transposed"};
    transpose.Set(onnx::Attribute::Of("perm", std::vector<int64_t>{0, 1, 3, 2}));
    ASSIGN_OR_RETURN(const Values moved, RunMove(tracer, transpose, {k}));
    k = moved[0];
  }
  return RunScores(tracer, node, in[0], k, alpha);
}

Result<ValuePtr> Mask(Tracer& tracer, const Node& node, const ValuePtr& scores,
                      const ValuePtr& mask, bool additive) {
  const ValuePtr function = AsPointwise(scores);
  if (function == nullptr || function->base->kind != Kind::kScores ||
      BroadcastDims(mask->dims, function->dims) != function->dims) {
    return Refuse(node, "masks what are no scores of queries and keys");
  }
  const auto plane = static_cast<size_t>(tracer.rows() * tracer.total());
  Value out{.kind = Kind::kMasked, .dims = function->dims, .base = function};
  for (size_t i = 0; i < plane; ++i) {
    const double number = mask->numbers[BroadcastIndex(i, function->dims, mask->dims)];
    if (additive && number != 0 && !(number <= -1e4)) {
      return Refuse(
          node, "adds " + std::to_string(number) + " to a score; a mask adds 0 or at most -10000");
    }
    out.allowed.push_back(additive ? number == 0 : number != 0);
  }
  int64_t leading = 1;
  for (size_t i = 0; i + 2 < mask->dims.size(); ++i) leading *= mask->dims[i];
  for (size_t i = 0; leading > 1 && i < static_cast<size_t>(CountOf(function->dims)); ++i) {
    const double number = mask->numbers[BroadcastIndex(i, function->dims, mask->dims)];
    if ((additive ? number == 0 : number != 0) != (out.allowed[i % plane] != 0)) {
      return Refuse(node, "has another mask for each head");
    }
  }
  return MakeValue(std::move(out));
}

Outputs RunSoftmax(Tracer& tracer, const Node& node, const Values& in) {
  const int64_t axis = node.Int("axis", -1);
  const Value& x = *in[0];
  if (axis != -1 && axis != static_cast<int64_t>(x.dims.size()) - 1) {
    return Refuse(node, "is over another axis than the last");
  }
  if (auto routed = RouteSoftmax(tracer, in[0])) return *std::move(routed);
  if (x.kind == Kind::kMasked) {
    return Values{MakeValue({.kind = Kind::kProbabilities, .dims = x.dims, .base = in[0]})};
  }
  return Refuse(node, "is not over scores with a mask");
}

Outputs RunAttend(Tracer& tracer, const Node& node, const ValuePtr& probabilities,
                  const ValuePtr& v) {
  return Attend(tracer, node, *probabilities, v);
}

Outputs RunAttention(Tracer& tracer, const Node& node, const Values& in) {
  if (in.size() < 4 || !in[0] || !in[1] || !in[2] || !in[3]) {
    return Refuse(node, "has no mask, or lacks an operand");
  }
  if (node.HasInput(4) || node.HasInput(5) || node.HasInput(6) || node.HasOutput(1) ||
      node.Int("is_causal", 0) != 0 || in[0]->dims.size() != 4) {
    return Refuse(node, "has a cache, lengths or a causal mask of its own, or no separate heads");
  }
  const int64_t heads = in[0]->dims[1];
  Dims scores_dims = in[0]->dims;
  scores_dims[3] = tracer.total();
  const float scale = node.Float("scale", 0), softcap = node.Float("softcap", 0);
  const double factor =
      scale != 0 ? static_cast<double>(scale) : 1 / std::sqrt(static_cast<double>(in[0]->dims[3]));
  ASSIGN_OR_RETURN(const Tracer::Placed q, tracer.Heads(node, in[0]));
  const auto k = FindKept(tracer, in[1], false), v = FindKept(tracer, in[2], false);
  if (!k || !v || v->factor != 1) {
    return Refuse(node, "attends to keys or values that are not a cache and the step's own");
  }
  const ValuePtr mask = tracer.NumbersOf(in[3]);
  if (mask == nullptr) return Refuse(node, "has a mask that depends on the hidden state");
  const ValuePtr scores =
      MakeValue({.kind = Kind::kScores, .dims = scores_dims, .base = q.value, .other = in[1]});
  ASSIGN_OR_RETURN(const ValuePtr masked,
                   Mask(tracer, node, scores, mask, mask->type != onnx::ElementType::kBool));
  const View k_view = tracer.kept().at(k->name), v_view = tracer.kept().at(v->name);
  const Heads shape{heads, k_view.columns / in[0]->dims[3], in[0]->dims[3]};
  if (shape.kv_heads == 0 || heads % shape.kv_heads != 0 || v_view.columns != k_view.columns) {
    return Refuse(node, "has heads that do not fit");
  }
  AttentionSeen seen;
  seen.mask = {tracer.probe().past, tracer.rows(), masked->allowed};
  const View out =
      EmitAttention(tracer, node, q.view, k_view, v_view, shape,
                    {static_cast<double>(softcap), factor * q.factor * k->factor}, std::move(seen));
  return Values{tracer.RowsOf(out, in[0]->dims, Layout::kHeads)};
}

}  // namespace weft::lower::trace
