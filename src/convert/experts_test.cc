// Experts from every spelling that checkpoints have: the same values, an expert a blob.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "convert/convert.h"
#include "convert/source/checkpoint_testing.h"
#include "package/package.h"
#include "program/codec.h"

namespace weft::convert {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using testing::FloatTensor;
using testing::FloatTensors;
using ::testing::HasSubstr;
using testing::RandomTensor;

constexpr uint64_t kExperts = 3, kHidden = 64, kWidth = 32;
constexpr char kBlock[] = "model.layers.1.mlp.";

json::object Config() {
  json::object config = testing::TinyQwen3Config();
  config["model_type"] = "qwen3_moe";
  config["architectures"] = json::array{"Qwen3MoeForCausalLM"};
  config["num_experts"] = kExperts;
  config["num_experts_per_tok"] = 2;
  config["moe_intermediate_size"] = kWidth;
  config["norm_topk_prob"] = true;
  config["mlp_only_layers"] = json::array{0};
  return config;
}

// Layer 0 is dense; layer 1 has no MLP yet.
FloatTensors WithoutExperts() {
  FloatTensors tensors = testing::TinyQwen3();
  for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
    tensors.erase(std::string(kBlock) + name + ".weight");
  }
  return tensors;
}

struct Expert {
  FloatTensor gate, up, down;
};
std::vector<Expert> RandomExperts() {
  SeededRandom random(3);
  std::vector<Expert> experts;
  for (uint64_t e = 0; e < kExperts; ++e) {
    experts.push_back({RandomTensor(&random, {kWidth, kHidden}),
                       RandomTensor(&random, {kWidth, kHidden}),
                       RandomTensor(&random, {kHidden, kWidth})});
  }
  return experts;
}

FloatTensor Router() {
  SeededRandom random(4);
  return RandomTensor(&random, {kExperts, kHidden});
}

void Append(FloatTensor* to, const FloatTensor& values) {
  to->values.insert(to->values.end(), values.values.begin(), values.values.end());
}

// Columns of one expert's matrix [rows, columns] as rows.
FloatTensor Transposed(const FloatTensor& matrix) {
  const uint64_t rows = matrix.shape[0], columns = matrix.shape[1];
  FloatTensor out{{columns, rows}, std::vector<float>(matrix.values.size())};
  for (uint64_t r = 0; r < rows; ++r) {
    for (uint64_t c = 0; c < columns; ++c) {
      out.values[c * rows + r] = matrix.values[r * columns + c];
    }
  }
  return out;
}

FloatTensors Separate() {
  FloatTensors tensors = WithoutExperts();
  tensors[std::string(kBlock) + "gate.weight"] = Router();
  const auto experts = RandomExperts();
  for (uint64_t e = 0; e < kExperts; ++e) {
    const std::string prefix = kBlock + ("experts." + std::to_string(e)) + ".";
    tensors[prefix + "gate_proj.weight"] = experts[e].gate;
    tensors[prefix + "up_proj.weight"] = experts[e].up;
    tensors[prefix + "down_proj.weight"] = experts[e].down;
  }
  return tensors;
}

FloatTensors Numbered() {
  const std::string block = "model.layers.1.block_sparse_moe.";
  FloatTensors tensors = WithoutExperts();
  tensors[block + "gate.weight"] = Router();
  const auto experts = RandomExperts();
  for (uint64_t e = 0; e < kExperts; ++e) {
    const std::string prefix = block + "experts." + std::to_string(e) + ".";
    tensors[prefix + "w1.weight"] = experts[e].gate;
    tensors[prefix + "w3.weight"] = experts[e].up;
    tensors[prefix + "w2.weight"] = experts[e].down;
  }
  return tensors;
}

FloatTensors Stacked(bool separate) {
  const std::string stack = std::string(kBlock) + "experts.";
  FloatTensors tensors = WithoutExperts();
  tensors[std::string(kBlock) + "gate.weight"] = Router();
  FloatTensor gate{{kExperts, kWidth, kHidden}, {}}, up = gate;
  FloatTensor both{{kExperts, 2 * kWidth, kHidden}, {}}, down{{kExperts, kHidden, kWidth}, {}};
  for (const Expert& expert : RandomExperts()) {
    Append(&gate, expert.gate);
    Append(&up, expert.up);
    Append(&both, expert.gate);
    Append(&both, expert.up);
    Append(&down, expert.down);
  }
  if (separate) {
    tensors[stack + "gate_proj"] = gate;
    tensors[stack + "up_proj"] = up;
  } else {
    tensors[stack + "gate_up_proj"] = both;
  }
  tensors[stack + "down_proj"] = down;
  return tensors;
}

class ExpertsTest : public ::testing::Test {
 protected:
  Result<ConvertReport> Convert(const FloatTensors& tensors, const json::object& config,
                                std::optional<DType> quantisation = std::nullopt) {
    testing::WriteCheckpoint(folder_.path() / "source", tensors, config);
    return Convert(quantisation);
  }
  Result<ConvertReport> Convert(std::optional<DType> quantisation) {
    ConvertOptions options;
    options.source = folder_.path() / "source";
    options.package = folder_.path() / "package";
    options.force = true;
    options.quantisation = quantisation;
    return ConvertCheckpoint(options, [](const ConvertProgress&) {});
  }
  package::Package Open() const {
    auto package = package::Package::Open(folder_.path() / "package");
    EXPECT_TRUE(package.ok()) << package.error().ToString();
    return std::move(package).value();
  }
  program::Program Layer(const package::Package& package, size_t layer) const {
    const package::Digest digest = package.manifest.layers[layer].program;
    const auto bytes = package.blobs->Get(digest, package.manifest.blobs.at(digest));
    auto program = program::Decode(bytes->bytes());
    EXPECT_TRUE(program.ok()) << program.error().ToString();
    return std::move(program).value();
  }
  static const program::MoeExperts& FindExperts(const program::Program& program) {
    for (const program::Op& op : program.ops) {
      if (const auto* experts = std::get_if<program::MoeExperts>(&op)) return *experts;
    }
    CHECK(false, "no experts");
  }
  std::vector<uint8_t> Bytes(const package::Package& package,
                             const std::vector<program::Part>& parts) const {
    std::vector<uint8_t> out;
    for (const program::Part& part : parts) {
      const package::Digest digest(part.digest);
      const auto blob = package.blobs->Get(digest, package.manifest.blobs.at(digest));
      const ByteSpan run = blob->bytes().subspan(part.offset, part.byte_count);
      out.insert(out.end(), run.begin(), run.end());
    }
    return out;
  }
  std::vector<float> Floats(const package::Package& package, const program::Weight& weight) const {
    const std::vector<uint8_t> bytes = Bytes(package, weight.data);
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  TemporaryFolder folder_;
};

TEST_F(ExpertsTest, EverySpellingGivesTheSameBlobs) {
  ASSERT_TRUE(Convert(Separate(), Config()).ok());
  const package::Package separate = Open();
  // Four weights of a dense layer share one blob; a sparse one has a blob for each expert beside it
  // and the frequencies.
  EXPECT_EQ(separate.manifest.layers[1].blobs.size(), 2u);
  EXPECT_EQ(separate.manifest.layers[2].blobs.size(), 2u + kExperts);

  const FloatTensors others[] = {Stacked(false), Stacked(true), Numbered()};
  for (const FloatTensors& tensors : others) {
    const auto report = Convert(tensors, Config());
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    EXPECT_TRUE(report->lowered) << report->why_not_lowered;
    const package::Package package = Open();
    EXPECT_EQ(package.manifest.layers[2].blobs, separate.manifest.layers[2].blobs);
    EXPECT_EQ(package.manifest.layers[2].program, separate.manifest.layers[2].program);
  }
}

TEST_F(ExpertsTest, AnExpertIsOneBlobWithGateUpAndDown) {
  const auto experts = RandomExperts();
  ASSERT_TRUE(Convert(Separate(), Config()).ok());
  const package::Package package = Open();
  const program::Program layer = Layer(package, 2);
  const auto& op = FindExperts(layer);
  EXPECT_EQ(op.kind, program::Activation::kSilu);
  EXPECT_EQ(op.top_k, 2u);
  const program::Weight& gate_up = layer.weights[op.gate_up];
  const program::Weight& down = layer.weights[op.down];
  ASSERT_EQ(gate_up.data.size(), kExperts);
  FloatTensor expected_gate_up{{}, {}}, expected_down{{}, {}};
  for (uint64_t e = 0; e < kExperts; ++e) {
    EXPECT_EQ(gate_up.data[e].digest, down.data[e].digest);
    Append(&expected_gate_up, experts[e].gate);
    Append(&expected_gate_up, experts[e].up);
    Append(&expected_down, experts[e].down);
  }
  EXPECT_EQ(Floats(package, gate_up), expected_gate_up.values);
  EXPECT_EQ(Floats(package, down), expected_down.values);
}

// What the planner counts: a token reads the experts that it goes to.
TEST_F(ExpertsTest, ATokenReadsTheChosenExperts) {
  ASSERT_TRUE(Convert(Separate(), Config()).ok());
  const package::LayerInfo layer = Open().manifest.layers[2];
  const uint64_t expert_bytes = 3 * kWidth * kHidden * 4;
  // Each of six matrices is rounded down to whole bytes.
  EXPECT_NEAR(static_cast<double>(layer.weight_bytes - layer.read_bytes_per_token),
              static_cast<double>((kExperts - 2) * expert_bytes), 6);
}

// The blobs of experts are worth resuming, too.
TEST_F(ExpertsTest, TakesOverFinishedExperts) {
  FloatTensors broken = Separate();
  broken["model.norm.weight"].values[0] = INFINITY;
  ASSERT_FALSE(Convert(broken, Config(), DType::kQ4).ok());
  const fs::path blobs = folder_.path() / "package.partial" / "blobs";
  std::map<std::string, fs::file_time_type> times;
  for (const auto& entry : fs::directory_iterator(blobs)) {
    const auto time = fs::last_write_time(entry.path()) - std::chrono::hours(1);
    fs::last_write_time(entry.path(), time);
    times[entry.path().filename()] = time;
  }
  // The file's time says that it is another one, so put the old one back.
  const fs::path file = folder_.path() / "source" / "model.safetensors";
  const auto changed = fs::last_write_time(file);
  testing::Write(file, testing::Safetensors(Separate()));
  fs::last_write_time(file, changed);
  const auto report = Convert(DType::kQ4);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  const program::Program layer = Layer(Open(), 2);
  for (const program::Part& part : layer.weights[FindExperts(layer).gate_up].data) {
    const std::string name = ToHex(part.digest);
    ASSERT_TRUE(times.contains(name));
    EXPECT_EQ(fs::last_write_time(folder_.path() / "package" / "blobs" / name), times[name]);
  }
}

TEST_F(ExpertsTest, QuantisedExpertsKeepTheirScalesBesideThem) {
  for (const DType dtype : {DType::kF16, DType::kQ8, DType::kQ4, DType::kQ4S}) {
    const auto report = Convert(Separate(), Config(), dtype);
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    EXPECT_TRUE(report->lowered) << report->why_not_lowered;
    const program::Program layer = Layer(Open(), 2);
    const program::Weight& gate_up = layer.weights[FindExperts(layer).gate_up];
    EXPECT_EQ(gate_up.dtype, dtype);
    for (size_t e = 0; e < gate_up.scale.size(); ++e) {
      EXPECT_EQ(gate_up.scale[e].digest, gate_up.data[e].digest);
    }
    for (const program::Weight& weight : layer.weights) {
      if (weight.name == "model.layers.1.mlp.router.weight") {
        EXPECT_EQ(weight.dtype, DType::kF16);  // choosing wrongly costs more than its bytes
      }
    }
  }
}

// onnxruntime's quantised experts want whole blocks.
TEST_F(ExpertsTest, RowsThatAreNotWholeBlocksStayF16) {
  json::object config = Config();
  config["moe_intermediate_size"] = 20;
  FloatTensors tensors = WithoutExperts();
  SeededRandom random(5);
  tensors[std::string(kBlock) + "gate.weight"] = Router();
  tensors[std::string(kBlock) + "experts.gate_up_proj"] = RandomTensor(&random, {3, 40, kHidden});
  tensors[std::string(kBlock) + "experts.down_proj"] = RandomTensor(&random, {3, kHidden, 20});
  const auto report = Convert(tensors, config, DType::kQ4);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  const program::Program layer = Layer(Open(), 2);
  EXPECT_EQ(layer.weights[FindExperts(layer).gate_up].dtype, DType::kF16);
  EXPECT_EQ(layer.weights[FindExperts(layer).down].dtype, DType::kF16);
}

TEST_F(ExpertsTest, NamesWhatIsMissingOrOfAnotherShape) {
  FloatTensors tensors = Separate();
  tensors.erase("model.layers.1.mlp.experts.2.up_proj.weight");
  EXPECT_THAT(Convert(tensors, Config()).error().message(),
              HasSubstr("lacks the tensor 'model.layers.1.mlp.experts.2.up_proj.weight'"));
  tensors = Stacked(false);
  json::object config = Config();
  config["num_experts"] = 4;
  EXPECT_THAT(Convert(tensors, config).error().message(),
              HasSubstr("'model.layers.1.mlp.gate.weight' of 'model.safetensors' has shape [3, 64] "
                        "and dtype F32; expected shape [4, 64]"));
  tensors = Separate();
  tensors["model.layers.1.mlp.experts.1.down_proj.weight"].values[40] = NAN;
  EXPECT_THAT(Convert(tensors, Config()).error().message(),
              HasSubstr("'model.layers.1.mlp.experts.1.down_proj.weight' of 'model.safetensors': "
                        "the value nan in row 1, column 8"));
}

// ---- gpt-oss

json::object GptOssConfig() {
  json::object config = testing::TinyQwen3Config();
  config["model_type"] = "gpt_oss";
  config["architectures"] = json::array{"GptOssForCausalLM"};
  config["num_hidden_layers"] = 1;
  config["intermediate_size"] = kWidth;
  config["num_local_experts"] = kExperts;
  config["num_experts_per_tok"] = 2;
  config["tie_word_embeddings"] = true;
  config["sliding_window"] = 16;
  return config;
}

// Everything but the experts' matrices.
FloatTensors GptOss() {
  SeededRandom random(8);
  FloatTensors tensors;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape) {
    tensors[name] = RandomTensor(&random, std::move(shape));
  };
  add("model.embed_tokens.weight", {400, kHidden});
  add("model.norm.weight", {kHidden});
  const std::string prefix = "model.layers.0.";
  add(prefix + "input_layernorm.weight", {kHidden});
  add(prefix + "post_attention_layernorm.weight", {kHidden});
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    const uint64_t rows = name[0] == 'k' || name[0] == 'v' ? 32 : 64;
    add(prefix + "self_attn." + name + ".weight", {rows, 64});
    add(prefix + "self_attn." + name + ".bias", {rows});
  }
  add(prefix + "self_attn.sinks", {4});
  add(prefix + "mlp.router.weight", {kExperts, kHidden});
  add(prefix + "mlp.router.bias", {kExperts});
  add(prefix + "mlp.experts.gate_up_proj_bias", {kExperts, 2 * kWidth});
  add(prefix + "mlp.experts.down_proj_bias", {kExperts, kHidden});
  return tensors;
}

constexpr char kGptOssExperts[] = "model.layers.0.mlp.experts.";

TEST_F(ExpertsTest, InterleavedGptOssColumnsBecomeRowsOfGateAndUp) {
  FloatTensors tensors = GptOss();
  FloatTensor gate_up{{kExperts, kHidden, 2 * kWidth}, {}}, down{{kExperts, kWidth, kHidden}, {}};
  FloatTensor expected_gate_up{{}, {}}, expected_down{{}, {}};
  for (const Expert& expert : RandomExperts()) {
    const FloatTensor gate = Transposed(expert.gate), up = Transposed(expert.up);
    for (size_t i = 0; i < gate.values.size(); ++i) {
      gate_up.values.push_back(gate.values[i]);
      gate_up.values.push_back(up.values[i]);
    }
    Append(&down, Transposed(expert.down));
    Append(&expected_gate_up, expert.gate);
    Append(&expected_gate_up, expert.up);
    Append(&expected_down, expert.down);
  }
  tensors[std::string(kGptOssExperts) + "gate_up_proj"] = gate_up;
  tensors[std::string(kGptOssExperts) + "down_proj"] = down;
  const auto report = Convert(tensors, GptOssConfig());
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_TRUE(report->lowered) << report->why_not_lowered;
  const package::Package package = Open();
  const program::Program layer = Layer(package, 1);
  const auto& op = FindExperts(layer);
  EXPECT_EQ(op.kind, program::Activation::kSwigluOai);
  EXPECT_EQ(Floats(package, layer.weights[op.gate_up]), expected_gate_up.values);
  EXPECT_EQ(Floats(package, layer.weights[op.down]), expected_down.values);
  const std::vector<float>& bias =
      tensors[std::string(kGptOssExperts) + "gate_up_proj_bias"].values;
  const std::vector<float> stored = Floats(package, layer.weights[*op.gate_up_bias]);
  ASSERT_EQ(stored.size(), bias.size());
  for (uint64_t e = 0; e < kExperts; ++e) {
    for (uint64_t i = 0; i < kWidth; ++i) {
      const uint64_t first = e * 2 * kWidth;
      EXPECT_EQ(stored[first + i], bias[first + 2 * i]);
      EXPECT_EQ(stored[first + kWidth + i], bias[first + 2 * i + 1]);
    }
  }
  EXPECT_TRUE(program::FindAttention(layer)->sinks.has_value());
}

// A safetensors file with more tensors of bytes in it.
std::string WithBytes(
    const FloatTensors& floats,
    const std::map<std::string, std::pair<std::vector<uint64_t>, std::string>>& u8) {
  const std::string plain = testing::Safetensors(floats);
  uint64_t length = 0;
  std::memcpy(&length, plain.data(), 8);
  json::object header = json::parse(plain.substr(8, length)).as_object();
  std::string data = plain.substr(8 + length);
  for (const auto& [name, tensor] : u8) {
    const size_t begin = data.size();
    data += tensor.second;
    header[name] = {{"dtype", "U8"},
                    {"shape", json::value_from(tensor.first)},
                    {"data_offsets", {begin, data.size()}}};
  }
  return testing::Safetensors(json::serialize(header), data);
}

// e2m1: sign, two bits of exponent with bias 1, one bit of fraction.
float E2m1(int bits) {
  const int exponent = (bits >> 1) & 3, fraction = bits & 1;
  const float magnitude = exponent == 0
                              ? 0.5f * static_cast<float>(fraction)
                              : std::ldexp(1 + 0.5f * static_cast<float>(fraction), exponent - 1);
  return (bits & 8) != 0 ? -magnitude : magnitude;
}

class Mxfp4Test : public ExpertsTest {
 protected:
  Mxfp4Test() {
    SeededRandom random(12);
    const auto bytes = [&](uint64_t count, uint64_t least, uint64_t most) {
      std::string out(count, '\0');
      for (char& c : out) c = static_cast<char>(least + random.Below(most - least + 1));
      return out;
    };
    const std::string stack = kGptOssExperts;
    const uint64_t gate_up_rows = kExperts * 2 * kWidth, down_rows = kExperts * kHidden;
    bytes_[stack + "gate_up_proj_blocks"] = {{kExperts, 2 * kWidth, kHidden / 32, 16},
                                             bytes(gate_up_rows * kHidden / 2, 0, 255)};
    bytes_[stack + "gate_up_proj_scales"] = {{kExperts, 2 * kWidth, kHidden / 32},
                                             bytes(gate_up_rows * kHidden / 32, 110, 130)};
    bytes_[stack + "down_proj_blocks"] = {{kExperts, kHidden, kWidth / 32, 16},
                                          bytes(down_rows * kWidth / 2, 0, 255)};
    bytes_[stack + "down_proj_scales"] = {{kExperts, kHidden, kWidth / 32},
                                          bytes(down_rows * kWidth / 32, 110, 130)};
  }
  Result<ConvertReport> ConvertBytes(std::optional<DType> quantisation) {
    const fs::path source = folder_.path() / "source";
    testing::WriteCheckpoint(source, {}, GptOssConfig());
    testing::Write(source / "model.safetensors", WithBytes(GptOss(), bytes_));
    return Convert(quantisation);
  }
  // Value [row, column] of a matrix with all experts' rows.
  float Value(const std::string& matrix, uint64_t row, uint64_t column, uint64_t columns) const {
    const std::string& blocks = bytes_.at(kGptOssExperts + matrix + "_blocks").second;
    const std::string& scales = bytes_.at(kGptOssExperts + matrix + "_scales").second;
    const auto byte = static_cast<uint8_t>(blocks[(row * columns + column) / 2]);
    const auto exponent = static_cast<uint8_t>(scales[(row * columns + column) / 32]);
    return std::ldexp(E2m1(column % 2 == 0 ? byte & 15 : byte >> 4), exponent - 127);
  }
  std::map<std::string, std::pair<std::vector<uint64_t>, std::string>> bytes_;
};

TEST_F(Mxfp4Test, IsHeldByQ8WithoutLoss) {
  const auto report = ConvertBytes(std::nullopt);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_TRUE(report->lowered) << report->why_not_lowered;
  const package::Package package = Open();
  const program::Program layer = Layer(package, 1);
  const program::Weight& weight = layer.weights[FindExperts(layer).gate_up];
  ASSERT_EQ(weight.dtype, DType::kQ8);
  const std::vector<uint8_t> data = Bytes(package, weight.data);
  const std::vector<uint8_t> scale = Bytes(package, weight.scale);
  const uint64_t blocks = kHidden / 32;
  for (uint64_t row = 0; row < kExperts * 2 * kWidth; ++row) {
    std::vector<uint16_t> scales(blocks);
    std::memcpy(scales.data(), scale.data() + row * blocks * 2, blocks * 2);
    std::vector<float> values(kHidden);
    DequantizeRow(DType::kQ8, ByteSpan(data).subspan(row * kHidden, kHidden), scales, {}, values);
    const uint64_t expert = row / (2 * kWidth), within = row % (2 * kWidth);
    const uint64_t from =
        expert * 2 * kWidth + (within < kWidth ? 2 * within : 2 * (within - kWidth) + 1);
    for (uint64_t column = 0; column < kHidden; ++column) {
      ASSERT_EQ(values[column], Value("gate_up_proj", from, column, kHidden)) << row;
    }
  }
}

TEST_F(Mxfp4Test, BecomesOtherDtypesFromItsValues) {
  ASSERT_TRUE(ConvertBytes(DType::kF32).ok());
  const package::Package package = Open();
  const program::Program layer = Layer(package, 1);
  const std::vector<float> down = Floats(package, layer.weights[FindExperts(layer).down]);
  for (uint64_t row = 0; row < kExperts * kHidden; ++row) {
    for (uint64_t column = 0; column < kWidth; ++column) {
      ASSERT_EQ(down[row * kWidth + column], Value("down_proj", row, column, kWidth));
    }
  }
  EXPECT_TRUE(ConvertBytes(DType::kQ4)->lowered);
}

TEST_F(Mxfp4Test, NamesWhatIsWrong) {
  const std::string scales = std::string(kGptOssExperts) + "down_proj_scales";
  const auto whole = bytes_;
  bytes_[scales].second[7] = static_cast<char>(255);
  bytes_[std::string(kGptOssExperts) + "down_proj_blocks"].second[7 * 16] = 0x22;
  EXPECT_THAT(ConvertBytes(std::nullopt).error().message(),
              HasSubstr("down_proj_blocks' of 'model.safetensors': the value"));
  bytes_ = whole;
  bytes_.erase(scales);
  EXPECT_THAT(ConvertBytes(std::nullopt).error().message(),
              HasSubstr("lacks the tensor 'model.layers.0.mlp.experts.down_proj_scales' (expected "
                        "shape [3, 64, 1] in U8)"));
  bytes_ = whole;
  bytes_[scales].first = {kExperts, kHidden};
  EXPECT_THAT(ConvertBytes(std::nullopt).error().message(), HasSubstr("expected shape [3, 64, 1]"));
}

}  // namespace
}  // namespace weft::convert
