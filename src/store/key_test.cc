// What keys may be called, how much they may be given, and the times that people write.
#include "store/key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::store {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

constexpr int64_t kNow = 1'800'000'000'000;  // 2027-01-15T08:00:00Z, as `date -u -d @1800000000`

Status CheckName(const std::string& name) {
  NewKey key;
  key.name = name;
  return CheckNewKey(key, kNow);
}

TEST(Key, NamesAreShortAndPlain) {
  for (const char* name : {"maths", "Class_7.b-2027", "0", "_x"})
    EXPECT_TRUE(CheckName(name).ok()) << name;
  EXPECT_TRUE(CheckName(std::string(64, 'a')).ok());
  for (const std::string& name :
       {std::string(), std::string(65, 'a'), std::string("a b"), std::string("a\nb"),
        std::string("a\0b", 3), std::string("--role"), std::string(".."), std::string("a/b"),
        std::string("m\xc3\xbc"), std::string("'; drop table keys; --")}) {
    const Status status = CheckName(name);
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalidArgument);
  }
  const std::string said = CheckName("a\x1b[31m\n").error().message();
  EXPECT_EQ(said.find('\x1b'), std::string::npos) << "nothing of it reaches a terminal";
  EXPECT_LT(CheckName(std::string(100'000, '/')).error().message().size(), 300u);
}

TEST(Key, LimitsAreInTheirRanges) {
  const auto check = [](KeyLimits limits) {
    NewKey key;
    key.name = "k";
    key.limits = limits;
    return CheckNewKey(key, kNow);
  };
  EXPECT_TRUE(check({1, 1, 1}).ok());
  EXPECT_TRUE(check({kMostPerMinute, kMostTokensPerDay, kMostAtOnce}).ok());
  EXPECT_THAT(check({0, {}, {}}).error().message(), HasSubstr("requests per minute is 0"));
  EXPECT_THAT(check({{}, 0, {}}).error().message(), HasSubstr("tokens per day is 0"));
  EXPECT_THAT(check({{}, {}, 0}).error().message(), HasSubstr("requests at once is 0"));
  EXPECT_FALSE(check({kMostPerMinute + 1, {}, {}}).ok());
  EXPECT_FALSE(check({{}, kMostTokensPerDay + 1, {}}).ok());
  EXPECT_FALSE(check({{}, {}, kMostAtOnce + 1}).ok());
}

TEST(Key, ModelsAreNames) {
  const auto check = [](std::vector<std::string> models) {
    NewKey key;
    key.name = "k";
    key.models = std::move(models);
    return CheckNewKey(key, kNow).ok();
  };
  EXPECT_TRUE(check({"weft-tiny", "Qwen/Qwen3-0.6B:q4"}));
  EXPECT_FALSE(check({""}));
  EXPECT_FALSE(check({"two\nlines"}));
  EXPECT_FALSE(check({"a,b"}));
  EXPECT_FALSE(check({std::string(201, 'a')}));
  EXPECT_FALSE(check(std::vector<std::string>(33, "a")));
}

TEST(Key, RolesAreKnownByName) {
  for (const Role role : {Role::kUser, Role::kAdmin, Role::kMetrics, Role::kHelper})
    EXPECT_EQ(ParseRole(RoleName(role)).value(), role);
  EXPECT_THAT(ParseRole("amdin").error().message(),
              testing::AllOf(HasSubstr("'amdin'"), HasSubstr("user, admin, metrics or helper"),
                             HasSubstr("Did you mean 'admin'?")));
  EXPECT_FALSE(ParseRole("").ok());
  EXPECT_FALSE(ParseRole("Admin").ok());
}

// The expected times are those of GNU date: `date -u -d 2027-07-01 +%s` and so on.
TEST(Key, DatesAreOfUtc) {
  const auto parse = [](const char* text) { return ParseExpiry(text, kNow).value() / 1000; };
  EXPECT_EQ(parse("2027-06-30"), 1814400000) << "the day itself is included";
  EXPECT_EQ(parse("2027-06-30T18:00"), 1814378400);
  EXPECT_EQ(parse("2027-06-30T18:00:05Z"), 1814378405);
  EXPECT_EQ(parse("2027-06-30 18:00"), 1814378400);
  EXPECT_EQ(parse("2028-02-29"), 1835481600);
  EXPECT_EQ(parse("2027-01-15"), 1800057600) << "today is not over";
  EXPECT_EQ(TimeText(1814378405000), "2027-06-30T18:00:05Z");
}

TEST(Key, DurationsCountFromNow) {
  const auto parse = [](const char* text) { return ParseExpiry(text, kNow).value() - kNow; };
  EXPECT_EQ(parse("30m"), 30 * 60'000);
  EXPECT_EQ(parse("8h"), 8 * 3'600'000);
  EXPECT_EQ(parse("90d"), 90 * int64_t{86'400'000});
  EXPECT_EQ(parse("2w"), 14 * int64_t{86'400'000});
}

TEST(Key, OtherTimesAreRefusedWithWhatIsExpected) {
  for (const char* text : {"",
                           "d",
                           "tomorrow",
                           "8",
                           "h8",
                           "-1d",
                           "+1d",
                           "1.5h",
                           "8 h",
                           "8hh",
                           "2027",
                           "2027-6-30",
                           "2027-02-29",
                           "2027-13-01",
                           "2027-00-10",
                           "2027-06-31",
                           "2027-06-30T",
                           "2027-06-30T25:00",
                           "2027-06-30T18",
                           "2027-06-30T18:00:",
                           "2027-06-30T18:00+02:00",
                           "30.06.2027",
                           "\x1b[2J"}) {
    const auto parsed = ParseExpiry(text, kNow);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(parsed.error().message(), HasSubstr("2027-06-30T18:00")) << text;
  }
  for (const char* text : {"2026-12-31", "0d", "0000-01-01", "2027-01-14"})
    EXPECT_THAT(ParseExpiry(text, kNow).error().message(), HasSubstr("over already")) << text;
  for (const char* text :
       {"9999-01-01", "99999999999999999999d", "36526d", "18446744073709551615w"})
    EXPECT_THAT(ParseExpiry(text, kNow).error().message(), HasSubstr("hundred years")) << text;
}

TEST(Key, KeysAreNewEachTime) {
  const std::string key = MakeApiKey();
  EXPECT_THAT(key, MatchesRegex("weft-[0-9a-f]{32}"));
  EXPECT_NE(key, MakeApiKey());
}

}  // namespace
}  // namespace weft::store
