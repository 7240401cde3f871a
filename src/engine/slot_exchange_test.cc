// Steps that stop at a SlotExchange and are resumed. The oracle is the same model with its experts
// in place.
#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"
#include "engine/engine.h"
#include "engine/test_cut_model.h"
#include "engine/test_model.h"
#include "engine/test_shards.h"
#include "program/product_ranges.h"

namespace weft::engine {
namespace {

using StepRun = Run;  // inside a test, Run is gtest's
using Pending = std::unique_ptr<PendingStep>;

constexpr uint32_t kRows = 150;  // more than one pass

ModelSpec MoeSpec() {
  ModelSpec spec;
  spec.experts = 6;
  spec.top_k = 3;
  return spec;
}

// With `gpt_oss` the experts have biases and its activation.
struct Model {
  explicit Model(bool gpt_oss = false, ModelSpec spec = MoeSpec()) {
    if (gpt_oss) spec.activation = program::Activation::kSwigluOai;
    programs = ModelBuilder(spec, RandomTensors(1), source).Build();
    layers = {0, spec.layers + 2};
    for (program::Program& layer : programs) {
      for (program::Op& op : layer.ops) {
        auto* experts = std::get_if<program::MoeExperts>(&op);
        if (experts == nullptr || !gpt_oss) continue;
        experts->gate_up_bias =
            AddBias(source, layer, "gate_up_bias", {spec.experts, 2 * spec.width});
        experts->down_bias = AddBias(source, layer, "down_bias", {spec.experts, spec.hidden});
      }
    }
  }

  MemorySource source;
  std::vector<program::Program> programs;
  LayerRange layers;
};

std::vector<int32_t> Ids(uint32_t count = kRows) {
  std::vector<int32_t> ids(count);
  for (uint32_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>(i * 37 % 100);
  return ids;
}

NativeEngineOptions Options(bool reference = false) {
  return {.thread_count = 2, .reference_kernels = reference, .residual_dtype = DType::kF16};
}

TEST(SlotExchange, HubAndHoldersGiveTheBitsOfTheWholeLayers) {
  for (const bool gpt_oss : {false, true}) {
    for (const bool reference : {false, true}) {
      for (const uint32_t holders : {1u, 2u, 5u}) {
        Model model(gpt_oss);
        const auto whole = MakeNativeEngine(Options(reference));
        ASSERT_TRUE(whole->Load(model.programs, model.source).ok());
        SplitModel split(model.programs, model.source, Options(reference), holders);
        const std::vector<int32_t> ids = Ids();
        const StepRun prompt = {1, 0, 0, kRows, {OutputKind::kLogits}};
        const auto expected = whole->Step({model.layers, {&prompt, 1}, ids, {}});
        const auto got = split.Step({model.layers, {&prompt, 1}, ids, {}});
        ASSERT_TRUE(got.ok()) << got.error().ToString();
        EXPECT_EQ(got->logits, expected->logits);
        const StepRun next = {1, 0, kRows, 1, {OutputKind::kLogits}};
        EXPECT_EQ(split.Step({model.layers, {&next, 1}, Ids(1), {}})->logits,
                  whole->Step({model.layers, {&next, 1}, Ids(1), {}})->logits);
      }
    }
  }
}

TEST(SlotExchange, ExpertsWithoutAGateGiveTheBitsOfTheWholeLayers) {
  for (const DType dtype : {DType::kF32, DType::kQ4}) {
    ModelSpec spec = MoeSpec();
    spec.matrix_dtype = dtype;
    spec.activation = program::Activation::kRelu;
    spec.gates = false;
    Model model(false, spec);
    const auto whole = MakeNativeEngine(Options());
    ASSERT_TRUE(whole->Load(model.programs, model.source).ok());
    SplitModel split(model.programs, model.source, Options(), 2);
    const std::vector<int32_t> ids = Ids();
    const StepRun prompt = {1, 0, 0, kRows, {OutputKind::kLogits}};
    const auto expected = whole->Step({model.layers, {&prompt, 1}, ids, {}});
    ASSERT_TRUE(expected.ok()) << expected.error().ToString();
    const auto got = split.Step({model.layers, {&prompt, 1}, ids, {}});
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    EXPECT_EQ(got->logits, expected->logits);
  }
}

// A hub, and a holder of all ranges of its output head: three, of which the last two overlap.
class RangedModel {
 public:
  explicit RangedModel(DType dtype, float softcap = 0) : model(false, SpecOf(dtype, softcap)) {
    program::Program& head = model.programs.back();
    for (program::Op& op : head.ops)
      if (auto* product = std::get_if<program::MatMul>(&op)) product->ranges = 3;
    EXPECT_TRUE(whole->Load(model.programs, model.source).ok());
    std::vector<program::Program> hubs;
    for (const program::Program& layer : model.programs) hubs.push_back(program::HubProgram(layer));
    EXPECT_TRUE(hub->Load(hubs, model.source).ok());
    const std::vector<uint32_t> all = {0, 1, 2};
    std::vector<program::Program> parts;
    for (const uint32_t range : all) {
      parts.push_back(program::RangesProgram(head, {&range, 1}).value());
      parts.back().layer_index = range;
    }
    EXPECT_TRUE(holder_->Load(parts, model.source).ok());
  }

  // Of the hub and the holder.
  Result<StepOutput> Step(const StepRun& run, std::span<const int32_t> ids) {
    ASSIGN_OR_RETURN(StepProgress progress, hub->Begin({model.layers, {&run, 1}, ids, {}}));
    while (auto* pending = std::get_if<Pending>(&progress)) {
      const std::vector<float> slots = Slots((*pending)->request());
      ASSIGN_OR_RETURN(progress, hub->Resume(std::move(*pending), slots));
    }
    return std::move(std::get<StepOutput>(progress));
  }
  StepOutput Expected(const StepRun& run, std::span<const int32_t> ids) {
    return whole->Step({model.layers, {&run, 1}, ids, {}}).value();
  }

  Model model;
  const std::unique_ptr<StageEngine> whole = MakeNativeEngine(Options()),
                                     hub = MakeNativeEngine(Options());
  size_t stops = 0, bests = 0;

 private:
  static ModelSpec SpecOf(DType dtype, float softcap) {
    ModelSpec spec;
    spec.matrix_dtype = dtype;
    spec.final_softcap = softcap;
    return spec;
  }
  std::vector<float> Slots(const SlotRequest& request) {
    const bool best = request.kind == SlotKind::kBest;
    EXPECT_EQ(request.slot_columns, best ? kBestColumns : 48u);
    ++stops;
    bests += best ? 1 : 0;
    std::vector<float> slots;
    for (size_t row = 0; row < request.row_count; ++row)
      for (uint32_t range = 0; range < 3; ++range) {
        const StepRun one = {
            1, ++generation_, 0, 1, {best ? OutputKind::kArgmax : OutputKind::kLogits}};
        const auto in = request.in.subspan(row * request.columns, request.columns);
        const auto given = holder_->Step({{range, range + 1}, {&one, 1}, {}, in});
        slots.insert(slots.end(), given->logits.begin(), given->logits.end());
        for (const Selection& selection : given->selections)
          for (const sampling::TokenLogit& each : selection.candidates)
            slots.insert(slots.end(), {each.logit, static_cast<float>(each.token_id)});
      }
    return slots;
  }

  const std::unique_ptr<StageEngine> holder_ = MakeNativeEngine({});
  uint32_t generation_ = 0;
};

TEST(SlotExchange, AHeadInRangesGivesTheBitsOfTheWholeHead) {
  for (const auto& [dtype, softcap] :
       {std::pair(DType::kF32, 0.0f), {DType::kQ8, 30.0f}, {DType::kQ4, 0.0f}}) {
    RangedModel model(dtype, softcap);
    // Every row's logits: the head takes eight rows at a time.
    const StepRun prompt = {1, 0, 0, kRows, {OutputKind::kLogits}};
    const auto got = model.Step(prompt, Ids());
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    EXPECT_EQ(got->logits, model.Expected(prompt, Ids()).logits);
    EXPECT_EQ(model.stops, 128u / 8 + (kRows - 128u + 7) / 8);
    EXPECT_EQ(model.bests, 0u);
    // Greedy tokens, for which the best of each range are enough.
    for (uint32_t id = 0; id < 40; ++id) {
      const StepRun first = {2, id, 0, 1, {OutputKind::kArgmax}};
      const std::vector<int32_t> ids = {static_cast<int32_t>(3 * id)};
      EXPECT_EQ(model.Step(first, ids)->selections.at(0).candidates,
                model.Expected(first, ids).selections.at(0).candidates);
    }
    EXPECT_EQ(model.bests, softcap == 0 ? 40u : 0u);
    // Tokens chosen in every way.
    const Sampling how = {{.temperature = 0.8f, .repetition_penalty = 1.2f}, {{7, 2}}};
    uint32_t position = kRows;
    for (const Output& output :
         {Output{OutputKind::kArgmax}, Output{OutputKind::kCandidates, 20, &how},
          Output{OutputKind::kDraw, 5, &how, 0.6}}) {
      const StepRun next = {1, 0, position++, 1, output};
      const Selection a = model.Expected(next, Ids(1)).selections.at(0);
      const Selection b = model.Step(next, Ids(1))->selections.at(0);
      EXPECT_EQ(a.candidates, b.candidates);
      EXPECT_EQ(a.logsumexp, b.logsumexp);
      EXPECT_EQ(a.scaled_sum, b.scaled_sum);
      EXPECT_EQ(a.drawn, b.drawn);
    }
  }
}

TEST(SlotExchange, RangesOfAnotherWidthEndTheStepWhichHasChangedNothing) {
  RangedModel model(DType::kF32);
  const StepRun run = {1, 0, 0, 1, {OutputKind::kLogits}};
  auto pending = model.hub->Begin({model.model.layers, {&run, 1}, Ids(1), {}});
  const std::vector<float> few(3 * 47);
  const auto refused = model.hub->Resume(std::move(std::get<Pending>(*pending)), few);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message(),
            "Layer 3 wants 3 rows of its ranges, of 48 values each; it was given 141 values.");
  const StepRun greedy = {1, 0, 0, 1, {OutputKind::kArgmax}};
  auto best = model.hub->Begin({model.model.layers, {&greedy, 1}, Ids(1), {}});
  const std::vector<float> outside = {1, 0, 0, 1, 1, 48, 0, 1, 1, 0, 0, 1};
  const auto nowhere = model.hub->Resume(std::move(std::get<Pending>(*best)), outside);
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().message(),
            "Range 1 of the output head gave a logit of 1.000000 at its column 48.000000, expected "
            "a finite one at one of 48.");
  EXPECT_TRUE(model.Step(run, Ids(1)).ok());
}

TEST(SlotExchange, ARequestIsTheRowsAndRoutesOfOnePass) {
  Model model;
  SplitModel split(model.programs, model.source, Options(), 1);
  const std::vector<int32_t> ids = Ids();
  const StepRun run = {1, 0, 0, kRows, {}};
  auto progress = split.hub->Begin({model.layers, {&run, 1}, ids, {}});
  std::vector<std::pair<uint32_t, size_t>> seen;
  while (auto* pending = std::get_if<Pending>(&*progress)) {
    const SlotRequest& request = (*pending)->request();
    seen.emplace_back(request.layer, request.row_count);
    EXPECT_EQ(request.experts, 6u);
    EXPECT_EQ(request.top_k, 3u);
    EXPECT_EQ(request.columns, 64u);
    EXPECT_EQ(request.in.size(), request.row_count * 64);
    ASSERT_EQ(request.route.size(), request.row_count * 6);
    float sum = 0;
    for (size_t j = 3; j < 6; ++j) sum += request.route[j];
    EXPECT_NEAR(sum, 1, 1e-5f);
    progress = split.GoOn(std::move(*pending));
    ASSERT_TRUE(progress.ok());
  }
  using Seen = decltype(seen);
  EXPECT_EQ(seen, (Seen{{1, 128}, {2, 128}, {1, kRows - 128}, {2, kRows - 128}}));
}

TEST(SlotExchange, TwoStepsInAnyOrderGiveWhatEachGivesAlone) {
  Model model;
  const auto whole = MakeNativeEngine(Options());
  ASSERT_TRUE(whole->Load(model.programs, model.source).ok());
  const std::vector<int32_t> ids = Ids();
  const StepRun runs[] = {{1, 0, 0, kRows, {OutputKind::kLogits}},
                          {2, 0, 0, 20, {OutputKind::kLogits}}};
  const auto input = [&](size_t i) {
    return StepInput{model.layers, {&runs[i], 1}, std::span(ids).first(runs[i].count), {}};
  };
  const StepOutput alone[] = {whole->Step(input(0)).value(), whole->Step(input(1)).value()};
  const auto next_of = [&](auto& engine, uint32_t session, uint32_t position) {
    const StepRun run = {session, 0, position, 1, {OutputKind::kLogits}};
    return engine.Step({model.layers, {&run, 1}, Ids(1), {}})->logits;
  };
  const auto next1 = next_of(*whole, 1, kRows), next2 = next_of(*whole, 2, 20);
  SeededRandom random(7);
  for (int trial = 0; trial < 20; ++trial) {
    SplitModel split(model.programs, model.source, Options(), 2);
    std::vector<size_t> started;
    Pending pending[2];
    std::vector<float> logits[2];
    const auto take = [&](size_t i, Result<StepProgress> progress) {
      ASSERT_TRUE(progress.ok()) << progress.error().ToString();
      if (auto* stopped = std::get_if<Pending>(&*progress))
        pending[i] = std::move(*stopped);
      else
        logits[i] = std::get<StepOutput>(*progress).logits;
    };
    while (logits[0].empty() || logits[1].empty()) {
      const size_t i = random.Next() % 2;
      if (!logits[i].empty()) continue;
      take(i, pending[i] ? split.GoOn(std::move(pending[i])) : split.hub->Begin(input(i)));
    }
    EXPECT_EQ(logits[0], alone[0].logits);
    EXPECT_EQ(logits[1], alone[1].logits);
    EXPECT_EQ(next_of(split, 1, kRows), next1);
    EXPECT_EQ(next_of(split, 2, 20), next2);
  }
}

TEST(SlotExchange, AThirdStepAndAStepThatCannotWaitAreRefused) {
  Model model;
  SplitModel split(model.programs, model.source, Options(), 1);
  const std::vector<int32_t> ids = Ids(4);
  const auto begin = [&](const StepRun& run) {
    return split.hub->Begin({model.layers, {&run, 1}, ids, {}});
  };
  const auto blocking = [&](const StepRun& run) {
    return split.hub->Step({model.layers, {&run, 1}, ids, {}});
  };
  const StepRun runs[] = {{1, 0, 0, 4, {}}, {2, 0, 0, 4, {}}, {3, 0, 0, 4, {}}};
  const auto refused = blocking(runs[0]);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(split.hub->Held(1, model.layers).positions, 0u);
  auto first = begin(runs[0]), second = begin(runs[1]);
  ASSERT_TRUE(first.ok() && second.ok());
  const auto third = begin(runs[2]);
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code(), ErrorCode::kUnavailable);
  std::get<Pending>(*first).reset();
  EXPECT_TRUE(begin(runs[2]).ok());
}

TEST(SlotExchange, WhatWaitsCountsAgainstTheLimit) {
  Model model;
  const std::vector<int32_t> ids = Ids();
  const StepRun runs[] = {{1, 0, 0, kRows, {OutputKind::kHidden}},
                          {2, 0, 0, kRows, {OutputKind::kHidden}}};
  const LayerRange body = {0, 3};
  MemoryUse use;
  {
    SplitModel unlimited(model.programs, model.source, Options(), 1);
    auto first = unlimited.hub->Begin({body, {&runs[0], 1}, ids, {}});
    auto second = unlimited.hub->Begin({body, {&runs[1], 1}, ids, {}});
    ASSERT_TRUE(first.ok() && second.ok());
    use = unlimited.hub->memory();
  }
  const uint64_t results = uint64_t{2} * kRows * ModelSpec{}.hidden * sizeof(float);
  const uint64_t all = use.weight_bytes + use.kv_bytes + use.scratch_bytes + results;
  for (const uint64_t less : {0u, 1u}) {
    NativeEngineOptions options = Options();
    options.memory_limit_bytes = all - less;
    SplitModel split(model.programs, model.source, options, 1);
    auto first = split.hub->Begin({body, {&runs[0], 1}, ids, {}});
    ASSERT_TRUE(first.ok());
    const auto second = split.hub->Begin({body, {&runs[1], 1}, ids, {}});
    EXPECT_EQ(second.ok(), less == 0);
    if (second.ok()) continue;
    EXPECT_EQ(second.error().code(), ErrorCode::kOutOfMemory);
  }
}

// A batch of four sessions in four situations ends in its second pass, in each way that there is;
// each time every session is where it was, and the same step then gives what it gives on an engine
// where nothing ever failed.
TEST(SlotExchange, AStepThatEndsHalfwayLeavesEverySessionAtWhatWasComplete) {
  Model model;
  SplitModel split(model.programs, model.source, Options(), 2);
  SplitModel never_failed(model.programs, model.source, Options(), 2);
  const std::vector<int32_t> ids = Ids();
  const auto all = std::span<const int32_t>(ids);
  const LayerRange body = {0, 3};
  for (SplitModel* each : {&split, &never_failed}) {
    const StepRun early[] = {{1, 0, 0, 40, {}}, {2, 0, 0, 70, {}}};
    ASSERT_TRUE(each->Step({body, early, all.first(110), {}}).ok());
    ASSERT_TRUE(each->hub->Fork(body, {1, 4, 0, 33}).ok());  // shares a page that the step writes
  }
  StageEngine& hub = *split.hub;
  const auto held = [&](uint32_t session, uint32_t count) {
    return hub.ExportKv(session, 1, 0, count).value();
  };
  const uint64_t kv_bytes = hub.memory().kv_bytes;
  const auto kv1 = held(1, 40), kv2 = held(2, 70), kv4 = held(4, 33);
  const StepRun runs[] = {{1, 0, 40, 50, {OutputKind::kHidden}},   // goes on
                          {2, 1, 35, 50, {OutputKind::kHidden}},   // is cut back first
                          {3, 0, 0, 30, {OutputKind::kHidden}},    // begins
                          {4, 0, 33, 20, {OutputKind::kHidden}}};  // leaves its fork
  const StepInput input = {body, runs, all, {}};
  for (const std::string how : {"abandoned", "not finite", "wrong size"}) {
    SCOPED_TRACE(how);
    auto progress = hub.Begin(input);
    for (int stop = 0; stop < 2; ++stop)
      progress = split.GoOn(std::move(std::get<Pending>(*progress)));
    Pending pending = std::move(std::get<Pending>(*progress));
    ASSERT_EQ(pending->request().row_count, size_t{150 - 128});
    std::vector<float> slots = split.Slots(pending->request());
    if (how == "abandoned") {
      pending.reset();
    } else {
      if (how == "not finite") slots[3] = std::numeric_limits<float>::quiet_NaN();
      if (how == "wrong size") slots.pop_back();
      const auto failed = hub.Resume(std::move(pending), slots);
      ASSERT_FALSE(failed.ok());
      EXPECT_NE(failed.error().message().find("Layer 1"), std::string::npos);
    }
    EXPECT_EQ(hub.Held(1, body).positions, 40u);
    EXPECT_EQ(hub.Held(2, body).positions, 70u);
    EXPECT_EQ(hub.Held(3, body).positions, 0u);
    EXPECT_EQ(hub.Held(4, body).positions, 33u);
    EXPECT_EQ(held(1, 40), kv1);
    EXPECT_EQ(held(2, 70), kv2);
    EXPECT_EQ(held(4, 33), kv4);
    EXPECT_EQ(hub.memory().kv_bytes, kv_bytes);
  }
  const auto got = split.Step(input);
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  EXPECT_EQ(got->hidden, never_failed.Step(input)->hidden);
}

TEST(SlotExchange, AShardRefusesExpertsThatItDoesNotHave) {
  Model model;
  const auto shard = program::ExpertProgram(model.programs[1], std::vector<uint32_t>{1, 4});
  const auto engine = MakeNativeEngine(Options());
  ASSERT_TRUE(engine->Load({&*shard, 1}, model.source).ok());
  for (const float expert : {-1.0f, 2.0f, std::numeric_limits<float>::max()}) {
    std::vector<float> row(66, 0.5f);
    row[64] = expert;
    const StepRun run = {1, 0, 0, 1, {OutputKind::kHidden}};
    const auto refused = engine->Step({{1, 2}, {&run, 1}, {}, row});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidData);
    row[64] = 1;
    EXPECT_TRUE(engine->Step({{1, 2}, {&run, 1}, {}, row}).ok());
    engine->Release(1);
  }
}

}  // namespace
}  // namespace weft::engine
