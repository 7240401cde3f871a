// Rows that go out as lines and come in again: the same, into another version, wrong, or cut.
#include "store/transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file_testing.h"
#include "base/secret.h"
#include "store/records.h"
#include "store/store.h"

namespace weft::store {
namespace {

using testing::HasSubstr;

constexpr int64_t kExportedAt = 1'800'000'000'000;

class TransferTest : public testing::Test {
 protected:
  static Database Empty(int64_t version = KeysSchema().latest_version()) {
    auto database = Database::InMemory({});
    EXPECT_TRUE(database.ok());
    Schema schema = KeysSchema();
    schema.migrations.resize(static_cast<size_t>(version));
    EXPECT_TRUE(ApplyMigrations(*database, schema, kExportedAt).ok());
    return std::move(*database);
  }
  static Database WithKeys() {
    Database database = Empty();
    EXPECT_TRUE(database
                    .Run("insert into keys (id, hash, name, role, models, per_minute, created) "
                         "values (7, x'00ff', 'ma\"ths', 'user', '', 60, 5)")
                    .ok());
    EXPECT_TRUE(database
                    .Run("insert into usage_hour values (3600000, 7, 'tiny', '8080', 1, 2, 3, "
                         "9223372036854775807)")
                    .ok());
    return database;
  }
  static std::vector<std::string> LinesOf(Database& database, const Schema& schema = KeysSchema()) {
    std::vector<std::string> lines;
    EXPECT_TRUE(ExportRows(database, schema, [&lines](const std::string& line) {
                  lines.push_back(line);
                  return OkStatus();
                }).ok());
    return lines;
  }
  static Status Import(Database& database, const std::vector<std::string>& lines) {
    ASSIGN_OR_RETURN(RowsImport import, RowsImport::Begin(database, KeysSchema()));
    for (const std::string& line : lines) TRY(import.Add(line));
    ASSIGN_OR_RETURN([[maybe_unused]] const TransferCount count, import.Commit());
    return OkStatus();
  }
};

TEST_F(TransferTest, WhatGoesOutComesIn) {
  Database from = WithKeys(), to = Empty();
  const std::vector<std::string> lines = LinesOf(from);
  EXPECT_THAT(lines, testing::SizeIs(3));
  const Status imported = Import(to, lines);
  ASSERT_TRUE(imported.ok()) << imported.error().ToString();
  EXPECT_EQ(LinesOf(to), lines);
  EXPECT_EQ(*to.AskNumber("pragma foreign_keys"), 1);
}

TEST_F(TransferTest, KeysOfAnotherMachineLetInHere) {
  const TemporaryFolder folder;
  std::vector<std::string> lines;
  {
    const auto store = Store::Open(folder.path() / "a.db", OpenMode::kCreate, kExportedAt);
    NewKey key;
    key.name = "maths";
    key.limits.per_minute = 60;
    ASSERT_TRUE((*store)->AddKey(key, HashSecret("secret"), kExportedAt).ok());
    auto file = DatabaseFile::Open(folder.path() / "a.db", OpenMode::kExisting, KeysSchema(), {},
                                   kExportedAt);
    lines = LinesOf(file->database());
  }
  {
    auto file = DatabaseFile::Open(folder.path() / "b.db", OpenMode::kCreate, KeysSchema(), {},
                                   kExportedAt);
    ASSERT_TRUE(Import(file->database(), lines).ok());
  }
  const auto store = Store::Open(folder.path() / "b.db", OpenMode::kExisting, kExportedAt);
  const auto keys = (*store)->Keys();
  ASSERT_EQ(keys->size(), 1u);
  EXPECT_EQ((*keys)[0].hash, HashSecret("secret"));
  EXPECT_EQ((*keys)[0].limits.per_minute, 60u);
}

TEST_F(TransferTest, RecordsTravelBesideKeys) {
  auto records = Records::Open({}, kExportedAt);
  const FoundCell cell = *(*records)->BeginCell("package", true, kExportedAt);
  ASSERT_TRUE((*records)->KeepPrefix(cell.cell, {"salt", "fox", {1, 2}, 5}).ok());
  Database keys = WithKeys();
  std::vector<std::string> lines = LinesOf(keys);
  for (std::string& line : LinesOf((*records)->database(), RecordsSchema()))
    lines.push_back(std::move(line));

  auto again = Records::Open({}, kExportedAt);
  auto import = RowsImport::Begin((*again)->database(), RecordsSchema());
  for (const std::string& line : lines) ASSERT_TRUE(import->Add(line).ok());
  ASSERT_TRUE(import->Commit().ok());
  EXPECT_EQ((*again)->BeginCell("package", true, kExportedAt)->kept_prefixes[0].name, "fox");
  Database other = Empty();
  EXPECT_TRUE(Import(other, lines).ok());
}

TEST_F(TransferTest, LinesOfAnEarlierVersionAreBroughtUp) {
  Database old = Empty(1), to = Empty();
  ASSERT_TRUE(old.Run("insert into keys (hash, name, role, models, created) "
                      "values (x'01', 'a', 'user', '', 5)")
                  .ok());
  std::vector<std::string> lines = LinesOf(old);
  lines[0] = R"({"weft":"keys","version":1})";
  ASSERT_TRUE(Import(to, lines).ok());
  EXPECT_EQ(*to.AskNumber("select count(*) from keys where name = 'a'"), 1);
  lines[0] = R"({"weft":"keys","version":99})";
  Database another = Empty();
  const Status refused = Import(another, lines);
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message(), HasSubstr("update weft"));
}

TEST_F(TransferTest, WhatIsThereIsNotMixed) {
  Database from = WithKeys(), to = WithKeys();
  const Status refused = Import(to, LinesOf(from));
  EXPECT_EQ(refused.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(refused.error().message(), HasSubstr("an import needs an empty one"));
}

TEST_F(TransferTest, AWrongLineChangesNothingAndIsNamed) {
  Database from = WithKeys();
  const std::vector<std::string> good = LinesOf(from);
  for (const auto& [bad, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "it is no JSON object"},
           {"[1]", "it is no JSON object"},
           {R"({"table":"keys"})", "'table' or 'row' is missing"},
           {R"({"table":"sqlite_master","row":{}})", "there is no table 'sqlite_master'"},
           {R"({"table":"keys","row":{"colour":1}})", "'keys' has no column 'colour'"},
           {R"({"table":"keys","row":{"id":[1]}})", "the value of 'id' is none"},
           {R"({"table":"keys","row":{"hash":{"hex":"0g"}}})", "the value of 'hash' is none"},
           {R"({"table":"keys","row":{"id":8}})", "NOT NULL"},
           {R"({"weft":"keys"})", "its name or version is missing"},
           {good[0], "once more"},
           {good[1], "UNIQUE"}}) {
    SCOPED_TRACE(bad);
    std::vector<std::string> lines = good;
    lines.push_back(bad);
    Database to = Empty();
    const Status refused = Import(to, lines);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message(), HasSubstr("4"));
    EXPECT_THAT(refused.error().message(), HasSubstr(why));
    EXPECT_EQ(*to.AskNumber("select count(*) from keys"), 0);
  }
}

TEST_F(TransferTest, ACutExportIsRefusedWhole) {
  Database from = WithKeys();
  std::vector<std::string> lines = LinesOf(from);
  lines.erase(lines.begin() + 1);  // the key that the usage is of
  Database to = Empty();
  const Status refused = Import(to, lines);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidData);
  EXPECT_THAT(refused.error().message(), HasSubstr("belongs to one of 'keys'"));
  Database nothing = Empty();
  EXPECT_EQ(Import(nothing, {}).error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace weft::store
