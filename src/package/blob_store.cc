// Files: "<digest>" is a whole blob, "<digest>.partial" an unfinished download (whole chunks,
// perhaps a torn last one), "<digest>.corrupt" a blob whose bytes were found not to match, and
// ".verified" what is known of all (verified_files.h). A partial file is written under flock, so
// that two processes that download the same blob do not tear each other's bytes.
#include "package/blob_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/unix_time.h"
#include "package/verified_files.h"

namespace weft::package {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kHashingThreads = 4;
constexpr uint64_t kChunksOfAThread = 16;  // fewer are not worth one

// An open partial file, locked until it goes out of scope.
class PartialFile {
 public:
  static Result<PartialFile> Open(const fs::path& path) {
    PartialFile file;
    file.path_ = path;
    file.fd_ = Descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!file.fd_.is_open()) return SystemError("Cannot open", path);
    while (flock(file.fd_.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return SystemError("Cannot lock", path);
    }
    return file;
  }

  Result<uint64_t> ByteCount() const {
    struct stat info = {};
    if (fstat(fd_.get(), &info) != 0) return SystemError("Cannot stat", path_);
    return static_cast<uint64_t>(info.st_size);
  }
  Status Resize(uint64_t byte_count) {
    if (ftruncate(fd_.get(), static_cast<off_t>(byte_count)) != 0) {
      return SystemError("Cannot truncate", path_);
    }
    return OkStatus();
  }
  Status Write(uint64_t offset, ByteSpan bytes) {
    while (!bytes.empty()) {
      const ssize_t count =
          pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return SystemError("Cannot write", path_);
      offset += static_cast<uint64_t>(count);
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
    return OkStatus();
  }
  // Makes the bytes durable and gives the file its final name.
  Status FinishAs(const fs::path& path) {
    if (fsync(fd_.get()) != 0) return SystemError("Cannot sync", path_);
    if (rename(path_.c_str(), path.c_str()) != 0) return SystemError("Cannot rename to", path);
    return OkStatus();
  }

 private:
  PartialFile() = default;
  fs::path path_;
  Descriptor fd_;
};

// The index of the first chunk of `bytes` that does not match, or the number of chunks. Threads
// take chunks in turn: one hashes 1.2 GB/s, and disks read more. REQUIRES: matching length.
uint64_t FirstBadChunk(ByteSpan bytes, const BlobInfo& info) {
  const uint64_t count = info.chunks.size();
  std::atomic<uint64_t> next = 0, bad = count;
  const auto look = [&] {
    for (uint64_t index = next++; index < bad; index = next++) {
      const size_t offset = index * kChunkBytes;
      const size_t chunk_bytes = std::min<size_t>(kChunkBytes, bytes.size() - offset);
      if (Sha256(bytes.subspan(offset, chunk_bytes)) == info.chunks[index]) continue;
      for (uint64_t before = bad; index < before && !bad.compare_exchange_weak(before, index);) {
      }
    }
  };
  std::vector<std::jthread> others(
      std::min<uint64_t>({kHashingThreads, std::max(1u, std::thread::hardware_concurrency()),
                          std::max<uint64_t>(1, count / kChunksOfAThread)}) -
      1);
  for (std::jthread& other : others) other = std::jthread(look);
  look();
  others.clear();
  return bad;
}

Status CheckInfo(const Digest& digest, const BlobInfo& info) {
  if (info.byte_count > 0 && info.chunks.size() == ChunkCount(info.byte_count)) return OkStatus();
  return Error(ErrorCode::kInvalidArgument,
               "Blob " + digest.ToHex() + " is described with " + std::to_string(info.byte_count) +
                   " bytes and " + std::to_string(info.chunks.size()) + " chunk hashes.");
}

class FolderBlobStore final : public BlobStore {
 public:
  FolderBlobStore(fs::path folder, DamagedFile damaged)
      : folder_(std::move(folder)), damaged_(damaged), verified_(folder_) {}

  bool Contains(const Digest& digest) const override {
    std::error_code failure;
    return fs::is_regular_file(PathOf(digest), failure);
  }

  Result<Slice> Get(const Digest& digest, const BlobInfo& info) override {
    const std::shared_ptr<Entry> entry = EntryOf(digest);
    const std::lock_guard lock(entry->mutex);  // one verification, other threads wait for it
    if (entry->verified != nullptr) {
      TRY(CheckLength(digest, entry->verified->bytes().size(), info));
      return AsSlice(entry->verified);
    }
    ASSIGN_OR_RETURN(auto file, OpenFile(digest));
    if (verified_.Has(digest, file->stamp())) {
      TRY(CheckLength(digest, file->bytes().size(), info));
    } else {
      const int64_t looked_ms = UnixNowMs();
      TRY(Verify(digest, file->bytes(), info));
      ASSIGN_OR_RETURN(const auto again, OpenFile(digest));
      if (again->stamp() == file->stamp()) verified_.Add(digest, file->stamp(), looked_ms);
    }
    entry->verified = std::move(file);
    return AsSlice(entry->verified);
  }

  Result<Slice> Map(const Digest& digest, const BlobInfo& info) override {
    ASSIGN_OR_RETURN(const auto file, OpenFile(digest));
    TRY(CheckLength(digest, file->bytes().size(), info));
    return AsSlice(file);
  }

  void Distrust() override { verified_.Forget(); }

  Status Put(const Digest& digest, ByteSpan bytes) override {
    const Digest actual = Digest::Of(bytes);
    if (actual != digest) {
      return Error(ErrorCode::kInvalidData,
                   "Bytes offered as blob " + digest.ToHex() + " hash to " + actual.ToHex() + ".");
    }
    if (Contains(digest)) return OkStatus();
    return WriteFileAtomically(PathOf(digest), bytes);
  }

  Result<uint64_t> ResumeOffset(const Digest& digest, const BlobInfo& info) override {
    TRY(CheckInfo(digest, info));
    if (Contains(digest)) return info.byte_count;
    if (!fs::exists(PartialPathOf(digest))) return uint64_t{0};
    ASSIGN_OR_RETURN(PartialFile file, PartialFile::Open(PartialPathOf(digest)));
    ASSIGN_OR_RETURN(uint64_t held, file.ByteCount());
    held = std::min(held, info.byte_count - 1);  // a whole blob would have been renamed
    uint64_t good = 0;
    {
      ASSIGN_OR_RETURN(const auto mapped, MappedFile::Open(PartialPathOf(digest)));
      while ((good + 1) * kChunkBytes <= held &&
             Sha256(mapped->bytes().subspan(good * kChunkBytes, kChunkBytes)) ==
                 info.chunks[good]) {
        ++good;
      }
    }
    TRY(file.Resize(good * kChunkBytes));
    return good * kChunkBytes;
  }

  Status AppendChunk(const Digest& digest, const BlobInfo& info, uint64_t index,
                     ByteSpan chunk) override {
    TRY(CheckInfo(digest, info));
    TRY(CheckChunk(digest, info, index, chunk));
    if (Contains(digest)) return OkStatus();
    ASSIGN_OR_RETURN(PartialFile file, PartialFile::Open(PartialPathOf(digest)));
    if (Contains(digest)) {  // completed by someone else while this call waited for the lock
      std::error_code ignored;
      fs::remove(PartialPathOf(digest), ignored);
      return OkStatus();
    }
    ASSIGN_OR_RETURN(const uint64_t held, file.ByteCount());
    const uint64_t offset = index * kChunkBytes;
    if (held < offset) {
      return Error(ErrorCode::kInvalidArgument, "Chunk " + std::to_string(index) + " of blob " +
                                                    digest.ToHex() + " was offered while only " +
                                                    std::to_string(held) +
                                                    " bytes of it are there.");
    }
    if (held < offset + chunk.size()) TRY(file.Write(offset, chunk));
    if (index + 1 < info.chunks.size()) return OkStatus();
    return Finish(digest, info, std::move(file));
  }

 private:
  struct Entry {
    std::mutex mutex;
    std::shared_ptr<const MappedFile> verified;
  };

  fs::path PathOf(const Digest& digest) const { return folder_ / digest.ToHex(); }
  fs::path PartialPathOf(const Digest& digest) const {
    return folder_ / (digest.ToHex() + ".partial");
  }

  Result<std::shared_ptr<const MappedFile>> OpenFile(const Digest& digest) const {
    auto opened = MappedFile::Open(PathOf(digest));
    if (opened.ok() || opened.error().code() != ErrorCode::kNotFound) return opened;
    return Error(ErrorCode::kNotFound,
                 "Blob " + digest.ToHex() + " is not in '" + folder_.string() + "'.");
  }

  std::shared_ptr<Entry> EntryOf(const Digest& digest) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Entry>& entry = entries_[digest];
    if (entry == nullptr) entry = std::make_shared<Entry>();
    return entry;
  }

  static Status CheckLength(const Digest& digest, uint64_t byte_count, const BlobInfo& info) {
    if (byte_count == info.byte_count) return OkStatus();
    return Error(ErrorCode::kInvalidData, "Blob " + digest.ToHex() + " has " +
                                              std::to_string(byte_count) + " bytes; expected " +
                                              std::to_string(info.byte_count) + ".");
  }

  static Status CheckChunk(const Digest& digest, const BlobInfo& info, uint64_t index,
                           ByteSpan chunk) {
    const std::string where = "chunk " + std::to_string(index) + " of blob " + digest.ToHex();
    if (index >= info.chunks.size()) {
      return Error(ErrorCode::kInvalidArgument,
                   "There is no " + where + ": it has " + std::to_string(info.chunks.size()) + ".");
    }
    const uint64_t expected = std::min(kChunkBytes, info.byte_count - index * kChunkBytes);
    if (chunk.size() != expected) {
      return Error(ErrorCode::kInvalidData, "The bytes offered as " + where + " are " +
                                                std::to_string(chunk.size()) + "; expected " +
                                                std::to_string(expected) + ".");
    }
    if (Sha256(chunk) != info.chunks[index]) {
      return Error(ErrorCode::kInvalidData,
                   "The bytes offered as " + where + " do not match its SHA-256.");
    }
    return OkStatus();
  }

  // Compares the bytes with the chunk hashes; a bad file of a cache is moved away.
  Status Verify(const Digest& digest, ByteSpan bytes, const BlobInfo& info) {
    TRY(CheckInfo(digest, info));
    std::string fault;
    if (Status length = CheckLength(digest, bytes.size(), info); !length.ok()) {
      fault = length.error().message();
    } else {
      const uint64_t bad = FirstBadChunk(bytes, info);
      if (bad == info.chunks.size()) return OkStatus();
      fault = "Chunk " + std::to_string(bad) + " of blob " + digest.ToHex() + " (bytes " +
              std::to_string(bad * kChunkBytes) + " to " +
              std::to_string(std::min<uint64_t>((bad + 1) * kChunkBytes, bytes.size())) +
              ") does not match its SHA-256.";
    }
    if (damaged_ == DamagedFile::kKeep)
      return Error(ErrorCode::kInvalidData, fault + " The file '" + PathOf(digest).string() +
                                                "' is damaged: convert or copy the package again.");
    const fs::path away = PathOf(digest).string() + ".corrupt";
    std::error_code failure;
    fs::rename(PathOf(digest), away, failure);
    if (!failure) fault += " The file was renamed to '" + away.filename().string() + "'.";
    return Error(ErrorCode::kInvalidData, std::move(fault));
  }

  // All chunks are verified; the name must fit too, or the manifest that described them was wrong.
  Status Finish(const Digest& digest, const BlobInfo& info, PartialFile file) {
    TRY(file.Resize(info.byte_count));
    ASSIGN_OR_RETURN(auto mapped, MappedFile::Open(PartialPathOf(digest)));
    const Digest actual = Digest::Of(mapped->bytes());
    if (actual != digest) {
      mapped = nullptr;
      TRY(file.Resize(0));
      return Error(ErrorCode::kInvalidData, "The chunk hashes given for blob " + digest.ToHex() +
                                                " fit bytes that hash to " + actual.ToHex() +
                                                "; they were thrown away.");
    }
    TRY(file.FinishAs(PathOf(digest)));
    // Nobody has to look at the bytes again.
    const std::shared_ptr<Entry> entry = EntryOf(digest);
    const std::lock_guard lock(entry->mutex);
    entry->verified = std::move(mapped);
    return OkStatus();
  }

  const fs::path folder_;
  const DamagedFile damaged_;
  VerifiedFiles verified_;
  std::mutex mutex_;
  std::unordered_map<Digest, std::shared_ptr<Entry>> entries_;
};

}  // namespace

Result<std::unique_ptr<BlobStore>> BlobStore::Open(const fs::path& folder, DamagedFile damaged) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure || !fs::is_directory(folder, failure)) {
    return Error(ErrorCode::kIo, "Cannot use '" + folder.string() + "' as a folder of blobs: " +
                                     (failure ? failure.message() : "it is not a folder") + ".");
  }
  return std::unique_ptr<BlobStore>(std::make_unique<FolderBlobStore>(folder, damaged));
}

}  // namespace weft::package
