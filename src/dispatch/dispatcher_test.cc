// The dispatcher's rules one at a time: events in, actions out.
#include "dispatch/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace weft::dispatch {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr uint16_t kLayer = 3;
constexpr uint16_t kHidden = 2;
constexpr Instant kStart = {1'000'000};

Instant At(int64_t ms) {
  return kStart + Milliseconds(ms);
}

Options Fixed(uint32_t copies, CopyTime time) {
  Options options;
  options.adaptive = false;
  options.copies = copies;
  options.copy_time = time;
  return options;
}

std::vector<Holder> HoldersOf(std::vector<std::pair<uint32_t, std::vector<uint16_t>>> held) {
  std::vector<Holder> holders;
  for (const auto& [id, experts] : held) {
    Holder holder{id, {}};
    for (const uint16_t expert : experts) holder.experts.emplace_back(kLayer, expert);
    holders.push_back(holder);
  }
  return holders;
}

// One token whose route is `experts`.
Actions BeginToken(Dispatcher& dispatcher, Instant now, const std::vector<uint32_t>& experts,
                   uint32_t batch = 0) {
  const std::vector<float> row = {1.5f, -2.0f};
  return dispatcher.Begin(now, batch,
                          {kLayer, static_cast<uint32_t>(experts.size()), kHidden, row, experts});
}

wire::ExpertFrame Answer(const wire::ExpertFrame& dispatch, std::vector<float> rows) {
  wire::ExpertFrame frame = dispatch;
  frame.type = wire::ExpertFrameType::kResult;
  frame.same_rows = false;
  const ByteSpan bytes = AsBytes(std::span<const float>(rows));
  frame.rows = Slice(std::vector<uint8_t>(bytes.begin(), bytes.end()));
  return frame;
}

// The frames of the only message to `holder`; none where there is no message.
std::vector<wire::ExpertFrame> To(const Actions& actions, uint32_t holder) {
  std::vector<wire::ExpertFrame> frames;
  for (const Send& send : actions.sends) {
    if (send.holder != holder) continue;
    EXPECT_TRUE(frames.empty()) << "two messages to one holder";
    frames = send.frames;
  }
  return frames;
}

TEST(Dispatcher, ACountOfCopiesCanBeFixedAndGivenFree) {
  Dispatcher dispatcher(Fixed(1, CopyTime::kAtOnce));
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{7, {1}}, {8, {1}}, {9, {1}}}));
  dispatcher.FixCopies(2);
  EXPECT_THAT(BeginToken(dispatcher, kStart, {1}).sends, SizeIs(2));
  (void)dispatcher.Abandon(kStart, 0);
  dispatcher.FixCopies(0);
  EXPECT_THAT(BeginToken(dispatcher, kStart, {1}).sends, SizeIs(1));
}

TEST(Dispatcher, RowsOfExpertsMayTravelInF16) {
  Dispatcher dispatcher(Fixed(1, CopyTime::kAtOnce));
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{7, {1}}}));
  dispatcher.SetRowType(wire::RowType::kF16);
  const wire::ExpertFrame asked = To(BeginToken(dispatcher, kStart, {1}), 7).at(0);
  EXPECT_EQ(asked.row_type, wire::RowType::kF16);
  ASSERT_EQ(asked.rows.byte_count(), kHidden * sizeof(uint16_t));
  EXPECT_EQ(wire::RowValue(asked.rows.bytes().data(), asked.row_type, 1), -2.0f);
  // Who answers otherwise has not understood.
  wire::ExpertFrame answer = Answer(asked, {3, 4});
  answer.row_type = wire::RowType::kF32;
  (void)dispatcher.OnResult(At(1), 7, answer);
  EXPECT_EQ(dispatcher.StatsOf(7)->bad_answers, 1u);
  // It is asked again, in layers that begin later, too.
  (void)dispatcher.Abandon(At(1), 0);
  const wire::ExpertFrame again = To(BeginToken(dispatcher, At(2), {1}), 7).at(0);
  answer = again;
  answer.type = wire::ExpertFrameType::kResult;
  std::vector<uint8_t> halves(kHidden * sizeof(uint16_t));
  wire::StoreRow(std::vector<float>{3, -0.5f}, wire::RowType::kF16, halves.data());
  answer.rows = Slice(std::move(halves));
  const Actions done = dispatcher.OnResult(At(3), 7, answer);
  ASSERT_THAT(done.done, SizeIs(1));
  EXPECT_THAT(done.done[0].slot_rows, testing::ElementsAre(3, -0.5f));
}

// They are whole multiples of a step, which f16 would round.
TEST(Dispatcher, SumsAreInF32WhateverExpertsAreIn) {
  Dispatcher dispatcher(Fixed(1, CopyTime::kAtOnce));
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{7, {0}}}));
  dispatcher.SetRowType(wire::RowType::kF16);
  const std::vector<float> row = {1.5f, -2.0f};
  const std::vector<uint32_t> groups = {0};
  LayerWork work{kLayer, 1, kHidden, row, groups};
  work.kind = SlotKind::kSums;
  EXPECT_EQ(To(dispatcher.Begin(kStart, 0, work), 7).at(0).row_type, wire::RowType::kF32);
}

TEST(Dispatcher, AllExpertsOfAHolderGoInOneMessageAndARowGoesOnce) {
  Dispatcher dispatcher(Fixed(1, CopyTime::kAtOnce));
  EXPECT_TRUE(
      dispatcher.SetHolders(kStart, 1, HoldersOf({{7, {1, 2, 5}}, {8, {9}}})).sends.empty());
  const Actions begun = BeginToken(dispatcher, kStart, {5, 9, 1});
  ASSERT_EQ(begun.sends.size(), 2u);
  const auto to_seven = To(begun, 7);
  ASSERT_EQ(to_seven.size(), 2u);
  EXPECT_EQ(to_seven[0].expert, 1);
  EXPECT_FALSE(to_seven[0].same_rows);
  EXPECT_EQ(to_seven[1].expert, 5);
  EXPECT_TRUE(to_seven[1].same_rows);
  EXPECT_EQ(begun.timer, At(500));
  EXPECT_TRUE(dispatcher.OnResult(At(5), 7, Answer(to_seven[1], {50, 51})).done.empty());
  EXPECT_TRUE(dispatcher.OnResult(At(6), 8, Answer(To(begun, 8)[0], {90, 91})).done.empty());
  const Actions last = dispatcher.OnResult(At(7), 7, Answer(to_seven[0], {10, 11}));
  ASSERT_EQ(last.done.size(), 1u);
  EXPECT_EQ(last.done[0].slot_rows, (std::vector<float>{50, 51, 90, 91, 10, 11}));
  EXPECT_FALSE(last.timer);
  EXPECT_EQ(dispatcher.HeldBytes(), 0u);
}

// One token of which all experts are wanted, added up.
Actions BeginSum(Dispatcher& dispatcher, Instant now, const std::vector<uint32_t>& experts,
                 float largest_slot = 0) {
  const std::vector<float> row = {1.5f, -2.0f};
  LayerWork work{kLayer,         static_cast<uint32_t>(experts.size()), kHidden, row, experts,
                 SlotKind::kSums};
  work.largest_slot = largest_slot;
  return dispatcher.Begin(now, 0, work);
}

wire::ExpertFrame SumOf(const std::vector<wire::ExpertFrame>& dispatches, std::vector<float> rows) {
  wire::ExpertFrame sum = Answer(dispatches.at(0), std::move(rows));
  for (size_t i = 1; i < dispatches.size(); ++i) sum.added.push_back(dispatches[i].expert);
  return sum;
}

TEST(Dispatcher, RowsGoAsWholeNumbersToWhoKnowsThem) {
  Dispatcher dispatcher({});
  std::vector<Holder> holders = HoldersOf({{7, {0, 1}}, {8, {2}}});
  holders[0].takes_integers = true;
  (void)dispatcher.SetHolders(kStart, 1, holders);
  const std::vector<float> row = {1.0f, -0.5f};
  const std::vector<uint32_t> experts = {0, 1, 2};
  LayerWork work{kLayer, 3, kHidden, row, experts};
  work.in_integers = true;
  const Actions begun = dispatcher.Begin(kStart, 0, work);
  const std::vector<wire::ExpertFrame> seven = To(begun, 7);
  ASSERT_THAT(seven, SizeIs(2));
  for (const wire::ExpertFrame& frame : seven) {
    EXPECT_EQ(frame.row_type, wire::RowType::kIntegers);
    EXPECT_EQ(ToHex(frame.rows.bytes()), "7fc03f20e0");
  }
  EXPECT_TRUE(seven[1].same_rows);
  EXPECT_EQ(To(begun, 8).at(0).row_type, wire::RowType::kF32);
  EXPECT_EQ(dispatcher.StatsOf(7)->sent_bytes, 5u);
  // Answers are f32 all the same.
  wire::ExpertFrame first = Answer(seven[0], {1, 2}), second = Answer(seven[1], {3, 4});
  first.row_type = second.row_type = wire::RowType::kF32;
  (void)dispatcher.OnResult(At(1), 7, first);
  (void)dispatcher.OnResult(At(1), 7, second);
  const Actions last = dispatcher.OnResult(At(1), 8, Answer(To(begun, 8).at(0), {5, 6}));
  ASSERT_THAT(last.done, SizeIs(1));
  EXPECT_THAT(last.done[0].slot_rows, testing::ElementsAre(1, 2, 3, 4, 5, 6));

  // Who multiplies something else gets f32, and so does everybody where rows are f16.
  work.in_integers = false;
  EXPECT_EQ(To(dispatcher.Begin(At(2), 0, work), 7).at(0).row_type, wire::RowType::kF32);
  dispatcher.SetRowType(wire::RowType::kF16);
  work.in_integers = true;
  EXPECT_EQ(To(dispatcher.Begin(At(3), 1, work), 7).at(0).row_type, wire::RowType::kF16);
}

TEST(Dispatcher, SumsMayComeInStepsFromWhoKnowsThem) {
  Dispatcher dispatcher({});
  std::vector<Holder> holders = HoldersOf({{7, {0}}, {8, {1}}});
  holders[0].sends_steps = true;
  (void)dispatcher.SetHolders(kStart, 1, holders);
  const std::vector<float> row = {1.5f, -2.0f};
  const std::vector<uint32_t> groups = {0, 1};
  LayerWork work{kLayer, 2, kHidden, row, groups, SlotKind::kSums};
  work.largest_slot = 2;
  work.slot_step = 0x1p-10f;
  const Actions begun = dispatcher.Begin(kStart, 0, work);
  const wire::ExpertFrame seven = To(begun, 7).at(0), eight = To(begun, 8).at(0);
  EXPECT_TRUE(seven.takes_steps);
  EXPECT_FALSE(eight.takes_steps);
  wire::ExpertFrame packed = Answer(seven, {0.5f, -0x1p-10f});
  packed.rows = wire::StepsOf(packed.rows, work.slot_step).value();
  packed.row_type = wire::RowType::kSteps;
  (void)dispatcher.OnResult(At(1), 7, packed);
  const Actions last = dispatcher.OnResult(At(2), 8, Answer(eight, {1, 1}));
  ASSERT_THAT(last.done, SizeIs(1));
  EXPECT_THAT(last.done[0].slot_rows, testing::ElementsAre(1.5f, 1 - 0x1p-10f));

  // Beyond the grid they are as wrong as in f32, and rows that lie on no grid have none.
  const wire::ExpertFrame again = To(dispatcher.Begin(At(3), 0, work), 7).at(0);
  wire::ExpertFrame large = Answer(again, {2.5f, 0});
  large.rows = wire::StepsOf(large.rows, work.slot_step).value();
  large.row_type = wire::RowType::kSteps;
  EXPECT_THAT(To(dispatcher.OnResult(At(4), 7, large), 7), SizeIs(1)) << "it is asked once more";
  work.slot_step = 0;
  const wire::ExpertFrame bare = To(dispatcher.Begin(At(5), 1, work), 7).at(0);
  EXPECT_FALSE(bare.takes_steps);
  packed.sequence = bare.sequence;
  EXPECT_THAT(To(dispatcher.OnResult(At(6), 7, packed), 7), SizeIs(1));
}

// One token, and four ranges of three logits each.
Actions BeginRanges(Dispatcher& dispatcher, Instant now) {
  const std::vector<float> row = {1.5f, -2.0f};
  const std::vector<uint32_t> ranges = {0, 1, 2, 3};
  LayerWork work{kLayer, 4, kHidden, row, ranges, SlotKind::kRanges};
  work.range_columns = 3;
  return dispatcher.Begin(now, 0, work);
}
wire::ExpertFrame RangeOf(const wire::ExpertFrame& dispatch) {
  const auto first = static_cast<float>(10 * dispatch.expert);
  wire::ExpertFrame frame = Answer(dispatch, {first, first + 1, first + 2});
  frame.hidden = 3;
  return frame;
}

TEST(Dispatcher, RangesAreSharedByRateAndStandSideBySide) {
  Dispatcher dispatcher({});
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{7, {0, 1, 2, 3}}, {8, {0, 1, 2, 3}}}));
  const Actions begun = BeginRanges(dispatcher, kStart);
  const auto to_seven = To(begun, 7), to_eight = To(begun, 8);
  ASSERT_EQ(to_seven.size(), 2u);
  ASSERT_EQ(to_eight.size(), 2u);
  EXPECT_FALSE(to_seven[0].may_sum);
  EXPECT_EQ(to_seven[0].hidden, kHidden);
  for (const auto& asked : to_seven) (void)dispatcher.OnResult(At(1), 7, RangeOf(asked));
  (void)dispatcher.OnResult(At(3), 8, RangeOf(to_eight[0]));
  const Actions last = dispatcher.OnResult(At(3), 8, RangeOf(to_eight[1]));
  ASSERT_EQ(last.done.size(), 1u);
  EXPECT_EQ(last.done[0].slot_rows,
            (std::vector<float>{0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32}));
  EXPECT_EQ(dispatcher.HeldBytes(), 0u);
  // One of them was three times as fast: it is asked for three quarters.
  const Actions next = BeginRanges(dispatcher, At(4));
  EXPECT_EQ(To(next, 7).size(), 3u);
  EXPECT_EQ(To(next, 8).size(), 1u);
}

// What the ranges of products inside layers take says nothing of the head's, and where the way
// takes longer than all of them at the hub, nobody else is asked.
TEST(Dispatcher, RangesOfProductsHaveCostsOfTheirOwnWithTheWayInThem) {
  Dispatcher dispatcher({});
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{7, {4, 5, 6, 7}}, {8, {4, 5, 6, 7}}}));
  const std::vector<float> row = {1.5f, -2.0f};
  const std::vector<uint32_t> ranges = {4, 5, 6, 7};
  LayerWork work{kLayer, 4, kHidden, row, ranges, SlotKind::kProducts};
  work.range_columns = 3;
  const auto answer = [&dispatcher](Instant now, Actions begun, uint32_t id, Duration computed) {
    const auto asked = To(begun, id);
    Actions last;
    for (const auto& each : asked)
      last = dispatcher.OnResult(now, id, RangeOf(each), {std::nullopt, computed});
    return std::pair(asked.size(), last);
  };
  // The hub has no way. The other one computes as fast, and is 20 ms away.
  Actions begun = dispatcher.Begin(kStart, 0, work);
  EXPECT_EQ(answer(At(2), begun, 7, Milliseconds(2)).first, 2u);
  Actions last = answer(At(22), begun, 8, Milliseconds(2)).second;
  ASSERT_EQ(last.done.size(), 1u);
  EXPECT_EQ(last.done[0].slot_rows,
            (std::vector<float>{40, 41, 42, 50, 51, 52, 60, 61, 62, 70, 71, 72}));
  begun = dispatcher.Begin(At(30), 0, work);
  EXPECT_EQ(To(begun, 7).size(), 4u);
  EXPECT_THAT(To(begun, 8), SizeIs(0));
  EXPECT_THAT(answer(At(34), begun, 7, Milliseconds(4)).second.done, SizeIs(1));
}

TEST(Dispatcher, OfARangeTheBestMayBeEnough) {
  Dispatcher dispatcher({});
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{7, {0, 1}}}));
  const std::vector<float> row = {1.5f, -2.0f};
  const std::vector<uint32_t> ranges = {0, 1};
  LayerWork work{kLayer, 2, kHidden, row, ranges, SlotKind::kBest};
  work.range_columns = kBestColumns;
  const auto asked = To(dispatcher.Begin(kStart, 0, work), 7);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_TRUE(asked[0].best && asked[1].best);
  Actions last;
  for (const auto& each : asked) {
    wire::ExpertFrame best = Answer(each, {9, 5, 8, 4});
    best.hidden = kBestColumns;
    last = dispatcher.OnResult(At(1), 7, best);
  }
  ASSERT_EQ(last.done.size(), 1u);
  EXPECT_EQ(last.done[0].slot_rows, (std::vector<float>{9, 5, 8, 4, 9, 5, 8, 4}));
}

TEST(Dispatcher, RangesOfWhoIsLostOrWrongAreAskedOfOthers) {
  Dispatcher dispatcher({});
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{7, {0, 1, 2, 3}}, {8, {0, 1, 2, 3}}}));
  const Actions begun = BeginRanges(dispatcher, kStart);
  // Rows as wide as what went in are not logits of a range.
  wire::ExpertFrame narrow = Answer(To(begun, 7).at(0), {1, 2});
  const Actions again = dispatcher.OnResult(At(1), 7, narrow);
  EXPECT_THAT(To(again, 8), SizeIs(1));
  const Actions lost = dispatcher.SetHolders(At(2), 2, HoldersOf({{7, {0, 1, 2, 3}}}));
  size_t answered = 0;
  Actions last;
  for (const Actions* actions : {&begun, &lost})
    for (const auto& asked : To(*actions, 7)) {
      if (actions == &begun && asked.expert == narrow.expert) continue;
      last = dispatcher.OnResult(At(3), 7, RangeOf(asked));
      ++answered;
    }
  EXPECT_EQ(answered, 4u);
  ASSERT_EQ(last.done.size(), 1u);
  EXPECT_EQ(last.done[0].slot_rows.size(), 12u);
}

TEST(Dispatcher, SharesOfASumAreAnsweredWithARowEach) {
  Dispatcher dispatcher({});
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{7, {0, 1, 2, 3}}, {8, {0, 1, 2, 3}}}));
  const Actions begun = BeginSum(dispatcher, kStart, {0, 1, 2, 3});
  const auto to_seven = To(begun, 7), to_eight = To(begun, 8);
  ASSERT_EQ(to_seven.size(), 2u);
  ASSERT_EQ(to_eight.size(), 2u);
  EXPECT_TRUE(to_seven[0].may_sum);
  EXPECT_TRUE(dispatcher.OnResult(At(1), 7, SumOf(to_seven, {1, 2})).done.empty());
  const Actions last = dispatcher.OnResult(At(3), 8, SumOf(to_eight, {10, 20}));
  ASSERT_EQ(last.done.size(), 1u);
  EXPECT_EQ(last.done[0].slot_rows, (std::vector<float>{11, 22}));
  EXPECT_EQ(dispatcher.HeldBytes(), 0u);
  // One of them was three times as fast: it is asked for three quarters.
  const Actions next = BeginSum(dispatcher, At(4), {0, 1, 2, 3});
  EXPECT_EQ(To(next, 7).size(), 3u);
  EXPECT_EQ(To(next, 8).size(), 1u);
}

TEST(Dispatcher, TellsHowLongGroupsWereComputed) {
  Dispatcher dispatcher({});
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{7, {0, 1, 2, 3}}, {8, {0, 1, 2, 3}}}));
  const Actions begun = BeginSum(dispatcher, kStart, {0, 1, 2, 3});
  const Duration computed = Microseconds(700);
  (void)dispatcher.OnResult(At(1), 7, SumOf(To(begun, 7), {1, 2}), {At(1), computed});
  (void)dispatcher.OnResult(At(3), 8, SumOf(To(begun, 8), {10, 20}));  // it does not say
  EXPECT_EQ(dispatcher.StatsOf(7)->computed_groups, To(begun, 7).size());
  EXPECT_EQ(dispatcher.StatsOf(7)->computed_us, 700u);
  EXPECT_EQ(dispatcher.StatsOf(8)->computed_groups, 0u);
}

// Two sums of 3e38 are infinite, and nobody could tell then whose they were.
TEST(Dispatcher, ASumThatItsExpertsCannotAddUpToIsItsSendersFault) {
  Dispatcher dispatcher({});
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{7, {0, 1}}, {8, {0, 1}}}));
  int64_t ms = 0;
  for (const float wrong : {4.25f, -4.25f, 3e38f}) {
    const auto to_seven = To(BeginSum(dispatcher, At(++ms), {0, 1}, 4), 7);
    ASSERT_EQ(to_seven.size(), 1u);
    const Actions refused = dispatcher.OnResult(At(++ms), 7, Answer(to_seven[0], {1, wrong}));
    EXPECT_EQ(To(refused, 8).size(), 1u) << "another is asked";
    ASSERT_EQ(refused.put_aside.size(), wrong == 3e38f ? 1u : 0u);
    if (wrong == 3e38f) {
      EXPECT_THAT(refused.put_aside[0].sentence, HasSubstr("expected at most 4"));
    }
    (void)dispatcher.Abandon(At(++ms), 0);
  }
  const auto to_eight = To(BeginSum(dispatcher, At(++ms), {0, 1}, 4), 8);
  ASSERT_EQ(to_eight.size(), 2u);
  EXPECT_EQ(dispatcher.OnResult(At(++ms), 8, SumOf(to_eight, {8, -8})).done.size(), 1u);
}

TEST(Dispatcher, AnExpertCountsOnceInASum) {
  Dispatcher dispatcher({});
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{7, {0, 1, 2}}, {8, {1}}}));
  const Actions begun = BeginSum(dispatcher, kStart, {0, 1, 2});
  const auto to_seven = To(begun, 7);
  ASSERT_EQ(to_seven.size(), 2u);
  // 7 is late, and what it was asked has nobody else; 8 answers.
  (void)dispatcher.OnResult(At(1), 8, Answer(To(begun, 8)[0], {10, 10}));
  const Actions late = dispatcher.OnTimer(At(500));
  const auto again = To(late, 7);
  ASSERT_EQ(again.size(), 2u) << "it is the only one";
  wire::ExpertFrame forged = SumOf(to_seven, {1, 1});
  forged.added.insert(forged.added.begin(), 1);
  (void)dispatcher.OnResult(At(501), 7, forged);
  EXPECT_EQ(dispatcher.StatsOf(7)->bad_answers, 1u) << "it was not asked for 1";
  EXPECT_EQ(dispatcher.OnResult(At(502), 7, SumOf(to_seven, {1, 1})).done.at(0).slot_rows,
            (std::vector<float>{11, 11}));
}

TEST(Dispatcher, OfASumWithAnExpertThatIsThereTheOthersAreAskedAgain) {
  Dispatcher dispatcher({});
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{7, {0, 1}}}));
  const auto to_seven = To(BeginSum(dispatcher, kStart, {0, 1}), 7);
  (void)dispatcher.SetHolders(At(1), 2, HoldersOf({{7, {0, 1}}, {8, {1}}}));
  const auto to_eight = To(dispatcher.OnTimer(At(500)), 8);
  ASSERT_EQ(to_eight.size(), 1u) << "7 let it pass";
  EXPECT_TRUE(dispatcher.OnResult(At(501), 8, Answer(to_eight[0], {10, 10})).done.empty());
  const Actions late = dispatcher.OnResult(At(502), 7, SumOf(to_seven, {1, 1}));
  EXPECT_TRUE(late.done.empty());
  const auto again = To(late, 7);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].expert, 0);
  EXPECT_EQ(dispatcher.StatsOf(7)->bad_answers, 0u);
  EXPECT_EQ(dispatcher.OnResult(At(503), 7, Answer(again[0], {3, 3})).done.at(0).slot_rows,
            (std::vector<float>{13, 13}));
}

TEST(Dispatcher, RowsOfEachExpertAreNotTakenAddedUp) {
  Dispatcher dispatcher({});
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{7, {0, 1}}}));
  const auto to_seven = To(BeginToken(dispatcher, kStart, {0, 1}), 7);
  EXPECT_FALSE(to_seven.at(0).may_sum);
  (void)dispatcher.OnResult(At(1), 7, SumOf(to_seven, {1, 1}));
  EXPECT_EQ(dispatcher.StatsOf(7)->bad_answers, 1u);
}

// Rows 0 and 2 chose expert 4, row 1 chose 6: each is sent the rows that chose it, in their order.
TEST(Dispatcher, RowsAreGroupedByExpert) {
  Dispatcher dispatcher(Fixed(1, CopyTime::kAtOnce));
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{7, {4, 6}}}));
  const std::vector<float> rows = {0.5f, 1, 2, 3, 4, 5};
  const std::vector<uint32_t> experts = {4, 6, 4};
  const Actions begun = dispatcher.Begin(kStart, 1, {kLayer, 1, kHidden, rows, experts});
  auto frames = To(begun, 7);
  ASSERT_EQ(frames.size(), 2u);
  if (frames[0].expert != 4) std::swap(frames[0], frames[1]);
  EXPECT_EQ(frames[0].tokens, 2u);
  EXPECT_EQ(frames[1].tokens, 1u);
  EXPECT_NE(frames[0].sequence & wire::kBatchBit, 0u);
  ASSERT_EQ(frames[0].rows.byte_count(), 16u);
  const uint8_t* bytes = frames[0].rows.bytes().data();
  EXPECT_EQ(LoadLe<float>(bytes), 0.5f);
  EXPECT_EQ(LoadLe<float>(bytes + 8), 4.0f);
}

TEST(Dispatcher, TheFirstOfCopiesWinsAndTheOthersAreCancelled) {
  Dispatcher dispatcher(Fixed(3, CopyTime::kAtOnce));
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{1, {0}}, {2, {0}}, {3, {0}}, {4, {0}}}));
  const Actions begun = BeginToken(dispatcher, kStart, {0});
  ASSERT_EQ(begun.sends.size(), 3u);
  const Actions won =
      dispatcher.OnResult(At(1), begun.sends[1].holder, Answer(begun.sends[1].frames[0], {7, 8}));
  ASSERT_EQ(won.done.size(), 1u);
  ASSERT_EQ(won.sends.size(), 2u);
  for (const Send& send : won.sends) {
    EXPECT_EQ(send.frames[0].type, wire::ExpertFrameType::kCancel);
    EXPECT_EQ(send.frames[0].sequence, begun.sends[0].frames[0].sequence);
  }
  // The answer that crossed the cancel is neither used nor held against anybody.
  const uint32_t loser = begun.sends[0].holder;
  const Actions late = dispatcher.OnResult(At(2), loser, Answer(begun.sends[0].frames[0], {1, 1}));
  EXPECT_TRUE(late.done.empty());
  EXPECT_EQ(dispatcher.StatsOf(loser)->bad_answers, 0u);
  EXPECT_EQ(dispatcher.StatsOf(loser)->losses, 1u);
}

TEST(Dispatcher, CountsWhatHoldersDid) {
  Dispatcher dispatcher(Fixed(3, CopyTime::kAtOnce));
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{1, {0}}, {2, {0}}, {3, {0}}}));
  EXPECT_THAT(dispatcher.HolderIds(), testing::ElementsAre(1, 2, 3));
  const Actions begun = BeginToken(dispatcher, kStart, {0});
  ASSERT_EQ(begun.sends.size(), 3u);
  const uint32_t first = begun.sends[0].holder, copy = begun.sends[1].holder;
  (void)dispatcher.OnResult(At(4), copy, Answer(begun.sends[1].frames[0], {7, 8}));
  const HolderStats won = *dispatcher.StatsOf(copy);
  EXPECT_EQ(won.calls, 1u);
  EXPECT_EQ(won.rows, 1u);
  EXPECT_EQ(won.hedges, 1u);
  EXPECT_EQ(won.wins, 1u);
  EXPECT_EQ(won.won_hedges, 1u);
  EXPECT_EQ(won.losses + won.lost_hedges, 0u);
  EXPECT_EQ(won.sent_bytes, kHidden * sizeof(float));
  EXPECT_EQ(won.received_bytes, kHidden * sizeof(float));
  EXPECT_EQ(won.p50, Milliseconds(4));
  EXPECT_EQ(won.slowest, Milliseconds(4));
  // Who was asked first and was slower has lost, but no hedge; the other copy has lost one.
  EXPECT_EQ(dispatcher.StatsOf(first)->hedges, 0u);
  EXPECT_EQ(dispatcher.StatsOf(first)->losses, 1u);
  EXPECT_EQ(dispatcher.StatsOf(first)->lost_hedges, 0u);
  EXPECT_EQ(dispatcher.StatsOf(begun.sends[2].holder)->lost_hedges, 1u);
  EXPECT_EQ(dispatcher.StatsOf(first)->received_bytes, 0u);
  (void)dispatcher.OnResult(At(9), first, Answer(begun.sends[0].frames[0], {1, 1}));
  EXPECT_EQ(dispatcher.StatsOf(first)->received_bytes, kHidden * sizeof(float))
      << "came all the same";
  EXPECT_EQ(dispatcher.StatsOf(first)->wins, 0u);
}

TEST(Dispatcher, ACopyGoesOutWhenTheFirstIsLate) {
  Dispatcher dispatcher(Fixed(2, CopyTime::kWhenLate));
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{1, {0}}, {2, {0}}}));
  const Actions begun = BeginToken(dispatcher, kStart, {0});
  ASSERT_EQ(begun.sends.size(), 1u);
  EXPECT_EQ(begun.timer, At(100));
  EXPECT_TRUE(dispatcher.OnTimer(At(99)).sends.empty());
  const Actions copied = dispatcher.OnTimer(At(100));
  ASSERT_EQ(copied.sends.size(), 1u);
  EXPECT_EQ(copied.sends[0].holder, 2u);
  EXPECT_EQ(dispatcher.StatsOf(2)->hedges, 1u);
  EXPECT_EQ(copied.timer, At(500));
}

TEST(Dispatcher, ATimeoutAsksAnotherAndThreeInARowMakeUnhealthyUntilAHeartbeat) {
  Dispatcher dispatcher(Fixed(1, CopyTime::kAtOnce));
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{1, {0}}}));
  (void)BeginToken(dispatcher, kStart, {0});
  EXPECT_EQ(To(dispatcher.OnTimer(At(500)), 1).size(), 1u) << "the only one is asked again";
  EXPECT_EQ(To(dispatcher.OnTimer(At(1500)), 1).size(), 1u) << "after twice the time";
  const Actions third = dispatcher.OnTimer(At(3000));
  EXPECT_TRUE(third.sends.empty());
  ASSERT_EQ(third.missing.size(), 1u);
  EXPECT_EQ(third.missing[0].experts, std::vector<uint16_t>{0});
  EXPECT_TRUE(dispatcher.StatsOf(1)->is_unhealthy);
  const Actions healed = dispatcher.OnHeartbeat(At(3001), 1, {});
  ASSERT_EQ(To(healed, 1).size(), 1u);
  EXPECT_EQ(dispatcher.OnResult(At(3002), 1, Answer(To(healed, 1)[0], {1, 2})).done.size(), 1u);
}

TEST(Dispatcher, WhoLetADispatchPassIsAskedAfterOthersForAWhile) {
  Dispatcher dispatcher(Fixed(1, CopyTime::kAtOnce));
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{1, {0}}, {2, {0}}}));
  (void)BeginToken(dispatcher, kStart, {0});
  const Actions moved = dispatcher.OnTimer(At(500));
  ASSERT_EQ(moved.sends.size(), 1u);
  EXPECT_EQ(moved.sends[0].holder, 2u);
  // Slow as the second is, it is asked first now.
  EXPECT_EQ(dispatcher.OnResult(At(999), 2, Answer(moved.sends[0].frames[0], {1, 2})).done.size(),
            1u);
  const Actions next = BeginToken(dispatcher, At(1000), {0});
  ASSERT_EQ(next.sends.size(), 1u);
  EXPECT_EQ(next.sends[0].holder, 2u);
}

TEST(Dispatcher, TheThirdBadAnswerPutsTheHolderAside) {
  Dispatcher dispatcher(Fixed(1, CopyTime::kAtOnce));
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{1, {0}}, {2, {0}}}));
  wire::ExpertFrame asked = To(BeginToken(dispatcher, kStart, {0}), 1)[0];
  // Not finite: another holder is asked, and this one is not lost yet.
  const Actions first = dispatcher.OnResult(At(1), 1, Answer(asked, {1, NAN}));
  ASSERT_EQ(To(first, 2).size(), 1u);
  EXPECT_TRUE(first.put_aside.empty());
  // Once more, for an expert that it was not asked, and bytes that are no message.
  EXPECT_TRUE(dispatcher.OnResult(At(2), 1, Answer(asked, {1, 2})).put_aside.empty());
  const Actions third = dispatcher.OnMalformed(At(3), 1, "It is no message.");
  ASSERT_EQ(third.put_aside.size(), 1u);
  EXPECT_EQ(third.put_aside[0].holder, 1u);
  EXPECT_TRUE(dispatcher.StatsOf(1)->is_aside);
  EXPECT_TRUE(dispatcher.OnResult(At(4), 1, Answer(asked, {1, 2})).done.empty());
  EXPECT_EQ(dispatcher.OnResult(At(5), 2, Answer(To(first, 2)[0], {3, 4})).done.size(), 1u);
  EXPECT_EQ(BeginToken(dispatcher, At(6), {0}).sends[0].holder, 2u);
}

TEST(Dispatcher, RefusesWhatDoesNotAnswerItsQuestion) {
  using Change = void (*)(wire::ExpertFrame&);
  const std::vector<std::pair<std::string, Change>> changes = {
      {"sequence", [](wire::ExpertFrame& f) { f.sequence += 1; }},
      {"other batch", [](wire::ExpertFrame& f) { f.sequence |= wire::kBatchBit; }},
      {"layer", [](wire::ExpertFrame& f) { f.layer += 1; }},
      {"expert", [](wire::ExpertFrame& f) { f.expert = 6; }},
      {"tokens", [](wire::ExpertFrame& f) { f.tokens = 2; }},
      {"columns", [](wire::ExpertFrame& f) { f.hidden = 1; }},
      {"length", [](wire::ExpertFrame& f) { f.rows = f.rows.Sub(0, 4); }},
      {"type", [](wire::ExpertFrame& f) { f.type = wire::ExpertFrameType::kDispatch; }}};
  for (const auto& [name, change] : changes) {
    Dispatcher dispatcher(Fixed(1, CopyTime::kAtOnce));
    (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{1, {0, 6}}}));
    wire::ExpertFrame answer = Answer(To(BeginToken(dispatcher, kStart, {0}), 1)[0], {1, 2});
    change(answer);
    EXPECT_TRUE(dispatcher.OnResult(At(1), 1, answer).done.empty()) << name;
    EXPECT_EQ(dispatcher.StatsOf(1)->bad_answers, 1u) << name;
  }
}

TEST(Dispatcher, AHolderThatCannotIsNotAskedForThatExpertAgain) {
  Dispatcher dispatcher(Fixed(1, CopyTime::kAtOnce));
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{1, {0, 1}}}));
  const Actions begun = BeginToken(dispatcher, kStart, {0, 1});
  const Actions failed =
      dispatcher.OnResult(At(1), 1, wire::FailedResult(To(begun, 1)[0], "It is not loaded."));
  ASSERT_EQ(failed.missing.size(), 1u);
  EXPECT_EQ(dispatcher.StatsOf(1)->bad_answers, 0u);
  EXPECT_TRUE(dispatcher.OnResult(At(2), 1, Answer(To(begun, 1)[1], {3, 4})).done.empty());
  // An old statement changes nothing, a new one does.
  EXPECT_TRUE(dispatcher.SetHolders(At(3), 1, HoldersOf({{2, {0}}})).sends.empty());
  const Actions given = dispatcher.SetHolders(At(4), 2, HoldersOf({{1, {1}}, {2, {0}}}));
  ASSERT_EQ(To(given, 2).size(), 1u);
  const Actions last = dispatcher.OnResult(At(5), 2, Answer(To(given, 2)[0], {1, 2}));
  ASSERT_EQ(last.done.size(), 1u);
  EXPECT_EQ(last.done[0].slot_rows, (std::vector<float>{1, 2, 3, 4}));
}

TEST(Dispatcher, AnAbandonedLayerCancelsAndLeavesNothing) {
  Dispatcher dispatcher(Fixed(1, CopyTime::kAtOnce));
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{1, {0}}}));
  const auto asked = To(BeginToken(dispatcher, kStart, {0}, 1), 1);
  const auto cancels = To(dispatcher.Abandon(At(1), 1), 1);
  ASSERT_EQ(cancels.size(), 1u);
  EXPECT_EQ(cancels[0].type, wire::ExpertFrameType::kCancel);
  EXPECT_EQ(dispatcher.HeldBytes(), 0u);
  EXPECT_TRUE(dispatcher.OnResult(At(2), 1, Answer(asked[0], {1, 2})).done.empty());
  EXPECT_EQ(dispatcher.StatsOf(1)->stale_answers, 1u);
}

// A prompt's rows for one holder: more than a message may hold goes in several.
TEST(Dispatcher, MessagesKeepTheLimits) {
  Dispatcher dispatcher(Fixed(1, CopyTime::kAtOnce));
  std::vector<uint16_t> all;
  for (uint16_t expert = 0; expert < 1500; ++expert) all.push_back(expert);
  (void)dispatcher.SetHolders(kStart, 1, HoldersOf({{1, all}}));
  std::vector<uint32_t> experts(all.begin(), all.end());
  const Actions begun = BeginToken(dispatcher, kStart, experts);
  ASSERT_EQ(begun.sends.size(), 2u);
  EXPECT_EQ(begun.sends[0].frames.size(), wire::kMaxShardFrames);
  for (const Send& send : begun.sends) {
    EXPECT_FALSE(send.frames[0].same_rows);
    (void)wire::EncodeShardMessage(1, send.frames);
  }
}

// Holder 1 answers after 8 ms and holder 2 after 40, twenty times.
class Adaptive : public testing::Test {
 protected:
  Adaptive() {
    (void)dispatcher_.SetHolders(now_, 1, HoldersOf({{1, {0}}, {2, {0, 1}}}));
    for (int i = 0; i < 20; ++i) {
      const Actions begun = BeginToken(dispatcher_, now_, {0, 1});
      Answers(begun, 1, Milliseconds(8));
      Answers(begun, 2, Milliseconds(40));
      now_ = now_ + Milliseconds(50);
    }
  }
  Actions Answers(const Actions& begun, uint32_t holder, Duration after) {
    Actions last;
    for (const wire::ExpertFrame& frame : To(begun, holder))
      last = dispatcher_.OnResult(now_ + after, holder, Answer(frame, {0, 0}));
    return last;
  }

  Dispatcher dispatcher_{Options{}};
  Instant now_ = kStart;
};

TEST_F(Adaptive, NoCopyOfWhatEndsBeforeTheOthers) {
  const Actions begun = BeginToken(dispatcher_, now_, {0, 1});
  EXPECT_THAT(To(begun, 1), SizeIs(1));
  ASSERT_THAT(To(begun, 2), SizeIs(1)) << "expert 0 is no copy's worth: expert 1 takes longer";
  EXPECT_EQ(To(begun, 2)[0].expert, 1);
  EXPECT_TRUE(dispatcher_.OnTimer(now_ + Milliseconds(5)).sends.empty());
}

TEST_F(Adaptive, ACopyGoesOutWhenTheLayerWaitsForASilentHolder) {
  const Actions begun = BeginToken(dispatcher_, now_, {0});
  ASSERT_THAT(To(begun, 1), SizeIs(1));
  Actions looked = begun;
  int64_t copied_ms = 0;
  for (int64_t ms = 1; ms < 60 && copied_ms == 0; ++ms) {
    looked = dispatcher_.OnTimer(now_ + Milliseconds(ms));
    if (!To(looked, 2).empty()) copied_ms = ms;
  }
  EXPECT_GE(copied_ms, 8);
  EXPECT_LE(copied_ms, 20);
  // The one that was silent is asked after the other one for a while, and is first again later.
  now_ = now_ + Milliseconds(copied_ms);
  Answers(looked, 2, Milliseconds(40));
  now_ = now_ + Milliseconds(45);
  const Actions avoided = BeginToken(dispatcher_, now_, {0});
  EXPECT_FALSE(To(avoided, 2).empty());
  Answers(avoided, 2, Milliseconds(40));
  now_ = now_ + Seconds(5);
  EXPECT_FALSE(To(BeginToken(dispatcher_, now_, {0}), 1).empty());
}

TEST(LatencyWindow, QuantilesAreOfTheLastSamples) {
  LatencyWindow window;
  for (int i = 1; i <= 200; ++i) window.Add(Milliseconds((i * 37) % 201));
  std::vector<int64_t> last;
  for (int i = 137; i <= 200; ++i) last.push_back((i * 37) % 201);
  std::sort(last.begin(), last.end());
  EXPECT_EQ(window.Quantile(0.5), Milliseconds(last[31]));
  EXPECT_EQ(window.Quantile(0.95), Milliseconds(last[60]));
  EXPECT_EQ(window.Quantile(0), Milliseconds(last[0]));
  EXPECT_EQ(window.Quantile(1), Milliseconds(last[63]));
}

}  // namespace
}  // namespace weft::dispatch
