// What one server notes and the next one finds.
#include "server/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/full_disk_testing.h"
#include "base/random.h"
#include "base/unix_time.h"
#include "server/placement_record.h"

namespace weft::server {
namespace {

using testing::SizeIs;

swarm::Placement SomePlacement() {
  swarm::Placement placement;
  placement.swarm_id = "0123456789abcdef";
  placement.incarnation = 1'795'574'400'123;
  placement.last_binding = swarm::BindingId(9);
  placement.last_session = swarm::SessionId(2048);
  swarm::PlacedDevice& device = placement.devices.emplace_back();
  device.device = "laptop";
  device.bindings = {{.id = swarm::BindingId(9), .stage = 1, .layers = {0, 3}, .loaded = true}};
  device.weight_factor = 1.5;
  device.used_bytes = 1000;
  device.times.overhead_us = 20;
  device.times.up_rate = 2.5;
  placement.devices.emplace_back().device = "phone";
  placement.stages = {{swarm::BindingId(9), {0, 3}, 120.5}};
  placement.lifetimes = {{"laptop", 3, 1800.5}};
  return placement;
}

swarm::CoreOptions SomeCore() {
  swarm::CoreOptions core;
  core.model.layers.resize(3);
  return core;
}

class RecoveryTest : public testing::Test {
 protected:
  RecoveryTest()
      : folder_(std::filesystem::temp_directory_path() / ("weft-recovery-" + SecureRandomHex(6))) {}
  void TearDown() override { std::filesystem::remove_all(folder_); }
  // A start of a server and its cell of a package.
  struct Start {
    std::unique_ptr<Recovery> server;
    std::unique_ptr<CellRecovery> cell;
    CellRecovery* operator->() const { return cell.get(); }
  };
  Start Open(uint8_t package = 0) {
    Recovery::Options options;
    options.path = folder_ / "journal";
    options.keep_prompts = true;
    options.retry_interval = Milliseconds(0);
    auto recovery = Recovery::Open(loop_, options);
    EXPECT_TRUE(recovery.ok()) << recovery.error().ToString();
    Start start{std::move(recovery).value(), nullptr};
    auto cell = start.server->BeginCell({package});
    EXPECT_TRUE(cell.ok()) << cell.error().ToString();
    start.cell = std::move(cell).value();
    return start;
  }
  // What the records know of a key, once the loop has been told.
  std::optional<store::KnownRequest> Find(const Start& start, const std::string& key) {
    std::optional<store::KnownRequest> known;
    start.cell->FindRequest(key, [&](std::optional<store::KnownRequest> found) {
      known = std::move(found);
      loop_.Stop();
    });
    loop_.Run();
    return known;
  }

  const std::filesystem::path folder_;
  net::EventLoop loop_;
  size_t rounds_ = 0;
};

TEST_F(RecoveryTest, FindsThePlacementThatWasNotedLast) {
  swarm::Placement placement = SomePlacement();
  {
    const Start recovery = Open();
    EXPECT_FALSE(recovery->PlacementFor(SomeCore()));
    recovery->NotePlacement({}, SomeCore());
    recovery->NotePlacement(placement, SomeCore());
  }
  const auto found = Open()->PlacementFor(SomeCore());
  ASSERT_TRUE(found);
  placement.lifetimes.clear();  // those are good for any model
  EXPECT_EQ(ToRecord(*found).SerializeAsString(), ToRecord(placement).SerializeAsString());
  EXPECT_EQ(found->incarnation, 1'795'574'400'123u);
  EXPECT_EQ(found->devices[0].bindings[0].layers, (swarm::LayerSpan{0, 3}));
  EXPECT_EQ(found->devices[0].times.overhead_us, 20);
  EXPECT_EQ(found->devices[0].times.up_rate, 2.5);
  EXPECT_EQ(found->devices[0].times.bytes_per_us, std::nullopt);
}

TEST_F(RecoveryTest, KnowsHowDevicesComeAndGoWhateverIsServedNow) {
  { Open()->NotePlacement(SomePlacement(), SomeCore()); }
  swarm::CoreOptions other = SomeCore();
  other.context_length += 1;
  for (const uint8_t package : {0, 1}) {
    const Start recovery = Open(package);
    EXPECT_FALSE(recovery->PlacementFor(other));
    const auto lifetimes = recovery->Lifetimes();
    ASSERT_THAT(lifetimes, SizeIs(1));
    EXPECT_EQ(lifetimes[0].device, "laptop");
    EXPECT_EQ(lifetimes[0].losses, 3u);
    EXPECT_EQ(lifetimes[0].stayed_s, 1800.5);
  }
}

TEST_F(RecoveryTest, KnowsWhichExpertsOfAPackageWereChosen) {
  // Two packages, one of them again after the other.
  for (const uint8_t package : {0, 1, 0, 1}) {
    const Start recovery = Open(package);
    const auto found = recovery->Popularity();
    ASSERT_THAT(found, SizeIs(rounds_ < 2 ? 0 : 1));
    if (rounds_ >= 2) {
      EXPECT_EQ(found[0].layer, 2u);
      EXPECT_THAT(found[0].counts, testing::ElementsAre(package, 5.5f));
    }
    swarm::Placement placement = SomePlacement();
    placement.popularity = {{2, {static_cast<float>(package), 5.5f}}};
    recovery->NotePlacement(placement, SomeCore());
    ++rounds_;
  }
}

TEST_F(RecoveryTest, AnotherModelsStartForgetsNothing) {
  { Open(0)->NotePlacement(SomePlacement(), SomeCore()); }
  {
    const Start other = Open(1);
    EXPECT_FALSE(other->PlacementFor(SomeCore()));
    swarm::Placement placement = SomePlacement();
    placement.swarm_id = "another         ";
    other->NotePlacement(placement, SomeCore());
  }
  const auto found = Open(0)->PlacementFor(SomeCore());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->swarm_id, SomePlacement().swarm_id);
}

TEST_F(RecoveryTest, UsesNoPlacementThatDoesNotFit) {
  { Open()->NotePlacement(SomePlacement(), SomeCore()); }
  swarm::CoreOptions other = SomeCore();
  other.context_length *= 2;
  EXPECT_FALSE(Open()->PlacementFor(other)) << "keys and values for another context";
  other = SomeCore();
  other.session_count += 1;
  EXPECT_FALSE(Open()->PlacementFor(other));
  other = SomeCore();
  other.marks += 1;
  EXPECT_TRUE(Open()->PlacementFor(other)) << "no layer holds marks";
  other.model.layers[1].state_bytes = 100;
  EXPECT_FALSE(Open()->PlacementFor(other));
  other = SomeCore();
  other.model.layers.resize(4);
  EXPECT_FALSE(Open()->PlacementFor(other));
  swarm::Placement broken = SomePlacement();
  broken.stages[0].layers.end = 7;
  { Open()->NotePlacement(broken, SomeCore()); }
  EXPECT_FALSE(Open()->PlacementFor(SomeCore()));
}

TEST_F(RecoveryTest, UsesAPlacementAfterAStopOnlyWhileDevicesKeepWhatTheyHold) {
  {
    const Start recovery = Open();
    recovery->NotePlacement(SomePlacement(), SomeCore());
    recovery->NoteStop();
    recovery->NotePlacement({}, SomeCore());  // everybody is being closed
  }
  {
    const Start recovery = Open();
    EXPECT_TRUE(recovery->PlacementFor(SomeCore())) << "a moment later";
    recovery->NoteStop();
  }
  swarm::CoreOptions core = SomeCore();
  core.timeouts.resume_limit = Seconds(-1);
  EXPECT_FALSE(Open()->PlacementFor(core));
}

TEST_F(RecoveryTest, NotesTheFirstUseOfASecret) {
  const store::StoredSecrets secrets{std::string(32, 'k'), std::string(32, 't'), "", false};
  {
    const Start recovery = Open();
    ASSERT_TRUE(recovery.server->NoteSecrets(secrets, false, false).ok());
    recovery.server->NoteUse(ToHex(AsBytes(std::string(32, 'x'))));
  }
  {
    const Start recovery = Open();
    ASSERT_THAT(recovery.server->secrets(), SizeIs(1));
    EXPECT_FALSE(recovery.server->secrets()[0].used);
    recovery.server->NoteUse(ToHex(AsBytes(secrets.join_token)));
  }
  EXPECT_TRUE(Open().server->secrets()[0].used);
}

store::KeyedRequest KeyedOne() {
  store::KeyedRequest request;
  request.key = "key";
  request.digest = "digest";
  request.seed = 7;
  request.begun_at_s = UnixNowMs() / 1000;
  request.request.emplace().add_prompt_ids(1);
  return request;
}

TEST_F(RecoveryTest, NotesRequestsAndFindsThemOnTheLoop) {
  {
    const Start recovery = Open();
    EXPECT_EQ(Find(recovery, "key"), std::nullopt);
    recovery->NoteBegun(KeyedOne());
    recovery->NoteTokens("key", 0, {5, 6});
    EXPECT_EQ(Find(recovery, "key")->seed, 7u) << "what was noted before is found";
    recovery->NoteStop();
    recovery->NoteEnded("key", 2);
  }
  const Start recovery = Open();
  ASSERT_THAT(recovery->found().open_requests, SizeIs(1)) << "what a stop ends has not ended";
  EXPECT_THAT(recovery->found().open_requests[0].token_ids, testing::ElementsAre(5, 6));
  EXPECT_TRUE(recovery->found().stopped_at_ms);
  EXPECT_EQ(Find(recovery, "key")->digest, "digest");
}

TEST_F(RecoveryTest, KeepsPrefixesUntilTheyAreForgotten) {
  {
    const Start recovery = Open();
    recovery->NoteKept({"salt", "fox", {1, 2}, 5});
    recovery->NoteKept({"salt", "hen", {3}, 5});
    recovery->NoteForgotten("salt", "hen");
  }
  const Start recovery = Open();
  ASSERT_THAT(recovery->found().kept_prefixes, SizeIs(1));
  EXPECT_EQ(recovery->found().kept_prefixes[0].name, "fox");
}

TEST_F(RecoveryTest, ACellThatIsGoneIsToldNothing) {
  Start recovery = Open();
  bool is_told = false;
  recovery->FindRequest("key", [&](const auto&) { is_told = true; });
  recovery.server->Flush();
  recovery.cell.reset();
  loop_.Post([this] { loop_.Stop(); });
  loop_.Run();
  EXPECT_FALSE(is_told);
}

TEST_F(RecoveryTest, CatchesUpWhenTheDiskIsNoLongerFull) {
  {
    const Start recovery = Open();
    recovery.server->Flush();
    {
      const FullDisk full(1);
      recovery->NotePlacement(SomePlacement(), SomeCore());
      recovery->NoteBegun(KeyedOne());
      recovery->NoteTokens("key", 0, {5, 6});
      recovery.server->Flush();
    }
    recovery->NoteTokens("key", 2, {7});
  }
  const Start recovery = Open();
  EXPECT_TRUE(recovery->PlacementFor(SomeCore()));
  ASSERT_THAT(recovery->found().open_requests, SizeIs(1));
  EXPECT_THAT(recovery->found().open_requests[0].token_ids, testing::ElementsAre(5, 6, 7));
}

// Eighty megabytes of token ids: more than may wait.
TEST_F(RecoveryTest, OfTooMuchThatWaitsTokensGoFirst) {
  {
    const Start recovery = Open();
    recovery.server->Flush();
    {
      const FullDisk full(1);
      recovery->NoteBegun(KeyedOne());
      for (uint32_t part = 0; part < 20; ++part)
        recovery->NoteTokens("key", part << 20, std::vector<int32_t>(1 << 20, 5));
      recovery.server->Flush();
    }
    recovery->NoteKept({"salt", "fox", {1, 2}, 5});
  }
  const Start recovery = Open();
  ASSERT_THAT(recovery->found().open_requests, SizeIs(1)) << "its prompt is there";
  EXPECT_THAT(recovery->found().kept_prefixes, SizeIs(1));
}

}  // namespace
}  // namespace weft::server
