// What a request is told before any of its answer: by the threads that read it, the queue and a
// swarm that is down. There is no worker here.
#include "server/chat_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/server_testing.h"

namespace weft::server {
namespace {

using testing::HasSubstr;

swarm::CoreOptions Core(uint32_t queue_limit) {
  swarm::CoreOptions core;
  core.model.name = "tiny";
  core.model.layers.resize(3);
  core.model.hidden_columns = 8;
  core.model.vocabulary = 1 << 20;
  core.context_length = 64;
  core.queue_limit = queue_limit;
  return core;
}

class ChatRoutesTest : public testing::Test {
 protected:
  using Client = std::shared_ptr<RecordingResponder>;

  void Serve(uint32_t queue_limit, Duration wait) {
    host_ = std::make_unique<SwarmHost>(loop_, planning_, Core(queue_limit));
    chat_ = std::make_unique<ChatRoutes>(ChatRoutes::Options{"tiny", 0, wait}, TinyText(), *host_,
                                         loop_);
  }
  Client Ask(const std::string& fields, const std::string& key = "") {
    net::HttpRequest request;
    if (!key.empty()) request.headers.emplace_back("idempotency-key", key);
    request.body = R"({"model":"tiny","messages":[{"role":"user","content":"Hi"}])" + fields + "}";
    auto client = std::make_shared<RecordingResponder>();
    chat_->Complete(std::move(request), client);
    return client;
  }
  // Runs the loop until the client has its answer.
  void Await(const Client& client) {
    net::EventLoop::Timer look(loop_);
    std::function<void()> again = [&] {
      if (client->answers > 0) return loop_.Stop();
      look.FireAfter(Milliseconds(2), again);
    };
    again();
    loop_.Run();
  }

  net::EventLoop loop_;
  TaskQueue planning_{1};
  std::unique_ptr<SwarmHost> host_;
  std::unique_ptr<ChatRoutes> chat_;
};

TEST_F(ChatRoutesTest, AFullQueueIsARealStatusAlsoOfAStream) {
  Serve(0, Seconds(600));
  for (const char* fields : {"", R"(,"stream":true)"}) {
    SCOPED_TRACE(fields);
    const Client client = Ask(fields);
    Await(client);
    EXPECT_EQ(client->status, 503);
    EXPECT_FALSE(client->is_stream);
    EXPECT_THAT(client->body, HasSubstr("The queue is full"));
    EXPECT_NE(client->Header("Retry-After"), "");
  }
}

TEST_F(ChatRoutesTest, ASwarmThatStaysDownIsToldAfterTheWait) {
  Serve(8, Seconds(0));
  for (const char* fields : {"", R"(,"stream":true)"}) {
    SCOPED_TRACE(fields);
    const Client client = Ask(fields);
    Await(client);
    EXPECT_EQ(client->status, 503);
    EXPECT_FALSE(client->is_stream);
    EXPECT_THAT(client->body, HasSubstr("did not come up within 0 s"));
    EXPECT_THAT(client->body, HasSubstr("No device computes for this swarm yet"));
    EXPECT_NE(client->Header("Retry-After"), "");
  }
  EXPECT_EQ(host_->snapshot().queued_requests, 0u) << "what was given up waits no more";
}

TEST_F(ChatRoutesTest, NothingIsSentWhileARequestWaitsForTheSwarm) {
  Serve(8, Seconds(600));
  const Client client = Ask(R"(,"stream":true)");
  net::EventLoop::Timer look(loop_);
  std::function<void()> again = [&] {
    if (host_->snapshot().queued_requests == 1) return loop_.Stop();
    look.FireAfter(Milliseconds(2), again);
  };
  again();
  loop_.Run();
  EXPECT_EQ(client->answers, 0);
  ASSERT_TRUE(client->on_closed);
  client->on_closed();  // the client goes away
  EXPECT_EQ(host_->snapshot().queued_requests, 0u);
}

TEST_F(ChatRoutesTest, ContextIsLimitedByTheCoreAndToldInOpenAisWords) {
  Serve(8, Seconds(0));
  net::HttpRequest request;
  request.body = R"({"model":"tiny","messages":[{"role":"user","content":")" +
                 std::string(5000, 'a') + " b\"}]}";
  const auto client = std::make_shared<RecordingResponder>();
  chat_->Complete(std::move(request), client);
  Await(client);
  EXPECT_EQ(client->status, 400);
  EXPECT_THAT(client->body, HasSubstr("context_length_exceeded"));
  EXPECT_THAT(client->body, HasSubstr("this server's context is 64"));
}

TEST_F(ChatRoutesTest, AKeyIsForOneBody) {
  Serve(8, Seconds(0));
  const Client first = Ask("", "key");
  Await(first);
  EXPECT_EQ(first->status, 503) << "it was accepted, and waited";
  const Client again = Ask("", "key");
  Await(again);
  EXPECT_EQ(again->status, 503);
  const Client other = Ask(R"(,"max_tokens":3)", "key");
  Await(other);
  EXPECT_EQ(other->status, 422);
  EXPECT_THAT(other->body, HasSubstr(R"("code":"idempotency_key_reused")"));
  const Client another_key = Ask(R"(,"max_tokens":3)", "another key");
  Await(another_key);
  EXPECT_EQ(another_key->status, 400) << "a space";
  EXPECT_THAT(another_key->body, HasSubstr(R"("param":"Idempotency-Key")"));
}

TEST_F(ChatRoutesTest, NoMoreThanSoManyBodiesWaitToBeRead) {
  Serve(1000, Seconds(600));
  // The loop does not run: what the threads have read is not taken from them.
  for (int i = 0; i < 64; ++i) EXPECT_EQ(Ask("")->answers, 0);
  const Client refused = Ask("");
  EXPECT_EQ(refused->status, 503);
  EXPECT_NE(refused->Header("Retry-After"), "");
}

TEST_F(ChatRoutesTest, DescribesTheOneModel) {
  Serve(8, Seconds(0));
  net::HttpRequest request;
  request.path = "/v1/models/tiny";
  RecordingResponder found, missing;
  chat_->DescribeModel(request, found);
  EXPECT_EQ(found.status, 200);
  EXPECT_THAT(found.body, HasSubstr(R"("id":"tiny","object":"model")"));
  request.path = "/v1/models/other";
  chat_->DescribeModel(request, missing);
  EXPECT_EQ(missing.status, 404);
  EXPECT_THAT(missing.body, HasSubstr("model_not_found"));
}

}  // namespace
}  // namespace weft::server
