#include "journal/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/file.h"
#include "journal/record_format.h"

namespace weft::journal {
namespace {

constexpr uint64_t kMaxFileBytes = 256u << 20;
constexpr mode_t kOwnerOnly = 0600;

// A name that was made or replaced is on the disk with its folder.
Status SyncFolderOf(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const Descriptor fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) return SystemError("Cannot open the folder", folder);
  if (fsync(fd.get()) != 0) return SystemError("Cannot sync the folder", folder);
  return OkStatus();
}

// Of the file that is open as `fd`; `path` names it in the error.
Status WriteAll(int fd, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("Cannot write", path);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<Journal>> Journal::Open(const OpenOptions& options) {
  std::unique_ptr<Journal> journal(new Journal(options));
  if (options.path.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(options.path.parent_path(), error);
    if (error) {
      return Error(ErrorCode::kIo, "Cannot create the folder of the journal '" +
                                       options.path.string() + "': " + error.message() + ".");
    }
  }
  TRY(journal->Lock());
  TRY(journal->Read());
  journal->stopped_at_s_ = journal->contents_.stopped_at_s();
  pb::Record start;
  start.mutable_start()->set_package_digest(options.package_digest);
  journal->contents_.Apply(start);
  journal->contents_.DropOldRequests(options.now_s);
  if (!options.keep_prompts) journal->contents_.DropPrompts();
  journal->status_ = journal->Compact();
  journal->retry_at_ = MonotonicNow() + options.retry_interval;
  return journal;
}

// A file of its own: the journal itself is replaced by another one when it is written anew.
Status Journal::Lock() {
  const std::filesystem::path path = path_.string() + ".lock";
  lock_ = Descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly));
  if (!lock_.is_open()) return SystemError("Cannot open", path);
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return OkStatus();
  if (errno != EWOULDBLOCK) return SystemError("Cannot lock", path);
  return Error(ErrorCode::kUnavailable,
               "Another server that runs uses the journal '" + path_.string() + "'.");
}

Status Journal::Read() {
  struct stat info = {};
  if (lstat(path_.c_str(), &info) != 0) {
    if (errno == ENOENT) return OkStatus();
    return SystemError("Cannot look at", path_);
  }
  if (!S_ISREG(info.st_mode)) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + path_.string() + "' is not a regular file, as a journal is.");
  }
  if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return PutAside("Others than this user could have written it.");
  }
  const Result<std::string> file = ReadTextFile(path_, kMaxFileBytes);
  if (!file.ok()) return PutAside(file.error().message());
  Result<ReadContents> read = ReadJournal(AsBytes(*file));
  if (!read.ok()) return PutAside(read.error().message());
  contents_ = std::move(read->contents);
  if (read->good_bytes == file->size()) return OkStatus();
  note_ = std::to_string(file->size() - read->good_bytes) + " of " + std::to_string(file->size()) +
          " bytes of the journal '" + path_.string() + "' are no whole records and were left out.";
  return OkStatus();
}

Status Journal::PutAside(const std::string& why) {
  const std::filesystem::path aside = path_.string() + ".bad";
  if (rename(path_.c_str(), aside.c_str()) != 0) return SystemError("Cannot rename", path_);
  note_ = "The journal '" + path_.string() + "' cannot be used: " + why + " It was put aside as '" +
          aside.string() + "', and a new one is begun.";
  return OkStatus();
}

Status Journal::Compact() {
  std::string mark = NewMark();
  const std::string bytes = WriteJournal(contents_, mark);
  const std::filesystem::path beside = path_.string() + ".new";
  unlink(beside.c_str());
  Descriptor file(
      open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, kOwnerOnly));
  if (!file.is_open()) return SystemError("Cannot create", beside);
  Status status = WriteAll(file.get(), bytes, beside);
  if (status.ok() && fsync(file.get()) != 0) status = SystemError("Cannot sync", beside);
  if (status.ok() && rename(beside.c_str(), path_.c_str()) != 0)
    status = SystemError("Cannot rename to", path_);
  if (!status.ok()) {
    // The file of before stays as good as it was.
    unlink(beside.c_str());
    return status;
  }
  file_ = std::move(file);
  mark_ = std::move(mark);
  byte_count_ = compact_bytes_ = bytes.size();
  return SyncFolderOf(path_);
}

Status Journal::AppendBytes(const std::string& payload, Durability durability) {
  const std::string record = EncodeRecord(mark_, payload);
  TRY(WriteAll(file_.get(), record, path_));
  byte_count_ += record.size();
  if (byte_count_ - compact_bytes_ > std::max(kLeastGrowthBytes, 4 * compact_bytes_))
    return Compact();
  if (durability == Durability::kMachine && fdatasync(file_.get()) != 0)
    return SystemError("Cannot sync", path_);
  return OkStatus();
}

Status Journal::Append(const pb::Record& record, Durability durability) {
  const std::string payload = record.SerializeAsString();
  if (payload.size() > kMaxPayloadBytes) {
    return Error(ErrorCode::kLimitExceeded,
                 "A record of the journal has " + std::to_string(payload.size()) +
                     " bytes, expected at most " + std::to_string(kMaxPayloadBytes) + ".");
  }
  contents_.Apply(record);
  if (!status_.ok() && MonotonicNow() < retry_at_) return status_;
  // After a failure the file may end in half a record and lacks what came since: a new one is
  // written.
  status_ = status_.ok() ? AppendBytes(payload, durability) : Compact();
  if (!status_.ok()) retry_at_ = MonotonicNow() + retry_interval_;
  return status_;
}

}  // namespace weft::journal
