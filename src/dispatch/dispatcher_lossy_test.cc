// A hub whose holders send their sums as datagrams over lines that lose, repeat, reorder and delay
// them, on a virtual clock: the dispatcher, the channels and the senders together, without sockets.
// Group g adds 2^g to every column, so that a sum shows which groups are in it, and once each.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "base/random.h"
#include "dispatch/dispatcher.h"
#include "dispatch/holder_channels.h"
#include "dispatch/hub_channel.h"
#include "dispatch/virtual_time_testing.h"

namespace weft::dispatch {
namespace {

constexpr uint32_t kGroups = 12, kColumns = 600, kFragments = 3;
constexpr uint32_t kAll = (1u << kGroups) - 1;
constexpr uint32_t kSelf = 1;

// The last group is the most critical.
std::vector<float> RisingNorms() {
  std::vector<float> norms(kGroups);
  std::iota(norms.begin(), norms.end(), 1.0f);
  return norms;
}

struct Line {
  double loss = 0, repeats = 0;
  Duration delay = Milliseconds(1), jitter;  // up to so much more, for each by itself
  bool is_blocked = false;
};

struct Device {
  Line line;
  std::unique_ptr<HubChannel> sender;
  bool is_gone = false;                   // answers nothing any more
  Duration computes = Microseconds(500);  // a group
  uint64_t reliable = 0, datagrams = 0;   // answers so far
};

DatagramAddress AddressOf(uint32_t device) {
  DatagramAddress address;
  address.ip[0] = 0xfd;
  address.ip[15] = static_cast<uint8_t>(device);
  address.port = 4000;
  return address;
}

class World {
 public:
  explicit World(uint64_t seed, double limit = 1)
      : random_(seed), channels_({{AddressOf(0), AddressOf(99)}, [this](MutableByteSpan out) {
                                    for (uint8_t& byte : out)
                                      byte = static_cast<uint8_t>(random_.Next());
                                  }}) {
    dispatcher_.SetLosses(limit, {});
  }

  Device& Join(uint32_t id, const Line& line) {
    devices_[id].line = line;
    return devices_[id];
  }
  // Everybody holds every group, as long as he is there.
  void Tell() {
    std::vector<Holder> holders;
    std::map<uint32_t, bool> senders;
    for (const auto& [id, device] : devices_) {
      Holder holder{id, {}};
      for (uint16_t group = 0; group < kGroups; ++group) holder.experts.emplace_back(3, group);
      holders.push_back(std::move(holder));
      if (id != kSelf) senders[id] = false;
    }
    channels_.SetHolders(time_.now(), senders);
    Do(dispatcher_.SetHolders(time_.now(), ++statement_, std::move(holders)));
    Carry();
  }
  void Forget(uint32_t id) {
    devices_.erase(id);
    Tell();
  }
  // One layer after the other, until so many have ended.
  void Run(int layers, uint32_t rows = 1) {
    rows_ = rows;
    left_ = layers;
    time_.After({}, [this] { Begin(); });
    int events = 0;
    while (left_ > 0) {
      ASSERT_TRUE(time_.RunNext());
      ASSERT_LT(++events, 2'000'000);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(dispatcher_.HeldBytes(), 0u);
  }
  void Pass(Duration time) {
    for (const Instant end = time_.now() + time; time_.now() < end;) {
      bool over = false;
      time_.After(Milliseconds(50), [&over] { over = true; });
      while (!over) ASSERT_TRUE(time_.RunNext());
      channels_.OnTimer(time_.now());
      Carry();
    }
  }

  std::map<uint32_t, Device> devices_;
  Dispatcher dispatcher_{{}};
  uint64_t layers_with_losses_ = 0;
  std::vector<double> drifts_;  // of each layer: the norm of what is missing, by the sum's
  Duration longest_;            // of a layer
  std::map<uint32_t, uint32_t> groups_asked_;  // of each holder, in the last layer
  std::vector<float> predicted_;               // norms of the layers that begin
  // The groups that were asked for as datagrams, and of others the reliable way, in the last layer.
  std::set<uint32_t> lossy_groups_, sent_reliably_;
  VirtualTime time_;
  HolderChannels& channels() { return channels_; }

 private:
  void Begin() {
    std::map<uint32_t, double> lines;
    for (const auto& [id, device] : devices_)
      if (channels_.StateOf(id) == ChannelState::kReady) lines[id] = channels_.LossOf(id);
    dispatcher_.SetLines(std::move(lines));
    const std::vector<float> input(size_t{rows_} * kColumns, 1.0f);
    std::vector<uint32_t> experts;
    for (uint32_t i = 0; i < rows_ * kGroups; ++i) experts.push_back(i % kGroups);
    began_ = time_.now();
    groups_asked_.clear();
    lossy_groups_.clear();
    sent_reliably_.clear();
    Do(dispatcher_.Begin(
        time_.now(), 0, {3, kGroups, kColumns, input, experts, SlotKind::kSums, true, predicted_}));
  }

  void Do(const Actions& actions) {
    for (const Send& send : actions.sends) OnDevice(send);
    for (const uint32_t id : actions.doubted) channels_.Doubt(time_.now(), id);
    EXPECT_TRUE(actions.put_aside.empty());
    if (actions.timer)
      time_.At(std::max(time_.now(), *actions.timer),
               [this] { Do(dispatcher_.OnTimer(time_.now())); });
    for (const Done& done : actions.done) End(done);
    Carry();
  }

  void OnDevice(const Send& send) {
    const auto found = devices_.find(send.holder);
    if (found == devices_.end() || found->second.is_gone) return;
    std::vector<wire::ExpertFrame> asked;
    for (const wire::ExpertFrame& frame : send.frames) {
      if (frame.type != wire::ExpertFrameType::kDispatch) continue;
      EXPECT_TRUE(asked.empty() || asked.back().may_lose != frame.may_lose ||
                  asked.back().expert < frame.expert)
          << "they are added up";
      asked.push_back(frame);
      ++groups_asked_[send.holder];
      if (frame.may_lose) lossy_groups_.insert(frame.expert);
      if (!frame.may_lose && send.holder != kSelf) sent_reliably_.insert(frame.expert);
    }
    if (asked.empty()) return;
    time_.After(
        found->second.line.delay + found->second.computes * static_cast<int64_t>(asked.size()),
        [this, id = send.holder, asked]() mutable {
          const auto lossy = std::ranges::stable_partition(
              asked, [](const wire::ExpertFrame& frame) { return !frame.may_lose; });
          if (lossy.begin() != asked.begin()) Answer(id, {asked.begin(), lossy.begin()});
          if (!lossy.empty()) Answer(id, {lossy.begin(), lossy.end()});
        });
  }

  void Answer(uint32_t id, const std::vector<wire::ExpertFrame>& asked) {
    const auto found = devices_.find(id);
    if (found == devices_.end() || found->second.is_gone) return;
    Device& device = found->second;
    wire::GroupSet groups(kGroups);
    float sum = 0;
    for (const wire::ExpertFrame& frame : asked)
      groups.Add(frame.expert), sum += std::ldexp(1.0f, frame.expert);
    const std::vector<float> rows(asked.front().tokens * size_t{kColumns}, sum);
    if (asked.front().may_lose && device.sender && device.sender->is_ready()) {
      ++device.datagrams;
      const wire::SumsOf of = {asked.front().sequence, 3, wire::kMlpBlock};
      device.sender->Send(time_.now(), of, groups, rows, kColumns);
      device.sender->End(time_.now(), of);
      return Carry();
    }
    ++device.reliable;
    wire::ExpertFrame result = asked.front();
    result.type = wire::ExpertFrameType::kResult;
    for (size_t i = 1; i < asked.size(); ++i) result.added.push_back(asked[i].expert);
    const ByteSpan bytes = AsBytes(std::span(rows));
    result.rows = Slice(std::vector<uint8_t>(bytes.begin(), bytes.end()));
    time_.After(device.line.delay,
                [this, id, result] { Do(dispatcher_.OnResult(time_.now(), id, result)); });
  }

  // What the state machines have to say to each other.
  void Carry() {
    for (auto& [id, channel] : channels_.TakeAgreements()) {
      const auto found = devices_.find(id);
      if (found == devices_.end() || found->second.is_gone) continue;
      const auto read = wire::ReadChannel(wire::ChannelFrame(channel));
      ASSERT_TRUE(read.ok());
      EXPECT_EQ(*read, channel);
      found->second.sender = std::make_unique<HubChannel>(time_.now(), *read);
    }
    for (auto& [id, device] : devices_) {
      if (!device.sender) continue;
      if (const auto answer = device.sender->TakeAnswer())
        channels_.OnReady(time_.now(), id, {device.sender->key_epoch(), *answer});
      for (const OutgoingDatagram& out : device.sender->TakeDatagrams())
        if (out.to == AddressOf(0))
          Travel(device.line, [this, id = id, bytes = out.bytes] {
            const auto heard = channels_.OnDatagram(time_.now(), AddressOf(id), bytes);
            if (heard && heard->type == wire::DatagramType::kSums)
              Do(dispatcher_.OnSums(time_.now(), heard->holder, heard->body));
            else if (heard)
              Do(dispatcher_.OnSent(time_.now(), heard->holder, heard->body));
            else
              Carry();
          });
      if (const auto due = device.sender->timer())
        time_.At(std::max(time_.now(), *due),
                 [this, id = id] {
                   const auto there = devices_.find(id);
                   if (there == devices_.end()) return;
                   there->second.sender->OnTimer(time_.now());
                   if (there->second.sender->timer() != due_[id]) Carry();
                 }),
            due_[id] = due;
    }
    for (const OutgoingDatagram& out : channels_.TakeDatagrams()) {
      const uint32_t id = out.to.ip[15];
      if (devices_.contains(id))
        Travel(devices_.at(id).line, [this, id, bytes = out.bytes] {
          const auto there = devices_.find(id);
          if (there == devices_.end()) return;
          there->second.sender->OnDatagram(time_.now(), AddressOf(0), bytes);
          Carry();
        });
    }
  }

  void Travel(const Line& line, const std::function<void()>& arrive) {
    if (line.is_blocked) return;
    const int copies = random_.Uniform() < line.repeats ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
      if (random_.Uniform() < line.loss) continue;
      const auto more =
          static_cast<int64_t>(random_.Uniform() * static_cast<double>(line.jitter.us));
      time_.After(line.delay + Microseconds(more), arrive);
    }
  }

  void End(const Done& done) {
    longest_ = std::max(longest_, time_.now() - began_);
    ASSERT_EQ(done.slot_rows.size(), size_t{rows_} * kColumns);
    uint64_t lost = 0;
    double missing_squares = 0;
    for (const float value : done.slot_rows) missing_squares += (kAll - value) * (kAll - value);
    drifts_.push_back(std::sqrt(missing_squares / static_cast<double>(done.slot_rows.size())) /
                      kAll);
    for (uint32_t row = 0; row < rows_; ++row) {
      uint32_t everywhere = kAll;
      for (uint32_t column = 0; column < kColumns; ++column) {
        const float value = done.slot_rows[row * kColumns + column];
        ASSERT_TRUE(value >= 0 && value <= kAll && value == std::floor(value)) << value;
        const auto in = static_cast<uint32_t>(value);
        // A fragment is there or not.
        if (column % wire::kFragmentColumns != 0) {
          ASSERT_EQ(value, done.slot_rows[row * kColumns + column - 1]);
        }
        everywhere &= in;
      }
      const uint32_t missing = kAll & ~everywhere;
      for (uint32_t group = 0; group < kGroups; ++group)
        EXPECT_TRUE((missing >> group & 1) == 0 || lossy_groups_.contains(group)) << group;
      const auto count = static_cast<uint32_t>(__builtin_popcount(missing));
      EXPECT_EQ(done.lost.empty() ? 0 : done.lost.at(row), count);
      lost += count;
    }
    if (lost > 0) ++layers_with_losses_;
    if (--left_ > 0) time_.After(Milliseconds(1), [this] { Begin(); });
  }

  SeededRandom random_;
  HolderChannels channels_;
  std::map<uint32_t, std::optional<Instant>> due_;
  Instant began_;
  uint32_t statement_ = 0, rows_ = 1;
  int left_ = 0;
};

TEST(DispatcherLossy, NothingIsLostWhereNothingIsLost) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    World world(seed);
    world.Join(kSelf, {});
    world.Join(2, {.repeats = 0.3, .jitter = Microseconds(400)});
    // It computes for longer than anybody waits for a datagram.
    Device& slow = world.Join(3, {.jitter = Microseconds(400)});
    world.Tell();
    world.Pass(Milliseconds(50));
    world.Run(30, 1 + seed % 4);
    slow.computes = Milliseconds(15);
    world.Run(10);
    EXPECT_EQ(world.layers_with_losses_, 0u) << "seed " << seed;
    EXPECT_GT(world.devices_[2].datagrams, 20u);
    EXPECT_EQ(world.dispatcher_.losses().lost, 0u);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(DispatcherLossy, WhatIsLostIsMissingInItsColumnsAndCounted) {
  uint64_t layers = 0, with_losses = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    World world(seed);
    SeededRandom random(seed);
    world.Join(kSelf, {});
    for (uint32_t id = 2; id < 5; ++id)
      world.Join(id, {random.Uniform() * 0.2, random.Uniform() * 0.2,
                      Microseconds(static_cast<int64_t>(random.Below(3000))),
                      Microseconds(static_cast<int64_t>(random.Below(2000)))});
    world.Tell();
    world.Pass(Milliseconds(200));
    world.Run(40, 1 + seed % 3);
    layers += 40;
    with_losses += world.layers_with_losses_;
    // Not the 100 ms after which somebody is asked who answers nothing; all datagrams of a share
    // are lost less than once in a thousand.
    EXPECT_LT(world.longest_.us, 300'000);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(with_losses, layers / 10);
  EXPECT_LT(with_losses, layers);
}

TEST(DispatcherLossy, ALossIsNotWaitedFor) {
  World world(5);
  world.Join(kSelf, {});
  world.Join(2, {.loss = 0.3});
  world.Tell();
  world.Pass(Milliseconds(500));
  world.Run(60);
  world.longest_ = {};
  const uint64_t before = world.layers_with_losses_;
  world.Run(20);
  EXPECT_GT(world.layers_with_losses_, before);
  // 1 ms there, at most 6 ms of computing, 1 ms back, and at most the margin of a kSent that was
  // lost, too.
  EXPECT_LE(world.longest_.us, 8'000 + 40'000 + 1'000);
}

TEST(DispatcherLossy, WhoIsGoneIsAskedOfOthers) {
  World world(6);
  world.Join(kSelf, {});
  world.Join(2, {});
  Device& gone = world.Join(3, {});
  world.Tell();
  world.Pass(Milliseconds(50));
  world.Run(20);
  gone.is_gone = true;
  world.Run(20);
  world.Forget(3);
  world.Run(20);
  EXPECT_EQ(world.layers_with_losses_, 0u);
  EXPECT_GT(world.devices_[2].datagrams, 40u);
}

TEST(DispatcherLossy, WhereDatagramsDoNotGetThroughSumsAreReliable) {
  World world(7);
  world.Join(kSelf, {});
  Device& blocked = world.Join(2, {.is_blocked = true});
  world.Tell();
  world.Run(5);
  world.Pass(Milliseconds(1500));
  EXPECT_EQ(world.channels().StateOf(2), ChannelState::kBlocked);
  world.Run(20);
  EXPECT_EQ(world.layers_with_losses_, 0u);
  EXPECT_EQ(blocked.datagrams, 0u);
  EXPECT_GT(blocked.reliable, 20u);
  // It is tried again.
  blocked.line.is_blocked = false;
  world.Pass(HolderChannels::kRetry + Seconds(1));
  EXPECT_EQ(world.channels().StateOf(2), ChannelState::kReady);
  world.Run(5);
  EXPECT_GT(blocked.datagrams, 0u);
  // A line that breaks later costs three answers that come too late, and none that is wrong.
  blocked.line.is_blocked = true;
  for (int layer = 0; layer < 20; ++layer) {
    world.Pass(Seconds(1));  // or others are asked for a while
    world.Run(1);
  }
  EXPECT_EQ(world.layers_with_losses_, 0u);
  EXPECT_NE(world.channels().StateOf(2), ChannelState::kReady);
}

// A machine that is busy answers too late, and that is not what a network does that has no UDP.
TEST(DispatcherLossy, ALineThatFailedIsTriedSoonAndThenMoreAndMoreRarely) {
  World world(11);
  world.Join(kSelf, {});
  Device& busy = world.Join(2, {.is_blocked = true});
  world.Tell();
  world.Pass(Milliseconds(1500));
  EXPECT_EQ(world.channels().StateOf(2), ChannelState::kBlocked);
  busy.line.is_blocked = false;
  world.Pass(Milliseconds(1000));
  EXPECT_EQ(world.channels().StateOf(2), ChannelState::kReady);
  // What works for moments only is not asked for all the time.
  for (int moment = 0; moment < 4; ++moment) {
    world.channels().Doubt(world.time_.now(), 2);
    world.Pass(Milliseconds(100));
  }
  busy.line.is_blocked = true;
  world.channels().Doubt(world.time_.now(), 2);
  world.Pass(Milliseconds(1500));
  busy.line.is_blocked = false;
  world.Pass(Seconds(20));
  EXPECT_EQ(world.channels().StateOf(2), ChannelState::kBlocked);
  world.Pass(Seconds(10));
  EXPECT_EQ(world.channels().StateOf(2), ChannelState::kReady);
}

// A holder comes from an address of its own for each of the hub's, and answers one challenge.
TEST(HolderChannels, MessagesGoToAHolderThatReachesSeveralAddresses) {
  SeededRandom random(3);
  HolderChannels hub({{AddressOf(1), AddressOf(2), AddressOf(3)}, [&random](MutableByteSpan out) {
                        for (uint8_t& byte : out) byte = static_cast<uint8_t>(random.Next());
                      }});
  constexpr uint32_t kHolder = 7, kItsOwn = 100;
  hub.SetHolders(Instant{0}, {{kHolder, true}});
  const auto agreements = hub.TakeAgreements();
  ASSERT_EQ(agreements.size(), 1u);
  const wire::TensorChannel& agreed = agreements[0].second;
  HubChannel holder(Instant{0}, agreed);
  const auto tell_hub = [&] {
    for (const OutgoingDatagram& each : holder.TakeDatagrams())
      hub.OnDatagram(Instant{0}, AddressOf(kItsOwn + each.to.ip[15]), each.bytes);
  };
  tell_hub();  // all probes, before the first challenge is there
  const std::vector<OutgoingDatagram> challenges = hub.TakeDatagrams();
  EXPECT_EQ(challenges.size(), 3u);
  for (const OutgoingDatagram& each : challenges)
    holder.OnDatagram(Instant{0}, AddressOf(each.to.ip[15] - kItsOwn), each.bytes);
  tell_hub();
  hub.OnReady(Instant{0}, kHolder, {agreed.channel.key_epoch, true});
  EXPECT_TRUE(hub.HasRoomFor(kHolder, 4096));
  // Where nothing is heard any more the holder is asked at once: sums must not wait in vain.
  Instant now{1000};
  hub.Send(now, kHolder, std::vector<uint8_t>(100, 1));
  std::vector<uint32_t> broken;
  while (broken.empty()) {
    ASSERT_TRUE(hub.timer());
    now = std::max(now, *hub.timer());
    ASSERT_LT(now, Instant{10'000'000});
    hub.OnTimer(now);
    (void)hub.TakeDatagrams();  // they are lost
    broken = hub.TakeBroken(now);
  }
  EXPECT_EQ(broken, std::vector<uint32_t>{kHolder});
  EXPECT_EQ(hub.TakeAgreements().size(), 1u);
  EXPECT_EQ(hub.StateOf(kHolder), ChannelState::kAsked);
  EXPECT_FALSE(hub.HasRoomFor(kHolder, 1));
}

// A hub that allows a byte in a millisecond does not make the holder keep what it computes for it.
TEST(HubChannel, WhatThePaceHoldsUpHasABound) {
  wire::TensorChannel channel;
  channel.channel = {1, 1};
  channel.bytes_per_ms = 1;
  channel.addresses = {AddressOf(0)};
  HubChannel sender(Instant{0}, channel);
  wire::DatagramOpener up(channel.channel, channel.up);
  wire::DatagramSealer down(channel.channel, channel.down);
  sender.OnDatagram(Instant{0}, AddressOf(0),
                    down.Seal(wire::DatagramType::kChallenge, std::vector<uint8_t>(16)));
  ASSERT_TRUE(sender.is_ready());
  const std::vector<float> row(1024, 1.0f);
  wire::GroupSet groups(1);
  groups.Add(0);
  int sent = 0;
  for (; sender.HasRoomFor(1, row.size()); ++sent) {
    ASSERT_LT(sent, 100);
    sender.Send(Instant{0}, {1, 1, wire::kMlpBlock}, groups, row, row.size());
  }
  EXPECT_GT(sent, 16) << "what may go at once goes, and 64 KiB wait";
  EXPECT_TRUE(sender.HasRoomFor(0, 0));
  sender.OnTimer(Instant{0} + Seconds(30));
  EXPECT_TRUE(sender.HasRoomFor(1, row.size()));
}

TEST(DispatcherLossy, TooMuchLossIsReliableForAMinute) {
  World world(8, 0.02);
  world.Join(kSelf, {});
  Device& device = world.Join(2, {.loss = 0.3});
  world.Tell();
  world.Pass(Milliseconds(500));
  world.Run(100);
  EXPECT_EQ(world.dispatcher_.guard().falls(), 1u);
  EXPECT_GT(world.dispatcher_.guard().fell_at(), 0.02);
  const uint64_t datagrams = device.datagrams, losses = world.layers_with_losses_;
  world.Run(100);
  EXPECT_EQ(device.datagrams, datagrams);
  EXPECT_EQ(world.layers_with_losses_, losses);
  world.Pass(LossGuard::kReliable);
  world.Run(5);
  EXPECT_GT(device.datagrams, datagrams);
}

TEST(DispatcherLossy, TheLossiestLineHasTheLeastCriticalGroups) {
  World world(11);
  world.Join(kSelf, {});
  world.Join(2, {.loss = 0.2});
  world.Join(3, {.loss = 0.02});
  // Rising: group 11 is the most critical.
  const std::vector<float> norms = RisingNorms();
  world.dispatcher_.SetLosses(1, {{2, norms}, {3, norms}});
  world.Tell();
  world.Pass(Milliseconds(500));
  world.Run(600);
  ASSERT_GT(world.channels().LossOf(2), 0.1);
  ASSERT_LT(world.channels().LossOf(3), 0.1);
  // The groups of the lines are the least critical ones, whatever their number is.
  ASSERT_FALSE(world.lossy_groups_.empty());
  ASSERT_LT(world.lossy_groups_.size(), size_t{kGroups});
  EXPECT_EQ(*world.lossy_groups_.rbegin(), world.lossy_groups_.size() - 1);
}

TEST(DispatcherLossy, WhatIsPredictedForARowOutranksWhatIsUsual) {
  World world(11);
  world.Join(kSelf, {});
  world.Join(2, {.loss = 0.2});
  world.Join(3, {.loss = 0.02});
  // Usually group 11 is the most critical, in these rows group 0 is.
  const std::vector<float> norms = RisingNorms();
  world.dispatcher_.SetLosses(1, {{2, norms}, {3, norms}});
  world.predicted_.assign(norms.rbegin(), norms.rend());
  world.Tell();
  world.Pass(Milliseconds(500));
  world.Run(600);
  ASSERT_FALSE(world.lossy_groups_.empty());
  ASSERT_LT(world.lossy_groups_.size(), size_t{kGroups});
  EXPECT_EQ(*world.lossy_groups_.begin(), kGroups - world.lossy_groups_.size());
}

TEST(DispatcherLossy, TheMostCriticalGroupsAreNotLeftToLuck) {
  World world(11);
  world.Join(2, {.loss = 0.2});
  world.Join(3, {.loss = 0.2});
  const std::vector<float> norms = RisingNorms();
  world.dispatcher_.SetLosses(1, {{2, norms}, {3, norms}});
  world.Tell();
  world.Pass(Milliseconds(500));
  world.Run(300);
  EXPECT_EQ(world.sent_reliably_, (std::set<uint32_t>{9, 10, 11}));
  EXPECT_EQ(world.lossy_groups_.size(), size_t{9});
  // End() has seen that nothing but lossy_groups_ was missing.
  EXPECT_GT(world.layers_with_losses_, 100u);
}

TEST(DispatcherLossy, ACanaryLosesNothingAndTellsWhatTheOthersDo) {
  World world(11);
  world.Join(2, {.loss = 0.2});
  world.Join(3, {.loss = 0.2});
  world.Tell();
  world.Pass(Milliseconds(500));
  constexpr size_t kLayers = 61, kCanaries = 40;
  world.Run(kLayers * kCanaries);
  const LossStats& losses = world.dispatcher_.losses();
  EXPECT_EQ(losses.canaries, kCanaries);
  double of_others = 0;
  for (size_t layer = 0; layer < world.drifts_.size(); ++layer) {
    if (layer % kLayers == kLayers - 1) {
      EXPECT_EQ(world.drifts_[layer], 0) << layer;
    }
    of_others += world.drifts_[layer] / (kCanaries * (kLayers - 1));
  }
  EXPECT_GT(of_others, 0.1);
  EXPECT_NEAR(losses.drift, of_others, of_others / 3);
}

TEST(DispatcherLossy, TheFirstLayerLosesNothing) {
  World world(11);
  world.Join(2, {.loss = 0.2});
  world.Join(3, {.loss = 0.2});
  const std::vector<float> norms(kGroups, 1.0f);
  world.dispatcher_.SetLosses(1, {{3, norms}, {4, norms}});
  world.Tell();
  world.Pass(Milliseconds(500));
  world.Run(300);
  EXPECT_TRUE(world.lossy_groups_.empty());
  EXPECT_EQ(world.layers_with_losses_, 0u);
}

TEST(DispatcherLossy, FragmentsThatWereNotAskedForAreCountedAndNotComputedWith) {
  World world(10);
  world.Join(kSelf, {});
  Device& device = world.Join(2, {});
  world.Tell();
  world.Pass(Milliseconds(50));
  world.Run(3);
  device.is_gone = true;  // what it says is said here
  bool said = false;
  size_t aside = 0;
  world.time_.After(Milliseconds(5), [&] {
    said = true;
    wire::GroupSet everything(kGroups);
    for (uint32_t group = 0; group < kGroups; ++group) everything.Add(group);
    const std::vector<float> row(kColumns, 1e6f);
    // The fourth layer is the first that is not over.
    for (const uint32_t step : {3u, 9u, 4u})
      for (const auto& body : wire::SumsBodies({step, 3, wire::kMlpBlock}, 0, everything, row))
        aside += world.dispatcher_.OnSums(world.time_.now(), 2, body).put_aside.size();
    world.Forget(2);
  });
  world.Run(1);
  ASSERT_TRUE(said);
  const LossStats& stats = world.dispatcher_.losses();
  EXPECT_EQ(stats.fragments[static_cast<size_t>(wire::SumsOutcome::kNotAsked)], kFragments);
  EXPECT_EQ(stats.fragments[static_cast<size_t>(wire::SumsOutcome::kElsewhere)], 2 * kFragments);
  EXPECT_EQ(world.layers_with_losses_, 0u);
  EXPECT_EQ(aside, 1u) << "it was asked no more after three of them";
}

}  // namespace
}  // namespace weft::dispatch
