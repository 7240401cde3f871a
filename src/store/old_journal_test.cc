// Journals of earlier versions, whole, cut anywhere, changed anywhere, or none.
#include "store/old_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "store/old_journal_testing.h"

namespace weft::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kBegunAt = 1'700'000'000;

std::vector<pb::Record> SomeRecords() {
  return {StartRecord("digest"),
          SecretsRecord("first"),
          PlacementRecord(3),
          BegunRecord("one", 11, kBegunAt, true),
          TokensRecord("one", {5, 6}),
          TokensRecord("one", {8}, 3),  // behind a gap
          TokensRecord("one", {7}, 2),
          PlacementRecord(4),
          BegunRecord("two", 22, kBegunAt),
          EndedRecord("two", 9),
          SecretsRecord("second", true)};
}

OldJournal Read(const std::vector<pb::Record>& records) {
  auto read = ReadOldJournal(AsBytes(JournalOf(records)));
  EXPECT_TRUE(read.ok());
  return read.ok() ? std::move(*read) : OldJournal();
}

// What tells two of them apart.
std::string Sum(const OldJournal& journal) {
  std::string sum = journal.package_digest;
  for (const StoredSecrets& each : journal.secrets)
    sum += " secrets " + each.api_key + (each.used ? " used" : "");
  if (journal.placement) sum += " placement " + std::to_string(journal.placement->last_binding());
  for (const OldJournal::Request& each : journal.requests) {
    sum += " request " + each.key + " " + std::to_string(each.seed);
    for (const int32_t id : each.token_ids) sum += " " + std::to_string(id);
    if (each.generated_tokens) sum += " ended " + std::to_string(*each.generated_tokens);
  }
  return sum;
}

TEST(OldJournal, IsWhatItsRecordsComeTo) {
  const OldJournal journal = Read(SomeRecords());
  EXPECT_EQ(journal.package_digest, "digest");
  ASSERT_THAT(journal.secrets, SizeIs(2));
  EXPECT_EQ(journal.secrets[1].join_token, "token second");
  EXPECT_TRUE(journal.secrets[1].used);
  ASSERT_TRUE(journal.placement);
  EXPECT_EQ(journal.placement->last_binding(), 4u);
  ASSERT_THAT(journal.requests, SizeIs(2));
  EXPECT_EQ(journal.requests[0].seed, 11u);
  EXPECT_THAT(journal.requests[0].token_ids, ElementsAre(5, 6, 7));
  EXPECT_FALSE(journal.requests[0].generated_tokens);
  EXPECT_EQ(journal.requests[1].generated_tokens, 9u);
  EXPECT_FALSE(journal.requests[1].request);
}

TEST(OldJournal, OfAnotherPackageHasItsLifetimesAndSecretsAlone) {
  std::vector<pb::Record> records = SomeRecords();
  records.push_back(StartRecord("another digest"));
  const OldJournal journal = Read(records);
  ASSERT_TRUE(journal.placement);
  EXPECT_EQ(journal.placement->lifetimes_size(), 1);
  EXPECT_EQ(journal.placement->swarm_id(), "");
  EXPECT_THAT(journal.requests, IsEmpty());
  EXPECT_THAT(journal.secrets, SizeIs(2)) << "links do not depend on the model";
}

TEST(OldJournal, HasPrefixesThatWereNotForgotten) {
  const OldJournal journal =
      Read({KeptRecord("fox", "", 1), KeptRecord("fox", "key", 2), KeptRecord("hen", "", 3),
            KeptRecord("fox", "", 4), KeptRecord("hen", "", 0)});
  ASSERT_THAT(journal.kept_prefixes, SizeIs(2));
  EXPECT_THAT(journal.kept_prefixes[0].token_ids, ElementsAre(2));
  EXPECT_THAT(journal.kept_prefixes[1].token_ids, ElementsAre(4));
}

TEST(OldJournal, LetsNobodyInWithSecretsThatWereSetAnew) {
  pb::Record set = SecretsRecord("set");
  set.mutable_secrets()->set_join_token("token two");
  set.mutable_secrets()->set_only_token(true);
  const OldJournal journal = Read({SecretsRecord("one", true), SecretsRecord("two", true), set});
  ASSERT_THAT(journal.secrets, SizeIs(2));
  EXPECT_EQ(journal.secrets[0].api_key, "key two");
  EXPECT_EQ(journal.secrets[1].api_key, "key set");
}

TEST(OldJournal, KnowsAStopUntilTheNextRecord) {
  pb::Record stop;
  stop.mutable_stop()->set_at_s(kBegunAt);
  EXPECT_EQ(Read({SecretsRecord("one"), stop}).stopped_at_s, kBegunAt);
  EXPECT_EQ(Read({stop, StartRecord("digest")}).stopped_at_s, std::nullopt);
}

// The first place behind the line that names the format and behind each of the records.
std::vector<size_t> EndsOf(const std::vector<pb::Record>& records) {
  std::vector<size_t> ends = {kTestFormatLine.size()};
  for (const pb::Record& record : records) ends.push_back(ends.back() + FrameOf(record).size());
  return ends;
}

TEST(OldJournalFormat, CutAnywhereItHasTheRecordsBeforeTheCut) {
  const std::vector<pb::Record> records = SomeRecords();
  const std::string file = JournalOf(records);
  const std::vector<size_t> ends = EndsOf(records);
  for (size_t cut = ends[0]; cut <= file.size(); ++cut) {
    const auto read = ReadOldJournal(AsBytes(std::string_view(file).substr(0, cut)));
    ASSERT_TRUE(read.ok()) << cut;
    const auto whole = std::upper_bound(ends.begin(), ends.end(), cut) - ends.begin() - 1;
    EXPECT_EQ(read->good_bytes, ends[static_cast<size_t>(whole)]) << cut;
    EXPECT_EQ(Sum(*read), Sum(Read({records.begin(), records.begin() + whole}))) << cut;
  }
  for (size_t cut = 0; cut < ends[0]; ++cut)
    EXPECT_FALSE(ReadOldJournal(AsBytes(std::string_view(file).substr(0, cut))).ok()) << cut;
}

TEST(OldJournalFormat, AChangedByteCostsItsRecordAlone) {
  const std::vector<pb::Record> records = SomeRecords();
  const std::string file = JournalOf(records);
  const std::vector<size_t> ends = EndsOf(records);
  for (size_t at = ends[0]; at < file.size(); ++at) {
    std::string changed = file;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    const auto read = ReadOldJournal(AsBytes(changed));
    ASSERT_TRUE(read.ok()) << at;
    const auto hit = std::upper_bound(ends.begin(), ends.end(), at) - ends.begin() - 1;
    std::vector<pb::Record> kept = records;
    kept.erase(kept.begin() + hit);
    EXPECT_EQ(Sum(*read), Sum(Read(kept))) << at;
  }
}

// Token ids are what a client makes them.
TEST(OldJournalFormat, TakesNoPartOfAPayloadForARecord) {
  pb::Record carrier = BegunRecord("one", 1, kBegunAt);
  carrier.mutable_request_begun()->set_digest(
      FrameOf(SecretsRecord("forged").SerializeAsString(), "fedcba9876543210"));
  std::string file = JournalOf({carrier});
  file[kTestFormatLine.size()] ^= 1;  // whose payload is looked through
  const auto read = ReadOldJournal(AsBytes(file));
  ASSERT_TRUE(read.ok());
  EXPECT_THAT(read->secrets, IsEmpty());
}

TEST(OldJournalFormat, NamesTheVersionOfAnotherOne) {
  const auto read = ReadOldJournal(AsBytes("weft journal 2 and more\n"));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(read.error().message(), HasSubstr("version 2; this weft reads version 1"));
  EXPECT_TRUE(LooksLikeOldJournal("weft journal 2 and more\n"));
  EXPECT_FALSE(LooksLikeOldJournal("SQLite format 3"));
}

TEST(OldJournalFormat, SkipsRecordsOfKindsThatItDoesNotKnow) {
  std::string file = kTestFormatLine;
  file += FrameOf("\xfa\x01\x01x");  // field 31, one byte
  file += FrameOf(SecretsRecord("known"));
  const auto read = ReadOldJournal(AsBytes(file));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->good_bytes, file.size());
  EXPECT_THAT(read->secrets, SizeIs(1));
}

}  // namespace
}  // namespace weft::store
