// What one more device would change: for a swarm that lacks memory, and for one that does not.
#include "server/what_if.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "server/server_testing.h"

namespace weft::server {
namespace {

namespace json = boost::json;

constexpr uint64_t kMiB = 1 << 20;

// Twelve layers of 100 MiB.
swarm::CoreOptions TwelveLayers() {
  swarm::CoreOptions core;
  core.model.name = "twelve";
  core.model.layers.resize(12);
  for (swarm::ModelLayer& layer : core.model.layers) {
    layer.weight_bytes = 100 * kMiB;
    layer.download_bytes = layer.read_bytes_per_token = layer.weight_bytes;
  }
  core.model.lowered = true;
  core.model.hidden_columns = 64;
  core.model.vocabulary = 1000;
  core.context_length = 64;
  core.session_count = 1;
  return core;
}

swarm::Snapshot WithDevice(uint64_t memory_bytes) {
  swarm::Snapshot snapshot;
  snapshot.workers.resize(1);
  snapshot.workers[0].name = "old laptop";
  snapshot.workers[0].kind = "native";
  snapshot.workers[0].memory_bytes = memory_bytes;
  return snapshot;
}

json::object Ask(uint64_t memory_bytes, uint64_t added_bytes) {
  return json::parse(WhatIfJson(TwelveLayers(), WithDevice(memory_bytes), added_bytes)).as_object();
}

TEST(WhatIfTest, ADeviceMayBeAllThatIsMissing) {
  const json::object answer = Ask(800 * kMiB, 8192 * kMiB);
  EXPECT_FALSE(answer.at("now").at("runs").as_bool());
  EXPECT_GT(answer.at("now").at("missing_memory_bytes").to_number<uint64_t>(), 300 * kMiB);
  EXPECT_TRUE(answer.at("with").at("runs").as_bool());
  EXPECT_GT(answer.at("with").at("predicted_us_per_token").to_number<double>(), 0);
  EXPECT_GT(answer.at("with").at("end_layer").to_number<int>(),
            answer.at("with").at("first_layer").to_number<int>());
}

TEST(WhatIfTest, ADeviceMayNotBeEnough) {
  const json::object answer = Ask(200 * kMiB, 300 * kMiB);
  EXPECT_FALSE(answer.at("with").at("runs").as_bool());
  EXPECT_LT(answer.at("with").at("missing_memory_bytes").to_number<uint64_t>(),
            answer.at("now").at("missing_memory_bytes").to_number<uint64_t>());
}

TEST(WhatIfTest, AnswersOnTheLoopAndRefusesWhatIsNoMemory) {
  net::EventLoop loop;
  TaskQueue planning{1};
  SwarmHost host(loop, planning, TwelveLayers());
  WhatIf what_if(TwelveLayers(), host, loop, planning);
  const auto ask = [&](const std::string& query) {
    net::HttpRequest request;
    request.query = query;
    auto client = std::make_shared<RecordingResponder>();
    what_if.Answer(request, client);
    return client;
  };
  for (const char* query : {"", "memory_bytes=", "memory_bytes=8GB", "memory_bytes=-1",
                            "memory_bytes=1024", "memory_bytes=99999999999999999999"}) {
    const auto refused = ask(query);
    EXPECT_EQ(refused->status, 400) << query;
    EXPECT_NE(refused->body.find("must be a number from 67108864"), std::string::npos);
  }
  const auto answered = ask("memory_bytes=8589934592");
  EXPECT_EQ(ask("memory_bytes=8589934592")->status, 429);
  net::EventLoop::Timer look(loop);
  std::function<void()> wait = [&] {
    if (answered->answers > 0) return loop.Stop();
    look.FireAfter(Milliseconds(1), wait);
  };
  wait();
  loop.Run();
  EXPECT_EQ(answered->status, 200);
  EXPECT_NE(answered->body.find("\"with\""), std::string::npos);
}

}  // namespace
}  // namespace weft::server
