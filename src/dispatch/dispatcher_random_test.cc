// The dispatcher among holders that come, go, lose, delay and forge messages, on a virtual clock:
// whatever happens, every layer ends with exactly the right rows.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/random.h"
#include "dispatch/dispatcher.h"
#include "dispatch/virtual_time_testing.h"

namespace weft::dispatch {
namespace {

constexpr uint32_t kLayers = 12, kExperts = 12;
constexpr uint16_t kHidden = 4;
constexpr uint32_t kMostTokens = 6, kMostTopK = 4;

enum class Kind { kHonest, kStalling, kRepeats, kForges, kNotFinite, kTruncates, kCannot };

// What an expert makes of a number: small whole numbers, so that equality is exact.
float Computed(float value, uint32_t layer, uint32_t expert) {
  return value * static_cast<float>(expert + 1) + static_cast<float>(layer);
}

struct Counts {
  uint64_t layers = 0, lost = 0, forged = 0, missing = 0, put_aside = 0, joined = 0, left = 0,
           sums = 0, in_steps = 0;
};

constexpr float kStep = 0.5f;  // of the grid on which all of these numbers lie

class World {
 public:
  // With `sums` every layer wants the sums of all experts.
  World(uint64_t seed, Counts& counts, bool sums = false)
      : random_(seed), counts_(counts), sums_(sums), dispatcher_(SomeOptions()) {
    for (int i = 0; i < 4; ++i) Join(static_cast<Kind>(random_.Below(7)));
    Tell();
    for (uint32_t batch = 0; batch < 2; ++batch) time_.After({}, [this, batch] { Begin(batch); });
    time_.After(Milliseconds(100), [this] { Churn(); });
    time_.After(Milliseconds(150), [this] { Beat(); });
  }

  void Run() {
    int events = 0;
    while (done_[0] < kLayers || done_[1] < kLayers) {
      ASSERT_TRUE(time_.RunNext());
      ASSERT_LT(++events, 200'000) << "no end after " << time_.now().us << " us";
      ASSERT_LE(dispatcher_.HeldBytes(), MostBytes());
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(dispatcher_.HeldBytes(), 0u);
  }

 private:
  struct Member {
    Kind kind = Kind::kHonest;
    std::set<uint16_t> experts;  // of every layer
  };

  Options SomeOptions() {
    Options options;
    options.adaptive = random_.Below(2) == 0;
    options.copies = 1 + static_cast<uint32_t>(random_.Below(4));
    options.copy_time = random_.Below(2) == 0 ? CopyTime::kAtOnce : CopyTime::kWhenLate;
    return options;
  }
  // Rows as sent, once for each slot, and the slots' rows, of two batches.
  size_t MostBytes() const {
    return 2 * 2 * kMostTokens * (sums_ ? 1 : kMostTopK) * kHidden * sizeof(float);
  }

  void Join(Kind kind) {
    Member& member = members_[++last_id_];
    member.kind = kind;
    for (uint16_t expert = 0; expert < kExperts; ++expert) {
      if (random_.Below(2) == 0) member.experts.insert(expert);
    }
    ++counts_.joined;
  }

  void Tell() {
    std::vector<Holder> holders;
    for (const auto& [id, member] : members_) {
      Holder holder{id, {}, SendsSteps(id)};
      for (uint16_t layer = 0; layer < kLayers; ++layer) {
        for (const uint16_t expert : member.experts) holder.experts.emplace_back(layer, expert);
      }
      holders.push_back(std::move(holder));
    }
    Do(dispatcher_.SetHolders(time_.now(), ++statement_, std::move(holders)));
  }

  void Churn() {
    const uint64_t what = random_.Below(3);
    if (what == 0 && members_.size() > 1) {
      auto member = members_.begin();
      std::advance(member, static_cast<std::ptrdiff_t>(random_.Below(members_.size())));
      members_.erase(member);
      ++counts_.left;
      Tell();
    } else if (what == 1 && members_.size() < 8) {
      Join(static_cast<Kind>(random_.Below(7)));
      Tell();
    }
    time_.After(Milliseconds(20 + static_cast<int64_t>(random_.Below(300))), [this] { Churn(); });
  }

  void Beat() {
    for (const auto& [id, member] : members_) {
      wire::Heartbeat beat;
      beat.waiting = static_cast<uint32_t>(random_.Below(5));
      beat.compute_us = static_cast<uint32_t>(random_.Below(10'000));
      if (member.kind != Kind::kStalling) Do(dispatcher_.OnHeartbeat(time_.now(), id, beat));
    }
    time_.After(Milliseconds(250), [this] { Beat(); });
  }

  static bool SendsSteps(uint32_t id) { return id % 2 == 0; }

  void Begin(uint32_t batch) {
    top_k_[batch] = sums_ ? kExperts : 1 + static_cast<uint32_t>(random_.Below(kMostTopK));
    const size_t tokens = 1 + random_.Below(kMostTokens);
    rows_[batch].clear();
    experts_[batch].clear();
    for (size_t i = 0; i < tokens * kHidden; ++i)
      rows_[batch].push_back(static_cast<float>(random_.Below(1000)));
    for (size_t row = 0; row < tokens; ++row) {
      std::set<uint32_t> chosen;
      while (chosen.size() < top_k_[batch])
        chosen.insert(static_cast<uint32_t>(random_.Below(kExperts)));
      experts_[batch].insert(experts_[batch].end(), chosen.begin(), chosen.end());
    }
    LayerWork work{static_cast<uint16_t>(done_[batch]),
                   top_k_[batch],
                   kHidden,
                   rows_[batch],
                   experts_[batch],
                   sums_ ? SlotKind::kSums : SlotKind::kExperts};
    work.slot_step = kStep;
    Do(dispatcher_.Begin(time_.now(), batch, work));
  }

  void Do(const Actions& actions) {
    for (const PutAside& aside : actions.put_aside) {
      ++counts_.put_aside;
      EXPECT_NE(members_[aside.holder].kind, Kind::kHonest) << aside.sentence;
      aside_.insert(aside.holder);
    }
    for (const Send& send : actions.sends) {
      EXPECT_FALSE(aside_.contains(send.holder)) << "asked after it was put aside";
      OnSend(send);
    }
    for (const Missing& missing : actions.missing) {
      ++counts_.missing;
      EXPECT_FALSE(missing.experts.empty());
      // The orchestrator finds somebody, some time later.
      time_.After(Milliseconds(30), [this] {
        Join(Kind::kHonest);
        for (uint16_t expert = 0; expert < kExperts; ++expert)
          members_[last_id_].experts.insert(expert);
        Tell();
      });
    }
    for (const Done& done : actions.done) OnDone(done);
    if (actions.timer) {
      const uint64_t number = ++timers_;
      time_.At(std::max(*actions.timer, time_.now()), [this, number] {
        if (number == timers_) Do(dispatcher_.OnTimer(time_.now()));
      });
    } else {
      ++timers_;
    }
  }

  void OnDone(const Done& done) {
    ASSERT_EQ(done.layer, done_[done.batch]) << "a layer ended twice, or another one did";
    if (sums_) {
      ExpectSums(done);
    } else {
      ExpectSlots(done);
    }
    ++counts_.layers;
    if (++done_[done.batch] < kLayers)
      time_.After(Milliseconds(1), [this, batch = done.batch] { Begin(batch); });
  }

  void ExpectSums(const Done& done) {
    const std::vector<float>& rows = rows_[done.batch];
    ASSERT_EQ(done.slot_rows.size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      float sum = 0;
      for (uint32_t expert = 0; expert < kExperts; ++expert)
        sum += Computed(rows[i], done.layer, expert);
      ASSERT_EQ(done.slot_rows[i], sum);
    }
  }

  void ExpectSlots(const Done& done) {
    const auto& experts = experts_[done.batch];
    ASSERT_EQ(done.slot_rows.size(), experts.size() * kHidden);
    for (size_t slot = 0; slot < experts.size(); ++slot) {
      for (size_t c = 0; c < kHidden; ++c)
        ASSERT_EQ(done.slot_rows[slot * kHidden + c],
                  Computed(rows_[done.batch][slot / top_k_[done.batch] * kHidden + c], done.layer,
                           experts[slot]));
    }
  }

  // Over the wire's own bytes, so that what is not sent twice is understood too.
  void OnSend(const Send& send) {
    std::vector<uint8_t> bytes;
    for (const Slice& piece : wire::EncodeShardMessage(send.holder, send.frames))
      bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
    const auto message = wire::DecodeShardMessage(Slice(std::move(bytes)));
    ASSERT_TRUE(message.ok()) << message.error().message();
    const auto member = members_.find(send.holder);
    if (member == members_.end()) return;
    if (random_.Below(20) == 0) {
      ++counts_.lost;
      return;
    }
    std::vector<wire::ExpertFrame> together;  // that are answered in one
    for (const wire::ExpertFrame& frame : message->frames) {
      if (frame.type != wire::ExpertFrameType::kDispatch) continue;
      ASSERT_TRUE(member->second.experts.contains(frame.expert)) << "it does not hold it";
      ASSERT_EQ(frame.may_sum, sums_);
      ASSERT_EQ(frame.takes_steps, sums_ && SendsSteps(send.holder));
      const bool ends = !together.empty() &&
                        (!sums_ || together[0].sequence != frame.sequence || random_.Below(6) == 0);
      if (ends) Answer(send.holder, member->second.kind, std::exchange(together, {}));
      together.push_back(frame);
    }
    if (!together.empty()) Answer(send.holder, member->second.kind, together);
  }

  void Answer(uint32_t id, Kind kind, const std::vector<wire::ExpertFrame>& dispatches) {
    if (random_.Below(30) == 0) {
      ++counts_.lost;
      return;
    }
    if (kind == Kind::kStalling && random_.Below(3) != 0) return;
    const wire::ExpertFrame& dispatch = dispatches.front();
    std::vector<float> rows(size_t{dispatch.tokens} * kHidden);
    for (const wire::ExpertFrame& each : dispatches)
      for (size_t i = 0; i < rows.size(); ++i)
        rows[i] +=
            Computed(LoadLe<float>(each.rows.bytes().data() + 4 * i), each.layer, each.expert);
    wire::ExpertFrame result = dispatch;
    result.type = wire::ExpertFrameType::kResult;
    result.same_rows = result.may_sum = false;
    for (size_t i = 1; i < dispatches.size(); ++i) result.added.push_back(dispatches[i].expert);
    if (!result.added.empty()) ++counts_.sums;
    const bool is_bad = random_.Below(4) == 0;
    if (is_bad && kind == Kind::kForges) {
      const uint64_t field = random_.Below(3);
      if (field == 0) result.sequence += 1 + static_cast<uint32_t>(random_.Below(1000));
      uint16_t& expert = result.added.empty() ? result.expert : result.added.back();
      if (field == 1) expert = static_cast<uint16_t>(expert + kExperts);
      if (field == 2) result.layer = static_cast<uint16_t>(result.layer + 1);
    }
    if (is_bad && kind == Kind::kNotFinite) rows[random_.Below(rows.size())] = INFINITY;
    if (is_bad && kind == Kind::kTruncates) rows.pop_back();
    if (is_bad) ++counts_.forged;
    const ByteSpan bytes = AsBytes(std::span<const float>(rows));
    result.rows = Slice(std::vector<uint8_t>(bytes.begin(), bytes.end()));
    if (dispatch.takes_steps)
      if (auto steps = wire::StepsOf(result.rows, kStep)) {
        result.rows = *std::move(steps);
        result.row_type = wire::RowType::kSteps;
        ++counts_.in_steps;
      }
    if (is_bad && kind == Kind::kCannot) result = wire::FailedResult(dispatch, "It was dropped.");
    const int times = is_bad && kind == Kind::kRepeats ? 2 : 1;
    for (int i = 0; i < times; ++i) {
      // A few ms, a fraction of them much later than any timeout.
      int64_t ms = 1 + static_cast<int64_t>(random_.Below(20));
      if (random_.Below(25) == 0) ms += static_cast<int64_t>(random_.Below(2000));
      time_.After(Milliseconds(ms), [this, id, result] {
        if (members_.contains(id)) Do(dispatcher_.OnResult(time_.now(), id, result));
      });
    }
  }

  SeededRandom random_;
  Counts& counts_;
  const bool sums_;
  Dispatcher dispatcher_;
  VirtualTime time_;
  std::map<uint32_t, Member> members_;
  std::set<uint32_t> aside_;
  uint32_t last_id_ = 0, statement_ = 0;
  uint64_t timers_ = 0;
  std::array<std::vector<float>, 2> rows_;
  std::array<std::vector<uint32_t>, 2> experts_;
  std::array<uint32_t, 2> top_k_{}, done_{};
};

TEST(DispatcherRandom, NoTokenIsLostInAThousandSeedsOfChurn) {
  Counts counts;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    World(seed, counts).Run();
    if (HasFailure()) return;
  }
  EXPECT_EQ(counts.layers, 1000u * 2 * kLayers);
  // The seeds are worth something only if they reach what they are about.
  EXPECT_GT(counts.lost, 1000u);
  EXPECT_GT(counts.forged, 1000u);
  EXPECT_GT(counts.missing, 300u);
  EXPECT_GT(counts.put_aside, 100u);
  EXPECT_GT(counts.left, 300u);
}

// Sums with experts in them that are there already, from holders that were late, are the point.
TEST(DispatcherRandom, SumsHaveEveryExpertOnceInAThousandSeedsOfChurn) {
  Counts counts;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    World(seed, counts, true).Run();
    if (HasFailure()) return;
  }
  EXPECT_EQ(counts.layers, 1000u * 2 * kLayers);
  EXPECT_GT(counts.sums, 10'000u);
  EXPECT_GT(counts.in_steps, 10'000u);
  EXPECT_GT(counts.lost, 1000u);
  EXPECT_GT(counts.forged, 1000u);
  EXPECT_GT(counts.missing, 300u);
  EXPECT_GT(counts.put_aside, 100u);
}

}  // namespace
}  // namespace weft::dispatch
