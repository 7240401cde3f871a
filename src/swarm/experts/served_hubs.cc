#include "swarm/experts/served_hubs.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "dispatch/holder_statement.h"
#include "wire/expert_frame.h"

namespace weft::swarm {
namespace {

constexpr uint32_t kBatch = 0;  // a hub has one ROWS under way

// Rows of a ROWS as numbers: each row, then the experts of its slots, then their weights.
struct Portion {
  std::vector<float> rows;
  std::vector<uint32_t> experts;
  std::vector<float> weights;
};

float ValueAt(const wire::ExpertFrame& frame, size_t index) {
  return wire::RowValue(frame.rows.bytes().data(), wire::RowType::kF32, index);
}

size_t StrideOf(const wire::ExpertFrame& frame) {
  return frame.hidden + wire::RouteColumns(frame.expert);
}

Portion PortionOf(const wire::ExpertFrame& frame, uint32_t first, uint32_t count) {
  Portion portion;
  const uint32_t slots = frame.expert;
  for (uint32_t row = first; row < first + count; ++row) {
    const size_t at = row * StrideOf(frame);
    for (uint32_t i = 0; i < frame.hidden; ++i) portion.rows.push_back(ValueAt(frame, at + i));
    for (uint32_t j = 0; j < slots; ++j) {
      const size_t route = at + frame.hidden + j;
      portion.experts.push_back(static_cast<uint32_t>(ValueAt(frame, route)));
      portion.weights.push_back(ValueAt(frame, route + slots));
    }
  }
  return portion;
}

// So many rows of a ROWS have room in a message to one holder of all their experts.
uint32_t MostTokens(const wire::ExpertFrame& frame, uint32_t slots) {
  const uint64_t row_bytes = uint64_t{slots} * frame.hidden * sizeof(float);
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(wire::kMaxShardRowBytes / row_bytes, 1, wire::kMaxFrameTokens));
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
    TRY(CheckRows(frame));
    // Its layers may have been retired while this was on its way.
    if (served != hubs_.end() && RunsAsHub(hub, frame.layer))
      OnRows(hub, served->second, frame, now);
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

Status ServedHubs::CheckRows(const wire::ExpertFrame& rows) const {
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
  for (uint32_t row = 0; row < rows.tokens; ++row)
    for (uint32_t j = 0; j < slots; ++j) {
      const size_t at = row * StrideOf(rows) + rows.hidden + j;
      const float expert = ValueAt(rows, at);
      const bool is_one = expert >= 0 && expert < static_cast<float>(layer->expert_count) &&
                          expert == std::floor(expert);
      if (!is_one || !std::isfinite(ValueAt(rows, at + slots)))
        return Malformed("ROWS name expert " + std::to_string(expert) + " with weight " +
                         std::to_string(ValueAt(rows, at + slots)) +
                         ", expected a whole number below " + std::to_string(layer->expert_count) +
                         " and a finite weight.");
    }
  return OkStatus();
}

void ServedHubs::OnRows(const Worker& hub, Served& served, wire::ExpertFrame rows, Instant now) {
  if (std::exchange(served.asked, std::nullopt))
    Apply(hub, served, served.dispatcher.Abandon(now, kBatch), now);
  served.asked = Asked{.rows = std::move(rows)};
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
  const uint32_t count =
      std::min(asked.rows.tokens - asked.begun_tokens, MostTokens(asked.rows, slots));
  Portion portion = PortionOf(asked.rows, asked.begun_tokens, count);
  asked.begun_tokens += count;
  if (layer.groups) {
    portion.experts.resize(uint64_t{count} * slots);
    for (uint32_t row = 0; row < count; ++row)
      std::iota(portion.experts.begin() + row * slots, portion.experts.begin() + (row + 1) * slots,
                0);
  } else {
    served.stats.NoteRoutes(asked.rows.layer, portion.experts);
  }
  dispatch::LayerWork work;
  work.layer = asked.rows.layer;
  work.top_k = slots;
  work.hidden = asked.rows.hidden;
  work.rows = portion.rows;
  work.experts = portion.experts;
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
  dispatch::Dispatcher::AnswerTimes times;
  // One behind results says how long these took.
  const auto& frames = decoded->frames;
  if (frames.size() > 1 && frames.back().type == wire::ExpertFrameType::kHeartbeat)
    times.computed = Microseconds(wire::ReadHeartbeat(frames.back()).compute_us);
  for (const wire::ExpertFrame& frame : frames) {
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
  const std::vector<float>& rows = actions.done.front().slot_rows;
  const uint32_t hidden = asked.rows.hidden, slots = asked.rows.expert;
  const size_t first = asked.sums.size() / hidden;
  if (slots == 0) {
    asked.sums.insert(asked.sums.end(), rows.begin(), rows.end());
  } else {
    for (size_t row = 0; row < rows.size() / (uint64_t{slots} * hidden); ++row) {
      const size_t at = asked.sums.size();
      asked.sums.resize(at + hidden);
      for (uint32_t j = 0; j < slots; ++j) {
        const float weight =
            ValueAt(asked.rows, (first + row) * StrideOf(asked.rows) + hidden + slots + j);
        const float* slot = &rows[(row * slots + j) * hidden];
        for (uint32_t i = 0; i < hidden; ++i) asked.sums[at + i] += weight * slot[i];
      }
    }
  }
  if (asked.begun_tokens < asked.rows.tokens) return BeginPortion(hub, served, now);
  Say(hub, wire::GivenFrame(asked.rows, asked.sums));
  served.asked.reset();
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
