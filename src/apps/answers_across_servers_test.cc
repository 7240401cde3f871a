// Answers of chats whose servers are killed in mid-answer: two cores with native workers, a gateway
// with links to both. The client's text is that of an answer nobody disturbed, wherever it is cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft_source_dir.h>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>

#include "api/make_constraint.h"
#include "apps/local_worker.h"
#include "apps/model_info.h"
#include "base/random.h"
#include "convert/convert.h"
#include "server/cell_records_testing.h"
#include "server/chat_routes.h"
#include "server/clustered_generator.h"
#include "server/linked_testing.h"
#include "server/server_testing.h"

namespace weft::apps {
namespace {

namespace json = boost::json;
using server::ClusteredGenerator;
using testing::HasSubstr;

// Qwen's form with thoughts, that may be told how long they are.
constexpr const char* kThinkingTemplate = R"({%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}<think>
{% endif %}{% endif %})";

const package::Package& TinyPackage() {
  static const package::Package package = [] {
    convert::ConvertOptions convert;
    convert.source = std::filesystem::path(WEFT_SOURCE_DIR) / "models" / "weft-tiny";
    convert.package =
        std::filesystem::temp_directory_path() / ("weft-two-servers-" + SecureRandomHex(6));
    const auto report = convert::ConvertCheckpoint(convert, [](const convert::ConvertProgress&) {});
    CHECK(report.ok());
    return package::Package::Open(convert.package).value();
  }();
  return package;
}

// A server that could lead, with a device of its own. Its core is not disturbed when its process
// "dies" for the gateway: killing links is quicker, and the next answer finds it again.
class Server {
 public:
  Server(net::EventLoop& loop, TaskQueue& pool, const api::ModelText& text)
      : loop_(loop),
        host_(loop, pool, Core()),
        worker_(loop, host_, Device(), TinyPackage()),
        requests_(loop, host_,
                  [&text](const std::string& source) { return Compile(source, text); }) {}

  server::LinkedGenerator& Connect() {
    links_.push_back(std::make_unique<server::MemoryLink>(loop_, requests_));
    return links_.back()->gateway();
  }
  server::MemoryLink& link() { return *links_.back(); }
  // What a killed server computed on is cancelled, as nobody listens.
  void Disconnect() { links_.clear(); }
  server::SwarmHost& host() { return host_; }

 private:
  static swarm::CoreOptions Core() {
    swarm::CoreOptions core;
    core.model = ModelInfoOf(TinyPackage());
    core.session_count = 4;
    core.context_length = 512;
    core.timeouts.join_debounce = Milliseconds(1);
    return core;
  }
  static worker::NativeWorkerOptions Device() {
    worker::NativeWorkerOptions options;
    options.name = "built-in";
    options.worker_id = "built-in";
    options.memory_bytes = 1ull << 30;
    options.thread_count = 1;
    return options;
  }
  static Result<server::ConstraintCache::Constraint> Compile(const std::string& source,
                                                             const api::ModelText& text) {
    ASSIGN_OR_RETURN(api::ConstraintSource read, api::ConstraintSource::FromJson(source));
    auto made = api::MakeConstraint(std::move(read), text);
    if (const auto* refused = std::get_if<api::ApiError>(&made))
      return Error(ErrorCode::kInvalidArgument, refused->message);
    return server::ConstraintCache::Constraint(
        std::get<std::shared_ptr<const api::TokenGrammar>>(made));
  }

  net::EventLoop& loop_;
  server::SwarmHost host_;
  LocalWorker worker_;
  server::LinkedRequests requests_;
  std::vector<std::unique_ptr<server::MemoryLink>> links_;
};

class AcrossServersTest : public testing::Test {
 protected:
  ~AcrossServersTest() override {
    for (Server& server : servers_) server.Disconnect();
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(TinyPackage().folder); }

  // Leads from now on, which the gateway hears.
  void Lead(size_t server) {
    leader_ = server;
    ++incarnation_;
    server::LinkedGenerator& gateway = servers_[server].Connect();
    clustered_.FindLeader(cluster::LinkId(incarnation_), cluster::Incarnation(incarnation_),
                          gateway, ClusteredGenerator::Place::kElsewhere);
  }
  // The leader is killed; the other server leads in the next turn of the loop.
  void Kill() {
    servers_[leader_].link().Kill();
    loop_.Post([this] {
      clustered_.LoseLeader(cluster::LinkId(incarnation_));
      Server& killed = servers_[leader_];
      Lead(1 - leader_);
      killed.Disconnect();
    });
  }
  // Kills the leader before its message brings the client token `at` of any request: that is lost.
  void KillAt(uint32_t at) {
    servers_[leader_].link().on_message = [this, at](const wire::pb::RequestMessage& message) {
      for (const auto& event : message.events().requests()) {
        const bool brings = event.first() + static_cast<uint32_t>(event.token_ids_size()) > at;
        const bool ends_there = event.has_end() && event.end().generated_tokens() == at;
        if (!(brings && event.token_ids_size() > 0) && !ends_there) continue;
        was_killed_ = true;
        return Kill();
      }
    };
  }

  std::shared_ptr<server::RecordingResponder> Ask(const std::string& fields) {
    net::HttpRequest request;
    request.client = "10.0.0.1";
    request.body = R"({"model":"tiny","messages":[{"role":"user","content":"Tell me a story"}],)"
                   R"("stream":true,"temperature":0.9,"seed":4)" +
                   fields + "}";
    auto client = std::make_shared<server::RecordingResponder>();
    chat_.Complete(std::move(request), client);
    return client;
  }
  void Await(const std::function<bool()>& is_so) {
    net::EventLoop::Timer look(loop_);
    const Instant begin = MonotonicNow();
    std::function<void()> again = [&] {
      if (is_so() || MonotonicNow() - begin > Seconds(60)) return loop_.Stop();
      look.FireAfter(Milliseconds(1), again);
    };
    again();
    loop_.Run();
    ASSERT_TRUE(is_so());
  }
  // The answer's events without what differs between two runs of the same request.
  std::string Answer(const std::string& fields) {
    const auto client = Ask(fields);
    Await([&] { return client->has_ended || (client->answers > 0 && !client->is_stream); });
    std::map<int64_t, std::string> choices;
    for (size_t at = client->body.find("data: {"); at != std::string::npos;
         at = client->body.find("data: {", at + 1)) {
      const size_t end = client->body.find('\n', at);
      const json::value event = json::parse(client->body.substr(at + 6, end - at - 6));
      if (event.as_object().contains("error")) return client->body;
      for (const json::value& choice : event.at("choices").as_array()) {
        std::string& said = choices[choice.at("index").as_int64()];
        for (const char* field : {"content", "reasoning_content"})
          if (const auto* text = choice.at("delta").as_object().if_contains(field))
            said += std::string(text->is_string() ? text->as_string().c_str() : "");
        if (const auto* logprobs = choice.as_object().if_contains("logprobs"))
          if (logprobs->is_object()) said += json::serialize(logprobs->at("content"));
        if (choice.at("finish_reason").is_string())
          said += "[" + std::string(choice.at("finish_reason").as_string()) + "]";
      }
    }
    std::string all;
    for (const auto& [index, said] : choices) all += std::to_string(index) + ": " + said + "\n";
    moved_ = client->body.find(": progress {\"moving\":true}") != std::string::npos;
    return all;
  }
  // Cuts the answer in front of each of its tokens and of its end.
  void ExpectTheSameHoweverItIsCut(const std::string& fields, uint32_t most_tokens) {
    const std::string whole = Answer(fields);
    EXPECT_THAT(whole, HasSubstr("[")) << "it ended";
    for (uint32_t at = 0; at <= most_tokens; ++at) {
      was_killed_ = false;
      KillAt(at);
      EXPECT_EQ(Answer(fields), whole) << "cut in front of token " << at;
      cuts_ += was_killed_ ? 1 : 0;
      told_ += moved_ ? 1 : 0;
    }
    EXPECT_EQ(clustered_.counts().differences, 0u);
  }

  net::EventLoop loop_;
  TaskQueue pool_{1};
  const std::shared_ptr<const api::ModelText> text_ = server::TinyText(kThinkingTemplate);
  std::deque<Server> servers_;
  ClusteredGenerator clustered_{{Seconds(30), 8}, loop_};
  server::RememberedRecords records_{&loop_};
  server::ChatRoutes chat_{
      {"tiny", 0, Seconds(30), false, false, 0, 512}, text_, clustered_, loop_, records_, "a key"};
  size_t leader_ = 0;
  uint64_t incarnation_ = 0;
  bool was_killed_ = false, moved_ = false;
  int cuts_ = 0, told_ = 0;  // how often the leader was killed, and the client told of moving

  void SetUp() override {
    for (int i = 0; i < 2; ++i) servers_.emplace_back(loop_, pool_, *text_);
    Await([this] { return servers_[0].host().is_up() && servers_[1].host().is_up(); });
    Lead(0);
  }
};

TEST_F(AcrossServersTest, Texts) {
  ExpectTheSameHoweverItIsCut(R"(,"max_tokens":12)", 12);
  EXPECT_EQ(cuts_, 13);
  EXPECT_EQ(told_, 12) << "its stream had not begun at the first cut";
}

TEST_F(AcrossServersTest, PenaltiesAndBiases) {
  ExpectTheSameHoweverItIsCut(
      R"(,"max_tokens":10,"presence_penalty":1.5,"frequency_penalty":0.5,"logit_bias":{"40":3})",
      10);
}

TEST_F(AcrossServersTest, Logprobs) {
  ExpectTheSameHoweverItIsCut(R"(,"max_tokens":8,"logprobs":true,"top_logprobs":3)", 8);
  EXPECT_EQ(cuts_, 9);
}

TEST_F(AcrossServersTest, Forms) {
  ExpectTheSameHoweverItIsCut(
      R"(,"max_tokens":40,"structured_outputs":{"regex":"(The house was [a-z]{5}; ){2}end"})", 40);
  EXPECT_GE(cuts_, 5);
}

TEST_F(AcrossServersTest, ThoughtsWithALimit) {
  ExpectTheSameHoweverItIsCut(R"(,"max_tokens":16,"enable_thinking":true,"max_thinking_tokens":5)",
                              12);
  EXPECT_GE(cuts_, 5);
}

TEST_F(AcrossServersTest, SeveralChoices) {
  ExpectTheSameHoweverItIsCut(R"(,"max_tokens":8,"n":3)", 8);
  EXPECT_GE(cuts_, 8);
}

TEST_F(AcrossServersTest, StopStrings) {
  const std::string whole = Answer(R"(,"max_tokens":12)");
  const std::string stop = whole.substr(12, 2);
  ExpectTheSameHoweverItIsCut(R"(,"max_tokens":12,"stop":)" + json::serialize(json::value(stop)),
                              12);
}

// Each server is killed in turn, as soon as it has brought the client something.
TEST_F(AcrossServersTest, ManyMovesOfOneAnswer) {
  const std::string fields = R"(,"max_tokens":100)";
  const std::string whole = Answer(fields);
  net::EventLoop::Timer next(loop_);
  int moves = 0;
  size_t brought = 0;
  const auto client = Ask(fields);
  std::function<void()> again = [&] {
    if (client->has_ended) return;
    if (client->body.size() > brought) {
      brought = client->body.size();
      ++moves;
      Kill();
    }
    next.FireAfter(Milliseconds(5), again);
  };
  again();
  Await([&] { return client->has_ended; });
  EXPECT_GE(moves, 2);
  next.Cancel();
  EXPECT_EQ(Answer(fields), whole);
  EXPECT_EQ(clustered_.counts().differences, 0u);
}

// The client's own server leads, stops leading, and leads again, all within one answer.
TEST_F(AcrossServersTest, FromHereOverALinkAndBack) {
  const std::string fields = R"(,"max_tokens":30)";
  const std::string whole = Answer(fields);
  clustered_.LoseLeader(cluster::LinkId(incarnation_));
  servers_[0].Disconnect();
  const auto lead_here = [this] {
    ++incarnation_;
    clustered_.FindLeader(cluster::LinkId(incarnation_), cluster::Incarnation(incarnation_),
                          servers_[0].host(), ClusteredGenerator::Place::kHere);
  };
  lead_here();
  int tokens = 0;
  std::vector<int32_t> ids;
  swarm::Request request;
  request.prompt_ids = {5, 17, 300, 17};
  request.max_tokens = 30;
  request.sampling.seed = 3;
  const auto listen = [&](bool moves) {
    server::RequestCallbacks callbacks;
    callbacks.on_token = [&, moves](const swarm::EmitToken& token) {
      ids.push_back(token.token_id);
      if (!moves || (++tokens != 10 && tokens != 20)) return;
      loop_.Post([&, lead_here] {
        clustered_.LoseLeader(cluster::LinkId(incarnation_));
        if (tokens < 20) return Lead(1);
        servers_[1].Disconnect();
        lead_here();
      });
    };
    callbacks.on_finish = [&](const swarm::FinishRequest& end) {
      EXPECT_FALSE(end.error);
      EXPECT_EQ(end.generated_tokens, ids.size());
      tokens = -1;
    };
    return callbacks;
  };
  clustered_.Submit(request, listen(false));
  Await([&] { return tokens == -1; });
  const std::vector<int32_t> undisturbed = std::exchange(ids, {});
  tokens = 0;
  clustered_.Submit(request, listen(true));
  Await([&] { return tokens == -1; });
  EXPECT_EQ(ids, undisturbed);
  EXPECT_EQ(clustered_.counts().moved, 2u);
  EXPECT_EQ(Answer(fields), whole) << "here as elsewhere";
}

// Rows of a prompt, of which embeddings are made.
TEST_F(AcrossServersTest, RowsOfPrompts) {
  const auto rows = [this] {
    std::map<uint32_t, std::string> by_position;
    bool is_over = false;
    swarm::Request request;
    for (int32_t i = 0; i < 40; ++i) request.prompt_ids.push_back(i * 7 % 300);
    request.want_logits = true;
    server::RequestCallbacks callbacks;
    callbacks.on_logits = [&](const swarm::EmitLogits& some) {
      const size_t row_bytes = some.logits.byte_count() / some.rows;
      for (uint32_t i = 0; i < some.rows; ++i)
        by_position[some.first_position + i] =
            std::string(AsText(some.logits.Sub(i * row_bytes, row_bytes).bytes()));
    };
    callbacks.on_finish = [&](const swarm::FinishRequest& end) {
      EXPECT_FALSE(end.error);
      is_over = true;
    };
    clustered_.Submit(std::move(request), std::move(callbacks));
    Await([&] { return is_over; });
    return by_position;
  };
  const auto whole = rows();
  EXPECT_EQ(whole.size(), 40u);
  servers_[leader_].link().on_message = [this](const wire::pb::RequestMessage& message) {
    for (const auto& event : message.events().requests())
      if (event.rows_size() > 0) return Kill();
  };
  EXPECT_EQ(rows(), whole);
  EXPECT_EQ(leader_, 1u);
}

}  // namespace
}  // namespace weft::apps
