#include "registry/range_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "registry/blob_file.h"

namespace weft::registry {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kNoteEveryBytes = 1 << 20;  // a kill loses at most so much of a range

Status WriteAt(int fd, uint64_t offset, ByteSpan bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return DownloadError("Cannot write", path);
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return OkStatus();
}

}  // namespace

Result<RangeFile> RangeFile::Open(const RegistryCache& cache, const RemoteFile& file,
                                  uint64_t range_bytes) {
  RangeFile ranges;
  ranges.cache_ = &cache;
  ranges.file_ = &file;
  ranges.range_bytes_ = range_bytes;
  const size_t count = (file.byte_count + range_bytes - 1) / range_bytes;
  ranges.done_.assign(count, 0);
  ranges.stored_.assign(count, 0);
  ranges.taken_.assign(count, false);
  const fs::path path = cache.RangesPath(file.content);
  const fs::path done_path = cache.RangesDonePath(file.content);
  std::error_code failure;
  if (!fs::exists(path, failure)) ranges.TakeOverBeginning();
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  ranges.fd_ = Descriptor(open(path.c_str(), kFlags, 0644));
  if (!ranges.fd_.is_open()) return DownloadError("Cannot open", path);
  ranges.done_fd_ = Descriptor(open(done_path.c_str(), kFlags, 0644));
  if (!ranges.done_fd_.is_open()) return DownloadError("Cannot open", done_path);
  ranges.ReadDone();
  // The length of the file on the disk is that of the whole: what is missing is a hole.
  if (ftruncate(ranges.fd_.get(), static_cast<off_t>(file.byte_count)) != 0) {
    return DownloadError("Cannot lengthen", path);
  }
  if (ftruncate(ranges.done_fd_.get(), static_cast<off_t>((2 + count) * sizeof(uint64_t))) != 0) {
    return DownloadError("Cannot lengthen", done_path);
  }
  const uint64_t header[] = {file.byte_count, range_bytes};
  TRY(WriteAt(ranges.done_fd_.get(), 0, AsBytes(std::span<const uint64_t>(header)), done_path));
  for (size_t i = 0; i < count; ++i) TRY(ranges.WriteDone(i));
  return ranges;
}

RangeFile::RangeFile(RangeFile&& other) noexcept
    : cache_(other.cache_),
      file_(other.file_),
      range_bytes_(other.range_bytes_),
      done_(std::move(other.done_)),
      stored_(std::move(other.stored_)),
      taken_(std::move(other.taken_)),
      fd_(std::move(other.fd_)),
      done_fd_(std::move(other.done_fd_)) {}

uint64_t RangeFile::RangeEnd(size_t range) const {
  return std::min(file_->byte_count, RangeBegin(range) + range_bytes_);
}

// The beginning that one connection downloaded: whole ranges of it, and a part of the next.
void RangeFile::TakeOverBeginning() {
  const fs::path incomplete = cache_->IncompletePath(file_->content);
  std::error_code failure;
  uint64_t there = fs::file_size(incomplete, failure);
  if (failure || there > file_->byte_count) return;
  fs::rename(incomplete, cache_->RangesPath(file_->content), failure);
  if (failure) return;
  std::vector<uint64_t> text = {file_->byte_count, range_bytes_};
  for (size_t i = 0; i < done_.size(); ++i) {
    text.push_back(std::min(there, RangeEnd(i) - RangeBegin(i)));
    there -= text.back();
  }
  const fs::path done_path = cache_->RangesDonePath(file_->content);
  fs::remove(done_path, failure);
  const Descriptor done(open(done_path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!done.is_open()) return;
  (void)WriteAt(done.get(), 0, AsBytes(std::span<const uint64_t>(text)), done_path);
}

// Anything unexpected: nothing is done.
void RangeFile::ReadDone() {
  const auto done = ReadRanges(*cache_, file_->content, file_->byte_count);
  if (!done || done->range_bytes != range_bytes_) return;
  done_ = done->done_bytes;
}

Status RangeFile::WriteDone(size_t range) {
  stored_[range] = done_[range];
  const uint64_t offset = (2 + range) * sizeof(uint64_t);
  return WriteAt(done_fd_.get(), offset, AsBytes(std::span<const uint64_t>(&done_[range], 1)),
                 cache_->RangesDonePath(file_->content));
}

uint64_t RangeFile::DoneBytes() const {
  uint64_t total = 0;
  for (const uint64_t bytes : done_) total += bytes;
  return total;
}

std::optional<size_t> RangeFile::Take() {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < done_.size(); ++i) {
    if (taken_[i] || done_[i] == RangeEnd(i) - RangeBegin(i)) continue;
    taken_[i] = true;
    return i;
  }
  return std::nullopt;
}

void RangeFile::GiveBack(size_t range) {
  (void)WriteDone(range);
  const std::lock_guard lock(mutex_);
  taken_[range] = false;
}

ByteRange RangeFile::Missing(size_t range) const {
  return {RangeBegin(range) + done_[range], RangeEnd(range)};
}

Status RangeFile::Append(size_t range, ByteSpan bytes) {
  const ByteRange missing = Missing(range);
  CHECK(bytes.size() <= missing.end - missing.first);
  TRY(WriteAt(fd_.get(), missing.first, bytes, cache_->RangesPath(file_->content)));
  done_[range] += bytes.size();
  const bool is_whole = done_[range] == RangeEnd(range) - RangeBegin(range);
  if (is_whole || done_[range] - stored_[range] >= kNoteEveryBytes) TRY(WriteDone(range));
  return OkStatus();
}

Status RangeFile::Publish() {
  CHECK(DoneBytes() == file_->byte_count);
  const fs::path path = cache_->RangesPath(file_->content);
  ContentHash hash(file_->content, file_->byte_count);
  std::vector<uint8_t> piece(kReadBytes);
  for (uint64_t at = 0; at < file_->byte_count;) {
    const ssize_t count = pread(fd_.get(), piece.data(), piece.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return DownloadError("Cannot read", path);
    if (count == 0) break;
    hash.Update(ByteSpan(piece).first(static_cast<size_t>(count)));
    at += static_cast<uint64_t>(count);
  }
  const std::string actual = hash.Finish();
  if (actual != file_->content.hex()) {
    Remove();
    return WrongHash(*file_, actual);
  }
  if (fdatasync(fd_.get()) != 0) return DownloadError("Cannot write", path);
  const fs::path blob = cache_->BlobPath(file_->content);
  if (rename(path.c_str(), blob.c_str()) != 0) return DownloadError("Cannot rename to", blob);
  std::error_code ignored;
  fs::remove(cache_->RangesDonePath(file_->content), ignored);
  fs::remove(cache_->IncompletePath(file_->content), ignored);
  return OkStatus();
}

void RangeFile::Remove() {
  std::error_code ignored;
  fs::remove(cache_->RangesPath(file_->content), ignored);
  fs::remove(cache_->RangesDonePath(file_->content), ignored);
}

}  // namespace weft::registry
