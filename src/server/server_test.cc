// The whole server over sockets: which of its threads wait for which.
#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "net/net_testing.h"
#include "server/connect_testing.h"
#include "server/server_testing.h"

namespace weft::server {
namespace {

// A conversation through this takes a thread some tenths of a second.
constexpr char kSlowTemplate[] =
    "{% for a in range(200) %}{% for b in range(1000) %}{% endfor %}{% endfor %}x";
constexpr size_t kPrompts = 64;  // as many as may wait to be read

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    ServedModel model;
    model.package.manifest.name = model.info.name = "slow";
    model.info.layers.resize(3);
    model.info.hidden_columns = 8;
    model.info.vocabulary = 1 << 20;
    model.text = TinyText(kSlowTemplate);
    ServerOptions options;
    options.port = 0;
    options.secrets = Secrets();
    options.queue = kPrompts;
    options.wait = Seconds(600);
    auto server = Server::Listen(options, std::move(model));
    ASSERT_TRUE(server.ok()) << server.error().ToString();
    server_ = std::move(server).value();
    thread_ = std::thread([this] { server_->Run(); });
  }
  void TearDown() override {
    server_->loop().Stop();
    thread_.join();
  }
  void OnLoop(const std::function<void()>& work) {
    std::promise<void> done;
    server_->loop().Post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  // Prompts that have become tokens: their requests wait for the swarm.
  size_t PromptsRead() {
    size_t count = 0;
    OnLoop([&] { count = server_->host().snapshot().queued_requests; });
    return count;
  }
  std::unique_ptr<net::RawClient> Ask() {
    const std::string body = R"({"model":"slow","messages":[{"role":"user","content":"Hi"}]})";
    const std::string port = std::to_string(server_->reach().port);
    auto client = std::make_unique<net::RawClient>(server_->reach().port);
    EXPECT_TRUE(client->Send("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:" + port +
                             "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
                             body));
    return client;
  }
  // The answer to a request, from its status line to its end.
  std::string Call(const std::string& request_line, const std::string& body) {
    const std::string port = std::to_string(server_->reach().port);
    net::RawClient client(server_->reach().port);
    EXPECT_TRUE(client.Send(request_line + " HTTP/1.1\r\nHost: 127.0.0.1:" + port +
                            "\r\nContent-Length: " + std::to_string(body.size()) +
                            "\r\nConnection: close\r\n\r\n" + body));
    return client.ReadUntil("\n\n\n");  // which never comes
  }
  // A worker that connects from that address; `closed` gets the reason where it is sent away.
  void AddWorkerFrom(const std::string& address, std::string* closed) {
    OnLoop([&] {
      const auto worker = server_->host().AttachWorker(
          {[](const std::vector<Slice>&) {}, [closed](const std::string& why) { *closed = why; }},
          address, "", true);
      server_->host().OnWorkerMessage(worker, ConnectMessage());
    });
  }
  // A worker that connects, which makes the core want a plan.
  void AddWorker() {
    OnLoop([&] {
      const auto worker = server_->host().AttachWorker(
          {[](const std::vector<Slice>&) {}, [](const std::string&) {}}, "127.0.0.1", "", true);
      server_->host().OnWorkerMessage(worker, ConnectMessage());
    });
  }

  std::unique_ptr<Server> server_;
  std::thread thread_;
};

TEST_F(ServerTest, PlanningWaitsForNoPromptAndPromptsForNoPlanning) {
  const auto planning = std::make_shared<std::promise<void>>();
  std::promise<void> may_end;
  const std::shared_future<void> end = may_end.get_future().share();
  OnLoop([&] {
    server_->host().SetPlanner([planning, end](const swarm::StartPlanning&) {
      planning->set_value();
      end.wait();
      return planner::PlanOutcome();
    });
  });
  std::vector<std::unique_ptr<net::RawClient>> clients;
  for (size_t i = 0; i < kPrompts; ++i) clients.push_back(Ask());
  AddWorker();
  ASSERT_TRUE(net::Comes(planning->get_future()));
  const size_t read_before = PromptsRead();
  EXPECT_LT(read_before, kPrompts / 2) << "the plan was made behind the prompts";

  const Instant limit = MonotonicNow() + Seconds(60);
  while (PromptsRead() == read_before && MonotonicNow() < limit) std::this_thread::yield();
  EXPECT_GT(PromptsRead(), read_before) << "prompts wait for the plan";
  may_end.set_value();
}

TEST_F(ServerTest, ConsentIsForWhoIsAskedForOnly) {
  const auto answer = [&](const std::string& body) {
    net::RawClient client(server_->reach().port);
    EXPECT_TRUE(client.Send("POST /api/swarm/consent HTTP/1.1\r\nHost: 127.0.0.1:" +
                            std::to_string(server_->reach().port) + "\r\nContent-Length: " +
                            std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body));
    return client.ReadUntil("}}");
  };
  for (const char* body :
       {"", "{}", R"({"worker":1})", R"({"worker":"1","allow":true})", R"({"worker":1,"allow":1})"})
    EXPECT_THAT(answer(body), testing::AllOf(testing::HasSubstr(" 400 "),
                                             testing::HasSubstr("its number in /api/swarm")))
        << body;
  for (const char* body : {R"({"worker":1,"allow":true})", R"({"worker":-1,"allow":false})"})
    EXPECT_THAT(answer(body), testing::HasSubstr(" 404 ")) << body;
}

TEST_F(ServerTest, AnEvictedDeviceIsRefusedUntilItIsLetIn) {
  std::string first, again, other;
  AddWorkerFrom("192.0.2.7", &first);
  AddWorkerFrom("192.0.2.8", &other);
  EXPECT_THAT(Call("GET /api/admin/devices", ""),
              testing::AllOf(testing::HasSubstr(R"("model":"slow")"),
                             testing::HasSubstr(R"("address":"192.0.2.7")"),
                             testing::HasSubstr(R"("is_own":false)")));
  EXPECT_THAT(Call("POST /api/admin/devices/evict", R"({"worker":1,"model":"slow"})"),
              testing::HasSubstr(R"("ends_in_s":3.6E3)"));
  EXPECT_THAT(first, testing::HasSubstr("has evicted this device. It may come back in 60 min"));
  AddWorkerFrom("192.0.2.7", &again);
  EXPECT_EQ(again, first);
  EXPECT_EQ(other, "") << "another device";
  EXPECT_THAT(Call("GET /api/admin/devices", ""), testing::HasSubstr(R"("evicted":[{"number":1,)"));
  EXPECT_THAT(Call("DELETE /api/admin/evicted/1", ""), testing::HasSubstr(R"({"let_in":1})"));
  EXPECT_THAT(Call("DELETE /api/admin/evicted/1", ""), testing::HasSubstr(" 404 "));
  std::string let_in;
  AddWorkerFrom("192.0.2.7", &let_in);
  EXPECT_EQ(let_in, "");
}

TEST_F(ServerTest, OrdersForWhatIsNotThereSayWhatWasExpected) {
  for (const char* body : {"", "[]", "{}", R"({"worker":"1"})", R"({"worker":-1})"})
    EXPECT_THAT(Call("POST /api/admin/devices/evict", body),
                testing::AllOf(testing::HasSubstr(" 400 "), testing::HasSubstr("a device's id")))
        << body;
  for (const char* body :
       {R"({"worker":7})", R"({"worker":7,"model":"slow"})", R"({"worker":7,"model":"quick"})"})
    EXPECT_THAT(Call("POST /api/admin/devices/evict", body), testing::HasSubstr(" 404 ")) << body;
  for (const char* number : {"", "x", "1", "-1", "99999999999999999999"})
    EXPECT_THAT(Call(std::string("DELETE /api/admin/evicted/") + number, ""),
                testing::AllOf(testing::HasSubstr(" 404 "), testing::HasSubstr("let in already")))
        << number;
  for (const char* verb : {"load", "unload"})
    EXPECT_THAT(Call(std::string("POST /api/admin/models/") + verb, R"({"model":"slow"})"),
                testing::AllOf(testing::HasSubstr(" 409 "), testing::HasSubstr("stays loaded")));
  EXPECT_THAT(Call("GET /api/admin/models", ""),
              testing::HasSubstr(R"({"name":"slow","state":"loaded","stays":true)"));
}

}  // namespace
}  // namespace weft::server
