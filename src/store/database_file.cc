#include "store/database_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/sentence.h"
#include "store/schema.h"

namespace weft::store {
namespace {

constexpr mode_t kOwnerOnly = 0600, kOwnersFolder = 0700;
// Of a larger file no check reads every page at start: what is damaged is found when it is used.
constexpr int64_t kCheckedBytes = 8 << 20;
constexpr int kWalAttempts = 50;

// Folders that are made here are the user's alone; those that are there stay as they are.
Status MakeFolder(const std::filesystem::path& folder) {
  if (folder.empty() || std::filesystem::exists(folder)) return OkStatus();
  TRY(MakeFolder(folder.parent_path()));
  if (mkdir(folder.c_str(), kOwnersFolder) == 0 || errno == EEXIST) return OkStatus();
  return SystemError("Cannot create the folder", folder);
}

Status MakeFile(const std::filesystem::path& path) {
  TRY(MakeFolder(path.parent_path()));
  // SQLite would make it with whatever the umask leaves.
  const Descriptor made(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly));
  if (!made.is_open()) return SystemError("Cannot open", path);
  return OkStatus();
}

}  // namespace

Result<DatabaseFile> DatabaseFile::Open(const std::filesystem::path& path, OpenMode mode,
                                        const Schema& schema, const DatabaseOptions& options,
                                        int64_t now_ms) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return SystemError("Cannot look at", path);
    if (mode == OpenMode::kExisting)
      return Error(ErrorCode::kNotFound, "There is no file '" + path.string() + "'.");
    TRY(MakeFile(path));
    if (lstat(path.c_str(), &info) != 0) return SystemError("Cannot look at", path);
  }
  if (!S_ISREG(info.st_mode))
    return Error(
        ErrorCode::kInvalidArgument,
        "'" + path.string() + "' is not a regular file, as a database of " + schema.name + " is.");
  if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Error(ErrorCode::kPermissionDenied,
                 "Others than this user could have written '" + path.string() +
                     "', and whose key it names is let in. If it is yours: chown it to this user "
                     "and chmod 600 it.");
  ASSIGN_OR_RETURN(Database database, Database::Open(path, options));
  DatabaseFile file(path, std::move(database));
  file.device_ = info.st_dev;
  file.file_number_ = info.st_ino;
  TRY(file.Prepare(schema, now_ms));
  return file;
}

bool DatabaseFile::IsInPlace() const {
  struct stat info = {};
  return lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == file_number_;
}

Status DatabaseFile::Prepare(const Schema& schema, int64_t now_ms) {
  TRY(CheckKind(schema));
  TRY(CheckPages(schema));
  // A new file that a power cut takes is made anew: nothing has been told to be in it.
  ASSIGN_OR_RETURN(const int64_t page_count, database_.AskNumber("pragma page_count"));
  TRY(database_.Run(page_count == 0 ? "pragma synchronous = off" : "pragma synchronous = full"));
  TRY(UseWal());
  TRY(database_.Run("pragma foreign_keys = off"));
  TRY(Migrate(schema, now_ms));
  // What is told to have happened, such as the end of a key, survives the machine.
  TRY(database_.Run("pragma synchronous = full"));
  return database_.Run("pragma foreign_keys = on");
}

Status DatabaseFile::CheckPages(const Schema& schema) {
  ASSIGN_OR_RETURN(const int64_t page_bytes, database_.AskNumber("pragma page_size"));
  ASSIGN_OR_RETURN(const int64_t page_count, database_.AskNumber("pragma page_count"));
  if (page_count == 0 || page_bytes * page_count > kCheckedBytes) return OkStatus();
  ASSIGN_OR_RETURN(const Rows found, database_.Ask("pragma quick_check(1)"));
  if (!found.has_row() || found.Text(0) == "ok") return OkStatus();
  return Error(ErrorCode::kInvalidData,
               "The database '" + path_.string() + "' is damaged (" + found.Text(0) +
                   "); nothing in it was changed. Put a copy of before in its place, or move it "
                   "away, and a new one without " +
                   schema.name + " is begun.");
}

// Whether it is ours to write: empty, or marked as ours. Whoever makes the tables sets the mark in
// the same transaction: tables that are seen here were marked before. The other way round, a
// process that begins at the same moment would see no mark, and then tables.
Status DatabaseFile::CheckKind(const Schema& schema) {
  ASSIGN_OR_RETURN(const int64_t tables, database_.AskNumber("select count(*) from sqlite_master"));
  ASSIGN_OR_RETURN(const int64_t mark, database_.AskNumber("pragma application_id"));
  if (mark == schema.application_id || (mark == 0 && tables == 0)) return OkStatus();
  return Error(ErrorCode::kInvalidData, "The file '" + path_.string() +
                                            "' is a database of another program; nothing in it "
                                            "was changed. Name another file.");
}

// Readers and a writer do not wait for each other then. The change of mode needs the file alone for
// a moment, and SQLite does not wait for that by itself.
Status DatabaseFile::UseWal() {
  Status last = OkStatus();
  for (int attempt = 0; attempt < kWalAttempts; ++attempt) {
    const auto answer = database_.Ask("pragma journal_mode = wal");
    if (answer.ok()) return OkStatus();
    last = answer.error();
    if (answer.error().code() != ErrorCode::kUnavailable) return last;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return last;
}

Status DatabaseFile::Migrate(const Schema& schema, int64_t now_ms) {
  // Most often there is nothing to do, and nobody needs to wait for whoever writes.
  ASSIGN_OR_RETURN(const int64_t known, SchemaVersion(database_));
  if (known == schema.latest_version()) return OkStatus();
  if (known > schema.latest_version())
    return Error(ErrorCode::kUnsupported,
                 Sentence("The database '", path_.string(),
                          "' is of a newer weft (its tables have "
                          "version ",
                          known, ", this program knows ", schema.latest_version(),
                          "): update weft, or name another file."));
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  TRY(ApplyMigrations(database_, schema, now_ms));
  return transaction.Commit();
}

}  // namespace weft::store
