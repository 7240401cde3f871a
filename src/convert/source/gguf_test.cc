// GGUF files: what is read, and every way in which a file can be wrong. Models and types are
// compared with other readings of them in tests/conformance/gguf.mjs.
#include "convert/source/gguf.h"
#include "convert/source/embedding_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/source/checkpoint_testing.h"
#include "convert/source/gguf_config.h"
#include "convert/source/gguf_testing.h"
#include "convert/source/open_source.h"

namespace weft::convert {
namespace {

namespace fs = std::filesystem;
using testing::GgufBuilder;
using ::testing::HasSubstr;

std::string Message(const std::string& file) {
  const auto model = ParseGguf(Slice::OfText(file), "x.gguf");
  return model.ok() ? "ok" : model.error().ToString();
}

std::string Floats(std::initializer_list<float> values) {
  std::string bytes;
  for (const float value : values) bytes += GgufBuilder::Bytes(value);
  return bytes;
}

TEST(Gguf, Reads) {
  GgufBuilder builder;
  builder.Whole("a.whole", 7);
  builder.Real("a.real", 0.5f);
  builder.Text("a.text", "seven");
  builder.Value("a.flag", GgufType::kBool, std::string(1, '\1'));
  builder.Value("a.small", GgufType::kI8, std::string(1, '\xff'));
  builder.Value("a.wide", GgufType::kU64, GgufBuilder::Bytes<uint64_t>(1u << 20));
  builder.Array("a.texts", GgufType::kText, 2, GgufBuilder::Text("x") + GgufBuilder::Text(""));
  builder.Array("a.same", GgufType::kU16, 2, std::string("\5\0\5\0", 4));
  builder.Array("a.differ", GgufType::kU16, 2, std::string("\5\0\6\0", 4));
  builder.Tensor("m", {3, 2}, 0, Floats({1, 2, 3, 4, 5, 6}));
  builder.Tensor("odd", {256}, 10, std::string(84, 'x'));
  const auto model = ParseGguf(Slice::OfText(builder.File()), "x.gguf");
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  const GgufMetadata& metadata = model->metadata;
  EXPECT_EQ(*metadata.Whole("a.whole", 0, 10), 7u);
  EXPECT_EQ(*metadata.Whole("a.wide", 0, 1u << 21), 1u << 20);
  EXPECT_EQ(*metadata.Whole("a.none", 0, 10, 3), 3u);
  EXPECT_EQ(*metadata.Whole("a.same", 0, 10), 5u);
  EXPECT_EQ(*metadata.Real("a.real", 0, 1), 0.5);
  EXPECT_EQ(*metadata.Text("a.text"), "seven");
  EXPECT_TRUE(*metadata.Bool("a.flag", false));
  EXPECT_THAT(*metadata.Texts("a.texts"), ::testing::ElementsAre("x", ""));
  EXPECT_THAT(*metadata.Numbers("a.differ"), ::testing::ElementsAre(5, 6));
  const auto message = [](const auto& result) { return result.error().message(); };
  EXPECT_THAT(message(metadata.Whole("a.whole", 8, 10)),
              HasSubstr("'a.whole' in the metadata of 'x.gguf' is 7; expected a whole number"));
  EXPECT_THAT(message(metadata.Whole("a.small", 0, 10)), HasSubstr("is -1; expected"));
  EXPECT_THAT(message(metadata.Whole("a.real", 0, 10)), HasSubstr("is 0.5; expected"));
  EXPECT_THAT(message(metadata.Whole("a.text", 0, 10)), HasSubstr("is the text 'seven'"));
  EXPECT_THAT(message(metadata.Whole("a.none", 0, 10)), HasSubstr("has no 'a.none'"));
  EXPECT_THAT(message(metadata.Whole("a.differ", 0, 10)),
              HasSubstr("5 for layer 0 and 6 for layer 1"));
  EXPECT_THAT(message(metadata.Text("a.texts")), HasSubstr("an array of 2; expected a text"));
  EXPECT_THAT(message(metadata.Texts("a.text")), HasSubstr("expected an array of texts"));
  const SourceTensor& matrix = model->tensors.at("m");
  EXPECT_THAT(matrix.shape, ::testing::ElementsAre(2, 3));
  EXPECT_EQ(matrix.format, RowFormat::kF32);
  EXPECT_EQ(LoadLe<float>(matrix.bytes.bytes().data() + 20), 6);
  EXPECT_FALSE(model->tensors.at("odd").format.has_value());
  EXPECT_EQ(model->tensors.at("odd").type_name, "Q2_K");
}

TEST(Gguf, NamesEveryFaultOfTheHeader) {
  const auto with = [](auto&& change) {
    GgufBuilder builder;
    builder.Whole("a", 1);
    change(builder);
    return Message(builder.File());
  };
  EXPECT_EQ(with([](GgufBuilder&) {}), "ok");
  EXPECT_THAT(Message(""), HasSubstr("its magic number needs 4 bytes"));
  EXPECT_THAT(with([](auto& b) { b.magic = "ggml"; }), HasSubstr("begins with 'ggml'"));
  EXPECT_THAT(with([](auto& b) { b.version = 1; }), HasSubstr("is GGUF version 1; weft reads"));
  EXPECT_THAT(with([](auto& b) { b.version = 3u << 24; }), HasSubstr("big-endian"));
  EXPECT_THAT(with([](auto& b) { b.tensor_count = 1u << 30; }),
              HasSubstr("claims 1073741824 tensors; its"));
  EXPECT_THAT(with([](auto& b) { b.key_count = UINT64_MAX; }),
              HasSubstr("claims 18446744073709551615 keys of metadata"));
  EXPECT_THAT(with([](auto& b) { b.Whole("a", 2); }), HasSubstr("'a' in the metadata is there tw"));
  EXPECT_THAT(with([](auto& b) { b.Whole("", 2); }), HasSubstr("has 0 bytes; expected 1 to 65535"));
  EXPECT_THAT(with([](auto& b) { b.Value("b", GgufType{13}, ""); }),
              HasSubstr("'b' in the metadata has the type 13"));
  EXPECT_THAT(with([](auto& b) { b.Array("b", GgufType::kArray, 1, ""); }),
              HasSubstr("has the type 9 in an array"));
  EXPECT_THAT(with([](auto& b) { b.Array("b", GgufType::kF64, UINT64_MAX / 2, ""); }),
              HasSubstr("'b' in the metadata needs 18446744073709551615 bytes"));
  EXPECT_THAT(with([](auto& b) { b.Array("b", GgufType::kText, 1u << 30, ""); }),
              HasSubstr("the length of 'b' in the metadata needs 8 bytes"));
  EXPECT_THAT(
      with([](auto& b) { b.Value("b", GgufType::kText, GgufBuilder::Bytes<uint64_t>(1000)); }),
      HasSubstr("Is it cut short?"));
  EXPECT_THAT(with([](auto& b) { b.Whole("general.alignment", 24); }),
              HasSubstr("no power of two"));
  EXPECT_THAT(with([](auto& b) { b.Whole("general.alignment", 0); }), HasSubstr("is 0; expected"));
}

TEST(Gguf, NamesEveryFaultOfATensor) {
  const auto with = [](auto&& change) {
    GgufBuilder builder;
    builder.Tensor("t", {32}, 8, std::string(34, 'x'));  // 64 bytes of data
    change(builder);
    return Message(builder.File());
  };
  EXPECT_EQ(with([](GgufBuilder&) {}), "ok");
  EXPECT_THAT(with([](auto& b) { b.Tensor("t", {1}, 0, Floats({1})); }),
              HasSubstr("tensor 't' is there twice"));
  EXPECT_THAT(with([](auto& b) { b.Tensor(std::string(65, 'n'), {1}, 0, Floats({1})); }),
              HasSubstr("has 65 bytes; expected 1 to 64"));
  EXPECT_THAT(with([](auto& b) {
                b.Tensor("u", {1, 1, 1, 1, 1}, 0, Floats({1}));
              }),
              HasSubstr("has 5 dimensions; expected 0 to 4"));
  EXPECT_THAT(with([](auto& b) { b.TensorAt("u", {4}, 0, 8); }),
              HasSubstr("has the offset 8, which is no multiple of the alignment 32"));
  EXPECT_THAT(with([](auto& b) { b.TensorAt("u", {8}, 0, 64); }),
              HasSubstr("'u' has 32 bytes at offset 64; the file has 64 bytes of data"));
  EXPECT_THAT(with([](auto& b) { b.TensorAt("u", {8}, 0, UINT64_MAX - 31); }),
              HasSubstr("Is it cut short?"));
  EXPECT_THAT(with([](auto& b) { b.TensorAt("u", {8}, 0, 32); }),
              HasSubstr("tensors 't' and 'u' overlap at byte 32"));
}

// As in files that hold a vision tower beside the model: what is not needed is not read.
TEST(Gguf, TakesTensorsThatNobodyNeeds) {
  GgufBuilder builder;
  builder.Tensor("scalar", {}, 0, Floats({7}));
  builder.Tensor("empty", {0, 4}, 0, "");
  builder.Tensor("rows", {33}, 8, "");
  builder.Tensor("huge", {1u << 30, 1u << 30, 1u << 30}, 0, "");
  builder.Tensor("t", {1}, 0, Floats({5}));
  const auto model = ParseGguf(Slice::OfText(builder.File()), "x.gguf");
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_THAT(model->tensors.at("scalar").shape, ::testing::ElementsAre(1));
  EXPECT_EQ(LoadLe<float>(model->tensors.at("scalar").bytes.bytes().data()), 7);
  EXPECT_EQ(model->tensors.at("empty").bytes.byte_count(), 0u);
  EXPECT_FALSE(model->tensors.at("rows").format.has_value());
  EXPECT_THAT(model->tensors.at("rows").type_name, HasSubstr("Q8_0 in rows of 33"));
  EXPECT_THAT(model->tensors.at("huge").type_name, HasSubstr("2^64 bytes"));
  EXPECT_EQ(LoadLe<float>(model->tensors.at("t").bytes.bytes().data()), 5);
}

TEST(Gguf, FlagsMayBeNumbers) {
  GgufBuilder builder;
  builder.Value("byte", GgufType::kU8, std::string(1, '\1'));
  builder.Whole("number", 1);
  builder.Value("none", GgufType::kI8, std::string(1, '\0'));
  builder.Value("two", GgufType::kU8, std::string(1, '\2'));
  builder.Real("real", 1);
  builder.Text("text", "true");
  const auto model = ParseGguf(Slice::OfText(builder.File()), "x.gguf");
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_TRUE(*model->metadata.Bool("byte", false));
  EXPECT_TRUE(*model->metadata.Bool("number", false));
  EXPECT_FALSE(*model->metadata.Bool("none", true));
  for (const char* key : {"two", "real", "text"}) {
    const auto flag = model->metadata.Bool(key, false);
    ASSERT_FALSE(flag.ok()) << key;
    EXPECT_THAT(flag.error().message(), HasSubstr("expected a truth value, 0 or 1"));
  }
}

// A Llama of one layer, hidden 64, one head; every matrix has `type`. Of `layers` more are named.
class Llama {
 public:
  explicit Llama(uint32_t type = 1, uint32_t type_bytes = 2,
                 const std::string& architecture = "llama", uint32_t layers = 1)
      : type_(type), bytes_(type_bytes) {
    builder.Text("general.architecture", architecture);
    builder.Whole(architecture + ".block_count", layers);
    builder.Whole(architecture + ".context_length", 64);
    builder.Whole(architecture + ".embedding_length", 64);
    builder.Whole(architecture + ".feed_forward_length", 96);
    builder.Whole(architecture + ".attention.head_count", 1);
    builder.Real(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
    Vector("output_norm.weight", 64);
    Matrix("token_embd.weight", 64, 40);
    Vector("blk.0.attn_norm.weight", 64);
    Vector("blk.0.ffn_norm.weight", 64);
    for (const char* name : {"q", "k", "v", "output"}) {
      Matrix(std::string("blk.0.attn_") + name + ".weight", 64, 64);
    }
    Matrix("blk.0.ffn_gate.weight", 64, 96);
    Matrix("blk.0.ffn_up.weight", 64, 96);
    Matrix("blk.0.ffn_down.weight", 96, 64);
  }
  void Vector(const std::string& name, uint64_t count) {
    if (name != without) builder.Tensor(name, {count}, 0, std::string(count * 4, '\0'));
  }
  void Matrix(const std::string& name, uint64_t columns, uint64_t rows) {
    builder.Tensor(name, {columns, rows}, type_, std::string(columns * rows * bytes_, '\0'));
  }

  GgufBuilder builder;
  std::string without;

 private:
  uint32_t type_, bytes_;
};

class GgufSource : public ::testing::Test {
 protected:
  std::string Open(const fs::path& path) {
    const auto source = OpenSource(path);
    return source.ok() ? "ok" : source.error().ToString();
  }
  std::string OpenText(const std::string& file) {
    testing::Write(folder_.path() / "m.gguf", file);
    return Open(folder_.path() / "m.gguf");
  }
  TemporaryFolder folder_;
};

TEST_F(GgufSource, BecomesACheckpoint) {
  testing::Write(folder_.path() / "tiny-F16.gguf", Llama().builder.File());
  const auto source = OpenSource(folder_.path() / "tiny-F16.gguf");
  ASSERT_TRUE(source.ok()) << source.error().ToString();
  EXPECT_EQ(source->name, "tiny-F16");
  EXPECT_TRUE(source->files.contains("config.json"));
  EXPECT_FALSE(source->files.contains("tokenizer.json"));
  const SourceTensor& q = source->tensors.at("model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(q.own_name, "blk.0.attn_q.weight");
  EXPECT_EQ(q.interleaved_rows, 64u);
  EXPECT_EQ(source->tensors.at("model.layers.0.self_attn.v_proj.weight").interleaved_rows, 0u);
  EXPECT_EQ(Open(folder_.path()), "ok");  // the only model of the folder
  testing::Write(folder_.path() / "other.gguf", "");
  EXPECT_THAT(Open(folder_.path()),
              HasSubstr("has 2 GGUF models, 'other.gguf' and 'tiny-F16.gguf'"));
}

// llama.cpp's numbers: 1 the mean, 2 a first token, 3 the last one, 4 a ranking.
TEST_F(GgufSource, SaysHowRowsBecomeAnEmbedding) {
  const auto pooling_of = [&](std::optional<uint32_t> type) -> std::string {
    Llama model;
    if (type) model.builder.Whole("llama.pooling_type", *type);
    testing::Write(folder_.path() / "m.gguf", model.builder.File());
    const auto source = OpenSource(folder_.path() / "m.gguf");
    if (!source.ok()) return source.error().message();
    const auto found = FindEmbedding(*source, {});
    if (!found.ok()) return found.error().message();
    return *found ? std::string(package::PoolingName((*found)->embedding.pooling)) : "none";
  };
  EXPECT_EQ(pooling_of(std::nullopt), "none");
  EXPECT_EQ(pooling_of(0), "none");
  EXPECT_EQ(pooling_of(1), "mean");
  EXPECT_EQ(pooling_of(3), "last");
  EXPECT_THAT(pooling_of(2), HasSubstr("pooling type is 2 (the row of a first token)"));
  EXPECT_THAT(pooling_of(4), HasSubstr("pooling type is 4 (a ranking of texts)"));
}

TEST_F(GgufSource, NamesWhatItCannotConvert) {
  EXPECT_THAT(OpenText(Llama(10, 1).builder.File()),
              HasSubstr("'m.gguf' is of type Q2_K; weft converts F32, F16, Q4_0"));
  EXPECT_THAT(OpenText(Llama(77, 1).builder.File()), HasSubstr("is of type type 77"));
  Llama rope;
  rope.builder.Text("llama.rope.scaling.type", "telepathy");
  EXPECT_THAT(OpenText(rope.builder.File()), HasSubstr("'llama.rope.scaling.type' of 'm.gguf' is"));
  Llama factors;
  factors.builder.Tensor("rope_freqs.weight", {65}, 0, std::string(260, '\0'));
  EXPECT_THAT(OpenText(factors.builder.File()),
              HasSubstr("'rope_freqs.weight' of 'm.gguf' has sh"));
  GgufBuilder heads;
  heads.Text("general.architecture", "llama");
  for (const char* name : {"embedding_length", "block_count", "feed_forward_length"}) {
    heads.Whole(std::string("llama.") + name, 2);
  }
  heads.Whole("llama.context_length", 64);
  heads.Whole("llama.attention.head_count", 3);
  EXPECT_THAT(OpenText(heads.File()), HasSubstr("has 3 heads in 2 columns; expected at least one"));
  Llama values;
  values.builder.Whole("llama.attention.value_length", 32);
  EXPECT_THAT(OpenText(values.builder.File()), HasSubstr("keys of 64 columns and values of 32"));
  GgufBuilder mamba;
  mamba.Text("general.architecture", "mamba");
  EXPECT_THAT(OpenText(mamba.File()), HasSubstr("The architecture 'mamba' of 'm.gguf' is not"));
  GgufBuilder none;
  EXPECT_THAT(OpenText(none.File()), HasSubstr("has no 'general.architecture'"));
  GgufBuilder sizes;
  sizes.Text("general.architecture", "qwen3");
  EXPECT_THAT(OpenText(sizes.File()), HasSubstr("has no 'qwen3.embedding_length'"));
  EXPECT_THAT(Open(folder_.path() / "nowhere.gguf"), HasSubstr("no GGUF file"));
}

// A Llama by another name, whose metadata lack what its architecture needs.
TEST_F(GgufSource, NamesWhatDeltaNetAndSigmoidExpertsLack) {
  const auto delta = [&](uint32_t inner_size) {
    Llama model(1, 2, "qwen35");
    model.builder.Whole("qwen35.ssm.group_count", 2);
    model.builder.Whole("qwen35.ssm.time_step_rank", 4);
    model.builder.Whole("qwen35.ssm.state_size", 16);
    model.builder.Whole("qwen35.ssm.inner_size", inner_size);
    model.builder.Whole("qwen35.ssm.conv_kernel", 4);
    return OpenText(model.builder.File());
  };
  EXPECT_EQ(delta(64), "ok");
  EXPECT_THAT(delta(66), HasSubstr("has 4 value heads ('qwen35.ssm.time_step_rank') in 66 colu"));
  EXPECT_THAT(OpenText(Llama(1, 2, "qwen3next").builder.File()),
              HasSubstr("has no 'qwen3next.ssm.group_count'"));
  EXPECT_THAT(OpenText(Llama(1, 2, "glm4moe").builder.File()),
              HasSubstr("has no 'glm4moe.expert_feed_forward_length'"));
  Llama softmax(1, 2, "glm4moe");
  softmax.builder.Whole("glm4moe.expert_gating_func", 1);
  EXPECT_THAT(OpenText(softmax.builder.File()), HasSubstr("scores experts by softmax"));
  softmax.builder = Llama(1, 2, "deepseek2").builder;
  softmax.builder.Whole("deepseek2.expert_gating_func", 3);
  EXPECT_THAT(OpenText(softmax.builder.File()), HasSubstr("is 3; weft converts 1 (softmax) and 2"));
  EXPECT_THAT(OpenText(Llama(1, 2, "deepseek2").builder.File()),
              HasSubstr("has no 'deepseek2.attention.kv_lora_rank'"));
  Llama growing(1, 2, "deepseek2");
  growing.builder.Real("deepseek2.attention.temperature_scale", 0.1f);
  EXPECT_THAT(OpenText(growing.builder.File()),
              HasSubstr("'deepseek2.attention.temperature_scale', queries that grow"));
  Llama drafts(1, 2, "qwen3");
  drafts.builder.Whole("qwen3.nextn_predict_layers", 1);
  EXPECT_THAT(OpenText(drafts.builder.File()), HasSubstr("expected a whole number from 0 to 0"));
}

TEST_F(GgufSource, NamesWhatHybridsLack) {
  const auto heads = [](const std::string& architecture, const std::string& numbers) {
    Llama model(1, 2, architecture, 2);
    model.builder.Array(architecture + ".attention.head_count_kv", GgufType::kU8, numbers.size(),
                        numbers);
    return model;
  };
  const auto lfm2 = [&](const std::string& kv_heads) {
    Llama model = heads("lfm2", kv_heads);
    model.builder.Whole("lfm2.shortconv.l_cache", 3);
    return OpenText(model.builder.File());
  };
  EXPECT_EQ(lfm2({"\0\1", 2}), "ok");
  EXPECT_THAT(lfm2({"\0\0", 2}), HasSubstr("'lfm2.attention.head_count_kv' of 'm.gguf' holds 0"));
  EXPECT_THAT(lfm2({"\1\1", 2}), HasSubstr("has no zero; expected layers with attention and"));
  Llama all_alike(1, 2, "lfm2", 2);
  all_alike.builder.Whole("lfm2.shortconv.l_cache", 3);
  EXPECT_THAT(OpenText(all_alike.builder.File()),
              HasSubstr("'lfm2.attention.head_count_kv' of 'm.gguf' has 0 numbers"));
  EXPECT_THAT(OpenText(heads("lfm2", {"\0\1", 2}).builder.File()),
              HasSubstr("has no 'lfm2.shortconv.l_cache'"));
  const auto granite = [&](uint32_t width) {
    Llama model = heads("granitehybrid", {"\0\1", 2});
    for (const char* key : {"time_step_rank", "group_count", "state_size", "conv_kernel"}) {
      model.builder.Whole("granitehybrid.ssm." + std::string(key), 4);
    }
    model.builder.Whole("granitehybrid.ssm.inner_size", width);
    return OpenText(model.builder.File());
  };
  EXPECT_THAT(granite(62), HasSubstr("has 62 columns of Mamba2 ('granitehybrid.ssm.inner_size')"));
  EXPECT_THAT(OpenText(heads("nemotron_h", {"\0\1", 2}).builder.File()),
              HasSubstr("has no tensors of 'blk.1' that say what the layer is"));
  EXPECT_THAT(OpenText(heads("granitehybrid", "\1\1").builder.File()),
              HasSubstr("'granitehybrid.attention.head_count_kv' of 'm.gguf' has no zero"));
}

TEST_F(GgufSource, PutsSplitModelsTogether) {
  const auto part = [&](uint64_t number, uint64_t count, Llama* whole, GgufBuilder* other,
                        const std::string& name) {
    GgufBuilder& builder = whole != nullptr ? whole->builder : *other;
    builder.Whole("split.no", static_cast<uint32_t>(number));
    builder.Whole("split.count", static_cast<uint32_t>(count));
    builder.Whole("split.tensors.count", 12);
    testing::Write(folder_.path() / name, builder.File());
  };
  Llama first;
  part(0, 2, &first, nullptr, "m-00001-of-00002.gguf");
  EXPECT_THAT(Open(folder_.path() / "m-00001-of-00002.gguf"),
              HasSubstr("has no file 'm-00002-of-00002.gguf'"));
  GgufBuilder second;
  second.Tensor("output.weight", {64, 40}, 1, std::string(64 * 40 * 2, '\0'));
  part(1, 2, nullptr, &second, "m-00002-of-00002.gguf");
  EXPECT_EQ(Open(folder_.path() / "m-00001-of-00002.gguf"), "ok");
  EXPECT_EQ(Open(folder_.path() / "m-00002-of-00002.gguf"), "ok");
  EXPECT_EQ(OpenSource(folder_.path())->name, "m");
  GgufBuilder wrong;
  part(0, 2, nullptr, &wrong, "m-00002-of-00002.gguf");
  EXPECT_THAT(Open(folder_.path()),
              HasSubstr("by its metadata it is part 1 of 2, by its name part 2"));
  GgufBuilder twice;
  twice.Tensor("output_norm.weight", {64}, 0, std::string(256, '\0'));
  part(1, 2, nullptr, &twice, "m-00002-of-00002.gguf");
  EXPECT_THAT(Open(folder_.path()), HasSubstr("is in 'm-00001-of-00002.gguf' already"));
  GgufBuilder fewer;
  part(1, 2, nullptr, &fewer, "m-00002-of-00002.gguf");
  EXPECT_THAT(Open(folder_.path()), HasSubstr("its parts have 11 tensors; its metadata says 12"));
  fs::rename(folder_.path() / "m-00001-of-00002.gguf", folder_.path() / "single.gguf");
  EXPECT_THAT(Open(folder_.path() / "single.gguf"),
              HasSubstr("it is one of 2 parts, but is not c"));
}

// Who splits at so many bytes may name a file so that needed no split.
TEST_F(GgufSource, TheOnlyPartOfOneIsAWhole) {
  Llama plain;
  testing::Write(folder_.path() / "m-00001-of-00001.gguf", plain.builder.File());
  EXPECT_EQ(Open(folder_.path() / "m-00001-of-00001.gguf"), "ok");
  EXPECT_EQ(OpenSource(folder_.path())->name, "m");
  Llama says;
  says.builder.Whole("split.no", uint32_t{0});
  says.builder.Whole("split.count", uint32_t{1});
  testing::Write(folder_.path() / "m-00001-of-00001.gguf", says.builder.File());
  EXPECT_EQ(Open(folder_.path() / "m-00001-of-00001.gguf"), "ok");
  Llama first;
  first.builder.Whole("split.count", uint32_t{2});
  testing::Write(folder_.path() / "m-00001-of-00001.gguf", first.builder.File());
  EXPECT_THAT(Open(folder_.path() / "m-00001-of-00001.gguf"), HasSubstr("it is one of 2 parts"));
}

TEST_F(GgufSource, SurvivesCutsAndFlippedBits) {
  const std::string whole = Llama().builder.File();
  SeededRandom random(5);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string changed = whole.substr(0, round < 150 ? random.Below(whole.size()) : whole.size());
    if (round >= 150) changed[random.Below(1400)] ^= static_cast<char>(1 << random.Below(8));
    if (OpenText(changed) != "ok") ++refused;
  }
  EXPECT_GT(refused, 150);
}

}  // namespace
}  // namespace weft::convert
