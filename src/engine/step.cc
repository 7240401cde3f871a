#include "engine/step.h"

#include <algorithm>
#include <bit>
#include <string>
#include <unordered_set>

#include "engine/select.h"

namespace weft::engine {
namespace {

// Enough rows to read each weight once for many, few enough to keep scratch memory small.
constexpr size_t kRowsPerPass = 128;
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

size_t CountNonFinite(std::span<const float> values) {
  size_t count = 0;
  for (const float value : values) {
    count += (std::bit_cast<uint32_t>(value) & 0x7f800000u) == 0x7f800000u ? 1 : 0;
  }
  return count;
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

Status CheckExchanger(const LayerMap& layers, const StepInput& input) {
  if (input.exchanger != nullptr) return OkStatus();
  for (uint32_t index = input.layers.first; index < input.layers.end; ++index) {
    if (!layers.at(index).has_exchange()) continue;
    return Invalid("Layer " + std::to_string(index) +
                   " exchanges rows in the middle of a step; this one came without an exchanger.");
  }
  return OkStatus();
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
  if (const size_t bad = CountNonFinite(input.hidden); bad > 0) {
    return Error(ErrorCode::kInvalidData, "The rows handed to layer " +
                                              std::to_string(input.layers.first) + " hold " +
                                              std::to_string(bad) + " values that are not finite.");
  }
  return OkStatus();
}

}  // namespace

Result<size_t> CheckStep(const LayerMap& layers, const StepInput& input) {
  TRY(CheckLayers(layers, input.layers));
  TRY(CheckExchanger(layers, input));
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

ScratchNeeds StepRunner::NeedsOfStep(const LayerMap& layers, const StepInput& input,
                                     size_t row_count) {
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
    const bool selects = layer.is_head() && !layer.kv_shape();
    const size_t rows = layer.is_head()
                            ? std::min(kHeadRowsPerPass, selects ? head_rows : row_count)
                            : std::min(kRowsPerPass, row_count);
    needs.Include(NeedsOf(layer, rows, end_position));
  }
  // Whatever the layers, the input rows of a pass and the gathered rows of the head must fit.
  const LoadedLayer& first = layers.at(input.layers.first);
  needs.residual =
      std::max<size_t>(needs.residual, std::min(kRowsPerPass, row_count) * first.input_columns());
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

void StepRunner::ListRows(const StepInput& input) {
  rows_.clear();
  for (uint32_t run = 0; run < input.runs.size(); ++run) {
    for (uint32_t i = 0; i < input.runs[run].count; ++i) {
      rows_.push_back({run, input.runs[run].first_position + i, i + 1 == input.runs[run].count});
    }
  }
}

void StepRunner::Place(const LoadedLayer& layer, const KvCache::Append& kv,
                       std::span<const size_t> indices) {
  positions_.clear();
  kv_rows_.clear();
  const bool has_kv = layer.kv_shape().has_value();
  for (const size_t index : indices) {
    const Row& row = rows_[index];
    positions_.push_back(row.position);
    if (!has_kv) continue;
    const auto& state = kv.state(row.run, layer.program().layer_index);
    kv_rows_.push_back({row.position, state.addresses.data()});
  }
}

Status StepRunner::CheckFinite(uint32_t layer, DType dtype, const StepInput& input,
                               std::span<const size_t> indices,
                               std::span<const float> values) const {
  const size_t bad = CountNonFinite(values);
  if (bad == 0) return OkStatus();
  const size_t columns = values.size() / indices.size();
  size_t first = 0;
  while (CountNonFinite(values.subspan(first * columns, columns)) == 0) ++first;
  const Row& row = rows_[indices[first]];
  return Error(ErrorCode::kInvalidData,
               "Layer " + std::to_string(layer) + " computed " + std::to_string(bad) +
                   " values that are not finite in " + std::string(DTypeName(dtype)) +
                   ", first in session " + std::to_string(input.runs[row.run].session) +
                   " at position " + std::to_string(row.position) + ".");
}

void StepRunner::Select(const StepInput& input, const Row& row, std::span<float> logits,
                        StepOutput& output) const {
  const Output& wanted = input.runs[row.run].output;
  if (wanted.kind == OutputKind::kLogits) {
    output.logits.insert(output.logits.end(), logits.begin(), logits.end());
  } else if (row.last_of_run && NeedsLogits(wanted.kind)) {
    output.selections.push_back(SelectRow(kernels_, wanted, logits));
  }
}

Status StepRunner::RunHead(const LoadedLayer& layer, const StepInput& input,
                           const KvCache::Append& kv, size_t first_row, size_t row_count, size_t in,
                           StepOutput& output) {
  const bool all_rows = layer.kv_shape().has_value();
  const size_t columns = layer.input_columns();
  const size_t vocabulary = layer.output_columns();
  head_rows_.clear();
  for (size_t row = first_row; row < first_row + row_count; ++row) {
    const bool needed = RowNeedsHead(input.runs[rows_[row].run], rows_[row].last_of_run);
    if (all_rows || needed) head_rows_.push_back(row);
  }
  const std::span<const size_t> wanted(head_rows_);
  for (size_t done = 0; done < wanted.size(); done += kHeadRowsPerPass) {
    const auto indices = wanted.subspan(done, std::min(kHeadRowsPerPass, wanted.size() - done));
    float* gathered = runner_.residual(1 - in);
    for (size_t i = 0; i < indices.size(); ++i) {
      std::copy_n(runner_.residual(in) + (indices[i] - first_row) * columns, columns,
                  gathered + i * columns);
    }
    Place(layer, kv, indices);
    ASSIGN_OR_RETURN(float* logits, runner_.Run(layer, {indices.size(), {}, positions_, kv_rows_},
                                                gathered, runner_.logits()));
    TRY(CheckFinite(layer.program().layer_index, DType::kF32, input, indices,
                    {logits, indices.size() * vocabulary}));
    for (size_t i = 0; i < indices.size(); ++i) {
      Select(input, rows_[indices[i]], {logits + i * vocabulary, vocabulary}, output);
    }
  }
  return OkStatus();
}

Status StepRunner::RunPass(const LayerMap& layers, const StepInput& input,
                           const KvCache::Append& kv, size_t first_row, size_t row_count,
                           StepOutput& output) {
  size_t in = 0;  // which residual buffer holds the stream
  size_t columns = layers.at(input.layers.first).input_columns();
  std::copy_n(input.hidden.data() + first_row * columns, row_count * columns, runner_.residual(in));
  pass_rows_.clear();
  for (size_t row = 0; row < row_count; ++row) pass_rows_.push_back(first_row + row);
  for (uint32_t index = input.layers.first; index < input.layers.end; ++index) {
    const LoadedLayer& layer = layers.at(index);
    if (layer.is_head()) return RunHead(layer, input, kv, first_row, row_count, in, output);
    Place(layer, kv, pass_rows_);
    const auto ids = layer.is_embedding() ? input.token_ids.subspan(first_row, row_count)
                                          : std::span<const int32_t>();
    const RowBatch rows = {row_count, ids, positions_, kv_rows_, first_row, input.exchanger};
    ASSIGN_OR_RETURN(float* result,
                     runner_.Run(layer, rows, runner_.residual(in), runner_.residual(1 - in)));
    if (result != runner_.residual(in)) in = 1 - in;
    columns = layer.output_columns();
    runner_.Round({result, row_count, columns, columns}, residual_dtype_);
    TRY(CheckFinite(index, residual_dtype_, input, pass_rows_, {result, row_count * columns}));
  }
  for (size_t row = 0; row < row_count; ++row) {
    if (input.runs[rows_[first_row + row].run].output.kind != OutputKind::kHidden) continue;
    const float* values = runner_.residual(in) + row * columns;
    output.hidden.insert(output.hidden.end(), values, values + columns);
  }
  return OkStatus();
}

Status StepRunner::Execute(const LayerMap& layers, const StepInput& input,
                           const KvCache::Append& kv, StepOutput& output) {
  ListRows(input);
  for (size_t first = 0; first < rows_.size(); first += kRowsPerPass) {
    const size_t count = std::min(kRowsPerPass, rows_.size() - first);
    TRY(RunPass(layers, input, kv, first, count, output));
  }
  return OkStatus();
}

}  // namespace weft::engine
