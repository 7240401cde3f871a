// From a checkpoint folder to a package: what is stored is what the checkpoint holds, programs have
// the model's shapes, and nothing half-made ever has the package's name.
#include "convert/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "convert/source/checkpoint_testing.h"
#include "convert/weights/weight_errors.h"
#include "onnx/load.h"
#include "package/package.h"
#include "program/codec.h"

namespace weft::convert {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using ::testing::HasSubstr;

Result<ConvertReport> Convert(ConvertOptions options) {
  return ConvertCheckpoint(options, [](const ConvertProgress&) {});
}

program::Program LayerProgram(const package::Package& package, size_t layer) {
  const package::Digest digest = package.manifest.layers[layer].program;
  const auto bytes = package.blobs->Get(digest, package.manifest.blobs.at(digest));
  EXPECT_TRUE(bytes.ok());
  auto program = program::Decode(bytes->bytes());
  EXPECT_TRUE(program.ok()) << program.error().ToString();
  return std::move(program).value();
}

std::vector<uint8_t> ReadParts(const package::Package& package,
                               const std::vector<program::Part>& parts) {
  std::vector<uint8_t> out;
  for (const program::Part& part : parts) {
    const package::Digest digest(part.digest);
    const auto bytes = package.blobs->Get(digest, package.manifest.blobs.at(digest));
    EXPECT_TRUE(bytes.ok());
    const ByteSpan run = bytes->bytes().subspan(part.offset, part.byte_count);
    out.insert(out.end(), run.begin(), run.end());
  }
  return out;
}

// The weight's values in f32, read through the program of the layer.
std::vector<float> WeightValues(const package::Package& package, const program::Weight& weight) {
  const uint64_t columns = weight.shape.back();
  const uint64_t rows = weight.shape.size() == 1 ? 1 : weight.shape[0];
  std::vector<float> values(rows * columns);
  const std::vector<uint8_t> data = ReadParts(package, weight.data);
  if (!IsBlockFormat(weight.dtype)) {
    ToF32(weight.dtype, data.data(), values);
    return values;
  }
  const std::vector<uint8_t> scale = ReadParts(package, weight.scale);
  const auto words = static_cast<size_t>(ScaleWords(weight.dtype, static_cast<int64_t>(columns)));
  const size_t row_bytes = data.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    std::vector<uint16_t> scales(words);
    std::memcpy(scales.data(), scale.data() + row * words * 2, words * 2);
    DequantizeRow(weight.dtype, ByteSpan(data).subspan(row * row_bytes, row_bytes), scales, {},
                  std::span(values).subspan(row * columns, columns));
  }
  return values;
}

const program::Weight* FindWeight(const program::Program& program, const std::string& name) {
  for (const program::Weight& weight : program.weights) {
    if (weight.name == name) return &weight;
  }
  return nullptr;
}

class ConvertTest : public ::testing::Test {
 protected:
  ConvertTest() {
    testing::WriteCheckpoint(source(), testing::TinyQwen3(), testing::TinyQwen3Config());
    options_.source = source();
    options_.package = target();
  }
  fs::path source() const { return folder_.path() / "tiny"; }
  fs::path target() const { return folder_.path() / "package"; }

  package::Package Open() const {
    auto package = package::Package::Open(target());
    EXPECT_TRUE(package.ok()) << package.error().ToString();
    return std::move(package).value();
  }
  // After a refusal there is neither a package nor anything that looks like one.
  void ExpectRefused(const std::string& message) {
    const auto report = Convert(options_);
    ASSERT_FALSE(report.ok()) << message;
    EXPECT_THAT(report.error().ToString(), HasSubstr(message));
    EXPECT_FALSE(fs::exists(target()));
    EXPECT_FALSE(fs::exists(target().string() + ".partial/weft.json"));
  }

  TemporaryFolder folder_;
  ConvertOptions options_;
};

TEST_F(ConvertTest, StoresTheCheckpointsValues) {
  const auto report = Convert(options_);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_TRUE(report->lowered) << report->why_not_lowered;
  EXPECT_EQ(report->quantisation, "f32");
  const package::Package package = Open();
  EXPECT_EQ(package.manifest.name, "tiny");
  EXPECT_EQ(package.manifest.architecture, "qwen3");
  EXPECT_EQ(package.manifest.layers.size(), 4u);
  EXPECT_EQ(package.manifest.layers[1].kv_bytes_per_position, 4u * 2 * 2 * 16);
  EXPECT_EQ(package.manifest.layers[0].weight_bytes, 400u * 64 * 4);
  EXPECT_EQ(package.manifest.layers[0].read_bytes_per_token, 64u * 4);
  EXPECT_EQ(*package.ReadFile("tokenizer.json"), testing::Read(source() / "tokenizer.json"));
  EXPECT_EQ(*package.ReadFile("config.json"), testing::Read(source() / "config.json"));
  size_t seen = 0;
  const testing::FloatTensors tensors = testing::TinyQwen3();
  for (size_t layer = 0; layer < 4; ++layer) {
    const program::Program program = LayerProgram(package, layer);
    EXPECT_EQ(program.layer_index, layer);
    for (const program::Weight& weight : program.weights) {
      if (weight.name == "rotary.inv_freq") continue;
      const std::string name =
          weight.name == "lm_head.weight" ? "model.embed_tokens.weight" : weight.name;
      ASSERT_TRUE(tensors.contains(name)) << name;
      EXPECT_EQ(weight.shape, tensors.at(name).shape);
      EXPECT_EQ(WeightValues(package, weight), tensors.at(name).values) << name;
      ++seen;
    }
  }
  EXPECT_EQ(seen, tensors.size() + 1);  // the table is read by the first and the last layer
}

TEST_F(ConvertTest, LowersALayerToTheOperationsOfTheArchitecture) {
  ASSERT_TRUE(Convert(options_).ok());
  const program::Program layer = LayerProgram(Open(), 1);
  std::vector<std::string_view> names;
  for (const program::Op& op : layer.ops) names.push_back(program::OpName(op));
  EXPECT_THAT(names,
              ::testing::ElementsAre("RmsNorm", "MatMul", "QkNormRope", "MatMul", "QkNormRope",
                                     "MatMul", "Attention", "MatMul", "Add", "RmsNorm", "MatMul",
                                     "MatMul", "GatedActivation", "MatMul", "Add"));
  const program::Attention* attention = program::FindAttention(layer);
  ASSERT_NE(attention, nullptr);
  EXPECT_EQ(attention->heads, 4u);
  EXPECT_EQ(attention->kv_heads, 2u);
  EXPECT_EQ(attention->head_columns, 16u);
  EXPECT_FLOAT_EQ(attention->scale, 0.25f);
  EXPECT_EQ(attention->window, 0u);
  const auto& rope = std::get<program::QkNormRope>(layer.ops[2]);
  EXPECT_TRUE(rope.norm_weight.has_value() && rope.rope.has_value());
  EXPECT_EQ(rope.head_columns, 16u);
  EXPECT_FLOAT_EQ(rope.epsilon, 1e-6f);
  EXPECT_EQ(layer.buffers[*layer.input].columns, 64u);
  // The residual stream comes in, is never written over, and leaves in another buffer.
  EXPECT_NE(layer.output, *layer.input);
  EXPECT_LE(layer.buffers.size(), 8u);
}

TEST_F(ConvertTest, QuantisesWithinHalfAStep) {
  const testing::FloatTensors tensors = testing::TinyQwen3();
  for (const DType dtype : {DType::kF16, DType::kQ8, DType::kQ4, DType::kQ4S}) {
    options_.quantisation = dtype;
    options_.force = true;
    const auto report = Convert(options_);
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    EXPECT_TRUE(report->lowered) << report->why_not_lowered;
    EXPECT_EQ(report->quantisation, DTypeName(dtype));
    const package::Package package = Open();
    const program::Program layer = LayerProgram(package, 2);
    const program::Weight* matrix = FindWeight(layer, "model.layers.1.mlp.down_proj.weight");
    ASSERT_NE(matrix, nullptr);
    EXPECT_EQ(matrix->dtype, dtype);
    EXPECT_EQ(FindWeight(layer, "model.layers.1.self_attn.q_norm.weight")->dtype, DType::kF32);
    const std::vector<float> values = WeightValues(package, *matrix);
    const std::vector<float>& expected = tensors.at(matrix->name).values;
    // Values lie in +-0.5: half a step is 2^-13 in f16, 0.5 / 127 / 2 in q8, 0.5 / 6.25 in q4 (its
    // scale search may clip).
    const float limit = dtype == DType::kF16 ? 0x1p-12f : dtype == DType::kQ8 ? 0.0021f : 0.08f;
    float worst = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      worst = std::max(worst, std::abs(values[i] - expected[i]));
    }
    EXPECT_LE(worst, limit);
    EXPECT_GT(worst, 0);
    const auto errors = CompareWeights(package, source());
    ASSERT_TRUE(errors.ok()) << errors.error().ToString();
    const auto of_matrix = std::ranges::find(*errors, matrix->name, &WeightError::name);
    ASSERT_NE(of_matrix, errors->end());
    EXPECT_EQ(of_matrix->dtype, dtype);
    double differences = 0, squares = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      differences += std::pow(double{values[i]} - double{expected[i]}, 2);
      squares += std::pow(double{expected[i]}, 2);
    }
    EXPECT_NEAR(of_matrix->relative_rms, std::sqrt(differences / squares), 1e-9);
    const bool four_bits = dtype == DType::kQ4 || dtype == DType::kQ4S;
    EXPECT_EQ(LayerProgram(package, 0).weights[0].dtype, four_bits ? DType::kQ8 : dtype);
    // What older readers know has the form that they know.
    EXPECT_EQ(package.manifest.format(), dtype == DType::kQ4S ? 2u : 1u);
    EXPECT_EQ(package.manifest.has_onnx, dtype != DType::kQ4S);
    EXPECT_EQ(program::VersionOf(layer), dtype == DType::kQ4S ? 2u : 1u);
    EXPECT_EQ(program::VersionOf(LayerProgram(package, 0)), 1u);
  }
}

// Rows of 512 values are two superblocks.
TEST_F(ConvertTest, TheHeadBesideQ4sIsQ6kWhereRowsAreSuperblocks) {
  testing::FloatTensors tensors = testing::TinyQwen3();
  SeededRandom random(3);
  for (auto& [name, tensor] : tensors) {
    for (uint64_t& dimension : tensor.shape) dimension = dimension == 64 ? 512 : dimension;
    tensor = testing::RandomTensor(&random, tensor.shape);
  }
  boost::json::object config = testing::TinyQwen3Config();
  config["hidden_size"] = 512;
  config["num_attention_heads"] = 32;
  testing::WriteCheckpoint(source(), tensors, config);
  options_.quantisation = DType::kQ4S;
  const auto report = Convert(options_);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_TRUE(report->lowered) << report->why_not_lowered;
  EXPECT_EQ(report->quantisation, "q4s");
  const package::Package package = Open();
  const program::Program embedding = LayerProgram(package, 0), head = LayerProgram(package, 3);
  const program::Weight& table = embedding.weights[0];
  EXPECT_EQ(table.dtype, DType::kQ6K);
  EXPECT_EQ(program::VersionOf(embedding), 2u);
  const program::Weight* product = FindWeight(head, "lm_head.weight");
  EXPECT_EQ(product->dtype, DType::kQ6K);
  EXPECT_EQ(product->data[0].digest, table.data[0].digest);
  EXPECT_EQ(product->data[0].offset, table.data[0].offset);
  EXPECT_EQ(package.manifest.layers[0].read_bytes_per_token, 2u * 210);
  const std::vector<float> values = WeightValues(package, table);
  const std::vector<float>& expected = tensors.at("model.embed_tokens.weight").values;
  ASSERT_EQ(values.size(), expected.size());
  double differences = 0, squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    differences += std::pow(double{values[i]} - double{expected[i]}, 2);
    squares += std::pow(double{expected[i]}, 2);
  }
  EXPECT_LT(std::sqrt(differences / squares), 0.015);
  EXPECT_GT(differences, 0);
}

TEST_F(ConvertTest, KeepsTheDtypeOfTheCheckpoint) {
  testing::WriteCheckpoint(source(), testing::TinyQwen3(), testing::TinyQwen3Config(),
                           DType::kBF16);
  const auto report = Convert(options_);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_EQ(report->quantisation, "bf16");
  EXPECT_TRUE(report->lowered);
  const program::Program layer = LayerProgram(Open(), 1);
  EXPECT_EQ(FindWeight(layer, "model.layers.0.mlp.up_proj.weight")->dtype, DType::kBF16);
  EXPECT_EQ(FindWeight(layer, "model.layers.0.input_layernorm.weight")->dtype, DType::kF32);
}

TEST_F(ConvertTest, StoresTiedEmbeddingsOnce) {
  ASSERT_TRUE(Convert(options_).ok());
  const package::Package package = Open();
  const program::Program embedding = LayerProgram(package, 0), head = LayerProgram(package, 3);
  EXPECT_EQ(embedding.weights[0].data[0].digest,
            FindWeight(head, "lm_head.weight")->data[0].digest);
  uint64_t package_bytes = 0;
  for (const auto& [digest, info] : package.manifest.blobs) package_bytes += info.byte_count;
  EXPECT_LT(package_bytes, 400u * 64 * 4 + 2 * 45000 * 4 + 20000);
}

TEST_F(ConvertTest, SmallTensorsOfALayerShareABlob) {
  ASSERT_TRUE(Convert(options_).ok());
  // The layer's small tensors, and the frequencies that all layers share.
  EXPECT_EQ(Open().manifest.layers[1].blobs.size(), 2u);
}

// The package's graph is a model of its own: its weights resolve through the blobs folder.
TEST_F(ConvertTest, WritesAGraphThatLoadsWithItsWeights) {
  ASSERT_TRUE(Convert(options_).ok());
  const auto model = onnx::LoadModel(target() / "model.onnx");
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  const onnx::Tensor* up = model->graph.FindInitializer("model.layers.0.mlp.up_proj.weight");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(up->AsFloats(), testing::TinyQwen3().at("model.layers.0.mlp.up_proj.weight").values);
}

TEST_F(ConvertTest, ReplacesAPackageOnlyWhenTold) {
  ASSERT_TRUE(Convert(options_).ok());
  const auto again = Convert(options_);
  EXPECT_EQ(again.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(again.error().message(), HasSubstr("use --force"));
  options_.force = true;
  options_.name = "other";
  ASSERT_TRUE(Convert(options_).ok());
  EXPECT_EQ(Open().manifest.name, "other");
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_THAT(entry.path().filename(), ::testing::AnyOf("tiny", "package"));
  }
}

TEST_F(ConvertTest, NeverReplacesWhatIsNoPackage) {
  fs::create_directories(target());
  testing::Write(target() / "thesis.txt", "precious");
  options_.force = true;
  const auto report = Convert(options_);
  EXPECT_EQ(report.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(testing::Read(target() / "thesis.txt"), "precious");
}

// A conversion that stops at the last layer, whose file holds a value that cannot be stored.
class ResumeTest : public ConvertTest {
 protected:
  ResumeTest() {
    testing::FloatTensors first = testing::TinyQwen3();
    const testing::FloatTensor norm = first["model.norm.weight"];
    first.erase("model.norm.weight");
    testing::FloatTensor broken = norm;
    broken.values[5] = INFINITY;
    json::object map{{"model.norm.weight", "two.safetensors"}};
    for (const auto& [name, tensor] : first) map[name] = "one.safetensors";
    fs::remove(source() / "model.safetensors");
    testing::Write(source() / "model.safetensors.index.json",
                   json::serialize(json::object{{"weight_map", map}}));
    testing::Write(source() / "one.safetensors", testing::Safetensors(first));
    testing::Write(source() / "two.safetensors",
                   testing::Safetensors({{"model.norm.weight", broken}}));
    ExpectRefused(
        "Tensor 'model.norm.weight' of 'two.safetensors': the value inf in row 0, column 5");
    testing::Write(source() / "two.safetensors",
                   testing::Safetensors({{"model.norm.weight", norm}}));
    const testing::FloatTensor& table = first["model.embed_tokens.weight"];
    embedding_ = package::Digest::Of(AsBytes(std::span<const float>(table.values))).ToHex();
  }
  fs::path partial() const { return target().string() + ".partial"; }
  fs::file_time_type EmbeddingTime(const fs::path& folder) const {
    return fs::last_write_time(folder / "blobs" / embedding_);
  }
  std::string
      embedding_;  // the blob of the embedding table, the only one of this model that is large
};

TEST_F(ResumeTest, TakesOverWhatWasFinished) {
  const auto time = EmbeddingTime(partial()) - std::chrono::hours(1);
  fs::last_write_time(partial() / "blobs" / embedding_, time);
  testing::Write(partial() / "blobs" / std::string(64, 'a'), "left over");
  testing::Write(partial() / "blobs" / "unfinished-1", "left over");
  ASSERT_TRUE(Convert(options_).ok());
  EXPECT_EQ(EmbeddingTime(target()), time);  // the very same file
  const package::Package package = Open();
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(target() / "blobs")) {
    EXPECT_TRUE(package::Digest::Parse(entry.path().filename().string()).ok()) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, package.manifest.blobs.size());
  EXPECT_FALSE(fs::exists(partial()));
  EXPECT_FALSE(fs::exists(target() / "convert.journal"));
}

TEST_F(ResumeTest, ConvertsAgainWhatWasDamagedOrChanged) {
  const fs::path blob = partial() / "blobs" / embedding_;
  std::string bytes = testing::Read(blob);
  bytes[1000] ^= 1;
  testing::Write(blob, bytes);
  ASSERT_TRUE(Convert(options_).ok());
  const package::Package package = Open();
  const package::Digest digest = *package::Digest::Parse(embedding_);
  EXPECT_TRUE(package.blobs->Get(digest, package.manifest.blobs.at(digest)).ok());
}

TEST_F(ResumeTest, SurvivesATornJournal) {
  const std::string journal = testing::Read(partial() / "convert.journal");
  ASSERT_GT(journal.size(), 100u);
  for (const std::string& changed :
       {journal.substr(0, journal.size() / 2), std::string("{\"key\":7}\n[]\nx\n\n"), journal + "{",
        std::string(3, '\0')}) {
    testing::Write(partial() / "convert.journal", changed);
    options_.force = true;
    const auto report = Convert(options_);
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    const package::Package package = Open();
    const auto embedding = *package::Digest::Parse(embedding_);
    EXPECT_TRUE(package.blobs->Get(embedding, package.manifest.blobs.at(embedding)).ok());
    fs::rename(target(), partial());
  }
}

// What Python writes of numbers that JSON has not is JSON in the package.
TEST_F(ConvertTest, ReplacesPythonsWordsForNumbers) {
  std::string config = json::serialize(testing::TinyQwen3Config());
  const std::string python = R"("a": [-Infinity, Infinity], "b": NaN, "c": "\"Infinity", )";
  const std::string plain = R"("a": [{"__float__": "-Infinity"}, {"__float__": "Infinity"}], )"
                            R"("b": {"__float__": "NaN"}, "c": "\"Infinity", )";
  testing::Write(source() / "config.json", std::string(config).insert(1, python));
  ASSERT_TRUE(Convert(options_).ok());
  const package::Package package = Open();
  EXPECT_EQ(*package.ReadFile("config.json"), config.insert(1, plain));
}

TEST_F(ConvertTest, NamesWhatIsMissing) {
  fs::remove(source() / "model.safetensors");
  ExpectRefused("neither model.safetensors nor");
  fs::remove(source() / "config.json");
  ExpectRefused("has no config.json");
  options_.source = source() / "nowhere";
  ExpectRefused("There is no folder");
}

TEST_F(ConvertTest, RefusesBrokenFiles) {
  const std::string whole = testing::Read(source() / "model.safetensors");
  testing::Write(source() / "model.safetensors", whole.substr(0, whole.size() - 100));
  ExpectRefused("Is it cut short?");
  testing::Write(source() / "model.safetensors", whole.substr(0, 200));
  ExpectRefused("its header claims");
  testing::Write(source() / "model.safetensors", whole);
  testing::Write(source() / "tokenizer.json", "{\"model\": ");
  ExpectRefused("tokenizer.json is not JSON");
  testing::Write(source() / "tokenizer.json", R"({"model": {"type": "Telepathy"}})");
  ExpectRefused("Telepathy");
  ExpectRefused("--no-tokenizer converts without it");
  testing::Write(source() / "tokenizer.json", testing::kTokenizer);
  json::object config = testing::TinyQwen3Config();
  config["model_type"] = "mamba";
  testing::Write(source() / "config.json", json::serialize(config));
  ExpectRefused("The architecture 'mamba' is not supported; weft converts cohere2");
  config = testing::TinyQwen3Config();
  config["vocab_size"] = 401;
  testing::Write(source() / "config.json", json::serialize(config));
  ExpectRefused("'model.embed_tokens.weight' of 'model.safetensors' has shape [400, 64]");
}

TEST_F(ConvertTest, WarnsOfAMissingTokenizer) {
  fs::remove(source() / "tokenizer.json");
  const auto report = Convert(options_);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_THAT(report->warnings[0], HasSubstr("can be evaluated, not chatted with"));
  EXPECT_FALSE(Open().manifest.files.contains("tokenizer.json"));
  options_.force = true;
  options_.without_tokenizer = true;
  const auto silent = Convert(options_);
  ASSERT_TRUE(silent.ok());
  EXPECT_TRUE(silent->warnings.empty());
}

TEST_F(ConvertTest, F32PackagesKeepF32AtTheBoundaryAndInKv) {
  const uint64_t kv_values = 2 * 2 * 16;
  options_.force = true;
  const struct {
    std::optional<DType> quantisation, boundary;
    DType expected;
    uint64_t kv_bytes;
  } cases[] = {{DType::kF32, std::nullopt, DType::kF32, 4},
               {DType::kF32, DType::kBF16, DType::kBF16, 4},
               {DType::kF16, std::nullopt, DType::kF16, 2},
               {DType::kQ8, DType::kF32, DType::kF32, 2},
               {std::nullopt, std::nullopt, DType::kF16, 4}};  // the checkpoint is f32
  for (const auto& c : cases) {
    options_.quantisation = c.quantisation;
    options_.boundary_dtype = c.boundary;
    ASSERT_TRUE(Convert(options_).ok());
    const package::Manifest manifest = Open().manifest;
    EXPECT_EQ(DTypeName(manifest.boundary_dtype), DTypeName(c.expected));
    EXPECT_EQ(manifest.layers[1].kv_bytes_per_position, c.kv_bytes * kv_values);
  }
}

TEST_F(ConvertTest, SaysWhatAChatTemplateNeeds) {
  options_.force = true;
  EXPECT_THAT(Convert(options_)->warnings,
              ::testing::ElementsAre(HasSubstr("The model has no chat template")));
  testing::Write(source() / "chat_template.jinja", "{{ x }}\n{{ x | nosuchfilter }}");
  EXPECT_THAT(Convert(options_)->warnings,
              ::testing::ElementsAre(HasSubstr("Line 2 of the chat template uses the filter "
                                               "'nosuchfilter'")));
}

TEST_F(ConvertTest, WarnsOfTokensThatTheModelDoesNotKnow) {
  testing::Write(source() / "chat_template.jinja", "{{ messages }}");
  EXPECT_TRUE(Convert(options_)->warnings.empty());
  testing::Write(source() / "tokenizer.json",
                 R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 400}, "merges": []}})");
  options_.force = true;
  const auto report = Convert(options_);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_THAT(report->warnings[0], HasSubstr("ids up to 400; the model's vocabulary ends at 399"));
}

TEST_F(ConvertTest, NamesValuesThatDoNotFit) {
  testing::FloatTensors tensors = testing::TinyQwen3();
  tensors["model.layers.1.mlp.up_proj.weight"].values[64 * 3 + 2] = 1e6f;
  testing::WriteCheckpoint(source(), tensors, testing::TinyQwen3Config());
  options_.quantisation = DType::kF16;
  ExpectRefused("'model.layers.1.mlp.up_proj.weight' of 'model.safetensors': the value 1000000.0");
  options_.quantisation = DType::kQ4;
  ExpectRefused("in row 3, column 2 cannot be stored as q4");
  tensors["model.layers.1.mlp.up_proj.weight"].values[64 * 3 + 2] = NAN;
  testing::WriteCheckpoint(source(), tensors, testing::TinyQwen3Config());
  options_.quantisation.reset();
  ExpectRefused("the value nan in row 3, column 2 cannot be stored as f32");
}

TEST_F(ConvertTest, SurvivesFlippedBitsInEveryFile) {
  SeededRandom random(11);
  options_.force = true;
  int refused = 0;
  for (const char* name : {"config.json", "model.safetensors"}) {
    const std::string whole = testing::Read(source() / name);
    for (int round = 0; round < 60; ++round) {
      std::string changed = whole;
      changed[random.Below(std::min<size_t>(whole.size(), 3000))] ^=
          static_cast<char>(1 << random.Below(8));
      testing::Write(source() / name, changed);
      const auto report = Convert(options_);
      if (report.ok()) {
        EXPECT_TRUE(package::Package::Open(target()).ok());
      } else {
        ++refused;
      }
    }
    testing::Write(source() / name, whole);
  }
  EXPECT_GT(refused, 60);
}

}  // namespace
}  // namespace weft::convert
