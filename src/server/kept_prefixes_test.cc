// What is kept by name, what the records are told of it, and what a later start makes of that.
// There is no worker here: prefixes wait for one.
#include "server/kept_prefixes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/cell_records_testing.h"
#include "server/swarm_host.h"

namespace weft::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

swarm::CoreOptions CoreOf(uint32_t sessions) {
  swarm::CoreOptions core;
  core.model.name = "tiny";
  core.model.layers.resize(3);
  core.model.hidden_columns = 8;
  core.model.vocabulary = 100;
  core.context_length = 64;
  core.session_count = sessions;
  return core;
}

class KeptPrefixesTest : public testing::Test {
 protected:
  void Serve(uint32_t sessions) {
    host_ = std::make_unique<SwarmHost>(loop_, planning_, CoreOf(sessions));
    kept_ = std::make_unique<KeptPrefixes>(*host_, loop_, records_);
  }
  void Keep(const std::string& name, std::vector<int32_t> ids, const std::string& salt = "") {
    kept_->Keep({salt, name, std::move(ids)}, "somebody",
                [this, name](const std::optional<api::ApiError>& error) {
                  told_.push_back(name + (error ? " " + std::to_string(error->status) : " kept"));
                  if (error) problem_ = error->message;
                });
  }
  std::vector<std::string> Names(const std::string& salt = "") const {
    std::vector<std::string> names;
    for (const KeptPrefixes::Prefix& each : kept_->Of(salt)) names.push_back(each.name);
    return names;
  }
  uint32_t queued() const {
    const swarm::Snapshot picture = host_->snapshot();
    return picture.queued_requests + picture.active_requests;
  }

  net::EventLoop loop_;
  TaskQueue planning_{1};
  RememberedRecords records_;
  std::vector<std::string> told_;
  std::string problem_;
  std::unique_ptr<SwarmHost> host_;
  std::unique_ptr<KeptPrefixes> kept_;
};

TEST_F(KeptPrefixesTest, ByAKeyTheLatestAreKept) {
  Serve(8);
  const auto cache = [this](const std::string& key, std::vector<int32_t> ids) {
    kept_->KeepWhileRoom(key, {"", "", std::move(ids)}, "somebody");
  };
  cache("a", {1});
  EXPECT_THAT(Names(), IsEmpty()) << "none may be kept so";
  kept_->set_most_cached(2);
  Keep("pinned", {9});
  cache("a", {1, 2});
  cache("b", {3, 4});
  cache("a", {1, 2});
  EXPECT_EQ(queued(), 3u);
  const std::vector<std::string> before = Names();
  cache("c", {5, 6});  // in place of "b", which nobody asked for since
  const std::vector<std::string> names = Names();
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(names[0], "pinned");
  EXPECT_EQ(names[1], before[1]);
  EXPECT_NE(names[2], before[2]);
  EXPECT_THAT(names[2], testing::StartsWith("prompt_cache_key."));
  EXPECT_EQ(api::CheckPrefixName(names[2]), std::nullopt);
  EXPECT_TRUE(kept_->Forget("", names[2]));
}

TEST_F(KeptPrefixesTest, TheSameTokensAreAskedForOnce) {
  Serve(4);
  Keep("fox", {1, 2, 3});
  Keep("fox", {1, 2, 3});
  EXPECT_EQ(queued(), 1u);
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_THAT(Names(), ElementsAre("fox"));
  EXPECT_THAT(Names("a key"), IsEmpty());
  // Others take their place, and whoever waited for the first ones is told.
  Keep("fox", {4, 5});
  EXPECT_EQ(queued(), 1u);
  EXPECT_THAT(told_, ElementsAre("fox 409", "fox 409"));
  EXPECT_THAT(kept_->Of("")[0].token_ids, ElementsAre(4, 5));
  EXPECT_FALSE(kept_->Of("")[0].is_kept);
  EXPECT_TRUE(records_.kept.empty()) << "nothing is there yet";
}

TEST_F(KeptPrefixesTest, OnlyWhoAskedMayForget) {
  Serve(4);
  Keep("fox", {1, 2, 3}, "a key");
  EXPECT_FALSE(kept_->Forget("", "fox"));
  EXPECT_FALSE(kept_->Forget("a key", "hen"));
  EXPECT_TRUE(kept_->Forget("a key", "fox"));
  EXPECT_THAT(told_, ElementsAre("fox 409"));
  EXPECT_EQ(queued(), 0u) << "it is not computed any more";
  EXPECT_THAT(Names("a key"), IsEmpty());
}

TEST_F(KeptPrefixesTest, WithoutAPlaceNoneIsKept) {
  Serve(2);
  Keep("fox", {1, 2, 3});
  Keep("hen", {4, 5, 6});
  EXPECT_THAT(told_, ElementsAre("hen 409"));
  EXPECT_THAT(problem_, HasSubstr("--sessions"));
  EXPECT_THAT(Names(), ElementsAre("fox"));
  Keep("long", std::vector<int32_t>(65, 1), "a key");
  EXPECT_THAT(told_.back(), "long 400");
}

TEST_F(KeptPrefixesTest, ALaterStartAsksForThemAgain) {
  records_.kept = {{"old key", "fox", {7}, 5}, {"lost key", "hen", {7}, 5}};
  Serve(4);
  kept_->Restore(std::vector(records_.kept), {"old key", "new key"});
  EXPECT_EQ(queued(), 2u);
  EXPECT_THAT(Names("old key"), ElementsAre("fox"));
  EXPECT_THAT(Names("new key"), ElementsAre("hen")) << "nobody has its key any more";
  EXPECT_EQ(kept_->Of("new key")[0].asked_at_s, 5);
  EXPECT_TRUE(kept_->Forget("new key", "hen"));
  // A server that stops has not forgotten.
  host_->EndRequests(Error(ErrorCode::kUnavailable, "The server is stopping."));
  EXPECT_THAT(Names("old key"), ElementsAre("fox"));
  EXPECT_EQ(records_.kept.size(), 2u);
}

}  // namespace
}  // namespace weft::server
