#include "registry/http_connections.h"

#include <curl/curl.h>

#include <array>

#include "base/check.h"
#include "base/file.h"

namespace weft::registry {
namespace {

constexpr size_t kMaxReplyBytes = 16 << 20;
constexpr long kPieceBytes = 256 << 10;
constexpr long kConnectSeconds = 30;
constexpr long kSilenceSeconds = 30;  // without one byte
constexpr int kCancelCheckMs = 100;

// Begins to use libcurl, once, and only where something is downloaded: it costs milliseconds.
void StartLibcurl() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  CHECK(started == CURLE_OK);
}

template <typename Value>
void Set(CURL* easy, CURLoption option, Value value) {
  CHECK(curl_easy_setopt(easy, option, value) == CURLE_OK);
}

// The status and the headers of the reply that the transfer got last.
net::HttpReply HeadOf(CURL* easy) {
  net::HttpReply reply;
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  reply.status = static_cast<int>(status);
  const auto next = [&](curl_header* header) {
    return curl_easy_nextheader(easy, CURLH_HEADER, -1, header);
  };
  for (curl_header* header = next(nullptr); header != nullptr; header = next(header)) {
    std::string name = header->name;
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    // Of an empty value libcurl 7.88 leaves the line's end.
    const std::string_view value = header->value;
    reply.headers.emplace_back(std::move(name), value.substr(0, value.find('\r')));
  }
  return reply;
}

struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeMulti {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// One request while it is under way.
struct Transfer {
  const Request& request;
  CURL* easy;
  net::HttpReply reply = {};
  bool has_head = false;
  bool stopped = false;   // by the caller's functions
  bool too_long = false;  // a body for memory

  bool IsGood() const { return reply.status / 100 == 2; }

  // Takes the head once; false when the caller wants no more.
  bool TakeHead() {
    if (has_head) return true;
    has_head = true;
    reply = HeadOf(easy);
    stopped = IsGood() && request.on_head && !request.on_head(reply);
    return !stopped;
  }

  bool Take(ByteSpan piece) {
    if (!TakeHead()) return false;
    if (IsGood() && request.on_data) {
      stopped = !request.on_data(piece);
      return !stopped;
    }
    too_long = reply.body.size() + piece.size() > kMaxReplyBytes;
    if (!too_long) reply.body += AsText(piece);
    return !too_long;
  }
};

size_t OnBody(const char* bytes, size_t one, size_t count, void* context) {
  const std::string_view text(bytes, one * count);
  // Any other number than what came ends the transfer with CURLE_WRITE_ERROR.
  return static_cast<Transfer*>(context)->Take(AsBytes(text)) ? text.size() : text.size() + 1;
}

Error Cancelled() {
  return Error(ErrorCode::kCancelled, "The transfer was cancelled.");
}

Error WantsPassword(const net::Url& server, const HttpProxy& proxy) {
  return Error(ErrorCode::kPermissionDenied,
               "The proxy " + proxy.authority + " lets nobody through to " + server.Authority() +
                   " without a name and a password it knows (407); they stand before the host in " +
                   proxy.variable + ", like http://name:password@host:port.");
}

Error NotTrusted(const net::Url& server, const std::string& why) {
  return Error(ErrorCode::kPermissionDenied,
               "The TLS handshake with " + server.Authority() + " failed: " + why +
                   ". Certificates are checked with those of the system (Debian's package "
                   "ca-certificates), or of the file that SSL_CERT_FILE names.");
}

// The sentence for a transfer that gave no whole reply. `why` is what libcurl says of it, and
// `connect_status` what a proxy answered to CONNECT.
Error FailureOf(CURLcode code, const std::string& why, long connect_status,
                const Transfer& transfer, const HttpProxy& proxy) {
  const net::Url& server = transfer.request.url;
  if (connect_status == 407) return WantsPassword(server, proxy);
  if (connect_status >= 300) {
    return Error(ErrorCode::kUnavailable, "The proxy " + proxy.authority + " does not connect to " +
                                              server.Authority() + " (it answered " +
                                              std::to_string(connect_status) + ").");
  }
  if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
    return NotTrusted(server, why);
  }
  if (code == CURLE_SSL_CONNECT_ERROR && why.find("wrong version number") != std::string::npos) {
    return Error(ErrorCode::kPermissionDenied,
                 "The TLS handshake with " + server.Authority() +
                     " failed: what answers there speaks plain http. Use http://, or the port "
                     "where the server speaks https.");
  }
  if (transfer.has_head) {
    return Error(ErrorCode::kIo, "The connection to " + server.Authority() +
                                     " ended before the reply to " + server.path +
                                     " was complete: " + why + ".");
  }
  const std::string through = proxy.address.empty() ? "" : " through the proxy " + proxy.authority;
  return Error(ErrorCode::kUnavailable,
               "Cannot reach " + server.Authority() + through + ": " + why + ".");
}

}  // namespace

struct HttpConnections::State {
  State(const Proxies& by_environment, const TrustedCertificates& trusted,
        const std::atomic<bool>& stop)
      : proxies(by_environment), certificates(trusted), cancelled(stop) {
    StartLibcurl();
    multi.reset(curl_multi_init());
    easy.reset(curl_easy_init());
    CHECK(multi != nullptr && easy != nullptr);
  }

  void Prepare(Transfer& transfer, const HttpProxy& proxy) {
    const Request& request = transfer.request;
    CURL* const handle = easy.get();
    curl_easy_reset(handle);  // its connections stay
    const std::string url =
        (request.url.tls ? "https://" : "http://") + request.url.Authority() + request.url.Target();
    Set(handle, CURLOPT_URL, url.c_str());
    Set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    Set(handle, CURLOPT_NOBODY, request.head ? 1L : 0L);
    if (!request.range.empty()) Set(handle, CURLOPT_RANGE, request.range.c_str());
    if (!request.bearer.empty()) {
      Set(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
      Set(handle, CURLOPT_XOAUTH2_BEARER, request.bearer.c_str());
    }
    Set(handle, CURLOPT_USERAGENT, "weft");
    headers.reset(curl_slist_append(nullptr, "Accept-Encoding: identity"));
    Set(handle, CURLOPT_HTTPHEADER, headers.get());
    Set(handle, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    if (!certificates.file.empty()) Set(handle, CURLOPT_CAINFO, certificates.file.c_str());
    if (!certificates.folder.empty()) Set(handle, CURLOPT_CAPATH, certificates.folder.c_str());
    // libcurl would read the environment, by its own rules, for what is null here.
    Set(handle, CURLOPT_PROXY, proxy.address.c_str());
    Set(handle, CURLOPT_NOPROXY, "");
    Set(handle, CURLOPT_NOSIGNAL, 1L);
    Set(handle, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    Set(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    Set(handle, CURLOPT_LOW_SPEED_TIME, kSilenceSeconds);
    Set(handle, CURLOPT_BUFFERSIZE, kPieceBytes);
    Set(handle, CURLOPT_WRITEFUNCTION, &OnBody);
    Set(handle, CURLOPT_WRITEDATA, &transfer);
    Set(handle, CURLOPT_ERRORBUFFER, why.data());
    why[0] = '\0';
  }

  // curl_easy_perform would notice a second late that it was cancelled.
  CURLcode Perform() {
    CURLcode outcome = CURLE_ABORTED_BY_CALLBACK;
    CHECK(curl_multi_add_handle(multi.get(), easy.get()) == CURLM_OK);
    for (int running = 1; running > 0 && !cancelled;) {
      CHECK(curl_multi_perform(multi.get(), &running) == CURLM_OK);
      if (running > 0) curl_multi_poll(multi.get(), nullptr, 0, kCancelCheckMs, nullptr);
    }
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi.get(), &left)) {
      if (message->msg == CURLMSG_DONE) outcome = message->data.result;
    }
    curl_multi_remove_handle(multi.get(), easy.get());
    return outcome;
  }

  const Proxies& proxies;
  const TrustedCertificates& certificates;
  const std::atomic<bool>& cancelled;
  std::array<char, CURL_ERROR_SIZE> why = {};
  std::unique_ptr<curl_slist, FreeList> headers;
  std::unique_ptr<CURLM, FreeMulti> multi;  // keeps the connections
  std::unique_ptr<CURL, FreeEasy> easy;     // freed before it
};

HttpConnections::HttpConnections(const Proxies& proxies, const TrustedCertificates& certificates,
                                 const std::atomic<bool>& cancelled)
    : state_(std::make_unique<State>(proxies, certificates, cancelled)) {}
HttpConnections::~HttpConnections() = default;

Result<Answer> HttpConnections::Send(const Request& request) {
  CURL* const easy = state_->easy.get();
  Transfer transfer{request, easy};
  const HttpProxy proxy = state_->proxies.For(request.url);
  state_->Prepare(transfer, proxy);
  const CURLcode code = state_->Perform();
  if (transfer.too_long) {
    return Error(ErrorCode::kInvalidData, "The reply of " + request.url.Authority() + " to " +
                                              request.url.path + " is longer than " +
                                              HumanBytes(kMaxReplyBytes) + ".");
  }
  if (transfer.stopped || code == CURLE_ABORTED_BY_CALLBACK) return Cancelled();
  if (code != CURLE_OK) {
    long connect_status = 0;
    curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &connect_status);
    const char* const why = state_->why[0] != '\0' ? state_->why.data() : curl_easy_strerror(code);
    return FailureOf(code, why, connect_status, transfer, proxy);
  }
  if (!transfer.TakeHead()) return Cancelled();  // of a reply without a body
  if (transfer.reply.status == 407) return WantsPassword(request.url, proxy);
  const char* redirected = nullptr;
  curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &redirected);
  return Answer{std::move(transfer.reply), redirected != nullptr ? redirected : ""};
}

}  // namespace weft::registry
