#include "net/tls.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>
#include <span>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "base/sha256.h"
#include "net/address.h"
#include "net/tls_context.h"

namespace weft::net {
namespace {

constexpr long kValidSeconds = 365L * 24 * 3600;
constexpr long kRenewSeconds = 30L * 24 * 3600;

struct OpenSslFree {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
};
template <typename T>
using Owned = std::unique_ptr<T, OpenSslFree>;

std::string OpenSslReason() {
  char text[256] = "unknown reason";
  const unsigned long code = ERR_get_error();
  if (code != 0) ERR_error_string_n(code, text, sizeof(text));
  ERR_clear_error();
  return text;
}

std::string BioText(BIO* bio) {
  char* data = nullptr;
  const long count = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(count));
}

std::string Der(X509* certificate) {
  unsigned char* der = nullptr;
  const int count = i2d_X509(certificate, &der);
  CHECK(count > 0);
  std::string bytes(reinterpret_cast<const char*>(der), static_cast<size_t>(count));
  OPENSSL_free(der);
  return bytes;
}

std::string Fingerprint(X509* certificate) {
  return ToHex(Sha256(AsBytes(Der(certificate))));
}

// "DNS:name,IP:1.2.3.4" for the subjectAltName extension.
std::string AlternativeNames(const std::vector<std::string>& hosts) {
  std::string names;
  for (const std::string& host : hosts) {
    const bool is_address = host.find(':') != std::string::npos ||
                            host.find_first_not_of("0123456789.") == std::string::npos;
    if (!names.empty()) names += ",";
    names += (is_address ? "IP:" : "DNS:") + host;
  }
  return names;
}

struct PemPair {
  std::string certificate;  // and behind it that of its authority
  std::string key;
};

struct Signer {
  X509* certificate;
  EVP_PKEY* key;
};

// A certificate over `key` with these extensions, signed by `signer`, else by itself.
Result<Owned<X509>> MakeCertificate(EVP_PKEY* key, const std::string& subject,
                                    std::span<const std::pair<int, std::string>> extensions,
                                    std::optional<Signer> signer) {
  Owned<X509> certificate(X509_new());
  CHECK(certificate);
  X509_set_version(certificate.get(), 2);  // v3
  std::array<uint8_t, 8> serial;
  SecureRandomBytes(serial);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()),
                          LoadLe<uint64_t>(serial.data()) >> 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kValidSeconds);
  X509_set_pubkey(certificate.get(), key);
  // A common name has 64 characters at most; who looks for hosts looks at the alternative names.
  const std::string name = subject.substr(0, 64);
  CHECK(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                                   reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1,
                                   0) == 1);
  const Signer by = signer.value_or(Signer{certificate.get(), key});
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(by.certificate));
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, by.certificate, certificate.get(), nullptr, nullptr, 0);
  for (const auto& [nid, value] : extensions) {
    const Owned<X509_EXTENSION> extension(
        X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
    if (!extension) {
      return Error(ErrorCode::kInvalidArgument,
                   "Cannot make a certificate for '" + value + "': " + OpenSslReason() + ".");
    }
    X509_add_ext(certificate.get(), extension.get(), -1);
  }
  CHECK(X509_sign(certificate.get(), by.key, EVP_sha256()) > 0);
  return certificate;
}

// The authority's key signs once, and goes with this function.
Result<PemPair> MakeCertificates(const std::vector<std::string>& hosts) {
  const Owned<EVP_PKEY> authority_key(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  const Owned<EVP_PKEY> key(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  CHECK(authority_key && key);
  // Phones list authorities by name: two servers have two.
  const std::string name =
      "weft swarm " + SecureRandomHex(2) + (hosts.empty() ? std::string() : " " + hosts.front());
  const std::pair<int, std::string> of_authority[] = {
      {NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
      {NID_key_usage, "critical,keyCertSign"},
      {NID_subject_key_identifier, "hash"},
  };
  ASSIGN_OR_RETURN(const Owned<X509> authority,
                   MakeCertificate(authority_key.get(), name, of_authority, std::nullopt));
  const std::pair<int, std::string> of_server[] = {
      {NID_subject_alt_name, AlternativeNames(hosts)}, {NID_basic_constraints, "critical,CA:FALSE"},
      {NID_key_usage, "critical,digitalSignature"},    {NID_ext_key_usage, "serverAuth"},
      {NID_authority_key_identifier, "keyid:always"},
  };
  ASSIGN_OR_RETURN(const Owned<X509> certificate,
                   MakeCertificate(key.get(), "weft swarm", of_server,
                                   Signer{authority.get(), authority_key.get()}));
  const Owned<BIO> certificates(BIO_new(BIO_s_mem()));
  const Owned<BIO> key_bio(BIO_new(BIO_s_mem()));
  CHECK(PEM_write_bio_X509(certificates.get(), certificate.get()) == 1);
  CHECK(PEM_write_bio_X509(certificates.get(), authority.get()) == 1);
  CHECK(PEM_write_bio_PrivateKey(key_bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) ==
        1);
  return PemPair{BioText(certificates.get()), BioText(key_bio.get())};
}

Owned<X509> ReadCertificate(BIO* bio) {
  Owned<X509> certificate(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate;
}

// The second certificate of a PEM file, in DER.
std::string AuthorityOf(const std::string& pem) {
  const Owned<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  ReadCertificate(bio.get());
  const Owned<X509> authority = ReadCertificate(bio.get());
  return authority ? Der(authority.get()) : std::string();
}

// True when the PEM certificate names all hosts, is valid for a while and has its authority behind
// it.
bool StillGood(const std::string& pem, const std::vector<std::string>& hosts) {
  const Owned<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const Owned<X509> certificate = ReadCertificate(bio.get());
  if (!certificate || !ReadCertificate(bio.get())) return false;
  time_t renew_at = std::time(nullptr) + kRenewSeconds;
  if (X509_cmp_time(X509_get0_notAfter(certificate.get()), &renew_at) < 0) return false;
  for (const std::string& host : hosts) {
    if (X509_check_ip_asc(certificate.get(), host.c_str(), 0) != 1 &&
        X509_check_host(certificate.get(), host.c_str(), host.size(), 0, nullptr) != 1) {
      return false;
    }
  }
  return true;
}

// Takes away what others may do with a key that was kept: an older version, a copy or a restored
// backup may have left it open. Looks at the file it has opened, not at whatever the name leads to
// a moment later.
Status TakeFromOthers(const std::filesystem::path& key_file) {
  const auto failed = [&](const std::string& what) {
    return Error(ErrorCode::kPermissionDenied, what + " '" + key_file.string() +
                                                   "': " + std::strerror(errno) +
                                                   ". The key must be this user's own file.");
  };
  const Descriptor key(open(key_file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!key.is_open()) return failed("Cannot open");
  struct stat info = {};
  if (fstat(key.get(), &info) != 0) return failed("Cannot look at");
  if ((info.st_mode & 0077) == 0) return OkStatus();
  LogWarn(
      "'{}' could be read by others: its permissions are 0600 from now on; remove it, and "
      "the certificate beside it, to have new ones made",
      key_file.string());
  return fchmod(key.get(), 0600) == 0 ? OkStatus() : failed("Cannot protect");
}

}  // namespace

Result<std::shared_ptr<TlsContext>> LoadTls(const std::filesystem::path& certificate_file,
                                            const std::filesystem::path& key_file) {
  auto context = std::make_shared<TlsContext>();
  boost::system::error_code error;
  context->ssl.use_certificate_chain_file(certificate_file.string(), error);
  if (error) {
    return Error(
        ErrorCode::kInvalidArgument,
        "Cannot use the certificate '" + certificate_file.string() + "': " + error.message() + ".");
  }
  context->ssl.use_private_key_file(key_file.string(), boost::asio::ssl::context::pem, error);
  if (error) {
    return Error(ErrorCode::kInvalidArgument,
                 "Cannot use the private key '" + key_file.string() + "' with the certificate '" +
                     certificate_file.string() + "': " + error.message() + ".");
  }
  SSL_CTX_set_min_proto_version(context->ssl.native_handle(), TLS1_2_VERSION);
  context->fingerprint = Fingerprint(SSL_CTX_get0_certificate(context->ssl.native_handle()));
  return context;
}

Status ReloadTls(TlsContext& context, const std::filesystem::path& certificate_file,
                 const std::filesystem::path& key_file) {
  // A context of its own first: a key that does not fit must not take the place of one that does.
  ASSIGN_OR_RETURN(const std::shared_ptr<TlsContext> read, LoadTls(certificate_file, key_file));
  SSL_CTX* const from = read->ssl.native_handle();
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(from, &chain);
  constexpr int kReplace = 1;
  if (SSL_CTX_use_cert_and_key(context.ssl.native_handle(), SSL_CTX_get0_certificate(from),
                               SSL_CTX_get0_privatekey(from), chain, kReplace) != 1) {
    return Error(
        ErrorCode::kInvalidArgument,
        "Cannot use the certificate '" + certificate_file.string() + "': " + OpenSslReason() + ".");
  }
  context.fingerprint = read->fingerprint;
  return OkStatus();
}

Result<std::shared_ptr<TlsContext>> SelfSignedTls(const std::filesystem::path& folder,
                                                  const std::vector<std::string>& hosts) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Error(ErrorCode::kIo,
                 "Cannot create '" + folder.string() + "': " + error.message() + ".");
  }
  const auto certificate_file = folder / "tls-certificate.pem";
  const auto key_file = folder / "tls-key.pem";
  const auto kept = ReadTextFile(certificate_file, 64 * 1024);
  if (!kept.ok() || !StillGood(*kept, hosts) || !std::filesystem::exists(key_file)) {
    ASSIGN_OR_RETURN(const PemPair made, MakeCertificates(hosts));
    // The file is closed to others from its first byte on. At start, before other threads make
    // files.
    const mode_t old_mask = umask(0077);
    const Status key_written = WriteFileAtomically(key_file, AsBytes(made.key));
    umask(old_mask);
    TRY(key_written);
    TRY(WriteFileAtomically(certificate_file, AsBytes(made.certificate)));
  }
  TRY(TakeFromOthers(key_file));
  ASSIGN_OR_RETURN(std::shared_ptr<TlsContext> context, LoadTls(certificate_file, key_file));
  ASSIGN_OR_RETURN(const std::string pem, ReadTextFile(certificate_file, 64 * 1024));
  context->authority = AuthorityOf(pem);
  return context;
}

const std::string& CertificateAuthority(const TlsContext& context) {
  return context.authority;
}

std::string CertificateFingerprint(const TlsContext& context) {
  return context.fingerprint;
}

}  // namespace weft::net
