// For tests: a registry of our own on loopback. Two servers, so that large files come from another
// host (another port) than the registry itself, as on the real one. What it does wrong is set by
// the test.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/sha256.h"
#include "net/server.h"
#include "registry/content_hash.h"
#include "registry/registry_settings.h"

namespace weft::registry {

inline std::string GitHash(const std::string& bytes) {
  ContentName any_sha1 = *ContentName::Parse(std::string(40, '0'));
  ContentHash hash(any_sha1, bytes.size());
  hash.Update(AsBytes(bytes));
  return hash.Finish();
}

// The settings below are read by the servers' thread: change them before the pull or under `mutex`.
struct FakeRegistryState {
  std::string commit = std::string(40, 'a');
  std::map<std::string, std::string> files;
  std::set<std::string> large;                     // redirected to the other host, named by SHA-256
  std::string token;                               // demanded when not empty
  std::string gated_code;                          // X-Error-Code of a refusal
  std::vector<std::string> siblings;               // listed beside `files`
  std::map<std::string, int> busy;                 // name -> how often to answer 429 first
  std::map<std::string, size_t> cut;               // name -> send this many bytes, once, and stop
  std::map<std::string, std::string> wrong_bytes;  // name -> sent instead
  std::map<std::string, size_t> stated_bytes;      // name -> X-Linked-Size
  bool serves_ranges = true;
  int answers_left = 1 << 30;  // of the other host; then it answers 503
  std::string listing;         // sent instead of the listing

  std::mutex mutex;
  std::vector<std::string> requests;       // "GET /path range"
  std::vector<std::string> leaked_tokens;  // requests with a token to the other host
};

class FakeRegistry {
 public:
  explicit FakeRegistry(bool with_tls = false) : registry_(*this, false), cdn_(*this, true) {
    folder = std::filesystem::temp_directory_path() / ("weft-registry-" + SecureRandomHex(6));
    net::ServerOptions options;
    if (with_tls) options.tls = *net::SelfSignedTls(folder / "tls", {"127.0.0.1"});
    registry_server_ = net::Server::Listen(loop_, options, &registry_).value();
    cdn_server_ = net::Server::Listen(loop_, {}, &cdn_).value();
    thread_ = std::thread([this] { loop_.Run(); });
    const std::string scheme = with_tls ? "https" : "http";
    settings.endpoint_text = scheme + "://127.0.0.1:" + std::to_string(registry_server_->port());
    settings.endpoint = *net::ParseUrl(settings.endpoint_text);
    settings.endpoint.path.clear();
    settings.cache = folder / "registry";
    settings.first_backoff = Milliseconds(1);
  }
  ~FakeRegistry() {
    loop_.Stop();
    thread_.join();
    std::filesystem::remove_all(folder);
  }
  FakeRegistry(const FakeRegistry&) = delete;
  FakeRegistry& operator=(const FakeRegistry&) = delete;

  size_t CountRequests(const std::string& part) {
    const std::lock_guard lock(state.mutex);
    size_t count = 0;
    for (const std::string& request : state.requests) {
      if (request.find(part) != std::string::npos) ++count;
    }
    return count;
  }

  FakeRegistryState state;
  RegistrySettings settings;
  std::filesystem::path folder;

 private:
  class Handler : public net::ServerHandler {
   public:
    Handler(FakeRegistry& registry, bool is_cdn) : registry_(registry), is_cdn_(is_cdn) {}
    void OnRequest(net::HttpRequest request, std::shared_ptr<net::Responder> responder) override {
      const std::lock_guard lock(registry_.state.mutex);
      registry_.state.requests.push_back(request.method + (is_cdn_ ? " cdn " : " ") + request.path +
                                         " " + std::string(request.Header("range")));
      if (is_cdn_) return registry_.AnswerAsCdn(request, *responder);
      registry_.Answer(request, *responder);
    }
    bool OnHandshake(const net::HttpRequest&, net::HttpResponse*) override { return false; }
    net::WebSocketCallbacks OnWebSocket(const net::HttpRequest&,
                                        std::shared_ptr<net::WebSocket>) override {
      return {};
    }

   private:
    FakeRegistry& registry_;
    const bool is_cdn_;
  };

  static size_t NumberIn(const std::string& digits) {
    size_t number = 0;
    for (const char c : digits) number = number * 10 + static_cast<size_t>(c - '0');
    return number;
  }

  static void Refuse(net::Responder& responder, int status, const std::string& code) {
    net::HttpResponse response = net::TextResponse(status, "text/plain", "no");
    if (!code.empty()) response.headers.emplace_back("X-Error-Code", code);
    responder.Send(std::move(response));
  }

  void Answer(const net::HttpRequest& request, net::Responder& responder) {
    const std::string_view given = request.Header("authorization");
    if (!state.gated_code.empty()) return Refuse(responder, 403, state.gated_code);
    if (!state.token.empty() && given != "Bearer " + state.token) {
      return Refuse(responder, 401, "");
    }
    const std::string& path = request.path;
    if (path.starts_with("/api/models/org/name/revision/")) return AnswerListing(path, responder);
    const std::string prefix = "/org/name/resolve/" + state.commit + "/";
    if (!path.starts_with(prefix)) return Refuse(responder, 404, "RepoNotFound");
    const std::string name = path.substr(prefix.size());
    if (!state.files.contains(name)) return Refuse(responder, 404, "EntryNotFound");
    if (state.busy[name] > 0) {
      --state.busy[name];
      return Refuse(responder, 429, "");
    }
    if (!state.large.contains(name)) return SendFile(request, name, false, responder);
    net::HttpResponse response;
    response.status = 302;
    AddFileHeaders(name, &response.headers);
    response.headers.emplace_back(
        "Location",
        "http://127.0.0.1:" + std::to_string(cdn_server_->port()) + "/" + name + "?s=1");
    responder.Send(std::move(response));
  }

  void AnswerListing(const std::string& path, net::Responder& responder) {
    const std::string revision = path.substr(path.rfind('/') + 1);
    if (revision == "none") return Refuse(responder, 404, "RevisionNotFound");
    std::string json = "{\"sha\":\"" + state.commit + "\",\"siblings\":[";
    std::string comma;
    std::vector<std::string> names = state.siblings;
    for (const auto& [name, bytes] : state.files) names.push_back(name);
    for (const std::string& name : names) {
      json += comma + "{\"rfilename\":\"" + name + "\"}";
      comma = ",";
    }
    json += "]}";
    responder.Send(
        net::TextResponse(200, "application/json", state.listing.empty() ? json : state.listing));
  }

  void AddFileHeaders(const std::string& name, net::Headers* headers) {
    const std::string& bytes = state.files[name];
    headers->emplace_back("X-Repo-Commit", state.commit);
    if (!state.large.contains(name)) {
      headers->emplace_back("ETag", "\"" + GitHash(bytes) + "\"");
      return;
    }
    headers->emplace_back("X-Linked-Etag", "\"" + ToHex(Sha256(AsBytes(bytes))) + "\"");
    const size_t stated =
        state.stated_bytes.contains(name) ? state.stated_bytes[name] : bytes.size();
    headers->emplace_back("X-Linked-Size", std::to_string(stated));
  }

  void AnswerAsCdn(const net::HttpRequest& request, net::Responder& responder) {
    if (!request.Header("authorization").empty()) state.leaked_tokens.push_back(request.path);
    if (request.query != "s=1") return Refuse(responder, 403, "");  // the signature was lost
    if (state.answers_left == 0) return Refuse(responder, 503, "");
    --state.answers_left;
    SendFile(request, request.path.substr(1), true, responder);
  }

  void SendFile(const net::HttpRequest& request, const std::string& name, bool is_cdn,
                net::Responder& responder) {
    std::string bytes =
        state.wrong_bytes.contains(name) ? state.wrong_bytes[name] : state.files[name];
    net::HttpResponse response;
    if (!is_cdn) AddFileHeaders(name, &response.headers);
    const std::string range(request.Header("range"));
    size_t start = 0, end = bytes.size();
    if (state.serves_ranges && range.starts_with("bytes=")) {
      const size_t dash = range.find('-');
      start = NumberIn(range.substr(6, dash - 6));
      if (dash + 1 < range.size()) end = std::min(end, NumberIn(range.substr(dash + 1)) + 1);
      response.status = 206;
      response.headers.emplace_back("Content-Range", "bytes " + std::to_string(start) + "-" +
                                                         std::to_string(end - 1) + "/" +
                                                         std::to_string(bytes.size()));
      bytes.resize(end);
    }
    if (request.method == "GET" && state.cut.contains(name)) {
      const size_t count = state.cut[name];
      state.cut.erase(name);
      responder.StartStream(response.status, response.headers);
      responder.Write(bytes.substr(start, count));
      return responder.End();
    }
    response.body.push_back(Slice::OfText(bytes.substr(start)));
    responder.Send(std::move(response));
  }

  net::EventLoop loop_;
  Handler registry_;
  Handler cdn_;
  std::unique_ptr<net::Server> registry_server_;
  std::unique_ptr<net::Server> cdn_server_;
  std::thread thread_;
};

}  // namespace weft::registry
