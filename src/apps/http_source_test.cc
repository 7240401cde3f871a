// Downloads that fail: what the line, the server and the device's own cache are to blame for.
#include "apps/http_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/file_testing.h"
#include "base/sha256.h"
#include "net/server.h"

namespace weft::apps {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr size_t kBlobBytes = 100'000;

// Gives what `answer` makes of each request for a blob, on a thread of its own.
class BlobServer : public net::ServerHandler {
 public:
  explicit BlobServer(std::function<net::HttpResponse(int asked)> answer)
      : answer_(std::move(answer)),
        server_(net::Server::Listen(loop_, {}, this).value()),
        thread_([this] { loop_.Run(); }) {}
  ~BlobServer() override {
    loop_.Stop();
    thread_.join();
  }

  void OnRequest(net::HttpRequest, std::shared_ptr<net::Responder> responder) override {
    responder->Send(answer_(++asked_));
  }
  bool OnHandshake(const net::HttpRequest&, net::HttpResponse*) override { return false; }
  net::WebSocketCallbacks OnWebSocket(const net::HttpRequest&,
                                      std::shared_ptr<net::WebSocket>) override {
    return {};
  }

  net::Url url() const {
    return *net::ParseUrl("ws://127.0.0.1:" + std::to_string(server_->port()));
  }
  int asked() const { return asked_; }

 private:
  const std::function<net::HttpResponse(int)> answer_;
  std::atomic<int> asked_ = 0;
  net::EventLoop loop_;
  std::unique_ptr<net::Server> server_;
  std::thread thread_;
};

struct Download {
  Status status = OkStatus();
  int asked = 0;
  Duration time;
};

const std::string kBytes(kBlobBytes, 'w');

// A download of kBytes from a server that gives what `answer` makes; `spoil` may spoil the cache
// before it begins.
Download Fetch(
    const std::function<net::HttpResponse(int)>& answer,
    const std::function<void(const fs::path&)>& spoil = [](const fs::path&) {}) {
  const TemporaryFolder folder;
  BlobServer server(answer);
  const auto source =
      MakeHttpSource({std::make_shared<ServerList>(std::vector<ServerAddress>{{server.url(), {}}}),
                      "", folder.path()})
          .value();
  spoil(folder.path());
  package::BlobInfo info;
  info.byte_count = kBlobBytes;
  info.chunks = {Sha256(AsBytes(kBytes))};
  const std::atomic<bool> cancel = false;
  Download download;
  const Instant begin = MonotonicNow();
  download.status = source->Fetch(
      package::Digest::Of(AsBytes(kBytes)), info, [](uint64_t) {}, cancel);
  download.time = MonotonicNow() - begin;
  download.asked = server.asked();
  return download;
}

net::HttpResponse Whole(int) {
  return net::TextResponse(200, "application/octet-stream", kBytes);
}

TEST(HttpSource, WhatOneServerCannotGiveIsAskedOfTheNext) {
  for (const int status : {404, 500}) {
    const TemporaryFolder folder;
    BlobServer without([status](int) { return net::TextResponse(status, "text/plain", "none"); });
    BlobServer with(Whole);
    const auto servers = std::make_shared<ServerList>(
        std::vector<ServerAddress>{{without.url(), {}}, {with.url(), {}}});
    const auto source = MakeHttpSource({servers, "", folder.path()}).value();
    package::BlobInfo info;
    info.byte_count = kBlobBytes;
    info.chunks = {Sha256(AsBytes(kBytes))};
    const std::atomic<bool> cancel = false;
    const auto digest = package::Digest::Of(AsBytes(kBytes));
    EXPECT_TRUE(source
                    ->Fetch(
                        digest, info, [](uint64_t) {}, cancel)
                    .ok())
        << status;
    EXPECT_EQ(without.asked(), 1);
    EXPECT_EQ(with.asked(), 1);
  }
}

TEST(HttpSource, ACacheThatFailsIsToldAtOnceByName) {
  const Download download =
      Fetch(Whole, [](const fs::path& cache) { fs::remove_all(cache / "blobs"); });
  ASSERT_FALSE(download.status.ok());
  EXPECT_THAT(download.status.error().message(), HasSubstr("The cache of this device fails"));
  EXPECT_THAT(download.status.error().message(), HasSubstr("--cache"));
  EXPECT_EQ(download.asked, 1);
  EXPECT_LT(download.time, Seconds(2));
}

TEST(HttpSource, DamagedBytesAreAskedForOnceMoreAndAreTheServers) {
  const Download download = Fetch([](int) {
    return net::TextResponse(200, "application/octet-stream", std::string(kBlobBytes, 'x'));
  });
  ASSERT_FALSE(download.status.ok());
  EXPECT_EQ(download.status.error().code(), ErrorCode::kInvalidData);
  EXPECT_THAT(download.status.error().message(), HasSubstr("the package on the server is damaged"));
  EXPECT_EQ(download.asked, 2);
}

TEST(HttpSource, AServerThatIsBusyIsAskedAgain) {
  const Download download = Fetch([](int asked) {
    return asked < 3 ? net::TextResponse(503, "text/plain", "later") : Whole(asked);
  });
  EXPECT_TRUE(download.status.ok());
  EXPECT_EQ(download.asked, 3);
}

}  // namespace
}  // namespace weft::apps
