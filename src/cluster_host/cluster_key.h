// ClusterKey: the secret that the servers of a cluster share, a file on each of them. It is never
// in the database. Everything that follows from it is an HMAC, so that none of it tells the key.
//
//   cluster.key    64 hex digits and a line's end, its owner's alone (0600)
//
// While a key is exchanged for another one the file has both, a line each. The database says which
// of them counts (cluster_tables.h).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "cluster/ids.h"

namespace weft::cluster_host {

class ClusterKey {
 public:
  static ClusterKey Random();
  // One or two keys. kNotFound: there is no such file. kInvalidArgument: it has no key, or others
  // may read it. kIo.
  static Result<std::vector<ClusterKey>> Read(const std::filesystem::path& path);
  // Makes the file, with the folders above it. kAlreadyExists: it is there. kPermissionDenied, kIo.
  Status WriteNew(const std::filesystem::path& path) const;
  // Puts these into the place of those that the file has. kPermissionDenied, kIo.
  static Status Replace(const std::filesystem::path& path, const std::vector<ClusterKey>& keys);

  // By which the database's tables tell whose they are.
  std::vector<uint8_t> Check() const;
  // The first bytes of it: by these, two servers find a key that both have.
  std::string Name() const;
  // Of the seeds of keyed requests: every server gives such a request the same seed.
  std::string SeedKey() const;
  // Secrets that all servers let in, where their owner has chosen none: 32 hex digits.
  std::string JoinToken() const { return Derive("join token").substr(0, 32); }
  std::string ApiKey() const { return Derive("api key").substr(0, 32); }

  // One end of a link between servers, as both ends see it.
  struct LinkEnd {
    cluster::ServerId server;
    std::string nonce;  // of this link
  };
  // What `from` shows `to` in order to prove that it has the key. `dialled`: `from` has opened the
  // link; so what one end says is never what the other one has to say.
  Sha256Digest Prove(const LinkEnd& from, const LinkEnd& to, bool dialled) const;

 private:
  explicit ClusterKey(std::array<uint8_t, 32> bytes) : bytes_(bytes) {}
  std::string Derive(std::string_view purpose) const;

  std::array<uint8_t, 32> bytes_;
};

}  // namespace weft::cluster_host
