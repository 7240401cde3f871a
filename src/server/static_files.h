// The page's files (web/dist), mapped once at start, served with validators and precompressed
// forms.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "net/http.h"

namespace weft::server {

class StaticFiles {
 public:
  // `root` holds index.html, assets/... and their .br and .gz forms. Paths outside it cannot be
  // named: only files found here at start are served.
  static Result<StaticFiles> Load(const std::filesystem::path& root);

  // Of URLs: those of the files, "/" and the page's own routes, which give index.html.
  std::vector<std::string> Paths() const;
  // The request's path is one of Paths().
  net::HttpResponse Answer(const net::HttpRequest& request) const;

 private:
  struct File {
    std::shared_ptr<const MappedFile> plain, br, gzip;
    std::string etag;
    std::string content_type;
    bool immutable = false;
  };
  std::map<std::string, File> files_;  // by URL path
};

enum class Caching {
  kAskAgain,         // each time, with the ETag
  kForever,          // by anybody: what stands there never changes
  kForeverByClient,  // not by caches that serve others: it is behind a secret
};

// Serves a range or the whole of a resource: If-Match, If-None-Match, If-Range, Range; 206, 304,
// 412, 416. Of several ranges at once it gives the whole.
net::HttpResponse RangedResponse(const net::HttpRequest& request, const Slice& bytes,
                                 const std::string& etag, const std::string& content_type,
                                 Caching caching);

}  // namespace weft::server
