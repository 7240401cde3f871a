#include "convert/package/package_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/random.h"

namespace weft::convert {
namespace {

namespace fs = std::filesystem;

Error IoError(const std::string& what, const fs::path& path, const std::string& why) {
  return Error(ErrorCode::kIo, what + " '" + path.string() + "': " + why + ".");
}

// A path without trailing slashes, so that ".partial" can be appended.
fs::path Normal(const fs::path& path) {
  fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

Status CheckDestination(const fs::path& package, bool replace) {
  std::error_code failure;
  if (!fs::exists(fs::symlink_status(package, failure))) return OkStatus();
  if (fs::is_directory(package, failure) && fs::is_empty(package, failure)) return OkStatus();
  const bool is_package = fs::exists(package / "weft.json", failure);
  if (is_package && replace) return OkStatus();
  return Error(ErrorCode::kAlreadyExists,
               "'" + package.string() + "' exists" +
                   (is_package ? "; use --force to replace the package."
                               : " and is not a model package, so that it is not replaced."));
}

// An interrupted run leaves its blobs and journal to the next one, nothing else: least of all a
// weft.json.
void RemoveOldFiles(const fs::path& partial) {
  std::error_code ignored;
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(partial, ignored)) {
    const fs::path name = entry.path().filename();
    if (name != "blobs" && name != "convert.journal") old.push_back(entry.path());
  }
  for (const fs::path& path : old) fs::remove_all(path, ignored);
}

}  // namespace

Result<PackageFolder> PackageFolder::Open(const fs::path& package, bool replace) {
  PackageFolder folder;
  folder.package_ = Normal(package);
  if (!folder.package_.has_filename()) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + package.string() + "' is no name for a package.");
  }
  TRY(CheckDestination(folder.package_, replace));
  folder.partial_ = folder.package_.string() + ".partial";
  std::error_code failure;
  fs::create_directories(folder.partial_, failure);
  if (failure) return IoError("Cannot create", folder.partial_, failure.message());
  folder.lock_ =
      Descriptor(open(folder.partial_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder.lock_.is_open()) return IoError("Cannot open", folder.partial_, std::strerror(errno));
  if (flock(folder.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error(ErrorCode::kUnavailable,
                 "Another process is writing '" + folder.partial_.string() + "'.");
  }
  RemoveOldFiles(folder.partial_);
  fs::create_directories(folder.partial_ / "blobs", failure);
  if (failure) return IoError("Cannot create", folder.partial_ / "blobs", failure.message());
  return folder;
}

Status PackageFolder::Publish() {
  std::error_code failure;
  const fs::path old = package_.string() + ".old-" + SecureRandomHex(4);
  const bool had_old = fs::exists(fs::symlink_status(package_, failure));
  if (had_old) {
    fs::rename(package_, old, failure);
    if (failure) return IoError("Cannot move away", package_, failure.message());
  }
  fs::rename(partial_, package_, failure);
  if (failure) {
    const std::string why = failure.message();
    if (had_old) fs::rename(old, package_, failure);
    return IoError("Cannot rename to", package_, why);
  }
  if (had_old) fs::remove_all(old, failure);  // the new package stands whether or not this works
  return OkStatus();
}

}  // namespace weft::convert
