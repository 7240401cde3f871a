// Limits of named keys on a clock of our own, and what is counted of them.
#include "server/key_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/secret.h"

namespace weft::server {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;

constexpr int64_t kHourMs = 3'600'000, kDayMs = 24 * kHourMs;
constexpr int64_t kEight = 1'800'000'000'000;  // 2027-01-15T08:00:00Z

class KeyTableTest : public testing::Test {
 protected:
  store::Key Make(int64_t id, const std::string& name, store::KeyLimits limits = {}) {
    store::Key key;
    key.id = id;
    key.name = name;
    key.hash = HashSecret(name);
    key.limits = limits;
    return key;
  }
  void Have(std::vector<store::Key> keys, std::map<int64_t, store::Usage> today = {}) {
    table_.Replace(std::move(keys), std::move(today), store::DayOf(unix_ms_));
  }
  void Pass(Duration time) {
    now_ = now_ + time;
    unix_ms_ += time.us / 1000;
  }
  const store::Key& Key(const std::string& name) { return *table_.Find(HashSecret(name)); }
  // The requests that are let in are held.
  KeyTable::Admission Admit(const std::string& name) {
    KeyTable::Admission admission = table_.Admit(Key(name));
    if (admission.place) places_.push_back(std::move(admission.place));
    return admission;
  }
  int StatusOf(const std::string& name) {
    const auto admission = Admit(name);
    return admission.refusal ? admission.refusal->status : 200;
  }

  int64_t unix_ms_ = kEight;
  Instant now_{1'000'000};
  KeyTable table_{"weft-tiny", {[this] { return unix_ms_; }, [this] { return now_; }}};
  std::vector<std::unique_ptr<KeyTable::Place>> places_;
};

TEST_F(KeyTableTest, ClientsAreKeysAndBack) {
  EXPECT_EQ(KeyOfClient(ClientOfKey(17)), 17);
  for (const char* other : {"", "key", "key ", "key x", "key 1x", "key  1", "127.0.0.1",
                            "127.0.0.1 0f", "key 99999999999999999999"})
    EXPECT_EQ(KeyOfClient(other), 0) << other;
}

TEST_F(KeyTableTest, FindsKeysByHash) {
  Have({Make(1, "maths"), Make(2, "art")});
  EXPECT_EQ(Key("art").id, 2);
  EXPECT_EQ(table_.Find(HashSecret("music")), nullptr);
  EXPECT_EQ(table_.Find(""), nullptr);
  Have({Make(2, "art")});
  EXPECT_EQ(table_.Find(HashSecret("maths")), nullptr);
}

TEST_F(KeyTableTest, AKeyIsGoodForItsRoleUntilItEnds) {
  store::Key helper = Make(1, "phones");
  helper.role = store::Role::kHelper;
  helper.expires_ms = kEight + 1000;
  Have({helper});
  EXPECT_TRUE(table_.IsGood(HashSecret("phones"), store::Role::kHelper));
  EXPECT_FALSE(table_.IsGood(HashSecret("phones"), store::Role::kAdmin));
  EXPECT_FALSE(table_.IsGood(HashSecret("others"), store::Role::kHelper));
  Pass(Seconds(1));
  EXPECT_FALSE(table_.IsGood(HashSecret("phones"), store::Role::kHelper));
  helper.expires_ms.reset();
  helper.ended_ms = kEight;
  Have({helper});
  EXPECT_FALSE(table_.IsGood(HashSecret("phones"), store::Role::kHelper));
}

TEST_F(KeyTableTest, TellsWhyAKeyIsNotGoodAnyMore) {
  store::Key expires = Make(1, "maths"), ended = Make(2, "art");
  expires.expires_ms = kEight + 1000;
  ended.ended_ms = kEight - 1000;
  Have({expires, ended});
  EXPECT_FALSE(table_.FindEnd(Key("maths")));
  EXPECT_EQ(table_.LiveCount(store::Role::kUser), 1u);
  Pass(Seconds(1));
  EXPECT_EQ(table_.FindEnd(Key("maths"))->status, 401);
  EXPECT_THAT(table_.FindEnd(Key("maths"))->message, HasSubstr("expired 2027-01-15T08:00:01Z"));
  EXPECT_THAT(table_.FindEnd(Key("art"))->message, HasSubstr("was ended 2027-01-15T07:59:59Z"));
  EXPECT_EQ(table_.LiveCount(store::Role::kUser), 0u);
}

TEST_F(KeyTableTest, CountsRequestsOfAnySixtySeconds) {
  Have({Make(1, "maths", {.per_minute = 3}), Make(2, "art", {.per_minute = 3})});
  EXPECT_THAT(Admit("maths").headers,
              testing::ElementsAre(Pair("X-Ratelimit-Limit-Requests", "3"),
                                   Pair("X-Ratelimit-Remaining-Requests", "2"),
                                   Pair("X-Ratelimit-Reset-Requests", "1m0s")));
  Pass(Seconds(20));
  EXPECT_EQ(StatusOf("maths"), 200);
  Pass(Seconds(20));
  EXPECT_EQ(StatusOf("maths"), 200);
  const auto refused = Admit("maths");
  EXPECT_EQ(refused.refusal->status, 429);
  EXPECT_EQ(refused.refusal->code, "rate_limit_exceeded");
  EXPECT_EQ(refused.retry_after_s, 20);
  EXPECT_THAT(refused.headers, testing::Contains(Pair("X-Ratelimit-Remaining-Requests", "0")));
  EXPECT_EQ(StatusOf("art"), 200) << "each key for itself";
  Pass(Milliseconds(19'999));
  EXPECT_EQ(StatusOf("maths"), 429);
  Pass(Milliseconds(1));
  EXPECT_EQ(StatusOf("maths"), 200) << "the first one is a minute ago; refused ones do not count";
  EXPECT_EQ(StatusOf("maths"), 429);
  Pass(Seconds(60));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(StatusOf("maths"), 200);
  EXPECT_EQ(StatusOf("maths"), 429);
  EXPECT_EQ(table_.UsageOf(store::Role::kUser).requests, 8);
}

TEST_F(KeyTableTest, AChangeOfTheFileForgetsNoMinute) {
  Have({Make(1, "maths", {.per_minute = 1})});
  EXPECT_EQ(StatusOf("maths"), 200);
  Have({Make(1, "maths", {.per_minute = 1}), Make(2, "art")});
  EXPECT_EQ(StatusOf("maths"), 429);
}

TEST_F(KeyTableTest, CountsRequestsUnderWay) {
  Have({Make(1, "maths", {.at_once = 2})});
  EXPECT_EQ(StatusOf("maths"), 200);
  EXPECT_EQ(StatusOf("maths"), 200);
  const auto refused = Admit("maths");
  EXPECT_EQ(refused.refusal->status, 429);
  EXPECT_THAT(refused.refusal->message, HasSubstr("2 requests under way"));
  EXPECT_TRUE(refused.headers.empty()) << "there is no limit by minute to tell of";
  places_.pop_back();
  EXPECT_EQ(StatusOf("maths"), 200);
  EXPECT_EQ(StatusOf("maths"), 429);
}

TEST_F(KeyTableTest, WhatOtherServersUseCounts) {
  Have({Make(1, "maths", {.per_minute = 3, .tokens_per_day = {}, .at_once = {}}),
        Make(2, "art", {.per_minute = {}, .tokens_per_day = {}, .at_once = 2})});
  table_.NoteOthers({{{1, 2, 0}, {2, 9, 1}}, 3});
  EXPECT_EQ(StatusOf("maths"), 200);
  const auto refused = Admit("maths");
  EXPECT_EQ(refused.refusal->status, 429);
  EXPECT_THAT(refused.refusal->message, HasSubstr("has sent 3 requests"));
  EXPECT_EQ(refused.retry_after_s, 5);
  EXPECT_THAT(refused.headers, testing::Contains(Pair("X-Ratelimit-Remaining-Requests", "0")));
  EXPECT_EQ(StatusOf("art"), 200);
  EXPECT_EQ(StatusOf("art"), 429);
  table_.NoteOthers({{}, 3});
  EXPECT_EQ(StatusOf("maths"), 200);
  EXPECT_EQ(StatusOf("art"), 200);
}

TEST_F(KeyTableTest, TellsWhatItUsesOfLimits) {
  Have({Make(1, "maths", {.per_minute = 3, .tokens_per_day = {}, .at_once = {}}),
        Make(2, "art", {.per_minute = {}, .tokens_per_day = {}, .at_once = 2}), Make(3, "music")});
  EXPECT_TRUE(table_.Loads().empty());
  for (const char* name : {"maths", "maths", "art", "music"}) EXPECT_EQ(StatusOf(name), 200);
  EXPECT_THAT(table_.Loads(),
              testing::ElementsAre(store::KeyLoad{1, 2, 2}, store::KeyLoad{2, 0, 1}));
  places_.clear();
  Pass(Seconds(61));
  EXPECT_TRUE(table_.Loads().empty());
}

// Of three servers each lets in a third, and at least one.
TEST_F(KeyTableTest, LimitsAreDividedWhileOthersAreNotHeard) {
  Have({Make(1, "maths", {.per_minute = 6, .tokens_per_day = {}, .at_once = {}}),
        Make(2, "art", {.per_minute = {}, .tokens_per_day = {}, .at_once = 2})});
  table_.NoteOthers({{{1, 6, 0}}, 3});
  EXPECT_EQ(StatusOf("maths"), 429);
  table_.CountAlone();
  for (const int status : {200, 200, 429}) EXPECT_EQ(StatusOf("maths"), status);
  for (const int status : {200, 429}) EXPECT_EQ(StatusOf("art"), status);
  table_.NoteOthers({{}, 3});
  EXPECT_EQ(StatusOf("maths"), 200) << "the whole limit counts again";
}

TEST_F(KeyTableTest, CountsTokensOfTheDay) {
  Have({Make(1, "maths", {.tokens_per_day = 100})}, {{1, {5, 60, 20, 30}}});
  EXPECT_EQ(table_.TodayOf(1).counted_tokens(), 70);
  EXPECT_EQ(StatusOf("maths"), 200);
  table_.Count(1, 40, 30, 19);
  EXPECT_EQ(table_.TodayOf(1).counted_tokens(), 99);
  EXPECT_EQ(StatusOf("maths"), 200) << "what is left is one token, and the answer is not cut";
  table_.Count(1, 0, 0, 500);
  const auto refused = Admit("maths");
  EXPECT_EQ(refused.refusal->status, 429);
  EXPECT_THAT(refused.refusal->message, HasSubstr("599 of its 100 tokens"));
  EXPECT_EQ(refused.retry_after_s, 16 * 3600) << "until midnight in UTC";
  Pass(Seconds(16 * 3600 - 1));
  EXPECT_EQ(StatusOf("maths"), 429);
  Pass(Seconds(1));
  EXPECT_EQ(StatusOf("maths"), 200) << "a new day, though the file's sums are of the old one";
  EXPECT_EQ(table_.TodayOf(1), (store::Usage{.requests = 1}));
}

TEST_F(KeyTableTest, ModelsOfOthersAreRefused) {
  store::Key other = Make(1, "maths"), ours = Make(2, "art");
  other.models = {"Qwen3-8B", "gpt-oss"};
  ours.models = {"Qwen3-8B", "weft-tiny"};
  Have({other, ours});
  const auto refused = Admit("maths");
  EXPECT_EQ(refused.refusal->status, 403);
  EXPECT_THAT(refused.refusal->message, HasSubstr("'Qwen3-8B', 'gpt-oss'"));
  EXPECT_EQ(StatusOf("art"), 200);
}

TEST_F(KeyTableTest, WhatIsNotWrittenYetCountsOnce) {
  Have({Make(1, "maths")});
  table_.Count(1, 10, 0, 1);
  Pass(Seconds(3600));
  table_.Count(1, 20, 5, 2);
  table_.Count(7, 1, 1, 1);  // of no key
  const auto rows = table_.TakeUnwritten();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].hour_ms, kEight);
  EXPECT_EQ(rows[1].hour_ms, kEight + kHourMs);
  EXPECT_EQ(rows[1].usage, (store::Usage{0, 20, 5, 2}));
  table_.Count(1, 100, 0, 0);  // while the disk is busy
  EXPECT_EQ(table_.TodayOf(1), (store::Usage{0, 130, 5, 3}));
  table_.NoteWritten(false);
  EXPECT_EQ(table_.TodayOf(1), (store::Usage{0, 130, 5, 3}));
  EXPECT_THAT(table_.TakeUnwritten(), SizeIs(2)) << "it is tried again, with what came since";
  table_.NoteWritten(true);
  Have({Make(1, "maths")}, {{1, {0, 130, 5, 3}}});
  EXPECT_EQ(table_.TodayOf(1), (store::Usage{0, 130, 5, 3}));
  EXPECT_THAT(table_.TakeUnwritten(), SizeIs(0));
  table_.NoteWritten(true);
  unix_ms_ += kDayMs;
  EXPECT_EQ(table_.TodayOf(1), store::Usage());
}

TEST_F(KeyTableTest, SumsByRole) {
  store::Key admin = Make(1, "boss");
  admin.role = store::Role::kAdmin;
  Have({admin, Make(2, "maths"), Make(3, "art")});
  table_.Count(2, 10, 1, 5);
  table_.Count(3, 10, 1, 5);
  table_.Count(1, 7, 0, 3);
  EXPECT_EQ(table_.UsageOf(store::Role::kUser), (store::Usage{0, 20, 2, 10}));
  EXPECT_EQ(table_.UsageOf(store::Role::kAdmin), (store::Usage{0, 7, 0, 3}));
  EXPECT_EQ(table_.LiveCount(store::Role::kUser), 2u);
}

}  // namespace
}  // namespace weft::server
