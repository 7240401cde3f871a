#include "program/summary.h"

#include <algorithm>
#include <set>
#include <variant>

#include "program/op_views.h"

namespace weft::program {
namespace {

struct Reader {
  const Program& program;
  LayerSummary& summary;
  std::set<BufferId> products = {};  // buffers that a product was written to last

  void operator()(const Attention& op) {
    summary.mixer = "attention";
    summary.heads = op.heads;
    summary.kv_heads = op.kv_heads;
    summary.head_columns = op.head_columns;
    summary.window = op.window;
    summary.kv_layer = op.kv_layer;
  }
  void operator()(const DeltaRule& op) {
    summary.mixer = "delta rule";
    summary.heads = op.value_heads;
    summary.kv_heads = op.key_heads;
    summary.head_columns = op.value_columns;
  }
  void operator()(const SsmScan& op) {
    summary.mixer = "selective scan";
    summary.heads = op.heads;
    summary.kv_heads = op.groups;
    summary.head_columns = op.head_columns;
  }
  // The other two recurrent mixers have a convolution in front.
  void operator()(const CausalConv&) {
    if (summary.mixer.empty()) summary.mixer = "short convolution";
  }
  // An MLP's is over products; recurrent mixers gate what they have mixed.
  void operator()(const GatedActivation& op) {
    if (products.contains(op.up.buffer))
      summary.mlp_columns = std::max(summary.mlp_columns, op.out.columns);
  }
  void operator()(const MoeRoute& op) { summary.expert_parts = op.parts; }
  // Behind its route.
  void operator()(const MoeExperts& op) {
    const uint32_t parts = summary.expert_parts;
    summary.experts = op.experts / parts;
    summary.experts_per_token = op.top_k / parts;
    summary.expert_columns = static_cast<uint32_t>(program.weights[op.down].shape[2]) * parts;
  }
  template <typename Other>
  void operator()(const Other&) {}

  void Read(const Op& op) {
    std::visit(*this, op);
    VisitViews(op, [&](const View& view, bool is_output) {
      if (!is_output) return;
      if (std::holds_alternative<MatMul>(op))
        products.insert(view.buffer);
      else
        products.erase(view.buffer);
    });
  }
};

// ", 8 heads": a number and what is counted, behind other such.
std::string Also(uint32_t count, const char* what) {
  return ", " + std::to_string(count) + " " + what;
}

}  // namespace

LayerSummary Summarise(const Program& program) {
  LayerSummary summary;
  Reader reader{program, summary};
  for (const Op& op : program.ops) reader.Read(op);
  return summary;
}

std::string MixerText(const LayerSummary& summary) {
  std::string text = summary.mixer;
  if (summary.heads > 0) text += Also(summary.heads, summary.heads == 1 ? "head" : "heads");
  if (summary.kv_heads != summary.heads) text += Also(summary.kv_heads, "of keys");
  if (summary.head_columns > 0) text += Also(summary.head_columns, "columns");
  if (summary.window > 0) text += ", window " + std::to_string(summary.window);
  if (summary.kv_layer) text += ", keys of layer " + std::to_string(*summary.kv_layer);
  return text;
}

std::string MlpText(const LayerSummary& summary) {
  std::string text;
  if (summary.experts > 0) {
    text = std::to_string(summary.experts_per_token) + " of " + std::to_string(summary.experts) +
           " experts of " + std::to_string(summary.expert_columns);
    if (summary.expert_parts > 1) text += " in " + std::to_string(summary.expert_parts) + " parts";
  }
  if (summary.mlp_columns == 0) return text;
  return text + (text.empty() ? "" : ", ") + "MLP of " + std::to_string(summary.mlp_columns);
}

}  // namespace weft::program
