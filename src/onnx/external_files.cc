#include "onnx/external_files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/source_file.h"
#include "onnx/validate.h"

namespace weft::onnx {
namespace {

Error Denied(const std::string& location, std::string_view why) {
  return Error(ErrorCode::kPermissionDenied,
               "The external data file " + Quoted(location) + " " + std::string(why) + ".");
}

// The part of the check that needs no file system, so that sentences are exact and old kernels are
// covered.
Status CheckSpelling(const std::string& location) {
  if (location.empty()) return Error(ErrorCode::kInvalidData, "An external location is empty.");
  if (location.size() > 1024) return Denied(location, "has a name longer than 1024 bytes");
  if (location.find('\0') != std::string::npos) return Denied(location, "has a zero byte in it");
  if (location.front() == '/') {
    return Denied(location, "is an absolute path; it must lie in the model's folder");
  }
  std::string_view rest = location;
  while (!rest.empty()) {
    const size_t slash = rest.find('/');
    if (rest.substr(0, slash) == "..") {
      return Denied(location, "has '..' in it; it must lie in the model's folder");
    }
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  }
  return OkStatus();
}

// For kernels without openat2: one component after the other, no symbolic links at all.
Descriptor OpenWithoutLinks(int folder_fd, std::string_view location) {
  Descriptor folder(dup(folder_fd));
  while (true) {
    const size_t slash = location.find('/');
    const std::string part(location.substr(0, slash));
    const bool last = slash == std::string_view::npos;
    if (!part.empty() || last) {
      const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY);
      Descriptor next(openat(folder.get(), part.c_str(), flags));
      if (last || !next.is_open()) return next;
      folder = std::move(next);
    }
    location.remove_prefix(slash + 1);
  }
}

Descriptor OpenBeneath(int folder_fd, const std::string& location) {
  open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // never wait for a named pipe
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const auto fd = syscall(SYS_openat2, folder_fd, location.c_str(), &how, sizeof(how));
  if (fd < 0 && errno == ENOSYS) return OpenWithoutLinks(folder_fd, location);
  return Descriptor(static_cast<int>(fd));
}

// The name of a blob: SHA-256 in hex.
bool IsDigest(const std::string& location) {
  return location.size() == 64 &&
         location.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Error OpenError(const std::string& location, int number) {
  if (number == EXDEV || number == ELOOP) {
    return Denied(location,
                  "leads out of the model's folder through a link; copy the file into the folder");
  }
  const ErrorCode code = number == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return Error(code, "Cannot open the external data file " + Quoted(location) + ": " +
                         std::strerror(number) + ".");
}

}  // namespace

ExternalFiles::ExternalFiles(std::filesystem::path folder, bool allow_hard_links)
    : folder_(std::move(folder)), allow_hard_links_(allow_hard_links) {}

Result<Slice> ExternalFiles::Open(const std::string& location) {
  if (const auto it = open_.find(location); it != open_.end()) return it->second;
  ASSIGN_OR_RETURN(Slice slice, Map(location));
  open_.emplace(location, slice);
  return slice;
}

std::string ExternalFiles::Version() const {
  std::string version;
  for (const auto& [location, slice] : open_) {
    version += location + '=' + FileVersion(folder_ / location) + ' ';
  }
  return version;
}

// A link of a snapshot that leads to another place of its repository. Not open: errno says why.
Descriptor ExternalFiles::OpenInCache(const std::string& location) const {
  std::error_code failure;
  const std::filesystem::path home =
      std::filesystem::canonical(folder_.empty() ? "." : folder_, failure);
  const std::filesystem::path repository =
      failure ? std::filesystem::path() : CacheRepositoryOf(home);
  errno = EXDEV;
  if (repository.empty()) return {};
  const Descriptor root(open(repository.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.is_open()) return {};
  return OpenBeneath(root.get(), (home.lexically_relative(repository) / location).string());
}

Result<Slice> ExternalFiles::Map(const std::string& location) {
  TRY(CheckSpelling(location));
  if (!root_.is_open()) {
    const std::filesystem::path folder = folder_.empty() ? "." : folder_;
    root_ = Descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root_.is_open()) return OpenError(folder.string(), errno);
  }
  Descriptor fd = OpenBeneath(root_.get(), location);
  if (!fd.is_open() && errno == ENOENT && IsDigest(location)) {
    fd = OpenBeneath(root_.get(), "blobs/" + location);  // the graph of a model package
  }
  if (!fd.is_open() && errno == EXDEV) fd = OpenInCache(location);
  if (!fd.is_open()) return OpenError(location, errno);
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) return OpenError(location, errno);
  if (!S_ISREG(info.st_mode)) return Denied(location, "is not a regular file");
  if (info.st_nlink > 1 && !allow_hard_links_) {
    return Denied(location, "has " + std::to_string(info.st_nlink) +
                                " hard links and may be a file from elsewhere; copy it");
  }
  const auto byte_count = static_cast<size_t>(info.st_size);
  if (byte_count == 0) return Slice();
  void* data = mmap(nullptr, byte_count, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return OpenError(location, errno);
  std::shared_ptr<const void> owner(
      data, [byte_count](const void* mapped) { munmap(const_cast<void*>(mapped), byte_count); });
  return Slice(std::move(owner), {static_cast<const uint8_t*>(data), byte_count});
}

}  // namespace weft::onnx
