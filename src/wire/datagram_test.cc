// Datagrams over a line that loses, repeats, reorders, changes and invents them; and what a hub
// counts of them.
#include "wire/datagram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <string>

#include "base/random.h"
#include "wire/group_sums.h"

namespace weft::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr DatagramChannel kChannel = {7, 3};

AeadKey Key(uint8_t first) {
  AeadKey key{};
  key[0] = first;
  return key;
}

std::vector<uint8_t> Body(SeededRandom& random) {
  std::vector<uint8_t> body(random.Below(kMaxDatagramBodyBytes + 1));
  for (uint8_t& byte : body) byte = static_cast<uint8_t>(random.Next());
  return body;
}

TEST(Datagram, IsLaidOutAsTheHeaderSays) {
  DatagramSealer sealer(kChannel, Key(1));
  (void)sealer.Seal(DatagramType::kProbe, {});
  const std::vector<uint8_t> datagram =
      sealer.Seal(DatagramType::kSums, std::vector<uint8_t>{1, 2, 3});
  ASSERT_EQ(datagram.size(), 16u + 3 + 16);
  EXPECT_THAT(std::vector<uint8_t>(datagram.begin(), datagram.begin() + 16),
              ElementsAre(1, 5, 7, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0));
}

TEST(Datagram, FaultsAreCountedByTheirReason) {
  DatagramSealer sealer(kChannel, Key(1));
  DatagramOpener opener(kChannel, Key(1));
  const std::vector<uint8_t> good = sealer.Seal(DatagramType::kPacket, std::vector<uint8_t>(40, 9));
  const auto expect = [&](DatagramFault fault, const std::vector<uint8_t>& datagram) {
    const uint64_t before = opener.faults(fault);
    EXPECT_FALSE(opener.Open(datagram)) << DatagramFaultName(fault);
    EXPECT_EQ(opener.faults(fault), before + 1) << DatagramFaultName(fault);
  };
  const auto with = [&](size_t at, uint8_t value) {
    std::vector<uint8_t> changed = good;
    changed[at] = value;
    return changed;
  };
  expect(DatagramFault::kTruncated, {});
  expect(DatagramFault::kTruncated, {good.begin(), good.begin() + 31});
  expect(DatagramFault::kOversized, std::vector<uint8_t>(kMaxDatagramBytes + 1, 1));
  expect(DatagramFault::kVersion, with(0, 2));
  expect(DatagramFault::kType, with(1, 0));
  expect(DatagramFault::kType, with(1, 9));
  expect(DatagramFault::kChannel, with(2, 8));
  expect(DatagramFault::kKeyEpoch, with(4, 2));
  expect(DatagramFault::kForged, with(1, 5));     // another type: the header is authenticated
  expect(DatagramFault::kForged, with(8, 2));     // another sequence
  expect(DatagramFault::kForged, with(20, 200));  // another body
  expect(DatagramFault::kForged, {good.begin(), good.end() - 1});
  DatagramSealer other(kChannel, Key(2));
  expect(DatagramFault::kForged, other.Seal(DatagramType::kPacket, {}));
  const auto opened = opener.Open(good);
  ASSERT_TRUE(opened) << "no forgery of its sequence kept the right one out";
  EXPECT_EQ(opened->type, DatagramType::kPacket);
  EXPECT_EQ(opened->body, std::vector<uint8_t>(40, 9));
  expect(DatagramFault::kReplayed, good);
  for (uint64_t i = 0; i < ReplayWindow::kBits; ++i) {
    EXPECT_TRUE(opener.Open(sealer.Seal(DatagramType::kPacket, {})));
  }
  expect(DatagramFault::kLate, good);
  EXPECT_EQ(opener.accepted(), 1 + ReplayWindow::kBits);
}

TEST(Datagram, TheWindowAcceptsEachSequenceOnce) {
  // The oracle remembers everything.
  SeededRandom random(3);
  for (int trial = 0; trial < 200; ++trial) {
    ReplayWindow window;
    std::set<uint64_t> accepted;
    uint64_t highest = 0, base = 1;
    for (int i = 0; i < 500; ++i) {
      base += random.Below(40) == 0 ? random.Below(3000) : random.Below(3);
      const uint64_t sequence = base - std::min(base - 1, random.Below(1500));
      std::optional<DatagramFault> expected;
      if (sequence + ReplayWindow::kBits <= highest) {
        expected = DatagramFault::kLate;
      } else if (accepted.contains(sequence)) {
        expected = DatagramFault::kReplayed;
      }
      ASSERT_EQ(window.Refusal(sequence), expected) << "trial " << trial << ", " << sequence;
      if (expected) continue;
      window.Accept(sequence);
      accepted.insert(sequence);
      highest = std::max(highest, sequence);
    }
  }
}

TEST(Datagram, ABadLineDeliversEachAtMostOnceAndUnchanged) {
  SeededRandom random(4);
  uint64_t delivered = 0, forged = 0, replayed = 0;
  for (int trial = 0; trial < 50; ++trial) {
    DatagramSealer sealer(kChannel, Key(1));
    DatagramOpener opener(kChannel, Key(1));
    std::map<uint64_t, std::vector<uint8_t>> sent;
    std::vector<std::vector<uint8_t>> line;
    std::set<uint64_t> got, untouched;
    const auto deliver_one = [&] {
      const size_t at = random.Below(line.size());  // reordered
      const std::vector<uint8_t> datagram = line[at];
      line.erase(line.begin() + static_cast<ptrdiff_t>(at));
      const auto opened = opener.Open(datagram);
      if (!opened) return;
      EXPECT_TRUE(got.insert(opened->sequence).second) << "twice";
      EXPECT_EQ(opened->body, sent.at(opened->sequence)) << "changed";
    };
    for (uint64_t sequence = 1; sequence <= 300; ++sequence) {
      sent[sequence] = Body(random);
      std::vector<uint8_t> datagram = sealer.Seal(DatagramType::kSums, sent[sequence]);
      const uint64_t fate = random.Below(10);
      if (fate == 0) continue;  // lost
      if (fate == 1) line.push_back(datagram);
      if (fate == 2) {
        std::vector<uint8_t> changed = datagram;
        changed[random.Below(changed.size())] ^= static_cast<uint8_t>(1 + random.Below(255));
        line.push_back(changed);
      }
      if (fate == 3)
        line.emplace_back(datagram.begin(),
                          datagram.begin() + static_cast<ptrdiff_t>(random.Below(datagram.size())));
      untouched.insert(sequence);
      line.push_back(std::move(datagram));
      while (line.size() > 20) deliver_one();
    }
    while (!line.empty()) deliver_one();
    EXPECT_EQ(got, untouched) << "what arrived whole was accepted, whatever came beside it";
    delivered += opener.accepted();
    forged += opener.faults(DatagramFault::kForged);
    replayed += opener.faults(DatagramFault::kReplayed);
  }
  EXPECT_GT(delivered, 10'000u);
  EXPECT_GT(forged, 500u);
  EXPECT_GT(replayed, 500u);
}

TEST(AddressProof, SendsRowsOnlyWhereAChallengeWasAnswered) {
  using Proof = AddressProof<std::string>;
  const Proof::Challenge first = {1, 2, 3}, second = {4, 5, 6};
  Proof proof;
  EXPECT_FALSE(proof.proven());
  EXPECT_EQ(proof.OnDatagram("device", first), first);
  EXPECT_EQ(proof.OnDatagram("device", second), first) << "asked again: the answer is under way";
  EXPECT_FALSE(proof.OnProof("victim", first)) << "it was asked elsewhere";
  EXPECT_FALSE(proof.OnProof("device", second));
  EXPECT_FALSE(proof.OnProof("device", ByteSpan(first).first(7)));
  EXPECT_FALSE(proof.proven());
  EXPECT_TRUE(proof.OnProof("device", first));
  EXPECT_EQ(proof.proven(), "device");
  EXPECT_EQ(proof.OnDatagram("device", second), std::nullopt);
  // Somebody sends a caught datagram on from the victim's address.
  EXPECT_EQ(proof.OnDatagram("victim", second), second);
  EXPECT_EQ(proof.proven(), "device") << "rows still go where they are read";
  // The device has moved.
  EXPECT_EQ(proof.OnDatagram("elsewhere", first), first);
  EXPECT_FALSE(proof.OnProof("victim", first)) << "it was asked something else";
  EXPECT_TRUE(proof.OnProof("elsewhere", first));
  EXPECT_EQ(proof.proven(), "elsewhere");

  // Behind two lines at once, it answers what it heard first.
  EXPECT_EQ(proof.OnDatagram("one line", first), first);
  EXPECT_EQ(proof.OnDatagram("the other", second), second);
  EXPECT_EQ(proof.asked().size(), 2u);
  EXPECT_FALSE(proof.OnProof("one line", second));
  EXPECT_TRUE(proof.OnProof("one line", first));
  EXPECT_TRUE(proof.asked().empty());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(proof.OnDatagram(std::to_string(i), second), second);
  EXPECT_EQ(proof.asked().size(), Proof::kMostAsked);
  EXPECT_FALSE(proof.OnProof("0", second)) << "too long ago";
  EXPECT_TRUE(proof.OnProof("99", second));

  DatagramSealer sealer(kChannel, Key(1));
  EXPECT_EQ(sealer.Seal(DatagramType::kChallenge, first).size(),
            sealer.Seal(DatagramType::kProbe, std::vector<uint8_t>(kProbeBodyBytes)).size())
      << "a challenge must not be longer than what asks for it";
}

// A device's share of a block, on a grid, so that sums are exact.
constexpr SumsOf kOf = {41, 5, 1};
constexpr uint32_t kPacket = 2, kColumns = 600, kGroups = 12;

struct Share {
  GroupSet groups{kGroups};
  std::vector<std::vector<uint8_t>> bodies;
};

// Groups are dealt to devices; their sums as bodies.
std::vector<Share> Deal(SeededRandom& random, size_t devices, std::vector<float>* sum) {
  std::vector<Share> shares(devices);
  sum->assign(size_t{kPacket} * kColumns, 0);
  std::vector<std::vector<float>> values(devices, *sum);
  for (uint32_t group = 0; group < kGroups; ++group) {
    const size_t device = group < devices ? group : random.Below(devices);
    shares[device].groups.Add(group);
    for (size_t i = 0; i < sum->size(); ++i) {
      const float value = static_cast<float>(random.Below(2001)) * 0x1p-10f - 1;
      values[device][i] += value;
      (*sum)[i] += value;
    }
  }
  for (size_t device = 0; device < devices; ++device) {
    for (uint32_t row = 0; row < kPacket; ++row) {
      for (auto& body : SumsBodies(kOf, static_cast<uint16_t>(row), shares[device].groups,
                                   std::span(values[device]).subspan(row * kColumns, kColumns)))
        shares[device].bodies.push_back(std::move(body));
    }
  }
  return shares;
}

TEST(GroupSums, AreTheSameInAnyOrderAndCountEachGroupOnce) {
  SeededRandom random(5);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<float> sum;
    const std::vector<Share> shares = Deal(random, 1 + random.Below(5), &sum);
    std::vector<std::pair<size_t, size_t>> order;
    for (size_t d = 0; d < shares.size(); ++d)
      for (size_t b = 0; b < shares[d].bodies.size(); ++b) order.insert(order.end(), 2, {d, b});
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
    GroupSums sums(kOf, kPacket, kColumns, kGroups);
    size_t counted = 0, repeated = 0;
    for (const auto& [device, body] : order) {
      const SumsOutcome outcome = sums.Add(shares[device].bodies[body], shares[device].groups);
      counted += outcome == SumsOutcome::kCounted;
      repeated += outcome == SumsOutcome::kRepeated;
    }
    EXPECT_EQ(counted, order.size() / 2);
    EXPECT_EQ(repeated, order.size() / 2);
    EXPECT_TRUE(sums.complete());
    EXPECT_TRUE(std::ranges::equal(sums.values(), sum));
    EXPECT_THAT(sums.MissingGroups(0), IsEmpty());
  }
}

TEST(GroupSums, ALostFragmentIsMissingInItsColumnsOnly) {
  SeededRandom random(6);
  std::vector<float> sum;
  const std::vector<Share> shares = Deal(random, 3, &sum);
  GroupSums sums(kOf, kPacket, kColumns, kGroups);
  // Of the second device's second row the middle fragment (columns 256 to 511) is lost.
  for (size_t d = 0; d < shares.size(); ++d) {
    ASSERT_EQ(shares[d].bodies.size(), 6u);
    for (size_t b = 0; b < 6; ++b) {
      if (d == 1 && b == 4) continue;
      EXPECT_EQ(sums.Add(shares[d].bodies[b], shares[d].groups), SumsOutcome::kCounted);
    }
  }
  EXPECT_FALSE(sums.complete());
  EXPECT_EQ(sums.missing(), shares[1].groups.Count());
  EXPECT_EQ(sums.pairs(), 2u * 3 * 12);
  EXPECT_THAT(sums.MissingGroups(0), IsEmpty());
  EXPECT_EQ(sums.MissingGroups(1).size(), shares[1].groups.Count());
  for (size_t i = 0; i < sum.size(); ++i) {
    const bool is_lost = i >= kColumns + 256 && i < kColumns + 512;
    if (is_lost) continue;
    EXPECT_EQ(sums.values()[i], sum[i]) << i;
  }
}

TEST(GroupSums, WhatWasNotAskedForIsNotCounted) {
  GroupSet asked(kGroups), groups(kGroups);
  for (uint32_t group : {1u, 4u, 11u}) asked.Add(group);
  groups.Add(4);
  const std::vector<float> values(kColumns, 1.0f);
  const std::vector<uint8_t> good = SumsBodies(kOf, 0, groups, values)[0];
  GroupSums sums(kOf, kPacket, kColumns, kGroups);
  const auto with = [&](size_t at, uint8_t value) {
    std::vector<uint8_t> changed = good;
    changed[at] = value;
    return sums.Add(changed, asked);
  };
  EXPECT_EQ(with(0, 40), SumsOutcome::kElsewhere) << "another step";
  EXPECT_EQ(with(4, 6), SumsOutcome::kElsewhere) << "another layer";
  EXPECT_EQ(with(6, 0), SumsOutcome::kElsewhere) << "another block";
  EXPECT_EQ(with(7, 1), SumsOutcome::kMalformed);
  EXPECT_EQ(with(8, 2), SumsOutcome::kNotAsked) << "row 2 of 2";
  EXPECT_EQ(with(10, 3), SumsOutcome::kNotAsked) << "fragment 3 of 3";
  EXPECT_EQ(with(10, 2), SumsOutcome::kMalformed) << "the last fragment is shorter";
  EXPECT_EQ(with(12, 3), SumsOutcome::kMalformed);
  EXPECT_EQ(with(14, 1), SumsOutcome::kMalformed);
  EXPECT_EQ(with(16, 0x11), SumsOutcome::kNotAsked) << "group 0 was not asked for";
  EXPECT_EQ(with(16, 0), SumsOutcome::kMalformed) << "no group";
  EXPECT_EQ(with(17, 0x10), SumsOutcome::kMalformed) << "group 12 of 12";
  EXPECT_EQ(with(21, 0x40), SumsOutcome::kCounted) << "4 instead of 1: only the tag can tell";
  EXPECT_EQ(sums.Add(good, asked), SumsOutcome::kRepeated);
  GroupSums fresh(kOf, kPacket, kColumns, kGroups);
  std::vector<uint8_t> infinite = good;
  StoreLe(infinite.data() + 18, uint32_t{0x7f800000});
  EXPECT_EQ(fresh.Add(infinite, asked), SumsOutcome::kMalformed);
  EXPECT_EQ(fresh.Add(ByteSpan(good).first(15), asked), SumsOutcome::kMalformed);
  EXPECT_EQ(fresh.Add(ByteSpan(good).first(good.size() - 4), asked), SumsOutcome::kMalformed);
  EXPECT_EQ(fresh.missing(), fresh.pairs());
  EXPECT_TRUE(std::ranges::all_of(fresh.values(), [](float value) { return value == 0; }));
}

TEST(GroupSums, NoMoreThanSoManyGroupsCanAddUpToIsCounted) {
  GroupSet asked(kGroups), one(kGroups), two(kGroups);
  for (uint32_t group : {1u, 4u, 11u}) asked.Add(group);
  one.Add(4);
  for (uint32_t group : {1u, 11u}) two.Add(group);
  const auto body = [](const GroupSet& groups, float value) {
    return SumsBodies(kOf, 0, groups, std::vector<float>(kColumns, value))[0];
  };
  GroupSums sums(kOf, kPacket, kColumns, kGroups, 1.5f);
  EXPECT_EQ(sums.Add(body(one, 1.75f), asked), SumsOutcome::kMalformed);
  EXPECT_EQ(sums.Add(body(two, -3.25f), asked), SumsOutcome::kMalformed);
  EXPECT_EQ(sums.Add(body(two, std::numeric_limits<float>::quiet_NaN()), asked),
            SumsOutcome::kMalformed);
  EXPECT_EQ(sums.missing(), sums.pairs());
  EXPECT_EQ(sums.Add(body(one, 1.5f), asked), SumsOutcome::kCounted);
  EXPECT_EQ(sums.Add(body(two, -3), asked), SumsOutcome::kCounted);
}

}  // namespace
}  // namespace weft::wire
