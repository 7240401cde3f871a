// The page's files (web/dist), mapped once at start, served with validators, precompressed forms
// and the security headers of SECURITY.md 8.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/result.h"
#include "net/http.h"

namespace weft::server {

class StaticFiles {
 public:
  // `root` holds index.html, assets/... and their .br and .gz forms. Paths outside it cannot be
  // named: only files found here at start are served.
  static Result<StaticFiles> Load(const std::filesystem::path& root);

  // nullopt when there is no such file. "/" and the page's own routes give index.html.
  std::optional<net::HttpResponse> Answer(const net::HttpRequest& request) const;

 private:
  struct File {
    std::shared_ptr<const MappedFile> plain, br, gzip;
    std::string etag;
    std::string content_type;
    bool immutable = false;
  };
  std::map<std::string, File> files_;  // by URL path
};

// Headers for everything that a browser may show or run.
void AddSecurityHeaders(net::HttpResponse& response);

// Serves a range or the whole of an immutable or plain resource: ETag, If-None-Match, Range, 206,
// 304, 416.
net::HttpResponse RangedResponse(const net::HttpRequest& request, const Slice& bytes,
                                 const std::string& etag, const std::string& content_type,
                                 bool immutable);

}  // namespace weft::server
