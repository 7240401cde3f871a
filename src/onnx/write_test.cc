// Writing: protobuf's own parser and our loader both read what we write, inline, external and by
// digest.
#include "onnx/write.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/sha256.h"
#include "onnx/load.h"
#include "onnx/onnx.pb.h"
#include "onnx/onnx_testing.h"
#include "onnx/weights.h"

namespace weft::onnx {
namespace {

namespace pb = weft::onnx_proto;

Tensor Ramp(std::vector<int64_t> dims, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i) * 0.5f);
  return Tensor::FromFloats(std::move(dims), values);
}

Model Example() {
  Model model;
  model.ir_version = 10;
  model.opset_imports = {{"", 21}, {"com.microsoft", 1}};
  model.metadata = {{"author", "nobody"}};
  Graph& g = model.graph;
  g.AddInput("x", ElementType::kFloat16, {Dim::Of("batch"), Dim::Of(int64_t{32}), Dim{}});
  g.AddOutput("y", ElementType::kFloat16, {Dim::Of("batch")});
  g.AddInitializer("small", Tensor::FromInt64s({2}, {3, -4}));
  g.AddInitializer("large", Ramp({32, 32}, 1024));
  g.AddInitializer("nothing", Tensor::FromInt64s({0}, {}));
  g.AddNode("Op", {"x", "", "small", "large", "nothing"}, {"y", "", "extra"},
            {Attribute::Of("i", 7), Attribute::Of("f", 0.25f), Attribute::Of("s", "text"),
             Attribute::Of("is", std::vector<int64_t>{1, -1}),
             Attribute::Of("fs", std::vector<float>{0.5f}),
             Attribute::Of("t", Tensor::FromInt64s({}, {9}))},
            "com.microsoft", "node");
  auto inner = std::make_shared<Graph>();
  inner->name = "branch";
  inner->AddNode("Neg", {"x"}, {"inner"});
  inner->AddOutput("inner", ElementType::kFloat16, {});
  g.nodes[0].attributes.push_back({"g", inner});
  g.nodes[0].attributes.push_back({"ss", std::vector<std::string>{"a", "b"}});
  return model;
}

void ExpectSame(const Model& a, const Model& b) {
  EXPECT_EQ(a.ir_version, b.ir_version);
  EXPECT_EQ(a.opset_imports, b.opset_imports);
  EXPECT_EQ(a.metadata, b.metadata);
  EXPECT_EQ(a.graph.inputs, b.graph.inputs);
  EXPECT_EQ(a.graph.outputs, b.graph.outputs);
  ASSERT_EQ(a.graph.nodes.size(), b.graph.nodes.size());
  const Node& x = a.graph.nodes[0];
  const Node& y = b.graph.nodes[0];
  EXPECT_EQ(x.inputs, y.inputs);
  EXPECT_EQ(x.outputs, y.outputs);
  EXPECT_EQ(x.domain, y.domain);
  EXPECT_EQ(x.name, y.name);
  ASSERT_EQ(x.attributes.size(), y.attributes.size());
  EXPECT_EQ(y.Int("i", 0), 7);
  EXPECT_EQ(y.Float("f", 0), 0.25f);
  EXPECT_EQ(y.String("s", ""), "text");
  EXPECT_EQ(y.Ints("is"), (std::vector<int64_t>{1, -1}));
  EXPECT_EQ(y.Floats("fs"), (std::vector<float>{0.5f}));
  ASSERT_NE(y.TensorAttribute("t"), nullptr);
  EXPECT_EQ(*y.TensorAttribute("t")->AsInt64s(), (std::vector<int64_t>{9}));
  const Attribute* g = y.Find("g");
  ASSERT_NE(g, nullptr);
  EXPECT_EQ(std::get<std::shared_ptr<Graph>>(g->value)->nodes[0].op_type, "Neg");
  ASSERT_EQ(a.graph.initializers.size(), b.graph.initializers.size());
  for (const auto& [name, tensor] : a.graph.initializers) {
    const Tensor* other = b.graph.FindInitializer(name);
    ASSERT_NE(other, nullptr) << name;
    EXPECT_EQ(tensor.type, other->type);
    EXPECT_EQ(tensor.dims, other->dims);
    EXPECT_EQ(AsText(tensor.data.bytes()), AsText(other->data.bytes())) << name;
  }
}

TEST(WriteModel, InlineModelComesBackTheSame) {
  const Model model = Example();
  const TemporaryFolder folder;
  ASSERT_TRUE(SaveModel(model, folder.path() / "model.onnx").ok());
  const auto loaded = LoadModel(folder.path() / "model.onnx");
  ASSERT_TRUE(loaded.ok()) << loaded.error().ToString();
  ExpectSame(model, *loaded);
  // The streamed file and the bytes in memory are the same, and protobuf reads them.
  const auto file = ReadTextFile(folder.path() / "model.onnx");
  const auto bytes = SerializeModel(model);
  ASSERT_TRUE(file.ok() && bytes.ok());
  EXPECT_EQ(*file, *bytes);
  pb::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(*bytes));
  EXPECT_EQ(proto.graph().initializer_size(), 3);
  EXPECT_EQ(proto.graph().node(0).attribute_size(), 8);
}

TEST(WriteModel, WeightsByDigestAndGraphWithoutThem) {
  Model model = Example();
  model.graph.AddInitializer("large_again", Ramp({1024}, 1024));
  const auto blobs = ExternalizeWeights(model.graph, 1024);
  ASSERT_TRUE(blobs.ok());
  ASSERT_EQ(blobs->size(), 2u);
  const Tensor& large = *model.graph.FindInitializer("large");
  EXPECT_EQ(blobs->at("large").digest, Sha256(large.data.bytes()));
  EXPECT_EQ(large.location, ToHex(Sha256(large.data.bytes())));
  EXPECT_EQ(model.graph.FindInitializer("large_again")->location, large.location);
  EXPECT_TRUE(model.graph.FindInitializer("small")->location.empty());
  DropExternalBytes(model.graph);
  const auto bytes = SerializeModel(model);
  ASSERT_TRUE(bytes.ok());
  EXPECT_LT(bytes->size(), 2048u);
  const ByteSpan span = AsBytes(*bytes);
  const auto loaded =
      LoadModelFromBytes(Slice(std::vector<uint8_t>(span.begin(), span.end())), "graph");
  ASSERT_TRUE(loaded.ok()) << loaded.error().ToString();
  EXPECT_EQ(loaded->graph.FindInitializer("large")->byte_count, 4096u);
}

TEST(WriteModel, RefusesTensorsWithoutBytesOrPlace) {
  Model model = Example();
  model.graph.initializers.at("large").data = Slice();
  const auto bytes = SerializeModel(model);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code(), ErrorCode::kInvalidArgument);
  const TemporaryFolder folder;
  EXPECT_FALSE(SaveModel(model, folder.path() / "model.onnx").ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(WriteModel, RefusesFilesOverProtobufsLimit) {
  // Three gigabytes that exist only as an address range: nothing is read before the size is known.
  Model model = Example();
  Tensor huge;
  huge.type = ElementType::kUint8;
  huge.dims = {int64_t{3} << 30};
  huge.byte_count = uint64_t{3} << 30;
  huge.data = Slice(nullptr, ByteSpan(reinterpret_cast<const uint8_t*>(&huge), huge.byte_count));
  model.graph.AddInitializer("huge", huge);
  const auto bytes = SerializeModel(model);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace weft::onnx
