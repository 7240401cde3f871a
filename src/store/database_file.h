// DatabaseFile: a SQLite file that is this user's own, with the tables of a schema. It is made with
// 0600, in folders with 0700. What others could have written is not opened: whose secret it names
// is let in.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "store/schema.h"
#include "store/sqlite.h"

namespace weft::store {

// Whether there is a regular file that others than this user could have written.
bool IsOthersFile(const std::filesystem::path& path);
// Makes the folder where there is none, and those above it. Those that are made are the user's
// alone; those that are there stay as they are.
Status MakeOwnFolder(const std::filesystem::path& folder);

enum class OpenMode {
  kCreate,    // a new one, and its folder, where there is none
  kExisting,  // kNotFound where there is none
};

class DatabaseFile {
 public:
  // kInvalidData: no database, a damaged one, or another program's. kUnsupported: of a newer weft.
  // kPermissionDenied: others than this user could have written it. The file is left as it is.
  static Result<DatabaseFile> Open(const std::filesystem::path& path, OpenMode mode,
                                   const Schema& schema, const DatabaseOptions& options,
                                   int64_t now_ms);

  Database& database() { return database_; }
  // Whether the path still names the file that was opened.
  bool IsInPlace() const;

 private:
  DatabaseFile(std::filesystem::path path, Database database)
      : path_(std::move(path)), database_(std::move(database)) {}

  Status Prepare(const Schema& schema, int64_t now_ms);
  Status CheckKind(const Schema& schema);
  Status CheckPages(const Schema& schema);
  Status UseWal();
  Status Migrate(const Schema& schema, int64_t now_ms);

  std::filesystem::path path_;
  Database database_;
  uint64_t device_ = 0, file_number_ = 0;  // of the file that was opened
};

}  // namespace weft::store
