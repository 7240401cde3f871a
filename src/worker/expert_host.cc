#include "worker/expert_host.h"

#include <algorithm>
#include <optional>
#include <string>

#include "program/product_ranges.h"
#include "program/shards.h"

namespace weft::worker {

namespace {

// Whether the result of `later` may go into that of `first`.
bool MayAdd(const wire::ExpertFrame& first, const wire::ExpertFrame& later) {
  return first.may_sum && later.may_sum && first.may_lose == later.may_lose &&
         first.sequence == later.sequence && first.layer == later.layer &&
         first.expert < later.expert && first.rows.bytes().data() == later.rows.bytes().data() &&
         first.rows.byte_count() == later.rows.byte_count();
}

uint64_t AnswerBytes(const wire::ExpertFrame& asked, uint32_t slot_columns) {
  return uint64_t{asked.tokens} * (asked.best ? kBestColumns : slot_columns) *
         wire::ElementBytes(wire::AnswerType(asked.row_type));
}

std::vector<float> RowsOf(const wire::ExpertFrame& asked) {
  std::vector<float> rows(size_t{asked.tokens} * asked.hidden);
  for (size_t token = 0; token < asked.tokens; ++token)
    wire::ReadRow(asked.rows.bytes().data(), asked.row_type, token,
                  std::span(rows).subspan(token * asked.hidden, asked.hidden));
  return rows;
}

wire::ExpertFrame ResultOf(const wire::ExpertFrame& asked, uint32_t columns,
                           std::span<const float> values) {
  const wire::RowType type = wire::AnswerType(asked.row_type);
  std::vector<uint8_t> bytes(values.size() * wire::ElementBytes(type));
  wire::StoreRow(values, type, bytes.data());
  wire::ExpertFrame result;
  result.row_type = type;
  result.type = wire::ExpertFrameType::kResult;
  result.sequence = asked.sequence;
  result.layer = asked.layer;
  result.expert = asked.expert;
  result.tokens = asked.tokens;
  result.hidden = static_cast<uint16_t>(columns);
  result.may_lose = asked.may_lose;
  result.takes_steps = asked.takes_steps;
  result.rows = Slice(std::move(bytes));
  return result;
}

}  // namespace

// What Read gives to Install: the new shards, and which ones are held from then on.
class ExpertHost::LoadedExperts : public engine::LoadedLayers {
 public:
  std::unique_ptr<engine::LoadedLayers> layers;
  Shards shards;
};

Result<std::unique_ptr<engine::LoadedLayers>> ExpertHost::Read(
    const std::vector<wire::LayerExperts>& sets, std::span<const program::Program> layers,
    engine::WeightSource& source) {
  auto loaded = std::make_unique<LoadedExperts>();
  std::vector<program::Program> programs;
  for (size_t i = 0; i < sets.size(); ++i) {
    const wire::LayerExperts& set = sets[i];
    {
      const std::lock_guard lock(mutex_);
      const auto held = shards_.find(set.layer);
      if (held != shards_.end() && held->second.experts == set.experts) {
        loaded->shards.insert(*held);
        continue;
      }
    }
    ASSIGN_OR_RETURN(auto parts, program::PartPrograms(layers[i], set.experts));
    // A changed shard is other layers of the engine: the old ones compute until they are replaced,
    // and what both hold is read once.
    Shard& shard = loaded->shards[set.layer];
    shard.layers.first = next_index_;
    const program::MoeExperts* experts = program::FindExperts(layers[i]);
    shard.step = experts != nullptr ? experts->grid.step : 0;
    for (auto& [part, begin, end] : parts) {
      Piece& piece = shard.pieces.emplace_back(Piece{begin, end, next_index_++});
      part.layer_index = piece.layer;
      const auto* product = std::get_if<program::MatMul>(&part.ops.front());
      piece.columns = part.buffers[product ? product->in.buffer : part.output].columns;
      piece.slot_columns = product ? product->out.columns : piece.columns;
      if (product) piece.kind = experts ? SlotKind::kProducts : SlotKind::kRanges;
      programs.push_back(std::move(part));
    }
    shard.layers.end = next_index_;
    shard.experts = set.experts;
  }
  ASSIGN_OR_RETURN(loaded->layers, engine_->Read(programs, source));
  return std::unique_ptr<engine::LoadedLayers>(std::move(loaded));
}

uint64_t ExpertHost::Install(std::unique_ptr<engine::LoadedLayers> read) {
  auto& loaded = static_cast<LoadedExperts&>(*read);
  engine_->Install(std::move(loaded.layers));
  const std::lock_guard lock(mutex_);
  for (const auto& [layer, shard] : shards_) {
    const auto kept = loaded.shards.find(layer);
    if (kept == loaded.shards.end() || kept->second.layers.first != shard.layers.first)
      engine_->Unload(shard.layers);
  }
  shards_ = std::move(loaded.shards);
  return engine_->memory().weight_bytes;
}

void ExpertHost::Clear() {
  engine_->ReleaseAll();
  const std::lock_guard lock(mutex_);
  for (const auto& [layer, shard] : shards_) engine_->Unload(shard.layers);
  shards_.clear();
}

std::vector<wire::ExpertFrame> ExpertHost::Run(std::span<const wire::ExpertFrame> dispatches) {
  Results results(dispatches.size());
  std::map<const Piece*, std::vector<size_t>> by_piece;
  // Ranges may answer with more columns than they are asked with.
  uint64_t answered_bytes = 0;
  for (size_t i = 0; i < dispatches.size(); ++i) {
    const wire::ExpertFrame& asked = dispatches[i];
    const Piece* piece = FindPiece(asked);
    if (piece == nullptr) {
      results[i] =
          wire::FailedResult(asked, "Expert " + std::to_string(asked.expert) + " of layer " +
                                        std::to_string(asked.layer) + " is not held here.");
    } else if (asked.hidden != piece->columns) {
      results[i] = wire::FailedResult(asked, "The rows have " + std::to_string(asked.hidden) +
                                                 " columns, layer " + std::to_string(asked.layer) +
                                                 " takes " + std::to_string(piece->columns) + ".");
    } else if ((answered_bytes += AnswerBytes(asked, piece->slot_columns)) >
               wire::kMaxShardRowBytes) {
      results[i] = wire::FailedResult(asked, "The answers to a message would have " +
                                                 std::to_string(answered_bytes) +
                                                 " bytes of rows, expected at most " +
                                                 std::to_string(wire::kMaxShardRowBytes) + ".");
    } else {
      by_piece[piece].push_back(i);
    }
  }
  for (const auto& [piece, which] : by_piece) {
    const Status status = RunPiece(*piece, dispatches, which, results);
    if (status.ok()) continue;
    for (const size_t i : which)
      results[i] = wire::FailedResult(dispatches[i], status.error().ToString());
  }
  std::vector<wire::ExpertFrame> given;
  for (std::optional<wire::ExpertFrame>& result : results) {
    if (!result) continue;
    PutInSteps(*result);
    given.push_back(*std::move(result));
  }
  return given;
}

void ExpertHost::PutInSteps(wire::ExpertFrame& result) const {
  if (result.failed || !result.takes_steps) return;
  const float step = shards_.at(result.layer).step;
  if (step == 0) return;
  if (auto steps = wire::StepsOf(result.rows, step)) {
    result.rows = *std::move(steps);
    result.row_type = wire::RowType::kSteps;
  }
}

const ExpertHost::Piece* ExpertHost::FindPiece(const wire::ExpertFrame& asked) const {
  const auto shard = shards_.find(asked.layer);
  if (shard == shards_.end()) return nullptr;
  const std::vector<uint32_t>& held = shard->second.experts;
  const auto found = std::ranges::lower_bound(held, asked.expert);
  if (found == held.end() || *found != asked.expert) return nullptr;
  const auto place = static_cast<size_t>(found - held.begin());
  return &*std::ranges::find_if(shard->second.pieces,
                                [place](const Piece& piece) { return place < piece.end; });
}

size_t ExpertHost::PlaceOf(const Piece& piece, const wire::ExpertFrame& asked) const {
  const std::vector<uint32_t>& held = shards_.at(asked.layer).experts;
  const auto place = std::ranges::lower_bound(held, asked.expert) - held.begin();
  return static_cast<size_t>(place) - piece.begin;
}

Status ExpertHost::RunPiece(const Piece& piece, std::span<const wire::ExpertFrame> dispatches,
                            std::span<const size_t> which, Results& results) {
  if (piece.kind == SlotKind::kProducts) return RunProducts(piece, dispatches, which, results);
  if (piece.kind == SlotKind::kRanges) {
    for (const size_t i : which) TRY(RunRange(piece, dispatches[i], results[i].emplace()));
    return OkStatus();
  }
  std::vector<size_t> single;
  for (size_t begin = 0, end = 0; begin < which.size(); begin = end) {
    const wire::ExpertFrame& first = dispatches[which[begin]];
    for (end = begin + 1; end < which.size(); ++end)
      if (dispatches[which[end]].expert <= dispatches[which[end - 1]].expert ||
          !MayAdd(first, dispatches[which[end]]))
        break;
    if (end - begin > 1)
      TRY(RunSum(piece, dispatches, which.subspan(begin, end - begin), results));
    else
      single.push_back(which[begin]);
  }
  return single.empty() ? OkStatus() : RunExperts(piece, dispatches, single, results);
}

// Each row goes in once, and the engine adds up: values on a grid have the same sum in any order
// (kernels/sum_grid.h). A step has so many slots that its memory is that of a pass of rows.
Status ExpertHost::RunSum(const Piece& piece, std::span<const wire::ExpertFrame> dispatches,
                          std::span<const size_t> which, Results& results) {
  const wire::ExpertFrame& first = dispatches[which.front()];
  const size_t columns = piece.columns;
  std::vector<uint32_t> places;
  for (const size_t i : which)
    places.push_back(static_cast<uint32_t>(PlaceOf(piece, dispatches[i])));
  std::vector<float> rows(first.tokens * (columns + 2));
  for (size_t token = 0; token < first.tokens; ++token)
    wire::ReadRow(first.rows.bytes().data(), first.row_type, token,
                  std::span(rows).subspan(token * (columns + 2), columns));
  constexpr size_t kMostSlots = 512;
  const size_t at_once = std::max<size_t>(1, kMostSlots / first.tokens);
  std::vector<float> values(first.tokens * columns);
  for (size_t begin = 0; begin < places.size(); begin += at_once) {
    const auto some = std::span(places).subspan(begin, std::min(at_once, places.size() - begin));
    ASSIGN_OR_RETURN(const engine::StepOutput output,
                     Step(piece.layer, engine::OutputKind::kHidden, rows, first.tokens, some));
    for (size_t i = 0; i < values.size(); ++i) values[i] += output.hidden[i];
  }
  wire::ExpertFrame& sum =
      results[which.front()].emplace(ResultOf(first, piece.slot_columns, values));
  for (const size_t i : which.subspan(1)) {
    sum.added.push_back(dispatches[i].expert);
    results[i].reset();
  }
  return OkStatus();
}

Status ExpertHost::RunExperts(const Piece& piece, std::span<const wire::ExpertFrame> dispatches,
                              std::span<const size_t> which, Results& results) {
  const size_t columns = piece.columns;
  size_t row_count = 0;
  for (const size_t i : which) row_count += dispatches[i].tokens;
  std::vector<float> rows(row_count * (columns + 2));
  float* row = rows.data();
  for (const size_t i : which) {
    const wire::ExpertFrame& asked = dispatches[i];
    const auto expert = static_cast<float>(PlaceOf(piece, asked));
    const uint8_t* from = asked.rows.bytes().data();
    for (size_t token = 0; token < asked.tokens; ++token, row += columns + 2) {
      wire::ReadRow(from, asked.row_type, token, {row, columns});
      row[columns] = expert;
      row[columns + 1] = 1;
    }
  }
  ASSIGN_OR_RETURN(const engine::StepOutput output,
                   Step(piece.layer, engine::OutputKind::kHidden, rows, row_count));
  std::span<const float> rest(output.hidden);
  for (const size_t i : which) {
    const auto values = rest.first(dispatches[i].tokens * columns);
    rest = rest.subspan(values.size());
    results[i] = ResultOf(dispatches[i], piece.slot_columns, values);
  }
  return OkStatus();
}

// Those with the same rows run as one step.
Status ExpertHost::RunProducts(const Piece& piece, std::span<const wire::ExpertFrame> dispatches,
                               std::span<const size_t> which, Results& results) {
  for (size_t begin = 0, end = 0; begin < which.size(); begin = end) {
    const wire::ExpertFrame& asked = dispatches[which[begin]];
    std::vector<uint32_t> places;
    for (; end < which.size(); ++end) {
      const wire::ExpertFrame& next = dispatches[which[end]];
      if (next.rows.bytes().data() != asked.rows.bytes().data() || next.tokens != asked.tokens ||
          next.row_type != asked.row_type)
        break;
      places.push_back(static_cast<uint32_t>(PlaceOf(piece, next)));
    }
    const std::vector<float> rows = RowsOf(asked);
    ASSIGN_OR_RETURN(const engine::StepOutput output,
                     Step(piece.layer, engine::OutputKind::kLogits, rows, asked.tokens, places));
    const size_t columns = piece.slot_columns, all = output.logits.size() / asked.tokens;
    std::vector<float> values(asked.tokens * columns);
    for (size_t i = 0; i < places.size(); ++i) {
      for (size_t token = 0; token < asked.tokens; ++token)
        std::copy_n(&output.logits[token * all + places[i] * columns], columns,
                    &values[token * columns]);
      const size_t at = which[begin + i];
      results[at] = ResultOf(dispatches[at], piece.slot_columns, values);
    }
  }
  return OkStatus();
}

Status ExpertHost::RunRange(const Piece& piece, const wire::ExpertFrame& asked,
                            wire::ExpertFrame& result) {
  const std::vector<float> rows = RowsOf(asked);
  if (!asked.best) {
    ASSIGN_OR_RETURN(const engine::StepOutput output,
                     Step(piece.layer, engine::OutputKind::kLogits, rows, asked.tokens));
    result = ResultOf(asked, piece.slot_columns, output.logits);
    return OkStatus();
  }
  // A run gives the best of its last row: each row is a run.
  std::vector<engine::Run> runs;
  ++steps_;
  for (uint32_t row = 0; row < asked.tokens; ++row)
    runs.push_back({row, steps_, 0, 1, {engine::OutputKind::kArgmax}});
  ASSIGN_OR_RETURN(const engine::StepOutput output,
                   engine_->Step({{piece.layer, piece.layer + 1}, runs, {}, rows}));
  std::vector<float> best;
  for (const engine::Selection& selection : output.selections)
    for (const sampling::TokenLogit& each :
         {selection.candidates.at(0), selection.candidates.at(1)})
      best.insert(best.end(), {each.logit, static_cast<float>(each.token_id)});
  result = ResultOf(asked, kBestColumns, best);
  return OkStatus();
}

// Nothing of it is a session's: shards have no keys and values.
Result<engine::StepOutput> ExpertHost::Step(uint32_t layer, engine::OutputKind kind,
                                            std::span<const float> rows, size_t row_count,
                                            std::span<const uint32_t> parts) {
  const engine::Run run = {0, ++steps_, 0, static_cast<uint32_t>(row_count), {kind}};
  return engine_->Step({{layer, layer + 1}, {&run, 1}, {}, rows, parts});
}

}  // namespace weft::worker
