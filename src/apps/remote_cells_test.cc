#include "apps/remote_cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "apps/fake_server_testing.h"
#include "worker/model_source_testing.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;

TEST(RemoteCellsTest, ReadsWhichModelsAreLoaded) {
  const auto list = ParseCellList(
      R"({"version": 7, "cells": [{"cell": 3, "model": "tiny", "need_bytes": 1200}]})");
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->version, 7u);
  ASSERT_EQ(list->cells.size(), 1u);
  EXPECT_EQ(list->cells[0].cell, 3u);
  EXPECT_EQ(list->cells[0].model, "tiny");
  EXPECT_EQ(list->cells[0].need_bytes, 1200u);
  const auto none = ParseCellList(R"({"version": 1, "cells": []})");
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->cells.empty());
}

TEST(RemoteCellsTest, SaysWhatIsWrongWithAList) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "no JSON object"},
      {"[]", "no JSON object"},
      {R"({"cells": []})", "lacks its version"},
      {R"({"version": -1, "cells": []})", "lacks its version"},
      {R"({"version": 1, "cells": {}})", "lacks its version"},
      {R"({"version": 1, "cells": [3]})", "no object"},
      {R"({"version": 1, "cells": [{"cell": 0, "model": "a", "need_bytes": 1}]})",
       "without number"},
      {R"({"version": 1, "cells": [{"cell": 4294967296, "model": "a", "need_bytes": 1}]})",
       "without number"},
      {R"({"version": 1, "cells": [{"cell": 1, "model": 2, "need_bytes": 1}]})", "without number"},
      {R"({"version": 1, "cells": [{"cell": 1, "model": "a"}]})", "without number"},
  };
  for (const auto& [text, why] : wrong) {
    const auto list = ParseCellList(text);
    ASSERT_FALSE(list.ok()) << text;
    EXPECT_THAT(list.error().message(), HasSubstr(why)) << text;
  }
}

// Of a model that was unloaded before its manifest was asked for, or whose bytes are wrong.
class FailingSource : public worker::ModelSource {
 public:
  explicit FailingSource(ErrorCode code) : code_(code) {}
  Result<package::Manifest> FetchManifest(const package::Digest&) override {
    return Error(code_, "The manifest does not come.");
  }

 private:
  const ErrorCode code_;
};

// A device that helps the models of a server. Of the first one it gets nothing but this error.
class HelpedCellsTest : public testing::Test {
 protected:
  void Start(ErrorCode first_error) {
    worker::NativeWorkerOptions options;
    options.memory_bytes = 1 << 30;
    const auto make_source =
        [this, first_error](
            const std::shared_ptr<ServerList>&) -> Result<std::shared_ptr<worker::PackageSource>> {
      std::shared_ptr<worker::PackageSource> source = whole_;
      if (!std::exchange(has_source_, true)) source = std::make_shared<FailingSource>(first_error);
      return source;
    };
    remote_ = std::make_unique<RemoteCells>(loop_, std::vector<ServerAddress>{{server_.url(), {}}},
                                            options, make_source, [this](Status status) {
                                              end_ = std::move(status);
                                              loop_.Stop();
                                            });
    remote_->Start();
    thread_ = std::thread([this] { loop_.Run(); });
  }
  ~HelpedCellsTest() override {
    loop_.Stop();
    if (thread_.joinable()) thread_.join();
    remote_.reset();
  }

  const std::shared_ptr<worker::ModelSource> whole_ = std::make_shared<worker::ModelSource>();
  FakeServer server_{static_cast<uint32_t>(whole_->manifest().layers.size())};
  net::EventLoop loop_;
  bool has_source_ = false;
  std::unique_ptr<RemoteCells> remote_;
  std::thread thread_;
  Status end_ = OkStatus();
};

constexpr char kOne[] = R"([{"cell": 1, "model": "one", "need_bytes": 100000000}])";
constexpr char kTwo[] = R"([{"cell": 2, "model": "two", "need_bytes": 100000000}])";
constexpr char kBoth[] = R"([{"cell": 1, "model": "one", "need_bytes": 100000000},
                             {"cell": 2, "model": "two", "need_bytes": 100000000}])";

TEST_F(HelpedCellsTest, AModelWhosePackageIsGoneEndsNoHelpForTheNextOne) {
  server_.SetCells(1, kOne);
  Start(ErrorCode::kNotFound);
  ASSERT_NE(server_.Comes("closed"), "");
  server_.SetCells(2, kTwo);
  EXPECT_NE(server_.Comes("connect"), "");
}

TEST_F(HelpedCellsTest, AModelThatCannotBeHelpedLeavesTheOthersAlone) {
  server_.SetCells(1, kBoth);
  Start(ErrorCode::kInvalidData);
  ASSERT_NE(server_.Comes("closed"), "");
  EXPECT_NE(server_.Comes("connect"), "");
  server_.SetCells(2, kBoth);  // it is not tried again
  ASSERT_NE(server_.Comes("GET /worker/cells", 3), "");
  EXPECT_EQ(server_.CountOf("closed"), 1);
}

TEST_F(HelpedCellsTest, ADeviceThatCanHelpNoModelEnds) {
  server_.SetCells(1, kOne);
  Start(ErrorCode::kInvalidData);
  thread_.join();
  EXPECT_EQ(end_.ok() ? "" : end_.error().message(), "The manifest does not come.");
}

}  // namespace
}  // namespace weft::apps
