// What a host tells of requests that have ended. There is no worker here: they wait for one.
#include "server/swarm_host.h"

#include <gtest/gtest.h>

#include <future>

#include "base/secret.h"
#include "server/connect_testing.h"

namespace weft::server {
namespace {

class SwarmHostTest : public testing::Test {
 protected:
  static swarm::CoreOptions Options(uint32_t queue_limit) {
    swarm::CoreOptions core;
    core.model.name = "tiny";
    core.model.layers.resize(3);
    core.model.hidden_columns = 8;
    core.model.vocabulary = 100;
    core.context_length = 64;
    core.session_count = 2;
    core.queue_limit = queue_limit;
    return core;
  }
  void Serve(uint32_t queue_limit) {
    host_ = std::make_unique<SwarmHost>(loop_, planning_, Options(queue_limit));
    host_->OnRequestFinished([this](const std::string& client, const swarm::FinishRequest& end) {
      told_ += client + (is_answered_ ? " late" : "") + " " + std::to_string(end.prompt_tokens) +
               "/" + std::to_string(end.cached_prompt_tokens) + " " +
               std::to_string(end.generated_tokens) + "\n";
    });
  }
  swarm::RequestId Ask(const std::string& client) {
    swarm::Request request;
    request.client = client;
    request.prompt_ids = {1, 2, 3, 4, 5};
    request.max_tokens = 5;
    RequestCallbacks callbacks;
    callbacks.on_token = [](const swarm::EmitToken&) {};
    callbacks.on_finish = [this](const swarm::FinishRequest& end) {
      is_answered_ = true;
      if (end.error) error_ = end.error->message();
    };
    return host_->Submit(std::move(request), std::move(callbacks));
  }

  net::EventLoop loop_;
  TaskQueue planning_{1};
  std::unique_ptr<SwarmHost> host_;
  std::string told_;
  bool is_answered_ = false;
  std::string error_;
};

TEST_F(SwarmHostTest, WhatWaitedAndWasGivenUpHasReadNothing) {
  Serve(8);
  const swarm::RequestId request = Ask("key 1");
  EXPECT_EQ(told_, "");
  host_->Cancel(request);
  EXPECT_EQ(told_, "key 1 0/0 0\n");
  EXPECT_TRUE(is_answered_);
  host_->Cancel(request);
  EXPECT_EQ(told_, "key 1 0/0 0\n");
}

TEST_F(SwarmHostTest, WhatIsRefusedHasReadNothing) {
  Serve(0);
  for (int i = 0; i < 3 && told_.empty(); ++i) Ask("key 2");
  EXPECT_EQ(told_.substr(0, 12), "key 2 0/0 0\n");
}

TEST_F(SwarmHostTest, WhatEndsWithTheServerIsTold) {
  Serve(8);
  Ask("key 3");
  host_->EndRequests(Error(ErrorCode::kUnavailable, "The server is stopping."));
  EXPECT_EQ(told_, "key 3 0/0 0\n");
}

TEST_F(SwarmHostTest, ARevokedTokenClosesTheDevicesThatJoinedWithItAlone) {
  Serve(8);
  std::string closed;
  for (const std::string token : {"", "of-a", "of-b", "of-b"}) {
    WorkerSink sink;
    sink.send = [](const std::vector<Slice>&) {};
    sink.close = [&closed, token](const std::string& reason) {
      closed += token + ": " + reason + "\n";
    };
    host_->OnWorkerMessage(host_->AttachWorker(std::move(sink), "10.0.0.1", "", false),
                           ConnectMessage(token));
  }
  ASSERT_EQ(closed, "") << "all have joined";
  ASSERT_EQ(host_->snapshot().workers.size(), 4u);
  const auto revoke = [&](const std::string& token) {
    host_->CloseWorkers([hash = HashSecret(token)](const std::string& shown) {
      return shown == hash ? std::optional<std::string>("revoked") : std::nullopt;
    });
  };
  revoke("of-nobody");
  revoke("");
  EXPECT_EQ(closed, "");
  revoke("of-b");
  EXPECT_EQ(closed, "of-b: revoked\nof-b: revoked\n");
  EXPECT_EQ(host_->snapshot().workers.size(), 2u);
  revoke("of-b");
  EXPECT_EQ(closed, "of-b: revoked\nof-b: revoked\n") << "once";
}

TEST_F(SwarmHostTest, MayEndWhileItsPlanIsBeingMade) {
  Serve(8);
  std::promise<void> ended;
  host_->SetPlanner([&, end = ended.get_future().share()](const swarm::StartPlanning& job) {
    loop_.Stop();
    end.wait();
    return swarm::RunPlanning(job);
  });
  WorkerSink sink;
  sink.send = [](const std::vector<Slice>&) {};
  sink.close = [](const std::string&) {};
  host_->OnWorkerMessage(host_->AttachWorker(std::move(sink), "10.0.0.1", "", false),
                         ConnectMessage(""));
  loop_.Run();  // until the planner is called
  host_.reset();
  ended.set_value();
  planning_.Stop();
  loop_.Stop();
  loop_.Run();
}

// Of a server whose model another one leads.
TEST_F(SwarmHostTest, WithoutTheLeadRequestsAreToldWhoHasIt) {
  host_ = std::make_unique<SwarmHost>(loop_, planning_);
  host_->SetStandby("Ask https://b.", /*leader_is_up=*/true);
  EXPECT_FALSE(host_->leads() || host_->is_up());
  EXPECT_EQ(host_->snapshot().message, "Ask https://b.");
  EXPECT_EQ(host_->snapshot().state, swarm::SwarmState::kUp) << "pages let people ask";
  Ask("key 1");
  EXPECT_EQ(error_, "Ask https://b.");
  host_->Cancel(7);
  host_->ForgetPrefix("", "nothing");
}

TEST_F(SwarmHostTest, TheEndOfLeadingEndsRequestsAndSendsWorkersElsewhere) {
  host_ = std::make_unique<SwarmHost>(loop_, planning_);
  host_->BeginLeading(Options(8));
  std::vector<std::string> closed;
  WorkerSink sink;
  sink.send = [](std::vector<Slice>) {};
  sink.close = [&](const std::string& reason) { closed.push_back(reason); };
  sink.send_elsewhere = [&](const std::string& url) { closed.push_back("go to " + url); };
  const swarm::WorkerId worker = host_->AttachWorker(sink, "10.0.0.1", "", false);
  Ask("key 1");
  EXPECT_FALSE(is_answered_);
  host_->EndLeading("wss://b");
  EXPECT_EQ(closed, std::vector<std::string>{"go to wss://b"});
  EXPECT_EQ(error_, "Another server leads this model now: send the request again.");
  // What comes of the former worker's socket now means nothing.
  host_->OnWorkerMessage(worker, Slice::OfText("x"));
  host_->DetachWorker(worker, "closed");
  host_->BeginLeading(Options(8));
  error_.clear();
  Ask("key 3");
  EXPECT_EQ(error_, "") << "it waits for devices";
}

}  // namespace
}  // namespace weft::server
