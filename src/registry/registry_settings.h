// Where the registry is, who asks, and where downloads are kept: what huggingface_hub reads from
// the environment, with the same meaning.
#pragma once

#include <filesystem>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "net/address.h"
#include "registry/http_connections.h"
#include "registry/proxies.h"

namespace weft::registry {

struct RegistrySettings {
  net::Url endpoint;          // HF_ENDPOINT, else https://huggingface.co
  std::string endpoint_text;  // as people read it, without a slash at the end
  // HF_TOKEN, else the file HF_TOKEN_PATH or HF_HOME/token; may be "", and is with
  // HF_HUB_DISABLE_IMPLICIT_TOKEN.
  std::string token;
  std::filesystem::path cache;       // HF_HUB_CACHE, else HF_HOME/hub
  bool offline = false;              // HF_HUB_OFFLINE, else TRANSFORMERS_OFFLINE
  Proxies proxies;                   // https_proxy, http_proxy, no_proxy
  TrustedCertificates certificates;  // SSL_CERT_FILE, SSL_CERT_DIR
  // The wait before a first retry; doubled each time.
  Duration first_backoff = Milliseconds(500);
  // Connections at once. Files of `split_bytes` or more are downloaded in ranges over several.
  size_t connections = 8;
  uint64_t split_bytes = 64 << 20;
  uint64_t range_bytes = 16 << 20;
};

// Errors: kInvalidArgument for an endpoint that is no http(s) address or a proxy that is none, or a
// token that cannot be one.
Result<RegistrySettings> ReadRegistrySettings(const Environment& environment);

// Where packages of the library are: WEFT_HOME/packages, else XDG_DATA_HOME/weft/packages, else
// ~/.local/share/weft/packages.
std::filesystem::path LibraryFolder(const Environment& environment);

}  // namespace weft::registry
