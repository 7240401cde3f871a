// Store: the SQLite file with what a user decides once and what is counted: named API keys and
// their usage. Any process of the user may open it, several at once; every call is one short
// transaction.
//
// Not the records (records.h): those are of one server, and have what its next start needs.
#pragma once

#include <filesystem>
#include <memory>

#include "base/result.h"
#include "store/database_file.h"
#include "store/key_store.h"

namespace weft::store {

// Its name in the folder where weft keeps its state.
inline constexpr const char* kFileName = "weft.db";

class Store : public KeyStore {
 public:
  // Gives the errors of DatabaseFile::Open.
  static Result<std::unique_ptr<Store>> Open(const std::filesystem::path& path, OpenMode mode,
                                             int64_t now_ms);

  Result<Key> AddKey(const NewKey& key, const std::string& hash, int64_t now_ms) override;
  Result<Key> EndKey(const std::string& name, int64_t now_ms) override;
  Result<std::vector<Key>> Keys() override;
  Status AddUsage(std::span<const HourlyUsage> rows, const std::string& model,
                  const std::string& server, int64_t now_ms) override;
  Result<std::map<int64_t, Usage>> UsageSince(int64_t begin_ms) override;
  Result<std::vector<KeptUsage>> AllUsage() override;
  // Of other processes; what this one writes does not count.
  Result<int64_t> DataVersion() override;
  // Whether the path still names the file that was opened.
  bool IsInPlace() const override { return file_.IsInPlace(); }

 private:
  explicit Store(DatabaseFile file) : file_(std::move(file)) {}

  Database& database() { return file_.database(); }

  DatabaseFile file_;
};

// All keys and all usage that a database with KeysSchema has; it may be one in memory.
Result<std::vector<Key>> ReadKeys(Database& database);
Result<std::vector<KeptUsage>> ReadUsage(Database& database);
// Puts them into one that has none, with their numbers.
Status PutKeys(Database& database, std::span<const Key> keys, std::span<const KeptUsage> usage);

}  // namespace weft::store
