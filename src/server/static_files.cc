#include "server/static_files.h"

#include <charconv>
#include <optional>

#include "base/sha256.h"

namespace weft::server {
namespace {

constexpr std::pair<const char*, const char*> kContentTypes[] = {
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".mjs", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".json", "application/json"},
    {".wasm", "application/wasm"},
    {".svg", "image/svg+xml"},
    {".png", "image/png"},
    {".ico", "image/x-icon"},
    {".webmanifest", "application/manifest+json"},
    {".txt", "text/plain; charset=utf-8"},
};

std::string ContentType(const std::filesystem::path& path) {
  for (const auto& [extension, type] : kContentTypes) {
    if (path.extension() == extension) return type;
  }
  return "application/octet-stream";
}

bool Accepts(const net::HttpRequest& request, std::string_view encoding) {
  return request.Header("accept-encoding").find(encoding) != std::string_view::npos;
}

struct ByteRange {
  uint64_t first = 0;
  uint64_t end = 0;
};

// "bytes=a-b", "bytes=a-", "bytes=-n" within `total`. nullopt: not satisfiable or not of this form.
std::optional<ByteRange> ParseRange(std::string_view header, uint64_t total) {
  constexpr std::string_view kUnit = "bytes=";
  if (!header.starts_with(kUnit)) return std::nullopt;
  header.remove_prefix(kUnit.size());
  const size_t dash = header.find('-');
  if (dash == std::string_view::npos || header.find(',') != std::string_view::npos) {
    return std::nullopt;
  }
  const auto number = [](std::string_view text) -> std::optional<uint64_t> {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
  };
  const std::string_view first_text = header.substr(0, dash);
  const std::string_view last_text = header.substr(dash + 1);
  if (first_text.empty()) {
    const auto count = number(last_text);
    if (!count || *count == 0 || total == 0) return std::nullopt;
    return ByteRange{total - std::min(*count, total), total};
  }
  const auto first = number(first_text);
  const auto last = last_text.empty() ? std::optional<uint64_t>(total - 1) : number(last_text);
  if (!first || !last || *first >= total || *last < *first) return std::nullopt;
  return ByteRange{*first, std::min(*last, total - 1) + 1};
}

}  // namespace

net::HttpResponse RangedResponse(const net::HttpRequest& request, const Slice& bytes,
                                 const std::string& etag, const std::string& content_type,
                                 bool immutable) {
  net::HttpResponse response;
  response.headers = {
      {"ETag", etag},
      {"Accept-Ranges", "bytes"},
      {"Content-Type", content_type},
      {"Cache-Control", immutable ? "public, max-age=31536000, immutable" : "no-cache"}};
  if (request.Header("if-none-match") == etag) {
    response.status = 304;
    return response;
  }
  const std::string_view range_header = request.Header("range");
  const bool stale_range =
      !request.Header("if-range").empty() && request.Header("if-range") != etag;
  if (range_header.empty() || stale_range) {
    response.body.push_back(bytes);
    return response;
  }
  const uint64_t total = bytes.byte_count();
  const auto range = ParseRange(range_header, total);
  if (!range) {
    response.status = 416;
    response.headers.emplace_back("Content-Range", "bytes */" + std::to_string(total));
    return response;
  }
  response.status = 206;
  response.headers.emplace_back("Content-Range", "bytes " + std::to_string(range->first) + "-" +
                                                     std::to_string(range->end - 1) + "/" +
                                                     std::to_string(total));
  response.body.push_back(bytes.Sub(range->first, range->end - range->first));
  return response;
}

Result<StaticFiles> StaticFiles::Load(const std::filesystem::path& root) {
  if (!std::filesystem::exists(root / "index.html")) {
    return Error(ErrorCode::kNotFound,
                 "There is no page at '" + root.string() +
                     "' (index.html is missing). Build it with './dev build', "
                     "or name its folder with --web-root.");
  }
  StaticFiles loaded;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const auto& path = entry.path();
    if (!entry.is_regular_file() || path.extension() == ".br" || path.extension() == ".gz")
      continue;
    File file;
    ASSIGN_OR_RETURN(file.plain, MappedFile::Open(path));
    if (std::filesystem::exists(path.string() + ".br")) {
      ASSIGN_OR_RETURN(file.br, MappedFile::Open(path.string() + ".br"));
    }
    if (std::filesystem::exists(path.string() + ".gz")) {
      ASSIGN_OR_RETURN(file.gzip, MappedFile::Open(path.string() + ".gz"));
    }
    const std::string url = "/" + std::filesystem::relative(path, root).generic_string();
    file.etag = "\"" + ToHex(Sha256(file.plain->bytes())).substr(0, 32) + "\"";
    file.content_type = ContentType(path);
    file.immutable = url.starts_with("/assets/");  // Vite puts a content hash into these names
    loaded.files_.emplace(url, std::move(file));
  }
  for (const char* route : {"/", "/join", "/chat", "/swarm"}) {
    loaded.files_[route] = loaded.files_.at("/index.html");
  }
  return loaded;
}

std::vector<std::string> StaticFiles::Paths() const {
  std::vector<std::string> paths;
  for (const auto& [path, file] : files_) paths.push_back(path);
  return paths;
}

net::HttpResponse StaticFiles::Answer(const net::HttpRequest& request) const {
  const File& file = files_.at(request.path);
  auto bytes = file.plain;
  const char* encoding = nullptr;
  if (file.br && Accepts(request, "br")) {
    bytes = file.br;
    encoding = "br";
  } else if (file.gzip && Accepts(request, "gzip")) {
    bytes = file.gzip;
    encoding = "gzip";
  }
  net::HttpRequest whole = request;  // ranges of compressed forms mean nothing to clients
  std::erase_if(whole.headers, [](const auto& header) { return header.first == "range"; });
  net::HttpResponse response =
      RangedResponse(whole, AsSlice(bytes), file.etag, file.content_type, file.immutable);
  if (encoding != nullptr) response.headers.emplace_back("Content-Encoding", encoding);
  response.headers.emplace_back("Vary", "Accept-Encoding");
  return response;
}

}  // namespace weft::server
