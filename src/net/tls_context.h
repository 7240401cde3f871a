// The inside of TlsContext, for src/net only.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <string>

namespace weft::net {

class TlsContext {
 public:
  TlsContext() : ssl(boost::asio::ssl::context::tls_server) {}
  boost::asio::ssl::context ssl;
  std::string fingerprint;
  std::string authority;  // DER; "": the certificate is somebody else's
};

}  // namespace weft::net
