// What a request is told before any of its answer: by the threads that read it, the queue and a
// swarm that is down. There is no worker here.
#include "server/chat_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/cell_records_testing.h"
#include "server/server_testing.h"
#include "server/swarm_host.h"

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

  void Serve(uint32_t queue_limit, Duration wait, uint32_t vocabulary = 0) {
    host_ = std::make_unique<SwarmHost>(loop_, planning_, Core(queue_limit));
    chat_ = std::make_unique<ChatRoutes>(
        ChatRoutes::Options{"tiny", 0, wait, false, false, vocabulary, 64}, TinyText(), *host_,
        loop_, records_, "");
  }
  Client Ask(const std::string& fields, const std::string& key = "",
             const std::string& asker = "10.0.0.1") {
    net::HttpRequest request;
    request.client = asker;
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

  void AwaitQueued(uint32_t count) {
    while (host_->snapshot().queued_requests < count) {
      net::EventLoop::Timer look(loop_);
      look.FireAfter(Milliseconds(2), [&] { loop_.Stop(); });
      loop_.Run();
    }
  }

  net::EventLoop loop_;
  TaskQueue planning_{1};
  RememberedRecords records_{&loop_};
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

TEST_F(ChatRoutesTest, AModelThatMakesEmbeddingsWritesNoText) {
  Serve(8, Seconds(600));
  chat_ = std::make_unique<ChatRoutes>(ChatRoutes::Options{.model_name = "tiny", .embeds = true},
                                       TinyText(), *host_, loop_, records_, "");
  const Client client = Ask("");
  ASSERT_EQ(client->answers, 1);
  EXPECT_EQ(client->status, 400);
  EXPECT_THAT(client->body, HasSubstr("'tiny' makes embeddings and writes no text: ask POST "
                                      "/v1/embeddings"));
  RecordingResponder models;
  chat_->ListModels(models);
  EXPECT_THAT(models.body, HasSubstr(R"("capabilities":["embedding"])"));
  EXPECT_THAT(models.body, HasSubstr(R"("output_modalities":["embeddings"])"));
  net::HttpRequest request;
  request.path = "/v1/prefixes/fox";
  auto keeps = std::make_shared<RecordingResponder>();
  chat_->KeepPrefix(std::move(request), keeps);
  EXPECT_EQ(keeps->status, 400);
}

TEST_F(ChatRoutesTest, PrefixesAreKeptListedAndForgotten) {
  Serve(8, Seconds(600));
  const auto ask = [&](const char* name, const char* body, const char* salt) {
    net::HttpRequest request;
    request.client = request.salt = salt;
    request.path = std::string("/v1/prefixes/") + name;
    request.body = body;
    auto client = std::make_shared<RecordingResponder>();
    chat_->KeepPrefix(std::move(request), client);
    return client;
  };
  const char* body = R"({"model":"tiny","messages":[{"role":"system","content":"Be brief."}]})";
  EXPECT_EQ(ask("a/b", body, "")->status, 400);
  const Client client = ask("fox", body, "a key");
  AwaitQueued(1);
  EXPECT_EQ(client->answers, 0) << "it is not computed yet";
  const auto listed = [&](const char* salt) {
    net::HttpRequest request;
    request.salt = salt;
    RecordingResponder list;
    chat_->ListPrefixes(request, list);
    return list.body;
  };
  EXPECT_THAT(listed("a key"), HasSubstr(R"("id":"fox","object":"prefix")"));
  EXPECT_THAT(listed("a key"), HasSubstr(R"("status":"computing")"));
  EXPECT_EQ(listed("another"), R"({"object":"list","data":[]})");
  net::HttpRequest forget;
  forget.path = "/v1/prefixes/fox";
  RecordingResponder stranger;
  chat_->ForgetPrefix(forget, stranger);
  EXPECT_EQ(stranger.status, 404);
  forget.salt = "a key";
  RecordingResponder owner;
  chat_->ForgetPrefix(forget, owner);
  EXPECT_EQ(owner.body, R"({"id":"fox","object":"prefix","deleted":true})");
  EXPECT_EQ(client->status, 409);
}

TEST_F(ChatRoutesTest, AChatThatKeepsItsSystemMessageNeedsOne) {
  Serve(8, Seconds(600));
  const Client client = Ask(R"(,"keep":"fox")");
  Await(client);
  EXPECT_EQ(client->status, 400);
  EXPECT_THAT(client->body, HasSubstr("begins with none"));
  for (const char* fields : {R"(,"keep":7)", R"(,"keep":"")", R"(,"keep":"a b")"}) {
    SCOPED_TRACE(fields);
    const Client refused = Ask(fields);
    Await(refused);
    EXPECT_EQ(refused->status, 400);
    EXPECT_THAT(refused->body, HasSubstr(R"("param":"keep")"));
  }
  EXPECT_EQ(host_->snapshot().queued_requests, 0u);
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

TEST_F(ChatRoutesTest, ABiasOfATokenThatTheModelHasNotIsRefused) {
  Serve(8, Seconds(0), 100);
  const Client refused = Ask(R"(,"logit_bias":{"99":1,"100":1})");
  Await(refused);
  EXPECT_EQ(refused->status, 400);
  EXPECT_THAT(refused->body, HasSubstr("names the token 100; the model has tokens 0 to 99."));
  EXPECT_THAT(refused->body, HasSubstr(R"("param":"logit_bias")"));
  const Client taken = Ask(R"(,"logit_bias":{"99":1})");
  Await(taken);
  EXPECT_EQ(taken->status, 503) << "nobody computes here";
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
  for (const char* asker : {"10.0.0.1", "10.0.0.2"}) {
    for (int i = 0; i < 32; ++i) EXPECT_EQ(Ask("", "", asker)->answers, 0);
    const Client over = Ask("", "", asker);
    EXPECT_EQ(over->status, 429);
    EXPECT_NE(over->Header("Retry-After"), "");
    EXPECT_THAT(over->body, HasSubstr("You have 32 requests that wait to be read"));
  }
  // Whoever has nothing there finds a place all the same, one.
  EXPECT_EQ(Ask("", "", "10.0.0.3")->answers, 0);
  const Client refused = Ask("", "", "10.0.0.3");
  EXPECT_EQ(refused->status, 503);
  EXPECT_NE(refused->Header("Retry-After"), "");
}

// A school's thousand clients ask at once, and its server lets so many wait.
TEST_F(ChatRoutesTest, ALongerQueueHasRoomForAsManyBodies) {
  Serve(1000, Seconds(600));
  ChatRoutes::Options options{.model_name = "tiny"};
  options.queue_limit = 100;
  chat_ = std::make_unique<ChatRoutes>(std::move(options), TinyText(), *host_, loop_, records_, "");
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(Ask("", "", "10.0.1." + std::to_string(i))->answers, 0) << i;
  const Client refused = Ask("", "", "10.0.0.1");
  EXPECT_EQ(refused->status, 503);
  EXPECT_THAT(refused->body, HasSubstr("200 requests wait to be read already"));
}

TEST_F(ChatRoutesTest, WhoHasTooManyInTheQueueIsToldSo) {
  Serve(4, Seconds(600));
  std::vector<Client> waiting;
  for (int i = 0; i < 2; ++i) waiting.push_back(Ask(R"(,"stream":true)"));
  AwaitQueued(2);
  const Client over = Ask(R"(,"stream":true)");
  Await(over);
  EXPECT_EQ(over->status, 429);
  EXPECT_FALSE(over->is_stream);
  EXPECT_NE(over->Header("Retry-After"), "");
  EXPECT_THAT(over->body, HasSubstr(R"("type":"rate_limit_error")"));
  EXPECT_THAT(over->body, HasSubstr("2 requests waiting already"));
  const Client other = Ask("", "", "10.0.0.2");
  AwaitQueued(3);
  EXPECT_EQ(other->answers, 0);
  for (const Client& client : waiting) EXPECT_EQ(client->answers, 0);
}

TEST_F(ChatRoutesTest, ChoicesThatFindNoRoomAreRefusedTogether) {
  Serve(6, Seconds(600));
  const Client client = Ask(R"(,"stream":true,"n":8)");
  Await(client);
  EXPECT_EQ(client->status, 429);
  EXPECT_FALSE(client->is_stream);
  EXPECT_EQ(host_->snapshot().queued_requests, 0u) << "those that had found some gave it back";
  EXPECT_EQ(Ask(R"(,"n":2)")->answers, 0);
  AwaitQueued(2);
}

// An entry for each would cost whoever comes back with the key.
TEST_F(ChatRoutesTest, RefusedRequestsLeaveNoEntryBehind) {
  host_ = std::make_unique<SwarmHost>(loop_, planning_, Core(0));
  chat_ = std::make_unique<ChatRoutes>(ChatRoutes::Options{"tiny", 0, Seconds(600)}, TinyText(),
                                       *host_, loop_, records_, "");
  for (int i = 0; i < 3; ++i) {
    const Client refused = Ask("", "key" + std::to_string(i));
    Await(refused);
    EXPECT_EQ(refused->status, 503);
  }
  EXPECT_TRUE(records_.requests.empty());
  // The same key with another body is no mistake then.
  const Client other = Ask(R"(,"max_tokens":3)", "key0");
  Await(other);
  EXPECT_EQ(other->status, 503);
}

TEST_F(ChatRoutesTest, AcceptedRequestsHaveAnEntryBeforeTheirFirstToken) {
  host_ = std::make_unique<SwarmHost>(loop_, planning_, Core(8));
  chat_ = std::make_unique<ChatRoutes>(ChatRoutes::Options{"tiny", 0, Seconds(0)}, TinyText(),
                                       *host_, loop_, records_, "");
  Await(Ask("", "key"));
  EXPECT_EQ(records_.begun_count, 1);
}

TEST_F(ChatRoutesTest, TheModelNeedNotBeNamed) {
  Serve(8, Seconds(0));
  const auto status_of = [&](const std::string& model) {
    net::HttpRequest request;
    request.body = "{" + model + R"("messages":[{"role":"user","content":"Hi"}]})";
    const auto client = std::make_shared<RecordingResponder>();
    chat_->Complete(std::move(request), client);
    Await(client);
    return client->status;
  };
  // Nobody computes here.
  for (const char* model : {"", R"("model":null,)", R"("model":"",)", R"("model":"tiny:latest",)"})
    EXPECT_EQ(status_of(model), 503) << model;
  for (const char* model : {R"("model":"tin",)", R"("model":"tiny:q4",)", R"("model":":latest",)"})
    EXPECT_EQ(status_of(model), 404) << model;
}

TEST_F(ChatRoutesTest, DescribesTheOneModel) {
  Serve(8, Seconds(0));
  net::HttpRequest request;
  request.path = "/v1/models/tiny";
  RecordingResponder found, missing;
  chat_->DescribeModel(request, found);
  EXPECT_EQ(found.status, 200);
  EXPECT_THAT(found.body, HasSubstr(R"("id":"tiny","object":"model")"));
  EXPECT_THAT(found.body, HasSubstr(R"("max_model_len":64,"context_length":64)"));
  EXPECT_THAT(found.body, HasSubstr(R"("capabilities":["completion")"));
  request.path = "/v1/models/tiny:latest";
  RecordingResponder tagged;
  chat_->DescribeModel(request, tagged);
  EXPECT_EQ(tagged.body, found.body);
  request.path = "/v1/models/other";
  chat_->DescribeModel(request, missing);
  EXPECT_EQ(missing.status, 404);
  EXPECT_THAT(missing.body, HasSubstr("model_not_found"));
}

}  // namespace
}  // namespace weft::server
