// Journal: the file in which a server keeps what the next one has to know, should it be killed.
// Only appended to (record_format.h), and written anew from its contents at every start and when it
// has grown. One process at a time has it; not for several threads.
//
// Its contents are this user's own: the file is made with 0600. A file that others could have
// written is not read, because a client with one of its secrets is let in.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/result.h"
#include "journal/contents.h"

namespace weft::journal {

struct OpenOptions {
  std::filesystem::path path;  // its folder is made where there is none
  std::string package_digest;  // what else was served is forgotten
  bool keep_prompts = false;   // false: those that an earlier start has left are forgotten
  int64_t now_s = 0;           // Unix time
  Duration retry_interval = Seconds(10);  // between attempts to write what could not be written
};

// Whether the disk has a record before Append returns. One that was appended without survives the
// end of the process, not of the machine.
enum class Durability { kProcess, kMachine };

class Journal {
 public:
  // kUnavailable: another process has it. kInvalidArgument: there is something at `path` that is no
  // file. kIo, kPermissionDenied: its folder cannot be written. A file that is no journal, or of
  // another version, or others' is put aside as `path`.bad and a new one begun: `note` says so.
  static Result<std::unique_ptr<Journal>> Open(const OpenOptions& options);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // As it is now.
  const Contents& contents() const { return contents_; }
  // When the start before was told to stop; nullopt: it was killed, or there was none.
  std::optional<int64_t> stopped_at_s() const { return stopped_at_s_; }
  // A sentence about what was found at `path` and could not be used; "": nothing of that kind.
  const std::string& note() const { return note_; }

  // Not ok: contents() has what the file lacks, on a full disk for example. What was read at start
  // counts all the same.
  const Status& status() const { return status_; }
  // Whatever it returns, the record is in contents() unless it is too long (kLimitExceeded). What
  // the file lacks then is written by a later Append, as soon as that is possible.
  Status Append(const pb::Record& record, Durability durability);

  // So many bytes are appended before the file is written anew, or four times those that it then
  // had.
  static constexpr uint64_t kLeastGrowthBytes = 1 << 20;

 private:
  explicit Journal(const OpenOptions& options)
      : path_(options.path), retry_interval_(options.retry_interval) {}

  Status Lock();
  Status Read();
  Status PutAside(const std::string& why);
  Status AppendBytes(const std::string& payload, Durability durability);
  // Writes the contents beside the file and puts them in its place.
  Status Compact();

  const std::filesystem::path path_;
  const Duration retry_interval_;
  Contents contents_;
  std::string note_, mark_;
  std::optional<int64_t> stopped_at_s_;
  Descriptor lock_, file_;
  uint64_t byte_count_ = 0;     // of the file
  uint64_t compact_bytes_ = 0;  // when it was written anew last
  Status status_ = OkStatus();
  Instant retry_at_;  // where that is not ok
};

}  // namespace weft::journal
