// Data frames against tests/golden, which an independent packer (make_frames.py) wrote.
#include "wire/data_frame.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <map>
#include <string>

#include "base/random.h"
#include "wire/golden_testing.h"

namespace weft::wire {
namespace {

using Json = boost::json::value;

std::vector<uint8_t> Hex(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return FromHex(text).value();
}

const Json& Golden() {
  static const Json golden = GoldenJson("frames.json");
  return golden;
}

std::vector<wire::Run> Runs(const Json& frame) {
  const std::map<std::string, OutputKind> kinds = {
      {"none", OutputKind::kNone},     {"hidden", OutputKind::kHidden},
      {"argmax", OutputKind::kArgmax}, {"candidates", OutputKind::kCandidates},
      {"logits", OutputKind::kLogits}, {"draw", OutputKind::kDraw}};
  std::vector<wire::Run> runs;
  for (const Json& run : frame.at("runs").as_array())
    runs.push_back({Number(run, "session"), Number(run, "generation"),
                    Number(run, "first_position"), static_cast<uint16_t>(Number(run, "count")),
                    kinds.at(String(run, "output")),
                    static_cast<uint16_t>(Number(run, "candidate_count")),
                    static_cast<uint8_t>(Number(run, "marks"))});
  return runs;
}

FrameHeader Header(const Json& frame) {
  FrameHeader header;
  header.type = String(frame, "type") == "step" ? FrameType::kStep : FrameType::kResult;
  header.sequence = Number(frame, "sequence");
  header.binding = Number(frame, "binding");
  header.stage = static_cast<uint16_t>(Number(frame, "stage"));
  header.columns = Number(frame, "columns");
  header.dtype = DTypeFromName(String(frame, "dtype")).value();
  header.queue_us = Number(frame, "queue_us");
  header.compute_us = Number(frame, "compute_us");
  for (const wire::Run& run : Runs(frame)) header.rows += run.count;
  return header;
}

TEST(DataFrame, EncodesTheGoldenBytes) {
  for (const Json& frame : Golden().at("frames").as_array()) {
    const std::string name = String(frame, "name");
    const std::vector<uint8_t> payload = Hex(String(frame, "payload_hex"));
    std::vector<uint8_t> bytes = EncodeFrameHead(Header(frame), Runs(frame), payload.size());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    EXPECT_EQ(bytes, Hex(ReadTextFile(GoldenPath(name + ".hex")).value())) << name;
  }
}

TEST(DataFrame, DecodesTheGoldenBytes) {
  int count = 0;
  for (const Json& frame : Golden().at("frames").as_array()) {
    const std::string name = String(frame, "name");
    const Slice message(Hex(ReadTextFile(GoldenPath(name + ".hex")).value()));
    const Result<Frame> decoded = DecodeFrame(message);
    ASSERT_TRUE(decoded.ok()) << name << ": " << decoded.error().ToString();
    const FrameHeader expected = Header(frame);
    EXPECT_EQ(decoded->header.type, expected.type) << name;
    EXPECT_EQ(decoded->header.rows, expected.rows) << name;
    EXPECT_EQ(decoded->header.dtype, expected.dtype) << name;
    EXPECT_EQ(decoded->header.queue_us, expected.queue_us) << name;
    EXPECT_EQ(decoded->header.compute_us, expected.compute_us) << name;
    EXPECT_EQ(ToHex(decoded->payload.bytes()), String(frame, "payload_hex")) << name;
    const std::vector<wire::Run> runs = Runs(frame);
    const Status check =
        CheckFrame(*decoded, {expected.type, expected.sequence, expected.binding, expected.stage,
                              runs, expected.columns, expected.dtype, Number(frame, "vocabulary")});
    EXPECT_TRUE(check.ok()) << name << ": " << (check.ok() ? "" : check.error().ToString());
    ++count;
  }
  EXPECT_GE(count, 10);
}

TEST(DataFrame, RefusesEachBrokenFieldAndNamesIt) {
  int count = 0;
  for (const Json& bad : Golden().at("refused").as_array()) {
    const Result<Frame> decoded = DecodeFrame(Slice(Hex(String(bad, "hex"))));
    ASSERT_FALSE(decoded.ok()) << String(bad, "name");
    EXPECT_EQ(decoded.error().code(), ErrorCode::kInvalidData);
    EXPECT_NE(decoded.error().message().find(String(bad, "problem")), std::string::npos)
        << String(bad, "name") << ": " << decoded.error().message();
    ++count;
  }
  EXPECT_GE(count, 25);
}

TEST(DataFrame, EveryTruncationAndRandomFlipIsRefusedOrStaysConsistent) {
  SeededRandom random(7);
  for (const Json& frame : Golden().at("frames").as_array()) {
    const auto bytes = Hex(ReadTextFile(GoldenPath(String(frame, "name") + ".hex")).value());
    for (size_t cut = 0; cut < bytes.size(); ++cut)
      EXPECT_FALSE(DecodeFrame(Slice(std::vector(bytes.begin(), bytes.begin() + cut))).ok());
    for (int i = 0; i < 2000; ++i) {
      auto flipped = bytes;
      flipped[random.Below(bytes.size())] ^= static_cast<uint8_t>(1u << random.Below(8));
      const Result<Frame> decoded = DecodeFrame(Slice(flipped));
      if (!decoded.ok()) continue;
      // Whatever is accepted must mean exactly these bytes.
      auto again = EncodeFrameHead(decoded->header, decoded->runs, decoded->payload.byte_count());
      again.insert(again.end(), decoded->payload.bytes().begin(), decoded->payload.bytes().end());
      EXPECT_EQ(again, flipped);
    }
  }
}

TEST(CheckFrame, NamesTheFieldThatDiffers) {
  const std::vector<wire::Run> runs = {{1, 0, 128, 1, OutputKind::kArgmax, 0},
                                       {2, 1, 3, 1, OutputKind::kArgmax, 0}};
  const Frame frame =
      DecodeFrame(Slice(Hex(ReadTextFile(GoldenPath("result_argmax.hex")).value()))).value();
  const ExpectedFrame good = {FrameType::kResult, 4, 1, 1, runs, 0, DType::kF16, 151936};
  ASSERT_TRUE(CheckFrame(frame, good).ok());
  const auto problem = [&](auto change) {
    ExpectedFrame expected = good;
    std::vector<wire::Run> changed = runs;
    expected.runs = changed;
    change(expected, changed);
    expected.runs = changed;
    const Status status = CheckFrame(frame, expected);
    return status.ok() ? std::string("accepted") : status.error().message();
  };
  using E = ExpectedFrame&;
  using R = std::vector<wire::Run>&;
  EXPECT_EQ(problem([](E e, R) { e.sequence = 5; }), "The frame's sequence is 4, expected 5.");
  EXPECT_EQ(problem([](E e, R) { e.binding = 2; }), "The frame's binding is 1, expected 2.");
  EXPECT_EQ(problem([](E e, R) { e.stage = 0; }), "The frame's stage is 1, expected 0.");
  EXPECT_EQ(problem([](E e, R) { e.type = FrameType::kStep; }),
            "The frame's type is 2, expected 1.");
  EXPECT_EQ(problem([](E e, R) { e.columns = 8; }),
            "The frame's number of columns is 0, expected 8.");
  EXPECT_EQ(problem([](E, R r) { r.pop_back(); }), "The frame's number of runs is 2, expected 1.");
  EXPECT_NE(problem([](E, R r) { r[1].generation = 2; }).find("Run 1"), std::string::npos);
  EXPECT_NE(problem([](E, R r) { r[0].session = 3; }).find("Run 0"), std::string::npos);
  EXPECT_NE(problem([](E, R r) { r[0].first_position = 127; }).find("position 128"),
            std::string::npos);
}

TEST(CheckFrame, LogitsNeedTheVocabulary) {
  const Frame frame =
      DecodeFrame(Slice(Hex(ReadTextFile(GoldenPath("result_logits.hex")).value()))).value();
  ExpectedFrame expected = {FrameType::kResult, 6, 1, 1, frame.runs, 0, DType::kF32, 3};
  EXPECT_TRUE(CheckFrame(frame, expected).ok());
  expected.vocabulary = 4;
  EXPECT_FALSE(CheckFrame(frame, expected).ok());
}

TEST(Payloads, ArgmaxRoundTripAndRefusals) {
  std::vector<uint8_t> bytes;
  AppendArgmax({17, -2.5f, 0.125f}, bytes);
  ASSERT_EQ(bytes.size(), 12u);
  const ArgmaxResult result = DecodeArgmax(bytes, 18).value();
  EXPECT_EQ(result.token_id, 17);
  EXPECT_EQ(result.logit, -2.5f);
  EXPECT_EQ(result.margin, 0.125f);
  EXPECT_FALSE(DecodeArgmax(bytes, 17).ok());
  EXPECT_FALSE(DecodeArgmax(ByteSpan(bytes).first(11), 18).ok());
  for (const ArgmaxResult bad : {ArgmaxResult{-1, 0, 0}, ArgmaxResult{1, NAN, 0},
                                 ArgmaxResult{1, 0, INFINITY}, ArgmaxResult{1, 0, -0.5f}}) {
    bytes.clear();
    AppendArgmax(bad, bytes);
    EXPECT_FALSE(DecodeArgmax(bytes, 18).ok());
  }
}

TEST(Payloads, CandidatesRoundTripAndRefusals) {
  std::vector<uint8_t> bytes;
  AppendCandidates({{{3, 2.0f}, {1, 1.0f}}, 2.5f, 1.75f}, bytes);
  const CandidatesResult result = DecodeCandidates(bytes, 2, 10).value();
  ASSERT_EQ(result.candidates.size(), 2u);
  EXPECT_EQ(result.candidates[1].token_id, 1);
  EXPECT_EQ(result.logsumexp, 2.5f);
  EXPECT_EQ(result.scaled_sum, 1.75f);
  EXPECT_FALSE(DecodeCandidates(bytes, 3, 10).ok());
  EXPECT_FALSE(DecodeCandidates(bytes, 2, 3).ok());
  StoreLe<uint32_t>(bytes.data(), 3);
  EXPECT_FALSE(DecodeCandidates(bytes, 2, 10).ok());
  for (const CandidatesResult& bad : {CandidatesResult{{{3, 1.0f}, {1, 2.0f}}, 0, 1},
                                      CandidatesResult{{{3, NAN}, {1, 2.0f}}, 0, 1},
                                      CandidatesResult{{{3, 2.0f}, {1, 1.0f}}, INFINITY, 1},
                                      CandidatesResult{{{3, 2.0f}, {1, 1.0f}}, 0, 0.5f},
                                      CandidatesResult{{{3, 2.0f}, {1, 1.0f}}, 0, NAN}}) {
    bytes.clear();
    AppendCandidates(bad, bytes);
    EXPECT_FALSE(DecodeCandidates(bytes, 2, 10).ok());
  }
}

TEST(Payloads, DrawRoundTripAndRefusals) {
  std::vector<uint8_t> bytes;
  AppendDraw({{9, -3.5f}, 4.25f, {{3, 2.0f}, {1, 1.0f}}}, bytes);
  ASSERT_EQ(bytes.size(), 12u + 2 * 8);
  const DrawResult result = DecodeDraw(bytes, 2, 10).value();
  EXPECT_EQ(result.drawn.token_id, 9);
  EXPECT_EQ(result.drawn.logit, -3.5f);
  EXPECT_EQ(result.logsumexp, 4.25f);
  ASSERT_EQ(result.best.size(), 2u);
  EXPECT_EQ(result.best[1].token_id, 1);
  EXPECT_FALSE(DecodeDraw(bytes, 1, 10).ok());
  EXPECT_FALSE(DecodeDraw(bytes, 2, 9).ok());
  for (const DrawResult& bad : {DrawResult{{9, NAN}, 0, {{3, 2.0f}, {1, 1.0f}}},
                                DrawResult{{9, 0}, INFINITY, {{3, 2.0f}, {1, 1.0f}}},
                                DrawResult{{9, 0}, 0, {{3, 2.0f}, {1, 3.0f}}},
                                DrawResult{{9, 0}, 0, {{3, 2.0f}, {10, 1}}}}) {
    bytes.clear();
    AppendDraw(bad, bytes);
    EXPECT_FALSE(DecodeDraw(bytes, 2, 10).ok());
  }
}

TEST(Payloads, ResultPayloadBytesFollowsTheTable) {
  const std::vector<wire::Run> runs = {{1, 0, 0, 3, OutputKind::kNone, 0},
                                       {2, 0, 0, 1, OutputKind::kArgmax, 0},
                                       {3, 0, 0, 1, OutputKind::kCandidates, 64},
                                       {4, 0, 0, 2, OutputKind::kLogits, 0},
                                       {5, 0, 0, 1, OutputKind::kDraw, 5}};
  EXPECT_EQ(ResultPayloadBytes(runs, 0, DType::kF16, 100),
            12u + 12 + 64 * 8 + 2 * 100 * 4 + 12 + 5 * 8);
  const std::vector<wire::Run> hidden = {{1, 0, 0, 128, OutputKind::kHidden, 0}};
  EXPECT_EQ(ResultPayloadBytes(hidden, 1024, DType::kF16, 0), 128u * 1024 * 2);
}

}  // namespace
}  // namespace weft::wire
