// Rotations in both spellings, against the formulas of transformers (modeling_rope_utils) computed
// apart in double precision.
#include "convert/model/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::convert {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<Ropes> Read(const json::object& config, uint32_t head_columns,
                   std::optional<uint32_t> context_length = std::nullopt) {
  return ReadRopes(JsonReader(config, "config.json"), head_columns, context_length);
}

json::object WithContext(json::object config, uint64_t context) {
  config["max_position_embeddings"] = context;
  return config;
}

void ExpectTable(const RopeConfig& rope, const std::vector<double>& expected) {
  const std::vector<float> table = InverseFrequencies(rope);
  ASSERT_EQ(table.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(table[i], expected[i], expected[i] * 1e-6) << i;
  }
}

// What gpt-oss has.
TEST(Rope, YarnWithoutTruncation) {
  const json::object parameters{{"rope_type", "yarn"}, {"rope_theta", 150000.0},
                                {"factor", 32.0},      {"beta_fast", 32.0},
                                {"beta_slow", 1.0},    {"original_max_position_embeddings", 4096},
                                {"truncate", false}};
  const auto newer = Read(WithContext({{"rope_parameters", parameters}}, 131072), 32);
  ASSERT_TRUE(newer.ok()) << newer.error().ToString();
  ExpectTable(newer->rope,
              {1.0, 0.474782055, 0.225418, 0.107024421, 0.0508132748, 0.0193350011, 0.00679495949,
               0.00209379238, 0.000456483919, 3.83088124e-05, 1.81883367e-05, 8.63549588e-06,
               4.09997848e-06, 1.94659621e-06, 9.2420895e-07, 4.38797825e-07});
  EXPECT_FLOAT_EQ(newer->rope.scale, 1.3465735902799727f);
  json::object scaling = parameters;
  scaling.erase("rope_theta");
  const auto older =
      Read(WithContext({{"rope_theta", 150000.0}, {"rope_scaling", scaling}}, 131072), 32);
  ASSERT_TRUE(older.ok());
  EXPECT_EQ(older->rope, newer->rope);
}

// What Qwen's model cards ask users to add.
TEST(Rope, YarnWithItsDefaults) {
  const auto ropes = Read(
      WithContext({{"rope_theta", 1e6},
                   {"rope_scaling", json::object{{"type", "yarn"},
                                                 {"factor", 4.0},
                                                 {"original_max_position_embeddings", 32768}}}},
                  131072),
      16);
  ASSERT_TRUE(ropes.ok()) << ropes.error().ToString();
  ExpectTable(ropes->rope, {1.0, 0.177827941, 0.0316227766, 0.00421755994, 0.0005, 4.44569853e-05,
                            7.90569415e-06, 1.40585331e-06});
  EXPECT_FLOAT_EQ(ropes->rope.scale, 1.138629436111989f);
}

json::object LongRope(uint64_t context) {
  return WithContext(
      {{"original_max_position_embeddings", 4096},
       {"rope_scaling", json::object{{"type", "longrope"},
                                     {"short_factor", {1, 1, 1, 1, 1, 1, 1, 2}},
                                     {"long_factor", {1.0, 1.25, 2.0, 4.5, 8.0, 16, 30, 60}}}}},
      context);
}

// What Phi-3 has.
TEST(Rope, LongRopeIsLongForALongContext) {
  const auto ropes = Read(LongRope(131072), 16, 131072);
  ASSERT_TRUE(ropes.ok()) << ropes.error().ToString();
  ExpectTable(ropes->rope, {1.0, 0.252982213, 0.05, 0.00702728369, 0.00125, 0.000197642354,
                            3.33333333e-05, 5.27046277e-06});
  EXPECT_FLOAT_EQ(ropes->rope.scale, 1.1902380714238083f);
  ASSERT_EQ(ropes->notes.size(), 1u);
  EXPECT_THAT(ropes->notes[0], HasSubstr("long factors, for texts of more than 4096 positions"));
  EXPECT_EQ(ropes->context_length, 131072u);
}

// transformers scales by the same factor with either table.
TEST(Rope, LongRopeIsForItsOriginalContextUnlessAskedForMore) {
  const auto ropes = Read(LongRope(131072), 16);
  ASSERT_TRUE(ropes.ok()) << ropes.error().ToString();
  EXPECT_FLOAT_EQ(InverseFrequencies(ropes->rope)[7], 0.5f * std::pow(10000.0f, -14.0f / 16));
  EXPECT_FLOAT_EQ(ropes->rope.scale, 1.1902380714238083f);
  EXPECT_EQ(ropes->context_length, 4096u);
  ASSERT_EQ(ropes->notes.size(), 1u);
  EXPECT_THAT(ropes->notes[0], HasSubstr("convert with --context 131072"));
}

TEST(Rope, LongRopeIsShortWithinTheOriginalContext) {
  const auto ropes = Read(LongRope(4096), 16);
  ASSERT_TRUE(ropes.ok()) << ropes.error().ToString();
  EXPECT_FLOAT_EQ(InverseFrequencies(ropes->rope)[7], 0.5f * std::pow(10000.0f, -14.0f / 16));
  EXPECT_EQ(ropes->rope.scale, 1);
  EXPECT_THAT(ropes->notes, IsEmpty());
}

TEST(Rope, DynamicIsTheDefaultWithinTheContext) {
  const json::object scaling{{"type", "dynamic"}, {"factor", 2.0}};
  const auto ropes = Read(WithContext({{"rope_scaling", scaling}}, 4096), 16);
  ASSERT_TRUE(ropes.ok()) << ropes.error().ToString();
  EXPECT_FLOAT_EQ(InverseFrequencies(ropes->rope)[4], 0.01f);
  ASSERT_EQ(ropes->notes.size(), 1u);
  EXPECT_THAT(ropes->notes[0], HasSubstr("dynamic"));
}

// Gemma 3, as transformers 5 and as the Hugging Face Hub's files write it.
TEST(Rope, OneForEachTypeOfLayer) {
  const json::object full{{"rope_type", "linear"}, {"rope_theta", 1e6}, {"factor", 8.0}};
  const json::object sliding{{"rope_type", "default"}, {"rope_theta", 1e4}};
  const json::object both{{"full_attention", full}, {"sliding_attention", sliding}};
  const auto newer = Read(WithContext({{"rope_parameters", both}}, 4096), 16);
  ASSERT_TRUE(newer.ok()) << newer.error().ToString();
  const auto older =
      Read(WithContext({{"rope_theta", 1e6},
                        {"rope_local_base_freq", 1e4},
                        {"rope_scaling", json::object{{"rope_type", "linear"}, {"factor", 8.0}}}},
                       4096),
           16);
  ASSERT_TRUE(older.ok()) << older.error().ToString();
  EXPECT_EQ(newer->rope, older->rope);
  ASSERT_TRUE(newer->local && older->local);
  EXPECT_EQ(*newer->local, *older->local);
  EXPECT_EQ(newer->rope.theta, 1e6);
  EXPECT_EQ(newer->local->theta, 1e4);
}

TEST(Rope, NamesWhatIsWrong) {
  const struct {
    json::object scaling;
    std::string message;
  } cases[] = {
      {{{"type", "xpos"}}, "The rope type 'xpos' of 'rope_scaling' in config.json"},
      {{{"type", "yarn"}}, "has no 'factor'"},
      {{{"type", "yarn"}, {"factor", -4.0}}, "'factor'"},
      {{{"type", "yarn"}, {"factor", 4.0}, {"truncate", 1}}, "'truncate'"},
      {{{"type", "longrope"}}, "'short_factor' of 'rope_scaling' in config.json has 0 entries"},
      {{{"type", "longrope"}, {"short_factor", {1, 2}}}, "has 2 entries; expected 8"},
      {{{"type", "longrope"}, {"short_factor", {1, 1, 1, 1, 1, 1, 1, 0}}},
       "holds 0; expected positive numbers"},
      {{{"type", "longrope"}, {"short_factor", {1, 1, 1, 1, 1, 1, 1, "x"}}}, "holds \"x\""},
      {{{"type", "longrope"}, {"original_max_position_embeddings", 0}},
       "'original_max_position_embeddings'"},
  };
  for (const auto& c : cases) {
    const auto ropes = Read(WithContext({{"rope_scaling", c.scaling}}, 4096), 16);
    ASSERT_FALSE(ropes.ok()) << c.message;
    EXPECT_THAT(ropes.error().message(), HasSubstr(c.message));
  }
  const json::object yarn{{"type", "yarn"}, {"factor", 4.0}};
  const auto flat = Read(WithContext({{"rope_theta", 1}, {"rope_scaling", yarn}}, 4096), 16);
  EXPECT_THAT(flat.error().message(), HasSubstr("is not above 1"));
}

}  // namespace
}  // namespace weft::convert
