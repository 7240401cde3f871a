// What watches of a server are told while its swarm is down, loading, up and stopping.
#include "server/health_routes.h"

#include <gtest/gtest.h>

#include "server/server_testing.h"

namespace weft::server {
namespace {

using swarm::SwarmState;

class HealthRoutesTest : public testing::Test {
 protected:
  HealthRoutesTest() {
    swarm::CoreOptions core;
    core.model.name = "tiny";
    core.model.layers.resize(3);
    core.model.hidden_columns = 8;
    core.model.vocabulary = 100;
    core.context_length = 64;
    host_ = std::make_unique<SwarmHost>(loop_, planning_, core);
  }
  // "200 ok\n"
  std::string Ask(const std::string& path) {
    for (const Route& route : HealthRoutes(host_.get())) {
      if (route.path != path) continue;
      EXPECT_EQ(route.secret, Secret::kNone);
      EXPECT_TRUE(route.may_lack_host);
      const auto client = std::make_shared<RecordingResponder>();
      route.handle({}, client);
      EXPECT_EQ(client->Header("Cache-Control"), "no-store");
      return std::to_string(client->status) + " " + client->body;
    }
    return "";
  }

  net::EventLoop loop_;
  TaskQueue planning_{1};
  std::unique_ptr<SwarmHost> host_;
};

TEST_F(HealthRoutesTest, AServerWithoutDevicesLivesAndIsNotReady) {
  EXPECT_EQ(Ask("/healthz"), "200 ok\n");
  EXPECT_EQ(Ask("/readyz"), R"(503 {"status":"unavailable","state":"down",)"
                            R"("reason":"No devices hold the whole model together."})");
  EXPECT_EQ(Ask("/health"),
            R"(503 {"error":{"code":503,"message":"No devices hold the whole model together.",)"
            R"("type":"unavailable_error"}})");
}

TEST_F(HealthRoutesTest, AServerThatStopsSaysSo) {
  host_->EndRequests(Error(ErrorCode::kUnavailable, "The server is stopping."));
  EXPECT_EQ(Ask("/healthz"), "200 ok\n");
  EXPECT_EQ(
      Ask("/readyz"),
      R"(503 {"status":"unavailable","state":"stopping","reason":"The server is stopping."})");
}

TEST(NotReadyTest, OnlyASwarmThatIsUpIsReady) {
  EXPECT_FALSE(FindNotReady(SwarmState::kUp, false));
  EXPECT_STREQ(FindNotReady(SwarmState::kUp, true)->state, "stopping");
  EXPECT_STREQ(FindNotReady(SwarmState::kDown, false)->state, "down");
  EXPECT_STREQ(FindNotReady(SwarmState::kPreparing, false)->state, "preparing");
  EXPECT_STREQ(FindNotReady(SwarmState::kRepairing, false)->state, "repairing");
}

}  // namespace
}  // namespace weft::server
