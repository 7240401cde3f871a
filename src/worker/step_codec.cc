#include "worker/step_codec.h"

#include <cmath>
#include <limits>

#include "tensor/blocks.h"
#include "tensor/half.h"

namespace weft::worker {
namespace {

Error BadStep(const std::string& sentence) {
  return Error(ErrorCode::kInvalidData, sentence);
}

Status CheckOutputs(const wire::Frame& frame, bool is_last) {
  for (const wire::Run& run : frame.runs) {
    const bool selects =
        run.output != wire::OutputKind::kNone && run.output != wire::OutputKind::kHidden;
    if (run.output != wire::OutputKind::kNone && selects != is_last) {
      return BadStep("Session " + std::to_string(run.session) + " asks for output kind " +
                     std::to_string(static_cast<int>(run.output)) +
                     (is_last ? ": the last stage gives tokens or logits, not residual rows."
                              : ": only the last stage gives tokens or logits."));
    }
  }
  return OkStatus();
}

Status DecodeTokens(const wire::Frame& frame, uint32_t vocabulary, std::vector<int32_t>* ids) {
  if (frame.header.dtype != DType::kI32 || frame.header.columns != 1) {
    return BadStep("The first stage takes token ids (i32, 1 column), not " +
                   std::string(DTypeName(frame.header.dtype)) + " with " +
                   std::to_string(frame.header.columns) + " columns.");
  }
  const ByteSpan bytes = frame.payload.bytes();
  if (bytes.size() != uint64_t{frame.header.rows} * 4) {
    return BadStep("The payload has " + std::to_string(bytes.size()) + " bytes; " +
                   std::to_string(frame.header.rows) + " token ids take 4 each.");
  }
  ids->resize(frame.header.rows);
  std::memcpy(ids->data(), bytes.data(), bytes.size());
  for (const int32_t id : *ids) {
    if (id < 0 || static_cast<uint32_t>(id) >= vocabulary) {
      return BadStep("Token id " + std::to_string(id) + " is outside the vocabulary of " +
                     std::to_string(vocabulary) + ".");
    }
  }
  return OkStatus();
}

Status DecodeHidden(const wire::Frame& frame, const ModelShape& model, std::vector<float>* hidden) {
  const DType dtype = frame.header.dtype;
  if (dtype != model.boundary_dtype && dtype != DType::kF32) {
    const bool only_f32 = model.boundary_dtype == DType::kF32;
    return BadStep("Residual rows come as " + std::string(DTypeName(model.boundary_dtype)) +
                   (only_f32 ? "" : " or f32") + ", not " + std::string(DTypeName(dtype)) + ".");
  }
  if (frame.header.columns != model.hidden_columns) {
    return BadStep("Residual rows have " + std::to_string(frame.header.columns) +
                   " columns; the model has " + std::to_string(model.hidden_columns) + ".");
  }
  const uint64_t values = uint64_t{frame.header.rows} * model.hidden_columns;
  const ByteSpan bytes = frame.payload.bytes();
  if (bytes.size() != values * static_cast<uint64_t>(ElementBytes(dtype))) {
    return BadStep("The payload has " + std::to_string(bytes.size()) + " bytes instead of " +
                   std::to_string(values * static_cast<uint64_t>(ElementBytes(dtype))) + ".");
  }
  hidden->resize(values);
  ToF32(dtype, bytes.data(), *hidden);
  return OkStatus();
}

// An engine's kinds of output are the wire's: a number of a frame means the same in both.
constexpr bool Same(wire::OutputKind a, engine::OutputKind b) {
  return static_cast<uint8_t>(a) == static_cast<uint8_t>(b);
}
static_assert(Same(wire::OutputKind::kNone, engine::OutputKind::kNone) &&
              Same(wire::OutputKind::kHidden, engine::OutputKind::kHidden) &&
              Same(wire::OutputKind::kArgmax, engine::OutputKind::kArgmax) &&
              Same(wire::OutputKind::kCandidates, engine::OutputKind::kCandidates) &&
              Same(wire::OutputKind::kLogits, engine::OutputKind::kLogits) &&
              Same(wire::OutputKind::kDraw, engine::OutputKind::kDraw));

engine::OutputKind EngineKind(wire::OutputKind kind) {
  return static_cast<engine::OutputKind>(static_cast<uint8_t>(kind));
}

// The largest value that `dtype` holds.
float LargestFinite(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 65504.0f;
    case DType::kBF16:
      return BF16ToF32(0x7f7f);
    default:
      return std::numeric_limits<float>::max();
  }
}

// Packs hidden rows for the wire; counts what did not survive.
uint64_t PackHidden(std::span<const float> rows, DType dtype, std::vector<uint8_t>* out) {
  const size_t element_bytes = static_cast<size_t>(ElementBytes(dtype));
  const size_t begin = out->size();
  out->resize(begin + rows.size() * element_bytes);
  FromF32(rows, dtype, out->data() + begin);
  uint64_t bad_count = 0;
  const float limit = LargestFinite(dtype);
  for (const float value : rows) bad_count += !(std::fabs(value) <= limit);
  return bad_count;
}

}  // namespace

Status DecodeStep(const wire::Frame& frame, const ModelShape& model, LayerRange layers,
                  const SamplingTable& sampling, DecodedStep* step) {
  const bool is_last = layers.end == model.layer_count();
  TRY(CheckOutputs(frame, is_last));
  for (const wire::Run& run : frame.runs) {
    engine::Output output = {EngineKind(run.output), run.candidate_count};
    if (run.output == wire::OutputKind::kCandidates || run.output == wire::OutputKind::kDraw) {
      ASSIGN_OR_RETURN(
          const SamplingTable::Found found,
          sampling.Find(run.session, run.generation, uint64_t{run.first_position} + run.count));
      output.sampling = found.sampling;
      output.uniform = found.uniform;
    }
    step->runs.push_back(
        {run.session, run.generation, run.first_position, run.count, output, run.marks});
  }
  if (layers.first == 0) {
    TRY(DecodeTokens(frame, model.vocabulary, &step->token_ids));
  } else {
    TRY(DecodeHidden(frame, model, &step->hidden));
  }
  step->input = {layers, step->runs, step->token_ids, step->hidden};
  return OkStatus();
}

Result<std::vector<uint8_t>> EncodeRows(std::span<const float> rows, DType dtype,
                                        LayerRange layers) {
  std::vector<uint8_t> bytes;
  const uint64_t bad_count = PackHidden(rows, dtype, &bytes);
  if (bad_count > 0)
    return Error(ErrorCode::kInvalidData,
                 std::to_string(bad_count) + " values of the residual stream after layer " +
                     std::to_string(layers.end - 1) + " are not finite in " +
                     std::string(DTypeName(dtype)) + ".");
  return bytes;
}

Result<std::vector<Slice>> EncodeResult(const wire::Frame& frame, const ModelShape& model,
                                        LayerRange layers, const engine::StepOutput& output,
                                        const StepTimes& times) {
  std::vector<uint8_t> payload;
  wire::FrameHeader header = frame.header;
  header.type = wire::FrameType::kResult;
  header.dtype = model.boundary_dtype;
  header.columns = 0;
  header.queue_us = times.queue_us;
  header.compute_us = times.compute_us;
  if (!output.hidden.empty()) {
    header.columns = model.hidden_columns;
    ASSIGN_OR_RETURN(payload, EncodeRows(output.hidden, model.boundary_dtype, layers));
  }
  size_t next_selection = 0;
  size_t next_logit = 0;
  for (const wire::Run& run : frame.runs) {
    if (run.output == wire::OutputKind::kArgmax) {
      const auto& best = output.selections[next_selection++].candidates;
      const float margin = best.size() > 1 ? best[0].logit - best[1].logit : 0;
      wire::AppendArgmax({best[0].token_id, best[0].logit, margin}, payload);
    } else if (run.output == wire::OutputKind::kCandidates) {
      const engine::Selection& selection = output.selections[next_selection++];
      wire::CandidatesResult result;
      result.logsumexp = selection.logsumexp;
      result.scaled_sum = selection.scaled_sum;
      for (const sampling::TokenLogit& candidate : selection.candidates) {
        result.candidates.push_back({candidate.token_id, candidate.logit});
      }
      wire::AppendCandidates(result, payload);
    } else if (run.output == wire::OutputKind::kDraw) {
      const engine::Selection& selection = output.selections[next_selection++];
      wire::DrawResult result;
      result.drawn = {selection.drawn.token_id, selection.drawn.logit};
      result.logsumexp = selection.logsumexp;
      for (const sampling::TokenLogit& candidate : selection.candidates) {
        result.best.push_back({candidate.token_id, candidate.logit});
      }
      wire::AppendDraw(result, payload);
    } else if (run.output == wire::OutputKind::kLogits) {
      const size_t count = size_t{run.count} * model.head_columns();
      const ByteSpan bytes =
          AsBytes(std::span<const float>(output.logits).subspan(next_logit, count));
      payload.insert(payload.end(), bytes.begin(), bytes.end());
      next_logit += count;
    }
  }
  return std::vector<Slice>{Slice(wire::EncodeFrameHead(header, frame.runs, payload.size())),
                            Slice(std::move(payload))};
}

}  // namespace weft::worker
