#include "registry/registry_client.h"

#include "net/http_fields.h"
#include "registry/model_reference.h"
#include "registry/registry_replies.h"

namespace weft::registry {
namespace {

constexpr int kMaxRedirections = 5;

bool SameOrigin(const net::Url& a, const net::Url& b) {
  return a.tls == b.tls && net::EqualsIgnoringCase(a.host, b.host) && a.port == b.port;
}

Result<net::Url> RedirectedFrom(const net::Url& server, const std::string& place) {
  if (place.starts_with("http://") || place.starts_with("https://")) return net::ParseUrl(place);
  return Error(ErrorCode::kInvalidData, server.Authority() + " redirects to '" + Printable(place) +
                                            "'; expected an http address.");
}

std::string EncodedPath(std::string_view name) {
  std::string encoded;
  for (const char& c : name) encoded += c == '/' ? "/" : net::PercentEncoded({&c, 1});
  return encoded;
}

}  // namespace

RegistryClient::RegistryClient(const RegistrySettings& settings, const std::atomic<bool>& cancelled)
    : settings_(settings), connections_(settings.proxies, settings.certificates, cancelled) {}

net::Url RegistryClient::At(const std::string& path) const {
  net::Url url = settings_.endpoint;
  url.path += path;
  return url;
}

// Follows redirections here, because each place decides about the token and about plain http. HEAD
// stops where one leads to another host: what the registry says of the file is in the redirection
// itself, and the other host knows only its own.
Result<net::HttpReply> RegistryClient::Send(Request request) {
  const std::string first = request.url.Authority();
  for (int hop = 0; hop <= kMaxRedirections; ++hop) {
    const net::Url from = request.url;
    request.bearer = SameOrigin(from, settings_.endpoint) ? settings_.token : "";
    ASSIGN_OR_RETURN(Answer answer, connections_.Send(request));
    if (answer.redirected.empty()) return std::move(answer.reply);
    ASSIGN_OR_RETURN(request.url, RedirectedFrom(from, answer.redirected));
    if (request.head && !SameOrigin(request.url, from)) return std::move(answer.reply);
    if (from.tls && !request.url.tls) {
      return Error(ErrorCode::kPermissionDenied,
                   from.Authority() + " redirects from https to plain http at " +
                       request.url.Authority() + ", which weft does not follow.");
    }
  }
  return Error(ErrorCode::kInvalidData,
               first + " redirects more than " + std::to_string(kMaxRedirections) + " times.");
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
  request.head = true;
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
    request.range = std::to_string(range.first) + "-" + last;
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
