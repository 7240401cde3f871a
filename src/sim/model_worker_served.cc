// Steps of a hub that leaves it to the server whom to ask for experts, as tabs do. Such a step is
// one piece of work, which waits in its middle (web/packages/worker/src/membership/hubWaits.ts).
#include <string>
#include <utility>

#include "sim/model_worker.h"
#include "wire/expert_frame.h"

namespace weft::sim {
namespace {

constexpr uint32_t kServer = 0;  // as a peer
constexpr uint32_t kMostSequence = wire::kBatchBit - 1;
// A tab gives way to other work. Here there always is some, after so long.
constexpr Duration kGivesWayAfter = Milliseconds(500);

// Rows with their routes behind them (wire/expert_frame.h).
wire::ExpertFrame RowsFrame(const worker::StepWaits& waits, uint32_t sequence) {
  const uint32_t slots = waits.kind == SlotKind::kSums ? 0 : waits.top_k;
  std::vector<float> values;
  const size_t tokens = waits.rows.size() / waits.columns;
  for (size_t token = 0; token < tokens; ++token) {
    const auto row = waits.rows.begin() + static_cast<ptrdiff_t>(token * waits.columns);
    values.insert(values.end(), row, row + waits.columns);
    for (uint32_t slot = 0; slot < slots; ++slot)
      values.push_back(static_cast<float>(waits.experts[token * slots + slot]));
    for (uint32_t slot = 0; slot < slots; ++slot) values.push_back(HashModel::WeightOf(slot));
  }
  std::vector<uint8_t> bytes(values.size() * sizeof(float));
  wire::StoreRow(values, wire::RowType::kF32, bytes.data());
  wire::ExpertFrame frame;
  frame.type = wire::ExpertFrameType::kRows;
  frame.sequence = sequence;
  frame.layer = waits.layer;
  frame.expert = static_cast<uint16_t>(slots);
  frame.tokens = static_cast<uint32_t>(tokens);
  frame.hidden = waits.columns;
  frame.rows = Slice(std::move(bytes));
  return frame;
}

}  // namespace

void ModelWorker::SayToServer(const wire::ExpertFrame& frame) {
  hooks_.send(Slice(wire::Joined(wire::EncodeShardMessage(kServer, {&frame, 1}))));
}

void ModelWorker::AskServer(uint32_t place, const worker::StepWaits& waits) {
  served_sequence_ = served_sequence_ % kMostSequence + 1;
  served_ = {place, served_sequence_};
  const auto later = [this, asked = served_sequence_](Duration delay, auto then) {
    scheduler_.After(delay, [self = weak_from_this(), asked, then] {
      const auto worker = self.lock();
      if (!worker || worker->frozen_ || worker->stalled_) return;
      if (worker->served_ && worker->served_->sequence == asked) then(*worker);
    });
  };
  const Duration computed = machine_.clock - scheduler_.now();
  later(computed, [rows = RowsFrame(waits, served_sequence_)](ModelWorker& worker) {
    worker.SayToServer(rows);
  });
  later(computed + kGivesWayAfter, [layer = waits.layer](ModelWorker& worker) {
    worker.SayToServer(wire::CancelFrame(worker.served_->sequence, layer, wire::kAnyExpert));
  });
}

bool ModelWorker::TakeGiven(const Slice& message) {
  if (!device_.rows_to_server || !wire::IsShardMessage(message.bytes())) return false;
  const auto decoded = wire::DecodeShardMessage(message);
  CHECK(decoded.ok());
  if (decoded->peer != kServer) return false;
  for (const wire::ExpertFrame& frame : decoded->frames) {
    if (!served_ || served_->sequence != frame.sequence) continue;
    hooks_.served(!frame.failed);
    if (frame.failed) {
      RefuseServed(std::string(AsText(frame.body.bytes())));
      continue;
    }
    std::vector<float> sums(size_t{frame.tokens} * frame.hidden);
    wire::ReadRow(frame.rows.bytes().data(), frame.row_type, 0, sums);
    const uint32_t place = std::exchange(served_, std::nullopt)->place;
    machine_.BeginWork(scheduler_.now());
    fault_.reset();
    EndWork(place, host_->Do(worker::ResumeStep{place, std::move(sums)}), {});
  }
  return true;
}

void ModelWorker::RefuseServed(const std::string& why) {
  const uint32_t place = std::exchange(served_, std::nullopt)->place;
  const auto forgotten = host_->Do(worker::AbandonSteps{{place}});
  CHECK(forgotten.ok());
  machine_.BeginWork(scheduler_.now());
  EndWork(place,
          Error(ErrorCode::kUnavailable,
                "The step was given up while nobody held the experts that it needed: " + why),
          {});
}

}  // namespace weft::sim
