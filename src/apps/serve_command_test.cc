// `weft serve` as its clients see it while it stops.
#include "apps/serve_command.h"

#include <gtest/gtest.h>

#include <weft_source_dir.h>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include "base/random.h"
#include "convert/convert.h"
#include "net/client.h"

namespace weft::apps {
namespace {

class ServeTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("weft-serve-" + SecureRandomHex(6));
    convert::ConvertOptions convert;
    convert.source = std::filesystem::path(WEFT_SOURCE_DIR) / "models" / "weft-tiny";
    convert.package = folder_;
    const auto report = convert::ConvertCheckpoint(convert, [](const convert::ConvertProgress&) {});
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    ServeOptions serve;
    serve.packages = {folder_.string()};
    serve.port = 0;
    serve.no_worker = true;  // requests wait
    auto server = BackgroundServer::Start(serve);
    ASSERT_TRUE(server.ok()) << server.error().ToString();
    server_.emplace(std::move(server).value());
    url_ = *net::ParseUrl(server_->url());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::future<Result<net::HttpReply>> Ask(const std::string& more_fields) {
    return std::async(std::launch::async, [this, more_fields] {
      net::HttpCall call;
      call.method = "POST";
      call.path = "/v1/chat/completions";
      call.body =
          R"({"model":"weft-tiny","messages":[{"role":"user","content":"Hi"}])" + more_fields + "}";
      return net::HttpClient(url_, {}).Call(call);
    });
  }
  // Until so many requests wait in the swarm.
  void AwaitRequests(int count) {
    const std::string wanted = "\"queued_requests\":" + std::to_string(count);
    net::HttpClient client(url_, {});
    net::HttpCall call;
    call.path = "/api/swarm";
    for (;;) {
      const auto reply = client.Call(call);
      ASSERT_TRUE(reply.ok()) << reply.error().ToString();
      if (reply->body.find(wanted) != std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  std::filesystem::path folder_;
  std::optional<BackgroundServer> server_;
  net::Url url_;
};

TEST_F(ServeTest, TellsRequestsThatWaitThatItStops) {
  auto whole = Ask("");
  auto stream = Ask(R"(,"stream":true)");
  AwaitRequests(2);
  server_.reset();

  const auto refused = whole.get();
  ASSERT_TRUE(refused.ok()) << refused.error().ToString();
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->body,
            R"({"error":{"message":"The server is stopping.","type":"overloaded_error",)"
            R"("param":null,"code":"unavailable"}})");
  const auto ended = stream.get();
  ASSERT_TRUE(ended.ok()) << ended.error().ToString();
  EXPECT_EQ(ended->status, 503) << "no byte of a stream was sent yet";
  EXPECT_EQ(ended->body, refused->body);
}

}  // namespace
}  // namespace weft::apps
