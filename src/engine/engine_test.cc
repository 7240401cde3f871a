// The native engine on small random models: values against the double-precision oracle, and every
// rule of engine.h.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <limits>
#include <set>
#include <thread>

#include "engine/test_model.h"
#include "engine/test_oracle.h"

namespace weft::engine {
namespace {

using StepRun = Run;  // inside a test, Run is gtest's

std::vector<int32_t> Ids(uint32_t count, uint32_t vocabulary, uint64_t seed = 5) {
  SeededRandom random(seed);
  std::vector<int32_t> ids;
  for (uint32_t i = 0; i < count; ++i)
    ids.push_back(static_cast<int32_t>(random.Below(vocabulary)));
  return ids;
}

// A random model, loaded.
struct Loaded {
  explicit Loaded(const ModelSpec& model, NativeEngineOptions options = {.thread_count = 2})
      : spec(model), tensors(RandomTensors(1)), engine(MakeNativeEngine(options)) {
    programs = ModelBuilder(spec, tensors, source).Build();
    status = engine->Load(programs, source);
  }
  LayerRange all() const { return {0, spec.layers + 2}; }
  LayerRange inner() const { return {1, spec.layers + 1}; }

  Result<StepOutput> Step(uint32_t session, uint32_t first, std::span<const int32_t> ids,
                          Output output, uint32_t generation = 0) {
    const StepRun run = {session, generation, first, static_cast<uint32_t>(ids.size()), output};
    return engine->Step({all(), {&run, 1}, ids, {}});
  }

  ModelSpec spec;
  TensorGetter tensors;
  MemorySource source;
  std::vector<program::Program> programs;
  std::unique_ptr<StageEngine> engine;
  Status status = OkStatus();
};

std::vector<uint32_t> Bits(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

void ExpectNear(std::span<const float> got, const Oracle::Matrix& expected, size_t first_row,
                double tolerance) {
  const size_t columns = expected[0].size();
  ASSERT_EQ(got.size() % columns, 0u);
  for (size_t i = 0; i < got.size(); ++i) {
    const double wanted = expected[first_row + i / columns][i % columns];
    ASSERT_NEAR(got[i], wanted, tolerance * (1 + std::fabs(wanted))) << "row " << i / columns;
  }
}

void ExpectCode(const Status& status, ErrorCode code, const std::string& part) {
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(ErrorCodeName(status.error().code()), ErrorCodeName(code)) << status.error().message();
  EXPECT_NE(status.error().message().find(part), std::string::npos) << status.error().message();
}
template <typename T>
void ExpectCode(const Result<T>& result, ErrorCode code, const std::string& part) {
  ASSERT_FALSE(result.ok());
  ExpectCode(Status(result.error()), code, part);
}

// ---- values

struct ModelCase {
  const char* name;
  ModelSpec spec;
};
std::vector<ModelCase> Models() {
  ModelSpec plain;
  ModelSpec everything;
  everything.layers = 3;
  everything.qk_norm = true;
  everything.attention_bias = true;
  everything.gemma = true;
  everything.tied = false;
  everything.sinks = true;
  everything.attention_softcap = 20;
  everything.final_softcap = 15;
  everything.windows = {0, 7, 40};
  everything.activation = program::Activation::kGeluTanh;
  ModelSpec odd;  // nothing is a multiple of 16 or 32
  odd.hidden = 44;
  odd.heads = 3;
  odd.kv_heads = 1;
  odd.head_columns = 20;
  odd.width = 57;
  odd.vocabulary = 101;
  odd.activation = program::Activation::kGelu;
  ModelSpec experts;
  experts.experts = 6;
  experts.top_k = 2;
  experts.width = 40;
  experts.activation = program::Activation::kSwigluOai;
  ModelSpec experts_raw = experts;
  experts_raw.route = program::RouteKind::kSoftmaxTopK;
  ModelSpec squares;  // relu(x)^2 without a gate, norms by groups
  squares.activation = program::Activation::kRelu;
  squares.gates = false;
  squares.norm_groups = 2;
  ModelSpec expert_squares = squares;
  expert_squares.experts = 6;
  expert_squares.top_k = 2;
  expert_squares.width = 40;
  expert_squares.norm_groups = 8;
  return {{"plain", plain},
          {"everything", everything},
          {"odd", odd},
          {"experts", experts},
          {"experts_raw", experts_raw},
          {"squares", squares},
          {"expert_squares", expert_squares}};
}

TEST(Engine, LogitsAreTheOracles) {
  for (const ModelCase& model : Models()) {
    for (const DType dtype :
         {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8, DType::kQ4, DType::kQ4S}) {
      SCOPED_TRACE(std::string(model.name) + " " + std::string(DTypeName(dtype)));
      ModelSpec spec = model.spec;
      spec.matrix_dtype = dtype;
      Loaded loaded(spec);
      ASSERT_TRUE(loaded.status.ok()) << loaded.status.error().ToString();
      const std::vector<int32_t> ids = Ids(50, spec.vocabulary);
      const auto output = loaded.Step(1, 0, ids, {OutputKind::kLogits});
      ASSERT_TRUE(output.ok()) << output.error().ToString();
      const Oracle oracle(spec, loaded.tensors, true);
      ASSERT_EQ(output->logits.size(), 50u * spec.vocabulary);
      // A value on the edge of two halves may round either way: not 1e-5. Rows of q4s: 16 bits.
      ExpectNear(output->logits, oracle.Run(ids, 99), 0, dtype == DType::kQ4S ? 4e-3 : 1e-3);
    }
  }
}

TEST(Engine, HiddenRowsBetweenStagesAreTheOracles) {
  const ModelSpec spec = Models()[1].spec;
  Loaded loaded(spec);
  const std::vector<int32_t> ids = Ids(40, spec.vocabulary);
  const Oracle oracle(spec, loaded.tensors, true);
  // Three stages, the rows handed on as f32.
  StepRun run = {1, 0, 0, 40, {OutputKind::kHidden}};
  auto first = loaded.engine->Step({{0, 2}, {&run, 1}, ids, {}});
  ASSERT_TRUE(first.ok()) << first.error().ToString();
  ExpectNear(first->hidden, oracle.Run(ids, 1), 0, 1e-3);
  auto second = loaded.engine->Step({{2, 4}, {&run, 1}, {}, first->hidden});
  ASSERT_TRUE(second.ok()) << second.error().ToString();
  ExpectNear(second->hidden, oracle.Run(ids, 3), 0, 1e-3);
  run.output = {OutputKind::kArgmax};
  auto third = loaded.engine->Step({{4, 5}, {&run, 1}, {}, second->hidden});
  ASSERT_TRUE(third.ok()) << third.error().ToString();

  Loaded whole(spec);
  const auto direct = whole.Step(1, 0, ids, {OutputKind::kArgmax});
  EXPECT_EQ(third->selections[0].candidates[0].token_id,
            direct->selections[0].candidates[0].token_id);
  EXPECT_EQ(third->selections[0].candidates[0].logit, direct->selections[0].candidates[0].logit);
}

TEST(Engine, SelectionsComeFromTheLastRowOfTheirRun) {
  Loaded loaded(ModelSpec{});
  const std::vector<int32_t> ids = Ids(90, loaded.spec.vocabulary);
  const StepRun runs[] = {{1, 0, 0, 20, {OutputKind::kCandidates, 5}},
                          {2, 0, 0, 15, {OutputKind::kNone}},
                          {3, 0, 0, 30, {OutputKind::kLogits}},
                          {4, 0, 0, 25, {OutputKind::kArgmax}}};
  const auto output = loaded.engine->Step({loaded.all(), runs, ids, {}});
  ASSERT_TRUE(output.ok()) << output.error().ToString();
  ASSERT_EQ(output->selections.size(), 2u);
  ASSERT_EQ(output->logits.size(), 30u * loaded.spec.vocabulary);
  EXPECT_TRUE(output->hidden.empty());
  const Oracle oracle(loaded.spec, loaded.tensors, true);
  const auto check = [&](const Selection& selection, size_t first, size_t count,
                         size_t expected_count) {
    const std::vector<int32_t> own(ids.begin() + static_cast<ptrdiff_t>(first),
                                   ids.begin() + static_cast<ptrdiff_t>(first + count));
    const Oracle::Row logits = oracle.Run(own, 99).back();
    ASSERT_EQ(selection.candidates.size(), expected_count);
    if (expected_count != 2) {  // kArgmax sums nothing
      double sum = 0;
      for (const double l : logits) sum += std::exp(l);
      EXPECT_NEAR(selection.logsumexp, std::log(sum), 1e-3);
    }
    Oracle::Row sorted = logits;
    std::sort(sorted.rbegin(), sorted.rend());
    for (size_t i = 0; i < expected_count; ++i) {
      const sampling::TokenLogit& candidate = selection.candidates[i];
      EXPECT_NEAR(candidate.logit, sorted[i], 1e-3);
      EXPECT_NEAR(logits[static_cast<size_t>(candidate.token_id)], sorted[i], 1e-3);
    }
  };
  check(output->selections[0], 0, 20, 5);
  check(output->selections[1], 65, 25, 2);
}

// ---- batch invariance

TEST(Engine, BitsDependOnNeitherChunksNorNeighboursNorThreads) {
  // Attention with everything; experts; experts without a gate.
  for (const size_t index : {1u, 3u, 6u, 11u, 13u}) {  // from 10 on: in q4s
    ModelSpec spec = Models()[index % 10].spec;
    spec.matrix_dtype = index < 10 ? DType::kQ4 : DType::kQ4S;
    const std::vector<int32_t> ids = Ids(300, spec.vocabulary);
    Loaded alone(spec, {.thread_count = 1});
    std::vector<float> expected;
    for (uint32_t i = 0; i < ids.size(); ++i) {
      const auto step = alone.Step(1, i, std::span(ids).subspan(i, 1), {OutputKind::kLogits});
      ASSERT_TRUE(step.ok());
      expected.insert(expected.end(), step->logits.begin(), step->logits.end());
    }
    SeededRandom random(3);
    for (uint32_t threads = 1; threads <= 3; ++threads) {
      Loaded loaded(spec, {.thread_count = threads});
      std::vector<float> got;
      uint32_t neighbour_length = 0;
      for (uint32_t first = 0; first < ids.size();) {
        const auto count = std::min<uint32_t>(static_cast<uint32_t>(1 + random.Below(140)),
                                              static_cast<uint32_t>(ids.size()) - first);
        const auto other_count = static_cast<uint32_t>(1 + random.Below(9));
        std::vector<int32_t> batch = Ids(other_count, spec.vocabulary, random.Next());
        batch.insert(batch.end(), ids.begin() + first, ids.begin() + first + count);
        const StepRun runs[] = {{9, 0, neighbour_length, other_count, {OutputKind::kNone}},
                                {1, 0, first, count, {OutputKind::kLogits}}};
        const auto step = loaded.engine->Step({loaded.all(), runs, batch, {}});
        ASSERT_TRUE(step.ok()) << step.error().ToString();
        got.insert(got.end(), step->logits.begin(), step->logits.end());
        neighbour_length += other_count;
        first += count;
      }
      ASSERT_EQ(Bits(got), Bits(expected)) << threads << " threads";
    }
  }
}

// ---- sessions

TEST(EngineSessions, OnlyRunsThatFollowAreAccepted) {
  Loaded loaded(ModelSpec{});
  const std::vector<int32_t> ids = Ids(8, 128);
  const auto step = [&](uint32_t session, uint32_t generation, uint32_t first) {
    return loaded.Step(session, first, ids, {OutputKind::kNone}, generation);
  };
  ExpectCode(step(1, 0, 3), ErrorCode::kInvalidArgument, "must begin at position 0");
  EXPECT_EQ(loaded.engine->Held(1, loaded.all()).positions, 0u);
  ASSERT_TRUE(step(1, 0, 0).ok());
  EXPECT_EQ(loaded.engine->Held(1, loaded.all()).positions, 8u);
  ExpectCode(step(1, 0, 7), ErrorCode::kInvalidArgument, "holds 8 positions");
  ExpectCode(step(1, 0, 9), ErrorCode::kInvalidArgument, "holds 8 positions");
  ExpectCode(step(1, 0, 0), ErrorCode::kInvalidArgument, "holds 8 positions");
  ASSERT_TRUE(step(1, 0, 8).ok());
  ExpectCode(step(1, 1, 17), ErrorCode::kInvalidArgument, "holds 16 positions");
  ASSERT_TRUE(step(1, 1, 5).ok());  // truncates to 5, then appends 8
  EXPECT_EQ(loaded.engine->Held(1, loaded.all()).positions, 13u);
  ExpectCode(step(1, 0, 13), ErrorCode::kInvalidArgument, "generation 1");
  ASSERT_TRUE(step(1, 1, 13).ok());
  ASSERT_TRUE(step(1, 7, 21).ok());  // a higher generation may also just go on
}

TEST(EngineSessions, TruncationForgets) {
  Loaded loaded(ModelSpec{}), fresh(ModelSpec{});
  const std::vector<int32_t> ids = Ids(80, 128), other = Ids(50, 128, 77);
  ASSERT_TRUE(loaded.Step(1, 0, ids, {OutputKind::kNone}).ok());
  ExpectCode(loaded.engine->Truncate(2, 1, 0), ErrorCode::kNotFound, "Session 2");
  ExpectCode(loaded.engine->Truncate(1, 0, 40), ErrorCode::kInvalidArgument,
             "raise the generation");
  ExpectCode(loaded.engine->Truncate(1, 1, 81), ErrorCode::kInvalidArgument, "holds 80");
  const uint64_t before = loaded.engine->memory().kv_bytes;
  ASSERT_TRUE(loaded.engine->Truncate(1, 1, 33).ok());
  EXPECT_EQ(loaded.engine->Held(1, loaded.all()).positions, 33u);
  EXPECT_EQ(loaded.engine->memory().kv_bytes, before / 3 * 2);  // of three pages two are left
  ExpectCode(loaded.Step(1, 80, other, {OutputKind::kNone}, 1), ErrorCode::kInvalidArgument,
             "holds 33");
  const auto after = loaded.Step(1, 33, other, {OutputKind::kLogits}, 1);
  ASSERT_TRUE(after.ok());

  ASSERT_TRUE(fresh.Step(5, 0, std::span(ids).first(33), {OutputKind::kNone}).ok());
  const auto expected = fresh.Step(5, 33, other, {OutputKind::kLogits});
  EXPECT_EQ(Bits(after->logits), Bits(expected->logits));
}

TEST(EngineSessions, ForksPartAndShareNothingThatIsWritten) {
  Loaded loaded(ModelSpec{}), fresh(ModelSpec{});
  const std::vector<int32_t> ids = Ids(45, 128), left = Ids(30, 128, 1), right = Ids(30, 128, 2);
  ASSERT_TRUE(loaded.Step(1, 0, ids, {OutputKind::kNone}).ok());
  const uint64_t before = loaded.engine->memory().kv_bytes;
  ExpectCode(loaded.engine->Fork(loaded.all(), {3, 4, 0, 1}), ErrorCode::kInvalidArgument,
             "Session 3 holds 0");
  ExpectCode(loaded.engine->Fork(loaded.all(), {1, 2, 0, 46}), ErrorCode::kInvalidArgument,
             "holds 45");
  ASSERT_TRUE(loaded.engine->Fork(loaded.all(), {1, 2, 0, 40}).ok());
  EXPECT_EQ(loaded.engine->memory().kv_bytes, before);  // pages are shared until written
  EXPECT_EQ(loaded.engine->Held(2, loaded.all()).positions, 40u);
  const auto got_left = loaded.Step(1, 45, left, {OutputKind::kLogits});
  const auto got_right = loaded.Step(2, 40, right, {OutputKind::kLogits});
  ASSERT_TRUE(got_left.ok() && got_right.ok());

  ASSERT_TRUE(fresh.Step(1, 0, ids, {OutputKind::kNone}).ok());
  ASSERT_TRUE(fresh.Step(2, 0, std::span(ids).first(40), {OutputKind::kNone}).ok());
  EXPECT_EQ(Bits(got_left->logits), Bits(fresh.Step(1, 45, left, {OutputKind::kLogits})->logits));
  EXPECT_EQ(Bits(got_right->logits), Bits(fresh.Step(2, 40, right, {OutputKind::kLogits})->logits));

  loaded.engine->Release(1);
  EXPECT_EQ(loaded.engine->Held(1, loaded.all()).positions, 0u);
  EXPECT_EQ(loaded.engine->Held(2, loaded.all()).positions, 70u);
  loaded.engine->ReleaseAll();
  EXPECT_EQ(loaded.engine->memory().kv_bytes, 0u);
}

TEST(EngineSessions, LayersGainedLaterAreReplayedByThemselves) {
  const ModelSpec spec = Models()[1].spec;
  Loaded loaded(spec), whole(spec);
  const std::vector<int32_t> ids = Ids(20, spec.vocabulary), more = Ids(3, spec.vocabulary, 8);
  StepRun run = {1, 0, 0, 20, {OutputKind::kHidden}};
  const auto early = loaded.engine->Step({{0, 2}, {&run, 1}, ids, {}});
  ASSERT_TRUE(early.ok());
  ExpectCode(loaded.Step(1, 20, more, {OutputKind::kNone}), ErrorCode::kInvalidArgument, "layer 2");
  run.output = {OutputKind::kNone};
  ASSERT_TRUE(loaded.engine->Step({{2, 5}, {&run, 1}, {}, early->hidden}).ok());
  const auto got = loaded.Step(1, 20, more, {OutputKind::kLogits});
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  ASSERT_TRUE(whole.Step(1, 0, ids, {OutputKind::kNone}).ok());
  EXPECT_EQ(Bits(got->logits), Bits(whole.Step(1, 20, more, {OutputKind::kLogits})->logits));
}

// Layers that are filled are in another generation than those that go on meanwhile.
TEST(EngineSessions, OnlyTheLayersOfARunDecideByTheirGenerations) {
  const ModelSpec spec = Models()[1].spec;
  Loaded loaded(spec), whole(spec);
  const std::vector<int32_t> ids = Ids(20, spec.vocabulary), more = Ids(3, spec.vocabulary, 8);
  StepRun run = {1, 4, 0, 20, {OutputKind::kHidden}};
  const auto early = loaded.engine->Step({{0, 2}, {&run, 1}, ids, {}});
  ASSERT_TRUE(early.ok());
  run = {1, 2, 0, 20, {OutputKind::kNone}};  // behind the first layers' generation
  ASSERT_TRUE(loaded.engine->Step({{2, 5}, {&run, 1}, {}, early->hidden}).ok());
  ExpectCode(loaded.Step(1, 20, more, {OutputKind::kNone}, 3), ErrorCode::kInvalidArgument,
             "layer 1 is in generation 4");
  EXPECT_EQ(loaded.engine->Held(1, {0, 5}).generation, 0u) << "they are in different ones";
  const auto got = loaded.Step(1, 20, more, {OutputKind::kLogits}, 4);
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  ASSERT_TRUE(whole.Step(1, 0, ids, {OutputKind::kNone}).ok());
  EXPECT_EQ(Bits(got->logits), Bits(whole.Step(1, 20, more, {OutputKind::kLogits})->logits));
}

TEST(EngineSessions, ExportedKvContinuesElsewhere) {
  const ModelSpec spec = Models()[1].spec;
  Loaded from(spec), to(spec);
  const std::vector<int32_t> ids = Ids(75, spec.vocabulary), more = Ids(5, spec.vocabulary, 8);
  ASSERT_TRUE(from.Step(1, 0, ids, {OutputKind::kNone}).ok());
  const size_t row_bytes = 2 * 2 * spec.kv_heads * spec.head_columns;
  for (uint32_t layer = 1; layer <= spec.layers; ++layer) {
    // In two pieces that do not end on pages.
    for (const auto& [first, count] : {std::pair{0u, 50u}, std::pair{50u, 25u}}) {
      const auto kv = from.engine->ExportKv(1, layer, first, count);
      ASSERT_TRUE(kv.ok()) << kv.error().ToString();
      ASSERT_EQ(kv->size(), count * row_bytes);
      ASSERT_TRUE(to.engine->ImportKv(6, 4, layer, first, count, *kv).ok());
    }
    EXPECT_EQ(to.engine->ExportKv(6, layer, 10, 60).value(),
              from.engine->ExportKv(1, layer, 10, 60).value());
  }
  const auto got = to.Step(6, 75, more, {OutputKind::kLogits}, 4);
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  EXPECT_EQ(Bits(got->logits), Bits(from.Step(1, 75, more, {OutputKind::kLogits})->logits));
}

TEST(EngineSessions, BadKvIsRefused) {
  Loaded loaded(ModelSpec{});
  const std::vector<int32_t> ids = Ids(10, 128);
  ASSERT_TRUE(loaded.Step(1, 0, ids, {OutputKind::kNone}).ok());
  auto& engine = *loaded.engine;
  ExpectCode(engine.ExportKv(2, 1, 0, 1), ErrorCode::kNotFound, "Session 2");
  ExpectCode(engine.ExportKv(1, 0, 0, 1), ErrorCode::kNotFound, "layer 0");
  ExpectCode(engine.ExportKv(1, 1, 5, 6), ErrorCode::kInvalidArgument, "holds 10");
  ExpectCode(engine.ExportKv(1, 1, UINT32_MAX, 2), ErrorCode::kInvalidArgument, "holds 10");
  std::vector<uint8_t> kv = engine.ExportKv(1, 1, 0, 10).value();
  ExpectCode(engine.ImportKv(3, 0, 1, 0, 9, kv), ErrorCode::kInvalidData, "bytes");
  ExpectCode(engine.ImportKv(3, 0, 1, 4, 10, kv), ErrorCode::kInvalidArgument,
             "begin at position 0");
  ExpectCode(engine.ImportKv(3, 0, 99, 0, 10, kv), ErrorCode::kInvalidArgument, "not loaded");
  ExpectCode(engine.ImportKv(3, 0, 0, 0, 10, kv), ErrorCode::kInvalidArgument, "no attention");
  ExpectCode(engine.ImportKv(1, 0, 1, 0, 10, kv), ErrorCode::kInvalidArgument, "holds 10");
  ExpectCode(engine.ImportKv(3, 0, 1, 0, UINT32_MAX, kv), ErrorCode::kInvalidArgument, "expected");
  EXPECT_EQ(engine.Held(3, {1, 2}).positions, 0u);
}

// ---- what a step refuses

TEST(EngineSteps, NonsenseIsRefused) {
  Loaded loaded(ModelSpec{});
  auto& engine = *loaded.engine;
  const std::vector<int32_t> ids = Ids(4, 128);
  const std::vector<float> hidden(4 * loaded.spec.hidden, 0.5f);
  const auto step = [&](LayerRange range, std::vector<StepRun> runs,
                        std::span<const int32_t> tokens, std::span<const float> rows) {
    return engine.Step({range, runs, tokens, rows});
  };
  const StepRun good = {1, 0, 0, 4, {OutputKind::kArgmax}};
  const auto with = [&](OutputKind kind, uint16_t candidates = 0) {
    return std::vector<StepRun>{{1, 0, 0, 4, {kind, candidates}}};
  };
  const LayerRange all = loaded.all();
  ExpectCode(step({2, 2}, {good}, ids, {}), ErrorCode::kInvalidArgument, "no layer");
  ExpectCode(step({0, 9}, {good}, ids, {}), ErrorCode::kInvalidArgument, "Layer 4 is not loaded");
  ExpectCode(step(all, {}, {}, {}), ErrorCode::kInvalidArgument, "at least one run");
  ExpectCode(step(all, {good, good}, ids, {}), ErrorCode::kInvalidArgument, "two runs");
  ExpectCode(step(all, {{1, 0, 0, 0, {}}}, {}, {}), ErrorCode::kInvalidArgument, "0 rows");
  ExpectCode(step(all, {{1, 0, UINT32_MAX, 4, {}}}, ids, {}), ErrorCode::kInvalidArgument,
             "below position");
  ExpectCode(step(all, {{1, 0, 0, UINT32_MAX, {}}}, ids, {}), ErrorCode::kInvalidArgument, "rows");
  ExpectCode(step(all, {good}, std::span(ids).first(3), {}), ErrorCode::kInvalidArgument,
             "4 token ids");
  ExpectCode(step(all, {good}, ids, hidden), ErrorCode::kInvalidArgument, "0 hidden");
  ExpectCode(step({1, 4}, {good}, ids, hidden), ErrorCode::kInvalidArgument, "0 token ids");
  ExpectCode(step({1, 4}, {good}, {}, std::span(hidden).first(7)), ErrorCode::kInvalidArgument,
             "256 hidden");
  ExpectCode(step({0, 3}, {good}, ids, {}), ErrorCode::kInvalidArgument, "output head");
  ExpectCode(step(all, with(OutputKind::kHidden), ids, {}), ErrorCode::kInvalidArgument,
             "residual");
  ExpectCode(step(all, with(OutputKind::kCandidates, 0), ids, {}), ErrorCode::kInvalidArgument,
             "1 to 128");
  ExpectCode(step(all, with(OutputKind::kCandidates, 129), ids, {}), ErrorCode::kInvalidArgument,
             "1 to 128");
  ExpectCode(step(all, with(static_cast<OutputKind>(77)), ids, {}), ErrorCode::kInvalidArgument,
             "77");
  ExpectCode(step(all, with(OutputKind::kDraw), ids, {}), ErrorCode::kInvalidArgument,
             "sampling parameters are not known");
  for (const int32_t id : {-1, 128, INT32_MAX, INT32_MIN}) {
    ExpectCode(step(all, {{1, 0, 0, 1, {}}}, {&id, 1}, {}), ErrorCode::kInvalidArgument,
               "vocabulary");
  }
  std::vector<float> broken = hidden;
  broken[100] = std::numeric_limits<float>::infinity();
  ExpectCode(step({1, 4}, {good}, {}, broken), ErrorCode::kInvalidData,
             "1 values that are not finite");
  EXPECT_EQ(engine.Held(1, all).positions, 0u);
  EXPECT_EQ(engine.memory().kv_bytes, 0u);
  EXPECT_TRUE(step(all, {good}, ids, {}).ok());
}

TEST(EngineSteps, NotANumberNamesTheLayerAndLeavesEverythingAsItWas) {
  const std::string names[] = {"layers.1.q", "layers.1.gate_up", "layers.1.input_norm", "embed",
                               "head"};
  const char* layers[] = {"Layer 2 ", "Layer 2 ", "Layer 2 ", "Layer 0 ", "Layer 3 "};
  for (size_t i = 0; i < std::size(names); ++i) {
    for (const bool reference : {false, true}) {
      SCOPED_TRACE(names[i]);
      ModelSpec spec;
      spec.tied = false;
      MemorySource source;
      const TensorGetter good = RandomTensors(1);
      const auto broken = [&](const std::string& name, const std::vector<uint64_t>& shape) {
        std::vector<float> values = good(name, shape);
        // Of the embedding only token 100 is broken.
        if (name == names[i]) values[name == "embed" ? 100 * spec.hidden : values.size() / 2] = NAN;
        return values;
      };
      const auto engine = MakeNativeEngine({.thread_count = 1, .reference_kernels = reference});
      ASSERT_TRUE(engine->Load(ModelBuilder(spec, broken, source).Build(), source).ok());
      const std::vector<int32_t> ids = {1, 2, 100, 3};
      const StepRun run = {1, 0, 0, 4, {OutputKind::kArgmax}};
      ExpectCode(engine->Step({{0, 4}, {&run, 1}, ids, {}}), ErrorCode::kInvalidData, layers[i]);
      EXPECT_EQ(engine->Held(1, {0, 4}).positions, 0u);
      EXPECT_EQ(engine->memory().kv_bytes, 0u);
      ExpectCode(engine->Truncate(1, 5, 0), ErrorCode::kNotFound, "unknown");
    }
  }
}

TEST(EngineSteps, AFailedStepGivesBackWhatItTruncated) {
  ModelSpec spec;
  spec.tied = false;
  MemorySource source;
  const TensorGetter good = RandomTensors(1);
  const auto broken = [&](const std::string& name, const std::vector<uint64_t>& shape) {
    std::vector<float> values = good(name, shape);
    if (name == "embed") values[100 * spec.hidden] = NAN;
    return values;
  };
  const auto engine = MakeNativeEngine({.thread_count = 1});
  ASSERT_TRUE(engine->Load(ModelBuilder(spec, broken, source).Build(), source).ok());
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 70; ++i) ids.push_back(i);
  const StepRun first = {1, 3, 0, 70, {OutputKind::kNone}};
  ASSERT_TRUE(engine->Step({{0, 4}, {&first, 1}, ids, {}}).ok());
  const auto kv = engine->ExportKv(1, 2, 0, 70).value();
  const uint64_t bytes = engine->memory().kv_bytes;
  // The broken token comes in the second pass, after KV has been written.
  std::vector<int32_t> bad(200, 7);
  bad[190] = 100;
  for (const auto& [generation, position] :
       {std::pair{3u, 70u}, std::pair{4u, 40u}, std::pair{4u, 0u}}) {
    const StepRun run = {1, generation, position, 200, {OutputKind::kArgmax}};
    ExpectCode(engine->Step({{0, 4}, {&run, 1}, bad, {}}), ErrorCode::kInvalidData, "Layer 0 ");
    EXPECT_EQ(engine->Held(1, {0, 4}).positions, 70u);
    EXPECT_EQ(engine->ExportKv(1, 2, 0, 70).value(), kv);
    EXPECT_EQ(engine->memory().kv_bytes, bytes);
  }
  const StepRun next = {1, 3, 70, 70, {OutputKind::kArgmax}};
  EXPECT_TRUE(engine->Step({{0, 4}, {&next, 1}, ids, {}}).ok());
}

// ---- memory and loading

TEST(EngineMemory, LimitIsKeptAndNamed) {
  Loaded unlimited(ModelSpec{});
  const uint64_t weights = unlimited.engine->memory().weight_bytes;
  Loaded too_small(ModelSpec{}, {.memory_limit_bytes = weights - 1});
  ExpectCode(too_small.status, ErrorCode::kOutOfMemory, std::to_string(weights - 1));
  EXPECT_FALSE(too_small.engine->IsLoaded({0, 1}));
  EXPECT_EQ(too_small.engine->memory().weight_bytes, 0u);

  const std::vector<int32_t> ids = Ids(33, 128);
  ASSERT_TRUE(unlimited.Step(1, 0, ids, {OutputKind::kArgmax}).ok());
  const MemoryUse use = unlimited.engine->memory();
  // Two layers, two pages, keys and values in f16.
  EXPECT_EQ(use.kv_bytes,
            2u * 2 * 32 * 2 * unlimited.spec.kv_heads * unlimited.spec.head_columns * 2);
  const uint64_t whole = use.weight_bytes + use.kv_bytes + use.scratch_bytes;
  Loaded exact(ModelSpec{}, {.thread_count = 2, .memory_limit_bytes = whole});
  ASSERT_TRUE(exact.status.ok());
  ExpectCode(exact.Step(1, 0, Ids(65, 128), {OutputKind::kArgmax}), ErrorCode::kOutOfMemory,
             std::to_string(whole));
  EXPECT_EQ(exact.engine->memory().kv_bytes, 0u);
  ASSERT_TRUE(exact.Step(1, 0, ids, {OutputKind::kArgmax}).ok());
  ExpectCode(exact.Step(2, 0, ids, {OutputKind::kArgmax}), ErrorCode::kOutOfMemory, "the limit is");
  exact.engine->Release(1);
  EXPECT_TRUE(exact.Step(2, 0, ids, {OutputKind::kArgmax}).ok());
}

TEST(EngineMemory, ScratchStaysWhatWasPlanned) {
  for (const ModelCase& model : Models()) {
    SCOPED_TRACE(model.name);
    Loaded loaded(model.spec);
    ASSERT_TRUE(loaded.Step(1, 0, Ids(40, model.spec.vocabulary), {OutputKind::kLogits}).ok());
    const uint64_t planned = loaded.engine->memory().scratch_bytes;
    const uint64_t logits_bytes = uint64_t{40} * model.spec.vocabulary * sizeof(float);
    const uint64_t whole = planned + loaded.engine->memory().weight_bytes +
                           loaded.engine->memory().kv_bytes + logits_bytes;
    Loaded exact(model.spec, {.thread_count = 2, .memory_limit_bytes = whole});
    ASSERT_TRUE(exact.Step(1, 0, Ids(40, model.spec.vocabulary), {OutputKind::kLogits}).ok());
    EXPECT_EQ(exact.engine->memory().scratch_bytes, planned);
    exact.engine->ReleaseAll();
    ASSERT_TRUE(exact.Step(2, 0, Ids(1, model.spec.vocabulary), {OutputKind::kArgmax}).ok());
    EXPECT_EQ(exact.engine->memory().scratch_bytes, planned);
  }
}

TEST(EngineMemory, RowsGivenBackCountAgainstTheLimit) {
  const ModelSpec spec;
  Loaded unlimited(spec);
  const std::vector<int32_t> ids = Ids(32, spec.vocabulary);
  ASSERT_TRUE(unlimited.Step(1, 0, ids, {OutputKind::kLogits}).ok());
  const MemoryUse use = unlimited.engine->memory();
  const uint64_t held = use.weight_bytes + use.kv_bytes + use.scratch_bytes;
  const uint64_t logits_bytes = uint64_t{32} * spec.vocabulary * sizeof(float);
  Loaded less(spec, {.thread_count = 2, .memory_limit_bytes = held + logits_bytes - 1});
  ExpectCode(less.Step(1, 0, ids, {OutputKind::kLogits}), ErrorCode::kOutOfMemory,
             "results " + std::to_string(logits_bytes));
  EXPECT_TRUE(less.Step(1, 0, ids, {OutputKind::kArgmax}).ok());
  Loaded exact(spec, {.thread_count = 2, .memory_limit_bytes = held + logits_bytes});
  EXPECT_TRUE(exact.Step(1, 0, ids, {OutputKind::kLogits}).ok());
  // The residual stream of a stage that ends before the head counts in the same way.
  const StepRun run = {1, 0, 0, 32, {OutputKind::kHidden}};
  const uint64_t hidden_bytes = uint64_t{32} * spec.hidden * sizeof(float);
  Loaded whole_stage(spec);
  ASSERT_TRUE(whole_stage.engine->Step({{0, 2}, {&run, 1}, ids, {}}).ok());
  const MemoryUse stage = whole_stage.engine->memory();
  Loaded stage_less(spec, {.thread_count = 2,
                           .memory_limit_bytes = stage.weight_bytes + stage.kv_bytes +
                                                 stage.scratch_bytes + hidden_bytes - 1});
  ExpectCode(stage_less.engine->Step({{0, 2}, {&run, 1}, ids, {}}), ErrorCode::kOutOfMemory,
             "results " + std::to_string(hidden_bytes));
}

TEST(EngineMemory, TiedWeightsCountOnceAndUnloadingGivesThemBack) {
  ModelSpec tied, untied;
  untied.tied = false;
  Loaded a(tied), b(untied);
  const uint64_t table = 4u * tied.vocabulary * tied.hidden;
  EXPECT_EQ(b.engine->memory().weight_bytes, a.engine->memory().weight_bytes + table);
  const uint64_t before = a.engine->memory().weight_bytes;
  a.engine->Unload({3, 4});
  EXPECT_GT(a.engine->memory().weight_bytes,
            before - table);  // the embedding still holds the table
  a.engine->Unload({0, 99});
  EXPECT_EQ(a.engine->memory().weight_bytes, 0u);
}

TEST(EngineLoading, KeepsWhatIsLoadedWithItsKv) {
  Loaded loaded(ModelSpec{}), whole(ModelSpec{});
  const std::vector<int32_t> ids = Ids(20, 128), more = Ids(2, 128, 9);
  ASSERT_TRUE(loaded.Step(1, 0, ids, {OutputKind::kNone}).ok());
  const int reads = loaded.source.reads;
  ASSERT_TRUE(loaded.engine->Load(loaded.programs, loaded.source).ok());
  EXPECT_EQ(loaded.source.reads, reads);  // nothing was read again
  EXPECT_EQ(loaded.engine->Held(1, loaded.all()).positions, 20u);
  loaded.engine->Unload({2, 3});
  EXPECT_FALSE(loaded.engine->IsLoaded(loaded.all()));
  EXPECT_TRUE(loaded.engine->IsLoaded({0, 2}));
  ExpectCode(loaded.Step(1, 20, more, {OutputKind::kNone}), ErrorCode::kInvalidArgument,
             "not loaded");
  ASSERT_TRUE(loaded.engine->Load(loaded.programs, loaded.source).ok());
  // Layer 2's KV went with it, layer 1's stayed.
  EXPECT_EQ(loaded.engine->Held(1, {1, 2}).positions, 20u);
  EXPECT_EQ(loaded.engine->Held(1, {2, 3}).positions, 0u);
  ExpectCode(loaded.Step(1, 20, more, {OutputKind::kNone}), ErrorCode::kInvalidArgument, "layer 2");
}

TEST(EngineLoading, WhatIsReadCountsAndIsNoPartBeforeItIsInstalled) {
  const std::vector<int32_t> ids = Ids(20, 128);
  Loaded free(ModelSpec{});
  ASSERT_TRUE(free.Step(1, 0, ids, {OutputKind::kArgmax}).ok());
  const MemoryUse use = free.engine->memory();
  const uint64_t whole = use.weight_bytes + use.kv_bytes + use.scratch_bytes;

  Loaded exact(ModelSpec{}, {.thread_count = 2, .memory_limit_bytes = whole});
  exact.engine->Unload({2, 3});
  auto read = exact.engine->Read(exact.programs, exact.source);
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_FALSE(exact.engine->IsLoaded({2, 3}));
  // With the layer that waits the weights are as many as before: only what is beyond is refused.
  const StepRun long_run = {1, 0, 0, 120, {OutputKind::kHidden, 0}};
  const std::vector<int32_t> many = Ids(120, 128);
  ExpectCode(exact.engine->Step({{0, 2}, {&long_run, 1}, many, {}}), ErrorCode::kOutOfMemory,
             "the limit is");
  exact.engine->Install(std::move(read).value());
  ASSERT_TRUE(exact.engine->IsLoaded(exact.all()));
  EXPECT_EQ(exact.engine->memory().weight_bytes, use.weight_bytes);
  ASSERT_TRUE(exact.Step(1, 0, ids, {OutputKind::kArgmax}).ok());

  // Steps take their memory from what reading may take, and dropping what was read gives it back.
  exact.engine->Unload({2, 3});
  for (int i = 0; i < 2; ++i) {
    auto again = exact.engine->Read(exact.programs, exact.source);
    ASSERT_TRUE(again.ok()) << again.error().message();
    ExpectCode(exact.engine->Read(exact.programs, exact.source), ErrorCode::kOutOfMemory,
               "the limit is");
  }
}

TEST(EngineLoading, ReadingBesideStepsChangesNothing) {
  const std::vector<int32_t> ids = Ids(40, 128);
  Loaded loaded(ModelSpec{}), whole(ModelSpec{});
  std::atomic<bool> stop = false;
  std::unique_ptr<LoadedLayers> kept;
  std::thread reader([&] {
    for (bool last = false; !last;) {
      last = stop;
      auto read = loaded.engine->Read(loaded.programs, loaded.source);
      ASSERT_TRUE(read.ok());
      kept = std::move(read).value();
    }
  });
  for (uint32_t i = 0; i < 40; ++i) {
    const StepRun run = {1, i, 0, 40, {OutputKind::kHidden, 0}};
    const auto part = loaded.engine->Step({{0, 2}, {&run, 1}, ids, {}});
    const auto same = whole.engine->Step({{0, 2}, {&run, 1}, ids, {}});
    ASSERT_TRUE(part.ok() && same.ok());
    EXPECT_EQ(part->hidden, same->hidden);
    if (i == 20) loaded.engine->Unload({2, 99});
  }
  stop = true;
  reader.join();
  loaded.engine->Install(std::move(kept));
  EXPECT_TRUE(loaded.engine->IsLoaded(loaded.all()));
}

TEST(EngineLoading, BadWeightsAndProgramsAreRefused) {
  const auto load = [](auto change) {
    MemorySource source;
    auto programs = ModelBuilder(ModelSpec{}, RandomTensors(1), source).Build();
    change(programs, source);
    const auto engine = MakeNativeEngine({});
    Status status = engine->Load(programs, source);
    EXPECT_EQ(engine->memory().weight_bytes, 0u);
    EXPECT_FALSE(engine->IsLoaded({0, 1}));
    return status;
  };
  ExpectCode(
      load([](auto& programs, auto& source) { source.Remove(programs[1].weights[1].data[0]); }),
      ErrorCode::kNotFound, "missing");
  ExpectCode(load([](auto& programs, auto&) { programs[1].weights[1].shape[0] += 1; }),
             ErrorCode::kInvalidData, "layer 1");
  ExpectCode(load([](auto& programs, auto&) { programs[2].layer_index = 1; }),
             ErrorCode::kInvalidArgument, "Two programs");
  ExpectCode(load([](auto& programs, auto&) {
               program::Program& head = programs.back();
               head.buffers.push_back({"mixed", 64});
               head.ops.insert(head.ops.begin() + 1,
                               program::SlotExchange{{0, 0, 64}, {1, 0, 2}, {3, 0, 64}, 4, 1});
             }),
             ErrorCode::kUnsupported, "in the output head");
  ExpectCode(load([](auto& programs, auto&) {
               programs[1].ops.push_back(program::Exchange{{0, 0, 64}, {0, 0, 64}, 0});
             }),
             ErrorCode::kUnsupported, "layer 1 has an Exchange");
}

TEST(EngineLoading, ASourceThatGivesTheWrongNumberOfBytesIsAnError) {
  class Short : public WeightSource {
   public:
    explicit Short(MemorySource& source) : source_(source) {}
    Result<Slice> Read(const program::Part& part) override {
      ASSIGN_OR_RETURN(const Slice whole, source_.Read(part));
      return whole.Sub(0, whole.byte_count() - 1);
    }

   private:
    MemorySource& source_;
  };
  MemorySource source;
  const auto programs = ModelBuilder(ModelSpec{}, RandomTensors(1), source).Build();
  Short bad(source);
  const auto engine = MakeNativeEngine({});
  const Status status = engine->Load(programs, bad);
  ExpectCode(status, ErrorCode::kInvalidData, "was read as");
  EXPECT_NE(status.error().ToString().find("'embed'"), std::string::npos);
}

TEST(EngineLoading, ExpertsMustBeRoutedByARouter) {
  ModelSpec spec = Models()[3].spec;
  MemorySource source;
  auto programs = ModelBuilder(spec, RandomTensors(1), source).Build();
  for (program::Op& op : programs[1].ops) {
    if (auto* experts = std::get_if<program::MoeExperts>(&op)) {
      experts->route = {experts->in.buffer, 0, 2 * spec.top_k};  // activations instead of a route
    }
  }
  const auto engine = MakeNativeEngine({});
  ExpectCode(engine->Load(programs, source), ErrorCode::kInvalidData, "MoeRoute");
}

TEST(EngineLoading, TensorsInManyPartsAndAtOddAddressesAreTheSame) {
  ModelSpec spec = Models()[3].spec;  // has stacked experts
  Loaded expected(spec);
  MemorySource source;
  auto programs = ModelBuilder(spec, RandomTensors(1), source).Build();
  uint32_t cut = 0;
  for (program::Program& program : programs) {
    for (program::Weight& weight : program.weights) {
      // The same bytes as three parts of blobs that begin with one byte of something else.
      const Slice all = source.Read(weight.data[0]).value();
      const size_t a = all.byte_count() / 3 + cut++ % 5, b = all.byte_count() / 2 + 3;
      weight.data.clear();
      for (const auto& [first, end] : {std::pair{size_t{0}, a}, {a, b}, {b, all.byte_count()}}) {
        std::vector<uint8_t> bytes = {0x55};
        const ByteSpan part = all.bytes().subspan(first, end - first);
        bytes.insert(bytes.end(), part.begin(), part.end());
        weight.data.push_back(source.Add(std::move(bytes)));
        weight.data.back().offset = 1;
        --weight.data.back().byte_count;
      }
    }
  }
  const auto engine = MakeNativeEngine({});
  ASSERT_TRUE(engine->Load(programs, source).ok());
  const std::vector<int32_t> ids = Ids(9, spec.vocabulary);
  const StepRun run = {1, 0, 0, 9, {OutputKind::kLogits}};
  const auto got = engine->Step({{0, spec.layers + 2}, {&run, 1}, ids, {}});
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  EXPECT_EQ(Bits(got->logits), Bits(expected.Step(1, 0, ids, {OutputKind::kLogits})->logits));
}

TEST(EngineLoading, AlignedWeightsInOnePieceAreUsedInPlace) {
  // The memory that the engine holds is the source's: nothing is copied, so a mapped file costs
  // nothing twice.
  MemorySource source;
  const auto programs = ModelBuilder(ModelSpec{}, RandomTensors(1), source).Build();
  uint64_t stored = 0;
  std::set<Sha256Digest> seen;
  for (const program::Program& program : programs) {
    for (const program::Weight& weight : program.weights) {
      for (const program::Part& part : weight.data) {
        if (seen.insert(part.digest).second) stored += part.byte_count;
      }
    }
  }
  const auto engine = MakeNativeEngine({});
  ASSERT_TRUE(engine->Load(programs, source).ok());
  EXPECT_EQ(engine->memory().weight_bytes, stored);
}

}  // namespace
}  // namespace weft::engine
