// Residual rows over the wire in each boundary dtype: what arrives is what was computed, and what
// the dtype cannot hold is refused with the layer's number.
#include "worker/step_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tensor/half.h"

namespace weft::worker {
namespace {

using testing::HasSubstr;

constexpr uint32_t kColumns = 5;
constexpr LayerRange kInner = {1, 3};

ModelShape MakeModel(DType boundary_dtype) {
  ModelShape model;
  model.boundary_dtype = boundary_dtype;
  model.hidden_columns = kColumns;
  model.vocabulary = 100;
  model.layers.resize(4);
  return model;
}

wire::FrameHeader Header(DType dtype, uint32_t rows) {
  wire::FrameHeader header;
  header.rows = rows;
  header.columns = kColumns;
  header.dtype = dtype;
  return header;
}

std::vector<wire::Run> HiddenRun(uint16_t rows) {
  return {{7, 0, 0, rows, wire::OutputKind::kHidden, 0}};
}

// The message, as a receiver gets it.
Slice Joined(const std::vector<Slice>& pieces) {
  std::vector<uint8_t> bytes;
  for (const Slice& piece : pieces) {
    bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
  }
  return Slice(std::move(bytes));
}

Result<std::vector<Slice>> Encoded(DType dtype, const std::vector<float>& hidden) {
  const auto rows = static_cast<uint32_t>(hidden.size() / kColumns);
  wire::Frame step;
  step.header = Header(dtype, rows);
  step.runs = HiddenRun(static_cast<uint16_t>(rows));
  engine::StepOutput output;
  output.hidden = hidden;
  return EncodeResult(step, MakeModel(dtype), kInner, output, {});
}

// Encodes rows as a result of one stage and decodes them as a step of the next.
Result<std::vector<float>> RoundTrip(DType dtype, const std::vector<float>& hidden) {
  ASSIGN_OR_RETURN(const std::vector<Slice> pieces, Encoded(dtype, hidden));
  ASSIGN_OR_RETURN(const wire::Frame result, wire::DecodeFrame(Joined(pieces)));
  wire::Frame step = result;
  step.header.type = wire::FrameType::kStep;
  DecodedStep decoded;
  TRY(DecodeStep(step, MakeModel(dtype), kInner, {}, &decoded));
  return decoded.hidden;
}

TEST(StepCodec, RowsArriveAsTheyWereRounded) {
  const std::vector<float> rows = {0, -1.5f, 3.1415927f, 1e-6f, -60000.5f, 0.1f, 7, 8, 9, -0.0f};
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    SCOPED_TRACE(DTypeName(dtype));
    std::vector<float> expected = rows;
    for (float& value : expected) {
      if (dtype == DType::kF16) value = F16ToF32(F32ToF16(value));
      if (dtype == DType::kBF16) value = BF16ToF32(F32ToBF16(value));
    }
    const auto got = RoundTrip(dtype, rows);
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    EXPECT_EQ(*got, expected);
    const auto again = RoundTrip(dtype, *got);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, expected);  // rows that an engine has rounded lose nothing
  }
}

TEST(StepCodec, ValuesBeyondTheDtypeNameTheLayer) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const struct {
    DType dtype;
    float fits, too_large;
  } cases[] = {{DType::kF16, 65504.0f, 65520.0f},
               {DType::kBF16, BF16ToF32(0x7f7f), kLargest},
               {DType::kF32, kLargest, std::numeric_limits<float>::infinity()}};
  for (const auto& c : cases) {
    SCOPED_TRACE(DTypeName(c.dtype));
    const auto good = RoundTrip(c.dtype, {0, c.fits, -c.fits, 1, 2});
    ASSERT_TRUE(good.ok()) << good.error().ToString();
    EXPECT_EQ((*good)[1], c.fits);
    const auto nan = std::numeric_limits<float>::quiet_NaN();
    const auto bad = Encoded(c.dtype, {0, c.too_large, -c.too_large, nan, 2});
    ASSERT_FALSE(bad.ok());
    EXPECT_THAT(bad.error().message(), HasSubstr("3 values of the residual stream after layer 2"));
    EXPECT_THAT(bad.error().message(), HasSubstr("in " + std::string(DTypeName(c.dtype))));
  }
}

TEST(StepCodec, RowsOfAnotherDtypeOrSizeAreRefused) {
  const auto decode = [](DType boundary, DType sent, size_t payload_bytes) {
    wire::Frame step;
    step.header = Header(sent, 1);
    step.runs = HiddenRun(1);
    step.payload = Slice(std::vector<uint8_t>(payload_bytes));
    DecodedStep decoded;
    return DecodeStep(step, MakeModel(boundary), kInner, {}, &decoded);
  };
  EXPECT_TRUE(decode(DType::kF16, DType::kF16, 10).ok());
  EXPECT_TRUE(decode(DType::kF16, DType::kF32, 20).ok());
  EXPECT_TRUE(decode(DType::kF32, DType::kF32, 20).ok());
  const Status half = decode(DType::kF32, DType::kF16, 10);
  ASSERT_FALSE(half.ok());
  EXPECT_THAT(half.error().message(), HasSubstr("come as f32, not f16"));
  EXPECT_FALSE(decode(DType::kF16, DType::kBF16, 10).ok());
  EXPECT_FALSE(decode(DType::kF32, DType::kF32, 10).ok());
  EXPECT_FALSE(decode(DType::kF16, DType::kF16, 12).ok());
}

}  // namespace
}  // namespace weft::worker
