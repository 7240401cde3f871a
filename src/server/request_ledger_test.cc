// Keys that are used again: for the same body, for another one, after a restart, after a day.
#include "server/request_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/cell_records_testing.h"

namespace weft::server {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kNow = 1'700'000'000;

KeyedCall CallOf(std::string_view key, std::string_view body) {
  return std::get<KeyedCall>(MakeKeyedCall(key, "chat", body));
}

store::KeyedRequest BegunOf(const KeyedCall& call, uint64_t seed) {
  store::KeyedRequest begun;
  begun.key = call.key;
  begun.digest = call.digest;
  begun.seed = seed;
  return begun;
}

class Ledger : public testing::Test {
 protected:
  api::ApiResult<std::optional<uint64_t>> Ask(const RequestLedger& ledger, const KeyedCall& call) {
    std::optional<api::ApiResult<std::optional<uint64_t>>> answer;
    ledger.Ask(call, [&](auto known) { answer = std::move(known); });
    records_.Answer();
    return *answer;
  }
  std::optional<uint64_t> SeedIn(const RequestLedger& ledger, const KeyedCall& call) {
    return std::get<std::optional<uint64_t>>(Ask(ledger, call));
  }

  RememberedRecords records_;
  RequestLedger ledger_{records_, "a key of the server"};
};

TEST(KeyedCall, NeitherTellsNorConfusesKeyAndBody) {
  const KeyedCall call = CallOf("key", "body");
  EXPECT_THAT(call.key, SizeIs(32));
  EXPECT_NE(CallOf("keyb", "ody").digest, call.digest);
  EXPECT_NE(CallOf("yek", "body").digest, call.digest) << "a digest without its key says nothing";
  EXPECT_EQ(CallOf("key", "body").digest, call.digest);
}

TEST(KeyedCall, TwoUsersWhoChooseOneKeyDoNotMeet) {
  const auto of = [](int64_t api_key) {
    return std::get<KeyedCall>(MakeKeyedCall("key", "chat", "body", api_key)).key;
  };
  EXPECT_EQ(of(0), CallOf("key", "body").key);
  EXPECT_NE(of(1), of(0));
  EXPECT_NE(of(1), of(2));
  EXPECT_NE(of(1), std::get<KeyedCall>(MakeKeyedCall("1key", "chat", "body", 0)).key);
  EXPECT_EQ(of(1), of(1));
}

TEST(KeyedCall, RefusesKeysThatAreNone) {
  for (const std::string& key : {std::string(), std::string(256, 'k'), std::string("two words"),
                                 std::string("l\n"), std::string("\xc3\xa9")}) {
    const auto call = MakeKeyedCall(key, "chat", "body");
    const auto* refused = std::get_if<api::ApiError>(&call);
    ASSERT_NE(refused, nullptr) << key;
    EXPECT_EQ(refused->status, 400);
    EXPECT_EQ(refused->param, "Idempotency-Key");
  }
  EXPECT_TRUE(std::holds_alternative<KeyedCall>(MakeKeyedCall(std::string(255, 'k'), "chat", "")));
}

TEST_F(Ledger, GivesTheSameBodyTheSameSeed) {
  const KeyedCall call = CallOf("key", "body");
  EXPECT_EQ(SeedIn(ledger_, call), std::nullopt);
  const auto run = ledger_.Begin(BegunOf(call, 7), kNow);
  EXPECT_EQ(SeedIn(ledger_, call), 7u) << "while it runs";
  ledger_.End(run, 3);
  EXPECT_EQ(SeedIn(ledger_, call), 7u) << "when it is over";
  const RequestLedger after_restart(records_, "another key");
  EXPECT_EQ(SeedIn(after_restart, call), 7u);
  EXPECT_EQ(records_.requests.at(call.key).generated_tokens, 3u);
}

TEST_F(Ledger, MakesTheSeedOfKeyAndBody) {
  const KeyedCall call = CallOf("key", "body");
  const uint64_t seed = ledger_.SeedFor(call);
  const RequestLedger after_restart(records_, "a key of the server");
  EXPECT_EQ(after_restart.SeedFor(call), seed) << "nothing was noted";
  EXPECT_NE(ledger_.SeedFor(CallOf("key", "another")), seed);
  EXPECT_NE(ledger_.SeedFor(CallOf("yek", "body")), seed);
  EXPECT_NE(RequestLedger(records_, "of another server").SeedFor(call), seed);
}

TEST_F(Ledger, RefusesAnotherBody) {
  const auto refuses = [this](const RequestLedger& ledger) {
    const auto seed = Ask(ledger, CallOf("key", "another"));
    const auto* refused = std::get_if<api::ApiError>(&seed);
    return refused != nullptr && refused->status == 422 &&
           refused->code == "idempotency_key_reused";
  };
  const auto run = ledger_.Begin(BegunOf(CallOf("key", "body"), 7), kNow);
  EXPECT_TRUE(refuses(ledger_)) << "while it runs";
  ledger_.End(run, 1);
  EXPECT_TRUE(refuses(ledger_)) << "when it is over";
  EXPECT_TRUE(refuses({records_, "another key"})) << "after a restart";
  EXPECT_EQ(SeedIn(ledger_, CallOf("another-key", "another")), std::nullopt);
}

TEST_F(Ledger, NotesTokensOnlyBesideTheirPromptAndOfTheLatestRun) {
  const KeyedCall call = CallOf("key", "body");
  const auto without = ledger_.Begin(BegunOf(call, 7), kNow);
  const auto noted = [&] { return records_.requests.at(call.key); };
  for (int32_t id = 0; id < 40; ++id) ledger_.AddToken(without, id);
  EXPECT_THAT(noted().token_ids, IsEmpty());

  auto begun = BegunOf(call, 7);
  begun.request.emplace().add_prompt_ids(1);
  const auto first = ledger_.Begin(begun, kNow);
  const auto second = ledger_.Begin(begun, kNow);
  for (int32_t id = 0; id < 40; ++id) {
    ledger_.AddToken(first, 1000 + id);
    ledger_.AddToken(second, id);
  }
  ledger_.End(first, 40);
  ASSERT_THAT(records_.requests, SizeIs(1));
  EXPECT_EQ(noted().generated_tokens, std::nullopt);
  std::vector<int32_t> expected(32);
  for (int32_t id = 0; id < 32; ++id) expected[static_cast<size_t>(id)] = id;
  EXPECT_EQ(noted().token_ids, expected) << "all but the last few";
  ledger_.End(second, 40);
  EXPECT_EQ(noted().generated_tokens, 40u);
}

}  // namespace
}  // namespace weft::server
