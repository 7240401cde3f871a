// Store: the SQLite file with what a user decides once and what is counted: named API keys and
// their usage. Any process of the user may open it, several at once; every call is one short
// transaction. Calls wait for the disk: never on an event loop. One thread at a time for each
// Store.
//
// Not the records (records.h): those are of one server, and have what its next start needs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/database_file.h"
#include "store/key.h"
#include "store/usage.h"

namespace weft::store {

// Its name in the folder where weft keeps its state.
inline constexpr const char* kFileName = "weft.db";

// Of more keys that have not ended AddKey makes no other.
inline constexpr int64_t kMostKeys = 10'000;
// Usage of longer ago is forgotten.
inline constexpr int64_t kUsageKeptMs = int64_t{400} * 24 * 3600 * 1000;

class Store {
 public:
  // Gives the errors of DatabaseFile::Open.
  static Result<std::unique_ptr<Store>> Open(const std::filesystem::path& path, OpenMode mode,
                                             int64_t now_ms);

  // kInvalidArgument: CheckNewKey's. kAlreadyExists: a key has this name and has not ended.
  // kLimitExceeded: there are too many. `hash`: SHA-256 of the key in hex.
  Result<Key> AddKey(const NewKey& key, const std::string& hash, int64_t now_ms);
  // The key with this name ends now. kNotFound: there is none that has not ended.
  Result<Key> EndKey(const std::string& name, int64_t now_ms);
  // All that there ever were, those made first first.
  Result<std::vector<Key>> Keys();

  // Adds these to what is known. `model`, where a row names none, and
  // `server`: where it was used.
  Status AddUsage(std::span<const HourlyUsage> rows, const std::string& model,
                  const std::string& server, int64_t now_ms);
  // By key, of hours that begin then or later.
  Result<std::map<int64_t, Usage>> UsageSince(int64_t begin_ms);

  // Another number than before when another process has written something since.
  Result<int64_t> DataVersion();
  // Whether the path still names the file that was opened.
  bool IsInPlace() const { return file_.IsInPlace(); }

 private:
  explicit Store(DatabaseFile file) : file_(std::move(file)) {}

  Database& database() { return file_.database(); }

  DatabaseFile file_;
};

}  // namespace weft::store
