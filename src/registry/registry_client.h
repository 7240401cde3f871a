// The registry's HTTP API: what a repository holds, a file's hash and length, a file's bytes.
// The token goes to the registry and to no other host. Not thread-safe: every thread has its own.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "registry/content_hash.h"
#include "registry/http_connections.h"
#include "registry/registry_failure.h"
#include "registry/registry_replies.h"
#include "registry/registry_settings.h"

namespace weft::registry {

// Bytes [first, end) of a file.
struct ByteRange {
  uint64_t first = 0;
  uint64_t end = 0;
};

class RegistryClient {
 public:
  // `settings` and `cancelled` outlive the client.
  RegistryClient(const RegistrySettings& settings, const std::atomic<bool>& cancelled);

  // Gives nullopt when it is done and the results are filled in.
  std::optional<Failure> List(const std::string& repository, const std::string& revision,
                              RepositoryListing* listing);
  std::optional<Failure> Look(const std::string& repository, const std::string& commit,
                              const std::string& name, RemoteFile* file);
  // Bytes of the file. `on_start` is told where they begin: where they were asked for, or at 0 (and
  // they go to the file's end) when the server does not serve ranges. `on_data` stops the transfer
  // by returning false.
  std::optional<Failure> Fetch(const std::string& repository, const std::string& commit,
                               const RemoteFile& file, const ByteRange& range,
                               const std::function<Status(uint64_t)>& on_start,
                               const std::function<bool(ByteSpan)>& on_data);

 private:
  net::Url At(const std::string& path) const;
  Result<net::HttpReply> Send(Request request);

  const RegistrySettings& settings_;
  HttpConnections connections_;
};

}  // namespace weft::registry
