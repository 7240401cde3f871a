// Downloads: how much is read for a client before it has taken it, and how many may wait.
#include "server/package_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file_testing.h"
#include "server/server_testing.h"

namespace weft::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class OneGraph : public StageGraphs {
 public:
  Result<Slice> Cut(int, int) override { return Slice::OfText("a graph"); }
};

std::vector<uint8_t> RandomBytes(size_t byte_count) {
  SeededRandom random(5);
  std::vector<uint8_t> bytes(byte_count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Next());
  return bytes;
}

class PackageRoutesTest : public testing::Test {
 protected:
  using Client = std::shared_ptr<RecordingResponder>;

  PackageRoutesTest() {
    auto store = package::BlobStore::Open(folder_.path());
    CHECK(store.ok());
    package::Package package;
    package.blobs = std::move(store).value();
    package.manifest.layers.resize(2);
    package.manifest_json = "{}";
    package.manifest.blobs[digest_] = package::MakeBlobInfo(blob_);
    CHECK(package.blobs->Put(digest_, blob_).ok());
    routes_ =
        std::make_unique<PackageRoutes>(std::move(package), std::make_shared<OneGraph>(), loop_);
  }

  Client Ask(const std::string& path, net::Headers headers = {}) {
    net::HttpRequest request;
    request.method = "GET";
    request.path = "/package/" + path;
    request.headers = std::move(headers);
    auto client = std::make_shared<RecordingResponder>();
    routes_->Answer(request, client);
    return client;
  }
  // Runs the loop until `condition` holds.
  void Await(const std::function<bool()>& condition) {
    net::EventLoop::Timer look(loop_);
    std::function<void()> again = [&] {
      if (condition()) return loop_.Stop();
      look.FireAfter(Milliseconds(1), again);
    };
    again();
    loop_.Run();
  }
  static std::vector<size_t> PieceBytes(const net::HttpResponse& response) {
    std::vector<size_t> byte_counts;
    for (const Slice& piece : response.body) byte_counts.push_back(piece.byte_count());
    return byte_counts;
  }

  const TemporaryFolder folder_;
  const std::vector<uint8_t> blob_ = RandomBytes((5 << 19) + 7);
  const package::Digest digest_ = package::Digest::Of(blob_);
  const std::string blob_path_ = "blobs/" + digest_.ToHex();
  net::EventLoop loop_;
  std::unique_ptr<PackageRoutes> routes_;
};

TEST_F(PackageRoutesTest, ABlobIsReadAPieceAtATime) {
  const Client whole = Ask(blob_path_);
  const Client range = Ask(blob_path_, {{"range", "bytes=1048575-2097152"}});
  Await([&] { return whole->answers == 1 && range->answers == 1; });
  EXPECT_EQ(whole->status, 200);
  EXPECT_EQ(whole->body, AsText(blob_));
  EXPECT_THAT(PieceBytes(whole->response), ElementsAre(1 << 20, 1 << 20, (1 << 19) + 7));
  EXPECT_EQ(range->status, 206);
  EXPECT_EQ(range->body, AsText(blob_).substr(1048575, 1048578));
  EXPECT_THAT(PieceBytes(range->response), ElementsAre(1 << 20, 2));

  ASSERT_TRUE(whole->response.prepare);
  bool is_read = false;
  whole->response.prepare(whole->response.body[1], [&] { is_read = true; });
  EXPECT_FALSE(is_read) << "the loop does not read";
  Await([&] { return is_read; });
}

TEST_F(PackageRoutesTest, ADownloadGoesOnAfterItsModelWasUnloaded) {
  const Client whole = Ask(blob_path_);
  Await([&] { return whole->answers == 1; });
  routes_.reset();
  int read_count = 0;
  for (const Slice& piece : whole->response.body) {
    whole->response.prepare(piece, [&] { ++read_count; });
  }
  Await([&] { return read_count == 3; });
  whole->response.prepare = nullptr;  // as a connection does at its end, on the loop
  EXPECT_EQ(whole->body, AsText(blob_));
}

// The loop does not run at first: what the threads have made is not taken from them.
TEST_F(PackageRoutesTest, NoMoreThanSoManyDownloadsWait) {
  std::vector<Client> waiting;
  for (int i = 0; i < 256; ++i) {
    waiting.push_back(Ask(blob_path_));
    waiting.push_back(Ask("stages/0-2.onnx"));
  }
  for (const Client& client : waiting) EXPECT_EQ(client->answers, 0);
  for (const std::string& path : {blob_path_, std::string("stages/0-1.onnx")}) {
    const Client refused = Ask(path);
    EXPECT_EQ(refused->status, 503);
    EXPECT_THAT(refused->body, HasSubstr("512 downloads wait"));
    EXPECT_NE(refused->Header("Retry-After"), "");
  }
  EXPECT_EQ(Ask("weft.json")->status, 200) << "nothing is read for it";

  const auto is_answered = [](const Client& client) { return client->status == 200; };
  Await([&] { return std::all_of(waiting.begin(), waiting.end(), is_answered); });
  const Client later = Ask(blob_path_);
  Await([&] { return later->answers == 1; });
  EXPECT_EQ(later->status, 200);

  // Pieces of answers under way count, and are never refused.
  int read_count = 0;
  for (int i = 0; i < 600; ++i) {
    later->response.prepare(later->response.body[0], [&] { ++read_count; });
  }
  EXPECT_EQ(Ask(blob_path_)->status, 503);
  Await([&] { return read_count == 600; });
}

TEST_F(PackageRoutesTest, WhatThePackageLacksIsToldAtOnce) {
  for (const char* path :
       {"blobs/x", "blobs/0000000000000000000000000000000000000000000000000000000000000000",
        "stages/0-3.onnx", "stages/1-1.onnx", "stages/-1-1.onnx", "stages/0-1.onnx.onnx",
        "other"}) {
    SCOPED_TRACE(path);
    EXPECT_EQ(Ask(path)->status, 404);
  }
}

}  // namespace
}  // namespace weft::server
