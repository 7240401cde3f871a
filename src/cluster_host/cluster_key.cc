#include "cluster_host/cluster_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/file.h"
#include "base/random.h"
#include "base/sentence.h"

namespace weft::cluster_host {
namespace {

constexpr uint64_t kMostKeyBytes = 4096;
constexpr size_t kMostKeys = 2;
constexpr size_t kNameBytes = 8;

Sha256Digest Mac(ByteSpan key, std::string_view text) {
  return HmacSha256(key, AsBytes(text));
}

// Eight bytes, so that no two lists of parts are the same text.
std::string Counted(std::string_view part) {
  std::array<uint8_t, 8> length{};
  StoreLe<uint64_t>(length.data(), part.size());
  return std::string(AsText(length)) + std::string(part);
}

// A file of its owner's alone, which is this user or the one that is named.
Status WriteText(const std::filesystem::path& path, const std::string& text,
                 std::optional<std::pair<uid_t, gid_t>> owner) {
  const int made = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (made < 0 && errno == EEXIST)
    return Error(ErrorCode::kAlreadyExists,
                 Sentence("There is a file '", path.string(), "' already."));
  if (made < 0) return SystemError("Cannot make the cluster's key", path);
  const Descriptor file(made);
  if (owner && fchown(made, owner->first, owner->second) != 0)
    return SystemError("Cannot keep the owner of the cluster's key", path);
  if (write(made, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      fsync(made) != 0)
    return SystemError("Cannot write the cluster's key", path);
  return OkStatus();
}

}  // namespace

ClusterKey ClusterKey::Random() {
  std::array<uint8_t, 32> bytes{};
  SecureRandomBytes(bytes);
  return ClusterKey(bytes);
}

Result<std::vector<ClusterKey>> ClusterKey::Read(const std::filesystem::path& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return SystemError("Cannot read the cluster's key", path);
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return Error(ErrorCode::kInvalidArgument,
                 Sentence("Others may read the cluster's key '", path.string(),
                          "': run `chmod 600 ", path.string(), "`."));
  ASSIGN_OR_RETURN(std::string text, ReadTextFile(path, kMostKeyBytes));
  std::vector<ClusterKey> keys;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const auto bytes = FromHex(line);
    ClusterKey key({});
    if (!bytes || bytes->size() != key.bytes_.size() || keys.size() == kMostKeys) {
      keys.clear();
      break;
    }
    std::ranges::copy(*bytes, key.bytes_.begin());
    keys.push_back(key);
  }
  if (!keys.empty()) return keys;
  return Error(ErrorCode::kInvalidArgument,
               Sentence("'", path.string(),
                        "' is no cluster's key; expected 64 hex digits, or two lines of them. Copy "
                        "the file that `weft cluster init` wrote."));
}

Status ClusterKey::WriteNew(const std::filesystem::path& path) const {
  std::error_code failed;
  std::filesystem::create_directories(path.parent_path(), failed);
  return WriteText(path, ToHex(bytes_) + "\n", std::nullopt);
}

Status ClusterKey::Replace(const std::filesystem::path& path, const std::vector<ClusterKey>& keys) {
  std::string text;
  for (const ClusterKey& key : keys) text += ToHex(key.bytes_) + "\n";
  struct stat before = {};
  if (stat(path.c_str(), &before) != 0)
    return SystemError("Cannot replace the cluster's key", path);
  const std::filesystem::path beside = path.string() + ".tmp-" + SecureRandomHex(4);
  Status written = WriteText(beside, text, std::pair(before.st_uid, before.st_gid));
  if (written.ok() && rename(beside.c_str(), path.c_str()) != 0)
    written = SystemError("Cannot replace the cluster's key", path);
  if (!written.ok()) unlink(beside.c_str());
  return written;
}

std::string ClusterKey::Derive(std::string_view purpose) const {
  return ToHex(Mac(bytes_, "weft " + std::string(purpose)));
}

std::vector<uint8_t> ClusterKey::Check() const {
  const Sha256Digest mac = Mac(bytes_, "weft cluster check");
  return {mac.begin(), mac.end()};
}

std::string ClusterKey::Name() const {
  return std::string(AsText(Check()).substr(0, kNameBytes));
}

std::string ClusterKey::SeedKey() const {
  return Derive("seeds of requests");
}

Sha256Digest ClusterKey::Prove(const LinkEnd& from, const LinkEnd& to, bool dialled) const {
  std::string text = Counted("weft cluster link") + (dialled ? "d" : "a");
  for (const LinkEnd* end : {&from, &to})
    text += Counted(ToString(end->server)) + Counted(end->nonce);
  return Mac(bytes_, text);
}

}  // namespace weft::cluster_host
