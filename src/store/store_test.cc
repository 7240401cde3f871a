// Files that are new, of several processes, of other programs, damaged, cut, or of a newer weft.
// What every store of keys does is in shared_store/key_stores_test.cc.
#include "store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/file.h"
#include "base/file_testing.h"
#include "base/secret.h"
#include "store/schema.h"

namespace weft::store {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr int64_t kToday = 1'800'000'000'000;

NewKey Named(const std::string& name) {
  NewKey key;
  key.name = name;
  return key;
}

class StoreTest : public testing::Test {
 protected:
  std::unique_ptr<Store> Open() const { return OpenAt(path_); }
  static std::unique_ptr<Store> OpenAt(const std::filesystem::path& path) {
    auto store = Store::Open(path, OpenMode::kCreate, kToday);
    EXPECT_TRUE(store.ok()) << store.error().ToString();
    return store.ok() ? std::move(*store) : nullptr;
  }
  Error FailToOpen() const {
    const auto store = Store::Open(path_, OpenMode::kExisting, kToday);
    EXPECT_FALSE(store.ok());
    return store.ok() ? Error(ErrorCode::kIo, "it was opened") : store.error();
  }
  std::string Bytes() const { return ReadTextFile(path_).value(); }
  void Write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    std::filesystem::permissions(path_, std::filesystem::perms(0600));
  }
  mode_t ModeOf(const std::filesystem::path& path) const {
    struct stat info = {};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
  }
  // A closed one with this many keys.
  void MakeWithKeys(int count) const {
    const auto store = Open();
    for (int i = 0; i < count; ++i) {
      const std::string name = "key" + std::to_string(i);
      ASSERT_TRUE(store->AddKey(Named(name), HashSecret(name), kToday).ok());
    }
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "state" / "weft" / kFileName;
};

TEST_F(StoreTest, ANewOneIsTheUsersAlone) {
  umask(0);
  EXPECT_EQ(FailToOpen().code(), ErrorCode::kNotFound) << "looking makes none";
  EXPECT_FALSE(std::filesystem::exists(path_.parent_path()));
  const auto store = Open();
  EXPECT_EQ(ModeOf(path_), 0600u);
  EXPECT_EQ(ModeOf(path_.parent_path()), 0700u);
  ASSERT_TRUE(store->AddKey(Named("a"), HashSecret("a"), kToday).ok());
  EXPECT_EQ(ModeOf(path_.string() + "-wal"), 0600u);
  umask(022);
}

TEST_F(StoreTest, TheFileHasNoKeyInClear) {
  ASSERT_TRUE(Open()->AddKey(Named("maths"), HashSecret("secret"), kToday).ok());
  EXPECT_EQ(Bytes().find("secret"), std::string::npos);
}

TEST_F(StoreTest, HoursAndDaysBeginInUtc) {
  EXPECT_EQ(TimeText(HourOf(kToday + 1'799'999)), "2027-01-15T08:00:00Z");
  EXPECT_EQ(TimeText(DayOf(kToday)), "2027-01-15T00:00:00Z");
}

TEST_F(StoreTest, OthersChangesAreNoticed) {
  const auto one = Open();
  const auto other = Open();
  const int64_t before = one->DataVersion().value();
  EXPECT_EQ(one->DataVersion().value(), before);
  ASSERT_TRUE(one->AddKey(Named("own"), HashSecret("own"), kToday).ok());
  EXPECT_EQ(one->DataVersion().value(), before) << "its own ones do not count";
  ASSERT_TRUE(other->AddKey(Named("a"), HashSecret("a"), kToday).ok());
  EXPECT_NE(one->DataVersion().value(), before);
  EXPECT_THAT(one->Keys().value(), SizeIs(2));
  EXPECT_TRUE(one->IsInPlace());
  std::filesystem::rename(path_, path_.string() + ".old");
  EXPECT_FALSE(one->IsInPlace());
  Open();
  EXPECT_FALSE(one->IsInPlace());
}

// All begin with no file at all: one of them makes it, and none loses what it says.
TEST_F(StoreTest, ManyProcessesWriteAtOnce) {
  constexpr int kProcesses = 6, kEach = 20;
  int64_t shared = 0;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = fork();
    if (child == 0) {
      auto store = Store::Open(path_, OpenMode::kCreate, kToday);
      if (!store.ok()) _exit(2);
      for (int i = 0; i < kEach; ++i) {
        const std::string name = "p" + std::to_string(process) + "-" + std::to_string(i);
        const auto key = (*store)->AddKey(Named(name), HashSecret(name), kToday);
        if (!key.ok()) _exit(3);
        const HourlyUsage row{HourOf(kToday), key->id, {1, 10, 0, 1}};
        if (!(*store)->AddUsage({&row, 1}, "m", "s", kToday).ok()) _exit(4);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  const auto store = Open();
  EXPECT_THAT(store->Keys().value(), SizeIs(kProcesses * kEach));
  const auto usages = store->UsageSince(0).value();
  for (const auto& [key, usage] : usages) shared += usage.requests;
  EXPECT_EQ(shared, kProcesses * kEach);
}

TEST_F(StoreTest, WhatIsNoDatabaseIsLeftAsItIs) {
  std::filesystem::create_directories(path_.parent_path());
  for (const std::string& bytes :
       {std::string("hello"), std::string(5000, 'x'), std::string("SQLite format 3\0", 16),
        std::string("SQLite format 3\0", 16) + std::string(4096, '\xff')}) {
    Write(bytes);
    const Error error = FailToOpen();
    EXPECT_EQ(error.code(), ErrorCode::kInvalidData) << bytes.substr(0, 20);
    EXPECT_THAT(error.message(), HasSubstr(path_.string()));
    EXPECT_THAT(error.message(), HasSubstr("move it away"));
    EXPECT_EQ(Bytes(), bytes);
  }
}

TEST_F(StoreTest, OtherProgramsDatabasesAreLeftAsTheyAre) {
  std::filesystem::create_directories(path_.parent_path());
  Write("");
  {
    auto other = Database::Open(path_, {}).value();
    ASSERT_TRUE(other.Run("create table notes (text)").ok());
  }
  const std::string before = Bytes();
  EXPECT_THAT(FailToOpen().message(), HasSubstr("another program"));
  EXPECT_EQ(Bytes(), before);
}

TEST_F(StoreTest, ANewerOnesTablesAreLeftAsTheyAre) {
  MakeWithKeys(1);
  {
    auto newer = Database::Open(path_, {}).value();
    ASSERT_TRUE(
        newer.Run("insert into migrations values (?, 0)", {KeysSchema().latest_version() + 1})
            .ok());
  }
  const Error error = FailToOpen();
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.message(), HasSubstr("update weft"));
  EXPECT_THAT(error.message(), HasSubstr(path_.string()));
}

// As the first version wrote them.
TEST_F(StoreTest, TablesOfBeforeAreTakenOver) {
  std::filesystem::create_directories(path_.parent_path());
  Write("");
  {
    auto old = Database::Open(path_, {}).value();
    for (const char* statement :
         {"pragma application_id = 2003134068",
          "create table migrations (version integer primary key, at integer not null)",
          "create table keys (id integer primary key autoincrement, hash blob not null unique, "
          "name text not null, role text not null check (role in ('admin', 'user', 'metrics')), "
          "models text not null, per_minute integer, tokens_per_day integer, at_once integer, "
          "created integer not null, expires integer, ended integer)",
          "create unique index keys_name on keys (name) where ended is null",
          "create table usage_hour (hour integer not null, key integer not null references keys, "
          "model text not null, server text not null, requests integer not null, "
          "prompt integer not null, cached integer not null, generated integer not null, "
          "primary key (hour, key, model, server)) without rowid",
          "insert into migrations values (1, 7)",
          "insert into keys values (41, x'00', 'gone', 'user', '', null, null, null, 1, null, 2)",
          "insert into keys values (42, x'01', 'maths', 'admin', 'a', 1, 2, 3, 4, 5, null)",
          "insert into usage_hour values (3600000, 42, 'm', 's', 1, 2, 3, 4)"}) {
      ASSERT_TRUE(old.Run(statement).ok()) << statement;
    }
  }
  const auto store = Open();
  const auto keys = store->Keys().value();
  ASSERT_THAT(keys, SizeIs(2));
  EXPECT_EQ(keys[1].id, 42);
  EXPECT_EQ(keys[1].role, Role::kAdmin);
  EXPECT_EQ(keys[1].limits, (KeyLimits{1, 2, 3}));
  EXPECT_EQ(keys[1].expires_ms, 5);
  EXPECT_EQ(keys[0].ended_ms, 2);
  EXPECT_EQ(store->UsageSince(0)->at(42), (Usage{1, 2, 3, 4}));
  NewKey helper = Named("phones");
  helper.role = Role::kHelper;
  EXPECT_EQ(store->AddKey(helper, HashSecret("x"), kToday)->id, 43) << "no number comes twice";
  EXPECT_FALSE(store->AddKey(Named("maths"), HashSecret("y"), kToday).ok());
  const HourlyUsage row{HourOf(kToday), 42, {1, 1, 1, 1}};
  EXPECT_TRUE(store->AddUsage({&row, 1}, "m", "s", kToday).ok());
  EXPECT_THAT(Open()->Keys().value(), SizeIs(3));
  auto other = Database::Open(path_, {}).value();
  const Status twice = other.Run(
      "insert into keys (hash, name, role, models, created) values (x'02', 'maths', 'user', '', "
      "1)");
  EXPECT_EQ(twice.error().code(), ErrorCode::kAlreadyExists);
}

// Wherever it is cut, or a page of it is overwritten, that is told, or all that is asked of it is
// answered as before.
TEST_F(StoreTest, CutAndDamagedOnesAreToldOrWhole) {
  MakeWithKeys(100);
  const std::string whole = Bytes();
  constexpr size_t kPage = 4096;
  ASSERT_GT(whole.size(), 4 * kPage);
  int told = 0;
  for (size_t byte_count = kPage / 2; byte_count < whole.size(); byte_count += kPage / 2) {
    Write(whole.substr(0, byte_count));
    const auto store = Store::Open(path_, OpenMode::kExisting, kToday);
    ASSERT_FALSE(store.ok()) << byte_count << " of " << whole.size();
    EXPECT_EQ(store.error().code(), ErrorCode::kInvalidData);
    EXPECT_THAT(store.error().message(), HasSubstr("move it"));
    ++told;
  }
  for (size_t page = 0; page * kPage < whole.size(); ++page) {
    std::string damaged = whole;
    std::fill_n(damaged.begin() + static_cast<ptrdiff_t>(page * kPage), 100, '\x5a');
    Write(damaged);
    const auto store = Store::Open(path_, OpenMode::kExisting, kToday);
    told += store.ok() ? 0 : 1;
    if (!store.ok()) continue;
    EXPECT_THAT((*store)->Keys().value(), SizeIs(100)) << page;
  }
  EXPECT_GT(told, 8);
}

TEST_F(StoreTest, OneThatOthersCouldHaveWrittenIsNotRead) {
  MakeWithKeys(1);
  std::filesystem::permissions(path_, std::filesystem::perms(0620));
  EXPECT_EQ(FailToOpen().code(), ErrorCode::kPermissionDenied);
  EXPECT_THAT(FailToOpen().message(), HasSubstr("chmod 600"));
  std::filesystem::permissions(path_, std::filesystem::perms(0600));
  EXPECT_TRUE(Store::Open(path_, OpenMode::kExisting, kToday).ok());
  const auto link = folder_.path() / "link.db";
  std::filesystem::create_symlink(path_, link);
  EXPECT_THAT(Store::Open(link, OpenMode::kExisting, kToday).error().message(),
              HasSubstr("regular file"));
}

}  // namespace
}  // namespace weft::store
