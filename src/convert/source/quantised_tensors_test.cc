#include "convert/source/quantised_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace weft::convert {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

SourceTensor Stored(const std::string& type, std::vector<uint64_t> shape, uint64_t element_bytes) {
  SourceTensor tensor;
  tensor.file = "model.safetensors";
  tensor.type_name = type;
  if (type == "F32") tensor.format = RowFormat::kF32;
  if (type == "F16") tensor.format = RowFormat::kF16;
  tensor.shape = std::move(shape);
  uint64_t count = 1;
  for (const uint64_t length : tensor.shape) count *= length;
  tensor.bytes = Slice(std::vector<uint8_t>(count * element_bytes));
  return tensor;
}

std::string Config(json::object quantisation) {
  return json::serialize(json::object{{"quantization_config", std::move(quantisation)}});
}

TensorMap Gptq() {
  return {{"x.qweight", Stored("I32", {8, 16}, 4)},
          {"x.qzeros", Stored("I32", {2, 2}, 4)},
          {"x.scales", Stored("F16", {2, 16}, 2)},
          {"x.g_idx", Stored("I32", {64}, 4)},
          {"x.bias", Stored("F16", {16}, 2)}};
}

TEST(PresentQuantised, ShowsOneMatrixUnderItsUsualName) {
  TensorMap tensors = Gptq();
  ASSERT_TRUE(PresentQuantised(Config({{"quant_method", "gptq"}}), &tensors).ok());
  ASSERT_EQ(tensors.size(), 2u);  // the bias stays
  const SourceTensor& matrix = tensors.at("x.weight");
  EXPECT_EQ(matrix.shape, (std::vector<uint64_t>{16, 64}));
  EXPECT_EQ(matrix.own_name, "x.qweight");
  ASSERT_NE(matrix.coded, nullptr);
}

TEST(PresentQuantised, TakesTheBitsOfTheConfigurationWhereNoOrderIsStored) {
  TensorMap tensors = Gptq();
  tensors.erase("x.g_idx");
  tensors.at("x.qzeros") = Stored("I32", {2, 4}, 4);
  const json::object config{{"quant_method", "gptq"}, {"bits", 8}};
  ASSERT_TRUE(PresentQuantised(Config(config), &tensors).ok());
  EXPECT_EQ(tensors.at("x.weight").shape, (std::vector<uint64_t>{16, 32}));
}

TEST(PresentQuantised, LeavesOthersAlone) {
  const std::string configs[] = {"{}", "[]", Config({{"quant_method", "mxfp4"}})};
  for (const std::string& config : configs) {
    TensorMap tensors = Gptq();
    EXPECT_TRUE(PresentQuantised(config, &tensors).ok()) << config;
    EXPECT_TRUE(tensors.contains("x.qweight"));
  }
}

TEST(PresentQuantised, ReadsTheConfigurationOfAWrappedDecoder) {
  TensorMap tensors = Gptq();
  const json::object config{{"text_config", {{"quantization_config", {{"quant_method", "gptq"}}}}}};
  ASSERT_TRUE(PresentQuantised(json::serialize(config), &tensors).ok());
  EXPECT_TRUE(tensors.contains("x.weight"));
}

TEST(PresentQuantised, RefusesOtherMethodsByName) {
  struct Case {
    json::object config;
    std::string sentence;
  };
  const Case cases[] = {
      {{{"quant_method", "bitsandbytes"}}, "the method 'bitsandbytes'"},
      {{{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}, "'modelopt NVFP4'"},
      {{{"quant_method", "compressed-tensors"}, {"format", "pack-quantized"}},
       "the format 'pack-quantized'"},
      {{{"quant_method", "gptq"}, {"checkpoint_format", "marlin"}}, "the format 'marlin'"},
      {{{"quant_method", "awq"}, {"version", "gemv"}}, "the version 'gemv'"},
      {{{"quant_method", "gptq"}, {"bits", 3}}, "the method 'gptq' of 3 bits"},
      {{}, "the method ''"},
  };
  for (const Case& c : cases) {
    TensorMap tensors = Gptq();
    const Status status = PresentQuantised(Config(c.config), &tensors);
    ASSERT_FALSE(status.ok()) << c.sentence;
    EXPECT_EQ(status.error().code(), ErrorCode::kUnsupported);
    EXPECT_THAT(status.error().message(), HasSubstr(c.sentence));
    EXPECT_THAT(status.error().message(), HasSubstr("are not converted, but for FP8"));
  }
}

void ExpectMisfit(TensorMap tensors, json::object config, const std::string& sentence) {
  const Status status = PresentQuantised(Config(std::move(config)), &tensors);
  ASSERT_FALSE(status.ok()) << sentence;
  EXPECT_EQ(status.error().code(), ErrorCode::kInvalidData);
  EXPECT_THAT(status.error().message(), HasSubstr(sentence));
}

TEST(PresentQuantised, NamesThePartThatDoesNotFit) {
  const json::object gptq{{"quant_method", "gptq"}};
  TensorMap tensors = Gptq();
  tensors.erase("x.scales");
  ExpectMisfit(tensors, gptq, "has 'x.qweight', but not 'x.scales'");
  tensors = Gptq();
  tensors.at("x.qweight") = Stored("I32", {7, 16}, 4);
  ExpectMisfit(tensors, gptq, "'x.qweight' of 'model.safetensors' has shape [7, 16]");
  tensors = Gptq();
  tensors.at("x.qzeros") = Stored("I32", {2, 3}, 4);
  ExpectMisfit(tensors, gptq, "expected [2, 2] in I32");
  tensors = Gptq();
  tensors.at("x.scales") = Stored("F16", {2, 15}, 2);
  ExpectMisfit(tensors, gptq, "'x.qweight'");
  tensors = Gptq();
  std::vector<uint8_t> order(64 * 4);
  order[4 * 63] = 2;
  tensors.at("x.g_idx").bytes = Slice(order);
  ExpectMisfit(tensors, gptq, "holds the group 2; there are 2");
  ExpectMisfit(Gptq(), {{"quant_method", "awq"}}, "AWQ of 4 bits");
}

TEST(PresentQuantised, KnowsScalesOfFp8ByTheirShape) {
  for (const std::vector<uint64_t>& shape :
       std::vector<std::vector<uint64_t>>{{}, {1}, {40}, {40, 1}, {3, 2}}) {
    TensorMap tensors{{"x.weight", Stored("F8_E4M3", {40, 64}, 1)},
                      {"x.weight_scale_inv", Stored("F32", shape, 4)}};
    const json::object config{{"quant_method", "fp8"}, {"weight_block_size", {16, 32}}};
    const Status status = PresentQuantised(Config(config), &tensors);
    ASSERT_TRUE(status.ok()) << status.error().message();
    EXPECT_EQ(tensors.size(), 1u);
    EXPECT_EQ(tensors.at("x.weight").format, RowFormat::kF8E4M3);
  }
  TensorMap tensors{{"x.weight", Stored("F8_E4M3", {40, 64}, 1)}};
  ExpectMisfit(tensors, {{"quant_method", "fp8"}}, "neither 'x.weight_scale_inv' nor");
  tensors["x.weight_scale"] = Stored("F32", {39}, 4);
  ExpectMisfit(tensors, {{"quant_method", "fp8"}}, "expected one scale, one for each of 40 rows");
  tensors["x.weight_scale"] = Stored("F32", {1}, 4);
  ExpectMisfit(tensors, {{"quant_method", "fp8"}, {"weight_block_size", {0, 32}}},
               "'weight_block_size' in config.json is [0,32]");
}

}  // namespace
}  // namespace weft::convert
