#include "program/head_ranges.h"

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
    EXPECT_EQ(ranges->vocabulary, vocabulary);
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
    const Weight& weight = (*parts)[i].weights.at(0);
    EXPECT_EQ(weight.shape, (std::vector<uint64_t>{512, kColumns}));
    ASSERT_EQ(weight.data.size(), 1u);
    EXPECT_EQ(weight.data[0].offset, uint64_t{held[i]} * 512 * kColumns * 4);
    EXPECT_EQ(weight.data[0].byte_count, 512u * kColumns * 4);
  }
  const auto none = RangeProgram(head, 8);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message(), "Layer 9 has no range 8 of the vocabulary, only 8.");
}

}  // namespace
}  // namespace weft::program
