#include "server/static_files.h"

#include <charconv>
#include <optional>

#include "base/sha256.h"
#include "net/http_fields.h"

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

struct ByteRange {
  uint64_t first = 0;
  uint64_t end = 0;
};

enum class RangeKind { kNone, kOne, kUnsatisfiable };

// Vite puts a hash of the content into the names of /assets/: what one names never changes.
bool IsNamedByContent(std::string_view url) {
  return url.starts_with("/assets/");
}

// Where the name tells the content, the tag is of the name: a start then reads none of the 41 MB
// that onnxruntime-web has.
std::string EtagOf(const std::string& url, const MappedFile& file) {
  const auto digest = Sha256(IsNamedByContent(url) ? AsBytes(url) : file.bytes());
  return "\"" + ToHex(digest).substr(0, 32) + "\"";
}

// A number that fits into no 64 bits lies behind every resource.
std::optional<uint64_t> Position(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.empty()) return std::nullopt;
  return error == std::errc::result_out_of_range ? std::optional(UINT64_MAX) : value;
}

// "bytes=a-b", "bytes=a-", "bytes=-n" within `total`. Of other units, of several ranges and of what
// is none, the whole is sent (RFC 9110 14.2).
RangeKind ParseRange(std::string_view header, uint64_t total, ByteRange* range) {
  const size_t equals = header.find('=');
  if (equals == std::string_view::npos ||
      !net::EqualsIgnoringCase(net::Trimmed(header.substr(0, equals)), "bytes")) {
    return RangeKind::kNone;
  }
  const auto members = net::ListMembers(header.substr(equals + 1));
  if (members.size() != 1) return RangeKind::kNone;
  const size_t dash = members[0].find('-');
  if (dash == std::string_view::npos) return RangeKind::kNone;
  const std::string_view first_text = members[0].substr(0, dash);
  const std::string_view last_text = members[0].substr(dash + 1);
  const auto last = Position(last_text);
  if (first_text.empty()) {
    if (!last) return RangeKind::kNone;
    if (*last == 0 || total == 0) return RangeKind::kUnsatisfiable;
    *range = {total - std::min(*last, total), total};
    return RangeKind::kOne;
  }
  const auto first = Position(first_text);
  if (!first || (!last && !last_text.empty()) || (last && *last < *first)) return RangeKind::kNone;
  if (*first >= total) return RangeKind::kUnsatisfiable;
  *range = {*first, last ? std::min(*last, total - 1) + 1 : total};
  return RangeKind::kOne;
}

const char* CacheControl(Caching caching) {
  switch (caching) {
    case Caching::kForever:
      return "public, max-age=31536000, immutable";
    case Caching::kForeverByClient:
      return "private, max-age=31536000, immutable";
    case Caching::kAskAgain:
      break;
  }
  return "no-cache";
}

}  // namespace

net::HttpResponse RangedResponse(const net::HttpRequest& request, const Slice& bytes,
                                 const std::string& etag, const std::string& content_type,
                                 Caching caching) {
  net::HttpResponse response;
  response.headers = {{"ETag", etag},
                      {"Accept-Ranges", "bytes"},
                      {"Content-Type", content_type},
                      {"Cache-Control", CacheControl(caching)}};
  // The order of RFC 9110 13.2.2. There is no Last-Modified, so dates are no condition.
  const std::string if_match = request.HeaderList("if-match");
  if (!if_match.empty() && !net::NamesEtag(if_match, etag, net::EtagComparison::kStrong)) {
    response.status = 412;
    return response;
  }
  if (net::NamesEtag(request.HeaderList("if-none-match"), etag, net::EtagComparison::kWeak)) {
    response.status = 304;
    return response;
  }
  const std::string_view if_range = request.Header("if-range");
  const bool is_stale =
      !if_range.empty() && (net::Trimmed(if_range) == "*" ||
                            !net::NamesEtag(if_range, etag, net::EtagComparison::kStrong));
  ByteRange range;
  const uint64_t total = bytes.byte_count();
  // Ranges are for GET alone.
  const RangeKind kind = request.method == "GET" && !is_stale
                             ? ParseRange(request.Header("range"), total, &range)
                             : RangeKind::kNone;
  if (kind == RangeKind::kNone) {
    response.body.push_back(bytes);
    return response;
  }
  if (kind == RangeKind::kUnsatisfiable) {
    response.status = 416;
    response.headers.emplace_back("Content-Range", "bytes */" + std::to_string(total));
    return response;
  }
  response.status = 206;
  response.headers.emplace_back("Content-Range", "bytes " + std::to_string(range.first) + "-" +
                                                     std::to_string(range.end - 1) + "/" +
                                                     std::to_string(total));
  response.body.push_back(bytes.Sub(range.first, range.end - range.first));
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
    file.etag = EtagOf(url, *file.plain);
    file.content_type = ContentType(path);
    file.immutable = IsNamedByContent(url);
    loaded.files_.emplace(url, std::move(file));
  }
  for (const char* route : {"/", "/join", "/chat", "/swarm", "/certificate", "/admin"}) {
    loaded.files_[route] = loaded.files_.at("/index.html");
  }
  return loaded;
}

std::vector<std::string> StaticFiles::Paths() const {
  std::vector<std::string> paths;
  for (const auto& [path, file] : files_) paths.push_back(path);
  return paths;
}

// What the client likes best of the forms that there are; the smallest where it likes several. The
// plain form is for everyone, also for those who say that they do not want it.
net::HttpResponse StaticFiles::Answer(const net::HttpRequest& request) const {
  const File& file = files_.at(request.path);
  const std::string accepted = request.HeaderList("accept-encoding");
  auto bytes = file.plain;
  std::string encoding;
  int best = 0;
  for (const auto& [name, form] : {std::pair("br", file.br), std::pair("gzip", file.gzip)}) {
    const int weight = form ? net::EncodingWeight(accepted, name) : 0;
    if (weight <= best) continue;
    best = weight;
    bytes = form;
    encoding = name;
  }
  const bool prefers_plain = !accepted.empty() && accepted.find("identity") != std::string::npos &&
                             net::EncodingWeight(accepted, "identity") > best;
  if (prefers_plain) {
    bytes = file.plain;
    encoding.clear();
  }
  // Each form has bytes, and so a tag, of its own.
  std::string etag = file.etag;
  net::HttpRequest wanted = request;
  if (!encoding.empty()) {
    etag.insert(etag.size() - 1, "-" + encoding);
    // Parts of compressed forms mean nothing to clients.
    std::erase_if(wanted.headers, [](const auto& header) { return header.first == "range"; });
  }
  net::HttpResponse response =
      RangedResponse(wanted, AsSlice(bytes), etag, file.content_type,
                     file.immutable ? Caching::kForever : Caching::kAskAgain);
  if (!encoding.empty()) response.headers.emplace_back("Content-Encoding", encoding);
  response.headers.emplace_back("Vary", "Accept-Encoding");
  return response;
}

}  // namespace weft::server
