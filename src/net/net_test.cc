// The server against our own client and, where bytes must be wrong, against raw sockets.
#include <gtest/gtest.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <thread>

#include "base/file.h"
#include "base/random.h"
#include "net/net_testing.h"

namespace weft::net {
namespace {

TEST_F(NetTest, AnswersAndKeepsTheConnection) {
  Listen();
  HttpClient client(ServerUrl("http"), {});
  for (int i = 0; i < 3; ++i) {
    HttpCall call;
    call.method = "POST";
    call.path = "/echo%20it?q=a%2Bb";
    call.body = std::string(100000, 'x');
    const auto reply = client.Call(call);
    ASSERT_TRUE(reply.ok()) << reply.error().ToString();
    EXPECT_EQ(reply->body, "POST /echo it a+b " + call.body);
  }
}

TEST_F(NetTest, StreamsChunks) {
  Listen();
  HttpClient client(ServerUrl("http"), {});
  HttpCall call;
  call.path = "/stream";
  std::string got;
  const auto reply = client.Call(call, [&](ByteSpan data) {
    got += AsText(data);
    return true;
  });
  ASSERT_TRUE(reply.ok()) << reply.error().ToString();
  EXPECT_EQ(got, "one two three");
}

TEST_F(NetTest, HeadHasLengthAndNoBodyAndTheConnectionGoesOn) {
  Listen();
  HttpClient client(ServerUrl("http"), {});
  HttpCall call;
  call.method = "HEAD";
  call.path = "/abc";
  for (int i = 0; i < 2; ++i) {
    const auto reply = client.Call(call);
    ASSERT_TRUE(reply.ok()) << reply.error().ToString();
    EXPECT_EQ(reply->Header("content-length"), "11");  // "HEAD /abc  "
    EXPECT_EQ(reply->body, "");
  }
}

TEST_F(NetTest, RefusesAReplyBeyondItsLimit) {
  Listen();
  HttpClient client(ServerUrl("http"), {});
  HttpCall call;
  call.reply_limit_bytes = 5;
  const auto reply = client.Call(call);
  ASSERT_FALSE(reply.ok());
  EXPECT_NE(reply.error().message().find("longer than"), std::string::npos);
}

TEST_F(NetTest, ACallCanBeCancelledWhileItWaits) {
  Listen();
  HttpClient client(ServerUrl("http"), {});
  std::atomic<bool> cancelled = false;
  HttpCall call;
  call.path = "/hold";
  call.cancelled = &cancelled;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancelled = true;
  });
  const auto reply = client.Call(call);  // the server never answers; the limit is 30 s
  later.join();
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code(), ErrorCode::kCancelled);
}

TEST_F(NetTest, KnowsTheUserOfALoopbackClient) {
  Listen();
  HttpCall call;
  call.path = "/who";
  {
    HttpClient client(ServerUrl("http"), {});
    for (int i = 0; i < 2; ++i) {
      const auto reply = client.Call(call);
      ASSERT_TRUE(reply.ok()) << reply.error().ToString();
      EXPECT_EQ(reply->body, std::to_string(getuid()));
    }
  }
  StopServing();
  EXPECT_EQ(handler_.last_request.peer_user(), getuid());  // found while it was there
  EXPECT_EQ(HttpRequest().peer_user(), std::nullopt);
}

TEST_F(NetTest, DroppedResponderAnswers500) {
  Listen();
  HttpClient client(ServerUrl("http"), {});
  HttpCall call;
  call.path = "/drop";
  const auto reply = client.Call(call);
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->status, 500);
}

TEST_F(NetTest, DrainsWhenTheLastAnswerIsSent) {
  Listen();
  std::promise<void> drained;
  auto is_drained = drained.get_future();
  auto reply = std::async(std::launch::async, [&] {
    HttpClient client(ServerUrl("http"), {});
    HttpCall call;
    call.path = "/hold";
    return client.Call(call);
  });
  handler_.is_held.get_future().wait();
  const Url url = ServerUrl("http");
  loop_.Post([&] { server_->Drain([&] { drained.set_value(); }); });
  EXPECT_EQ(is_drained.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_FALSE(HttpClient(url, {}).Call({}).ok());  // accepts nothing new
  std::string body;                                 // more than a socket takes at once
  body.resize(10'000'000, 'x');
  loop_.Post([&] { handler_.held->Send(TextResponse(503, "text/plain", body)); });
  ASSERT_EQ(is_drained.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  const auto held_reply = reply.get();
  ASSERT_TRUE(held_reply.ok()) << held_reply.error().ToString();
  EXPECT_EQ(held_reply->status, 503);
  EXPECT_EQ(held_reply->body, body);
}

TEST_F(NetTest, NoticesAClientThatLeaves) {
  Listen();
  {
    HttpClient client(ServerUrl("http"), {});
    HttpCall call;
    call.path = "/hold";
    call.timeout = Milliseconds(100);
    EXPECT_FALSE(client.Call(call).ok());
  }
  EXPECT_EQ(handler_.client_left.get_future().wait_for(std::chrono::seconds(5)),
            std::future_status::ready);
}

TEST_F(NetTest, PortInUseSaysSo) {
  Listen();
  ServerOptions options;
  options.port = server_->port();
  const auto second = Server::Listen(loop_, options, &handler_);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message().find("is in use"), std::string::npos);
}

TEST_F(NetTest, SelfSignedTlsWithPinnedCertificate) {
  const auto folder = std::filesystem::temp_directory_path() / ("weft-tls-" + SecureRandomHex(6));
  const auto tls = SelfSignedTls(folder, {"localhost", "127.0.0.1"});
  ASSERT_TRUE(tls.ok()) << tls.error().ToString();
  const auto again = SelfSignedTls(folder, {"127.0.0.1"});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(CertificateFingerprint(**tls), CertificateFingerprint(**again));  // kept, not remade
  EXPECT_EQ(CertificateAuthority(**tls), CertificateAuthority(**again));
  Listen(*tls);
  ClientTls pinned;
  pinned.pinned_fingerprint = CertificateFingerprint(**tls);
  HttpClient client(ServerUrl("https"), pinned);
  const auto reply = client.Call({});
  ASSERT_TRUE(reply.ok()) << reply.error().ToString();
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(EchoOnce(ServerUrl("wss", "/ws"), pinned, "safe").first, "safe");

  ClientTls wrong;
  wrong.pinned_fingerprint = std::string(64, '0');
  EXPECT_FALSE(HttpClient(ServerUrl("https"), wrong).Call({}).ok());
  EXPECT_FALSE(HttpClient(ServerUrl("https"), {}).Call({}).ok());  // system trust: refused
  EXPECT_NE(Raw("GET / HTTP/1.1\r\n\r\n").find("speaks https"), std::string::npos);
  std::filesystem::remove_all(folder);
}

// Names of files in a folder, in order.
std::vector<std::string> NamesIn(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Whether OpenSSL, as strict as browsers are, takes the first certificate of `pem` for `host`'s
// where it trusts `authority` (DER) alone.
bool IsTrusted(const std::string& pem, const std::string& authority, const std::string& host) {
  const auto* der = reinterpret_cast<const unsigned char*>(authority.data());
  const std::unique_ptr<X509, decltype(&X509_free)> root(
      d2i_X509(nullptr, &der, static_cast<long>(authority.size())), X509_free);
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free_all);
  const std::unique_ptr<X509, decltype(&X509_free)> leaf(
      PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), X509_free);
  const std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)> store(X509_STORE_new(),
                                                                      X509_STORE_free);
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> check(X509_STORE_CTX_new(),
                                                                              X509_STORE_CTX_free);
  X509_STORE_add_cert(store.get(), root.get());
  X509_STORE_CTX_init(check.get(), store.get(), leaf.get(), nullptr);
  X509_VERIFY_PARAM* wish = X509_STORE_CTX_get0_param(check.get());
  X509_VERIFY_PARAM_set_flags(wish, X509_V_FLAG_X509_STRICT);
  X509_VERIFY_PARAM_set_purpose(wish, X509_PURPOSE_SSL_SERVER);
  if (X509_VERIFY_PARAM_set1_ip_asc(wish, host.c_str()) != 1) {
    X509_VERIFY_PARAM_set1_host(wish, host.c_str(), host.size());
  }
  return X509_verify_cert(check.get()) == 1;
}

TEST(Tls, AnAuthorityThatSignsNothingElseVouchesForTheCertificate) {
  const auto folder = std::filesystem::temp_directory_path() / ("weft-tls-" + SecureRandomHex(6));
  const auto tls = SelfSignedTls(folder, {"localhost", "192.168.1.7"});
  ASSERT_TRUE(tls.ok()) << tls.error().ToString();
  EXPECT_EQ(NamesIn(folder), (std::vector<std::string>{"tls-certificate.pem", "tls-key.pem"}));
  const std::string& authority = CertificateAuthority(**tls);
  ASSERT_FALSE(authority.empty());
  const auto pem = ReadTextFile(folder / "tls-certificate.pem", 1 << 16);
  EXPECT_TRUE(IsTrusted(*pem, authority, "192.168.1.7"));
  EXPECT_TRUE(IsTrusted(*pem, authority, "localhost"));
  EXPECT_FALSE(IsTrusted(*pem, authority, "192.168.1.8"));
  EXPECT_FALSE(IsTrusted(*pem, authority, "example.org"));
  // A name longer than a certificate's subject may be.
  const std::string host = std::string(60, 'a') + "." + std::string(60, 'b') + ".example";
  const auto of_long = SelfSignedTls(folder / "long", {host});
  ASSERT_TRUE(of_long.ok()) << of_long.error().ToString();
  const auto long_pem = ReadTextFile(folder / "long" / "tls-certificate.pem", 1 << 16);
  EXPECT_TRUE(IsTrusted(*long_pem, CertificateAuthority(**of_long), host));
  // One of an older version, without an authority, is made anew.
  const std::string leaf = pem->substr(0, pem->find("-----BEGIN", 10));
  ASSERT_TRUE(WriteFileAtomically(folder / "tls-certificate.pem", AsBytes(leaf)).ok());
  const auto made = SelfSignedTls(folder, {"localhost", "192.168.1.7"});
  ASSERT_TRUE(made.ok());
  EXPECT_NE(CertificateFingerprint(**made), CertificateFingerprint(**tls));
  std::filesystem::remove_all(folder);
}

TEST(Tls, TheKeyIsItsOwnersAloneAlsoWhenAnOlderOneWasNot) {
  namespace fs = std::filesystem;
  const auto folder = fs::temp_directory_path() / ("weft-tls-" + SecureRandomHex(6));
  const auto key = folder / "tls-key.pem";
  const auto permissions = [&] { return fs::status(key).permissions() & fs::perms::all; };
  const auto own = fs::perms::owner_read | fs::perms::owner_write;
  ASSERT_TRUE(SelfSignedTls(folder, {"localhost"}).ok());
  EXPECT_EQ(permissions(), own);
  fs::permissions(key, own | fs::perms::group_read | fs::perms::others_read);
  ASSERT_TRUE(SelfSignedTls(folder, {"localhost"}).ok());
  EXPECT_EQ(permissions(), own);
  // Where the name leads elsewhere it is not our key.
  fs::rename(key, folder / "elsewhere");
  fs::create_symlink("elsewhere", key);
  const auto linked = SelfSignedTls(folder, {"localhost"});
  ASSERT_FALSE(linked.ok());
  EXPECT_EQ(linked.error().code(), ErrorCode::kPermissionDenied);
  fs::remove_all(folder);
}

TEST(Address, ParsesUrls) {
  const auto url = ParseUrl("wss://example.org:8443/worker#secret");
  ASSERT_TRUE(url.ok());
  EXPECT_TRUE(url->tls);
  EXPECT_EQ(url->Authority(), "example.org:8443");
  EXPECT_EQ(url->path, "/worker");
  EXPECT_EQ(url->fragment, "secret");
  EXPECT_EQ(ParseUrl("127.0.0.1:8080")->port, 8080);
  EXPECT_EQ(ParseUrl("http://[::1]:80")->host, "::1");
  for (const char* bad : {"", "ftp://x", "http://", "http://a:0", "http://a:99999", "ws://a b"}) {
    EXPECT_FALSE(ParseUrl(bad).ok()) << bad;
  }
}

TEST(Address, EncodesPartsOfPaths) {
  EXPECT_EQ(PercentEncoded("refs/pr/1 \xC3\xBC~"), "refs%2Fpr%2F1%20%C3%BC~");
}

TEST(Address, BracketsAddressesInUrlsOnly) {
  EXPECT_EQ(HostInUrl("2001:db8::1"), "[2001:db8::1]");
  EXPECT_EQ(HostInUrl("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(HostInUrl("host.example"), "host.example");
}

}  // namespace
}  // namespace weft::net
