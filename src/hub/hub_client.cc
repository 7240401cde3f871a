#include "hub/hub_client.h"

#include <boost/json.hpp>
#include <charconv>

#include "hub/model_reference.h"

namespace weft::hub {
namespace json = boost::json;

namespace {

constexpr int kMaxRedirections = 5;
constexpr size_t kMaxListingBytes = 16 << 20;
constexpr size_t kMaxFiles = 50000;
constexpr size_t kMaxJsonDepth = 32;

bool SameOrigin(const net::Url& a, const net::Url& b) {
  return a.tls == b.tls && a.host == b.host && a.port == b.port;
}

std::string EncodedPath(std::string_view name) {
  std::string encoded;
  for (const char& c : name) encoded += c == '/' ? "/" : net::PercentEncoded({&c, 1});
  return encoded;
}

std::optional<uint64_t> WholeNumber(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

Error BadListing(const std::string& why) {
  return Error(ErrorCode::kInvalidData,
               "The hub's answer about the model is not as expected: " + why + ".");
}

Result<RepositoryListing> ParseListing(const std::string& body) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  const json::value value = json::parse(body, error, {}, options);
  if (error) return BadListing("it is no JSON (" + error.message() + ")");
  const json::value* commit = value.is_object() ? value.as_object().if_contains("sha") : nullptr;
  if (commit == nullptr || !commit->is_string() || !IsCommitHash(commit->as_string())) {
    return BadListing("it has no 'sha' with 40 hexadecimal digits");
  }
  const json::value* siblings = value.as_object().if_contains("siblings");
  if (siblings == nullptr || !siblings->is_array()) return BadListing("it has no list 'siblings'");
  if (siblings->as_array().size() > kMaxFiles) {
    return BadListing("it lists more than " + std::to_string(kMaxFiles) + " files");
  }
  RepositoryListing listing;
  listing.commit = std::string(commit->as_string());
  for (const json::value& sibling : siblings->as_array()) {
    const json::value* name =
        sibling.is_object() ? sibling.as_object().if_contains("rfilename") : nullptr;
    if (name == nullptr || !name->is_string()) return BadListing("a file has no 'rfilename'");
    TRY(CheckFileName(name->as_string()));
    listing.files.emplace_back(name->as_string());
  }
  return listing;
}

// Hash and length from the headers of HEAD: those of the linked (large) file come first.
Result<RemoteFile> ParseLook(const net::HttpReply& reply, const std::string& commit,
                             const std::string& name) {
  const auto either = [&](const char* first, const char* second) {
    const std::string_view value = reply.Header(first);
    return value.empty() ? reply.Header(second) : value;
  };
  const std::string while_looking = "While looking at '" + name + "'";
  RemoteFile file;
  file.name = name;
  ASSIGN_OR_RETURN(
      file.content,
      ContentName::Parse(either("x-linked-etag", "etag")).Context(std::string(while_looking)));
  const auto byte_count = WholeNumber(either("x-linked-size", "content-length"));
  if (!byte_count) {
    return Error(ErrorCode::kInvalidData, "The hub does not say how long '" + name + "' is.");
  }
  file.byte_count = *byte_count;
  const std::string_view stated = reply.Header("x-repo-commit");
  if (!stated.empty() && stated != commit) {
    return Error(ErrorCode::kInvalidData, "The hub was asked for '" + name + "' of commit " +
                                              commit + " and answered for " + Printable(stated) +
                                              ".");
  }
  return file;
}

// Where the bytes of a reply to "Range: bytes=<offset>-" begin; the length that it states must be
// the file's.
Result<uint64_t> StartOfBody(const net::HttpReply& head, const RemoteFile& file, uint64_t offset) {
  const std::string file_bytes = std::to_string(file.byte_count);
  if (head.status == 206) {
    const std::string expected = "bytes " + std::to_string(offset) + "-";
    const std::string_view range = head.Header("content-range");
    if (!range.starts_with(expected) || !range.ends_with("/" + file_bytes)) {
      return Error(ErrorCode::kInvalidData, "The hub was asked for '" + file.name + "' from byte " +
                                                std::to_string(offset) + " of " + file_bytes +
                                                " and answered with '" + Printable(range) + "'.");
    }
    return offset;
  }
  const std::string_view length = head.Header("content-length");
  if (!length.empty() && length != file_bytes) {
    return Error(ErrorCode::kInvalidData, "The hub said that '" + file.name + "' has " +
                                              file_bytes + " bytes and now sends " +
                                              Printable(length) + ".");
  }
  return uint64_t{0};
}

}  // namespace

struct HubClient::Request {
  std::string method = "GET";
  net::Url url;
  net::Headers headers;
  std::function<bool(ByteSpan)> on_data = nullptr;
  std::function<bool(const net::HttpReply&)> on_head = nullptr;
};

HubClient::HubClient(const HubSettings& settings, const std::atomic<bool>* cancelled)
    : settings_(settings), cancelled_(cancelled) {}

net::Url HubClient::At(const std::string& path) const {
  net::Url url = settings_.endpoint;
  url.path += path;
  return url;
}

net::HttpClient& HubClient::ClientFor(const net::Url& url) {
  const std::string key = (url.tls ? "https://" : "http://") + url.Authority();
  const auto found = clients_.find(key);
  if (found != clients_.end()) return found->second;
  return clients_.emplace(key, net::HttpClient(url, net::ClientTls{})).first->second;
}

// Follows redirections. HEAD stops where one leads to another host: what the hub says of the file
// is in the redirection itself, and the other host knows only its own.
Result<net::HttpReply> HubClient::Send(const Request& request) {
  net::Url url = request.url;
  for (int hop = 0; hop <= kMaxRedirections; ++hop) {
    net::HttpCall call;
    call.method = request.method;
    call.path = url.Target();
    call.headers = request.headers;
    call.headers.emplace_back("User-Agent", "weft");
    call.headers.emplace_back("Accept-Encoding", "identity");
    call.reply_limit_bytes = kMaxListingBytes;
    call.cancelled = cancelled_;
    if (!settings_.token.empty() && SameOrigin(url, settings_.endpoint)) {
      call.headers.emplace_back("Authorization", "Bearer " + settings_.token);
    }
    const auto on_head = [&](const net::HttpReply& head) {
      return head.status / 100 != 2 || !request.on_head || request.on_head(head);
    };
    ASSIGN_OR_RETURN(net::HttpReply reply, ClientFor(url).Call(call, request.on_data, on_head));
    const std::string location(reply.Header("location"));
    if (reply.status / 100 != 3 || location.empty()) return reply;
    ASSIGN_OR_RETURN(const net::Url next, net::ResolveLocation(url, location));
    if (request.method == "HEAD" && !SameOrigin(next, url)) return reply;
    if (url.tls && !next.tls) {
      return Error(ErrorCode::kPermissionDenied,
                   url.Authority() + " redirects from https to plain http at " + next.Authority() +
                       ", which weft does not follow.");
    }
    url = next;
  }
  return Error(ErrorCode::kInvalidData, request.url.Authority() + " redirects more than " +
                                            std::to_string(kMaxRedirections) + " times.");
}

std::optional<Failure> HubClient::List(const std::string& repository, const std::string& revision,
                                       RepositoryListing* listing) {
  Request request;
  request.url = At("/api/models/" + repository + "/revision/" + net::PercentEncoded(revision));
  const auto reply = Send(request);
  if (!reply.ok()) return FailureOf(reply.error(), settings_);
  if (reply->status != 200) return FailureOf(*reply, {repository, revision, ""}, settings_);
  auto parsed = ParseListing(reply->body);
  if (!parsed.ok()) return Failure{parsed.error()};
  *listing = std::move(parsed).value();
  return {};
}

std::optional<Failure> HubClient::Look(const std::string& repository, const std::string& commit,
                                       const std::string& name, RemoteFile* file) {
  Request request;
  request.method = "HEAD";
  request.url = At("/" + repository + "/resolve/" + commit + "/" + EncodedPath(name));
  const auto reply = Send(request);
  if (!reply.ok()) return FailureOf(reply.error(), settings_);
  if (reply->status / 100 != 2 && reply->status / 100 != 3) {
    return FailureOf(*reply, {repository, commit, name}, settings_);
  }
  auto parsed = ParseLook(*reply, commit, name);
  if (!parsed.ok()) return Failure{parsed.error()};
  *file = std::move(parsed).value();
  return {};
}

std::optional<Failure> HubClient::Fetch(const std::string& repository, const std::string& commit,
                                        const RemoteFile& file, uint64_t offset,
                                        const std::function<Status(uint64_t)>& on_start,
                                        const std::function<bool(ByteSpan)>& on_data) {
  Request request;
  request.url = At("/" + repository + "/resolve/" + commit + "/" + EncodedPath(file.name));
  if (offset > 0) {
    request.headers.emplace_back("Range", "bytes=" + std::to_string(offset) + "-");
  }
  std::optional<Error> refused;
  request.on_data = on_data;
  request.on_head = [&](const net::HttpReply& head) {
    const auto start = StartOfBody(head, file, offset);
    const Status begun = start.ok() ? on_start(*start) : Status(start.error());
    if (!begun.ok()) refused = begun.error();
    return begun.ok();
  };
  const auto reply = Send(request);
  if (refused) return Failure{*refused};
  if (!reply.ok()) return FailureOf(reply.error(), settings_);
  if (reply->status / 100 != 2) {
    return FailureOf(*reply, {repository, commit, file.name}, settings_);
  }
  return {};
}

}  // namespace weft::hub
