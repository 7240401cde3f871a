// A worker in this process that the core closes comes back with what it holds.
#include "apps/local_worker.h"

#include <gtest/gtest.h>

#include <weft_source_dir.h>
#include <filesystem>
#include <optional>

#include "apps/model_info.h"
#include "base/random.h"
#include "convert/convert.h"
#include "wire/version.h"

namespace weft::apps {
namespace {

class LocalWorkerTest : public testing::Test {
 protected:
  LocalWorkerTest() {
    convert::ConvertOptions convert;
    convert.source = std::filesystem::path(WEFT_SOURCE_DIR) / "models" / "weft-tiny";
    convert.package = folder_;
    const auto report = convert::ConvertCheckpoint(convert, [](const convert::ConvertProgress&) {});
    CHECK(report.ok());
    package_ = package::Package::Open(folder_).value();
  }
  ~LocalWorkerTest() override { std::filesystem::remove_all(folder_); }

  // Returns the ids of a greedy answer, or nothing after a minute.
  std::vector<int32_t> Answer() {
    swarm::Request request;
    request.prompt_ids = {5, 17, 300, 17};
    request.max_tokens = 8;
    request.sampling.temperature = 0;
    std::vector<int32_t> ids;
    server::RequestCallbacks callbacks;
    callbacks.on_token = [&](const swarm::EmitToken& token) { ids.push_back(token.token_id); };
    callbacks.on_finish = [&](const swarm::FinishRequest&) { loop_.Stop(); };
    net::EventLoop::Timer patience(loop_);
    patience.FireAfter(Seconds(60), [&] { loop_.Stop(); });
    host_->Submit(std::move(request), std::move(callbacks));
    loop_.Run();
    return ids;
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("weft-local-worker-" + SecureRandomHex(6));
  package::Package package_;
  net::EventLoop loop_;
  TaskQueue pool_{1};
  std::optional<server::SwarmHost> host_;
};

TEST_F(LocalWorkerTest, ComesBackWhenItIsClosed) {
  swarm::CoreOptions core;
  core.model = ModelInfoOf(package_);
  core.session_count = 1;
  core.timeouts.join_debounce = Milliseconds(1);
  host_.emplace(loop_, pool_, core);
  worker::NativeWorkerOptions options;
  options.name = "this server";
  options.worker_id = "built-in";
  options.memory_bytes = 1ull << 30;
  const LocalWorker worker(loop_, *host_, options, package_);
  const std::vector<int32_t> expected = Answer();
  ASSERT_EQ(expected.size(), 8u);
  ASSERT_EQ(host_->snapshot().workers.size(), 1u);
  const swarm::WorkerId first = host_->snapshot().workers[0].id;
  // The core closes whoever sends what it cannot read.
  host_->OnWorkerMessage(first, Slice(std::vector<uint8_t>{wire::kControlByte, 0xff}));
  ASSERT_TRUE(host_->snapshot().workers.empty());
  EXPECT_EQ(Answer(), expected);
  ASSERT_EQ(host_->snapshot().workers.size(), 1u);
  EXPECT_NE(host_->snapshot().workers[0].id, first);
}

}  // namespace
}  // namespace weft::apps
