#include "cluster_host/cluster_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/file.h"
#include "base/random.h"
#include "base/sentence.h"

namespace weft::cluster_host {
namespace {

constexpr uint64_t kMostKeyBytes = 4096;

Sha256Digest Mac(ByteSpan key, std::string_view text) {
  return HmacSha256(key, AsBytes(text));
}

// Eight bytes, so that no two lists of parts are the same text.
std::string Counted(std::string_view part) {
  std::array<uint8_t, 8> length{};
  StoreLe<uint64_t>(length.data(), part.size());
  return std::string(AsText(length)) + std::string(part);
}

}  // namespace

ClusterKey ClusterKey::Random() {
  std::array<uint8_t, 32> bytes{};
  SecureRandomBytes(bytes);
  return ClusterKey(bytes);
}

Result<ClusterKey> ClusterKey::Read(const std::filesystem::path& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return SystemError("Cannot read the cluster's key", path);
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return Error(ErrorCode::kInvalidArgument,
                 Sentence("Others may read the cluster's key '", path.string(),
                          "': run `chmod 600 ", path.string(), "`."));
  ASSIGN_OR_RETURN(std::string text, ReadTextFile(path, kMostKeyBytes));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  const auto bytes = FromHex(text);
  ClusterKey key({});
  if (!bytes || bytes->size() != key.bytes_.size())
    return Error(ErrorCode::kInvalidArgument,
                 Sentence("'", path.string(),
                          "' is no cluster's key; expected 64 hex digits. Copy the file that `weft "
                          "cluster init` wrote."));
  std::ranges::copy(*bytes, key.bytes_.begin());
  return key;
}

Status ClusterKey::WriteNew(const std::filesystem::path& path) const {
  std::error_code failed;
  std::filesystem::create_directories(path.parent_path(), failed);
  const int made = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (made < 0 && errno == EEXIST)
    return Error(ErrorCode::kAlreadyExists,
                 Sentence("There is a file '", path.string(), "' already."));
  if (made < 0) return SystemError("Cannot make the cluster's key", path);
  const Descriptor file(made);
  const std::string text = ToHex(bytes_) + "\n";
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      fsync(file.get()) != 0)
    return SystemError("Cannot write the cluster's key", path);
  return OkStatus();
}

std::string ClusterKey::Derive(std::string_view purpose) const {
  return ToHex(Mac(bytes_, "weft " + std::string(purpose)));
}

std::vector<uint8_t> ClusterKey::Check() const {
  const Sha256Digest mac = Mac(bytes_, "weft cluster check");
  return {mac.begin(), mac.end()};
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
