// Runs a layer over several batches (trace_layer.h) and puts what they tell together.
#include <algorithm>
#include <set>

#include "lower/trace/rules.h"
#include "lower/trace/trace_layer.h"
#include "program/codec.h"
#include "program/op_views.h"
#include "program/reuse_buffers.h"

namespace weft::lower {
namespace {

using onnx::Node;
using trace::Probe;
using trace::Trace;

// Tables of angles that a position must lie in.
int64_t TableRows(const onnx::Graph& graph, int64_t context_length) {
  int64_t rows = context_length;
  for (const Node& node : graph.nodes) {
    size_t slot = 0;
    if (node.IsMicrosoft("GroupQueryAttention")) slot = 7;
    if (node.IsMicrosoft("RotaryEmbedding")) slot = 2;
    if (node.Is("RotaryEmbedding") && node.HasInput(3)) slot = 1;
    const onnx::Tensor* table = slot == 0 ? nullptr : graph.FindInitializer(node.Input(slot));
    if (table != nullptr && table->dims.size() == 2) rows = std::min(rows, table->dims[0]);
  }
  return rows;
}

std::vector<Probe> Probes(int64_t positions) {
  std::vector<Probe> probes = {{5, 6, false}, {9, 1, false}, {0, 7, false}};
  std::erase_if(probes, [&](const Probe& p) { return p.past + p.rows > positions; });
  std::set<int64_t> pasts;
  for (int64_t past = 61; past < positions - 3; past *= 4) pasts.insert(past);
  for (const int64_t past : pasts) probes.push_back({past, 3, true});
  if (positions > 16) probes.push_back({positions - 1, 1, true});
  return probes;
}

Error Differs(const Probe& probe) {
  return Error(ErrorCode::kUnsupported,
               "The layer does something else for " + std::to_string(probe.rows) +
                   " positions after " + std::to_string(probe.past) + " than for a short prompt.");
}

// Names are labels; those of a file may be no text.
void MakeNamesText(Program* program) {
  const auto clean = [](std::string& name) {
    for (char& c : name) {
      if (c < ' ' || c > '~') c = '_';
    }
  };
  for (Weight& weight : program->weights) clean(weight.name);
  for (Buffer& buffer : program->buffers) clean(buffer.name);
}

// All batches gave the same operations over the same weights.
Status ExpectSame(const Trace& first, const Trace& other, const Probe& probe) {
  const bool same = program::Encode(first.program) == program::Encode(other.program) &&
                    first.recipes == other.recipes && first.turns.size() == other.turns.size() &&
                    first.attentions.size() == other.attentions.size();
  return same ? OkStatus() : Status(Differs(probe));
}

Status SetFrequencies(const std::vector<Trace>& traces, Trace* trace) {
  for (const auto& [weight, turns] : trace->turns) {
    std::vector<trace::Turn> all;
    for (const Trace& other : traces) {
      const auto found = other.turns.find(weight);
      if (found == other.turns.end()) continue;
      all.insert(all.end(), found->second.begin(), found->second.end());
    }
    auto frequencies = trace::FitFrequencies(std::move(all));
    if (!frequencies) {
      return Error(ErrorCode::kUnsupported,
                   trace->turning_nodes.at(weight) +
                       " takes queries or keys that are rotated by angles other than position "
                       "times one table of frequencies.");
    }
    trace->recipes[weight].values = *std::move(frequencies);
  }
  return OkStatus();
}

Status SetWindows(const std::vector<Trace>& traces, Trace* trace) {
  for (size_t i = 0; i < trace->attentions.size(); ++i) {
    auto& op = std::get<Attention>(trace->program.ops[trace->attentions[i].op]);
    if (trace->attentions[i].window) {
      op.window = *trace->attentions[i].window;
      continue;
    }
    std::vector<trace::MaskSeen> masks;
    masks.reserve(traces.size());
    for (const Trace& other : traces) masks.push_back(other.attentions[i].mask);
    const auto window = trace::FitWindow(masks);
    if (!window) {
      return Error(ErrorCode::kUnsupported,
                   trace->attentions[i].node +
                       " attends by a mask that is neither causal nor a sliding window.");
    }
    op.window = *window;
  }
  return OkStatus();
}

// A norm of heads whose result is only rotated becomes one operation with the rotation.
void JoinNormsAndRotations(Program* program) {
  const auto readers = [&](BufferId buffer) {
    int count = program->output == buffer ? 1 : 0;
    for (const Op& op : program->ops) {
      program::VisitViews(op, [&](const View& view, bool is_output) {
        count += !is_output && view.buffer == buffer ? 1 : 0;
      });
    }
    return count;
  };
  for (size_t i = 0; i < program->ops.size(); ++i) {
    auto* turn = std::get_if<QkNormRope>(&program->ops[i]);
    if (turn == nullptr || !turn->rope || turn->norm_weight) continue;
    for (size_t j = 0; j < i; ++j) {
      const auto* norm = std::get_if<QkNormRope>(&program->ops[j]);
      const bool feeds = norm != nullptr && norm->norm_weight && !norm->rope &&
                         norm->out.buffer == turn->in.buffer &&
                         norm->out.columns == turn->in.columns &&
                         norm->head_columns == turn->head_columns && readers(norm->out.buffer) == 1;
      if (!feeds) continue;
      turn->in = norm->in;
      turn->norm_weight = norm->norm_weight;
      turn->epsilon = norm->epsilon;
      program->ops.erase(program->ops.begin() + static_cast<std::ptrdiff_t>(j));
      --i;
      break;
    }
  }
}

// One trace shows what a layer does with one batch. What must hold for every batch is what several
// have in common: a shape that the exporter froze, a branch on the length or a mask that only looks
// causal for a single row gives another program in one of the probes, and the layer is refused.
// What no single trace can tell is fitted to all of them: the frequencies of rotations, whose
// angles are seen at a few positions, and the width of a sliding window, seen where a mask begins
// to hide the oldest position.
Result<TracedLayer> Traced(const onnx::Graph& graph, uint32_t layer_index, int64_t context_length) {
  const int64_t positions = TableRows(graph, std::max<int64_t>(context_length, 64));
  std::vector<Trace> traces;
  const std::vector<Probe> probes = Probes(positions);
  for (const Probe& probe : probes) {
    ASSIGN_OR_RETURN(Trace trace, trace::Tracer(graph, layer_index, probe, trace::FindRule).Run());
    MakeNamesText(&trace.program);
    if (!traces.empty()) TRY(ExpectSame(traces[0], trace, probe));
    // Layers without positions are the same for all batches.
    const bool positional = !trace.attentions.empty() || !trace.turns.empty();
    traces.push_back(std::move(trace));
    if (!positional && traces.size() == 2) break;
  }
  if (traces.empty()) {
    return Error(ErrorCode::kUnsupported, "The model has no room for a prompt.");
  }
  Trace trace = traces[0];
  TRY(SetFrequencies(traces, &trace));
  TRY(SetWindows(traces, &trace));
  JoinNormsAndRotations(&trace.program);
  program::ReuseBuffers(&trace.program);
  return TracedLayer{std::move(trace.program), std::move(trace.recipes)};
}

}  // namespace

Result<TracedLayer> TraceLayer(const onnx::Model& part, uint32_t layer_index,
                               int64_t context_length) {
  return Traced(part.graph, layer_index, context_length)
      .Context("While lowering layer " + std::to_string(layer_index));
}

}  // namespace weft::lower
