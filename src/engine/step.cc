#include "engine/step.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "engine/best_of_ranges.h"
#include "engine/select.h"
#include "kernels/finite.h"

namespace weft::engine {
namespace {

// The head's output is as wide as the vocabulary.
constexpr size_t kHeadRowsPerPass = 8;

Error Invalid(std::string message) {
  return Error(ErrorCode::kInvalidArgument, std::move(message));
}

bool NeedsLogits(OutputKind kind) {
  return kind == OutputKind::kArgmax || kind == OutputKind::kCandidates ||
         kind == OutputKind::kLogits || kind == OutputKind::kDraw;
}

bool RowNeedsHead(const Run& run, bool last_of_run) {
  return run.output.kind == OutputKind::kLogits || (last_of_run && NeedsLogits(run.output.kind));
}

// A layer that attends to another one's keys and values runs in the step that appends them.
Status CheckAttended(const LayerMap& layers, LayerRange range, const LoadedLayer& layer) {
  const uint32_t index = layer.program().layer_index;
  const uint32_t source = layer.attended_layer().value_or(index);
  if (source == index) return OkStatus();
  const std::string who = "Layer " + std::to_string(index) +
                          " attends to the keys and values of layer " + std::to_string(source);
  if (source < range.first) {
    return Invalid(who + ", so a step over layers [" + std::to_string(range.first) + ", " +
                   std::to_string(range.end) + ") cannot run.");
  }
  const std::optional<kernels::KvShape> kept = layers.at(source).kv_shape();
  if (kept && *kept == *layer.attended_shape()) return OkStatus();
  return Invalid(who + ", which keeps none of its shape.");
}

Status CheckLayers(const LayerMap& layers, LayerRange range) {
  if (range.first >= range.end) {
    return Invalid("A step over layers [" + std::to_string(range.first) + ", " +
                   std::to_string(range.end) + ") runs no layer.");
  }
  const LoadedLayer* previous = nullptr;
  for (uint32_t index = range.first; index < range.end; ++index) {
    const auto found = layers.find(index);
    if (found == layers.end()) {
      return Invalid("Layer " + std::to_string(index) + " is not loaded, so a step over layers [" +
                     std::to_string(range.first) + ", " + std::to_string(range.end) +
                     ") cannot run.");
    }
    const LoadedLayer& layer = found->second;
    if (previous != nullptr) {
      if (layer.is_embedding() || previous->is_head()) {
        return Invalid("Layer " + std::to_string(index) +
                       (layer.is_embedding() ? " reads token ids" : " comes after logits") +
                       ", so no layer can hand it a residual stream.");
      }
      if (layer.input_columns() != previous->output_columns()) {
        return Invalid("Layer " + std::to_string(index) + " takes " +
                       std::to_string(layer.input_columns()) +
                       " columns; the layer before it gives " +
                       std::to_string(previous->output_columns()) + ".");
      }
    }
    TRY(CheckAttended(layers, range, layer));
    previous = &layer;
  }
  return OkStatus();
}

Status CheckOutput(const Run& run, const LoadedLayer& last) {
  const std::string who = "The run of session " + std::to_string(run.session);
  if (NeedsLogits(run.output.kind) && !last.is_head()) {
    return Invalid(who +
                   " asks for tokens or logits, but the step does not include the output head.");
  }
  switch (run.output.kind) {
    case OutputKind::kNone:
    case OutputKind::kArgmax:
    case OutputKind::kLogits:
      return OkStatus();
    case OutputKind::kHidden:
      if (!last.is_head()) return OkStatus();
      return Invalid(who +
                     " asks for the residual stream, but the step ends with the output head.");
    case OutputKind::kCandidates: {
      const uint32_t most = std::min<uint32_t>(kernels::kMaxTopK, last.output_columns());
      if (run.output.candidate_count >= 1 && run.output.candidate_count <= most) return OkStatus();
      return Invalid(who + " asks for " + std::to_string(run.output.candidate_count) +
                     " candidates; expected 1 to " + std::to_string(most) + ".");
    }
    case OutputKind::kDraw: {
      if (run.output.sampling == nullptr)
        return Invalid(who + " asks for a draw, but its sampling parameters are not known.");
      const uint32_t most = std::min<uint32_t>(sampling::kMaxTopLogprobs, last.output_columns());
      if (run.output.candidate_count <= most) return OkStatus();
      return Invalid(who + " asks for " + std::to_string(run.output.candidate_count) +
                     " tokens beside a draw; expected 0 to " + std::to_string(most) + ".");
    }
  }
  return Invalid(who + " asks for output kind " +
                 std::to_string(static_cast<int>(run.output.kind)) + ", which does not exist.");
}

Status CheckInputs(const LoadedLayer& first, const StepInput& input, size_t row_count) {
  const size_t ids_expected = first.is_embedding() ? row_count : 0;
  const size_t hidden_expected = row_count * first.input_columns();
  if (input.token_ids.size() != ids_expected || input.hidden.size() != hidden_expected) {
    return Invalid("A step of " + std::to_string(row_count) + " rows that begins with layer " +
                   std::to_string(input.layers.first) + " takes " + std::to_string(ids_expected) +
                   " token ids and " + std::to_string(hidden_expected) +
                   " hidden values; it was given " + std::to_string(input.token_ids.size()) +
                   " and " + std::to_string(input.hidden.size()) + ".");
  }
  for (const int32_t id : input.token_ids) {
    if (id >= 0 && static_cast<uint64_t>(id) < first.vocabulary()) continue;
    return Invalid("Token id " + std::to_string(id) + " is outside the vocabulary of " +
                   std::to_string(first.vocabulary()) + ".");
  }
  if (const size_t bad = kernels::CountNonFinite(input.hidden); bad > 0) {
    return Error(ErrorCode::kInvalidData, "The rows handed to layer " +
                                              std::to_string(input.layers.first) + " hold " +
                                              std::to_string(bad) + " values that are not finite.");
  }
  return OkStatus();
}

}  // namespace

Result<size_t> CheckStep(const LayerMap& layers, const StepInput& input) {
  TRY(CheckLayers(layers, input.layers));
  if (input.runs.empty()) return Invalid("A step needs at least one run of rows; it has none.");
  const LoadedLayer& last = layers.at(input.layers.end - 1);
  std::unordered_set<uint32_t> sessions;
  size_t row_count = 0;
  for (const Run& run : input.runs) {
    if (run.count == 0 || run.count > kMaxPositions) {
      return Invalid("The run of session " + std::to_string(run.session) + " has " +
                     std::to_string(run.count) + " rows; expected 1 to " +
                     std::to_string(kMaxPositions) + ".");
    }
    if (input.runs.size() > 1 && !sessions.insert(run.session).second) {
      return Invalid("Session " + std::to_string(run.session) + " has two runs in one step.");
    }
    TRY(CheckOutput(run, last));
    row_count += run.count;
  }
  TRY(CheckInputs(layers.at(input.layers.first), input, row_count));
  return row_count;
}

size_t StepRunner::MostRowsPerPass(const LayerMap& layers, LayerRange range) {
  for (uint32_t index = range.first; index < range.end; ++index)
    if (layers.at(index).exchanges()) return kLeastRowsPerPass;
  return kMostRowsPerPass;
}

ScratchNeeds StepRunner::NeedsOfStep(const LayerMap& layers, const StepInput& input,
                                     size_t row_count, size_t rows_per_pass) {
  uint32_t end_position = 0;
  size_t head_rows = 0;
  for (const Run& run : input.runs) {
    end_position = std::max(end_position, run.first_position + run.count);
    if (NeedsLogits(run.output.kind))
      head_rows += run.output.kind == OutputKind::kLogits ? run.count : 1;
  }
  ScratchNeeds needs;
  for (uint32_t index = input.layers.first; index < input.layers.end; ++index) {
    const LoadedLayer& layer = layers.at(index);
    const bool selects = layer.is_head() && !layer.attended_layer();
    const size_t rows = layer.is_head()
                            ? std::min(kHeadRowsPerPass, selects ? head_rows : row_count)
                            : std::min(rows_per_pass, row_count);
    needs.Include(NeedsOf(layer, rows, end_position, input.parts.size()));
  }
  // Whatever the layers, the input rows of a pass and the gathered rows of the head must fit.
  const LoadedLayer& first = layers.at(input.layers.first);
  needs.residual =
      std::max<size_t>(needs.residual, std::min(rows_per_pass, row_count) * first.input_columns());
  return needs;
}

ResultSize StepRunner::ResultOfStep(const LayerMap& layers, const StepInput& input) {
  const size_t columns = layers.at(input.layers.end - 1).output_columns();
  ResultSize size;
  for (const Run& run : input.runs) {
    const Output& wanted = run.output;
    if (wanted.kind == OutputKind::kHidden) size.hidden += run.count * columns;
    if (wanted.kind == OutputKind::kLogits) size.logits += run.count * columns;
    if (wanted.kind == OutputKind::kDraw && wanted.sampling->parameters.ChangesLogits()) {
      size.unchanged = columns;
    }
  }
  return size;
}

Status StepRunner::CheckFinite(uint32_t layer, DType dtype, const StepFlight& step,
                               std::span<const size_t> indices, const kernels::ConstRows& values) {
  const size_t bad = runner_.CountNonFinite(values);
  if (bad == 0) return OkStatus();
  size_t first = 0;
  while (kernels::CountNonFinite(values.Row(first)) == 0) ++first;
  const StepRow& row = step.state->rows[indices[first]];
  return Error(ErrorCode::kInvalidData,
               "Layer " + std::to_string(layer) + " computed " + std::to_string(bad) +
                   " values that are not finite in " + std::string(DTypeName(dtype)) +
                   ", first in session " + std::to_string(step.input.runs[row.run].session) +
                   " at position " + std::to_string(row.position) + ".");
}

void StepRunner::ListRows(StepFlight& step) {
  std::vector<StepRow>& rows = step.state->rows;
  rows.clear();
  for (uint32_t run = 0; run < step.input.runs.size(); ++run) {
    const Run& each = step.input.runs[run];
    for (uint32_t i = 0; i < each.count; ++i)
      rows.push_back({run, each.first_position + i, i + 1 == each.count});
  }
}

void StepRunner::Place(const LoadedLayer& layer, StepFlight& step,
                       std::span<const size_t> indices) {
  StepState& state = *step.state;
  state.positions.clear();
  state.kv_rows.clear();
  state.state_runs.clear();
  const bool has_kv = layer.attended_layer().has_value();
  const uint32_t kv_layer = layer.attended_layer().value_or(layer.program().layer_index);
  const bool has_state = layer.state_floats() > 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const StepRow& row = state.rows[indices[i]];
    state.positions.push_back(row.position);
    if (!has_kv && !has_state) continue;
    if (has_kv) {
      const auto& kept = step.kv.state(row.run, kv_layer);
      state.kv_rows.push_back({row.position, kept.addresses.data()});
    }
    if (!has_state) continue;
    const auto& held = step.kv.state(row.run, layer.program().layer_index);
    if (i > 0 && state.rows[indices[i - 1]].run == row.run) {
      ++state.state_runs.back().row_count;
      continue;
    }
    // A run that an earlier pass began goes on from what that pass left.
    const bool begins = indices[i] == 0 || state.rows[indices[i] - 1].run != row.run;
    state.state_runs.push_back(
        {i, 1, begins ? held.StateBefore() : held.StateAfter(), held.StateAfter()});
  }
}

void StepRunner::Select(StepFlight& step, const StepRow& row, std::span<float> logits) const {
  const Output& wanted = step.input.runs[row.run].output;
  StepOutput& output = step.output;
  if (wanted.kind == OutputKind::kLogits) {
    output.logits.insert(output.logits.end(), logits.begin(), logits.end());
  } else if (row.last_of_run && NeedsLogits(wanted.kind)) {
    output.selections.push_back(SelectRow(kernels_, wanted, logits));
  }
}

void StepRunner::AskForBest(const LoadedLayer& layer, StepFlight& step,
                            std::span<const size_t> indices) {
  const auto& ops = layer.program().ops;
  const bool all = std::ranges::all_of(indices, [&step](size_t index) {
    return step.input.runs[step.state->rows[index].run].output.kind == OutputKind::kArgmax;
  });
  // What follows the product might make logits equal that are not.
  const bool is_last = *step.stopped_at + 1 == ops.size();
  if (!all || !is_last || step.request.slot_columns < 2) return;
  step.request.kind = SlotKind::kBest;
  step.request.slot_columns = kBestColumns;
}

Status StepRunner::TakeBest(const LoadedLayer& layer, StepFlight& step, size_t row_count,
                            std::span<const float> slots) {
  const auto& op = std::get<program::RangeExchange>(layer.program().ops[*step.stopped_at]);
  const program::ProductRanges ranges{0, 0, 0, op.ranges, op.range_columns, op.out.columns};
  const size_t row_values = op.ranges * kBestColumns;
  if (slots.size() != row_count * row_values)
    return Invalid("Layer " + std::to_string(layer.program().layer_index) + " wants " +
                   std::to_string(row_count * row_values) +
                   " values of the best of its ranges; it was given " +
                   std::to_string(slots.size()) + ".");
  for (size_t row = 0; row < row_count; ++row) {
    ASSIGN_OR_RETURN(Selection best,
                     BestOfRanges(ranges, slots.subspan(row * row_values, row_values)));
    step.output.selections.push_back(std::move(best));
  }
  return OkStatus();
}

Result<bool> StepRunner::RunHead(const LoadedLayer& layer, StepFlight& step,
                                 std::span<const float> slots) {
  StepState& state = *step.state;
  const bool all_rows = layer.attended_layer().has_value();
  const size_t columns = layer.input_columns();
  const size_t vocabulary = layer.output_columns();
  const float* stream = state.scratch.residual[step.in].Reserve(0);
  if (!step.stopped_at) {
    state.head_rows.clear();
    step.head_done = 0;
    for (const size_t row : state.pass_rows) {
      const bool needed =
          RowNeedsHead(step.input.runs[state.rows[row].run], state.rows[row].last_of_run);
      if (all_rows || needed) state.head_rows.push_back(row);
    }
  }
  const std::span<const size_t> wanted(state.head_rows);
  for (; step.head_done < wanted.size(); step.head_done += kHeadRowsPerPass) {
    const auto indices =
        wanted.subspan(step.head_done, std::min(kHeadRowsPerPass, wanted.size() - step.head_done));
    float* gathered = state.scratch.residual[1 - step.in].Reserve(0);
    LayerResume resume;
    if (step.stopped_at && step.request.kind == SlotKind::kBest) {
      TRY(TakeBest(layer, step, indices.size(), slots));
      step.stopped_at.reset();
      continue;
    }
    if (step.stopped_at) {
      resume = {*step.stopped_at, slots};
    } else {
      for (size_t i = 0; i < indices.size(); ++i)
        std::copy_n(stream + (indices[i] - step.first_row) * columns, columns,
                    gathered + i * columns);
      Place(layer, step, indices);
    }
    ASSIGN_OR_RETURN(
        const LayerEnd end,
        runner_.Run(layer,
                    {indices.size(), {}, state.positions, state.kv_rows, {}, step.input.parts},
                    state.scratch, gathered, state.scratch.logits.Reserve(0),
                    step.stopped_at ? &resume : nullptr));
    step.stopped_at.reset();
    if (end.result == nullptr) {
      step.stopped_at = end.stopped_at;
      step.request = end.request;
      AskForBest(layer, step, indices);
      return false;
    }
    TRY(CheckFinite(layer.program().layer_index, DType::kF32, step, indices,
                    {end.result, indices.size(), vocabulary, vocabulary}));
    for (size_t i = 0; i < indices.size(); ++i)
      Select(step, state.rows[indices[i]], {end.result + i * vocabulary, vocabulary});
  }
  return true;
}

// The next rows of the step, at its first layer.
void StepRunner::BeginPass(const LayerMap& layers, StepFlight& step) {
  StepState& state = *step.state;
  step.first_row += step.row_count;
  step.row_count = std::min(step.rows_per_pass, state.rows.size() - step.first_row);
  step.layer = step.input.layers.first;
  step.in = 0;
  step.in_pass = true;
  const size_t columns = layers.at(step.layer).input_columns();
  std::copy_n(step.input.hidden.data() + step.first_row * columns, step.row_count * columns,
              state.scratch.residual[0].Reserve(0));
  state.pass_rows.clear();
  for (size_t row = 0; row < step.row_count; ++row) state.pass_rows.push_back(step.first_row + row);
}

Result<bool> StepRunner::RunPass(const LayerMap& layers, StepFlight& step,
                                 std::span<const float> slots, kernels::SharedThreads::Work& work) {
  StepState& state = *step.state;
  size_t columns = layers.at(step.input.layers.first).input_columns();
  for (; step.layer < step.input.layers.end; ++step.layer) {
    const LoadedLayer& layer = layers.at(step.layer);
    runner_.TakeThreads(work);
    if (layer.is_head()) {
      return RunHead(layer, step, slots);
    }
    LayerResume resume;
    if (step.stopped_at) resume = {*step.stopped_at, slots};
    if (!step.stopped_at) Place(layer, step, state.pass_rows);
    const auto ids = layer.is_embedding()
                         ? step.input.token_ids.subspan(step.first_row, step.row_count)
                         : std::span<const int32_t>();
    float* stream = state.scratch.residual[step.in].Reserve(0);
    ASSIGN_OR_RETURN(
        const LayerEnd end,
        runner_.Run(layer,
                    {step.row_count, ids, state.positions, state.kv_rows, state.state_runs,
                     step.input.parts},
                    state.scratch, stream, state.scratch.residual[1 - step.in].Reserve(0),
                    step.stopped_at ? &resume : nullptr));
    step.stopped_at.reset();
    if (end.result == nullptr) {
      step.stopped_at = end.stopped_at;
      step.request = end.request;
      return false;
    }
    if (end.result != stream) step.in = 1 - step.in;
    columns = layer.output_columns();
    const kernels::Rows values = {end.result, step.row_count, columns, columns};
    runner_.Round(values, residual_dtype_);
    TRY(CheckFinite(step.layer, residual_dtype_, step, state.pass_rows, values));
  }
  for (size_t row = 0; row < step.row_count; ++row) {
    const StepRow& place = state.rows[step.first_row + row];
    if (step.input.runs[place.run].output.kind != OutputKind::kHidden) continue;
    const float* values = state.scratch.residual[step.in].Reserve(0) + row * columns;
    step.output.hidden.insert(step.output.hidden.end(), values, values + columns);
  }
  return true;
}

Result<bool> StepRunner::Continue(const LayerMap& layers, StepFlight& step,
                                  std::span<const float> slots) {
  if (!step.in_pass) {
    ListRows(step);
    BeginPass(layers, step);
  }
  kernels::SharedThreads::Work work = runner_.BeginWork();
  for (;;) {
    ASSIGN_OR_RETURN(const bool ended, RunPass(layers, step, slots, work));
    if (!ended) return false;
    if (step.first_row + step.row_count == step.state->rows.size()) return true;
    BeginPass(layers, step);
  }
}

}  // namespace weft::engine
