// The package format: weft.json, blobs on disk, and what happens when either was tampered with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <fstream>
#include <thread>

#include "base/file_testing.h"
#include "base/random.h"
#include "package/group_norms.h"
#include "package/group_predictor.h"
#include "package/package.h"
#include "package/predictors.h"
#include "package/verified_files.h"

namespace weft::package {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::vector<uint8_t> RandomBytes(uint64_t seed, size_t byte_count) {
  SeededRandom random(seed);
  std::vector<uint8_t> bytes(byte_count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Next());
  return bytes;
}

void FlipBit(const fs::path& path, size_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 0x10));
}

// Three layers, a program blob and weight blobs; the second weight blob spans three chunks.
struct Sample {
  std::vector<std::vector<uint8_t>> blobs;
  Manifest manifest;

  Sample() {
    blobs = {RandomBytes(1, 100), RandomBytes(2, 5000), RandomBytes(3, 2 * kChunkBytes + 77)};
    manifest.name = "sample \"x\"";
    manifest.architecture = "qwen3";
    manifest.quantisation = "f32";
    manifest.hidden_columns = 64;
    manifest.vocabulary = 512;
    manifest.context_length = 512;
    for (const auto& blob : blobs) manifest.blobs[Digest::Of(blob)] = MakeBlobInfo(blob);
    for (uint32_t index = 0; index < 3; ++index) {
      LayerInfo layer;
      layer.index = index;
      layer.kind = index == 0 ? "embedding" : index == 1 ? "transformer" : "head";
      layer.program = Digest::Of(blobs[0]);
      layer.blobs = {Digest::Of(blobs[index == 1 ? 2 : 1])};
      layer.weight_bytes = 1000 + index;
      layer.read_bytes_per_token = 10;
      layer.kv_bytes_per_position = index == 1 ? 256 : 0;
      manifest.layers.push_back(layer);
    }
    manifest.files["config.json"] = Digest::Of(AsBytes("{}"));
  }

  void WriteTo(const fs::path& folder) const {
    fs::create_directories(folder / "blobs");
    for (const auto& blob : blobs) {
      ASSERT_TRUE(WriteFileAtomically(folder / "blobs" / Digest::Of(blob).ToHex(), blob).ok());
    }
    ASSERT_TRUE(WriteFileAtomically(folder / "config.json", AsBytes("{}")).ok());
    ASSERT_TRUE(WriteFileAtomically(folder / "weft.json", AsBytes(ToJson(manifest))).ok());
  }
};

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(Digest, ParsesOnlyDigests) {
  const Digest digest = Digest::Of(AsBytes("abc"));
  EXPECT_EQ(*Digest::Parse(digest.ToHex()), digest);
  for (const std::string& bad :
       {std::string("../../etc/passwd"), std::string(), std::string(63, 'a'), std::string(65, 'a'),
        std::string(64, 'A'), std::string(64, 'g'), "../" + std::string(61, 'a'),
        std::string(63, 'a') + std::string(1, '\0')}) {
    EXPECT_EQ(Digest::Parse(bad).error().code(), ErrorCode::kInvalidArgument) << bad;
  }
}

TEST(GroupNorms, RoundTripAndWhatIsNoneIsRefused) {
  const GroupNorms norms = {{}, {0.5f, 0.25f}, {1, 0}};
  const auto read = ParseGroupNorms(GroupNormsJson(norms));
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(*read, norms);
  for (const char* bad :
       {"", "[]", "{}", R"({"norms": 1})", R"({"norms": [1]})", R"({"norms": [["1"]]})",
        R"({"norms": [[-1]]})", R"({"norms": [[1e99]]})"})
    EXPECT_FALSE(ParseGroupNorms(bad).ok()) << bad;
}

GroupPredictor SomePredictor() {
  // Rows of 40 columns: a block of 32 values and a part of one. Two hidden values, three groups.
  GroupPredictor predictor{40, 2, 3, 1, {}, {0.5f, -0.25f}, {}, {1, 0, -100}};
  for (int i = 0; i < 2 * 40; ++i) predictor.first.push_back(static_cast<float>(i % 7 - 3));
  predictor.second = {1, 0, 0, 1, 1, 1};
  return predictor;
}

TEST(GroupPredictor, PredictsByItsFormula) {
  GroupPredictor predictor = SomePredictor();
  predictor.first.assign(80, 0);
  predictor.first[0] = 2;   // of hidden value 0: column 0
  predictor.first[79] = 1;  // of hidden value 1: column 39
  std::vector<float> row(40);
  row[0] = 3;
  row[39] = 0.125f;
  // h = max(0, {2 * 3 + 0.5, 0.125 - 0.25}) = {6.5, 0}; norms = max(0, {6.5 + 1, 0, 6.5 - 100}).
  EXPECT_EQ(predictor.Predict(row), (std::vector<float>{7.5f, 0, 0}));
}

TEST(GroupPredictor, ABlobIsWhatItWasRoundedTo) {
  const std::vector<uint8_t> blob = EncodePredictor(SomePredictor());
  const auto read = DecodePredictor(blob);
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->reads, 1u);
  EXPECT_EQ(read->first_bias, SomePredictor().first_bias);
  EXPECT_EQ(read->second_bias, SomePredictor().second_bias);
  for (size_t i = 0; i < read->first.size(); ++i)
    EXPECT_NEAR(read->first[i], SomePredictor().first[i], 3.0f / 8) << i;
  std::vector<float> row(40, 0.5f);
  EXPECT_EQ(DecodePredictor(blob)->Predict(row), read->Predict(row));
}

TEST(GroupPredictor, WhatIsNoneIsRefused) {
  const std::vector<uint8_t> good = EncodePredictor(SomePredictor());
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_EQ(DecodePredictor(std::span(good).first(length)).error().code(),
              ErrorCode::kInvalidData)
        << length;
  const auto with = [&good](size_t at, uint32_t value) {
    std::vector<uint8_t> bytes = good;
    StoreLe(bytes.data() + at, value);
    return DecodePredictor(bytes).error();
  };
  EXPECT_EQ(with(0, 0).code(), ErrorCode::kInvalidData);
  EXPECT_EQ(with(4, 2).code(), ErrorCode::kUnsupported);
  EXPECT_THAT(with(4, 2).ToString(), HasSubstr("version 2; this weft reads 1"));
  for (const size_t field : {8, 12, 16})
    for (const uint32_t value : {0u, UINT32_MAX})
      EXPECT_EQ(with(field, value).code(), ErrorCode::kInvalidData) << field << " " << value;
  // The last number is a bias: not a number.
  EXPECT_EQ(with(good.size() - 4, 0x7fc00000).code(), ErrorCode::kInvalidData);
}

Result<GroupPredictor> PredictorOfLayer1(const Package& package) {
  const Digest digest = package.manifest.layers[1].predictor;
  ASSIGN_OR_RETURN(const Slice blob, package.blobs->Get(digest, package.manifest.blobs.at(digest)));
  return DecodePredictor(blob.bytes());
}

TEST(Predictors, AreInThePackageOnceTheyAreStored) {
  const TemporaryFolder folder;
  Sample sample;
  sample.manifest.hidden_columns = 40;
  sample.WriteTo(folder.path());
  const auto before = Package::Open(folder.path());
  ASSERT_TRUE(before.ok()) << before.error().ToString();
  EXPECT_EQ(PredictorBytes(before->manifest), 0u);
  const std::vector<uint8_t> blob = EncodePredictor(SomePredictor());
  ASSERT_TRUE(StorePredictors(*before, {{1, blob}}).ok());
  const auto after = Package::Open(folder.path());
  ASSERT_TRUE(after.ok()) << after.error().ToString();
  EXPECT_EQ(PredictorBytes(after->manifest), blob.size());
  EXPECT_EQ(PredictorOfLayer1(*after).value().groups, 3u);
  EXPECT_EQ(after->manifest.layers[1].blobs, before->manifest.layers[1].blobs);
  EXPECT_EQ(DownloadBytes(after->manifest, 0, 3), DownloadBytes(before->manifest, 0, 3));

  // Others take their place, and the old blob goes.
  GroupPredictor other = SomePredictor();
  other.first_bias[0] = 7;
  ASSERT_TRUE(StorePredictors(*after, {{1, EncodePredictor(other)}}).ok());
  const auto last = Package::Open(folder.path());
  ASSERT_TRUE(last.ok()) << last.error().ToString();
  EXPECT_EQ(PredictorOfLayer1(*last).value().first_bias[0], 7);
  EXPECT_FALSE(last->blobs->Contains(Digest::Of(blob)));
}

TEST(Manifest, RoundTrips) {
  const Sample sample;
  const std::string text = ToJson(sample.manifest);
  const auto parsed = ParseManifest(AsBytes(text));
  ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
  EXPECT_EQ(ToJson(*parsed), text);
  EXPECT_EQ(parsed->name, "sample \"x\"");
  EXPECT_EQ(parsed->layers[1].kv_bytes_per_position, 256u);
  EXPECT_EQ(parsed->blobs.at(Digest::Of(sample.blobs[2])).chunks.size(), 3u);
  EXPECT_EQ(DownloadBytes(*parsed, 0, 3), 100u + 5000u + 2 * kChunkBytes + 77);
  EXPECT_EQ(DownloadBytes(*parsed, 2, 3), 5100u);
  EXPECT_EQ(DownloadBytes(*parsed, 3, 3), 0u);
}

// The first and the last layer read one blob of 5000 bytes.
TEST(Manifest, SharedBlobsAreThoseOfAnEarlierLayer) {
  Sample sample;
  const auto shared = FindSharedBlobs(sample.manifest);
  ASSERT_EQ(shared.size(), 3u);
  EXPECT_EQ(shared[0].with, -1);
  EXPECT_EQ(shared[1].with, -1);
  EXPECT_EQ(shared[1].byte_count, 0u);
  EXPECT_EQ(shared[2].with, 0);
  EXPECT_EQ(shared[2].byte_count, 1002u) << "it reads so much of the blob";
  sample.manifest.layers[2].weight_bytes = 9000;
  EXPECT_EQ(FindSharedBlobs(sample.manifest)[2].byte_count, 5000u);
}

TEST(Manifest, LayersThatAreKeptTogetherRoundTrip) {
  Sample sample;
  EXPECT_EQ(ToJson(sample.manifest).find("keep_together"), std::string::npos);
  sample.manifest.keep_together = {{0, 2}};
  const std::string text = ToJson(sample.manifest);
  const auto parsed = ParseManifest(AsBytes(text));
  ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
  EXPECT_EQ(parsed->keep_together, sample.manifest.keep_together);
  for (const char* ranges : {"7", "[7]", "[[0]]", "[[0,1]]", "[[1,0]]", "[[-1,2]]", "[[0,4]]",
                             "[[0,1.5]]", "[[0,\"2\"]]", "[[0,2],[1,3]]", "[[0,1e300]]"}) {
    const auto wrong = ParseManifest(AsBytes(Replaced(text, "[[0,2]]", ranges)));
    ASSERT_FALSE(wrong.ok()) << ranges;
    EXPECT_THAT(wrong.error().message(), HasSubstr("expected ranges [first, end) of two of its 3"));
  }
}

TEST(Manifest, WithoutProgramsRoundTrips) {
  Sample sample;
  sample.manifest.lowered = false;
  for (LayerInfo& layer : sample.manifest.layers) layer.program = Digest();
  const auto parsed = ParseManifest(AsBytes(ToJson(sample.manifest)));
  ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
  EXPECT_FALSE(parsed->lowered);
  EXPECT_EQ(DownloadBytes(*parsed, 2, 3), 5000u);
}

TEST(Manifest, RefusesAnotherFormatWithBothNumbers) {
  const std::string text = ToJson(Sample().manifest);
  const auto newer = ParseManifest(AsBytes(Replaced(text, "\"format\": 1", "\"format\": 7")));
  EXPECT_EQ(newer.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(newer.error().message(), HasSubstr("has format 7; this weft reads formats up to 2"));
  EXPECT_THAT(newer.error().message(), HasSubstr("Update weft"));
  const auto older = ParseManifest(AsBytes(Replaced(text, "\"format\": 1", "\"format\": 0")));
  EXPECT_THAT(older.error().message(), HasSubstr("weft convert"));
}

TEST(Manifest, WeightsOfQ4sHaveANewerFormat) {
  Manifest manifest = Sample().manifest;
  manifest.quantisation = "q4s";
  const std::string text = ToJson(manifest);
  EXPECT_THAT(text, HasSubstr("\"format\": 2"));
  ASSERT_TRUE(ParseManifest(AsBytes(text)).ok());
  const auto old = ParseManifest(AsBytes(Replaced(text, "\"format\": 2", "\"format\": 1")));
  EXPECT_THAT(old.error().message(),
              HasSubstr("format 1 and weights in superblocks, which have format 2"));
}

Embedding SomeEmbedding() {
  Embedding embedding;
  embedding.pooling = Pooling::kLast;
  embedding.matryoshka = true;
  embedding.dimensions = {16, 32};
  embedding.prompts = {{"query", "Instruct: find\nQuery:"}, {"document", ""}};
  embedding.default_prompt = "query";
  return embedding;
}

TEST(Manifest, WhatMakesEmbeddingsSaysSoAndHasANewerFormat) {
  Manifest manifest = Sample().manifest;
  EXPECT_EQ(ToJson(manifest).find("embedding\":"), std::string::npos);
  EXPECT_EQ(manifest.head_columns(), 512u);
  manifest.embedding = SomeEmbedding();
  EXPECT_EQ(manifest.head_columns(), 64u);
  const std::string text = ToJson(manifest);
  EXPECT_THAT(text, HasSubstr("\"format\": 2"));
  const auto read = ParseManifest(AsBytes(text));
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->embedding, manifest.embedding);
  EXPECT_EQ(ToJson(*read), text);
  const std::string old_format = Replaced(text, "\"format\": 2", "\"format\": 1");
  EXPECT_THAT(ParseManifest(AsBytes(old_format)).error().message(),
              HasSubstr("format 1 and 'embedding', which has format 2"));
  const std::string plain = Replaced(ToJson(Sample().manifest), "\"format\": 1", "\"format\": 2");
  EXPECT_THAT(ParseManifest(AsBytes(plain)).error().message(),
              HasSubstr("format 2 without 'embedding'"));
}

TEST(Manifest, AnEmbeddingThatCannotBeFollowedIsRefusedByName) {
  const auto refusal = [](const char* text) {
    const auto read = ParseEmbedding(boost::json::parse(text), 64);
    return read.ok() ? "accepted" : read.error().message();
  };
  EXPECT_EQ(refusal(R"({"pooling": "mean"})"), "accepted");
  EXPECT_THAT(refusal("[]"), HasSubstr("'embedding' is not an object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("'pooling' of 'embedding' is null; expected \"mean\""));
  EXPECT_THAT(refusal(R"({"pooling": "cls"})"), HasSubstr("'pooling' of 'embedding' is \"cls\""));
  EXPECT_THAT(refusal(R"({"pooling": "mean", "normalize": 1})"), HasSubstr("'normalize'"));
  EXPECT_THAT(refusal(R"({"pooling": "mean", "matryoshka": "x"})"), HasSubstr("'matryoshka'"));
  for (const char* dimensions : {"1", "[0]", "[2, 2]", "[3, 2]", "[65]", "[1.5]", "[\"1\"]"})
    EXPECT_THAT(
        refusal((std::string(R"({"pooling": "mean", "dimensions": )") + dimensions + "}").c_str()),
        HasSubstr("'dimensions' of 'embedding' is"))
        << dimensions;
  for (const char* prompts : {"1", R"({"": "a"})", R"({"a": 1})"})
    EXPECT_THAT(
        refusal((std::string(R"({"pooling": "mean", "prompts": )") + prompts + "}").c_str()),
        HasSubstr("'prompts' of 'embedding' is"))
        << prompts;
  EXPECT_THAT(refusal(R"({"pooling": "mean", "default_prompt": "query"})"),
              HasSubstr("expected the name of one of 'prompts'"));
}

TEST(Manifest, BoundaryDtypesAreThePlainFloats) {
  Sample sample;
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
    sample.manifest.boundary_dtype = dtype;
    const auto parsed = ParseManifest(AsBytes(ToJson(sample.manifest)));
    ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
    EXPECT_EQ(DTypeName(parsed->boundary_dtype), DTypeName(dtype));
  }
}

TEST(Manifest, KeysAndValuesAreF32WhereTheWeightsAre) {
  for (const char* name : {"f16", "bf16", "q8", "q4", "mixed"}) {
    EXPECT_EQ(DTypeName(KvDType(name)), "f16") << name;
  }
  EXPECT_EQ(DTypeName(KvDType("f32")), "f32");
}

TEST(Manifest, NamesEveryMisuse) {
  const Sample sample;
  const std::string text = ToJson(sample.manifest);
  const std::string program = Digest::Of(sample.blobs[0]).ToHex();
  const struct {
    std::string from, to, message;
  } cases[] = {
      {"\"hidden_columns\": 64", "\"hidden_columns\": -64", "'hidden_columns' of it is -64"},
      {"\"hidden_columns\": 64", "\"hidden_columns\": 64.5", "'hidden_columns' of it is 6.45E1"},
      {"\"hidden_columns\": 64", "\"hidden_columns\": \"64\"", "'hidden_columns' of it is \"64\""},
      {"\"hidden_columns\": 64", "\"hidden_columns\": 1e300", "expected a whole number"},
      {"\"vocabulary\": 512", "\"vocabulary\": 0", "'vocabulary' of it is 0"},
      {"\"vocabulary\": 512,", "", "has no 'vocabulary'"},
      {"\"boundary_dtype\": \"f16\"", "\"boundary_dtype\": \"q4\"", "'boundary_dtype' is 'q4'"},
      {"\"lowered\": true", "\"lowered\": 1", "neither true nor false"},
      {"\"name\": \"sample", "\"name\": \"\\u0000", "'name' must be"},
      {"\"index\":1", "\"index\":2", "entry 1 says index 2"},
      {"\"kind\":\"head\"", "\"kind\":\"transformer\"", "'kind' of layer 2 must be 'head'"},
      {"\"program\":\"" + program + "\"", "\"program\":\"../../secret\"", "is not a digest"},
      {"\"program\":\"" + program + "\"", "\"program\":\"" + std::string(64, '0') + "\"",
       "which 'blobs' does not list"},
      {"\"config.json\": ", "\"../config.json\": ", "'files' names '../config.json'"},
      {"\"config.json\": ", "\"weft.json\": ", "is not weft.json"},
      {"\"byte_count\":5000", "\"byte_count\":50000000", "1 chunk hashes; expected 48"},
      {"\"byte_count\":5000", "\"byte_count\":0", "'byte_count' of blob"},
      {"\"weight_bytes\":1000", "\"weight_bytes\":18446744073709551615", "'weight_bytes'"},
      {"\n}\n", "", "it is not JSON"},
  };
  for (const auto& c : cases) {
    const auto parsed = ParseManifest(AsBytes(Replaced(text, c.from, c.to)));
    ASSERT_FALSE(parsed.ok()) << c.to;
    EXPECT_THAT(parsed.error().ToString(), HasSubstr(c.message));
  }
  EXPECT_FALSE(ParseManifest(AsBytes(std::string(100000, '['))).ok());
  EXPECT_FALSE(ParseManifest(AsBytes("")).ok());
  EXPECT_FALSE(ParseManifest(AsBytes("[]")).ok());
}

TEST(Package, OpensAndReads) {
  const TemporaryFolder folder;
  const Sample sample;
  sample.WriteTo(folder.path());
  const auto package = Package::Open(folder.path());
  ASSERT_TRUE(package.ok()) << package.error().ToString();
  EXPECT_EQ(package->digest, Digest::Of(AsBytes(ToJson(sample.manifest))));
  EXPECT_EQ(*package->ReadFile("config.json"), "{}");
  EXPECT_EQ(package->ReadFile("../config.json").error().code(), ErrorCode::kNotFound);
  for (const auto& [digest, info] : package->manifest.blobs) {
    const auto bytes = package->blobs->Get(digest, info);
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(Digest::Of(bytes->bytes()), digest);
  }
}

TEST(Package, NamesWhatIsMissingOrChanged) {
  const Sample sample;
  const Digest big = Digest::Of(sample.blobs[2]);
  {
    const TemporaryFolder folder;
    EXPECT_THAT(Package::Open(folder.path()).error().message(), HasSubstr("has no weft.json"));
    sample.WriteTo(folder.path());
    fs::remove(folder.path() / "blobs" / big.ToHex());
    const auto package = Package::Open(folder.path());
    EXPECT_EQ(package.error().code(), ErrorCode::kNotFound);
    EXPECT_THAT(package.error().message(), HasSubstr(big.ToHex()));
  }
  {
    const TemporaryFolder folder;
    sample.WriteTo(folder.path());
    fs::resize_file(folder.path() / "blobs" / big.ToHex(), 1000);
    const auto package = Package::Open(folder.path());
    EXPECT_EQ(package.error().code(), ErrorCode::kInvalidData);
    EXPECT_THAT(package.error().message(), HasSubstr("has 1000 bytes; its manifest says 2097229"));
  }
  {
    const TemporaryFolder folder;
    sample.WriteTo(folder.path());
    ASSERT_TRUE(WriteFileAtomically(folder.path() / "config.json", AsBytes("{ }")).ok());
    const auto package = Package::Open(folder.path());
    ASSERT_TRUE(package.ok());
    EXPECT_THAT(package->ReadFile("config.json").error().message(), HasSubstr("was changed"));
    fs::remove(folder.path() / "config.json");
    EXPECT_THAT(Package::Open(folder.path()).error().message(),
                HasSubstr("lacks the file 'config.json'"));
  }
}

TEST(BlobStore, NamesTheChunkOfAFlippedBitAndMovesTheFileOfACacheAway) {
  const TemporaryFolder folder;
  const Sample sample;
  sample.WriteTo(folder.path());
  const Digest big = Digest::Of(sample.blobs[2]);
  const fs::path path = folder.path() / "blobs" / big.ToHex();
  FlipBit(path, kChunkBytes + 5);
  const auto package = Package::Open(folder.path());
  ASSERT_TRUE(package.ok());
  const BlobInfo& info = package->manifest.blobs.at(big);
  const auto cache = BlobStore::Open(folder.path() / "blobs").value();
  const auto bytes = cache->Get(big, info);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code(), ErrorCode::kInvalidData);
  EXPECT_THAT(bytes.error().message(), HasSubstr("Chunk 1 of blob " + big.ToHex()));
  EXPECT_FALSE(cache->Contains(big));
  EXPECT_TRUE(fs::exists(path.string() + ".corrupt"));
  EXPECT_EQ(cache->Get(big, info).error().code(), ErrorCode::kNotFound);
}

TEST(BlobStore, ADamagedFileOfAPackageStaysWhereItIs) {
  const TemporaryFolder folder;
  const Sample sample;
  sample.WriteTo(folder.path());
  const Digest big = Digest::Of(sample.blobs[2]);
  const fs::path path = folder.path() / "blobs" / big.ToHex();
  FlipBit(path, kChunkBytes + 5);
  const auto package = Package::Open(folder.path());
  ASSERT_TRUE(package.ok());
  for (int again = 0; again < 2; ++again) {
    const auto bytes = package->blobs->Get(big, package->manifest.blobs.at(big));
    ASSERT_FALSE(bytes.ok());
    EXPECT_EQ(bytes.error().code(), ErrorCode::kInvalidData);
    EXPECT_THAT(bytes.error().message(), HasSubstr("Chunk 1 of blob " + big.ToHex()));
    EXPECT_THAT(bytes.error().message(), HasSubstr("'" + path.string() + "' is damaged"));
  }
  EXPECT_TRUE(package->blobs->Contains(big));
  EXPECT_FALSE(fs::exists(path.string() + ".corrupt"));
}

// A file whose stamp is old is hashed once; one that changed, or was young then, every time.
TEST(BlobStore, AFileThatDidNotChangeIsNotHashedAgain) {
  const TemporaryFolder folder;
  const Sample sample;
  sample.WriteTo(folder.path());
  const Digest big = Digest::Of(sample.blobs[2]);
  const BlobInfo info = Package::Open(folder.path())->manifest.blobs.at(big);
  const fs::path path = folder.path() / "blobs" / big.ToHex();
  const fs::path known = folder.path() / "blobs" / ".verified";
  ASSERT_TRUE(Package::Open(folder.path())->blobs->Get(big, info).ok());
  EXPECT_FALSE(fs::exists(known));  // the file was written a moment ago

  const FileStamp stamp = MappedFile::Open(path).value()->stamp();
  const int64_t now_ms = stamp.changed_ns / 1'000'000;
  FlipBit(path, kChunkBytes + 5);
  FileStamp changed = MappedFile::Open(path).value()->stamp();
  {
    VerifiedFiles files(folder.path() / "blobs");
    files.Add(big, changed, now_ms + 1000);
    EXPECT_FALSE(files.Has(big, changed));
    files.Add(big, changed, now_ms + 60'000);
    EXPECT_TRUE(files.Has(big, changed));
    EXPECT_FALSE(files.Has(big, stamp));
  }
  // What was verified is believed, so that the flipped bit is not seen, until somebody doubts it.
  EXPECT_TRUE(Package::Open(folder.path())->blobs->Get(big, info).ok());
  const auto doubted = Package::Open(folder.path());
  doubted->blobs->Distrust();
  EXPECT_FALSE(doubted->blobs->Get(big, info).ok());
  EXPECT_FALSE(fs::exists(known));
}

TEST(BlobStore, LinesThatSayNothingArePassedOver) {
  const TemporaryFolder folder;
  const Digest digest = Digest::Of(AsBytes("weights"));
  const std::string name = digest.ToHex();
  const FileStamp stamp = {1, 2, 3, 4, 5};
  const std::string text = "\n" + name + " 1 2 3 4\n" + name + " 1 2 3 4 5 6\n" + name +
                           " 1 2 3 x\n" + "short 1 2 3 4 5\n" + std::string(5000, 'x');
  ASSERT_TRUE(WriteFileAtomically(folder.path() / ".verified", AsBytes(text)).ok());
  EXPECT_FALSE(VerifiedFiles(folder.path()).Has(digest, stamp));
  const std::string whole = text + "\n" + name + " 1 2 3 4 5\n" + name.substr(0, 9);
  ASSERT_TRUE(WriteFileAtomically(folder.path() / ".verified", AsBytes(whole)).ok());
  EXPECT_TRUE(VerifiedFiles(folder.path()).Has(digest, stamp));
  // A later line counts.
  const std::string twice = whole + "\n" + name + " 1 2 3 4 6\n";
  ASSERT_TRUE(WriteFileAtomically(folder.path() / ".verified", AsBytes(twice)).ok());
  EXPECT_FALSE(VerifiedFiles(folder.path()).Has(digest, stamp));
}

TEST(BlobStore, HandsOnWithoutALook) {
  const TemporaryFolder folder;
  const auto bytes = RandomBytes(4, 1000);
  const Digest digest = Digest::Of(bytes);
  auto store = BlobStore::Open(folder.path()).value();
  ASSERT_TRUE(store->Put(digest, bytes).ok());
  FlipBit(folder.path() / digest.ToHex(), 10);
  const auto mapped = store->Map(digest, MakeBlobInfo(bytes));
  ASSERT_TRUE(mapped.ok()) << "whoever gets it verifies it";
  EXPECT_EQ(mapped->byte_count(), 1000u);
  EXPECT_FALSE(store->Get(digest, MakeBlobInfo(bytes)).ok()) << "nothing was taken for verified";
  EXPECT_EQ(store->Map(digest, MakeBlobInfo(bytes)).error().code(), ErrorCode::kNotFound);
  ASSERT_TRUE(WriteFileAtomically(folder.path() / digest.ToHex(), RandomBytes(4, 999)).ok());
  EXPECT_THAT(store->Map(digest, MakeBlobInfo(bytes)).error().message(),
              HasSubstr("expected 1000"));
}

TEST(BlobStore, PutVerifies) {
  const TemporaryFolder folder;
  auto store = BlobStore::Open(folder.path() / "blobs").value();
  const auto bytes = RandomBytes(4, 1000);
  EXPECT_EQ(store->Put(Digest::Of(AsBytes("x")), bytes).error().code(), ErrorCode::kInvalidData);
  ASSERT_TRUE(store->Put(Digest::Of(bytes), bytes).ok());
  ASSERT_TRUE(store->Put(Digest::Of(bytes), bytes).ok());
  EXPECT_EQ(store->Get(Digest::Of(bytes), MakeBlobInfo(bytes))->byte_count(), 1000u);
  FlipBit(folder.path() / "blobs" / Digest::Of(bytes).ToHex(), 10);
  auto fresh = BlobStore::Open(folder.path() / "blobs").value();
  EXPECT_THAT(fresh->Get(Digest::Of(bytes), MakeBlobInfo(bytes)).error().message(),
              HasSubstr("Chunk 0 of blob"));
}

TEST(BlobStore, ResumesADownload) {
  const TemporaryFolder folder;
  const auto bytes = RandomBytes(5, 3 * kChunkBytes + 10);
  const Digest digest = Digest::Of(bytes);
  const BlobInfo info = MakeBlobInfo(bytes);
  const auto chunk = [&](uint64_t index) {
    return ByteSpan(bytes).subspan(
        index * kChunkBytes, std::min<size_t>(kChunkBytes, bytes.size() - index * kChunkBytes));
  };
  const fs::path partial = folder.path() / (digest.ToHex() + ".partial");
  auto store = BlobStore::Open(folder.path()).value();
  EXPECT_EQ(*store->ResumeOffset(digest, info), 0u);
  EXPECT_THAT(store->AppendChunk(digest, info, 1, chunk(1)).error().message(),
              HasSubstr("only 0 bytes of it are there"));
  EXPECT_EQ(store->AppendChunk(digest, info, 0, chunk(1)).error().code(), ErrorCode::kInvalidData);
  EXPECT_EQ(store->AppendChunk(digest, info, 4, chunk(1)).error().code(),
            ErrorCode::kInvalidArgument);
  ASSERT_TRUE(store->AppendChunk(digest, info, 0, chunk(0)).ok());
  ASSERT_TRUE(store->AppendChunk(digest, info, 1, chunk(1)).ok());

  // A torn chunk at the end is dropped; so is everything from a chunk whose bytes changed.
  fs::resize_file(partial, 2 * kChunkBytes + 1234);
  EXPECT_EQ(*store->ResumeOffset(digest, info), 2 * kChunkBytes);
  EXPECT_EQ(fs::file_size(partial), 2 * kChunkBytes);
  FlipBit(partial, kChunkBytes + 3);
  EXPECT_EQ(*store->ResumeOffset(digest, info), kChunkBytes);

  for (uint64_t index = 1; index < 4; ++index) {
    EXPECT_FALSE(store->Contains(digest));
    ASSERT_TRUE(store->AppendChunk(digest, info, index, chunk(index)).ok()) << index;
  }
  EXPECT_TRUE(store->Contains(digest));
  EXPECT_FALSE(fs::exists(partial));
  EXPECT_EQ(*store->ResumeOffset(digest, info), bytes.size());
  const auto held = store->Get(digest, info);
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(Digest::Of(held->bytes()), digest);
}

// The bytes were hashed when they came: not again when they are used. Another store, which did not
// see them come, looks itself.
TEST(BlobStore, WhatWasDownloadedIsHashedOnce) {
  const TemporaryFolder folder;
  const auto bytes = RandomBytes(6, 1000);
  const Digest digest = Digest::Of(bytes);
  const BlobInfo info = MakeBlobInfo(bytes);
  auto store = BlobStore::Open(folder.path()).value();
  ASSERT_TRUE(store->AppendChunk(digest, info, 0, bytes).ok());
  FlipBit(folder.path() / digest.ToHex(), 10);
  EXPECT_TRUE(store->Get(digest, info).ok());
  EXPECT_FALSE(BlobStore::Open(folder.path()).value()->Get(digest, info).ok());
}

TEST(BlobStore, RefusesChunkHashesOfAnotherBlob) {
  const TemporaryFolder folder;
  const auto bytes = RandomBytes(6, 500);
  const Digest other = Digest::Of(AsBytes("something else"));
  auto store = BlobStore::Open(folder.path()).value();
  const auto status = store->AppendChunk(other, MakeBlobInfo(bytes), 0, bytes);
  EXPECT_THAT(status.error().message(), HasSubstr("were thrown away"));
  EXPECT_FALSE(store->Contains(other));
  EXPECT_EQ(*store->ResumeOffset(other, MakeBlobInfo(bytes)), 0u);
}

TEST(BlobStore, ThreadsShareIt) {
  const TemporaryFolder folder;
  const auto bytes = RandomBytes(7, 2 * kChunkBytes);
  const Digest digest = Digest::Of(bytes);
  const BlobInfo info = MakeBlobInfo(bytes);
  auto store = BlobStore::Open(folder.path()).value();
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (uint64_t index = 0; index < 2; ++index) {
        const auto chunk = ByteSpan(bytes).subspan(index * kChunkBytes, kChunkBytes);
        if (!store->AppendChunk(digest, info, index, chunk).ok()) return;
      }
      const auto held = store->Get(digest, info);
      if (held.ok() && held->byte_count() == bytes.size()) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 4);
}

}  // namespace
}  // namespace weft::package
