// HTTP through libcurl: one thread's connections to the servers of a registry, kept open between
// requests. TLS, proxies, HTTP/2 and connections that were closed meanwhile are libcurl's work.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "net/address.h"
#include "net/http.h"
#include "registry/proxies.h"

namespace weft::registry {

// Certificates to trust in place of the system's: a file and a folder of PEM; "" for the system's.
struct TrustedCertificates {
  std::string file;
  std::string folder;
};

struct Request {
  net::Url url;
  bool head = false;   // HEAD, else GET
  std::string range;   // "0-99" or "100-" in bytes; "" for all
  std::string bearer;  // a token for this server; "" for none
  // Sees status and headers of a 2xx reply before its body, and ends the transfer by false.
  std::function<bool(const net::HttpReply&)> on_head = nullptr;
  // Takes the body of a 2xx reply piece by piece, and ends the transfer by false.
  std::function<bool(ByteSpan)> on_data = nullptr;
};

struct Answer {
  net::HttpReply reply;    // its body is empty when `on_data` took it
  std::string redirected;  // the whole address where a 3xx leads; "" for none
};

// One thread at a time.
class HttpConnections {
 public:
  // What is given outlives this object; when `cancelled` becomes true a call ends soon.
  HttpConnections(const Proxies& proxies, const TrustedCertificates& certificates,
                  const std::atomic<bool>& cancelled);
  ~HttpConnections();

  // Does not follow redirections, because they may lead to another host. Errors: kUnavailable when
  // the server or the proxy cannot be reached, or the proxy does not let through (the sentence
  // names it). kPermissionDenied when the server's certificate is not trusted or the proxy wants a
  // password. kIo when the server closes in the middle of a reply, kInvalidData for a body in
  // memory beyond 16 MiB, kCancelled when it was ended.
  Result<Answer> Send(const Request& request);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::registry
