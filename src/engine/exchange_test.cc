// Programs with `exchange`: a step stops, gives rows away and goes on with what comes back. The
// oracle is the same program with an operation where the exchange is.
#include <gtest/gtest.h>

#include <limits>

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
    if (fails) return Error(ErrorCode::kUnavailable, "nobody answers");
    for (size_t i = 0; i < request.in.size(); ++i) request.in[i] = kFactor * request.out[i];
    if (gives_nan) request.in[3] = std::numeric_limits<float>::quiet_NaN();
    return OkStatus();
  }

  std::vector<ExchangeRequest> requests;
  bool fails = false;
  bool gives_nan = false;
};

// A model whose layer 1 scales the result of its last product: by a Scale, or by an Exchange.
struct Model {
  explicit Model(bool exchanges) : engine(MakeNativeEngine({.thread_count = 2})) {
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

}  // namespace
}  // namespace weft::engine
