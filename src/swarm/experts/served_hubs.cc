#include "swarm/experts/served_hubs.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "dispatch/holder_statement.h"
#include "wire/expert_frame.h"

namespace weft::swarm {
namespace {

constexpr uint32_t kBatch = 0;  // a hub has one ROWS under way

// So many rows of a ROWS have room in a message to one holder of all their experts.
uint32_t MostTokens(const wire::ExpertFrame& frame, uint32_t slots) {
  const uint64_t row_bytes = uint64_t{slots} * frame.hidden * sizeof(float);
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(wire::kMaxShardRowBytes / row_bytes, 1, wire::kMaxFrameTokens));
}

std::vector<float> ValuesOf(const wire::ExpertFrame& rows) {
  std::vector<float> values(rows.rows.byte_count() / sizeof(float));
  wire::ReadRow(rows.rows.bytes().data(), wire::RowType::kF32, 0, values);
  return values;
}

bool RunsAsHub(const Worker& worker, uint32_t layer) {
  return std::ranges::any_of(*worker.bindings, [layer](const Binding& binding) {
    return binding.layers.is_hub() && binding.layers.first <= layer && layer < binding.layers.end;
  });
}

Error Malformed(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

}  // namespace

std::span<const float> ServedHubs::Asked::RowAt(size_t row) const {
  const size_t stride = rows.hidden + wire::RouteColumns(rows.expert);
  return std::span(values).subspan(row * stride, stride);
}

float ServedHubs::Asked::ExpertAt(size_t row, uint32_t slot) const {
  return RowAt(row)[rows.hidden + slot];
}

float ServedHubs::Asked::WeightAt(size_t row, uint32_t slot) const {
  return RowAt(row)[rows.hidden + rows.expert + slot];
}

void ServedHubs::SetHolders(const Worker& hub, const wire::pb::ExpertHolders& statement,
                            Instant now) {
  auto holders =
      dispatch::HoldersOf(statement, static_cast<uint32_t>(options_.model.layers.size()));
  CHECK(holders.ok());
  Served& served = hubs_[hub.id];
  served.dispatcher.FixCopies(statement.copies());
  served.dispatcher.SetRowType(statement.half_rows() ? wire::RowType::kF16 : wire::RowType::kF32);
  served.stats.SetInterval(Milliseconds(statement.stats_ms()));
  served.stats.Collect(served.dispatcher);
  Apply(hub, served, served.dispatcher.SetHolders(now, statement.statement(), std::move(*holders)),
        now);
  served.stats.DropWhoIsGone(served.dispatcher);
}

Status ServedHubs::OnHub(const Worker& hub, const Slice& message, Instant now) {
  ASSIGN_OR_RETURN(const wire::ShardMessage decoded, wire::DecodeShardMessage(message));
  const auto served = hubs_.find(hub.id);
  for (const wire::ExpertFrame& frame : decoded.frames) {
    if (frame.type == wire::ExpertFrameType::kCancel) {
      if (served == hubs_.end() || !served->second.asked) continue;
      Asked& asked = *served->second.asked;
      asked.gives_way = asked.gives_way || asked.rows.sequence == frame.sequence;
      GiveWay(hub, served->second, now);
      continue;
    }
    if (frame.type != wire::ExpertFrameType::kRows)
      return Malformed("A hub sent the server a frame of type " +
                       std::to_string(static_cast<int>(frame.type)) +
                       ", expected 8 (rows) or 3 (cancel).");
    Asked asked{.rows = frame, .values = ValuesOf(frame)};
    TRY(CheckRows(asked));
    // Its layers may have been retired while this was on its way.
    if (served != hubs_.end() && RunsAsHub(hub, frame.layer))
      OnRows(hub, served->second, std::move(asked), now);
    else
      Say(hub, wire::FailedGiven(frame, "This worker is no hub of layer " +
                                            std::to_string(frame.layer) + " any more."));
  }
  return OkStatus();
}

void ServedHubs::Retire(const Worker& hub) {
  const auto served = hubs_.find(hub.id);
  if (served == hubs_.end()) return;
  if (const auto& asked = served->second.asked)
    Say(hub, wire::FailedGiven(asked->rows, "This worker is no hub any more."));
  hubs_.erase(served);
}

Status ServedHubs::CheckRows(const Asked& asked) const {
  const wire::ExpertFrame& rows = asked.rows;
  const auto& layers = options_.model.layers;
  const ModelLayer* layer = rows.layer < layers.size() ? &layers[rows.layer] : nullptr;
  if (layer == nullptr || layer->expert_count == 0 || layer->head_range_columns > 0)
    return Malformed("ROWS are of layer " + std::to_string(rows.layer) +
                     ", expected one with experts or neuron groups.");
  const uint32_t slots = layer->groups ? 0 : layer->experts_per_token;
  if (rows.hidden != options_.model.hidden_columns || rows.expert != slots)
    return Malformed("ROWS have " + std::to_string(rows.hidden) + " columns and " +
                     std::to_string(rows.expert) + " slots, expected " +
                     std::to_string(options_.model.hidden_columns) + " and " +
                     std::to_string(slots) + ".");
  // Holders would refuse them, and be blamed for it.
  if (!std::ranges::all_of(asked.values, [](float value) { return std::isfinite(value); }))
    return Malformed("ROWS of layer " + std::to_string(rows.layer) +
                     " have values or weights that are not finite.");
  for (uint32_t row = 0; row < rows.tokens; ++row)
    for (uint32_t j = 0; j < slots; ++j) {
      const float expert = asked.ExpertAt(row, j);
      if (expert < 0 || expert >= static_cast<float>(layer->expert_count) ||
          expert != std::floor(expert))
        return Malformed("ROWS name expert " + std::to_string(expert) +
                         ", expected a whole number below " + std::to_string(layer->expert_count) +
                         ".");
    }
  return OkStatus();
}

void ServedHubs::OnRows(const Worker& hub, Served& served, Asked asked, Instant now) {
  if (std::exchange(served.asked, std::nullopt))
    Apply(hub, served, served.dispatcher.Abandon(now, kBatch), now);
  served.asked = std::move(asked);
  BeginPortion(hub, served, now);
}

// Where nobody can be asked it gets no rows; else they come soon.
void ServedHubs::GiveWay(const Worker& hub, Served& served, Instant now) {
  if (!served.asked || !served.asked->gives_way || !served.dispatcher.IsMissing(kBatch)) return;
  const wire::ExpertFrame rows = std::exchange(served.asked, std::nullopt)->rows;
  Apply(hub, served, served.dispatcher.Abandon(now, kBatch), now);
  Say(hub, wire::FailedGiven(rows, "Nobody holds the experts that layer " +
                                       std::to_string(rows.layer) + " needs."));
}

void ServedHubs::BeginPortion(const Worker& hub, Served& served, Instant now) {
  Asked& asked = *served.asked;
  const ModelLayer& layer = options_.model.layers[asked.rows.layer];
  const uint32_t slots = layer.groups ? layer.expert_count : layer.experts_per_token;
  const uint32_t end =
      std::min(asked.rows.tokens, asked.begun_tokens + MostTokens(asked.rows, slots));
  std::vector<float> rows;
  std::vector<uint32_t> experts;
  for (; asked.begun_tokens < end; ++asked.begun_tokens) {
    const auto row = asked.RowAt(asked.begun_tokens).first(asked.rows.hidden);
    rows.insert(rows.end(), row.begin(), row.end());
    for (uint32_t j = 0; j < slots; ++j)
      experts.push_back(
          layer.groups ? j : static_cast<uint32_t>(asked.ExpertAt(asked.begun_tokens, j)));
  }
  if (!layer.groups) served.stats.NoteRoutes(asked.rows.layer, experts);
  dispatch::LayerWork work;
  work.layer = asked.rows.layer;
  work.top_k = slots;
  work.hidden = asked.rows.hidden;
  work.rows = rows;
  work.experts = experts;
  work.kind = layer.groups ? SlotKind::kSums : SlotKind::kExperts;
  Apply(hub, served, served.dispatcher.Begin(now, kBatch, work), now);
}

void ServedHubs::OnHolder(const Worker& hub, const Worker& holder, const Slice& message,
                          Instant now) {
  Served& served = hubs_.at(hub.id);
  const uint32_t peer = PeerOf(holder.id);
  const auto decoded = wire::DecodeShardMessage(message);
  if (!decoded.ok()) {
    Apply(hub, served, served.dispatcher.OnMalformed(now, peer, decoded.error().message()), now);
    return;
  }
  const auto times = dispatch::Dispatcher::TimesOf(decoded->frames);
  for (const wire::ExpertFrame& frame : decoded->frames) {
    if (frame.type == wire::ExpertFrameType::kResult)
      Apply(hub, served, served.dispatcher.OnResult(now, peer, frame, times), now);
    else if (frame.type == wire::ExpertFrameType::kHeartbeat)
      Apply(hub, served, served.dispatcher.OnHeartbeat(now, peer, wire::ReadHeartbeat(frame)), now);
  }
  TellStats(hub, served, now);
}

void ServedHubs::OnTimer(const Roster& roster, Instant now) {
  for (auto& [id, served] : hubs_) {
    if (!served.timer || *served.timer > now) continue;
    const Worker* hub = roster.Find(id);
    if (hub != nullptr) Apply(*hub, served, served.dispatcher.OnTimer(now), now);
  }
}

std::optional<Instant> ServedHubs::next_timer() const {
  std::optional<Instant> next;
  for (const auto& [id, served] : hubs_)
    if (served.timer && (!next || *served.timer < *next)) next = served.timer;
  return next;
}

void ServedHubs::Apply(const Worker& hub, Served& served, dispatch::Actions actions, Instant now) {
  served.timer = actions.timer;
  for (const dispatch::Send& send : actions.sends)
    outbox_.Add(SendData{WorkerId(send.holder),
                         wire::EncodeShardMessage(PeerOf(hub.id), send.frames), hub.id});
  if (actions.done.empty()) return GiveWay(hub, served, now);
  CHECK(served.asked && actions.done.size() == 1);
  Asked& asked = *served.asked;
  AddUp(asked, actions.done.front().slot_rows);
  if (asked.begun_tokens < asked.rows.tokens) return BeginPortion(hub, served, now);
  Say(hub, wire::GivenFrame(asked.rows, asked.sums));
  served.asked.reset();
}

// The slots' rows of a portion; of neuron groups they are sums already.
void ServedHubs::AddUp(Asked& asked, std::span<const float> slot_rows) {
  const size_t hidden = asked.rows.hidden;
  const uint32_t slots = asked.rows.expert;
  if (slots == 0) {
    asked.sums.insert(asked.sums.end(), slot_rows.begin(), slot_rows.end());
    return;
  }
  size_t row = asked.sums.size() / hidden;
  for (size_t slot = 0; slot < slot_rows.size() / hidden; slot += slots, ++row) {
    asked.sums.resize((row + 1) * hidden);
    for (uint32_t j = 0; j < slots; ++j) {
      const float weight = asked.WeightAt(row, j);
      const float* values = &slot_rows[(slot + j) * hidden];
      for (size_t i = 0; i < hidden; ++i) asked.sums[row * hidden + i] += weight * values[i];
    }
  }
}

void ServedHubs::Say(const Worker& hub, const wire::ExpertFrame& frame) {
  outbox_.Add(SendData{hub.id, wire::EncodeShardMessage(0, {&frame, 1}), {}});
}

void ServedHubs::TellStats(const Worker& hub, Served& served, Instant now) {
  const auto stats = served.stats.Take(now, served.dispatcher);
  if (!stats) return;
  // Of counts of its own the server refuses only those of more holders than it lets in, which have
  // come and gone since the last ones: nobody misses them.
  const Status noted = reports_.OnHolderStats(hub, *stats, now);
  static_cast<void>(noted);
}

}  // namespace weft::swarm
