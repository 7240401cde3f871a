// Shard messages against tests/golden/expert_frames.json, which an independent packer
// (make_expert_frames.py) wrote.
#include "wire/expert_frame.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tensor/half.h"
#include "wire/golden_testing.h"

namespace weft::wire {
namespace {

using Json = boost::json::value;

const Json& Golden() {
  static const Json golden = GoldenJson("expert_frames.json");
  return golden;
}

Slice Bytes(const Json& object, const char* name) {
  return Slice(FromHex(String(object, name)).value());
}
std::string Hex(const Slice& slice) {
  return ToHex(slice.bytes());
}
std::string Joined(const std::vector<Slice>& pieces) {
  std::string hex;
  for (const Slice& piece : pieces) hex += Hex(piece);
  return hex;
}

ExpertFrame Described(const Json& json) {
  static const std::map<std::string, ExpertFrameType> types = {
      {"dispatch", ExpertFrameType::kDispatch}, {"result", ExpertFrameType::kResult},
      {"cancel", ExpertFrameType::kCancel},     {"heartbeat", ExpertFrameType::kHeartbeat},
      {"rows", ExpertFrameType::kRows},         {"given", ExpertFrameType::kGiven}};
  ExpertFrame frame;
  frame.type = types.at(String(json, "type"));
  frame.sequence = Number(json, "sequence");
  frame.layer = Number<uint16_t>(json, "layer");
  frame.expert = Number<uint16_t>(json, "expert");
  frame.tokens = Number(json, "tokens");
  frame.hidden = Number<uint16_t>(json, "hidden");
  frame.same_rows = json.at("same_rows").as_bool();
  frame.failed = json.at("failed").as_bool();
  frame.may_sum = json.at("may_sum").as_bool();
  for (const Json& expert : json.at("added").as_array())
    frame.added.push_back(expert.to_number<uint16_t>());
  frame.row_type = RowType{Number<uint8_t>(json, "row_type")};
  frame.best = json.at("best").as_bool();
  frame.takes_steps = json.at("takes_steps").as_bool();
  frame.rows = Bytes(json, "rows");
  frame.body = Bytes(json, "body");
  return frame;
}

void ExpectSame(const ExpertFrame& actual, const ExpertFrame& expected) {
  EXPECT_EQ(actual.type, expected.type);
  EXPECT_EQ(actual.sequence, expected.sequence);
  EXPECT_EQ(actual.layer, expected.layer);
  EXPECT_EQ(actual.expert, expected.expert);
  EXPECT_EQ(actual.tokens, expected.tokens);
  EXPECT_EQ(actual.hidden, expected.hidden);
  EXPECT_EQ(actual.same_rows, expected.same_rows);
  EXPECT_EQ(actual.failed, expected.failed);
  EXPECT_EQ(actual.may_sum, expected.may_sum);
  EXPECT_EQ(actual.added, expected.added);
  EXPECT_EQ(actual.row_type, expected.row_type);
  EXPECT_EQ(actual.best, expected.best);
  EXPECT_EQ(actual.takes_steps, expected.takes_steps);
  EXPECT_EQ(Hex(actual.rows), Hex(expected.rows));
  EXPECT_EQ(Hex(actual.body), Hex(expected.body));
}

TEST(ExpertRows, AreRoundedToF16AndStayFinite) {
  const std::vector<float> row = {1.0f / 3, -65519, 65520, 1e30f, -1e30f, INFINITY, 0x1p-25f};
  std::vector<uint8_t> bytes(row.size() * ElementBytes(RowType::kF16));
  StoreRow(row, RowType::kF16, bytes.data());
  const float third = F16ToF32(F32ToF16(1.0f / 3));
  const std::vector<float> expected = {third, -65504, 65504, 65504, -65504, INFINITY, 0};
  for (size_t i = 0; i < row.size(); ++i)
    EXPECT_EQ(RowValue(bytes.data(), RowType::kF16, i), expected[i]) << i;
}

TEST(ExpertRows, KeepTheirBitsAsF32) {
  const std::vector<float> row = {1.0f / 3, 1e30f, -0x1p-140f};
  std::vector<uint8_t> bytes(row.size() * ElementBytes(RowType::kF32));
  StoreRow(row, RowType::kF32, bytes.data());
  for (size_t i = 0; i < row.size(); ++i)
    EXPECT_EQ(RowValue(bytes.data(), RowType::kF32, i), row[i]) << i;
}

Slice FloatsOf(const std::vector<float>& row) {
  std::vector<uint8_t> bytes(row.size() * sizeof(float));
  StoreRow(row, RowType::kF32, bytes.data());
  return Slice(std::move(bytes));
}

TEST(ExpertRows, AreStepsWhereAllAreWholeAndFit) {
  constexpr float kStep = 0x1p-10f;
  const std::vector<float> row = {0, -0.0f, -2 * kStep, 8388607 * kStep, -8388607 * kStep, 1};
  const auto steps = StepsOf(FloatsOf(row), kStep);
  ASSERT_TRUE(steps.has_value());
  EXPECT_EQ(steps->byte_count(), row.size() * kStepBytes);
  for (size_t i = 0; i < row.size(); ++i)
    EXPECT_EQ(RowValue(steps->bytes().data(), RowType::kSteps, i) * kStep, row[i]) << i;
  for (const float other : {8388608 * kStep, -8388608 * kStep, kStep / 2, INFINITY, -INFINITY, NAN})
    EXPECT_FALSE(StepsOf(FloatsOf({0, other}), kStep).has_value()) << other;
}

ExpertFrame OneToken(size_t columns) {
  ExpertFrame frame;
  frame.tokens = 1;
  frame.hidden = static_cast<uint16_t>(columns);
  frame.rows = Slice(std::vector<uint8_t>(columns * sizeof(float)));
  return frame;
}

TEST(ExpertFrame, MessagesAreTheGoldenBytes) {
  ASSERT_GT(Golden().at("messages").as_array().size(), 7u);
  for (const Json& json : Golden().at("messages").as_array()) {
    SCOPED_TRACE(String(json, "name"));
    std::vector<ExpertFrame> frames;
    for (const Json& frame : json.at("frames").as_array()) frames.push_back(Described(frame));
    EXPECT_EQ(Joined(EncodeShardMessage(Number(json, "peer"), frames)), String(json, "hex"));
    const Slice bytes = Bytes(json, "hex");
    EXPECT_TRUE(IsShardMessage(bytes.bytes()));
    const auto decoded = DecodeShardMessage(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message();
    EXPECT_EQ(decoded->peer, Number(json, "peer"));
    ASSERT_EQ(decoded->frames.size(), frames.size());
    for (size_t i = 0; i < frames.size(); ++i) ExpectSame(decoded->frames[i], frames[i]);
  }
}

TEST(ExpertFrame, RefusesEveryIllegalForm) {
  ASSERT_GT(Golden().at("refused").as_array().size(), 40u);
  for (const Json& json : Golden().at("refused").as_array()) {
    const auto decoded = DecodeShardMessage(Bytes(json, "hex"));
    ASSERT_FALSE(decoded.ok()) << String(json, "name");
    const std::string& sentence = decoded.error().message();
    EXPECT_NE(sentence.find(String(json, "problem")), std::string::npos)
        << String(json, "name") << ": " << sentence;
    EXPECT_NE(sentence.find("expected"), std::string::npos) << sentence;
  }
}

TEST(ExpertFrame, AnyPrefixOfAMessageIsRefusedOrEndsAtAFrame) {
  for (const Json& json : Golden().at("messages").as_array()) {
    const Slice whole = Bytes(json, "hex");
    const size_t frame_count = DecodeShardMessage(whole)->frames.size();
    for (size_t count = 0; count < whole.byte_count(); ++count) {
      const auto decoded = DecodeShardMessage(whole.Sub(0, count));
      EXPECT_TRUE(!decoded.ok() || decoded->frames.size() < frame_count)
          << String(json, "name") << " cut at " << count;
    }
  }
}

// moex-expert-disaggregation 4.2: 28 bytes before 16,384 are 0.17%.
TEST(ExpertFrame, AHeaderCosts017PercentOfATokenOf4096Columns) {
  const auto pieces = EncodeShardMessage(1, {{OneToken(4096)}});
  size_t byte_count = 0;
  for (const Slice& piece : pieces) byte_count += piece.byte_count();
  EXPECT_EQ(byte_count, kShardHeadBytes + 28 + 16384);
  EXPECT_NEAR(100.0 * kExpertHeaderBytes / 16384, 0.17, 0.005);
}

TEST(ExpertFrame, PayloadsAreNotCopied) {
  ExpertFrame first = OneToken(4);
  ExpertFrame second = first;
  second.expert = 1;
  second.same_rows = true;
  const auto pieces = EncodeShardMessage(3, {{first, second}});
  ASSERT_EQ(pieces.size(), 3u);  // the head of the first, its rows, the head of the second
  EXPECT_EQ(pieces[1].bytes().data(), first.rows.bytes().data());
  const Slice message(FromHex(Joined(pieces)).value());
  const auto decoded = DecodeShardMessage(message);
  ASSERT_TRUE(decoded.ok());
  for (const ExpertFrame& frame : decoded->frames)
    EXPECT_EQ(frame.rows.bytes().data(), message.bytes().data() + kShardHeadBytes + 28);
}

// Their answers are f32, and have to fit a message, too.
TEST(ExpertFrame, IntegersCountAsTheirAnswers) {
  ExpertFrame frame = OneToken(65535);
  frame.row_type = RowType::kIntegers;
  frame.tokens = 250;
  const std::vector<float> row(65535, 1);
  std::vector<uint8_t> bytes(frame.tokens * RowBytes(frame.row_type, row.size()));
  for (size_t i = 0; i < frame.tokens; ++i)
    StoreRow(row, frame.row_type, &bytes[i * RowBytes(frame.row_type, row.size())]);
  frame.rows = Slice(std::move(bytes));
  EXPECT_LT(frame.rows.byte_count(), kMaxShardRowBytes);
  const auto decoded =
      DecodeShardMessage(Slice(FromHex(Joined(EncodeShardMessage(3, {{frame}}))).value()));
  ASSERT_FALSE(decoded.ok());
  EXPECT_NE(decoded.error().message().find("65535000"), std::string::npos)
      << decoded.error().message();
}

// 1,024 frames that mean one set of rows stay as small as one on the wire, and are counted each.
TEST(ExpertFrame, RepeatedRowsCountAgainstTheLimit) {
  std::vector<ExpertFrame> frames(kMaxShardFrames, OneToken(16384));
  for (size_t i = 1; i < frames.size(); ++i) frames[i].same_rows = true;
  const auto refused =
      DecodeShardMessage(Slice(FromHex(Joined(EncodeShardMessage(3, frames))).value()));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("62914560"), std::string::npos)
      << refused.error().message();
  frames.resize(960);
  EXPECT_TRUE(
      DecodeShardMessage(Slice(FromHex(Joined(EncodeShardMessage(3, frames))).value())).ok());
}

TEST(ExpertFrame, ForwardingChangesThePeerAlone) {
  const Json& json = Golden().at("messages").at(1);
  const Slice message = Bytes(json, "hex");
  EXPECT_EQ(ShardPeer(message.bytes()).value(), Number(json, "peer"));
  const auto pieces = WithShardPeer(message, 12);
  EXPECT_EQ(pieces.back().bytes().data(), message.bytes().data() + kShardHeadBytes);
  EXPECT_EQ(Joined(pieces), "020c000000" + Hex(message).substr(10));
  EXPECT_FALSE(ShardPeer(ByteSpan(message.bytes()).first(32)).ok());
}

TEST(ExpertFrame, HeartbeatsAndFailuresSayWhatTheyHold) {
  const Heartbeat heartbeat{3, 1250, uint64_t{6} << 30, 64u << 20};
  ExpertFrame dispatch = OneToken(4);
  dispatch.sequence = kBatchBit | 5;
  dispatch.expert = 9;
  const auto decoded = DecodeShardMessage(Slice(
      FromHex(Joined(EncodeShardMessage(
                  1, {{HeartbeatFrame(heartbeat), FailedResult(dispatch, std::string(2000, 'x')),
                       CancelFrame(4, 3, kAnyExpert)}})))
          .value()));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message();
  EXPECT_EQ(ReadHeartbeat(decoded->frames[0]), heartbeat);
  EXPECT_TRUE(decoded->frames[1].failed);
  EXPECT_EQ(decoded->frames[1].sequence, dispatch.sequence);
  EXPECT_EQ(decoded->frames[1].body.byte_count(), kMaxFailureBytes);
  EXPECT_EQ(decoded->frames[2].expert, kAnyExpert);
}

}  // namespace
}  // namespace weft::wire
