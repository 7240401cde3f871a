// Reading: what files may hold, and that hostile ones end in a sentence. The oracle for encoding is
// protobuf's own parser.
#include "onnx/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/data_testing.h"
#include "base/file.h"
#include "base/random.h"
#include "onnx/layers.h"
#include "onnx/onnx.pb.h"
#include "onnx/onnx_testing.h"
#include "onnx/write.h"

namespace weft::onnx {
namespace {

namespace pb = weft::onnx_proto;
namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Slice ToSlice(const std::string& text) {
  const ByteSpan bytes = AsBytes(text);
  return Slice(std::vector<uint8_t>(bytes.begin(), bytes.end()));
}

Result<Model> Load(const pb::ModelProto& proto) {
  return LoadModelFromBytes(ToSlice(proto.SerializePartialAsString()), "test");
}

void ExpectRefused(const Result<Model>& result, ErrorCode code, const std::string& words) {
  ASSERT_FALSE(result.ok()) << "expected: " << words;
  EXPECT_EQ(result.error().code(), code) << result.error().ToString();
  EXPECT_THAT(result.error().ToString(), HasSubstr(words));
}

// x + w -> y with w a float initializer of two elements.
pb::ModelProto AddModel() {
  pb::ModelProto proto;
  proto.set_ir_version(8);
  auto& opset = *proto.add_opset_import();
  opset.set_version(17);
  pb::GraphProto& graph = *proto.mutable_graph();
  graph.add_input()->set_name("x");
  graph.add_output()->set_name("y");
  auto& node = *graph.add_node();
  node.set_op_type("Add");
  node.add_input("x");
  node.add_input("w");
  node.add_output("y");
  auto& tensor = *graph.add_initializer();
  tensor.set_name("w");
  tensor.set_data_type(pb::TensorProto::FLOAT);
  tensor.add_dims(2);
  tensor.add_float_data(1.5f);
  tensor.add_float_data(-2.f);
  return proto;
}

pb::TensorProto& Weight(pb::ModelProto& proto) {
  return *proto.mutable_graph()->mutable_initializer(0);
}

void MakeExternal(pb::TensorProto& tensor, const std::string& location, const std::string& offset,
                  const std::string& length) {
  tensor.clear_float_data();
  tensor.clear_external_data();
  tensor.set_data_location(pb::TensorProto::EXTERNAL);
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"location", location}, {"offset", offset}, {"length", length}}) {
    if (value.empty()) continue;
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
}

void WriteText(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// --- what files may hold ---

TEST(LoadModel, ReadsGraphAndTypedValues) {
  const auto model = Load(AddModel());
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  EXPECT_EQ(model->opset_imports.at(""), 17);
  const Tensor* w = model->graph.FindInitializer("w");
  ASSERT_NE(w, nullptr);
  EXPECT_THAT(*w->AsFloats(), ElementsAre(1.5f, -2.f));
}

TEST(LoadModel, ConvertsEveryTypedFieldToRawBytes) {
  struct Case {
    pb::TensorProto::DataType type;
    std::vector<int64_t> expected;
  };
  const std::vector<Case> cases = {
      {pb::TensorProto::INT64, {-5, 7}},     {pb::TensorProto::INT32, {-5, 7}},
      {pb::TensorProto::INT8, {-5, 7}},      {pb::TensorProto::UINT8, {5, 250}},
      {pb::TensorProto::INT16, {-300, 300}}, {pb::TensorProto::UINT16, {3, 65535}},
      {pb::TensorProto::BOOL, {1, 0}},       {pb::TensorProto::UINT32, {1, 4294967295}},
      {pb::TensorProto::UINT64, {1, 2}}};
  for (const Case& c : cases) {
    pb::ModelProto proto = AddModel();
    pb::TensorProto& tensor = Weight(proto);
    tensor.clear_float_data();
    tensor.set_data_type(c.type);
    for (const int64_t value : c.expected) {
      if (c.type == pb::TensorProto::INT64) {
        tensor.add_int64_data(value);
      } else if (c.type == pb::TensorProto::UINT32 || c.type == pb::TensorProto::UINT64) {
        tensor.add_uint64_data(static_cast<uint64_t>(value));
      } else {
        tensor.add_int32_data(static_cast<int32_t>(value));
      }
    }
    const auto model = Load(proto);
    ASSERT_TRUE(model.ok()) << c.type << " " << model.error().ToString();
    EXPECT_EQ(*model->graph.FindInitializer("w")->AsInt64s(), c.expected) << c.type;
  }
}

TEST(LoadModel, ReadsHalvesAndPackedNibbles) {
  pb::ModelProto proto = AddModel();
  Weight(proto).clear_float_data();
  Weight(proto).set_data_type(pb::TensorProto::FLOAT16);
  Weight(proto).add_int32_data(0x3c00);
  Weight(proto).add_int32_data(0xc000);
  auto model = Load(proto);
  ASSERT_TRUE(model.ok());
  EXPECT_THAT(*model->graph.FindInitializer("w")->AsFloats(), ElementsAre(1.f, -2.f));

  // Three 4-bit elements are two bytes, one int32 entry a byte.
  Weight(proto).clear_int32_data();
  Weight(proto).set_data_type(pb::TensorProto::UINT4);
  Weight(proto).set_dims(0, 3);
  Weight(proto).add_int32_data(0x21);
  Weight(proto).add_int32_data(0x03);
  model = Load(proto);
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  EXPECT_THAT(model->graph.FindInitializer("w")->data.bytes(), ElementsAre(0x21, 0x03));
}

TEST(LoadModel, SortsNodesAndKeepsSortedOnes) {
  pb::ModelProto proto = AddModel();
  auto& late = *proto.mutable_graph()->add_node();
  late.set_op_type("Neg");
  late.add_input("x");
  late.add_output("negated");
  proto.mutable_graph()->mutable_node(0)->set_input(0, "negated");
  const auto model = Load(proto);
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  EXPECT_EQ(model->graph.nodes[0].op_type, "Neg");
  EXPECT_EQ(model->graph.nodes[1].op_type, "Add");
}

TEST(LoadModel, AcceptsWhatOldAndFusedFilesHave) {
  pb::ModelProto proto = AddModel();
  proto.mutable_graph()->add_input()->set_name("w");  // IR 3: initializers among the inputs
  auto& node = *proto.mutable_graph()->mutable_node(0);
  node.set_op_type(
      "SimplifiedLayerNormalization");  // not in the standard, but in the standard domain
  node.set_domain("ai.onnx");
  node.add_input("");  // absent optional input
  const auto model = Load(proto);
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  EXPECT_EQ(model->graph.inputs.size(), 1u);
  EXPECT_TRUE(model->graph.nodes[0].Is("SimplifiedLayerNormalization"));
}

TEST(LoadModel, SubgraphsReadOuterValues) {
  pb::ModelProto proto = AddModel();
  auto& node = *proto.mutable_graph()->mutable_node(0);
  node.set_op_type("If");
  node.mutable_input()->DeleteSubrange(1, 1);
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(branch);
    attribute.set_type(pb::AttributeProto::GRAPH);
    auto& inner = *attribute.mutable_g()->add_node();
    inner.set_op_type("Neg");
    inner.add_input("w");
    inner.add_output(std::string(branch) + "_out");
    attribute.mutable_g()->add_output()->set_name(std::string(branch) + "_out");
  }
  const auto model = Load(proto);
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  EXPECT_THAT(ReadNames(model->graph.nodes[0]), ElementsAre("x", "w"));
  node.mutable_attribute(0)->mutable_g()->mutable_node(0)->set_input(0, "nowhere");
  ExpectRefused(Load(proto), ErrorCode::kInvalidData, "'nowhere'");
}

// --- bad graphs ---

TEST(LoadModel, RefusesBadNames) {
  pb::ModelProto twice = AddModel();
  *twice.mutable_graph()->add_initializer() = twice.graph().initializer(0);
  ExpectRefused(Load(twice), ErrorCode::kInvalidData, "'w' is defined twice");

  pb::ModelProto writers = AddModel();
  *writers.mutable_graph()->add_node() = writers.graph().node(0);
  ExpectRefused(Load(writers), ErrorCode::kInvalidData, "'y' is written by");

  pb::ModelProto overwrites = AddModel();
  overwrites.mutable_graph()->mutable_node(0)->set_output(0, "w");
  ExpectRefused(Load(overwrites), ErrorCode::kInvalidData, "'w'");

  pb::ModelProto unknown = AddModel();
  unknown.mutable_graph()->mutable_node(0)->set_input(0, "no\nsuch");
  ExpectRefused(Load(unknown), ErrorCode::kInvalidData, "'no?such'");

  pb::ModelProto output = AddModel();
  output.mutable_graph()->mutable_output(0)->set_name("z");
  ExpectRefused(Load(output), ErrorCode::kInvalidData, "'z' is written by no node");
}

TEST(LoadModel, RefusesCycles) {
  pb::ModelProto proto = AddModel();
  auto& back = *proto.mutable_graph()->add_node();
  back.set_op_type("Neg");
  back.add_input("y");
  back.add_output("z");
  proto.mutable_graph()->mutable_node(0)->set_input(0, "z");
  ExpectRefused(Load(proto), ErrorCode::kInvalidData, "cycle");
}

TEST(LoadModel, RefusesBadTensors) {
  const auto refuse = [](const std::function<void(pb::TensorProto&)>& change,
                         const std::string& words) {
    pb::ModelProto proto = AddModel();
    change(Weight(proto));
    ExpectRefused(Load(proto), ErrorCode::kInvalidData, words);
  };
  refuse([](auto& t) { t.set_dims(0, -2); }, "negative dimension -2");
  refuse([](auto& t) { t.set_dims(0, 3); }, "has 2 values; its shape needs 3");
  refuse([](auto& t) { t.set_dims(0, int64_t{1} << 62); }, "overflows");
  refuse(
      [](auto& t) {
        t.set_dims(0, int64_t{1} << 40);
        t.add_dims(int64_t{1} << 40);
      },
      "overflows");
  refuse([](auto& t) { t.set_data_type(99); }, "element type 99");
  refuse([](auto& t) { t.set_data_type(0); }, "element type 0");
  refuse([](auto& t) { t.add_int64_data(1); }, "two typed fields");
  refuse([](auto& t) { t.set_data_type(pb::TensorProto::INT64); }, "field 4");
  refuse([](auto& t) { t.clear_float_data(); }, "0 bytes of data; its shape needs 8");
  refuse([](auto& t) { t.set_raw_data("1234567"); }, "7 bytes of data; its shape needs 8");
  refuse(
      [](auto& t) {
        for (int i = 0; i < 40; ++i) t.add_dims(1);
      },
      "41 dimensions");
  // A claim of a petabyte must not be believed before the file is looked at.
  refuse([](auto& t) { t.set_dims(0, int64_t{1} << 48); }, "its shape needs");
}

TEST(LoadModel, RefusesDeepNesting) {
  pb::ModelProto proto = AddModel();
  pb::GraphProto* graph = proto.mutable_graph();
  for (int i = 0; i < 20; ++i) {
    auto& node = *graph->add_node();
    node.set_op_type("If");
    auto& attribute = *node.add_attribute();
    attribute.set_name("then_branch");
    attribute.set_type(pb::AttributeProto::GRAPH);
    graph = attribute.mutable_g();
  }
  ExpectRefused(Load(proto), ErrorCode::kInvalidData, "nested deeper");
}

TEST(LoadModel, RefusesWhatIsNoModel) {
  ExpectRefused(LoadModelFromBytes(Slice(), "empty"), ErrorCode::kInvalidData, "'empty'");
  ExpectRefused(LoadModelFromBytes(ToSlice("hello, world"), "text"), ErrorCode::kInvalidData,
                "ONNX");
  EXPECT_EQ(LoadModel("/nonexistent/model.onnx").error().code(), ErrorCode::kNotFound);
}

TEST(LoadModel, TruncatedAndFlippedBytesNeverCrash) {
  Model model = testing::MakeDecoder({.fused_skip_norm = true, .mask_from_shapes = true});
  const auto bytes = SerializeModel(model);
  ASSERT_TRUE(bytes.ok());
  int refused = 0;
  for (size_t length = 0; length < bytes->size(); ++length) {
    refused += LoadModelFromBytes(ToSlice(bytes->substr(0, length))).ok() ? 0 : 1;
  }
  EXPECT_EQ(refused, static_cast<int>(bytes->size()));  // the graph is one length-delimited field
  SeededRandom random(7);
  for (int i = 0; i < 4000; ++i) {
    std::string flipped = *bytes;
    for (uint64_t flips = 1 + random.Below(4); flips > 0; --flips) {
      flipped[random.Below(flipped.size())] ^= static_cast<char>(1 << random.Below(8));
    }
    auto result = LoadModelFromBytes(ToSlice(flipped));
    if (result.ok()) (void)FindLayers(std::move(result).value()).ok();
  }
}

// --- external data ---

class ExternalData : public ::testing::Test {
 protected:
  ExternalData() {
    fs::create_directory(folder_.path() / "model");
    WriteText(folder_.path() / "secret.bin", "12345678");
    WriteText(Inside("data.bin"), "abcdefgh" + std::string(56, 'x'));
  }
  fs::path Inside(const std::string& name) const { return folder_.path() / "model" / name; }

  Result<Model> LoadWith(const std::string& location, const std::string& offset = "",
                         const std::string& length = "", const LoadOptions& options = {}) {
    pb::ModelProto proto = AddModel();
    MakeExternal(Weight(proto), location, offset, length);
    WriteText(Inside("model.onnx"), proto.SerializePartialAsString());
    return LoadModel(Inside("model.onnx"), options);
  }
  void Refused(const std::string& location, ErrorCode code, const std::string& words) {
    SCOPED_TRACE(location);
    ExpectRefused(LoadWith(location), code, words);
  }

  TemporaryFolder folder_;
};

TEST_F(ExternalData, IsMappedByOffset) {
  const auto model = LoadWith("data.bin", "0", "8");
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  EXPECT_EQ(AsText(model->graph.FindInitializer("w")->data.bytes()), "abcdefgh");
  const auto whole = LoadWith("./data.bin", "4", "");
  ASSERT_TRUE(whole.ok()) << whole.error().ToString();
  EXPECT_EQ(AsText(whole->graph.FindInitializer("w")->data.bytes()), "efghxxxx");
}

TEST_F(ExternalData, GraphOnlyKeepsTheLocation) {
  const auto model = LoadWith("not-here", "16", "8", {.resolve_external = false});
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  const Tensor* w = model->graph.FindInitializer("w");
  EXPECT_EQ(w->location, "not-here");
  EXPECT_EQ(w->offset, 16u);
  EXPECT_EQ(w->byte_count, 8u);
  EXPECT_FALSE(w->has_data());
}

TEST_F(ExternalData, RefusesPathsThatLeaveTheFolder) {
  Refused("../secret.bin", ErrorCode::kPermissionDenied, "'..'");
  Refused("a/../../secret.bin", ErrorCode::kPermissionDenied, "'..'");
  Refused("a/../data.bin", ErrorCode::kPermissionDenied, "'..'");
  Refused((folder_.path() / "secret.bin").string(), ErrorCode::kPermissionDenied, "absolute");
  Refused(std::string("data.bin\0.txt", 13), ErrorCode::kPermissionDenied, "zero byte");
  Refused(std::string(3000, 'a'), ErrorCode::kPermissionDenied, "longer");
  Refused("missing.bin", ErrorCode::kNotFound, "missing.bin");
  Refused(".", ErrorCode::kPermissionDenied, "not a regular file");
  EXPECT_EQ(LoadWith("").error().code(), ErrorCode::kInvalidData);
}

TEST_F(ExternalData, RefusesLinksOutOfTheFolder) {
  fs::create_symlink("../secret.bin", Inside("link.bin"));
  Refused("link.bin", ErrorCode::kPermissionDenied, "out of the model's folder");
  fs::create_directory_symlink("..", Inside("up"));
  Refused("up/secret.bin", ErrorCode::kPermissionDenied, "out of the model's folder");
  fs::create_symlink(folder_.path() / "secret.bin", Inside("absolute.bin"));
  Refused("absolute.bin", ErrorCode::kPermissionDenied, "out of the model's folder");
  fs::create_symlink("loop.bin", Inside("loop.bin"));
  Refused("loop.bin", ErrorCode::kPermissionDenied, "link");
  fs::create_symlink("/proc/self/fd/0", Inside("magic.bin"));
  Refused("magic.bin", ErrorCode::kPermissionDenied, "link");
  // A link that stays inside is fine.
  fs::create_symlink("data.bin", Inside("inside.bin"));
  EXPECT_TRUE(LoadWith("inside.bin", "0", "8").ok());
}

// A Hugging Face cache keeps bytes in blobs/ and links to them from snapshots/<revision>/.
TEST_F(ExternalData, FollowsLinksInsideTheRepositoryOfACache) {
  const fs::path repository = folder_.path() / "hub" / "models--org--name";
  const fs::path snapshot = repository / "snapshots" / "abc";
  fs::create_directories(repository / "blobs");
  fs::create_directories(snapshot / "onnx");
  WriteText(folder_.path() / "hub" / "secret.bin", "12345678");
  WriteText(repository / "blobs" / "data", "abcdefgh");
  const auto load = [&](const fs::path& folder, const std::string& link) {
    pb::ModelProto proto = AddModel();
    MakeExternal(Weight(proto), "data.bin", "", "");
    WriteText(repository / "blobs" / "model", proto.SerializePartialAsString());
    fs::remove(folder / "model.onnx");
    fs::remove(folder / "data.bin");
    fs::create_symlink(repository / "blobs" / "model", folder / "model.onnx");
    fs::create_symlink(link, folder / "data.bin");
    return LoadModel(folder / "model.onnx");
  };
  const auto model = load(snapshot, "../../blobs/data");
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  EXPECT_EQ(AsText(model->graph.FindInitializer("w")->data.bytes()), "abcdefgh");
  EXPECT_TRUE(load(snapshot / "onnx", "../../../blobs/data").ok());
  for (const std::string out : {"../../../secret.bin", "../../../../secret.bin", "/etc/hostname",
                                "../../blobs/../../secret.bin", "/proc/self/fd/0"}) {
    SCOPED_TRACE(out);
    ExpectRefused(load(snapshot, out), ErrorCode::kPermissionDenied, "out of the model's folder");
  }
  fs::create_symlink("../../secret.bin", repository / "blobs" / "onward");
  ExpectRefused(load(snapshot, "../../blobs/onward"), ErrorCode::kPermissionDenied,
                "out of the model's folder");
  // Elsewhere the same links lead out.
  for (const char* other : {"models--org--name/elsewhere/abc", "other/snapshots/abc"}) {
    const fs::path folder = folder_.path() / "hub" / other;
    fs::create_directories(folder);
    fs::create_directories(folder / "../../blobs");
    WriteText(folder / "../../blobs/data", "abcdefgh");
    ExpectRefused(load(folder, "../../blobs/data"), ErrorCode::kPermissionDenied,
                  "out of the model's folder");
  }
}

TEST_F(ExternalData, RefusesHardLinksUnlessAllowed) {
  fs::create_hard_link(folder_.path() / "secret.bin", Inside("hard.bin"));
  Refused("hard.bin", ErrorCode::kPermissionDenied, "2 hard links");
  EXPECT_TRUE(LoadWith("hard.bin", "", "", {.allow_hard_links = true}).ok());
}

TEST_F(ExternalData, RefusesBytesOutsideTheFile) {
  const auto refuse = [&](const std::string& offset, const std::string& length,
                          const std::string& words) {
    SCOPED_TRACE(offset + " " + length);
    ExpectRefused(LoadWith("data.bin", offset, length), ErrorCode::kInvalidData, words);
  };
  refuse("57", "8", "lies at bytes 57 to 65 of 'data.bin', which has only 64");
  refuse("1000000", "8", "has only 64");
  refuse("18446744073709551615", "8", "past 2^64");
  refuse("18446744073709551616", "8", "not a number");
  refuse("-8", "8", "'-8'");
  refuse("0x10", "8", "'0x10'");
  refuse("0", "16", "length 16; its shape needs 8");
  EXPECT_TRUE(LoadWith("data.bin", "56", "8").ok());
}

TEST_F(ExternalData, RefusesInlineValuesBesideExternalOnes) {
  pb::ModelProto proto = AddModel();
  MakeExternal(Weight(proto), "data.bin", "0", "8");
  Weight(proto).set_raw_data("12345678");
  WriteText(Inside("model.onnx"), proto.SerializePartialAsString());
  ExpectRefused(LoadModel(Inside("model.onnx")), ErrorCode::kInvalidData,
                "both external and inline");
}

// --- the test data ---

TEST(LoadModel, AgreesWithProtobufOnAllTestModels) {
  const fs::path data = TestDataFolder() / "onnx";
  WEFT_NEED_DATA(data);
  for (const auto& folder : fs::directory_iterator(data)) {
    if (!folder.is_directory()) continue;
    SCOPED_TRACE(folder.path().filename().string());
    const auto model = LoadModel(folder.path() / "model.onnx");
    ASSERT_TRUE(model.ok()) << model.error().ToString();
    const auto text = ReadTextFile(folder.path() / "model.onnx");
    ASSERT_TRUE(text.ok());
    pb::ModelProto proto;
    ASSERT_TRUE(proto.ParseFromString(*text));
    EXPECT_EQ(model->graph.nodes.size(), static_cast<size_t>(proto.graph().node_size()));
    EXPECT_EQ(model->graph.initializers.size(),
              static_cast<size_t>(proto.graph().initializer_size()));
    for (const pb::TensorProto& expected : proto.graph().initializer()) {
      const Tensor* tensor = model->graph.FindInitializer(expected.name());
      ASSERT_NE(tensor, nullptr) << expected.name();
      EXPECT_EQ(static_cast<int>(tensor->type), expected.data_type());
      EXPECT_TRUE(tensor->has_data()) << expected.name();
      if (expected.has_raw_data()) {
        EXPECT_EQ(AsText(tensor->data.bytes()), expected.raw_data());
      }
    }
  }
}

}  // namespace
}  // namespace weft::onnx
