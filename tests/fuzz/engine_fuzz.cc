// A valid program with hostile blobs: numbers that are not finite, parts that are too short or not
// there, steps that nobody should ask for. Loading and stepping never crash, and rows that come out
// are as many as were asked for and finite.
//
// The input is a length (u16), a program of that length, and a script for blobs and steps.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/engine.h"
#include "program/codec.h"
#include "script.h"

namespace {

using namespace weft;

constexpr uint64_t kMostPartBytes = 1 << 16;
constexpr uint64_t kMostBufferColumns = 1 << 14;

// Every part has the same few bytes again and again.
class HostileSource : public engine::WeightSource {
 public:
  HostileSource(std::vector<uint8_t> bytes, uint8_t fault)
      : bytes_(std::move(bytes)), fault_(fault) {
    if (bytes_.empty()) bytes_.push_back(0);
  }
  Result<Slice> Read(const program::Part& part) override {
    ++reads_;
    if (part.byte_count > kMostPartBytes || (fault_ == 1 && reads_ == 3))
      return Error(ErrorCode::kNotFound, "This blob is not there.");
    const size_t less = fault_ == 2 && reads_ == 2 ? 1 : 0;
    std::vector<uint8_t> bytes(part.byte_count - std::min<uint64_t>(less, part.byte_count));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = bytes_[i % bytes_.size()];
    return Slice(std::move(bytes));
  }

 private:
  std::vector<uint8_t> bytes_;
  const uint8_t fault_;
  int reads_ = 0;
};

bool IsSmall(const program::Program& program) {
  uint64_t columns = 0;
  for (const auto& buffer : program.buffers) columns += buffer.columns;
  return columns <= kMostBufferColumns && program.ops.size() <= 64;
}

uint32_t ColumnsOf(const program::Program& program, std::optional<program::BufferId> buffer) {
  return buffer ? program.buffers[*buffer].columns : 0;
}

void Step(engine::StageEngine& engine, const program::Program& program, Script& script) {
  const uint32_t layer = program.layer_index;
  const uint8_t kind = script.Byte();
  std::vector<engine::Run> runs;
  uint32_t rows = 0;
  for (int i = 0; i <= kind % 2; ++i) {
    engine::Run run;
    run.session = script.Byte() % 4;
    run.generation = script.Byte() % 2;
    run.first_position = script.Byte() % 8;
    run.count = 1 + script.Byte() % 3;
    run.output.kind = static_cast<engine::OutputKind>(script.Byte() % 6);
    run.output.candidate_count = 4;
    run.marks = static_cast<uint8_t>(script.Byte() % 3);
    const bool is_named = std::any_of(runs.begin(), runs.end(), [&run](const engine::Run& other) {
      return other.session == run.session;
    });
    if (is_named || run.output.kind == engine::OutputKind::kDraw) continue;
    rows += run.count;
    runs.push_back(run);
  }
  if (runs.empty()) return;
  const uint32_t columns = ColumnsOf(program, program.input);
  std::vector<int32_t> ids;
  std::vector<float> hidden;
  if (layer == 0) {
    for (uint32_t row = 0; row < rows; ++row) ids.push_back(static_cast<int32_t>(script.Word()));
  } else {
    const uint32_t bits = script.Word();
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    hidden.assign(size_t{rows} * columns, value);
  }
  auto progress = engine.Begin({{layer, layer + 1}, runs, ids, hidden});
  for (int turn = 0; turn < 4 && progress.ok(); ++turn) {
    auto* pending = std::get_if<std::unique_ptr<engine::PendingStep>>(&*progress);
    if (pending == nullptr) break;
    const engine::SlotRequest& request = (*pending)->request();
    const size_t slots = request.row_count * (request.kind == SlotKind::kSums ? 1 : request.top_k);
    const std::vector<float> rows_back(slots * request.slot_columns, 0.5f);
    progress = engine.Resume(std::move(*pending), rows_back);
  }
  if (!progress.ok()) return;
  const auto* output = std::get_if<engine::StepOutput>(&*progress);
  if (output == nullptr) return;
  size_t wanted = 0;
  for (const engine::Run& run : runs)
    if (run.output.kind == engine::OutputKind::kHidden) wanted += run.count;
  if (wanted > 0 && program.output < program.buffers.size())
    CHECK(output->hidden.size() == wanted * program.buffers[program.output].columns);
  CHECK(std::all_of(output->hidden.begin(), output->hidden.end(),
                    [](float value) { return std::isfinite(value); }));
}

engine::SessionFork ForkOf(uint32_t from, Script& script) {
  engine::SessionFork fork;
  fork.from = from;
  fork.to = script.Byte() % 4;
  fork.generation = script.Byte() % 3;
  fork.position_count = script.Byte() % 8;
  return fork;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  if (byte_count < 2) return 0;
  const size_t program_bytes = std::min<size_t>(LoadLe<uint16_t>(data), byte_count - 2);
  const auto program = program::Decode({data + 2, program_bytes});
  if (!program.ok() || !IsSmall(*program)) return 0;
  Script script(data + 2 + program_bytes, byte_count - 2 - program_bytes);
  engine::NativeEngineOptions options;
  const uint8_t how = script.Byte();
  options.reference_kernels = (how & 1) != 0;
  options.residual_dtype = (how & 2) != 0 ? DType::kF16 : DType::kF32;
  options.kv_dtype = (how & 4) != 0 ? DType::kF32 : DType::kF16;
  options.memory_limit_bytes = 64 << 20;
  const auto engine = engine::MakeNativeEngine(options);
  const uint8_t fault = script.Byte() % 3;
  HostileSource source(script.Bytes(), fault);
  if (!engine->Load({&*program, 1}, source).ok()) return 0;
  for (int step = 0; step < 8 && !script.done(); ++step) {
    const uint8_t what = script.Byte();
    if (what < 200)
      Step(*engine, *program, script);
    else if (what < 220)
      (void)engine->Truncate(what % 4, script.Byte() % 3, script.Byte() % 8);
    else if (what < 240)
      (void)engine->Fork({program->layer_index, program->layer_index + 1},
                         ForkOf(what % 4, script));
    else
      engine->Release(what % 4);
  }
  return 0;
}
