#include "wire/expert_sets.h"

#include <gtest/gtest.h>

namespace weft::wire {
namespace {

pb::ExpertSet Set(uint32_t layer, std::string bits) {
  pb::ExpertSet set;
  set.set_layer(layer);
  set.set_experts(std::move(bits));
  return set;
}

ExpertSets Sets(std::initializer_list<pb::ExpertSet> sets) {
  return {sets.begin(), sets.end()};
}

TEST(ExpertSets, AreBitsFromTheLowestOn) {
  const std::vector<LayerExperts> layers = {{1, {0, 3, 9}}, {4, {127}}, {5, {0, 65535}}};
  ExpertSets sets;
  FillExpertSets(layers, sets);
  ASSERT_EQ(sets.size(), 3);
  EXPECT_EQ(sets[0].layer(), 1u);
  EXPECT_EQ(sets[0].experts(), "\x09\x02");
  EXPECT_EQ(sets[1].experts(), std::string(15, '\0') + "\x80");
  EXPECT_EQ(sets[2].experts().size(), 8192u);
  const auto read = ReadExpertSets(sets, 6);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, layers);
  EXPECT_TRUE(ReadExpertSets({}, 6)->empty());
}

TEST(ExpertSets, WhatCannotBeIsRefusedByName) {
  const auto refusal = [](const ExpertSets& sets) {
    const auto read = ReadExpertSets(sets, 6);
    return read.ok() ? "" : read.error().message();
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(contains(refusal(Sets({Set(6, "x")})), "a model with 6 layers"));
  EXPECT_TRUE(contains(refusal(Sets({Set(2, "x"), Set(2, "x")})), "after that of layer 2"));
  EXPECT_TRUE(contains(refusal(Sets({Set(2, "x"), Set(1, "x")})), "expected rising layers"));
  EXPECT_TRUE(contains(refusal(Sets({Set(2, "")})), "has 0 bytes"));
  EXPECT_TRUE(contains(refusal(Sets({Set(2, std::string("x\0", 2))})), "the last is not 0"));
  EXPECT_TRUE(contains(refusal(Sets({Set(2, std::string(8193, 'x'))})), "1 to 8192"));
}

}  // namespace
}  // namespace weft::wire
