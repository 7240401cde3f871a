// What /api/keys takes, and what it must not.
#include "server/key_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

namespace weft::server {
namespace {

using testing::HasSubstr;

constexpr int64_t kNoon = 1'800'000'000'000;  // 2027-01-15T08:00:00Z

api::ApiError Refusal(std::string_view body) {
  auto parsed = ParseNewKey(body, kNoon);
  EXPECT_TRUE(std::holds_alternative<api::ApiError>(parsed)) << body;
  const auto* error = std::get_if<api::ApiError>(&parsed);
  return error != nullptr ? *error : api::ApiError{};
}

TEST(KeyJson, TakesAllFields) {
  const auto parsed = ParseNewKey(
      R"({"name": "maths", "role": "metrics", "per_minute": 60, "tokens_per_day": 5000000000,
          "at_once": 2, "models": ["weft-tiny", "other"], "expires": "8h"})",
      kNoon);
  const auto& key = std::get<store::NewKey>(parsed);
  EXPECT_EQ(key.name, "maths");
  EXPECT_EQ(key.role, store::Role::kMetrics);
  EXPECT_EQ(key.limits, (store::KeyLimits{60, 5'000'000'000, 2}));
  EXPECT_THAT(key.models, testing::ElementsAre("weft-tiny", "other"));
  EXPECT_EQ(key.expires_ms, kNoon + 8 * 3'600'000);
}

TEST(KeyJson, LeavesOutWhatIsNotAskedFor) {
  const auto parsed = ParseNewKey(
      R"({"name": "a", "role": null, "per_minute": null, "expires": null, "models": null})", kNoon);
  const auto& key = std::get<store::NewKey>(parsed);
  EXPECT_EQ(key.role, store::Role::kUser);
  EXPECT_EQ(key.limits, store::KeyLimits());
  EXPECT_FALSE(key.expires_ms);
  EXPECT_TRUE(key.models.empty());
}

TEST(KeyJson, NastyBodiesAreRefused) {
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("null"), std::string("[]"),
        std::string("\"maths\""), std::string("{\"name\": \"a\"} {}"), std::string("{\"name\"}"),
        std::string("{\"name\": \"\xff\"}"), std::string(10'000, '['), std::string("{}\0", 3)}) {
    const api::ApiError error = Refusal(body);
    EXPECT_EQ(error.status, 400) << body.substr(0, 40);
    EXPECT_LT(error.message.size(), 400u);
  }
}

TEST(KeyJson, NamesTheFieldThatIsWrong) {
  const auto field_of = [](const std::string& field, const std::string& value) {
    return Refusal("{\"name\": \"a\", \"" + field + "\": " + value + "}").param;
  };
  for (const char* value : {"0", "-1", "1.5", "100001", "\"60\"", "true", "[]", "1e3",
                            "9223372036854775808", "99999999999999999999999"}) {
    EXPECT_EQ(field_of("per_minute", value), "per_minute") << value;
    EXPECT_EQ(field_of("at_once", value), "at_once") << value;
  }
  EXPECT_EQ(field_of("tokens_per_day", "1000000000001"), "tokens_per_day");
  EXPECT_EQ(field_of("role", "7"), "role");
  EXPECT_EQ(field_of("expires", "1800000000"), "expires");
  EXPECT_EQ(field_of("models", "\"weft-tiny\""), "models");
  EXPECT_EQ(field_of("models", "[1]"), "models");
  EXPECT_THAT(Refusal(R"({"name": "a", "role": "amdin"})").message, HasSubstr("'admin'"));
  EXPECT_THAT(Refusal(R"({"name": "a", "expires": "soon"})").message, HasSubstr("2027-06-30"));
  EXPECT_THAT(Refusal(R"({"name": "a", "per_minut": 60})").message, HasSubstr("'per_minute'"));
  EXPECT_THAT(Refusal(R"({"name": "a", "hash": "0000"})").message, HasSubstr("no field 'hash'"));
  EXPECT_THAT(Refusal(R"({"name": "a\u0000b"})").message, HasSubstr("cannot have the name"));
  EXPECT_THAT(Refusal(R"({"role": "user"})").message, HasSubstr("cannot have the name"));
  EXPECT_THAT(Refusal(R"({"name": 7})").message, HasSubstr("'name' must be a string"));
}

TEST(KeyJson, ShowsAllButTheSecret) {
  store::Key key;
  key.id = 3;
  key.name = "maths";
  key.hash = std::string(64, 'f');
  key.created_ms = kNoon;
  key.limits.per_minute = 60;
  key.expires_ms = kNoon + 1000;
  const auto shown = [&](int64_t now_ms) { return KeyJson(key, {2, 100, 40, 7}, now_ms); };
  const boost::json::object json = shown(kNoon);
  EXPECT_EQ(json.at("state").as_string(), "active");
  EXPECT_EQ(json.at("per_minute").as_int64(), 60);
  EXPECT_TRUE(json.at("at_once").is_null());
  EXPECT_EQ(json.at("expires").as_string(), "2027-01-15T08:00:01Z");
  EXPECT_EQ(json.at("today").at("counted_tokens").as_int64(), 67);
  EXPECT_EQ(boost::json::serialize(json).find("ffff"), std::string::npos);
  EXPECT_EQ(shown(kNoon + 1000).at("state").as_string(), "expired");
  key.ended_ms = kNoon;
  EXPECT_EQ(shown(kNoon + 1000).at("state").as_string(), "ended");
}

}  // namespace
}  // namespace weft::server
