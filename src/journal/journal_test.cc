// Journals that were cut anywhere, changed anywhere, taken from others, or are none.
#include "journal/journal.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/file.h"
#include "base/random.h"
#include "journal/record_format.h"

namespace weft::journal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kNow = 1'700'000'000;
constexpr std::string_view kMark = "0123456789abcdef";

pb::Record SecretsRecord(const std::string& name, bool used = false) {
  pb::Record record;
  record.mutable_secrets()->set_api_key("key " + name);
  record.mutable_secrets()->set_join_token("token " + name);
  record.mutable_secrets()->set_used(used);
  return record;
}

pb::Record PlacementRecord(uint32_t last_binding) {
  pb::Record record;
  pb::Placement& placement = *record.mutable_placement();
  placement.set_swarm_id("0123456789abcdef");
  placement.set_last_binding(last_binding);
  pb::Device& device = *placement.add_devices();
  device.set_id("a device");
  device.add_bindings()->set_id(last_binding);
  placement.add_stages()->set_binding(last_binding);
  return record;
}

pb::Record Begun(const std::string& key, uint64_t seed, bool with_prompt = false,
                 int64_t begun_at_s = kNow) {
  pb::Record record;
  pb::RequestBegun& begun = *record.mutable_request_begun();
  begun.set_key(key);
  begun.set_digest("digest of " + key);
  begun.set_seed(seed);
  begun.set_begun_at_s(begun_at_s);
  if (with_prompt) begun.mutable_request()->add_prompt_ids(7);
  return record;
}

pb::Record Tokens(const std::string& key, std::initializer_list<int32_t> ids, uint32_t first = 0) {
  pb::Record record;
  record.mutable_request_tokens()->set_key(key);
  record.mutable_request_tokens()->set_first(first);
  for (const int32_t id : ids) record.mutable_request_tokens()->add_token_ids(id);
  return record;
}

pb::Record Ended(const std::string& key, uint32_t generated_tokens) {
  pb::Record record;
  record.mutable_request_ended()->set_key(key);
  record.mutable_request_ended()->set_generated_tokens(generated_tokens);
  return record;
}

std::vector<pb::Record> SomeRecords() {
  pb::Record start;
  start.mutable_start()->set_package_digest("digest");
  return {start,
          SecretsRecord("first"),
          PlacementRecord(3),
          Begun("one", 11, true),
          Tokens("one", {5, 6}),
          Tokens("one", {7}, 2),
          PlacementRecord(4),
          Begun("two", 22),
          Ended("two", 9),
          SecretsRecord("second", true)};
}

std::string FrameOf(const pb::Record& record) {
  return EncodeRecord(kMark, record.SerializeAsString());
}

std::string FileOf(const std::vector<pb::Record>& records) {
  std::string file = FormatLine(kMark);
  for (const pb::Record& record : records) file += FrameOf(record);
  return file;
}

std::string TextOf(const Contents& contents) {
  return WriteJournal(contents, kMark);
}

Contents ContentsOf(const std::vector<pb::Record>& records) {
  Contents contents;
  for (const pb::Record& record : records) contents.Apply(record);
  return contents;
}

TEST(JournalContents, AreWhatTheRecordsComeTo) {
  const Contents contents = ContentsOf(SomeRecords());
  EXPECT_EQ(contents.package_digest(), "digest");
  ASSERT_THAT(contents.secrets(), SizeIs(2));
  EXPECT_EQ(contents.secrets()[1].join_token(), "token second");
  ASSERT_TRUE(contents.placement());
  EXPECT_EQ(contents.placement()->last_binding(), 4u);
  ASSERT_THAT(contents.requests(), SizeIs(2));
  EXPECT_EQ(contents.requests()[0].begun.seed(), 11u);
  EXPECT_THAT(contents.requests()[0].token_ids, ElementsAre(5, 6, 7));
  EXPECT_FALSE(contents.requests()[0].generated_tokens);
  EXPECT_EQ(contents.requests()[1].generated_tokens, 9u);
}

TEST(JournalContents, SurviveBeingWrittenAndRead) {
  const Contents contents = ContentsOf(SomeRecords());
  const std::string file = WriteJournal(contents, kMark);
  const auto read = ReadJournal(AsBytes(file));
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->good_bytes, file.size());
  EXPECT_EQ(TextOf(read->contents), file);
}

TEST(JournalContents, OfAnotherPackageKeepNoPlacementAndNoRequests) {
  Contents contents = ContentsOf(SomeRecords());
  pb::Record start;
  start.mutable_start()->set_package_digest("another digest");
  contents.Apply(start);
  EXPECT_FALSE(contents.placement());
  EXPECT_THAT(contents.requests(), IsEmpty());
  EXPECT_THAT(contents.secrets(), SizeIs(2)) << "links do not depend on the model";
}

TEST(JournalContents, KeepPrefixesByNameAndSaltUntilTheyAreForgotten) {
  Contents contents;
  const auto note = [&contents](const std::string& name, const std::string& salt, int32_t id) {
    pb::Record record;
    record.mutable_kept_prefix()->set_name(name);
    record.mutable_kept_prefix()->set_salt(salt);
    if (id != 0) record.mutable_kept_prefix()->add_token_ids(id);
    contents.Apply(record);
  };
  const auto ids = [](const Contents& of) {
    std::vector<int32_t> first;
    for (const pb::KeptPrefix& each : of.kept_prefixes()) first.push_back(each.token_ids(0));
    return first;
  };
  note("fox", "", 1);
  note("fox", "key", 2);
  note("hen", "", 3);
  note("fox", "", 4);
  EXPECT_THAT(ids(contents), ElementsAre(2, 3, 4));
  note("hen", "", 0);
  note("hen", "", 0);
  const auto read = ReadJournal(AsBytes(WriteJournal(contents, kMark)));
  ASSERT_TRUE(read.ok());
  EXPECT_THAT(ids(read->contents), ElementsAre(2, 4));
  for (size_t i = 0; i < kMostKeptPrefixes; ++i)
    note(std::to_string(i), "", 100 + static_cast<int32_t>(i));
  EXPECT_EQ(contents.kept_prefixes().size(), kMostKeptPrefixes);
  EXPECT_EQ(ids(contents).front(), 100) << "the oldest went";
  pb::Record start;
  start.mutable_start()->set_package_digest("another");
  contents.Apply(start);
  EXPECT_TRUE(contents.kept_prefixes().empty()) << "other tokens mean other texts";
}

TEST(JournalContents, KeepThePopularityOfAFewPackages) {
  Contents contents;
  const auto note = [&contents](const std::string& digest, float count) {
    pb::Record record;
    record.mutable_popularity()->set_package_digest(digest);
    record.mutable_popularity()->add_layers()->add_counts(count);
    contents.Apply(record);
  };
  for (size_t i = 0; i <= kMostPopularities; ++i) note(std::to_string(i), 1);
  note("1", 2);
  pb::Record start;
  start.mutable_start()->set_package_digest("another");
  contents.Apply(start);
  const auto read = ReadJournal(AsBytes(WriteJournal(contents, kMark)));
  ASSERT_TRUE(read.ok());
  const auto& kept = read->contents.popularities();
  ASSERT_EQ(kept.size(), kMostPopularities);
  EXPECT_EQ(kept.front().package_digest(), "2") << "the first was forgotten, the second came again";
  EXPECT_EQ(kept.back().package_digest(), "1");
  EXPECT_EQ(kept.back().layers(0).counts(0), 2);
}

TEST(JournalContents, KeepSecretsThatAreUsedHoweverOftenAServerStarts) {
  Contents contents;
  contents.Apply(SecretsRecord("kept", true));
  for (int start = 0; start < 100; ++start) {
    contents.Apply(SecretsRecord(std::to_string(start)));
    ASSERT_EQ(contents.secrets().back().join_token(), "token " + std::to_string(start));
  }
  ASSERT_THAT(contents.secrets(), SizeIs(kMostSecrets));
  EXPECT_EQ(contents.secrets().front().join_token(), "token kept");
  contents.Apply(SecretsRecord("kept"));
  EXPECT_TRUE(contents.secrets().back().used()) << "once used is used";
}

TEST(JournalContents, KeepTheLatestSecretsWhereAllAreUsed) {
  Contents contents;
  for (int start = 0; start < 20; ++start)
    contents.Apply(SecretsRecord(std::to_string(start), true));
  ASSERT_THAT(contents.secrets(), SizeIs(kMostSecrets));
  EXPECT_EQ(contents.secrets().front().join_token(), "token 12");
  EXPECT_EQ(contents.secrets().back().join_token(), "token 19");
}

TEST(JournalContents, LetNobodyInWithSecretsThatWereSetAnew) {
  Contents contents = ContentsOf({SecretsRecord("one", true), SecretsRecord("two", true)});
  pb::Record set = SecretsRecord("set");
  set.mutable_secrets()->set_join_token("token two");
  set.mutable_secrets()->set_only_token(true);
  contents.Apply(set);
  ASSERT_THAT(contents.secrets(), SizeIs(2)) << "the key of the second start is as good as before";
  EXPECT_EQ(contents.secrets()[0].api_key(), "key two");
  EXPECT_EQ(contents.secrets()[1].api_key(), "key set");
  EXPECT_FALSE(contents.secrets()[1].only_token()) << "later ones are not measured by it";
  set.mutable_secrets()->set_only_key(true);
  contents.Apply(set);
  ASSERT_THAT(contents.secrets(), SizeIs(1));
}

TEST(JournalContents, KnowAStopUntilTheNextRecord) {
  pb::Record stop;
  stop.mutable_stop()->set_at_s(kNow);
  Contents contents = ContentsOf({SecretsRecord("one"), stop});
  EXPECT_EQ(contents.stopped_at_s(), kNow);
  EXPECT_EQ(ReadJournal(AsBytes(TextOf(contents)))->contents.stopped_at_s(), kNow);
  pb::Record start;
  start.mutable_start();
  contents.Apply(start);
  EXPECT_FALSE(contents.stopped_at_s());
}

TEST(JournalContents, ForgetThePromptOfWhatHasEnded) {
  Contents contents = ContentsOf({Begun("one", 1, true), Tokens("one", {5}), Ended("one", 1)});
  EXPECT_FALSE(contents.requests()[0].begun.has_request());
  EXPECT_THAT(contents.requests()[0].token_ids, IsEmpty());
  EXPECT_EQ(contents.requests()[0].begun.seed(), 1u);
  contents.Apply(Tokens("one", {6}));
  EXPECT_THAT(contents.requests()[0].token_ids, IsEmpty());
}

TEST(JournalContents, HoldAnswersOnlyBesideTheirPrompts) {
  const Contents contents = ContentsOf({Begun("one", 1), Tokens("one", {5, 6})});
  EXPECT_THAT(contents.requests()[0].token_ids, IsEmpty());
}

TEST(JournalContents, UseNoTokensBehindAGap) {
  const Contents contents = ContentsOf(
      {Begun("one", 1, true), Tokens("one", {5, 6}), Tokens("one", {8}, 3), Tokens("one", {7}, 2)});
  EXPECT_THAT(contents.requests()[0].token_ids, ElementsAre(5, 6, 7));
}

TEST(JournalContents, BoundRequestsByNumberAndAge) {
  Contents contents;
  for (size_t i = 0; i < kMostRequests + 10; ++i) contents.Apply(Begun(std::to_string(i), i));
  ASSERT_THAT(contents.requests(), SizeIs(kMostRequests));
  EXPECT_EQ(contents.requests().front().begun.key(), "10");
  contents.Apply(Begun("10", 5));  // asked for again: the latest now
  EXPECT_THAT(contents.requests(), SizeIs(kMostRequests));
  EXPECT_EQ(contents.requests().back().begun.seed(), 5u);

  Contents old =
      ContentsOf({Begun("old", 1, false, kNow - kRequestSeconds),
                  Begun("young", 2, false, kNow - kRequestSeconds + 1),
                  Begun("never", 3, false, INT64_MAX), Begun("long ago", 4, false, INT64_MIN)});
  old.DropOldRequests(kNow);
  ASSERT_THAT(old.requests(), SizeIs(1));
  EXPECT_EQ(old.requests()[0].begun.key(), "young");
}

// The first place behind the line that names the format and behind each of the records.
std::vector<size_t> EndsOf(const std::vector<pb::Record>& records) {
  std::vector<size_t> ends = {FormatLine(kMark).size()};
  for (const pb::Record& record : records) ends.push_back(ends.back() + FrameOf(record).size());
  return ends;
}

TEST(JournalFormat, CutAnywhereItHasTheRecordsBeforeTheCut) {
  const std::vector<pb::Record> records = SomeRecords();
  const std::string file = FileOf(records);
  const std::vector<size_t> ends = EndsOf(records);
  for (size_t cut = ends[0]; cut <= file.size(); ++cut) {
    const auto read = ReadJournal(AsBytes(std::string_view(file).substr(0, cut)));
    ASSERT_TRUE(read.ok()) << cut;
    const auto whole = std::upper_bound(ends.begin(), ends.end(), cut) - ends.begin() - 1;
    EXPECT_EQ(read->good_bytes, ends[static_cast<size_t>(whole)]) << cut;
    const std::vector<pb::Record> kept(records.begin(), records.begin() + whole);
    EXPECT_EQ(TextOf(read->contents), TextOf(ContentsOf(kept))) << cut;
  }
  for (size_t cut = 0; cut < ends[0]; ++cut)
    EXPECT_FALSE(ReadJournal(AsBytes(std::string_view(file).substr(0, cut))).ok()) << cut;
}

TEST(JournalFormat, AChangedByteCostsItsRecordAlone) {
  const std::vector<pb::Record> records = SomeRecords();
  const std::string file = FileOf(records);
  const std::vector<size_t> ends = EndsOf(records);
  for (size_t at = ends[0]; at < file.size(); ++at) {
    for (const int change : {0x01, 0x10, 0x80}) {
      std::string changed = file;
      changed[at] = static_cast<char>(changed[at] ^ change);
      const auto read = ReadJournal(AsBytes(changed));
      ASSERT_TRUE(read.ok()) << at;
      const auto hit = std::upper_bound(ends.begin(), ends.end(), at) - ends.begin() - 1;
      std::vector<pb::Record> kept = records;
      kept.erase(kept.begin() + hit);
      EXPECT_EQ(TextOf(read->contents), TextOf(ContentsOf(kept))) << at;
      EXPECT_EQ(read->good_bytes, file.size() - FrameOf(records[static_cast<size_t>(hit)]).size());
    }
  }
}

TEST(JournalFormat, GoesOnBehindAHole) {
  const std::vector<pb::Record> records = SomeRecords();
  std::string file = FileOf(records);
  const std::vector<size_t> ends = EndsOf(records);
  // A block of the disk: from within one record to within another.
  std::fill(file.begin() + static_cast<ptrdiff_t>(ends[1] + 7),
            file.begin() + static_cast<ptrdiff_t>(ends[4] + 3), '\0');
  std::vector<pb::Record> kept = records;
  kept.erase(kept.begin() + 1, kept.begin() + 5);
  const auto read = ReadJournal(AsBytes(file));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(TextOf(read->contents), TextOf(ContentsOf(kept)));
}

// Token ids are what a client makes them.
TEST(JournalFormat, TakesNoPartOfAPayloadForARecord) {
  pb::Record carrier = Begun("one", 1);
  carrier.mutable_request_begun()->set_digest(
      EncodeRecord("fedcba9876543210", SecretsRecord("forged").SerializeAsString()));
  std::string file = FileOf({carrier});
  file[FormatLine(kMark).size()] ^= 1;  // whose payload is looked through
  const auto read = ReadJournal(AsBytes(file));
  ASSERT_TRUE(read.ok());
  EXPECT_THAT(read->contents.secrets(), IsEmpty());
  EXPECT_NE(NewMark(), NewMark());
}

TEST(JournalFormat, NamesTheVersionOfAnotherOne) {
  const auto read = ReadJournal(AsBytes("weft journal 2 and more\n"));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(read.error().message(), HasSubstr("version 2; this weft reads version 1"));
}

TEST(JournalFormat, SkipsRecordsOfKindsThatItDoesNotKnow) {
  std::string file = FormatLine(kMark);
  file += EncodeRecord(kMark, "\xfa\x01\x01x");  // field 31, one byte
  file += FrameOf(SecretsRecord("known"));
  const auto read = ReadJournal(AsBytes(file));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->good_bytes, file.size());
  EXPECT_THAT(read->contents.secrets(), SizeIs(1));
}

class JournalFile : public testing::Test {
 protected:
  JournalFile()
      : folder_(std::filesystem::temp_directory_path() / ("weft-journal-" + SecureRandomHex(6))) {}
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path path() const { return folder_ / "state" / "journal"; }
  Result<std::unique_ptr<Journal>> Open(bool keep_prompts = true) const {
    return Journal::Open({path(), "digest", keep_prompts, kNow, Milliseconds(0)});
  }
  void Fill() const {
    auto journal = Open();
    ASSERT_TRUE(journal.ok()) << journal.error().ToString();
    for (const pb::Record& record : SomeRecords())
      ASSERT_TRUE((*journal)->Append(record, Durability::kProcess).ok());
  }
  void WriteAnything(const std::string& text) const {
    std::filesystem::create_directories(path().parent_path());
    ASSERT_TRUE(WriteFileAtomically(path(), AsBytes(text)).ok());
  }

  const std::filesystem::path folder_;
};

TEST_F(JournalFile, IsTheOwnersAloneAndHasWhatWasAppended) {
  const mode_t old_mask = umask(0);
  Fill();
  umask(old_mask);
  struct stat info = {};
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto journal = Open();
  ASSERT_TRUE(journal.ok());
  EXPECT_EQ((*journal)->note(), "");
  EXPECT_EQ(TextOf((*journal)->contents()), TextOf(ContentsOf(SomeRecords())));
}

TEST_F(JournalFile, ForgetsPromptsWhereTheyAreNotWantedAnyMore) {
  Fill();
  ASSERT_TRUE(Open(false).ok());
  const auto journal = Open();
  ASSERT_TRUE(journal.ok());
  ASSERT_THAT((*journal)->contents().requests(), SizeIs(2));
  EXPECT_FALSE((*journal)->contents().requests()[0].begun.has_request());
  const auto file = ReadTextFile(path());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->find(Tokens("one", {5, 6}).request_tokens().SerializeAsString()),
            std::string::npos);
}

TEST_F(JournalFile, BelongsToOneProcess) {
  const auto first = Open();
  ASSERT_TRUE(first.ok());
  const auto second = Open();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message(), HasSubstr("Another server that runs uses the journal"));
}

TEST_F(JournalFile, GoesOnBehindATornRecord) {
  Fill();
  std::ofstream(path(), std::ios::app) << "torn";
  {
    const auto journal = Open();
    ASSERT_TRUE(journal.ok());
    EXPECT_THAT((*journal)->note(), HasSubstr("4 of "));
    ASSERT_TRUE((*journal)->Append(SecretsRecord("third"), Durability::kMachine).ok());
  }
  const auto journal = Open();
  ASSERT_TRUE(journal.ok());
  EXPECT_EQ((*journal)->note(), "");
  EXPECT_THAT((*journal)->contents().secrets(), SizeIs(3));
}

TEST_F(JournalFile, PutsAsideWhatIsNoJournal) {
  for (const char* text : {"", "a letter to somebody", "weft journal 9 \n"}) {
    SCOPED_TRACE(text);
    WriteAnything(text);
    const auto journal = Open();
    ASSERT_TRUE(journal.ok());
    EXPECT_THAT((*journal)->note(), HasSubstr("cannot be used"));
    EXPECT_THAT((*journal)->contents().secrets(), IsEmpty());
    EXPECT_EQ(*ReadTextFile(path().string() + ".bad"), text);
  }
}

TEST_F(JournalFile, DoesNotBelieveWhatOthersCouldHaveWritten) {
  Fill();
  ASSERT_EQ(chmod(path().c_str(), 0620), 0);
  const auto journal = Open();
  ASSERT_TRUE(journal.ok());
  EXPECT_THAT((*journal)->note(), HasSubstr("Others than this user could have written it"));
  EXPECT_THAT((*journal)->contents().secrets(), IsEmpty());
}

TEST_F(JournalFile, RefusesWhatIsNoFile) {
  std::filesystem::create_directories(path());
  auto journal = Open();
  ASSERT_FALSE(journal.ok());
  EXPECT_EQ(journal.error().code(), ErrorCode::kInvalidArgument);
  std::filesystem::remove(path());
  std::filesystem::create_symlink(folder_ / "elsewhere", path());
  journal = Open();
  ASSERT_FALSE(journal.ok());
  EXPECT_EQ(journal.error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(JournalFile, IsWrittenAnewWhenItHasGrown) {
  pb::Record large = PlacementRecord(1);
  large.mutable_placement()->mutable_devices(0)->set_id(std::string(10'000, 'd'));
  {
    const auto journal = Open();
    ASSERT_TRUE(journal.ok());
    for (uint32_t i = 1; i <= 1000; ++i) {
      large.mutable_placement()->set_last_binding(i);
      ASSERT_TRUE((*journal)->Append(large, Durability::kProcess).ok());
      ASSERT_LE(std::filesystem::file_size(path()), Journal::kLeastGrowthBytes + 50'000);
    }
  }
  const auto journal = Open();
  ASSERT_TRUE(journal.ok());
  EXPECT_EQ((*journal)->contents().placement()->last_binding(), 1000u);
  EXPECT_LE(std::filesystem::file_size(path()), 12'000u);
}

TEST_F(JournalFile, RefusesARecordThatIsTooLong) {
  const auto journal = Open();
  ASSERT_TRUE(journal.ok());
  pb::Record huge = Begun("one", 1, true);
  huge.mutable_request_begun()->set_digest(std::string(kMaxPayloadBytes, 'x'));
  EXPECT_EQ((*journal)->Append(huge, Durability::kProcess).error().code(),
            ErrorCode::kLimitExceeded);
  EXPECT_THAT((*journal)->contents().requests(), IsEmpty());
  EXPECT_TRUE((*journal)->Append(SecretsRecord("next"), Durability::kProcess).ok());
}

// While it lives no file of this process may become longer, as on a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t file_bytes) : old_handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit = {file_bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &old_);
    signal(SIGXFSZ, old_handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  sighandler_t old_handler_;
  rlimit old_ = {};
};

TEST_F(JournalFile, CatchesUpWhenTheDiskIsNoLongerFull) {
  Fill();
  std::string expected;
  {
    const auto journal = Open();
    ASSERT_TRUE(journal.ok());
    {
      const FullDisk full(std::filesystem::file_size(path()) + 20);  // not even one record more
      const Status status = (*journal)->Append(SecretsRecord("third"), Durability::kMachine);
      ASSERT_FALSE(status.ok());
      EXPECT_THAT(status.error().message(), HasSubstr("Cannot write '" + path().string()));
      EXPECT_FALSE((*journal)->status().ok());
      EXPECT_FALSE((*journal)->Append(SecretsRecord("fourth"), Durability::kMachine).ok());
      const auto read = ReadJournal(AsBytes(*ReadTextFile(path())));
      EXPECT_THAT(read->contents.secrets(), SizeIs(2)) << "what was there is there";
    }
    EXPECT_TRUE((*journal)->Append(SecretsRecord("fifth"), Durability::kProcess).ok());
    EXPECT_TRUE((*journal)->status().ok());
    EXPECT_TRUE((*journal)->Append(SecretsRecord("sixth"), Durability::kProcess).ok());
    EXPECT_THAT((*journal)->contents().secrets(), SizeIs(6));
    expected = TextOf((*journal)->contents());
  }
  const auto journal = Open();
  ASSERT_TRUE(journal.ok());
  EXPECT_EQ((*journal)->note(), "");
  EXPECT_EQ(TextOf((*journal)->contents()), expected);
}

TEST_F(JournalFile, IsReadWhereItCannotBeWritten) {
  Fill();
  const std::string before = *ReadTextFile(path());
  {
    const FullDisk full(10);
    const auto journal = Open();
    ASSERT_TRUE(journal.ok());
    EXPECT_FALSE((*journal)->status().ok());
    EXPECT_THAT((*journal)->contents().secrets(), SizeIs(2));
  }
  EXPECT_EQ(*ReadTextFile(path()), before);
  EXPECT_FALSE(std::filesystem::exists(path().string() + ".new"));
}

TEST_F(JournalFile, NamesTheFolderThatItCannotMake) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "state") << "a file where the folder should be";
  const auto journal = Open();
  ASSERT_FALSE(journal.ok());
  EXPECT_THAT(journal.error().message(), HasSubstr("'" + path().string() + "'"));
}

}  // namespace
}  // namespace weft::journal
