#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/descriptor.h"
#include "base/random.h"

namespace weft {
namespace {

int64_t NanosecondsOf(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Result<uint64_t> RegularFileBytes(int fd, const std::string& path) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) return SystemError("Cannot stat", path);
  if (!S_ISREG(info.st_mode)) {
    return Error(ErrorCode::kInvalidArgument, "'" + path + "' is not a regular file.");
  }
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace

Error SystemError(const std::string& what, const std::filesystem::path& path) {
  const int number = errno;
  const ErrorCode code = number == ENOENT   ? ErrorCode::kNotFound
                         : number == EACCES ? ErrorCode::kPermissionDenied
                                            : ErrorCode::kIo;
  return Error(code, what + " '" + path.string() + "': " + std::strerror(number) + ".");
}

Result<std::string> ReadTextFile(const std::filesystem::path& path, uint64_t byte_limit) {
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return SystemError("Cannot open", path);
  ASSIGN_OR_RETURN(const uint64_t byte_count, RegularFileBytes(fd.get(), path.string()));
  if (byte_count > byte_limit) {
    return Error(ErrorCode::kInvalidData, "'" + path.string() + "' has " +
                                              std::to_string(byte_count) + " bytes; at most " +
                                              std::to_string(byte_limit) + " are read.");
  }
  std::string text(byte_count, '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = read(fd.get(), text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("Cannot read", path);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  text.resize(done);
  return text;
}

Status WriteFileAtomically(const std::filesystem::path& path, ByteSpan bytes) {
  const std::string beside = path.string() + ".tmp-" + SecureRandomHex(4);
  {
    const Descriptor fd(open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd.is_open()) return SystemError("Cannot create", beside);
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count = write(fd.get(), bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        Error error = SystemError("Cannot write", beside);
        unlink(beside.c_str());
        return error;
      }
      done += static_cast<size_t>(count);
    }
  }
  if (rename(beside.c_str(), path.c_str()) != 0) {
    Error error = SystemError("Cannot rename to", path);
    unlink(beside.c_str());
    return error;
  }
  return OkStatus();
}

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::filesystem::path& path) {
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return SystemError("Cannot open", path);
  ASSIGN_OR_RETURN(const uint64_t byte_count, RegularFileBytes(fd.get(), path.string()));
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path.string();
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) return SystemError("Cannot stat", path);
  file->stamp_ = {info.st_dev, info.st_ino, byte_count, NanosecondsOf(info.st_mtim),
                  NanosecondsOf(info.st_ctim)};
  file->byte_count_ = byte_count;
  if (byte_count > 0) {
    void* data = mmap(nullptr, byte_count, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) return SystemError("Cannot map", path);
    file->data_ = static_cast<const uint8_t*>(data);
  }
  return std::shared_ptr<const MappedFile>(std::move(file));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), byte_count_);
}

void BringIntoMemory(ByteSpan mapped) {
  if (mapped.empty()) return;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t offset = reinterpret_cast<uintptr_t>(mapped.data()) % page;
  uint8_t* const first = const_cast<uint8_t*>(mapped.data()) - offset;  // NOLINT: for the C call
  const size_t byte_count = mapped.size() + offset;
#ifdef MADV_POPULATE_READ
  if (madvise(first, byte_count, MADV_POPULATE_READ) == 0) return;
  if (errno != EINVAL) return;
#endif
  // Linux before 5.14 only knows how to be told in advance; touching every page waits for the disk.
  madvise(first, byte_count, MADV_WILLNEED);
  for (size_t at = 0; at < byte_count; at += page) {
    static_cast<void>(*const_cast<const volatile uint8_t*>(first + at));
  }
}

}  // namespace weft
