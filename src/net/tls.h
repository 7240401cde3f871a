// TLS contexts: from certificate files, or a certificate of our own.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft::net {

// An OpenSSL context, which tls_context.h defines for src/net.
class TlsContext;

// Makes a server's context from PEM files. The error names the file and OpenSSL's reason.
Result<std::shared_ptr<TlsContext>> LoadTls(const std::filesystem::path& certificate_file,
                                            const std::filesystem::path& key_file);

// Reads the PEM files again for connections to come; open ones keep what they have. On an error
// nothing has changed. Call it on the thread of the loop whose server has `context`.
Status ReloadTls(TlsContext& context, const std::filesystem::path& certificate_file,
                 const std::filesystem::path& key_file);

// Makes an ECDSA P-256 certificate for these host names and addresses, and the authority that signs
// it. They are kept in `folder` and used again for a year. Browsers warn about the certificate
// once. The key's file is its owner's alone (0600), also when a kept one was more open.
// kPermissionDenied when it is not ours.
//
// Safari on iPhones opens no WebSocket to a certificate that nobody signed, and trusts none that it
// cannot install as an authority. So there is one, which signs this certificate and then no other:
// its key is never written anywhere. Whoever installs it trusts this server, and nothing else.
Result<std::shared_ptr<TlsContext>> SelfSignedTls(const std::filesystem::path& folder,
                                                  const std::vector<std::string>& hosts);

// Gives that authority's certificate in DER, or "" where the certificate is somebody else's.
const std::string& CertificateAuthority(const TlsContext& context);

// Gives the SHA-256 of the certificate in hex, for a person to compare, and for a native worker to
// pin.
std::string CertificateFingerprint(const TlsContext& context);

}  // namespace weft::net
