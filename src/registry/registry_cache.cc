#include "registry/registry_cache.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/file.h"
#include "base/random.h"
#include "registry/model_reference.h"

namespace weft::registry {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxRangesBytes = 16 << 20;

Error IoError(const std::string& what, const fs::path& path, const std::error_code& why) {
  return Error(ErrorCode::kIo, what + " '" + path.string() + "': " + why.message() + ".");
}

Status MakeFolder(const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) return IoError("Cannot make the folder", folder, failure);
  return OkStatus();
}

std::string FolderName(std::string repository) {
  for (size_t at; (at = repository.find('/')) != std::string::npos;)
    repository.replace(at, 1, "--");
  return "models--" + repository;
}

// Paths of all regular files and links below `folder`; empty when there is none.
std::vector<fs::path> FilesBelow(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failure;
  fs::recursive_directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    if (entry->is_symlink() || entry->is_regular_file()) files.push_back(entry->path());
  }
  return files;
}

// Names of the blobs that the links below a snapshot lead to.
std::set<std::string> BlobsOf(const fs::path& snapshot) {
  std::set<std::string> blobs;
  std::error_code failure;
  for (const fs::path& file : FilesBelow(snapshot)) {
    const fs::path target = fs::read_symlink(file, failure);
    if (!failure) blobs.insert(target.filename().string());
  }
  return blobs;
}

}  // namespace

RegistryCache::RegistryCache(fs::path root, const std::string& repository)
    : root_(std::move(root)), folder_name_(FolderName(repository)), folder_(root_ / folder_name_) {}

fs::path RegistryCache::BlobPath(const ContentName& content) const {
  return folder_ / "blobs" / content.hex();
}
fs::path RegistryCache::IncompletePath(const ContentName& content) const {
  return folder_ / "blobs" / (content.hex() + ".incomplete");
}
fs::path RegistryCache::RangesPath(const ContentName& content) const {
  return folder_ / "blobs" / (content.hex() + ".ranges");
}
fs::path RegistryCache::RangesDonePath(const ContentName& content) const {
  return folder_ / "blobs" / (content.hex() + ".ranges.done");
}
fs::path RegistryCache::LockPath(const ContentName& content) const {
  return root_ / ".locks" / folder_name_ / (content.hex() + ".lock");
}
fs::path RegistryCache::SnapshotPath(const std::string& commit) const {
  return folder_ / "snapshots" / commit;
}

Status RegistryCache::Prepare() const {
  TRY(MakeFolder(folder_ / "blobs"));
  TRY(MakeFolder(folder_ / "refs"));
  TRY(MakeFolder(folder_ / "snapshots"));
  return MakeFolder(root_ / ".locks" / folder_name_);
}

bool RegistryCache::HasBlob(const ContentName& content, uint64_t byte_count) const {
  std::error_code failure;
  const uint64_t bytes = fs::file_size(BlobPath(content), failure);
  return !failure && bytes == byte_count;
}

uint64_t RegistryCache::IncompleteBytes(const ContentName& content, uint64_t byte_count) const {
  uint64_t ranges_bytes = 0;
  if (const auto ranges = ReadRanges(*this, content, byte_count)) {
    for (const uint64_t done : ranges->done_bytes) ranges_bytes += done;
  }
  std::error_code failure;
  const uint64_t bytes = fs::file_size(IncompletePath(content), failure);
  return std::max(ranges_bytes, failure ? 0 : bytes);
}

Status RegistryCache::Link(const std::string& commit, const std::string& name,
                           const ContentName& content) const {
  const fs::path link = SnapshotPath(commit) / name;
  TRY(MakeFolder(link.parent_path()));
  fs::path target = fs::path("..") / "..";
  for (const char c : name) target /= c == '/' ? ".." : "";
  target = (target / "blobs" / content.hex()).lexically_normal();
  std::error_code failure;
  if (fs::read_symlink(link, failure) == target) return OkStatus();
  const fs::path beside = link.string() + ".tmp-" + SecureRandomHex(4);
  fs::create_symlink(target, beside, failure);
  if (failure) return IoError("Cannot make the link", beside, failure);
  fs::rename(beside, link, failure);
  if (failure) {
    const std::error_code why = failure;
    fs::remove(beside, failure);
    return IoError("Cannot make the link", link, why);
  }
  return OkStatus();
}

Status RegistryCache::WriteRef(const std::string& revision, const std::string& commit) const {
  if (revision == commit) return OkStatus();
  const fs::path ref = folder_ / "refs" / revision;
  TRY(MakeFolder(ref.parent_path()));
  return WriteFileAtomically(ref, AsBytes(commit));
}

std::optional<std::string> RegistryCache::ReadRef(const std::string& revision) const {
  std::error_code failure;
  if (IsCommitHash(revision) && fs::is_directory(SnapshotPath(revision), failure)) return revision;
  const auto text = ReadTextFile(folder_ / "refs" / revision, 1024);
  if (!text.ok()) return {};
  const std::string commit = text->substr(0, text->find_last_not_of(" \r\n") + 1);
  if (!IsCommitHash(commit)) return {};
  return commit;
}

std::vector<std::string> RegistryCache::SnapshotFiles(const std::string& commit) const {
  const fs::path snapshot = SnapshotPath(commit);
  std::vector<std::string> names;
  std::error_code failure;
  for (const fs::path& file : FilesBelow(snapshot)) {
    if (fs::is_regular_file(file, failure)) {
      names.push_back(file.lexically_relative(snapshot).generic_string());
    }
  }
  return names;
}

Result<uint64_t> RegistryCache::RemoveSnapshot(const std::string& commit) const {
  std::error_code failure;
  std::set<std::string> kept;
  bool is_last = true;
  for (const auto& entry : fs::directory_iterator(folder_ / "snapshots", failure)) {
    if (entry.path().filename() == commit) continue;
    is_last = false;
    kept.merge(BlobsOf(entry.path()));
  }
  uint64_t freed = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "blobs", failure)) {
    const std::string name = entry.path().filename().string();
    const bool is_ours = is_last || BlobsOf(SnapshotPath(commit)).contains(name);
    if (!is_ours || kept.contains(name)) continue;
    const uint64_t byte_count = fs::file_size(entry.path(), failure);
    if (failure) continue;
    fs::remove(entry.path(), failure);
    if (failure) return IoError("Cannot remove", entry.path(), failure);
    freed += byte_count;
  }
  fs::remove_all(SnapshotPath(commit), failure);
  if (failure) return IoError("Cannot remove", SnapshotPath(commit), failure);
  for (const fs::path& ref : FilesBelow(folder_ / "refs")) {
    const auto text = ReadTextFile(ref, 1024);
    if (text.ok() && text->starts_with(commit)) fs::remove(ref, failure);
  }
  if (is_last) {
    fs::remove_all(folder_, failure);
    if (failure) return IoError("Cannot remove", folder_, failure);
    fs::remove_all(root_ / ".locks" / folder_name_, failure);
  }
  return freed;
}

std::optional<RangesDone> ReadRanges(const RegistryCache& cache, const ContentName& content,
                                     uint64_t byte_count) {
  std::error_code failure;
  if (!fs::exists(cache.RangesPath(content), failure)) return {};
  const auto text = ReadTextFile(cache.RangesDonePath(content), kMaxRangesBytes);
  constexpr size_t kHeaderBytes = 2 * sizeof(uint64_t);
  if (!text.ok() || text->size() < kHeaderBytes || text->size() % sizeof(uint64_t) != 0) return {};
  std::vector<uint64_t> numbers(text->size() / sizeof(uint64_t));
  std::memcpy(numbers.data(), text->data(), text->size());
  RangesDone ranges{numbers[1], {numbers.begin() + 2, numbers.end()}};
  if (numbers[0] != byte_count || ranges.range_bytes == 0) return {};
  const uint64_t count =
      byte_count / ranges.range_bytes + (byte_count % ranges.range_bytes > 0 ? 1 : 0);
  if (ranges.done_bytes.size() != count) return {};
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t begin = i * ranges.range_bytes;
    if (ranges.done_bytes[i] > std::min(ranges.range_bytes, byte_count - begin)) return {};
  }
  return ranges;
}

Result<uint64_t> FreeBytesAt(fs::path path) {
  std::error_code failure;
  path = fs::absolute(path, failure);
  while (!fs::exists(path, failure) && path.has_relative_path()) path = path.parent_path();
  const fs::space_info space = fs::space(path, failure);
  if (failure) return IoError("Cannot find out what is free at", path, failure);
  return static_cast<uint64_t>(space.available);
}

}  // namespace weft::registry
