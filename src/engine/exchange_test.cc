// Programs with `exchange`: a step stops, gives rows away and goes on with what comes back. The
// oracle is the same program with an operation where the exchange is.
#include <gtest/gtest.h>

#include <limits>
#include <new>

#include "engine/engine.h"
#include "engine/test_model.h"

namespace weft::engine {
namespace {

using StepRun = Run;  // inside a test, Run is gtest's

constexpr uint32_t kRows = 150;  // more than one pass
constexpr float kFactor = 0.75f;

// Gives back what it gets times kFactor, and remembers what was asked.
class Scaling : public Exchanger {
 public:
  Status Exchange(const ExchangeRequest& request) override {
    requests.push_back(request);
    if (requests.size() == throws_at) throw std::bad_alloc();
    if (fails) return Error(ErrorCode::kUnavailable, "nobody answers");
    for (size_t i = 0; i < request.in.size(); ++i) request.in[i] = kFactor * request.out[i];
    if (gives_nan) request.in[3] = std::numeric_limits<float>::quiet_NaN();
    return OkStatus();
  }

  std::vector<ExchangeRequest> requests;
  bool fails = false;
  bool gives_nan = false;
  size_t throws_at = 0;  // the request, counted from 1, that finds no memory
};

// A model whose layer 1 scales the result of its last product: by a Scale, or by an Exchange.
struct Model {
  explicit Model(bool exchanges, uint64_t memory_limit_bytes = 0)
      : engine(MakeNativeEngine({.thread_count = 2, .memory_limit_bytes = memory_limit_bytes})) {
    programs = ModelBuilder(ModelSpec{}, RandomTensors(1), source).Build();
    program::Program& layer = programs[1];
    const auto add = std::get<program::Add>(layer.ops.back());
    const program::View made = add.b;
    layer.buffers.push_back({"received", made.columns});
    const program::View received = {static_cast<uint32_t>(layer.buffers.size() - 1), 0,
                                    made.columns};
    layer.ops.pop_back();
    if (exchanges) {
      layer.ops.push_back(program::Exchange{made, received, 7});
    } else {
      layer.ops.push_back(program::Scale{made, received, kFactor});
    }
    layer.ops.push_back(program::Add{add.a, received, add.out});
    status = engine->Load(programs, source);
  }

  Result<StepOutput> Step(uint32_t first, std::span<const int32_t> ids, Exchanger* exchanger) {
    const auto count = static_cast<uint32_t>(ids.size());
    const StepRun run = {1, 0, first, count, {OutputKind::kHidden}};
    return engine->Step({{0, 2}, {&run, 1}, ids, {}, exchanger});
  }

  MemorySource source;
  std::vector<program::Program> programs;
  std::unique_ptr<StageEngine> engine;
  Status status = OkStatus();
};

std::vector<int32_t> Ids() {
  std::vector<int32_t> ids(kRows);
  for (uint32_t i = 0; i < kRows; ++i) ids[i] = static_cast<int32_t>(i * 37 % 100);
  return ids;
}

TEST(Exchange, GivesWhatAnOperationInItsPlaceGives) {
  Model split(true), whole(false);
  ASSERT_TRUE(split.status.ok()) << split.status.error().ToString();
  ASSERT_TRUE(whole.status.ok()) << whole.status.error().ToString();
  const std::vector<int32_t> ids = Ids();
  Scaling scaling;
  const auto got = split.Step(0, ids, &scaling);
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  const auto expected = whole.Step(0, ids, nullptr);
  ASSERT_TRUE(expected.ok());
  EXPECT_EQ(got->hidden, expected->hidden);
  ASSERT_EQ(scaling.requests.size(), 2u);
  EXPECT_EQ(scaling.requests[0].layer, 1u);
  EXPECT_EQ(scaling.requests[0].id, 7u);
  EXPECT_EQ(scaling.requests[0].row_count, 128u);
  EXPECT_EQ(scaling.requests[1].first_row, 128u);
  EXPECT_EQ(scaling.requests[1].row_count, kRows - 128);
}

TEST(Exchange, WhatFailsChangesNothing) {
  Model model(true);
  ASSERT_TRUE(model.status.ok());
  const std::vector<int32_t> ids = Ids();
  const auto refused = model.Step(0, ids, nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message().find("without an exchanger"), std::string::npos);
  Scaling failing;
  failing.fails = true;
  const auto failed = model.Step(0, ids, &failing);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(failing.requests.size(), 1u);
  Scaling broken;
  broken.gives_nan = true;
  const auto bad = model.Step(0, ids, &broken);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code(), ErrorCode::kInvalidData);
  EXPECT_NE(bad.error().message().find("Exchange 7 of layer 1 brought 1 values"),
            std::string::npos);
  EXPECT_EQ(model.engine->SessionLength(1, {0, 2}), 0u);
  Scaling scaling;
  EXPECT_TRUE(model.Step(0, ids, &scaling).ok());
  EXPECT_EQ(model.engine->SessionLength(1, {0, 2}), kRows);
}

TEST(Exchange, RowsOfAnExchangeCountAgainstTheLimit) {
  Model unlimited(true), scales(false);
  Scaling scaling;
  const std::vector<int32_t> ids = Ids();
  ASSERT_TRUE(unlimited.Step(0, ids, &scaling).ok());
  ASSERT_TRUE(scales.Step(0, ids, nullptr).ok());
  // A pass of 128 rows goes out and comes back, each as wide as the residual stream.
  const uint64_t rows_bytes = uint64_t{2} * 128 * ModelSpec{}.hidden * sizeof(float);
  const MemoryUse use = unlimited.engine->memory();
  EXPECT_EQ(use.scratch_bytes, scales.engine->memory().scratch_bytes + rows_bytes);
  const uint64_t hidden_bytes = uint64_t{kRows} * ModelSpec{}.hidden * sizeof(float);
  const uint64_t whole = use.weight_bytes + use.kv_bytes + use.scratch_bytes + hidden_bytes;
  Model exact(true, whole), less(true, whole - 1);
  EXPECT_TRUE(exact.Step(0, ids, &scaling).ok());
  const auto refused = less.Step(0, ids, &scaling);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kOutOfMemory);
}

// A batch of three sessions in three situations fails in its second pass, in each way that there
// is; each time every session is where it was, and the same step then gives what it gives on an
// engine where nothing ever failed.
TEST(Exchange, AStepThatFailsHalfwayLeavesEverySessionAtWhatWasComplete) {
  Model model(true), never_failed(true);
  const std::vector<int32_t> ids = Ids();
  const auto all = std::span<const int32_t>(ids);
  Scaling works;
  for (Model* each : {&model, &never_failed}) {
    const StepRun early[] = {{1, 0, 0, 40, {}}, {2, 0, 0, 70, {}}};
    ASSERT_TRUE(each->engine->Step({{0, 2}, early, all.first(110), {}, &works}).ok());
    ASSERT_TRUE(each->engine->Fork(1, 4, 33).ok());  // shares a page that the step writes
  }
  const uint64_t kv_bytes = model.engine->memory().kv_bytes;
  const auto kv1 = model.engine->ExportKv(1, 1, 0, 40).value();
  const auto kv2 = model.engine->ExportKv(2, 1, 0, 70).value();
  const auto kv4 = model.engine->ExportKv(4, 1, 0, 33).value();
  const StepRun runs[] = {{1, 0, 40, 50, {OutputKind::kHidden}},   // goes on
                          {2, 1, 35, 50, {OutputKind::kHidden}},   // is cut back first
                          {3, 0, 0, 30, {OutputKind::kHidden}},    // begins
                          {4, 0, 33, 20, {OutputKind::kHidden}}};  // leaves its fork
  const auto step = [&](Model& on, Exchanger* exchanger) {
    return on.engine->Step({{0, 2}, runs, all, {}, exchanger});
  };
  Scaling refuses, gives_nan, finds_no_memory;
  refuses.fails = true;
  gives_nan.gives_nan = true;
  finds_no_memory.throws_at = 2;
  for (auto [exchanger, code] : {std::pair{&refuses, ErrorCode::kUnavailable},
                                 {&gives_nan, ErrorCode::kInvalidData},
                                 {&finds_no_memory, ErrorCode::kOutOfMemory}}) {
    const auto failed = step(model, exchanger);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code(), code) << failed.error().ToString();
    EXPECT_EQ(model.engine->SessionLength(1, {0, 2}), 40u);
    EXPECT_EQ(model.engine->SessionLength(2, {0, 2}), 70u);
    EXPECT_EQ(model.engine->SessionLength(3, {0, 2}), 0u);
    EXPECT_EQ(model.engine->SessionLength(4, {0, 2}), 33u);
    EXPECT_EQ(model.engine->ExportKv(1, 1, 0, 40).value(), kv1);
    EXPECT_EQ(model.engine->ExportKv(2, 1, 0, 70).value(), kv2);
    EXPECT_EQ(model.engine->ExportKv(4, 1, 0, 33).value(), kv4);
    EXPECT_EQ(model.engine->memory().kv_bytes, kv_bytes);
  }
  const auto got = step(model, &works);
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  EXPECT_EQ(got->hidden, step(never_failed, &works)->hidden);
}

}  // namespace
}  // namespace weft::engine
