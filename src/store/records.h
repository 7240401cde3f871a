// Records: the SQLite file in which a server keeps what its next start has to know, should it be
// killed. It has a row for each model that the server has served, and one start forgets nothing of
// another model's. One server at a time has it; others may read it. One thread at a time.
//
//   serve-8080.db    placements, requests with keys, kept prefixes, secrets (as SHA-256)
//
// It waits for the disk: never on an event loop. Times are milliseconds since 1970.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "store/database_file.h"
#include "store/old_journal.h"
#include "store/records.pb.h"
#include "store/records_types.h"

namespace weft::store {

// Of more pairs of secrets than this, those that nobody has used go first, then the oldest.
inline constexpr int64_t kMostSecrets = 8;
// Of more requests than this, or longer ago, the oldest are forgotten.
inline constexpr int64_t kMostRequests = 1'000'000;
inline constexpr int64_t kRequestMs = int64_t{24} * 3600 * 1000;
// Of more models than this, those that began the longest time ago are forgotten, with all theirs.
inline constexpr int64_t kMostCells = 256;
// Of more packages than this, the popularity that was noted first is forgotten.
inline constexpr int64_t kMostPopularities = 64;
// Of more kept prefixes of a cell than this, the oldest are forgotten.
inline constexpr int64_t kMostKeptPrefixes = 64;
// Of more devices than this, those that were noted the longest time ago are forgotten.
inline constexpr int64_t kMostDeviceTimes = 4096;

// How connections to such files are opened.
DatabaseOptions RecordsOptions();

// Whether the disk has what was written before the call returns. What was written without survives
// the end of the process, not of the machine.
enum class Durability { kProcess, kMachine };

class Records {
 public:
  // Opens the file, or makes it. An empty path: in memory, for this process alone.
  //
  // A file that is no such database, or of a newer weft, or others' is put aside as `path`.bad, and
  // a new one begun. A journal of earlier versions, at this path or as `path` with ".journal" in
  // place of ".db", is imported and then called ".imported". note() tells of both.
  //
  // kUnavailable: another server has it. kInvalidArgument: there is something at `path` that is no
  // file. A file that cannot be written is read into memory, and status() says why.
  static Result<std::unique_ptr<Records>> Open(const std::filesystem::path& path, int64_t now_ms);
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  // For an import or export of all rows (transfer.h).
  Database& database() { return file_ ? file_->database() : *memory_; }
  // Not ok: the file cannot be written, and what is noted ends with this process.
  const Status& status() const { return status_; }
  // Sentences about what was found at `path`; "": nothing of that kind.
  const std::string& note() const { return note_; }
  // Counts for what comes from now on.
  Status SetDurability(Durability durability);

  // Gives the pairs of secrets that are let in, the latest last.
  Result<std::vector<StoredSecrets>> Secrets();
  // Adds a pair. `only_key`, `only_token`: pairs with another one are no longer let in.
  Status AddSecrets(const StoredSecrets& secrets, bool only_key, bool only_token);
  Status MarkUsed(const StoredSecrets& secrets);
  // 32 random bytes, the same as long as there is this file.
  Result<std::string> SeedKey();

  // Begins a start of the cell that serves the package with this digest, and gives what earlier
  // starts have left. Without `keep_prompts` those that they left are forgotten.
  Result<FoundCell> BeginCell(std::string_view package_digest, bool keep_prompts, int64_t now_ms);
  // The start was told to stop: it was not killed.
  Status StopCell(int64_t cell, int64_t now_ms);
  // Takes the place of the placement before. Its lifetimes are kept for every model.
  Status SetPlacement(int64_t cell, const pb::Placement& placement, int64_t now_ms);
  Status SetPopularity(const pb::Popularity& popularity, int64_t now_ms);
  // Takes the place of the one before with this name and salt.
  Status KeepPrefix(int64_t cell, const StoredPrefix& prefix);
  Status ForgetPrefix(int64_t cell, std::string_view salt, std::string_view name);

  // A key that is used again begins anew, with what is known of its prompt.
  Status BeginRequest(int64_t cell, const KeyedRequest& request);
  // Tokens number `first` and following of a request that was begun with its prompt. Behind a gap
  // nothing can be used, so that what does not follow is left out.
  Status AddTokens(std::string_view key, uint32_t first, const std::vector<int32_t>& token_ids);
  // Of a request that was begun with its prompt and is not over.
  Status SetSession(std::string_view key, const StoredSession& session);
  // What is over needs its seed alone.
  Status EndRequest(std::string_view key, uint32_t generated_tokens, int64_t now_ms);
  // Gives what was begun with this key in the last day.
  Result<std::optional<KnownRequest>> FindRequest(std::string_view key, int64_t now_ms);

  // Adds what a journal holds, which must not be here: of the package that it was of.
  Status Import(const OldJournal& journal, int64_t now_ms);

 private:
  explicit Records(Database database) : memory_(std::move(database)) {}
  explicit Records(DatabaseFile file) : file_(std::move(file)) {}

  static Result<std::unique_ptr<Records>> OpenFile(const std::filesystem::path& path,
                                                   int64_t now_ms, std::string* note);
  static Result<std::unique_ptr<Records>> MakeInMemory(int64_t now_ms);
  static Result<std::unique_ptr<Records>> ReadIntoMemory(const std::filesystem::path& path,
                                                         Error why);
  Status ImportFrom(const std::filesystem::path& journal, int64_t now_ms);
  Result<int64_t> CellOf(std::string_view package_digest);
  Status DropOld(int64_t now_ms);
  Status SetLifetimes(const pb::Placement& placement, int64_t now_ms);
  Status ReadPlaced(FoundCell& found, std::string_view package_digest);
  Status ReadOpenRequests(FoundCell& found);

  Descriptor lock_;
  std::optional<DatabaseFile> file_;
  std::optional<Database> memory_;
  Status status_ = OkStatus();
  std::string note_;
  std::optional<Durability> durability_;
  uint64_t begun_count_ = 0;  // of requests, since old ones were dropped last
};

}  // namespace weft::store
