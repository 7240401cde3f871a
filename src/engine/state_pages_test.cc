// Recurrent state in the native engine (engine.h, "Sessions"): where a session may go on from, and
// that it goes on with the same bits however the rows were cut, batched, cut back or tried in vain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "engine/engine.h"
#include "engine/test_model.h"

namespace weft::engine {
namespace {

using StepRun = Run;  // inside a test, Run is gtest's

constexpr uint32_t kHidden = 24, kVocabulary = 50, kHeads = 4, kKeyHeads = 2, kColumns = 8;
constexpr uint32_t kConv = 2 * kKeyHeads * kColumns + kHeads * kColumns, kTaps = 4;

// Embedding, a layer with a convolution and the delta rule, a head.
class RecurrentModel {
 public:
  explicit RecurrentModel(uint64_t memory_limit_bytes = 0) {
    NativeEngineOptions options{.thread_count = 2};
    options.memory_limit_bytes = memory_limit_bytes;
    engine = MakeNativeEngine(options);
    const std::vector<program::Program> programs = {Embedding(), Layer(), Head()};
    status = engine->Load(programs, source);
  }

  // All logits of `ids` from `first` on, or nothing where the step was refused.
  std::vector<uint32_t> Step(uint32_t session, uint32_t generation, uint32_t first,
                             std::span<const int32_t> ids, uint8_t marks = 0) {
    const StepRun run = {session,
                         generation,
                         first,
                         static_cast<uint32_t>(ids.size()),
                         {.kind = OutputKind::kLogits},
                         marks};
    const auto output = engine->Step({{0, 3}, {&run, 1}, ids, {}});
    error = output.ok() ? "" : output.error().message();
    std::vector<uint32_t> bits;
    if (!output.ok()) return bits;
    for (const float logit : output->logits) bits.push_back(std::bit_cast<uint32_t>(logit));
    return bits;
  }

  std::unique_ptr<StageEngine> engine;
  MemorySource source;
  Status status = OkStatus();
  std::string error;  // of the last step

 private:
  program::WeightId Add(program::Program& program, const std::string& name,
                        std::vector<uint64_t> shape, float offset = 0) {
    std::vector<float> values = RandomTensors(3, 0.5f)(name, shape);
    for (float& value : values) value += offset;
    program.weights.push_back(StoreWeight(source, name, DType::kF32, shape, values));
    return static_cast<program::WeightId>(program.weights.size() - 1);
  }
  program::Program Embedding() {
    program::Program program;
    program.buffers = {{"out", kHidden}};
    program.ops.push_back(
        program::Embed{Add(program, "table", {kVocabulary, kHidden}), {0, 0, kHidden}});
    return program;
  }
  program::Program Layer() {
    program::Program program;
    program.layer_index = 1;
    const uint32_t values = kHeads * kColumns, keys = kKeyHeads * kColumns;
    program.buffers = {{"in", kHidden}, {"qkv", kConv},  {"conv", kConv}, {"a", kHeads},
                       {"b", kHeads},   {"out", values}, {"o", kHidden},  {"sum", kHidden}};
    const auto all = [&](program::BufferId id) {
      return program::View{id, 0, program.buffers[id].columns};
    };
    const auto product = [&](program::BufferId in, program::BufferId out, const char* name) {
      const uint32_t rows = program.buffers[out].columns;
      const program::WeightId weight = Add(program, name, {rows, program.buffers[in].columns});
      program.ops.push_back(program::MatMul{all(in), all(out), {weight, 0, rows}, {}});
    };
    product(0, 1, "qkv");
    product(0, 3, "a");
    product(0, 4, "b");
    program.ops.push_back(
        program::CausalConv{all(1), all(2), Add(program, "conv", {kConv, kTaps}), {}, true});
    program::DeltaRule delta;
    delta.q = {2, 0, keys};
    delta.k = {2, keys, keys};
    delta.v = {2, 2 * keys, values};
    delta.a = all(3);
    delta.b = all(4);
    delta.out = all(5);
    delta.key_heads = kKeyHeads;
    delta.value_heads = kHeads;
    delta.key_columns = delta.value_columns = kColumns;
    delta.decay = Add(program, "decay", {kHeads}, -0.6f);
    delta.dt_bias = Add(program, "dt_bias", {kHeads});
    program.ops.push_back(delta);
    product(5, 6, "o");
    program.ops.push_back(program::Add{all(0), all(6), all(7)});
    program.input = 0;
    program.output = 7;
    return program;
  }
  program::Program Head() {
    program::Program program;
    program.layer_index = 2;
    program.buffers = {{"in", kHidden}, {"logits", kVocabulary}};
    const program::WeightId weight = Add(program, "head", {kVocabulary, kHidden});
    program.ops.push_back(
        program::MatMul{{0, 0, kHidden}, {1, 0, kVocabulary}, {weight, 0, kVocabulary}, {}});
    program.input = 0;
    program.output = 1;
    return program;
  }
};

std::vector<int32_t> Ids(uint32_t count, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<int32_t> ids;
  for (uint32_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(random.Below(50)));
  return ids;
}

std::span<const int32_t> Part(const std::vector<int32_t>& ids, size_t first, size_t end) {
  return std::span(ids).subspan(first, end - first);
}

std::vector<uint32_t> Rows(const std::vector<uint32_t>& logits, size_t first, size_t end) {
  return {logits.begin() + static_cast<ptrdiff_t>(first * kVocabulary),
          logits.begin() + static_cast<ptrdiff_t>(end * kVocabulary)};
}

TEST(StatePages, AnyCutOfThePromptGivesTheSameBits) {
  const std::vector<int32_t> ids = Ids(300, 1);  // more than two passes
  RecurrentModel model;
  ASSERT_TRUE(model.status.ok()) << model.status.error().message();
  const std::vector<uint32_t> whole = model.Step(1, 0, 0, ids);
  ASSERT_EQ(whole.size(), 300 * kVocabulary) << model.error;
  uint32_t session = 2;
  for (const size_t chunk : {1, 7, 128, 129, 299}) {
    std::vector<uint32_t> logits;
    for (size_t first = 0; first < ids.size(); first += chunk) {
      const size_t end = std::min(ids.size(), first + chunk);
      const auto part = model.Step(session, 0, static_cast<uint32_t>(first), Part(ids, first, end));
      logits.insert(logits.end(), part.begin(), part.end());
    }
    EXPECT_EQ(logits, whole) << chunk;
    ++session;
  }
}

TEST(StatePages, NeighboursInABatchDoNotMatter) {
  const std::vector<int32_t> ids = Ids(20, 1), others = Ids(20, 2);
  RecurrentModel model;
  const std::vector<uint32_t> whole = model.Step(1, 0, 0, ids);
  model.Step(2, 0, 0, Part(ids, 0, 5));
  model.Step(3, 0, 0, Part(others, 0, 9));
  const StepRun runs[] = {{3, 0, 9, 4, {.kind = OutputKind::kNone}},
                          {2, 0, 5, 15, {.kind = OutputKind::kLogits}},
                          {4, 0, 0, 3, {.kind = OutputKind::kNone}}};
  std::vector<int32_t> rows(others.begin() + 9, others.begin() + 13);
  rows.insert(rows.end(), ids.begin() + 5, ids.end());
  rows.insert(rows.end(), others.begin(), others.begin() + 3);
  const auto output = model.engine->Step({{0, 3}, runs, rows, {}});
  ASSERT_TRUE(output.ok());
  std::vector<uint32_t> bits;
  for (const float logit : output->logits) bits.push_back(std::bit_cast<uint32_t>(logit));
  EXPECT_EQ(bits, Rows(whole, 5, 20));
}

TEST(StatePages, ASessionIsCutBackToZeroToItsLengthAndToMarksAlone) {
  const std::vector<int32_t> ids = Ids(40, 1), others = Ids(40, 2);
  RecurrentModel model;
  const std::vector<uint32_t> whole = model.Step(9, 0, 0, ids);
  model.Step(1, 0, 0, Part(ids, 0, 10), 4);
  model.Step(1, 0, 10, Part(others, 0, 12), 4);
  model.Step(1, 0, 22, Part(others, 12, 15));

  // Anything else is refused and changes nothing.
  for (const uint32_t position : {1u, 9u, 11u, 21u, 23u, 24u}) {
    EXPECT_TRUE(model.Step(1, 1, position, Part(ids, 0, 1)).empty()) << position;
    EXPECT_NE(model.error.find("marks 10 22"), std::string::npos) << model.error;
    EXPECT_FALSE(model.engine->Truncate(1, 1, position).ok());
    EXPECT_FALSE(model.engine->Fork({0, 3}, {1, 50, 0, position}).ok());
  }
  const HeldSession held = model.engine->Held(1, {0, 3});
  EXPECT_EQ(held.positions, 25u);
  EXPECT_THAT(held.marks, testing::ElementsAre(10, 22));

  // A mark: the same bits as if the rest had never been. Marks behind it are gone.
  EXPECT_EQ(model.Step(1, 1, 10, Part(ids, 10, 40)), Rows(whole, 10, 40));
  EXPECT_TRUE(model.Step(1, 2, 22, Part(ids, 22, 23)).empty());
  EXPECT_EQ(model.Step(1, 2, 10, Part(ids, 10, 12)), Rows(whole, 10, 12));
  // The length in a new generation, then the beginning.
  EXPECT_EQ(model.Step(1, 3, 12, Part(ids, 12, 20)), Rows(whole, 12, 20));
  EXPECT_EQ(model.Step(1, 4, 0, ids), whole);
  EXPECT_TRUE(model.Step(1, 5, 10, Part(ids, 10, 11)).empty());  // the mark went with its text
}

TEST(StatePages, AnUnknownSessionBeginsAtZero) {
  RecurrentModel model;
  EXPECT_TRUE(model.Step(1, 0, 3, Ids(2, 1)).empty());
  EXPECT_NE(model.error.find("must begin at position 0"), std::string::npos) << model.error;
}

TEST(StatePages, TheSecondLowestMarkGoesFirst) {
  const std::vector<int32_t> ids = Ids(40, 1);
  RecurrentModel model;
  for (uint32_t first = 0; first < 30; first += 5) {
    model.Step(1, 0, first, Part(ids, first, first + 5), 4);  // marks 5, 10, ... 30
  }
  model.Step(1, 0, 30, Part(ids, 30, 31));
  uint32_t session = 10;
  for (const uint32_t mark : {5u, 20u, 25u, 30u}) {
    EXPECT_TRUE(model.engine->Fork({0, 3}, {1, ++session, 0, mark}).ok()) << mark;
  }
  for (const uint32_t gone : {10u, 15u})
    EXPECT_FALSE(model.engine->Fork({0, 3}, {1, 50, 0, gone}).ok());
}

TEST(StatePages, ForksPartFromWhereTheyWere) {
  const std::vector<int32_t> ids = Ids(30, 1), others = Ids(30, 2);
  RecurrentModel model;
  const std::vector<uint32_t> whole = model.Step(9, 0, 0, ids);
  model.Step(1, 0, 0, Part(ids, 0, 8), 4);
  model.Step(1, 0, 8, Part(ids, 8, 20));
  ASSERT_TRUE(model.engine->Fork({0, 3}, {1, 2, 0, 20}).ok());
  ASSERT_TRUE(model.engine->Fork({0, 3}, {1, 3, 0, 8}).ok());
  model.Step(1, 0, 20, Part(others, 0, 10));
  EXPECT_EQ(model.Step(2, 0, 20, Part(ids, 20, 30)), Rows(whole, 20, 30));
  EXPECT_EQ(model.Step(3, 0, 8, Part(ids, 8, 30)), Rows(whole, 8, 30));
}

// Values that are not finite fail a step in the middle; the session goes on as if it had not been.
TEST(StatePages, AFailedStepLeavesTheStateAndTheMarks) {
  const std::vector<int32_t> ids = Ids(30, 1);
  RecurrentModel model;
  const std::vector<uint32_t> whole = model.Step(9, 0, 0, ids);
  model.Step(1, 0, 0, Part(ids, 0, 6), 4);
  model.Step(1, 0, 6, Part(ids, 6, 15));
  // Rows for layer 1 alone; these overflow in it.
  const std::vector<float> rows(2 * kHidden, 3e38f);
  const StepRun truncates = {1, 1, 6, 2, {.kind = OutputKind::kHidden}};
  EXPECT_FALSE(model.engine->Step({{1, 2}, {&truncates, 1}, {}, rows}).ok());
  EXPECT_EQ(model.Step(1, 0, 15, Part(ids, 15, 20)), Rows(whole, 15, 20));
  EXPECT_EQ(model.Step(1, 1, 6, Part(ids, 6, 30)), Rows(whole, 6, 30));
}

TEST(StatePages, StateAndMarksCountAsMemoryUntilTheyGo) {
  const uint64_t state = sizeof(float) * ((kTaps - 1) * kConv + kHeads * kColumns * kColumns);
  const std::vector<int32_t> ids = Ids(10, 1);
  RecurrentModel model;
  model.Step(1, 0, 0, Part(ids, 0, 4), 4);
  EXPECT_EQ(model.engine->memory().kv_bytes, state);  // the mark is the state
  model.Step(1, 0, 4, Part(ids, 4, 6));
  EXPECT_EQ(model.engine->memory().kv_bytes, 2 * state);
  model.Step(1, 0, 6, Part(ids, 6, 8));
  EXPECT_EQ(model.engine->memory().kv_bytes, 2 * state);
  model.engine->Release(1);
  EXPECT_EQ(model.engine->memory().kv_bytes, 0u);

  const MemoryUse use = model.engine->memory();
  RecurrentModel small(use.weight_bytes + use.scratch_bytes + (1 << 20));
  ASSERT_TRUE(small.status.ok());
  uint32_t session = 0;
  while (session < 1000 && !small.Step(++session, 0, 0, Part(ids, 0, 1)).empty()) {
  }
  EXPECT_NE(small.error.find("the limit is"), std::string::npos) << small.error;
  EXPECT_GE(session, (1 << 20) / state / 2);
}

}  // namespace
}  // namespace weft::engine
