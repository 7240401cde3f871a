// Weights of programs from the constants of graphs: the values stay the same whatever the form.
#include "convert/onnx/weight_recipes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/source/checkpoint_testing.h"
#include "package/digest.h"
#include "tensor/blocks.h"
#include "tensor/half.h"

namespace weft::convert {
namespace {

using lower::WeightRecipe;
using onnx::ElementType;
using onnx::Tensor;
using ::testing::HasSubstr;

template <typename T>
Tensor Raw(ElementType type, std::vector<int64_t> dims, const std::vector<T>& values) {
  const ByteSpan bytes = AsBytes(std::span<const T>(values));
  return Tensor::FromBytes(type, std::move(dims),
                           Slice(std::vector<uint8_t>(bytes.begin(), bytes.end())));
}

class Recipes : public ::testing::Test {
 protected:
  Recipes() { std::filesystem::create_directories(temporary_.path() / "blobs"); }

  // Stores one weight and gives back its finished form.
  Result<program::Weight> Make(program::Weight weight, WeightRecipe recipe) {
    layer_.recipes = {std::move(recipe)};
    layer_.program = {};
    layer_.program.weights = {std::move(weight)};
    ArrayStore store(temporary_.path(), "source", [](uint64_t, bool) {});
    TRY(AddWeights(graph_, layer_, &store, &rounded_));
    TRY(store.Write());
    // Any operation makes a program: what is looked at are the weight's parts.
    layer_.program.buffers = {{"x", 1}, {"y", 1}};
    layer_.program.input = 0;
    layer_.program.output = 1;
    layer_.program.ops = {program::Scale{{0, 0, 1}, {1, 0, 1}, 1}};
    ASSIGN_OR_RETURN(const program::Program program, FinishProgram(graph_, layer_, store));
    return program.weights[0];
  }
  std::vector<uint8_t> Bytes(const std::vector<program::Part>& parts) {
    std::vector<uint8_t> out;
    for (const program::Part& part : parts) {
      const auto path = temporary_.path() / "blobs" / package::Digest(part.digest).ToHex();
      const auto blob = MappedFile::Open(path).value();
      const ByteSpan bytes = blob->bytes().subspan(part.offset, part.byte_count);
      out.insert(out.end(), bytes.begin(), bytes.end());
    }
    return out;
  }
  // Values of q4 rows.
  std::vector<float> Values(const program::Weight& weight) {
    const auto columns = weight.shape.back();
    const auto data = Bytes(weight.data), scale = Bytes(weight.scale), zero = Bytes(weight.zero);
    const auto blocks = static_cast<size_t>(BlockCount(static_cast<int64_t>(columns)));
    std::vector<float> values;
    for (size_t row = 0; row < scale.size() / 2 / blocks; ++row) {
      std::vector<uint16_t> scales(blocks);
      std::memcpy(scales.data(), scale.data() + row * blocks * 2, blocks * 2);
      const size_t zero_bytes = (blocks + 1) / 2;
      std::vector<float> out(columns);
      DequantizeRow(
          DType::kQ4, ByteSpan(data).subspan(row * blocks * 16, blocks * 16), scales,
          zero.empty() ? ByteSpan() : ByteSpan(zero).subspan(row * zero_bytes, zero_bytes), out);
      values.insert(values.end(), out.begin(), out.end());
    }
    return values;
  }

  TemporaryFolder temporary_;
  onnx::Graph graph_;
  lower::TracedLayer layer_;
  bool rounded_ = false;
};

TEST_F(Recipes, LargeBlocksBecomeBlocksOf32WithTheSameValues) {
  constexpr int64_t kRows = 3, kColumns = 160;  // not a multiple of 64 nor of 128
  for (const int64_t block : {32, 64, 128}) {
    graph_ = {};
    const int64_t blocks = (kColumns + block - 1) / block;
    std::vector<uint8_t> data, zero(static_cast<size_t>(kRows * ((blocks + 1) / 2)));
    std::vector<float> scale, expected;
    for (int64_t i = 0; i < kRows * blocks * block / 2; ++i) {
      data.push_back(static_cast<uint8_t>(i * 37 + i / 7));
    }
    for (int64_t i = 0; i < kRows * blocks; ++i) scale.push_back(0.25f * static_cast<float>(1 + i));
    for (size_t i = 0; i < zero.size(); ++i) zero[i] = static_cast<uint8_t>(0x3a + 17 * i);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < kColumns; ++column) {
        const int64_t at = column / block, flat = row * blocks * block + column;
        const int q = data[static_cast<size_t>(flat / 2)] >> (flat % 2 * 4) & 15;
        const int z = zero[static_cast<size_t>(row * ((blocks + 1) / 2) + at / 2)] >> (at % 2 * 4);
        expected.push_back(static_cast<float>(q - (z & 15)) *
                           scale[static_cast<size_t>(row * blocks + at)]);
      }
    }
    graph_.AddInitializer("q", Raw(ElementType::kUint8, {kRows, blocks, block / 2}, data));
    graph_.AddInitializer("s", Raw(ElementType::kFloat, {kRows, blocks}, scale));
    graph_.AddInitializer("z", Raw(ElementType::kUint8, {static_cast<int64_t>(zero.size())}, zero));
    const auto weight =
        Make({"q", DType::kQ4, {3, 160}, {}, {}, {}}, {.form = WeightRecipe::Form::kBlocks,
                                                       .data = "q",
                                                       .scale = "s",
                                                       .zero = "z",
                                                       .block_size = block});
    ASSERT_TRUE(weight.ok()) << weight.error().ToString();
    EXPECT_EQ(Values(*weight), expected) << "blocks of " << block;
    EXPECT_FALSE(rounded_);
  }
}

TEST_F(Recipes, InterleavedGateAndUpAreDeinterleaved) {
  std::vector<float> values;
  for (int i = 0; i < 2 * 4 * 3; ++i) values.push_back(static_cast<float>(i));
  graph_.AddInitializer("w", Raw(ElementType::kFloat, {2, 4, 3}, values));
  const auto weight = Make({"w", DType::kF32, {2, 4, 3}, {}, {}, {}},
                           {.form = WeightRecipe::Form::kPlain, .data = "w", .interleaved = true});
  ASSERT_TRUE(weight.ok()) << weight.error().ToString();
  const std::vector<float> expected = {0,  1,  2,  6,  7,  8,  3,  4,  5,  9,  10, 11,
                                       12, 13, 14, 18, 19, 20, 15, 16, 17, 21, 22, 23};
  const ByteSpan bytes = AsBytes(std::span<const float>(expected));
  EXPECT_EQ(Bytes(weight->data), std::vector<uint8_t>(bytes.begin(), bytes.end()));
}

// An expert's gate, up, down and biases share a blob; in the order of the experts the parts are the
// stacked tensors.
TEST_F(Recipes, ExpertsLieInABlobEach) {
  std::vector<float> gate_up, down;
  for (int i = 0; i < 2 * 4 * 3; ++i) gate_up.push_back(static_cast<float>(i));
  for (int i = 0; i < 2 * 2 * 3; ++i) down.push_back(static_cast<float>(100 + i));
  graph_.AddInitializer("gate_up", Raw(ElementType::kFloat, {2, 4, 3}, gate_up));
  graph_.AddInitializer("down", Raw(ElementType::kFloat, {2, 2, 3}, down));
  graph_.AddInitializer("other", Raw(ElementType::kFloat, {4, 3}, down));
  layer_.recipes = {
      {.form = WeightRecipe::Form::kPlain, .data = "gate_up", .interleaved = true, .values = {}},
      {.form = WeightRecipe::Form::kTransposed, .data = "down", .values = {}},
      {.form = WeightRecipe::Form::kMade, .values = {1, 2, 3, 4, 5, 6, 7, 8}}};
  program::Program& program = layer_.program;
  program.weights = {{"gate_up", DType::kF32, {2, 4, 3}, {}, {}, {}},
                     {"down", DType::kF32, {2, 3, 2}, {}, {}, {}},
                     {"bias", DType::kF32, {2, 4}, {}, {}, {}}};
  program.buffers = {{"x", 3}, {"logits", 2}, {"route", 2}, {"y", 3}};
  program.input = 0;
  program.output = 3;
  const program::View x = {0, 0, 3}, logits = {1, 0, 2}, route = {2, 0, 2};
  program::MoeExperts experts;
  experts.in = x;
  experts.route = route;
  experts.out = {3, 0, 3};
  experts.experts = 2;
  experts.top_k = 1;
  experts.gate_up = 0;
  experts.down = 1;
  experts.gate_up_bias = 2;
  program.ops = {program::Scale{{0, 0, 2}, logits, 1},
                 program::MoeRoute{logits, route, 2, 1, program::RouteKind::kSoftmaxTopK}, experts};
  ArrayStore store(temporary_.path(), "source", [](uint64_t, bool) {});
  ASSERT_TRUE(AddWeights(graph_, layer_, &store, &rounded_).ok());
  AddInitializer(graph_, "other", 0, &store);
  ASSERT_TRUE(store.Write().ok());
  const auto finished = FinishProgram(graph_, layer_, store);
  ASSERT_TRUE(finished.ok()) << finished.error().ToString();
  EXPECT_EQ(store.blobs().size(), 3u);  // two experts, and what is left of the layer
  for (const program::Weight& weight : finished->weights) {
    ASSERT_EQ(weight.data.size(), 2u) << weight.name;
    for (size_t e = 0; e < 2; ++e) {
      EXPECT_EQ(weight.data[e].digest, finished->weights[0].data[e].digest) << weight.name;
    }
  }
  EXPECT_NE(finished->weights[0].data[0].digest, finished->weights[0].data[1].digest);
  const auto bytes_of = [](const std::vector<float>& values) {
    const ByteSpan bytes = AsBytes(std::span<const float>(values));
    return std::vector<uint8_t>(bytes.begin(), bytes.end());
  };
  EXPECT_EQ(Bytes(finished->weights[0].data),
            bytes_of({0,  1,  2,  6,  7,  8,  3,  4,  5,  9,  10, 11,
                      12, 13, 14, 18, 19, 20, 15, 16, 17, 21, 22, 23}));
  EXPECT_EQ(Bytes(finished->weights[1].data),
            bytes_of({100, 103, 101, 104, 102, 105, 106, 109, 107, 110, 108, 111}));
  EXPECT_EQ(Bytes(finished->weights[2].data), bytes_of(layer_.recipes[2].values));
}

TEST_F(Recipes, TransposingKeepsEveryElement) {
  constexpr int64_t kK = 300, kN = 70;
  std::vector<uint16_t> values, expected(kK * kN);
  for (int64_t i = 0; i < kK * kN; ++i) values.push_back(static_cast<uint16_t>(i));
  for (int64_t k = 0; k < kK; ++k) {
    for (int64_t n = 0; n < kN; ++n) {
      expected[static_cast<size_t>(n * kK + k)] = static_cast<uint16_t>(k * kN + n);
    }
  }
  graph_.AddInitializer("w", Raw(ElementType::kFloat16, {kK, kN}, values));
  const auto weight = Make({"w.transposed", DType::kF16, {kN, kK}, {}, {}, {}},
                           {.form = WeightRecipe::Form::kTransposed, .data = "w"});
  ASSERT_TRUE(weight.ok()) << weight.error().ToString();
  const ByteSpan bytes = AsBytes(std::span<const uint16_t>(expected));
  EXPECT_EQ(Bytes(weight->data), std::vector<uint8_t>(bytes.begin(), bytes.end()));
}

TEST_F(Recipes, ScalesBeyondFloat16AreRefusedAndRoundedOnesTold) {
  graph_.AddInitializer("q", Raw(ElementType::kUint8, {1, 1, 16}, std::vector<uint8_t>(16, 0x88)));
  graph_.AddInitializer("s", Raw(ElementType::kFloat, {1, 1}, std::vector<float>{1e6f}));
  const program::Weight q4 = {"q", DType::kQ4, {1, 32}, {}, {}, {}};
  const WeightRecipe recipe = {
      .form = WeightRecipe::Form::kBlocks, .data = "q", .scale = "s", .block_size = 32};
  const auto refused = Make(q4, recipe);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().ToString(), HasSubstr("'s'"));
  graph_.AddInitializer("s", Raw(ElementType::kFloat, {1, 1}, std::vector<float>{0.1f}));
  ASSERT_TRUE(Make(q4, recipe).ok());
  EXPECT_TRUE(rounded_);
}

}  // namespace
}  // namespace weft::convert
