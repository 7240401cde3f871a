#include "program/product_ranges.h"

#include <gtest/gtest.h>

#include "program/shards.h"

namespace weft::program {
namespace {

constexpr uint32_t kColumns = 64;

// A norm and a product.
Program Head(uint32_t vocabulary) {
  Program head;
  head.layer_index = 9;
  head.buffers = {{"x", kColumns}, {"normed", kColumns}, {"logits", vocabulary}};
  head.input = 0;
  head.output = 2;
  head.weights = {{"norm", DType::kF32, {kColumns}, {{{}, 0, kColumns * 4}}, {}, {}},
                  {"head",
                   DType::kF32,
                   {vocabulary, kColumns},
                   {{{}, 0, uint64_t{vocabulary} * kColumns * 4}},
                   {},
                   {}}};
  head.ops = {RmsNorm{{0, 0, kColumns}, {1, 0, kColumns}, 0, 1e-6f},
              MatMul{{1, 0, kColumns}, {2, 0, vocabulary}, {1, 0, vocabulary}, {}, 0}};
  return head;
}

TEST(HeadRanges, CoverTheVocabularyInWholeSixteens) {
  for (const uint32_t vocabulary : {1'000u, 1'024u, 4'096u, 32'000u, 49'155u, 151'936u, 262'144u}) {
    SCOPED_TRACE(vocabulary);
    const auto ranges = FindHeadRanges(HeadInRanges(Head(vocabulary)));
    ASSERT_TRUE(ranges);
    EXPECT_EQ(ranges->total, vocabulary);
    EXPECT_EQ(ranges->columns % 16, 0u);
    EXPECT_LE(ranges->count, 32u);
    EXPECT_EQ(ranges->First(0), 0u);
    for (uint32_t range = 1; range < ranges->count; ++range) {
      EXPECT_GT(ranges->First(range), ranges->First(range - 1));
      EXPECT_LE(ranges->First(range), ranges->First(range - 1) + ranges->columns) << "no gap";
    }
    EXPECT_EQ(ranges->First(ranges->count - 1) + ranges->columns, vocabulary);
  }
}

TEST(HeadRanges, TheExampleOfTheHeader) {
  Program head = Head(100);
  std::get<MatMul>(head.ops[1]).ranges = 3;
  const auto ranges = FindHeadRanges(head);
  ASSERT_TRUE(ranges);
  EXPECT_EQ(ranges->columns, 48u);
  EXPECT_EQ(ranges->First(0), 0u);
  EXPECT_EQ(ranges->First(1), 48u);
  EXPECT_EQ(ranges->First(2), 52u);
}

TEST(HeadRanges, WhatCannotBeDividedStaysWhole) {
  EXPECT_FALSE(FindHeadRanges(Head(4'096))) << "it names no ranges";
  EXPECT_FALSE(FindHeadRanges(HeadInRanges(Head(500)))) << "one range";
  Program biased = Head(4'096);
  std::get<MatMul>(biased.ops[1]).bias = 0;
  EXPECT_FALSE(FindHeadRanges(HeadInRanges(biased)));
  // What a package may say.
  for (const uint32_t ranges : {1u, 4'097u, 300u, UINT32_MAX}) {
    Program head = Head(4'096);
    std::get<MatMul>(head.ops[1]).ranges = ranges;
    EXPECT_FALSE(FindHeadRanges(head)) << ranges;
  }
}

TEST(HeadRanges, AHubKeepsTheNormAndAHolderItsRows) {
  const Program head = HeadInRanges(Head(4'096));
  const Program hub = HubProgram(head);
  ASSERT_EQ(hub.weights.size(), 1u);
  EXPECT_EQ(hub.weights[0].name, "norm");
  const auto& exchange = std::get<RangeExchange>(hub.ops.at(1));
  EXPECT_EQ(exchange.ranges, 8u);
  EXPECT_EQ(exchange.range_columns, 512u);
  const std::vector<uint32_t> held = {1, 7};
  const auto parts = PartPrograms(head, held);
  ASSERT_TRUE(parts.ok());
  ASSERT_EQ(parts->size(), 2u);
  for (size_t i = 0; i < held.size(); ++i) {
    const Weight& weight = (*parts)[i].program.weights.at(0);
    EXPECT_EQ(weight.shape, (std::vector<uint64_t>{512, kColumns}));
    ASSERT_EQ(weight.data.size(), 1u);
    EXPECT_EQ(weight.data[0].offset, uint64_t{held[i]} * 512 * kColumns * 4);
    EXPECT_EQ(weight.data[0].byte_count, 512u * kColumns * 4);
  }
  const auto none = RangesProgram(head, std::vector<uint32_t>{8});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message(), "Layer 9 has no range 8 of a product.");
}

// Attention of two key heads, and an MLP in groups: norm, q, k, v, attention, o, and experts.
Program Layer(uint32_t query_columns, uint32_t key_columns) {
  Program layer;
  layer.layer_index = 4;
  layer.buffers = {{"x", kColumns},    {"normed", kColumns}, {"q", query_columns},
                   {"k", key_columns}, {"v", key_columns},   {"a", query_columns},
                   {"out", kColumns},  {"route", 12}};
  layer.input = 0;
  layer.output = 6;
  const auto add = [&](const char* name, uint64_t rows, uint64_t columns) {
    Sha256Digest digest{};
    digest[0] = static_cast<uint8_t>(layer.weights.size() + 1);
    layer.weights.push_back(
        {name, DType::kF32, {rows, columns}, {{digest, 0, rows * columns * 4}}, {}, {}});
  };
  add("q", query_columns, kColumns);
  add("k", key_columns, kColumns);
  add("v", key_columns, kColumns);
  add("o", kColumns, query_columns);
  layer.weights.push_back({"q_bias", DType::kF32, {query_columns}, {{{}, 0, query_columns * 4}}});
  const View normed{1, 0, kColumns};
  const auto product = [&](WeightId id, View in, View out) {
    return MatMul{in, out, {id, 0, out.columns}, {}, 0};
  };
  layer.ops = {product(0, normed, {2, 0, query_columns}), product(1, normed, {3, 0, key_columns}),
               product(2, normed, {4, 0, key_columns}),
               product(3, {5, 0, query_columns}, {6, 0, kColumns})};
  std::get<MatMul>(layer.ops[0]).bias = 4;
  MoeExperts experts{};
  experts.experts = experts.top_k = 6;
  layer.ops.emplace_back(experts);
  return layer;
}

uint32_t RangesAt(const Program& layer, size_t at) {
  return std::get<MatMul>(layer.ops[at]).ranges;
}

TEST(ProductRanges, ThoseOfTheSameRowsAreOfOneLengthAndAskedForTogether) {
  // 512 is the most up to 700 that divides 4,096 and 1,024.
  const Program layer = ProductsInRanges(Layer(4'096, 1'024), 700);
  EXPECT_EQ(RangesAt(layer, 0), 8u);
  EXPECT_EQ(RangesAt(layer, 1), 2u);
  EXPECT_EQ(RangesAt(layer, 2), 2u);
  EXPECT_EQ(RangesAt(layer, 3), 0u) << "64 columns are no two ranges";
  const auto products = FindRanges(layer);
  ASSERT_EQ(products.size(), 3u);
  const std::vector<uint32_t> first_parts = {6, 14, 16};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(products[i].first_part, first_parts[i]) << "behind six experts";
    EXPECT_EQ(products[i].exchange, 6u);
    EXPECT_EQ(products[i].columns, 512u);
  }
  EXPECT_FALSE(FindHeadRanges(layer)) << "a layer with experts is no head";

  const Program hub = HubProgram(layer);
  EXPECT_EQ(ExchangedTogether(hub, 0), 3u);
  EXPECT_EQ(FirstPartAt(hub, 0), 6u);
  EXPECT_EQ(FirstPartAt(hub, 2), 16u);
  EXPECT_TRUE(std::holds_alternative<MatMul>(hub.ops[3]));
}

TEST(ProductRanges, ThoseOfTheSameRowsAreBroughtTogetherWhereNothingBetweenThemMinds) {
  // Norms of q and of the row stand between the products.
  Program layer = Layer(4'096, 1'024);
  const RmsNorm of_q{{2, 0, 4'096}, {2, 0, 4'096}, 4, 1e-6f};
  const RmsNorm of_row{{1, 0, kColumns}, {1, 0, kColumns}, 4, 1e-6f};
  layer.ops.insert(layer.ops.begin() + 2, of_row);  // k is before it, v behind it
  layer.ops.insert(layer.ops.begin() + 1, of_q);
  const Program divided = ProductsInRanges(layer, 700);
  EXPECT_TRUE(std::holds_alternative<RmsNorm>(divided.ops[2]));
  const auto products = FindRanges(divided);
  ASSERT_EQ(products.size(), 3u);
  EXPECT_EQ(products[0].product, 0u);
  EXPECT_EQ(products[1].product, 1u) << "k has moved past the norm of q";
  EXPECT_EQ(products[1].exchange, products[0].exchange);
  EXPECT_EQ(products[2].product, 4u) << "v reads what the other norm writes";
  EXPECT_EQ(products[2].exchange, products[2].first_part);
}

TEST(ProductRanges, AreWholeWhereNoExpertsAreAndWhereNothingDividesThem) {
  Program dense = Layer(4'096, 1'024);
  dense.ops.pop_back();
  EXPECT_TRUE(FindRanges(ProductsInRanges(dense, 700)).empty());
  const Program odd = ProductsInRanges(Layer(4'096, 1'000), 700);
  EXPECT_EQ(RangesAt(odd, 0), 0u) << "nothing above 16 divides 4,096 and 1,000";
  EXPECT_TRUE(FindRanges(WithWholeProducts(ProductsInRanges(Layer(4'096, 1'024), 700))).empty());
}

TEST(ProductRanges, WhoeverHoldsPartsHasOneProgramOfExpertsAndOneForEachExchange) {
  Program layer = Layer(1'024, 512);
  for (const size_t at : {0u, 1u, 2u}) std::get<MatMul>(layer.ops[at]).ranges = at == 0 ? 4 : 2;
  // The second of q, the last of k and the first of v.
  const std::vector<uint32_t> held = {7, 11, 12};
  const auto parts = PartPrograms(layer, held);
  ASSERT_TRUE(parts.ok()) << parts.error().ToString();
  ASSERT_EQ(parts->size(), 1u);
  const Program& shard = parts->front().program;
  ASSERT_EQ(shard.ops.size(), 3u);
  EXPECT_EQ(shard.buffers[1].columns, 3u * 256);
  ASSERT_EQ(shard.weights.size(), 4u) << "one of them with its part of the bias";
  EXPECT_EQ(shard.weights[0].data[0].offset, 256u * kColumns * 4);
  EXPECT_EQ(shard.weights[1].data[0].offset, 256u * 4);
  EXPECT_EQ(shard.weights[1].shape, (std::vector<uint64_t>{256}));
  EXPECT_EQ(shard.weights[2].data[0].digest[0], 2) << "k";
  EXPECT_EQ(shard.weights[2].data[0].offset, 256u * kColumns * 4);
  EXPECT_EQ(shard.weights[3].data[0].digest[0], 3) << "v";
  EXPECT_EQ(shard.weights[3].data[0].offset, 0u);
  EXPECT_EQ(std::get<MatMul>(shard.ops[2]).out.first_column, 512u);

  const auto none = PartPrograms(layer, std::vector<uint32_t>{14});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message(), "Layer 4 has no range 14 of a product.");
}

}  // namespace
}  // namespace weft::program
