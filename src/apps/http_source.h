// A worker's package source over HTTP: the server's /package routes, with a cache of blobs by
// digest on disk.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "net/client.h"
#include "worker/package_source.h"

namespace weft::apps {

struct HttpSourceOptions {
  net::Url server;
  net::ClientTls tls;
  std::string join_token;
  std::filesystem::path cache_folder;
  bool verify = false;  // all that is in the cache, also files that did not change
};

Result<std::shared_ptr<worker::PackageSource>> MakeHttpSource(const HttpSourceOptions& options);

// $XDG_CACHE_HOME/weft or ~/.cache/weft.
std::filesystem::path DefaultCacheFolder();

}  // namespace weft::apps
