#include "registry/registry_client.h"

#include "net/http_fields.h"
#include "registry/registry_replies.h"

namespace weft::registry {
namespace {

constexpr int kMaxRedirections = 5;
constexpr size_t kMaxListingBytes = 16 << 20;

bool SameOrigin(const net::Url& a, const net::Url& b) {
  return a.tls == b.tls && net::EqualsIgnoringCase(a.host, b.host) && a.port == b.port;
}

std::string EncodedPath(std::string_view name) {
  std::string encoded;
  for (const char& c : name) encoded += c == '/' ? "/" : net::PercentEncoded({&c, 1});
  return encoded;
}

}  // namespace

struct RegistryClient::Request {
  std::string method = "GET";
  net::Url url;
  net::Headers headers;
  std::function<bool(ByteSpan)> on_data = nullptr;
  std::function<bool(const net::HttpReply&)> on_head = nullptr;
};

RegistryClient::RegistryClient(const RegistrySettings& settings, const std::atomic<bool>* cancelled)
    : settings_(settings), cancelled_(cancelled) {}

net::Url RegistryClient::At(const std::string& path) const {
  net::Url url = settings_.endpoint;
  url.path += path;
  return url;
}

net::HttpClient& RegistryClient::ClientFor(const net::Url& url) {
  const std::string key = (url.tls ? "https://" : "http://") + url.Authority();
  const auto found = clients_.find(key);
  if (found != clients_.end()) return found->second;
  return clients_.emplace(key, net::HttpClient(url, net::ClientTls{}, settings_.proxies.For(url)))
      .first->second;
}

// Follows redirections. HEAD stops where one leads to another host: what the registry says of the
// file is in the redirection itself, and the other host knows only its own.
Result<net::HttpReply> RegistryClient::Send(const Request& request) {
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

std::optional<Failure> RegistryClient::List(const std::string& repository,
                                            const std::string& revision,
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

std::optional<Failure> RegistryClient::Look(const std::string& repository,
                                            const std::string& commit, const std::string& name,
                                            RemoteFile* file) {
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

std::optional<Failure> RegistryClient::Fetch(const std::string& repository,
                                             const std::string& commit, const RemoteFile& file,
                                             const ByteRange& range,
                                             const std::function<Status(uint64_t)>& on_start,
                                             const std::function<bool(ByteSpan)>& on_data) {
  Request request;
  request.url = At("/" + repository + "/resolve/" + commit + "/" + EncodedPath(file.name));
  if (range.first > 0 || range.end < file.byte_count) {
    const std::string last = range.end < file.byte_count ? std::to_string(range.end - 1) : "";
    request.headers.emplace_back("Range", "bytes=" + std::to_string(range.first) + "-" + last);
  }
  std::optional<Error> refused;
  request.on_data = on_data;
  request.on_head = [&](const net::HttpReply& head) {
    const auto start = StartOfBody(head, file, range.first);
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

}  // namespace weft::registry
