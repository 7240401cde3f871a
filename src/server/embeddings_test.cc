// From rows to embeddings, and what a request for some is told. There is no worker here but one
// that a test plays: its rows are what the test says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <random>

#include "server/embedding_routes.h"
#include "server/pooling.h"
#include "server/server_testing.h"
#include "server/swarm_host.h"

namespace weft::server {
namespace {

namespace json = boost::json;
using package::Pooling;
using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;

std::vector<uint8_t> Rows(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) StoreLe(&bytes[i * sizeof(float)], values[i]);
  return bytes;
}

TEST(Pooler, TakesTheMeanOrTheLastRow) {
  const std::vector<uint8_t> rows = Rows({3, 0, 8, 5, 4, 0});
  Pooler mean(Pooling::kMean, false, 3, 3), last(Pooling::kLast, false, 3, 3);
  mean.Add(0, rows);
  last.Add(6, rows);
  EXPECT_THAT(*mean.Finish(), ElementsAre(4, 2, 4));
  EXPECT_THAT(*last.Finish(), ElementsAre(5, 4, 0));
  EXPECT_EQ(mean.position_count(), 2u);
  EXPECT_EQ(last.position_count(), 8u);
}

TEST(Pooler, VectorsHaveALengthOfOneAlsoWhenTheyAreCut) {
  Pooler whole(Pooling::kLast, true, 3, 3), cut(Pooling::kLast, true, 3, 2);
  for (Pooler* pooler : {&whole, &cut}) pooler->Add(0, Rows({3, 4, 12}));
  EXPECT_THAT(*whole.Finish(),
              ElementsAre(FloatEq(3.f / 13), FloatEq(4.f / 13), FloatEq(12.f / 13)));
  EXPECT_THAT(*cut.Finish(), ElementsAre(FloatEq(0.6f), FloatEq(0.8f)));
  Pooler nothing(Pooling::kMean, true, 2, 2);
  nothing.Add(0, Rows({0, 0}));
  EXPECT_THAT(*nothing.Finish(), ElementsAre(0, 0));
}

// In f32, or summed in another order, these would differ.
TEST(Pooler, BitsDoNotDependOnHowRowsCome) {
  std::mt19937 random(3);
  std::vector<float> values(4 * 1000);
  for (float& value : values)
    value = std::ldexp(static_cast<float>(random()) / 4e9f - 0.5f, static_cast<int>(random() % 40));
  const std::vector<uint8_t> rows = Rows(values);
  std::vector<double> sum(4);
  for (size_t i = 0; i < values.size(); ++i) sum[i % 4] += double{values[i]};
  std::vector<float> mean;
  for (const double column : sum) mean.push_back(static_cast<float>(column / 1000));
  for (const size_t piece : {1000, 1, 7, 128}) {
    Pooler pooler(Pooling::kMean, false, 4, 4);
    // What came of a device that was wrong comes again from the first row.
    pooler.Add(0, Rows({9, 9, 9, 9, 8, 8, 8, 8}));
    for (size_t row = 0; row < 1000; row += piece) {
      const size_t count = std::min(piece, 1000 - row);
      pooler.Add(static_cast<uint32_t>(row), ByteSpan(rows).subspan(row * 16, count * 16));
    }
    EXPECT_EQ(*pooler.Finish(), mean) << piece;
  }
}

TEST(Pooler, RowsThatAreNoNumbersAreNoEmbedding) {
  Pooler pooler(Pooling::kMean, true, 2, 2);
  pooler.Add(0, Rows({1, std::nanf("")}));
  EXPECT_EQ(pooler.Finish().error().code(), ErrorCode::kInvalidData);
}

constexpr uint32_t kColumns = 8;

class EmbeddingRoutesTest : public testing::Test {
 protected:
  using Client = std::shared_ptr<RecordingResponder>;
  using Form = EmbeddingRoutes::Form;

  void Serve(std::optional<package::Embedding> embedding, uint32_t queue_limit = 8,
             Duration wait = Seconds(600)) {
    swarm::CoreOptions core;
    core.model.name = "tiny";
    core.model.layers.resize(3);
    core.model.hidden_columns = kColumns;
    core.model.vocabulary = 4096;
    core.model.embeds = embedding.has_value();
    core.context_length = 16;
    core.queue_limit = queue_limit;
    host_ = std::make_unique<SwarmHost>(loop_, planning_, core);
    routes_ = std::make_unique<EmbeddingRoutes>(
        EmbeddingRoutes::Options{"tiny", std::move(embedding), kColumns, 4096, 16, wait, 2},
        TinyText(), *host_, loop_);
  }
  Client Ask(const std::string& body, Form form = Form::kOpenAi) {
    net::HttpRequest request;
    request.client = "10.0.0.1";
    request.body = body;
    auto client = std::make_shared<RecordingResponder>();
    routes_->Answer(form, std::move(request), client);
    return client;
  }
  // Runs the loop until it is so.
  void Await(const std::function<bool()>& is_so) {
    net::EventLoop::Timer look(loop_);
    std::function<void()> again = [&] {
      if (is_so()) return loop_.Stop();
      look.FireAfter(Milliseconds(2), again);
    };
    again();
    loop_.Run();
  }
  std::string Refusal(const std::string& fields, Form form = Form::kOpenAi) {
    const Client client = Ask("{" + fields + "}", form);
    Await([&] { return client->answers > 0; });
    EXPECT_EQ(client->status, 400) << client->body;
    const json::value error = json::parse(client->body).at("error");
    return form == Form::kOpenAi ? std::string(error.at("message").as_string())
                                 : std::string(error.as_string());
  }

  net::EventLoop loop_;
  TaskQueue planning_{1};
  std::unique_ptr<SwarmHost> host_;
  std::unique_ptr<EmbeddingRoutes> routes_;
};

package::Embedding LastRow() {
  package::Embedding embedding;
  embedding.pooling = Pooling::kLast;
  return embedding;
}

TEST_F(EmbeddingRoutesTest, AModelThatWritesTextIsNamedWithWhatToDo) {
  Serve(std::nullopt);
  EXPECT_THAT(Refusal(R"("input":"a")"),
              HasSubstr("'tiny' writes text and makes no embeddings. Serve a package that does: "
                        "`weft convert --embedding mean`"));
  EXPECT_THAT(Refusal(R"("input":"a")", Form::kOllamaEmbed), HasSubstr("`weft convert"));
}

TEST_F(EmbeddingRoutesTest, DimensionsArePackagesWord) {
  Serve(LastRow());
  EXPECT_THAT(Refusal(R"("input":"a","dimensions":4)"),
              HasSubstr("embeddings of 'tiny' have 8, and its package does not say"));
  package::Embedding any = LastRow();
  any.matryoshka = true;
  Serve(any);
  EXPECT_THAT(Refusal(R"("input":"a","dimensions":9)"), HasSubstr("expected at most 8"));
  package::Embedding some = any;
  some.dimensions = {2, 4};
  Serve(some);
  EXPECT_THAT(Refusal(R"("input":"a","dimensions":3)"), HasSubstr("was trained for 2, 4, 8."));
}

TEST_F(EmbeddingRoutesTest, InputsAreCheckedBeforeAnyIsComputed) {
  Serve(LastRow());
  EXPECT_THAT(Refusal(R"("input":[[1],[4096]])"),
              HasSubstr("Input 1 names the token 4096; the model has tokens 0 to 4095"));
  const std::string ids = "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1";
  const Client client = Ask(R"({"input":[)" + ids + "]}");
  Await([&] { return client->answers > 0; });
  const json::value error = json::parse(client->body).at("error");
  EXPECT_EQ(error.at("code"), "context_length_exceeded");
  EXPECT_EQ(error.at("param"), "input");
  EXPECT_THAT(std::string(error.at("message").as_string()),
              HasSubstr("Input 0 has 17 tokens; this server takes at most 16"));
  EXPECT_EQ(host_->snapshot().queued_requests, 0u);
}

TEST_F(EmbeddingRoutesTest, PromptsAreThoseOfThePackage) {
  Serve(LastRow());
  EXPECT_THAT(Refusal(R"("input":"a","prompt_name":"query")"), HasSubstr("has no prompts"));
  package::Embedding with = LastRow();
  with.prompts = {{"document", ""}, {"query", "Q: "}};
  Serve(with);
  EXPECT_THAT(Refusal(R"("input":"a","prompt_name":"other")"),
              HasSubstr("'prompt_name' is 'other'; expected one of: document, query."));
  EXPECT_THAT(Refusal(R"("input":[1],"prompt_name":"query")"), HasSubstr("is for texts"));
}

TEST_F(EmbeddingRoutesTest, NothingAskedIsNothingAnswered) {
  Serve(LastRow());
  const Client embed = Ask("{}", Form::kOllamaEmbed), older = Ask("{}", Form::kOllamaEmbeddings);
  Await([&] { return embed->answers > 0 && older->answers > 0; });
  EXPECT_THAT(embed->body, HasSubstr(R"("embeddings":[])"));
  EXPECT_EQ(older->body, R"({"embedding":[]})");
}

// Ollama cuts what is too long, unless it is told not to.
TEST_F(EmbeddingRoutesTest, OllamasTextsAreCut) {
  Serve(LastRow());
  std::string text;
  for (int i = 0; i < 40; ++i) text += " fox";
  EXPECT_THAT(Refusal(R"("truncate":false,"input":")" + text + "\"", Form::kOllamaEmbed),
              HasSubstr("this server takes at most 16"));
  const Client cut = Ask(R"({"input":")" + text + "\"}", Form::kOllamaEmbed);
  Await([&] { return host_->snapshot().queued_requests > 0; });
  EXPECT_EQ(cut->answers, 0);
  cut->on_closed();
  EXPECT_EQ(host_->snapshot().queued_requests, 0u);
}

TEST_F(EmbeddingRoutesTest, AListTakesAShareAndIsNotRefusedForItsLength) {
  Serve(LastRow(), 3);
  // Of three places of the queue one client may have half: what has no room waits.
  const Client client = Ask(R"({"input":["a","b","c","d","e"]})");
  Await([&] { return host_->snapshot().queued_requests > 0; });
  for (int turn = 0; turn < 5; ++turn) Await([] { return true; });
  EXPECT_LE(host_->snapshot().queued_requests, 2u);
  EXPECT_EQ(client->answers, 0);
  client->on_closed();
  EXPECT_EQ(host_->snapshot().queued_requests, 0u) << "nobody waits for it";
  EXPECT_EQ(client->answers, 0);
}

TEST_F(EmbeddingRoutesTest, AFullQueueAndASwarmThatStaysDownAreRealStatuses) {
  Serve(LastRow(), 0);
  const Client full = Ask(R"({"input":["a","b"]})");
  Await([&] { return full->answers > 0; });
  EXPECT_EQ(full->status, 503);
  EXPECT_THAT(full->body, HasSubstr("The queue is full"));
  Serve(LastRow(), 8, Seconds(0));
  const Client down = Ask(R"({"input":["a","b"]})");
  Await([&] { return down->answers > 0; });
  EXPECT_EQ(down->status, 503);
  EXPECT_THAT(down->body, HasSubstr("The swarm did not come up within 0 s"));
  EXPECT_EQ(down->answers, 1);
  EXPECT_EQ(host_->snapshot().queued_requests, 0u);
  host_->EndRequests(Error(ErrorCode::kUnavailable, "The server stops."));
  const Client late = Ask(R"({"input":"a"})");
  Await([&] { return late->answers > 0; });
  EXPECT_EQ(late->status, 503);
}

TEST_F(EmbeddingRoutesTest, EndedRequestsAreToldOnce) {
  Serve(LastRow());
  const Client client = Ask(R"({"input":["a","b","c"]})");
  Await([&] { return host_->snapshot().queued_requests == 2; });
  host_->EndRequests(Error(ErrorCode::kUnavailable, "The server stops."));
  EXPECT_EQ(client->answers, 1);
  EXPECT_EQ(client->status, 503);
  EXPECT_THAT(client->body, HasSubstr("The server stops."));
}

// Another server, which says later what became of requests.
class DistantGenerator : public Generator {
 public:
  swarm::RequestId Submit(swarm::Request request, RequestCallbacks callbacks) override {
    asked.emplace_back(request.prompt_ids[0], std::move(callbacks));
    return swarm::RequestId(asked.size());
  }
  void Cancel(swarm::RequestId /*request*/) override { ++cancelled; }
  void ForgetPrefix(const std::string& /*salt*/, const std::string& /*name*/) override {}
  bool has_accepted(swarm::RequestId /*request*/) const override { return false; }
  bool is_up() const override { return true; }
  bool is_loading() const override { return false; }
  std::optional<uint32_t> loading_percent() const override { return std::nullopt; }
  std::string message() const override { return ""; }
  std::optional<swarm::RequestProgress> progress(swarm::RequestId /*request*/) const override {
    return std::nullopt;
  }
  void Answer(size_t which, uint32_t rows) {
    const Slice row(std::vector<uint8_t>(kColumns * sizeof(float)));
    for (uint32_t i = 0; i < rows; ++i) asked[which].second.on_logits({1, i, 1, row});
    asked[which].second.on_finish({});
  }
  void Refuse(size_t which) {
    swarm::FinishRequest end;
    end.reason = swarm::FinishReason::kError;
    end.error = Error(ErrorCode::kUnavailable, "The queue is full.");
    end.has_no_room = true;
    asked[which].second.on_finish(end);
  }

  std::vector<std::pair<int32_t, RequestCallbacks>> asked;
  int cancelled = 0;
};

class DistantEmbeddings : public testing::Test {
 protected:
  std::shared_ptr<RecordingResponder> Ask(std::vector<std::vector<int32_t>> inputs) {
    EmbeddingWork work;
    work.inputs = std::move(inputs);
    work.columns = work.dimensions = kColumns;
    auto client = std::make_shared<RecordingResponder>();
    EmbeddingJob::Start(
        {generator_, loop_, Seconds(600), 2}, std::move(work),
        [](const Embeddings& made) {
          return net::TextResponse(200, "text/plain", std::to_string(made.vectors.size()));
        },
        [](const api::ApiError& error) {
          return net::TextResponse(error.status, "text/plain", error.message);
        },
        client);
    return client;
  }
  void Turn() {
    net::EventLoop::Timer stop(loop_);
    stop.FireAfter(Milliseconds(1), [this] { loop_.Stop(); });
    loop_.Run();
  }

  net::EventLoop loop_;
  DistantGenerator generator_;
};

TEST_F(DistantEmbeddings, WhatIsRefusedLaterWaitsForOneOfTheOthers) {
  const auto client = Ask({{1}, {2}});
  ASSERT_EQ(generator_.asked.size(), 2u);
  generator_.Refuse(1);
  Turn();
  EXPECT_EQ(generator_.asked.size(), 2u);
  generator_.Answer(0, 1);
  Turn();
  ASSERT_EQ(generator_.asked.size(), 3u);
  EXPECT_EQ(generator_.asked[2].first, 2);
  generator_.Answer(2, 1);
  EXPECT_EQ(client->body, "2");
}

TEST_F(DistantEmbeddings, OneWithoutAnotherIsRefused) {
  const auto client = Ask({{1}});
  generator_.Refuse(0);
  EXPECT_EQ(client->status, 503);
  EXPECT_EQ(client->body, "The queue is full.");
}

TEST_F(DistantEmbeddings, RowsThatAreMissingMakeNoVector) {
  const auto client = Ask({{1, 2, 3}});
  generator_.Answer(0, 2);
  EXPECT_EQ(client->status, 503);
  EXPECT_THAT(client->body, HasSubstr("Rows of 2 of 3 tokens came"));
}

}  // namespace
}  // namespace weft::server
