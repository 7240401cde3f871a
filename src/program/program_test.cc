// Programs: what is encoded is decoded, and every way to break one is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/random.h"
#include "program/codec.h"
#include "program/program.pb.h"

namespace weft::program {
namespace {

using testing::HasSubstr;

Part MakePart(uint64_t byte_count) {
  Part part;
  part.digest.fill(7);
  part.offset = 64;
  part.byte_count = byte_count;
  return part;
}

WeightId AddWeight(Program* program, const std::string& name, DType dtype,
                   std::vector<uint64_t> shape) {
  Weight weight{name, dtype, shape, {}, {}, {}};
  uint64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  if (IsBlockFormat(dtype)) {
    const uint64_t blocks = rows * ((shape.back() + 31) / 32);
    weight.data = {MakePart(blocks * (dtype == DType::kQ8 ? 32 : 16))};
    const uint64_t superblocks = rows * ((shape.back() + 255) / 256);
    weight.scale = {MakePart(dtype == DType::kQ4S ? superblocks * 12 : blocks * 2)};
  } else {
    const uint64_t data = rows * shape.back() * (dtype == DType::kF32 ? 4 : 2);
    weight.data = {MakePart(data / 2), MakePart(data - data / 2)};
  }
  program->weights.push_back(weight);
  return static_cast<WeightId>(program->weights.size() - 1);
}

View AddBuffer(Program* program, const std::string& name, uint32_t columns) {
  program->buffers.push_back({name, columns});
  return {static_cast<BufferId>(program->buffers.size() - 1), 0, columns};
}

// A layer that uses every operation that a layer with an input may use; 4 heads of 16, 2 kv heads,
// width 64.
Program EveryOp() {
  Program p;
  p.layer_index = 3;
  const View x = AddBuffer(&p, "x", 64);
  p.input = x.buffer;
  const View normed = AddBuffer(&p, "normed", 64);
  const View qkv = AddBuffer(&p, "qkv", 128);
  const View attended = AddBuffer(&p, "attended", 64);
  const View logits = AddBuffer(&p, "router", 4);
  const View route = AddBuffer(&p, "route", 4);
  const View mixed = AddBuffer(&p, "mixed", 64);
  const View sum = AddBuffer(&p, "sum", 64);
  const View received = AddBuffer(&p, "received", 64);
  const View gate_up = AddBuffer(&p, "gate_up", 96);
  const View q{qkv.buffer, 0, 64}, k{qkv.buffer, 64, 32}, v{qkv.buffer, 96, 32};
  const View gate{gate_up.buffer, 0, 48}, up{gate_up.buffer, 48, 48};
  const WeightId norm = AddWeight(&p, "norm", DType::kF32, {64});
  const WeightId qkv_weight = AddWeight(&p, "qkv", DType::kQ4, {128, 64});
  const WeightId bias = AddWeight(&p, "bias", DType::kF16, {128});
  const WeightId head_norm = AddWeight(&p, "head_norm", DType::kBF16, {16});
  const WeightId inv_freq = AddWeight(&p, "inv_freq", DType::kF32, {8});
  const WeightId sinks = AddWeight(&p, "sinks", DType::kF32, {4});
  const WeightId router = AddWeight(&p, "router", DType::kF32, {4, 64});
  const WeightId experts_up = AddWeight(&p, "experts_up", DType::kQ8, {4, 96, 64});
  const WeightId experts_down = AddWeight(&p, "experts_down", DType::kQ4, {4, 64, 48});
  p.weights.back().zero = {MakePart(4 * 64)};
  const WeightId up_bias = AddWeight(&p, "up_bias", DType::kF32, {4, 96});
  const WeightId down_bias = AddWeight(&p, "down_bias", DType::kF32, {4, 64});
  const WeightId mlp_weight = AddWeight(&p, "mlp", DType::kF16, {96, 64});
  p.ops = {
      RmsNorm{x, normed, norm, 1e-6f},
      LayerNorm{normed, normed, norm, norm, 1e-5f},
      MatMul{normed, q, {qkv_weight, 0, 64}, {}},
      MatMul{normed, {qkv.buffer, 64, 64}, {qkv_weight, 64, 64}, {}},
      MatMul{normed, qkv, {qkv_weight, 0, 128}, bias},
      QkNormRope{q, q, 4, 16, head_norm, 1e-6f, Rope{inv_freq, 1, false}},
      QkNormRope{k, k, 2, 16, {}, 0, Rope{inv_freq, 1.5f, true}},
      Attention{q, k, v, attended, 4, 2, 16, 0.25f, 128, 50, sinks},
      Add{x, attended, sum},
      Exchange{sum, received, 9},
      Scale{received, received, 2},
      Softcap{received, received, 30},
      MatMul{received, logits, {router, 0, 4}, {}},
      MoeRoute{logits, route, 4, 2, RouteKind::kSoftmaxTopKNormalized, {}, 2, 1, 2, 1.5f},
      MoeExperts{received, route, mixed, 4, 2, Activation::kSwigluOai, experts_up, experts_down,
                 up_bias, down_bias, SumGrid{0x1p-16f, 0x1p20f}},
      MatMul{mixed, gate_up, {mlp_weight, 0, 96}, {}},
      GatedActivation{gate, up, gate, Activation::kGeluTanh},
      Add{sum, mixed, sum},
  };
  p.output = sum.buffer;
  return p;
}

Program Embedding() {
  Program p;
  const View out = AddBuffer(&p, "hidden", 64);
  const WeightId table = AddWeight(&p, "embed_tokens", DType::kQ8, {512, 64});
  p.ops = {Embed{table, out, 8}};
  p.output = out.buffer;
  return p;
}

template <typename T>
T& OpOf(Program* program, int skip = 0) {
  for (Op& op : program->ops) {
    if (T* found = std::get_if<T>(&op); found != nullptr && skip-- == 0) return *found;
  }
  CHECK(false, "no such operation");
}

TEST(Codec, RoundTrips) {
  for (const Program& program : {EveryOp(), Embedding()}) {
    const std::vector<uint8_t> bytes = Encode(program);
    const auto decoded = Decode(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
    EXPECT_EQ(Encode(*decoded), bytes);
    EXPECT_EQ(decoded->ops.size(), program.ops.size());
    EXPECT_EQ(decoded->input.has_value(), program.input.has_value());
  }
  const auto decoded = Decode(Encode(EveryOp()));
  const Attention* attention = FindAttention(*decoded);
  ASSERT_NE(attention, nullptr);
  EXPECT_EQ(attention->window, 128u);
  EXPECT_EQ(attention->softcap, 50);
  EXPECT_TRUE(attention->sinks.has_value());
  EXPECT_TRUE(std::get<QkNormRope>(decoded->ops[6]).rope->interleaved);
  EXPECT_FALSE(std::get<QkNormRope>(decoded->ops[6]).norm_weight.has_value());
  EXPECT_EQ(decoded->weights[8].zero[0].byte_count, 256u);
  EXPECT_EQ(FindAttention(*Decode(Encode(Embedding()))), nullptr);
}

TEST(Codec, KeepsWhoseKeysAndValuesAreReadAndSeveralTables) {
  Program shared = EveryOp();
  Attention& attention = OpOf<Attention>(&shared);
  attention.kv_layer = 1;
  attention.k = attention.v = {};
  const auto decoded = Decode(Encode(shared));
  ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
  EXPECT_EQ(FindAttention(*decoded)->kv_layer, 1u);
  EXPECT_EQ(FindAttention(*decoded)->k.columns, 0u);
  EXPECT_EQ(FindAttention(*Decode(Encode(EveryOp())))->kv_layer, std::nullopt);
  Program tables = Embedding();
  const View own = AddBuffer(&tables, "own", 32);
  tables.ops.push_back(Embed{AddWeight(&tables, "table", DType::kQ4, {512, 32}), own, 2});
  EXPECT_TRUE(Decode(Encode(tables)).ok());
}

// The bytes on disk are a contract with the browser's decoder: proto field by proto field.
TEST(Codec, WritesTheFieldsOfTheProto) {
  const std::vector<uint8_t> bytes = Encode(Embedding());
  pb::Program message;
  ASSERT_TRUE(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  EXPECT_EQ(message.version(), 1u);
  EXPECT_EQ(message.weights(0).dtype(), 16u);
  EXPECT_EQ(message.weights(0).data(0).digest().size(), 32u);
  EXPECT_EQ(message.weights(0).data(0).byte_count(), 512u * 64);
  EXPECT_EQ(message.weights(0).scale(0).byte_count(), 512u * 4);
  EXPECT_EQ(message.ops(0).embed().scale(), 8);
  EXPECT_FALSE(message.has_input());
}

TEST(Codec, RefusesAnotherVersionWithBothNumbers) {
  pb::Program message;
  message.set_version(9);
  const std::string bytes = message.SerializeAsString();
  const auto decoded = Decode(AsBytes(bytes));
  EXPECT_EQ(decoded.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(decoded.error().message(),
              HasSubstr("has version 9; this weft runs versions 1 to 3"));
  EXPECT_EQ(Decode(AsBytes("")).error().code(), ErrorCode::kUnsupported);  // version 0
  EXPECT_EQ(Decode(AsBytes("\xff\xff\xff")).error().code(), ErrorCode::kInvalidData);
}

// The embedding with a second table of q4s.
Program WithQ4s() {
  Program program = Embedding();
  const View own = AddBuffer(&program, "own", 300);
  program.ops.push_back(Embed{AddWeight(&program, "table", DType::kQ4S, {512, 300}), own, 2});
  return program;
}

TEST(Codec, WritesVersion2OnlyForWhatVersion1HasNot) {
  pb::Program message;
  const std::vector<uint8_t> bytes = Encode(WithQ4s());
  ASSERT_TRUE(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  EXPECT_EQ(message.version(), 2u);
  EXPECT_EQ(message.weights(1).dtype(), 18u);
  const auto decoded = Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
  EXPECT_EQ(Encode(*decoded), bytes);
  message.set_version(1);
  EXPECT_THAT(Decode(AsBytes(message.SerializeAsString())).error().message(),
              HasSubstr("Weight 'table' is q4s in a program of version 1; that dtype begins with "
                        "version 2."));
}

TEST(Codec, RefusesRecordsOfQ4sThatAreTooFew) {
  Program program = WithQ4s();
  EXPECT_TRUE(Validate(program).ok());
  program.weights[1].scale[0].byte_count -= 12;
  EXPECT_THAT(Validate(program).error().message(),
              HasSubstr("hold 12276 bytes; its shape and dtype need 12288"));
  program = WithQ4s();
  program.weights[1].zero = {program.weights[1].scale[0]};
  EXPECT_THAT(Validate(program).error().message(), HasSubstr("The parts of the zero points of"));
}

TEST(Codec, RefusesADigestOfAnotherLength) {
  const std::vector<uint8_t> bytes = Encode(Embedding());
  pb::Program message;
  ASSERT_TRUE(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  message.mutable_weights(0)->mutable_data(0)->set_digest("../../blob");
  const std::string changed = message.SerializeAsString();
  EXPECT_THAT(Decode(AsBytes(changed)).error().message(), HasSubstr("digest of 10 bytes"));
}

TEST(Codec, SurvivesFlippedBits) {
  const std::vector<uint8_t> bytes = Encode(EveryOp());
  SeededRandom random(1);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<uint8_t> changed = bytes;
    changed[random.Below(changed.size())] ^= static_cast<uint8_t>(1u << random.Below(8));
    if (!Decode(changed).ok()) ++refused;
    changed.resize(random.Below(bytes.size()));
    if (!Decode(changed).ok()) ++refused;
  }
  EXPECT_GT(refused, 3000);
}

struct Misuse {
  const char* message;
  std::function<void(Program*)> apply;
};

void ExpectMisuses(const std::vector<Misuse>& misuses) {
  ASSERT_TRUE(Validate(EveryOp()).ok()) << Validate(EveryOp()).error().ToString();
  for (const Misuse& misuse : misuses) {
    Program program = EveryOp();
    misuse.apply(&program);
    const Status status = Validate(program);
    ASSERT_FALSE(status.ok()) << misuse.message;
    EXPECT_THAT(status.error().message(), HasSubstr(misuse.message));
    EXPECT_THAT(status.error().message(), HasSubstr("The program of layer"));
    EXPECT_FALSE(Decode(Encode(program)).ok()) << misuse.message;
  }
}

TEST(Validate, NamesMisuseOfBuffersOrWeights) {
  ExpectMisuses({
      {"it has no operations", [](Program* p) { p->ops.clear(); }},
      {"layer index is 70000", [](Program* p) { p->layer_index = 70000; }},
      {"buffer 'x' has 0 columns", [](Program* p) { p->buffers[0].columns = 0; }},
      {"input or output is buffer 99", [](Program* p) { p->output = 99; }},
      {"input or output is buffer 98", [](Program* p) { p->input = 98; }},
      {"dtype of weight 'norm' is 4", [](Program* p) { p->weights[0].dtype = DType::kI64; }},
      {"dtype of weight 'norm' is 99", [](Program* p) { p->weights[0].dtype = DType{99}; }},
      {"shape of weight 'norm' is [0]", [](Program* p) { p->weights[0].shape = {0}; }},
      {"shape of weight 'norm' is []", [](Program* p) { p->weights[0].shape = {}; }},
      {"expected 2 or 3 dimensions", [](Program* p) { p->weights[1].shape = {8192}; }},
      {"overflow",
       [](Program* p) {
         p->weights[0].shape = {1ull << 31, 1ull << 31, 1ull << 31};
       }},
      {"hold 255 bytes; its shape and dtype need 256",
       [](Program* p) { p->weights[0].data[1].byte_count -= 1; }},
      {"hold at least 257 bytes", [](Program* p) { p->weights[0].data[1].byte_count += 1; }},
      {"has offset 64 and 0 bytes", [](Program* p) { p->weights[0].data[1].byte_count = 0; }},
      {"offset 18446744073709551615",
       [](Program* p) { p->weights[0].data[0].offset = UINT64_MAX; }},
      {"the scales of weight 'norm' hold", [](Program* p) { p->weights[0].scale = {MakePart(2)}; }},
      {"the scales of weight 'qkv' hold 0", [](Program* p) { p->weights[1].scale.clear(); }},
      {"the zero points of weight 'experts_up'",
       [](Program* p) { p->weights[7].zero = {MakePart(4 * 96)}; }},
  });
}

TEST(Validate, NamesMisuseOfNormsOrProducts) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ExpectMisuses({
      {"operation 0 (RmsNorm): 'in' names buffer 77",
       [](Program* p) { OpOf<RmsNorm>(p).in.buffer = 77; }},
      {"'in' is columns 1 to 65 of buffer 'x', which has 64",
       [](Program* p) { OpOf<RmsNorm>(p).in.first_column = 1; }},
      {"'in' is columns 4294967295 to 4294967359",
       [](Program* p) { OpOf<RmsNorm>(p).in.first_column = UINT32_MAX; }},
      {"'in' reads columns of buffer 'mixed' that nothing wrote",
       [](Program* p) { OpOf<RmsNorm>(p).in.buffer = 6; }},
      {"'weight' names weight 55", [](Program* p) { OpOf<RmsNorm>(p).weight = 55; }},
      {"'weight' is 'qkv' of shape [128, 64]; expected [64]",
       [](Program* p) { OpOf<RmsNorm>(p).weight = 1; }},
      {"'epsilon' is", [](Program* p) { OpOf<RmsNorm>(p).epsilon = -1; }},
      {"'epsilon' is", [nan](Program* p) { OpOf<LayerNorm>(p).epsilon = nan; }},
      {"(LayerNorm): 'bias' is 'bias' of shape [128]",
       [](Program* p) { OpOf<LayerNorm>(p).bias = 2; }},
      {"(MatMul): 'weight' takes rows 0 to 65 of 'qkv'",
       [](Program* p) { OpOf<MatMul>(p).weight.rows = 65; }},
      {"(MatMul): 'weight' takes rows 65 to 129",
       [](Program* p) { OpOf<MatMul>(p).weight.first_row = 65; }},
      {"(MatMul): 'weight' takes rows 4294967295",
       [](Program* p) { OpOf<MatMul>(p).weight.first_row = UINT32_MAX; }},
      {"(MatMul): 'weight' is 'norm' of shape [64]",
       [](Program* p) { OpOf<MatMul>(p).weight.weight = 0; }},
      {"(MatMul): 'out' overlaps an input",
       [](Program* p) { OpOf<MatMul>(p).out = OpOf<MatMul>(p).in; }},
      {"(MatMul): 'bias' is 'norm'", [](Program* p) { OpOf<MatMul>(p, 2).bias = 0; }},
  });
}

TEST(Validate, NamesMisuseOfAttention) {
  ExpectMisuses({
      {"(QkNormRope): 'in' has 64 columns; expected 48",
       [](Program* p) { OpOf<QkNormRope>(p).heads = 3; }},
      {"it has 0 heads", [](Program* p) { OpOf<QkNormRope>(p).heads = 0; }},
      {"neither a norm nor a rotation", [](Program* p) { OpOf<QkNormRope>(p, 1).rope.reset(); }},
      {"'norm_weight' is 'norm'", [](Program* p) { OpOf<QkNormRope>(p).norm_weight = 0; }},
      {"'rope.inv_freq' is 'norm' of shape [64]; expected at most [8] in f32",
       [](Program* p) { OpOf<QkNormRope>(p).rope->inv_freq = 0; }},
      {"'rope.scale' is", [](Program* p) { OpOf<QkNormRope>(p).rope->scale = 0; }},
      {"(QkNormRope): 'out' overlaps 'in' without being the same view",
       [](Program* p) { OpOf<QkNormRope>(p).out.first_column = 16; }},
      {"(Attention): 'k' has 32 columns; expected 64",
       [](Program* p) { OpOf<Attention>(p).kv_heads = 4; }},
      {"3 key and value heads evenly",
       [](Program* p) {
         Attention& op = OpOf<Attention>(p);
         op.kv_heads = 3;
         op.k.columns = op.v.columns = 48;
         op.k.first_column = op.v.first_column = 64;
       }},
      {"(Attention): 'scale' is", [](Program* p) { OpOf<Attention>(p).scale = 0; }},
      {"(Attention): 'softcap' is", [](Program* p) { OpOf<Attention>(p).softcap = -1; }},
      {"(Attention): 'sinks' is", [](Program* p) { OpOf<Attention>(p).sinks = 0; }},
      {"its values are 99 of the", [](Program* p) { OpOf<Attention>(p).value_columns = 99; }},
      {"'v' is not 'k'", [](Program* p) { OpOf<Attention>(p).value_columns = 1; }},
      {"at most one Attention", [](Program* p) { p->ops.push_back(OpOf<Attention>(p)); }},
      {"keys and values of layer 3; expected a layer before its own",
       [](Program* p) { OpOf<Attention>(p).kv_layer = 3; }},
      {"another layer's keys and values, but has its own, too",
       [](Program* p) { OpOf<Attention>(p).kv_layer = 2; }},
  });
}

TEST(Validate, NamesMisuseOfOtherOperations) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ExpectMisuses({
      {"(Add): 'b' has 32 columns; expected 64", [](Program* p) { OpOf<Add>(p).b.columns = 32; }},
      {"another Exchange has the id 9", [](Program* p) { p->ops.push_back(OpOf<Exchange>(p)); }},
      {"'factor' is not finite", [nan](Program* p) { OpOf<Scale>(p).factor = nan; }},
      {"'cap' is", [](Program* p) { OpOf<Softcap>(p).cap = 0; }},
      {"it chooses 5 of 4 experts", [](Program* p) { OpOf<MoeRoute>(p).top_k = 5; }},
      {"it chooses 0 of 4 experts", [](Program* p) { OpOf<MoeRoute>(p).top_k = 0; }},
      {"it takes all of its 4 experts, but top_k is 2",
       [](Program* p) { OpOf<MoeRoute>(p).kind = RouteKind::kAll; }},
      {"steps of 0.300000", [](Program* p) { OpOf<MoeExperts>(p).grid.step = 0.3f; }},
      {"at most 0.500000", [](Program* p) { OpOf<MoeExperts>(p).grid.limit = 0.5f; }},
      {"up to 2^22", [](Program* p) { OpOf<MoeExperts>(p).grid.limit = 0x1p23f; }},
      {"kind of routing is 5", [](Program* p) { OpOf<MoeRoute>(p).kind = RouteKind{5}; }},
      {"in 1 of 3 groups", [](Program* p) { OpOf<MoeRoute>(p).groups = 3; }},
      {"by the best 3 of each",
       [](Program* p) {
         OpOf<MoeRoute>(p).groups = OpOf<MoeRoute>(p).experts;
         OpOf<MoeRoute>(p).group_best = 3;
       }},
      {"'scale'", [](Program* p) { OpOf<MoeRoute>(p).scale = -1; }},
      {"'bias'", [](Program* p) { OpOf<MoeRoute>(p).bias = 1000; }},
      {"expected [64] or [groups, 64 / groups]",
       [](Program* p) {
         Weight& norm = p->weights[OpOf<RmsNorm>(p).weight];
         norm.shape = {3, 32};
         norm.data = {MakePart(3 * 32 * 4)};
       }},
      {"in f32, f16 or bf16",
       [](Program* p) {
         Weight& norm = p->weights[OpOf<RmsNorm>(p).weight];
         norm.shape = {2, 32};
         norm.dtype = DType::kQ8;
         norm.data = {MakePart(2 * 32)};
         norm.scale = {MakePart(2 * 2)};
       }},
      {"its activation is 5", [](Program* p) { OpOf<MoeExperts>(p).kind = Activation{5}; }},
      {"'gate_up' is 'experts_down'", [](Program* p) { OpOf<MoeExperts>(p).gate_up = 8; }},
      {"'down' is 'norm'", [](Program* p) { OpOf<MoeExperts>(p).down = 0; }},
      {"'down_bias' is", [](Program* p) { OpOf<MoeExperts>(p).down_bias = 0; }},
      {"its activation is 77", [](Program* p) { OpOf<GatedActivation>(p).kind = Activation{77}; }},
      {"(Embed): it reads token ids, but the program also has an input",
       [](Program* p) {
         p->ops.push_back(Embed{0, {0, 0, 64}, 1});
       }},
      {"nothing writes the whole of its output buffer 'spare'",
       [](Program* p) { p->output = AddBuffer(p, "spare", 8).buffer; }},
  });
}

TEST(Validate, NamesMisuseOfAnEmbedding) {
  Program wide = Embedding();
  wide.weights[0] = {};
  AddWeight(&wide, "table", DType::kF32, {512, 32});
  wide.weights.erase(wide.weights.begin());
  EXPECT_THAT(Validate(wide).error().message(),
              HasSubstr("'table' of shape [512, 32]; expected [vocabulary, 64]"));
  Program none = EveryOp();
  none.input.reset();
  EXPECT_THAT(Validate(none).error().message(), HasSubstr("that nothing wrote before"));
}

}  // namespace
}  // namespace weft::program
