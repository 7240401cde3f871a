// Records of several models and starts, taken from others, damaged, on a full disk, and the
// journals of earlier versions that become such records.
#include "store/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/file.h"
#include "base/file_testing.h"
#include "base/full_disk_testing.h"
#include "store/old_journal_testing.h"

namespace weft::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kStartMs = 1'700'000'000'000;
constexpr int64_t kNowS = kStartMs / 1000;

pb::Placement SomePlacement(uint32_t last_binding, uint64_t losses = 1) {
  pb::Placement placement;
  placement.set_swarm_id("0123456789abcdef");
  placement.set_last_binding(last_binding);
  placement.add_devices()->set_id("a device");
  pb::Lifetime& lifetime = *placement.add_lifetimes();
  lifetime.set_device("a device");
  lifetime.set_losses(losses);
  lifetime.set_stayed_s(2.5);
  return placement;
}

KeyedRequest SomeRequest(const std::string& key, uint64_t seed, bool with_prompt = false,
                         int64_t begun_at_s = kNowS) {
  KeyedRequest request;
  request.key = key;
  request.digest = "digest of " + key;
  request.seed = seed;
  request.begun_at_s = begun_at_s;
  request.prompt_tokens = 3;
  request.attempts = 1;
  if (with_prompt) request.request.emplace().add_prompt_ids(7);
  return request;
}

StoredSecrets SecretsOf(const std::string& name, bool used = false) {
  return {"key " + name, "token " + name, "hidden " + name, used};
}

class RecordsTest : public testing::Test {
 protected:
  std::unique_ptr<Records> Open() const {
    auto records = Records::Open(path_, kStartMs);
    EXPECT_TRUE(records.ok()) << records.error().ToString();
    return records.ok() ? std::move(*records) : nullptr;
  }
  static FoundCell Begin(Records& records, const std::string& package, bool keep_prompts = true,
                         int64_t now_ms = kStartMs) {
    auto found = records.BeginCell(package, keep_prompts, now_ms);
    EXPECT_TRUE(found.ok()) << found.error().ToString();
    return found.ok() ? std::move(*found) : FoundCell();
  }
  void Write(const std::filesystem::path& path, const std::string& bytes) const {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    std::filesystem::permissions(path, std::filesystem::perms(0600));
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "state" / "serve-8080.db";
};

TEST_F(RecordsTest, AreTheOwnersAloneAndSurvive) {
  const mode_t old_mask = umask(0);
  std::string seed_key;
  {
    const auto records = Open();
    const int64_t cell = Begin(*records, "package").cell;
    seed_key = *records->SeedKey();
    ASSERT_TRUE(records->AddSecrets(SecretsOf("one", true), false, false).ok());
    ASSERT_TRUE(records->SetPlacement(cell, SomePlacement(1), kStartMs).ok());
    ASSERT_TRUE(records->SetPlacement(cell, SomePlacement(4), kStartMs).ok());
    ASSERT_TRUE(records->KeepPrefix(cell, {"salt", "fox", {1, -2, 1 << 30}, 5}).ok());
    ASSERT_TRUE(records->BeginRequest(cell, SomeRequest("one", 1ull << 63, true)).ok());
    ASSERT_TRUE(records->AddTokens("one", 0, {5, 6}).ok());
    ASSERT_TRUE(records->AddTokens("one", 2, {7}).ok());
    ASSERT_TRUE(records->SetSession("one", {9, 11, 12}).ok());
    ASSERT_TRUE(records->SetSession("one", {9, 11, 13}).ok());
  }
  umask(old_mask);
  struct stat info = {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto records = Open();
  EXPECT_EQ(records->note(), "");
  EXPECT_TRUE(records->status().ok());
  EXPECT_THAT(seed_key, SizeIs(32));
  EXPECT_EQ(*records->SeedKey(), seed_key);
  const auto secrets = records->Secrets();
  ASSERT_THAT(*secrets, SizeIs(1));
  EXPECT_EQ((*secrets)[0].hidden_join_token, "hidden one");
  const FoundCell found = Begin(*records, "package");
  EXPECT_EQ(found.placement->last_binding(), 4u);
  EXPECT_EQ(found.placement->lifetimes_size(), 0);
  ASSERT_THAT(found.lifetimes, SizeIs(1));
  EXPECT_EQ(found.lifetimes[0].stayed_s(), 2.5);
  ASSERT_THAT(found.kept_prefixes, SizeIs(1));
  EXPECT_THAT(found.kept_prefixes[0].token_ids, ElementsAre(1, -2, 1 << 30));
  EXPECT_EQ(found.kept_prefixes[0].kept_at_s, 5);
  ASSERT_THAT(found.open_requests, SizeIs(1));
  const OpenRequest& request = found.open_requests[0];
  EXPECT_EQ(request.seed, 1ull << 63);
  EXPECT_EQ(request.begun_at_s, kNowS);
  EXPECT_EQ(request.attempts, 1u);
  EXPECT_EQ(request.request->prompt_ids(0), 7);
  EXPECT_THAT(request.token_ids, ElementsAre(5, 6, 7));
  EXPECT_EQ(request.session, (StoredSession{9, 11, 13}));
  EXPECT_FALSE(found.stopped_at_ms);
}

TEST_F(RecordsTest, OneModelsStartForgetsNothingOfAnothers) {
  const auto records = Open();
  const int64_t first = Begin(*records, "one").cell;
  ASSERT_TRUE(records->SetPlacement(first, SomePlacement(3), kStartMs).ok());
  ASSERT_TRUE(records->KeepPrefix(first, {"", "fox", {1}, 5}).ok());
  ASSERT_TRUE(records->BeginRequest(first, SomeRequest("key", 7, true)).ok());
  const FoundCell other = Begin(*records, "another", /*keep_prompts=*/false);
  EXPECT_NE(other.cell, first);
  EXPECT_FALSE(other.placement);
  EXPECT_THAT(other.kept_prefixes, IsEmpty());
  EXPECT_THAT(other.open_requests, IsEmpty());
  EXPECT_THAT(other.lifetimes, SizeIs(1)) << "how devices come and go is no matter of the model";
  ASSERT_TRUE(records->SetPlacement(other.cell, SomePlacement(9, 2), kStartMs).ok());
  const FoundCell again = Begin(*records, "one");
  EXPECT_EQ(again.cell, first);
  EXPECT_EQ(again.placement->last_binding(), 3u);
  EXPECT_EQ(again.lifetimes[0].losses(), 2u);
  EXPECT_THAT(again.kept_prefixes, SizeIs(1));
  EXPECT_THAT(again.open_requests, SizeIs(1));
  EXPECT_EQ((*records->FindRequest("key", kStartMs))->seed, 7u);
}

TEST_F(RecordsTest, IncarnationsRiseEvenIfTheClockFalls) {
  const auto records = Open();
  const uint64_t first = Begin(*records, "one", true, kStartMs).incarnation;
  EXPECT_EQ(first, static_cast<uint64_t>(kStartMs));
  EXPECT_EQ(Begin(*records, "one", true, kStartMs - 1000).incarnation, first + 1);
  EXPECT_EQ(Begin(*records, "one", true, kStartMs + 1000).incarnation, first + 1000);
}

TEST_F(RecordsTest, KnowAStopUntilTheNextStart) {
  const auto records = Open();
  const int64_t cell = Begin(*records, "one").cell;
  ASSERT_TRUE(records->StopCell(cell, kStartMs + 5).ok());
  EXPECT_EQ(Begin(*records, "one").stopped_at_ms, kStartMs + 5);
  EXPECT_EQ(Begin(*records, "one").stopped_at_ms, std::nullopt) << "that one was killed";
}

TEST_F(RecordsTest, ForgetPromptsWhereTheyAreNotWantedAnyMore) {
  const auto records = Open();
  const int64_t cell = Begin(*records, "one").cell;
  ASSERT_TRUE(records->BeginRequest(cell, SomeRequest("key", 7, true)).ok());
  ASSERT_TRUE(records->AddTokens("key", 0, {5, 6}).ok());
  EXPECT_THAT(Begin(*records, "one", /*keep_prompts=*/false).open_requests, IsEmpty());
  EXPECT_THAT(Begin(*records, "one").open_requests, IsEmpty());
  EXPECT_EQ((*records->FindRequest("key", kStartMs))->seed, 7u) << "its seed stays";
}

TEST_F(RecordsTest, WhatHasEndedNeedsItsSeedAlone) {
  const auto records = Open();
  const int64_t cell = Begin(*records, "one").cell;
  ASSERT_TRUE(records->BeginRequest(cell, SomeRequest("key", 7, true)).ok());
  ASSERT_TRUE(records->AddTokens("key", 0, {5}).ok());
  ASSERT_TRUE(records->EndRequest("key", 1, kStartMs).ok());
  ASSERT_TRUE(records->AddTokens("key", 1, {6}).ok());
  EXPECT_THAT(Begin(*records, "one").open_requests, IsEmpty());
  const auto known = records->FindRequest("key", kStartMs);
  EXPECT_EQ((*known)->digest, "digest of key");
  EXPECT_EQ(*records->FindRequest("another", kStartMs), std::nullopt);
}

TEST_F(RecordsTest, UseNoTokensBehindAGapAndNoneWithoutAPrompt) {
  const auto records = Open();
  const int64_t cell = Begin(*records, "one").cell;
  ASSERT_TRUE(records->BeginRequest(cell, SomeRequest("key", 7, true)).ok());
  ASSERT_TRUE(records->AddTokens("key", 0, {5, 6}).ok());
  ASSERT_TRUE(records->AddTokens("key", 3, {8}).ok());
  ASSERT_TRUE(records->AddTokens("key", 2, {7}).ok());
  ASSERT_TRUE(records->BeginRequest(cell, SomeRequest("without", 8)).ok());
  ASSERT_TRUE(records->AddTokens("without", 0, {1}).ok());
  const FoundCell found = Begin(*records, "one");
  ASSERT_THAT(found.open_requests, SizeIs(1));
  EXPECT_THAT(found.open_requests[0].token_ids, ElementsAre(5, 6, 7));
}

TEST_F(RecordsTest, AKeyThatIsUsedAgainBeginsAnew) {
  const auto records = Open();
  const int64_t cell = Begin(*records, "one").cell;
  ASSERT_TRUE(records->BeginRequest(cell, SomeRequest("key", 7, true)).ok());
  ASSERT_TRUE(records->AddTokens("key", 0, {5, 6}).ok());
  ASSERT_TRUE(records->BeginRequest(cell, SomeRequest("key", 8, true)).ok());
  const FoundCell found = Begin(*records, "one");
  ASSERT_THAT(found.open_requests, SizeIs(1));
  EXPECT_EQ(found.open_requests[0].seed, 8u);
  EXPECT_THAT(found.open_requests[0].token_ids, IsEmpty());
}

TEST_F(RecordsTest, ForgetRequestsAfterADay) {
  const auto records = Open();
  const int64_t cell = Begin(*records, "one").cell;
  const int64_t day_s = kRequestMs / 1000;
  for (const auto& [key, begun_at_s] : {std::pair<std::string, int64_t>{"old", kNowS - day_s},
                                        {"young", kNowS - day_s + 1},
                                        {"never", kNowS + 2 * day_s}})
    ASSERT_TRUE(records->BeginRequest(cell, SomeRequest(key, 1, true, begun_at_s)).ok());
  EXPECT_EQ(*records->FindRequest("old", kStartMs), std::nullopt);
  EXPECT_NE(*records->FindRequest("young", kStartMs), std::nullopt);
  EXPECT_EQ(*records->FindRequest("never", kStartMs), std::nullopt);
  const FoundCell found = Begin(*records, "one");
  ASSERT_THAT(found.open_requests, SizeIs(1));
  EXPECT_EQ(found.open_requests[0].key, "young");
}

TEST_F(RecordsTest, KeepPrefixesByNameAndSaltUntilTheyAreForgotten) {
  const auto records = Open();
  const int64_t cell = Begin(*records, "one").cell;
  const auto ids = [&] {
    std::vector<int32_t> first;
    for (const StoredPrefix& each : Begin(*records, "one").kept_prefixes)
      first.push_back(each.token_ids[0]);
    return first;
  };
  ASSERT_TRUE(records->KeepPrefix(cell, {"", "fox", {1}, 0}).ok());
  ASSERT_TRUE(records->KeepPrefix(cell, {"key", "fox", {2}, 0}).ok());
  ASSERT_TRUE(records->KeepPrefix(cell, {"", "hen", {3}, 0}).ok());
  ASSERT_TRUE(records->KeepPrefix(cell, {"", "fox", {4}, 0}).ok());
  EXPECT_THAT(ids(), ElementsAre(2, 3, 4));
  ASSERT_TRUE(records->ForgetPrefix(cell, "", "hen").ok());
  EXPECT_THAT(ids(), ElementsAre(2, 4));
  for (int32_t i = 0; i < kMostKeptPrefixes; ++i)
    ASSERT_TRUE(records->KeepPrefix(cell, {"", std::to_string(i), {100 + i}, 0}).ok());
  EXPECT_EQ(ids().size(), static_cast<size_t>(kMostKeptPrefixes));
  EXPECT_EQ(ids().front(), 100) << "the oldest went";
}

TEST_F(RecordsTest, KeepThePopularityOfSomePackages) {
  const auto records = Open();
  const auto note = [&](const std::string& package, float count, int64_t now_ms) {
    pb::Popularity popularity;
    popularity.set_package_digest(package);
    popularity.add_layers()->add_counts(count);
    ASSERT_TRUE(records->SetPopularity(popularity, now_ms).ok());
  };
  for (int64_t i = 0; i < kMostPopularities; ++i) note(std::to_string(i), 1, kStartMs + i);
  note("0", 2, kStartMs + 1000);
  note("another", 1, kStartMs + 2000);
  EXPECT_EQ(Begin(*records, "0").popularity->layers(0).counts(0), 2);
  EXPECT_FALSE(Begin(*records, "1").popularity) << "it was noted first";
  EXPECT_TRUE(Begin(*records, "2").popularity);
}

TEST_F(RecordsTest, KeepSecretsThatAreUsedHoweverOftenAServerStarts) {
  const auto records = Open();
  const auto add = [&](const StoredSecrets& secrets) {
    ASSERT_TRUE(records->AddSecrets(secrets, false, false).ok());
  };
  add(SecretsOf("kept"));
  ASSERT_TRUE(records->MarkUsed(SecretsOf("kept")).ok());
  for (int start = 0; start < 20; ++start) {
    add(SecretsOf(std::to_string(start)));
    ASSERT_EQ(records->Secrets()->back().join_token, "token " + std::to_string(start));
  }
  ASSERT_THAT(*records->Secrets(), SizeIs(kMostSecrets));
  EXPECT_EQ(records->Secrets()->front().join_token, "token kept");
  add(SecretsOf("kept"));
  EXPECT_TRUE(records->Secrets()->back().used) << "once used is used";
  for (int start = 0; start < 20; ++start) add(SecretsOf("used " + std::to_string(start), true));
  ASSERT_THAT(*records->Secrets(), SizeIs(kMostSecrets));
  EXPECT_EQ(records->Secrets()->front().join_token, "token used 12");
}

TEST_F(RecordsTest, LetNobodyInWithSecretsThatWereSetAnew) {
  const auto records = Open();
  ASSERT_TRUE(records->AddSecrets(SecretsOf("one", true), false, false).ok());
  ASSERT_TRUE(records->AddSecrets(SecretsOf("two", true), false, false).ok());
  StoredSecrets set = SecretsOf("set");
  set.join_token = "token two";
  ASSERT_TRUE(records->AddSecrets(set, /*only_key=*/false, /*only_token=*/true).ok());
  ASSERT_THAT(*records->Secrets(), SizeIs(2)) << "the key of the second start is as good as before";
  EXPECT_EQ((*records->Secrets())[0].api_key, "key two");
  EXPECT_EQ((*records->Secrets())[1].api_key, "key set");
  ASSERT_TRUE(records->AddSecrets(set, /*only_key=*/true, /*only_token=*/true).ok());
  EXPECT_THAT(*records->Secrets(), SizeIs(1));
}

TEST_F(RecordsTest, BelongToOneServer) {
  const auto first = Open();
  const auto second = Records::Open(path_, kStartMs);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message(), HasSubstr("Another server that runs uses the journal"));
}

TEST_F(RecordsTest, InMemoryLeaveNothing) {
  const auto records = Records::Open({}, kStartMs);
  ASSERT_TRUE(records.ok());
  const int64_t cell = Begin(**records, "one").cell;
  ASSERT_TRUE((*records)->BeginRequest(cell, SomeRequest("key", 7)).ok());
  EXPECT_EQ((*(*records)->FindRequest("key", kStartMs))->seed, 7u);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(RecordsTest, AKilledServerLeavesAllThatItNoted) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto records = Open();
    const int64_t cell = Begin(*records, "one").cell;
    bool good = records->SetDurability(Durability::kProcess).ok();
    for (int i = 0; i < 100 && good; ++i)
      good = records->BeginRequest(cell, SomeRequest("key" + std::to_string(i), 7)).ok();
    raise(good ? SIGKILL : SIGTERM);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(WTERMSIG(status), SIGKILL);
  const auto records = Open();
  for (int i = 0; i < 100; ++i)
    EXPECT_NE(*records->FindRequest("key" + std::to_string(i), kStartMs), std::nullopt) << i;
}

TEST_F(RecordsTest, PutAsideWhatIsNoDatabaseOfTheirs) {
  for (const char* text : {"a letter to somebody, which is long enough", "weft journal 9 \n"}) {
    SCOPED_TRACE(text);
    Write(path_, text);
    const auto records = Open();
    ASSERT_NE(records, nullptr);
    EXPECT_THAT(records->note(), HasSubstr("cannot be used"));
    EXPECT_TRUE(records->status().ok());
  }
  EXPECT_EQ(*ReadTextFile(path_.string() + ".bad"), "a letter to somebody, which is long enough");
  EXPECT_EQ(*ReadTextFile(path_.string() + ".before.bad"), "weft journal 9 \n");
}

TEST_F(RecordsTest, PutAsideThoseOfANewerWeft) {
  { Begin(*Open(), "one"); }
  {
    auto newer = Database::Open(path_, {});
    ASSERT_TRUE(newer.ok());
    ASSERT_TRUE(newer->Run("insert into migrations values (99, 0)").ok());
  }
  const auto records = Open();
  ASSERT_NE(records, nullptr);
  EXPECT_THAT(records->note(), HasSubstr("of a newer weft"));
  EXPECT_TRUE(std::filesystem::exists(path_.string() + ".bad"));
}

TEST_F(RecordsTest, DoNotBelieveWhatOthersCouldHaveWritten) {
  { ASSERT_TRUE(Open()->AddSecrets(SecretsOf("one"), false, false).ok()); }
  ASSERT_EQ(chmod(path_.c_str(), 0620), 0);
  const auto records = Open();
  EXPECT_THAT(records->note(), HasSubstr("Others than this user could have written it"));
  EXPECT_THAT(*records->Secrets(), IsEmpty());
}

TEST_F(RecordsTest, RefuseWhatIsNoFile) {
  std::filesystem::create_directories(path_);
  EXPECT_EQ(Records::Open(path_, kStartMs).error().code(), ErrorCode::kInvalidArgument);
  std::filesystem::remove(path_);
  std::filesystem::create_symlink(folder_.path() / "elsewhere", path_);
  EXPECT_EQ(Records::Open(path_, kStartMs).error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(RecordsTest, NameTheFolderThatTheyCannotMake) {
  std::ofstream(folder_.path() / "state") << "a file where the folder should be";
  const auto records = Records::Open(path_, kStartMs);
  ASSERT_FALSE(records.ok());
  EXPECT_THAT(records.error().message(), HasSubstr("'" + path_.string() + "'"));
}

TEST_F(RecordsTest, SayThatADiskIsFullAndGoOnLater) {
  const auto records = Open();
  const int64_t cell = Begin(*records, "one").cell;
  ASSERT_TRUE(records->SetPlacement(cell, SomePlacement(1), kStartMs).ok());
  {
    const FullDisk full(1);
    const Status refused = records->SetPlacement(cell, SomePlacement(2), kStartMs);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message(), HasSubstr(path_.string()));
  }
  EXPECT_EQ(Begin(*records, "one").placement->last_binding(), 1u) << "all or nothing";
  EXPECT_TRUE(records->SetPlacement(cell, SomePlacement(3), kStartMs).ok());
  EXPECT_EQ(Begin(*records, "one").placement->last_binding(), 3u);
}

TEST_F(RecordsTest, AreReadWhereNothingCanBeWritten) {
  {
    const auto records = Open();
    ASSERT_TRUE(
        records->SetPlacement(Begin(*records, "one").cell, SomePlacement(1), kStartMs).ok());
  }
  const std::string before = *ReadTextFile(path_);
  {
    const FullDisk full(1);
    const auto records = Open();
    ASSERT_NE(records, nullptr);
    EXPECT_FALSE(records->status().ok());
    EXPECT_EQ(Begin(*records, "one").placement->last_binding(), 1u);
  }
  EXPECT_EQ(*ReadTextFile(path_), before);
}

std::vector<pb::Record> JournalRecords(const std::string& package, const std::string& key) {
  return {StartRecord(package),
          SecretsRecord("first"),
          PlacementRecord(3),
          BegunRecord(key, 11, kNowS, true),
          TokensRecord(key, {5, 6}),
          BegunRecord(key + " ended", 22, kNowS),
          EndedRecord(key + " ended", 9),
          KeptRecord("fox", "salt", 4)};
}

TEST_F(RecordsTest, ImportTheJournalsOfEarlierVersions) {
  const std::filesystem::path journal = path_.parent_path() / "serve-8080.journal";
  const std::filesystem::path models = path_.parent_path() / "serve-8080.journal.0123456789ab";
  Write(journal, JournalOf(JournalRecords("one", "a")) + "torn");
  Write(models, JournalOf(JournalRecords("two", "b")));
  Write(path_.parent_path() / "serve-8081.journal", JournalOf(JournalRecords("other", "c")));
  {
    const auto records = Open();
    EXPECT_THAT(records->note(), HasSubstr("4 of "));
    for (const auto& [package, key] : {std::pair("one", "a"), std::pair("two", "b")}) {
      const FoundCell found = Begin(*records, package);
      EXPECT_EQ(found.placement->last_binding(), 3u);
      ASSERT_THAT(found.open_requests, SizeIs(1));
      EXPECT_EQ(found.open_requests[0].key, key);
      EXPECT_THAT(found.open_requests[0].token_ids, ElementsAre(5, 6));
      EXPECT_THAT(found.kept_prefixes, SizeIs(1));
      EXPECT_EQ((*records->FindRequest(key + std::string(" ended"), kStartMs))->seed, 22u);
    }
    EXPECT_THAT(*records->Secrets(), SizeIs(1));
  }
  EXPECT_FALSE(std::filesystem::exists(journal));
  EXPECT_TRUE(std::filesystem::exists(journal.string() + ".imported"));
  EXPECT_TRUE(std::filesystem::exists(models.string() + ".imported"));
  EXPECT_TRUE(std::filesystem::exists(path_.parent_path() / "serve-8081.journal"));
  EXPECT_TRUE(Begin(*Open(), "one").placement) << "once";
}

// A machine that fails between the two steps, and a disk without room for the second.
TEST_F(RecordsTest, ImportLaterWhatCouldNotBeImported) {
  const std::filesystem::path path = folder_.path() / "my journal";
  Write(path.string() + ".before", JournalOf(JournalRecords("one", "a")));
  { ASSERT_TRUE(Records::Open(folder_.path() / "other", kStartMs).ok()); }
  const auto records = Records::Open(path, kStartMs);
  ASSERT_TRUE(records.ok());
  EXPECT_TRUE(Begin(**records, "one").placement);

  const std::filesystem::path journal = path_.parent_path() / "serve-8080.journal";
  { Begin(*Open(), "none"); }
  Write(journal, JournalOf(JournalRecords("two", "b")));
  {
    const FullDisk full(1);
    EXPECT_NE(Open(), nullptr);
  }
  EXPECT_TRUE(std::filesystem::exists(journal)) << "it is not put aside";
  EXPECT_TRUE(Begin(*Open(), "two").placement);
}

TEST_F(RecordsTest, TakeThePlaceOfAJournalThatWasNamed) {
  const std::filesystem::path path = folder_.path() / "my journal";
  Write(path, JournalOf(JournalRecords("one", "a")));
  for (int start = 0; start < 2; ++start) {
    const auto records = Records::Open(path, kStartMs);
    ASSERT_TRUE(records.ok());
    EXPECT_EQ((*records)->note(), "");
    EXPECT_TRUE(Begin(**records, "one").placement);
  }
  EXPECT_TRUE(std::filesystem::exists(path.string() + ".before.imported"));
}

}  // namespace
}  // namespace weft::store
