// With a residual dtype the bits of a result do not depend on where the layers are cut into stages;
// values that this type cannot hold fail the step.
#include <gtest/gtest.h>

#include <bit>

#include "engine/engine.h"
#include "engine/test_model.h"
#include "tensor/half.h"

namespace weft::engine {
namespace {

using StepRun = Run;  // inside a test, Run is gtest's

std::vector<uint32_t> Bits(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

float OverTheWire(DType dtype, float value) {
  if (dtype == DType::kF32) return value;
  return dtype == DType::kF16 ? F16ToF32(F32ToF16(value)) : BF16ToF32(F32ToBF16(value));
}

struct Case {
  DType residual_dtype;
  DType kv_dtype;
  bool reference_kernels;
};

class CutInvariance : public testing::TestWithParam<Case> {
 protected:
  static constexpr uint32_t kRows = 70;

  CutInvariance() {
    spec_.layers = 4;
    spec_.qk_norm = true;
    spec_.sinks = true;
    spec_.windows = {0, 20, 0, 20};
    spec_.matrix_dtype = DType::kQ8;
    programs_ = ModelBuilder(spec_, RandomTensors(3), source_).Build();
    SeededRandom random(8);
    for (uint32_t i = 0; i < kRows; ++i) {
      ids_.push_back(static_cast<int32_t>(random.Below(spec_.vocabulary)));
    }
  }

  std::unique_ptr<StageEngine> Engine() {
    NativeEngineOptions options;
    options.thread_count = 2;
    options.reference_kernels = GetParam().reference_kernels;
    options.residual_dtype = GetParam().residual_dtype;
    options.kv_dtype = GetParam().kv_dtype;
    auto engine = MakeNativeEngine(options);
    EXPECT_TRUE(engine->Load(programs_, source_).ok());
    return engine;
  }
  uint32_t end() const { return spec_.layers + 2; }

  // Rows of one session through layers [0, end), handed on before each layer of `cuts` as the wire
  // would. Returns the logits.
  std::vector<float> Logits(StageEngine& engine, const std::vector<uint32_t>& cuts, uint32_t first,
                            uint32_t count) {
    std::vector<float> hidden;
    uint32_t begin = 0;
    for (size_t stage = 0; stage <= cuts.size(); ++stage) {
      const bool is_last = stage == cuts.size();
      const LayerRange layers = {begin, is_last ? end() : cuts[stage]};
      const StepRun run = {
          1, 0, first, count, {is_last ? OutputKind::kLogits : OutputKind::kHidden}};
      const std::span<const int32_t> ids(ids_);
      auto output = engine.Step(
          {layers, {&run, 1}, begin == 0 ? ids.subspan(first, count) : ids.first(0), hidden});
      EXPECT_TRUE(output.ok()) << output.error().ToString();
      if (!output.ok()) return {};
      if (is_last) return output->logits;
      hidden = output->hidden;
      std::vector<float> sent = hidden;
      for (float& value : sent) value = OverTheWire(GetParam().residual_dtype, value);
      EXPECT_EQ(Bits(sent), Bits(hidden)) << "rows are exactly representable";
      hidden = sent;
      begin = layers.end;
    }
    return {};
  }
  std::vector<std::vector<uint8_t>> Kv(StageEngine& engine) {
    std::vector<std::vector<uint8_t>> kv;
    for (uint32_t layer = 1; layer <= spec_.layers; ++layer) {
      kv.push_back(engine.ExportKv(1, layer, 0, kRows).value());
    }
    return kv;
  }

  ModelSpec spec_;
  MemorySource source_;
  std::vector<program::Program> programs_;
  std::vector<int32_t> ids_;
};

TEST_P(CutInvariance, EveryCutGivesTheBitsOfTheWhole) {
  const auto whole = Engine();
  const std::vector<uint32_t> expected = Bits(Logits(*whole, {}, 0, kRows));
  const auto expected_kv = Kv(*whole);
  for (uint32_t cut = 1; cut < end(); ++cut) {
    SCOPED_TRACE("cut before layer " + std::to_string(cut));
    const auto engine = Engine();
    EXPECT_EQ(Bits(Logits(*engine, {cut}, 0, kRows)), expected);
    EXPECT_EQ(Kv(*engine), expected_kv);
  }
  const auto engine = Engine();
  EXPECT_EQ(Bits(Logits(*engine, {1, 2, 3, 4, 5}, 0, kRows)), expected);
  EXPECT_EQ(Kv(*engine), expected_kv);
}

TEST_P(CutInvariance, TheCutMayChangeInTheMiddleOfASession) {
  const auto whole = Engine();
  const std::vector<uint32_t> expected = Bits(Logits(*whole, {}, 0, kRows));
  const auto engine = Engine();
  std::vector<float> got;
  const std::vector<std::vector<uint32_t>> plans = {{3}, {}, {1, 5}, {2, 4}, {1, 2, 3, 4, 5}};
  for (uint32_t i = 0; i < kRows; i += 14) {
    const std::vector<float> logits = Logits(*engine, plans[i / 14 % plans.size()], i, 14);
    got.insert(got.end(), logits.begin(), logits.end());
  }
  EXPECT_EQ(Bits(got), expected);
  EXPECT_EQ(Kv(*engine), Kv(*whole));
}

std::string NameOf(const testing::TestParamInfo<Case>& test) {
  return std::string(DTypeName(test.param.residual_dtype)) + "_kv_" +
         std::string(DTypeName(test.param.kv_dtype)) +
         (test.param.reference_kernels ? "_reference" : "_fast");
}
INSTANTIATE_TEST_SUITE_P(
    Types, CutInvariance,
    testing::Values(Case{DType::kF16, DType::kF16, false}, Case{DType::kF16, DType::kF16, true},
                    Case{DType::kBF16, DType::kF16, false}, Case{DType::kBF16, DType::kF16, true},
                    Case{DType::kF16, DType::kF32, false}, Case{DType::kF32, DType::kF32, false},
                    Case{DType::kF32, DType::kF32, true}),
    NameOf);

// The rounding is really done: without it a cut changes the bits.
TEST(ResidualDtype, WithoutItACutIsSeen) {
  ModelSpec spec;
  MemorySource source;
  const auto programs = ModelBuilder(spec, RandomTensors(3), source).Build();
  const std::vector<int32_t> ids = {5, 6, 7, 8};
  const auto logits = [&](DType residual_dtype) {
    const auto engine = MakeNativeEngine({.residual_dtype = residual_dtype});
    EXPECT_TRUE(engine->Load(programs, source).ok());
    const StepRun run = {1, 0, 0, 4, {OutputKind::kLogits}};
    return engine->Step({{0, 4}, {&run, 1}, ids, {}}).value().logits;
  };
  const auto exact = logits(DType::kF32), f16 = logits(DType::kF16), bf16 = logits(DType::kBF16);
  double f16_error = 0, bf16_error = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    f16_error = std::max<double>(f16_error, std::fabs(f16[i] - exact[i]));
    bf16_error = std::max<double>(bf16_error, std::fabs(bf16[i] - exact[i]));
  }
  EXPECT_GT(f16_error, 1e-5);
  EXPECT_LT(f16_error, 1e-2);
  EXPECT_GT(bf16_error, f16_error);
  EXPECT_LT(bf16_error, 1e-1);
}

TEST(ResidualDtype, ValuesThatF16CannotHoldFailTheStepOfTheirLayer) {
  ModelSpec spec;
  const TensorGetter good = RandomTensors(1);
  const auto large = [&](const std::string& name, const std::vector<uint64_t>& shape) {
    std::vector<float> values = good(name, shape);
    if (name == "layers.1.down") {
      for (float& value : values) value *= 1e8f;
    }
    return values;
  };
  for (const bool reference : {false, true}) {
    MemorySource source;
    const auto programs = ModelBuilder(spec, large, source).Build();
    const StepRun run = {1, 0, 0, 2, {OutputKind::kArgmax}};
    const std::vector<int32_t> ids = {1, 2};
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      const auto engine =
          MakeNativeEngine({.reference_kernels = reference, .residual_dtype = dtype});
      ASSERT_TRUE(engine->Load(programs, source).ok());
      const auto output = engine->Step({{0, 4}, {&run, 1}, ids, {}});
      ASSERT_EQ(output.ok(), dtype != DType::kF16) << DTypeName(dtype);
      if (output.ok()) continue;
      const std::string message = output.error().message();
      EXPECT_EQ(message.find("Layer 2 computed "), 0u) << message;
      EXPECT_NE(message.find("not finite in f16"), std::string::npos) << message;
      EXPECT_EQ(ErrorCodeName(output.error().code()), ErrorCodeName(ErrorCode::kInvalidData));
      EXPECT_EQ(engine->Held(1, {0, 4}).positions, 0u);
      EXPECT_EQ(engine->memory().kv_bytes, 0u);
    }
  }
}

}  // namespace
}  // namespace weft::engine
