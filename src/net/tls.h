// TLS contexts: from certificate files, or a self-signed certificate of our own.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft::net {

// Wraps an OpenSSL context; defined in tls_context.h for src/net.
class TlsContext;

// A server context from PEM files. The error names the file and OpenSSL's reason.
Result<std::shared_ptr<TlsContext>> LoadTls(const std::filesystem::path& certificate_file,
                                            const std::filesystem::path& key_file);

// Makes (once; kept in `folder` and reused for a year) an ECDSA P-256 certificate for these host
// names and addresses, signed by itself. Browsers warn about it once. The key's file is its owner's
// alone (0600), also when one that is kept was more open; kPermissionDenied when it is not ours.
Result<std::shared_ptr<TlsContext>> SelfSignedTls(const std::filesystem::path& folder,
                                                  const std::vector<std::string>& hosts);

// SHA-256 of the certificate in hex, for a person to compare, and for a native worker to pin.
std::string CertificateFingerprint(const TlsContext& context);

}  // namespace weft::net
