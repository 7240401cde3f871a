// A worker's package source over HTTP: the /package routes of its servers, with a cache of blobs by
// digest on disk. What the server that the worker is connected to cannot give is asked of the next
// one of the list: digests tell whether it is right.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "apps/server_list.h"
#include "worker/package_source.h"

namespace weft::apps {

struct HttpSourceOptions {
  std::shared_ptr<ServerList> servers;
  std::string join_token;
  std::filesystem::path cache_folder;
  bool verify = false;  // all that is in the cache, also files that did not change
};

Result<std::shared_ptr<worker::PackageSource>> MakeHttpSource(const HttpSourceOptions& options);

// $XDG_CACHE_HOME/weft or ~/.cache/weft.
std::filesystem::path DefaultCacheFolder();

}  // namespace weft::apps
