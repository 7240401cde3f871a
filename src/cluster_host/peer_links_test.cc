// Links between servers over loopback: with the same key, with another one, from strangers.
#include "cluster_host/peer_links.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "cluster_host/peer_links_testing.h"
#include "net/tls.h"

namespace weft::cluster_host {
namespace {

using cluster::Holder;
using cluster::ServerId;
using cluster::StartId;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using wire::pb::LinkMessage;

constexpr Holder kA{1, 11}, kB{2, 22};

class PeerLinksTest : public testing::Test {
 protected:
  void Until(const std::function<bool()>& is_so) { RunUntil(loop_, is_so); }
  // What the socket of a stranger hears of a server to which it sends `messages`.
  std::string CloseReasonFor(const LinkedServer& server, std::vector<std::string> messages) {
    std::string reason;
    bool is_closed = false;
    auto url = net::ParseUrl(server.address().url);
    url->path = kLinkPath;
    net::ConnectWebSocket(
        loop_, *url, {}, {}, {},
        [&](std::shared_ptr<net::WebSocket> socket) {
          for (std::string& each : messages) socket->Send({Slice::OfText(std::move(each))});
          net::WebSocketCallbacks callbacks;
          callbacks.on_message = [](const Slice&) {};
          callbacks.on_close_frame = [&](uint16_t, const std::string& why) { reason = why; };
          callbacks.on_closed = [&](const std::string&) { is_closed = true; };
          return callbacks;
        },
        [&](const Error&) { is_closed = true; });
    Until([&] { return is_closed; });
    return reason;
  }

  net::EventLoop loop_;
  const ClusterKey key_ = ClusterKey::Random();
};

LinkMessage Greeting(const std::string& nonce, uint64_t server = 9) {
  LinkMessage message;
  message.mutable_greeting()->set_version(kClusterLinkVersion);
  message.mutable_greeting()->set_server(server);
  message.mutable_greeting()->set_start(1);
  message.mutable_greeting()->set_nonce(nonce);
  return message;
}

TEST_F(PeerLinksTest, MessagesGoBothWaysWithTheStartOfTheSender) {
  LinkedServer a(loop_, key_, kA), b(loop_, key_, kB);
  std::vector<std::string> heard;
  for (LinkedServer* each : {&a, &b})
    each->links.OnMessage(LinkMessage::kHello, [&](ServerId peer, StartId start, const auto&) {
      heard.push_back(ToString(peer) + " of " + ToString(start));
    });
  EXPECT_FALSE(a.links.Send(2, {})) << "before there is a link";
  a.links.Connect(2, b.address());
  Until([&] { return a.links.IsUp(2) && b.links.IsUp(1); });
  LinkMessage hello;
  hello.mutable_hello();
  EXPECT_TRUE(a.links.Send(2, hello));
  EXPECT_TRUE(b.links.Send(1, hello));
  Until([&] { return heard.size() == 2; });
  EXPECT_THAT(heard, testing::UnorderedElementsAre("1 of 11", "2 of 22"));
  EXPECT_THAT(a.told, ElementsAre("up 2"));
  EXPECT_THAT(b.told, ElementsAre("up 1"));
}

TEST_F(PeerLinksTest, OneLinkStaysOfTwoThatAreDialledAtOnce) {
  LinkedServer a(loop_, key_, kA), b(loop_, key_, kB);
  for (int round = 0; round < 20; ++round) {
    a.links.Connect(2, b.address());
    b.links.Connect(1, a.address());
  }
  LinkMessage hello;
  hello.mutable_hello();
  int heard = 0;
  b.links.OnMessage(LinkMessage::kHello, [&](ServerId, StartId, const auto&) { ++heard; });
  // A hello is lost whose link gives way to another one.
  Until([&] {
    a.links.Send(2, hello);
    return heard > 10 && a.links.IsUp(2) && b.links.IsUp(1);
  });
}

TEST_F(PeerLinksTest, AnotherKeyOpensNoLink) {
  LinkedServer a(loop_, key_, kA), b(loop_, ClusterKey::Random(), kB);
  a.links.Connect(2, b.address());
  Until([&] { return !a.told.empty(); });
  EXPECT_THAT(a.told, ElementsAre("failed 2"));
  EXPECT_THAT(b.told, IsEmpty());
  EXPECT_FALSE(a.links.IsUp(2) || b.links.IsUp(1));
}

// While keys are exchanged a server has both, and another one still the old or already the new one.
TEST_F(PeerLinksTest, OneKeyThatBothHaveIsEnough) {
  const ClusterKey old = ClusterKey::Random(), next = ClusterKey::Random();
  for (const ClusterKey& alone : {old, next}) {
    LinkedServer a(loop_, old, kA), b(loop_, alone, kB);
    a.links.SetKeys({old, next});
    a.links.Connect(2, b.address());
    Until([&] { return a.links.IsUp(2) && b.links.IsUp(1); });
  }
  LinkedServer a(loop_, old, kA), b(loop_, old, kB);
  a.links.SetKeys({old, next});
  b.links.SetKeys({next, ClusterKey::Random()});
  b.links.Connect(1, a.address());
  Until([&] { return a.links.IsUp(2) && b.links.IsUp(1); });
}

TEST_F(PeerLinksTest, AnotherServerAtTheAddressIsNotTakenForThePeer) {
  LinkedServer a(loop_, key_, kA), b(loop_, key_, kB);
  a.links.Connect(3, b.address());
  Until([&] { return !a.told.empty(); });
  EXPECT_THAT(a.told, ElementsAre("failed 3"));
}

TEST_F(PeerLinksTest, APortWithoutAListenerIsRefused) {
  LinkedServer a(loop_, key_, kA), b(loop_, key_, kB);
  const PeerAddress address = b.address();
  b.EndListening();
  a.links.Connect(2, address);
  Until([&] { return !a.told.empty(); });
  EXPECT_THAT(a.told, ElementsAre("refused 2"));
  a.links.Connect(2, {"ftp://nowhere", ""});
  Until([&] { return a.told.size() == 2; });
  EXPECT_EQ(a.told.back(), "failed 2");
}

TEST_F(PeerLinksTest, ALaterStartTakesThePlaceOfAnEarlierOne) {
  LinkedServer a(loop_, key_, kA);
  auto b = std::make_unique<LinkedServer>(loop_, key_, kB);
  b->links.Connect(1, a.address());
  Until([&] { return a.links.IsUp(2) && b->links.IsUp(1); });
  LinkedServer again(loop_, key_, Holder{2, 23});
  again.links.Connect(1, a.address());
  Until([&] { return again.links.IsUp(1); });
  EXPECT_THAT(a.told, ElementsAre("up 2", "down 2", "up 2"));
  Until([&] { return !b->links.IsUp(1); });
}

TEST_F(PeerLinksTest, StrangersAreClosedWithASentence) {
  LinkedServer b(loop_, key_, kB);
  const std::string nonce(32, 'n');
  EXPECT_THAT(CloseReasonFor(b, {"garbage"}), testing::HasSubstr("could not be parsed"));
  LinkMessage hello;
  hello.mutable_hello();
  EXPECT_THAT(CloseReasonFor(b, {hello.SerializeAsString()}), testing::HasSubstr("out of order"));
  EXPECT_THAT(CloseReasonFor(b, {Greeting("short").SerializeAsString()}),
              testing::HasSubstr("no nonce"));
  EXPECT_THAT(CloseReasonFor(b, {Greeting(nonce, 2).SerializeAsString()}),
              testing::HasSubstr("own id"));
  LinkMessage newer = Greeting(nonce);
  newer.mutable_greeting()->set_version(kClusterLinkVersion + 1);
  EXPECT_THAT(CloseReasonFor(b, {newer.SerializeAsString()}), testing::HasSubstr("update weft"));
  LinkMessage proof;
  proof.mutable_proof()->set_mac(std::string(32, 'm'));
  EXPECT_THAT(CloseReasonFor(b, {Greeting(nonce).SerializeAsString(), proof.SerializeAsString()}),
              testing::HasSubstr("another cluster's key"));
  EXPECT_THAT(b.told, IsEmpty());
}

// What one end says is no proof of the other's: nobody gets in by sending it back.
TEST(ClusterKeyTest, ProofsOfBothEndsDiffer) {
  const ClusterKey key = ClusterKey::Random();
  const ClusterKey::LinkEnd a{1, "x"}, b{2, "y"};
  EXPECT_EQ(key.Prove(a, b, true), key.Prove(a, b, true));
  EXPECT_NE(key.Prove(a, b, true), key.Prove(b, a, true));
  EXPECT_NE(key.Prove(a, b, true), key.Prove(a, b, false));
  EXPECT_NE(key.Prove(a, b, true), key.Prove({1, "z"}, b, true));
  EXPECT_NE(key.Prove(a, b, true), ClusterKey::Random().Prove(a, b, true));
}

// A port with TLS that nobody would take for a peer's.
class PeerCertificateTest : public PeerLinksTest {
 protected:
  PeerCertificateTest() : folder_(std::filesystem::path(testing::TempDir()) / "peer-certificate") {
    std::filesystem::remove_all(folder_);
    const auto tls = net::SelfSignedTls(folder_, {"localhost", "127.0.0.1"});
    EXPECT_TRUE(tls.ok());
    fingerprint_ = net::CertificateFingerprint(**tls);
    net::ServerOptions options;
    options.tls = *tls;
    auto listening = net::Server::Listen(loop_, options, &b_);
    EXPECT_TRUE(listening.ok());
    server_ = std::move(*listening);
  }
  ~PeerCertificateTest() override { std::filesystem::remove_all(folder_); }
  PeerAddress At(const std::string& fingerprint) const {
    return {"https://127.0.0.1:" + std::to_string(server_->port()), fingerprint};
  }
  // What a server that expects this certificate says of the port.
  std::string ProblemWith(const PeerAddress& address) {
    auto url = net::ParseUrl(address.url);
    url->path = kLinkPath;
    net::ClientTls tls;
    tls.pinned_fingerprint = address.fingerprint;
    std::string problem;
    net::ConnectWebSocket(
        loop_, *url, tls, {}, {},
        [](std::shared_ptr<net::WebSocket>) { return net::WebSocketCallbacks(); },
        [&](const Error& error) { problem = LinkProblem(address, error).message(); });
    Until([&] { return !problem.empty(); });
    return problem;
  }

  const std::filesystem::path folder_;
  LinkedServer b_{loop_, key_, kB};
  std::string fingerprint_;
  std::unique_ptr<net::Server> server_;
};

TEST_F(PeerCertificateTest, ThatOfTheRowIsTaken) {
  LinkedServer a(loop_, key_, kA);
  a.links.Connect(kB.server, At(fingerprint_));
  Until([&] { return a.links.IsUp(kB.server); });
}

TEST_F(PeerCertificateTest, AnotherOneIsASentenceThatSaysWhatToDo) {
  EXPECT_THAT(ProblemWith(At(std::string(64, '0'))),
              AllOf(HasSubstr("not the one in its row"), HasSubstr("start that server again"),
                    HasSubstr("000000000000...")));
  EXPECT_THAT(ProblemWith(At("")), AllOf(HasSubstr("does not trust"), HasSubstr("--tls")));
  LinkedServer a(loop_, key_, kA);
  a.links.Connect(kB.server, At(std::string(64, '0')));
  Until([&] { return !a.told.empty(); });
  EXPECT_THAT(a.told, ElementsAre("failed 2")) << "it does not count as refused";
  EXPECT_FALSE(a.links.IsUp(kB.server));
}

}  // namespace
}  // namespace weft::cluster_host
