// What one server notes and the next one finds.
#include "server/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/random.h"
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
  std::unique_ptr<Recovery> Open() const {
    Recovery::Options options;
    options.path = folder_ / "journal";
    auto recovery = Recovery::Open(options);
    EXPECT_TRUE(recovery.ok()) << recovery.error().ToString();
    return std::move(recovery).value();
  }

  const std::filesystem::path folder_;
  size_t rounds_ = 0;
};

TEST_F(RecoveryTest, FindsThePlacementThatWasNotedLast) {
  swarm::Placement placement = SomePlacement();
  {
    const auto recovery = Open();
    EXPECT_FALSE(recovery->PlacementFor(SomeCore()));
    recovery->NotePlacement({}, SomeCore());
    recovery->NotePlacement(placement, SomeCore());
  }
  const auto found = Open()->PlacementFor(SomeCore());
  ASSERT_TRUE(found);
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
  Recovery::Options options;
  options.path = folder_ / "journal";
  for (const uint8_t package : {0, 1}) {
    options.package_digest[0] = package;
    auto recovery = Recovery::Open(options);
    ASSERT_TRUE(recovery.ok());
    EXPECT_FALSE((*recovery)->PlacementFor(other));
    const auto lifetimes = (*recovery)->Lifetimes();
    ASSERT_THAT(lifetimes, SizeIs(1));
    EXPECT_EQ(lifetimes[0].device, "laptop");
    EXPECT_EQ(lifetimes[0].losses, 3u);
    EXPECT_EQ(lifetimes[0].stayed_s, 1800.5);
  }
}

TEST_F(RecoveryTest, KnowsWhichExpertsOfAPackageWereChosen) {
  Recovery::Options options;
  options.path = folder_ / "journal";
  // Two packages, one of them again after the other.
  for (const uint8_t package : {0, 1, 0, 1}) {
    options.package_digest[0] = package;
    auto recovery = Recovery::Open(options);
    ASSERT_TRUE(recovery.ok());
    const auto found = (*recovery)->Popularity();
    EXPECT_EQ((*recovery)->found().popularities().size(), rounds_ < 2 ? rounds_ : 2);
    ASSERT_THAT(found, SizeIs(rounds_ < 2 ? 0 : 1));
    if (rounds_ >= 2) {
      EXPECT_EQ(found[0].layer, 2u);
      EXPECT_THAT(found[0].counts, testing::ElementsAre(package, 5.5f));
    }
    swarm::Placement placement = SomePlacement();
    placement.popularity = {{2, {static_cast<float>(package), 5.5f}}};
    (*recovery)->NotePlacement(placement, SomeCore());
    ++rounds_;
  }
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
    const auto recovery = Open();
    recovery->NotePlacement(SomePlacement(), SomeCore());
    recovery->NoteStop();
    recovery->NotePlacement({}, SomeCore());  // everybody is being closed
  }
  {
    const auto recovery = Open();
    EXPECT_TRUE(recovery->PlacementFor(SomeCore())) << "a moment later";
    recovery->NoteStop();
  }
  swarm::CoreOptions core = SomeCore();
  core.timeouts.resume_limit = Seconds(-1);
  EXPECT_FALSE(Open()->PlacementFor(core));
}

TEST_F(RecoveryTest, NotesTheFirstUseOfASecret) {
  journal::pb::Secrets secrets;
  secrets.set_api_key(std::string(32, 'k'));
  secrets.set_join_token(std::string(32, 't'));
  {
    const auto recovery = Open();
    ASSERT_TRUE(recovery->NoteSecrets(secrets).ok());
    recovery->NoteUse(ToHex(AsBytes(std::string(32, 'x'))));
  }
  {
    const auto recovery = Open();
    ASSERT_THAT(recovery->found().secrets(), SizeIs(1));
    EXPECT_FALSE(recovery->found().secrets()[0].used());
    recovery->NoteUse(ToHex(AsBytes(secrets.join_token())));
  }
  EXPECT_TRUE(Open()->found().secrets()[0].used());
}

TEST_F(RecoveryTest, NotesRequests) {
  {
    const auto recovery = Open();
    journal::pb::Record record;
    record.mutable_request_begun()->set_key("key");
    record.mutable_request_begun()->set_begun_at_s(std::time(nullptr));
    recovery->Note(record);
    recovery->NoteStop();
    journal::pb::Record late;
    late.mutable_request_ended()->set_key("key");
    recovery->Note(late);
  }
  const auto recovery = Open();
  ASSERT_THAT(recovery->found().requests(), SizeIs(1));
  EXPECT_EQ(recovery->found().requests()[0].generated_tokens, std::nullopt)
      << "what a stop ends has not ended";
}

}  // namespace
}  // namespace weft::server
