// Everything that can be wrong with a safetensors file is a sentence with the file, the tensor and
// the numbers.
#include "convert/source/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/data_testing.h"
#include "convert/source/checkpoint_testing.h"
#include "convert/source/source_folder.h"

namespace weft::convert {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Safetensors;
using testing::Write;

Slice ToSlice(std::string_view text) {
  return Slice(std::vector<uint8_t>(text.begin(), text.end()));
}

TEST(Safetensors, Reads) {
  const std::string file = Safetensors(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]},)"
      R"("empty":{"dtype":"F8_E4M3","shape":[3,0],"data_offsets":[10,10]}}  )",
      std::string("\0\0\x80\x3f\0\0\0\x40\x80\x3f", 10));
  const auto tensors = ParseSafetensors(ToSlice(file), "x.safetensors");
  ASSERT_TRUE(tensors.ok()) << tensors.error().ToString();
  ASSERT_EQ(tensors->size(), 3u);
  const SourceTensor& a = tensors->at("a");
  EXPECT_EQ(a.shape, (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(a.format, RowFormat::kF32);
  EXPECT_EQ(LoadLe<float>(a.bytes.bytes().data()), 1.0f);
  EXPECT_EQ(LoadLe<float>(a.bytes.bytes().data() + 4), 2.0f);
  EXPECT_TRUE(tensors->at("b").shape.empty());
  EXPECT_FALSE(tensors->at("empty").format.has_value());
}

TEST(Safetensors, NamesEveryFault) {
  const std::string data(16, 'x');
  const auto entry = [](const std::string& fields) { return "{\"t\":{" + fields + "}}"; };
  const struct {
    std::string file, message;
  } cases[] = {
      {"", "it has 0 bytes"},
      {"1234567", "it has 7 bytes"},
      {std::string(8, '\xff'), "its header claims 18446744073709551615 bytes; the file has 8"},
      {Safetensors("{}", "").replace(0, 1, "\x03"), "its header claims 3 bytes"},
      {Safetensors("not json", ""), "is not JSON"},
      {Safetensors(std::string(5000, '['), ""), "is not JSON"},
      {Safetensors("[]", ""), "not a JSON object"},
      {Safetensors("{\"t\":3}", data), "tensor 't' is not an object"},
      {Safetensors(entry(R"("shape":[4],"data_offsets":[0,16])"), data), "has no 'dtype'"},
      {Safetensors(entry(R"("dtype":"F33","shape":[4],"data_offsets":[0,16])"), data),
       "unknown dtype 'F33'"},
      {Safetensors(entry(R"("dtype":"F32","data_offsets":[0,16])"), data), "has no shape"},
      {Safetensors(entry(R"("dtype":"F32","shape":[-4],"data_offsets":[0,16])"), data),
       "has the dimension -4"},
      {Safetensors(entry(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,16])"), data),
       "has the dimension 1.5E0"},
      {Safetensors(entry(R"("dtype":"F32","shape":["4"],"data_offsets":[0,16])"), data),
       "has the dimension \"4\""},
      {Safetensors(entry(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,16])"),
                   data),
       "at most 8 dimensions"},
      {Safetensors(entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,16])"),
                   data),
       "needs more than 2^64 bytes"},
      {Safetensors(entry(R"("dtype":"F32","shape":[5],"data_offsets":[0,16])"), data),
       "of dtype F32 and shape [5] needs 20 bytes; its data_offsets hold 16"},
      {Safetensors(entry(R"("dtype":"F32","shape":[4],"data_offsets":[0,17])"), data),
       "data_offsets [0,17]; the file has 16 bytes of data"},
      {Safetensors(entry(R"("dtype":"F32","shape":[4],"data_offsets":[16,0])"), data),
       "data_offsets [16,0]"},
      {Safetensors(entry(R"("dtype":"F32","shape":[4],"data_offsets":[-16,0])"), data),
       "data_offsets [-16,0]"},
      {Safetensors(entry(R"("dtype":"F32","shape":[4],"data_offsets":[0])"), data),
       "no data_offsets of two numbers"},
      {Safetensors(entry(R"("dtype":"F32","shape":[4])"), data), "no data_offsets of two numbers"},
      {Safetensors(entry(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"), data + "y"),
       "its tensors end at byte 16 of 17"},
      {Safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                   R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                   data),
       "tensors 'a' and 'b' overlap at byte 4"},
      {Safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                   data),
       "no tensor covers bytes 4 to 8"},
      {Safetensors(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
                   R"("a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
                   data),
       "has the key 'a' twice"},
      {Safetensors(R"({"a":{"dtype":"F32","dtype":"F16","shape":[4],"data_offsets":[0,16]}})",
                   data),
       "has the key 'dtype' twice"},
  };
  for (const auto& c : cases) {
    const auto tensors = ParseSafetensors(ToSlice(c.file), "x.safetensors");
    ASSERT_FALSE(tensors.ok()) << c.message;
    EXPECT_EQ(tensors.error().code(), ErrorCode::kInvalidData);
    EXPECT_THAT(tensors.error().message(), AllOf(HasSubstr(c.message), HasSubstr("x.safetensors")));
  }
}

TEST(Safetensors, SurvivesCutsAndFlippedBits) {
  const std::string whole = Safetensors(testing::TinyQwen3());
  const auto header_bytes = LoadLe<uint64_t>(reinterpret_cast<const uint8_t*>(whole.data()));
  SeededRandom random(3);
  for (int round = 0; round < 4000; ++round) {
    std::string changed = whole.substr(0, 8 + header_bytes);
    changed[random.Below(changed.size())] ^= static_cast<char>(1 << random.Below(8));
    changed += whole.substr(8 + header_bytes);
    const auto tensors = ParseSafetensors(ToSlice(changed), "x");
    if (!tensors.ok()) continue;
    for (const auto& [name, tensor] : *tensors) EXPECT_LE(tensor.bytes.byte_count(), whole.size());
  }
  for (int round = 0; round < 300; ++round) {
    EXPECT_FALSE(ParseSafetensors(ToSlice(whole.substr(0, random.Below(whole.size()))), "x").ok());
  }
}

TEST(Safetensors, ReadsSeveralFiles) {
  const TemporaryFolder folder;
  SeededRandom random(5);
  const auto a = testing::RandomTensor(&random, {4}), b = testing::RandomTensor(&random, {2, 3});
  Write(folder.path() / "one.safetensors", Safetensors(testing::FloatTensors{{"a", a}}));
  Write(folder.path() / "two.safetensors", Safetensors(testing::FloatTensors{{"b", b}, {"c", a}}));
  const auto write_index = [&](const std::string& map) {
    Write(folder.path() / "model.safetensors.index.json", "{\"weight_map\":" + map + "}");
  };
  write_index(R"({"a":"one.safetensors","b":"two.safetensors"})");
  const auto tensors = OpenSafetensors(folder.path());
  ASSERT_TRUE(tensors.ok()) << tensors.error().ToString();
  EXPECT_EQ(tensors->size(), 2u);
  EXPECT_EQ(tensors->at("b").file, "two.safetensors");

  const struct {
    std::string map, message;
  } cases[] = {
      {R"({"a":"two.safetensors"})", "'a' is in 'two.safetensors', which does not have it"},
      {R"({"a":"three.safetensors"})", "has no file 'three.safetensors'"},
      {R"({"a":"../one.safetensors"})", "is not the plain name of a file"},
      {R"({"a":"/etc/passwd"})", "is not the plain name of a file"},
      {R"({"a":".."})", "is not the plain name of a file"},
      {R"({"a":7})", "is not a string"},
      {"{}", "no 'weight_map' that names any tensor"},
      {"[]", "expected an object"},
  };
  for (const auto& c : cases) {
    write_index(c.map);
    const auto refused = OpenSafetensors(folder.path());
    ASSERT_FALSE(refused.ok()) << c.map;
    EXPECT_THAT(refused.error().message(), HasSubstr(c.message));
  }
}

TEST(Safetensors, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_THAT(OpenSafetensors(folder.path()).error().message(),
              HasSubstr("neither model.safetensors nor model.safetensors.index.json"));
  Write(folder.path() / "pytorch_model.bin", "x");
  EXPECT_THAT(OpenSafetensors(folder.path()).error().message(), HasSubstr("is a pickle"));
}

TEST(SourceFolder, FollowsLinksOnlyWhereTheyStay) {
  const TemporaryFolder outer;
  const fs::path folder = outer.path() / "models--x" / "snapshots" / "main";
  fs::create_directories(folder);
  fs::create_directories(outer.path() / "models--x" / "blobs");
  Write(outer.path() / "models--x" / "blobs" / "abc", "blob");
  Write(outer.path() / "secret", "secret");
  Write(folder / "plain", "plain");
  fs::create_symlink("../../blobs/abc", folder / "cached");
  fs::create_symlink("plain", folder / "inside");
  fs::create_symlink("../../../secret", folder / "outside");
  fs::create_symlink("/etc/hostname", folder / "absolute");
  EXPECT_TRUE(SourceFile(folder, "plain").ok());
  EXPECT_TRUE(SourceFile(folder, "inside").ok());
  EXPECT_EQ(testing::Read(*SourceFile(folder, "cached")), "blob");
  fs::create_directories(folder / "Q8_0");
  fs::create_symlink("../../../blobs/abc", folder / "Q8_0" / "cached");
  fs::create_symlink("../../../../secret", folder / "Q8_0" / "outside");
  EXPECT_EQ(testing::Read(*SourceFile(folder / "Q8_0", "cached")), "blob");
  EXPECT_EQ(SourceFile(folder / "Q8_0", "outside").error().code(), ErrorCode::kPermissionDenied);
  EXPECT_EQ(SourceFile(folder, "missing").error().code(), ErrorCode::kNotFound);
  for (const std::string name : {"outside", "absolute", "../main/plain", "", "."}) {
    EXPECT_EQ(SourceFile(folder, name).error().code(), ErrorCode::kPermissionDenied) << name;
  }
  // Outside a cache's layout a link to a neighbour is a link out.
  const fs::path other = outer.path() / "other";
  fs::create_directories(other);
  fs::create_symlink("../models--x/blobs/abc", other / "cached");
  EXPECT_EQ(SourceFile(other, "cached").error().code(), ErrorCode::kPermissionDenied);
}

// Files that transformers wrote: our writer above might share a mistake with our reader.
TEST(Safetensors, ReadsTheFilesOfTransformers) {
  const fs::path folder = TestDataFolder() / "checkpoints" / "qwen3";
  WEFT_NEED_DATA(folder);
  const auto tensors = OpenSafetensors(folder);
  ASSERT_TRUE(tensors.ok()) << tensors.error().ToString();
  EXPECT_EQ(tensors->at("model.layers.3.self_attn.q_norm.weight").shape, std::vector<uint64_t>{32});
  EXPECT_EQ(tensors->at("model.embed_tokens.weight").bytes.byte_count(), 512u * 64 * 4);
}

}  // namespace
}  // namespace weft::convert
