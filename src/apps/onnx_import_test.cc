// Every ONNX folder of the test data: imported, lowered, run by the native engine whole and cut at
// every layer, and compared with what onnxruntime gave for the model as it came.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "base/data_testing.h"
#include "base/random.h"
#include "convert/convert.h"
#include "convert/onnx/onnx_import.h"
#include "engine/engine.h"
#include "engine/test_safetensors.h"
#include "onnx/load.h"
#include "onnx/onnx_testing.h"
#include "onnx/write.h"
#include "package/package.h"
#include "program/codec.h"

namespace weft::apps {
namespace {

namespace fs = std::filesystem;

using engine::OutputKind;
using engine::TestSafetensors;
using StepRun = engine::Run;  // inside a test, Run is gtest's

class PackageWeights : public engine::WeightSource {
 public:
  explicit PackageWeights(const package::Package& package) : package_(package) {}
  Result<Slice> Read(const program::Part& part) override {
    const package::Digest digest(part.digest);
    ASSIGN_OR_RETURN(const Slice blob,
                     package_.blobs->Get(digest, package_.manifest.blobs.at(digest)));
    return blob.Sub(part.offset, part.byte_count);
  }

 private:
  const package::Package& package_;
};

std::vector<program::Program> Programs(const package::Package& package) {
  std::vector<program::Program> programs;
  for (const package::LayerInfo& layer : package.manifest.layers) {
    const auto bytes =
        package.blobs->Get(layer.program, package.manifest.blobs.at(layer.program)).value();
    programs.push_back(program::Decode(bytes.bytes()).value());
  }
  return programs;
}

float WorstDifference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return INFINITY;
  float worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::fabs(a[i] - b[i]));
  return worst;
}

// The arrays of an expert share a blob that holds nothing else: each stacked tensor has a part an
// expert, in the same blobs.
void ExpectExpertsInBlobs(const std::vector<program::Program>& programs) {
  for (const program::Program& program : programs) {
    for (const program::Op& op : program.ops) {
      const auto* experts = std::get_if<program::MoeExperts>(&op);
      if (experts == nullptr) continue;
      std::vector<const std::vector<program::Part>*> stacks;
      for (const program::WeightId id : {experts->gate_up, experts->down}) {
        const program::Weight& weight = program.weights[id];
        stacks.push_back(&weight.data);
        if (!weight.scale.empty()) stacks.push_back(&weight.scale);
      }
      std::set<Sha256Digest> blobs;
      for (uint32_t e = 0; e < experts->experts; ++e) {
        for (const auto* stack : stacks) {
          ASSERT_EQ(stack->size(), experts->experts);
          EXPECT_EQ((*stack)[e].digest, (*stacks.front())[e].digest) << "expert " << e;
        }
        blobs.insert((*stacks.front())[e].digest);
      }
      EXPECT_EQ(blobs.size(), experts->experts);
    }
  }
}

struct Folder {
  const char* name;
  bool lowered;
  float logits;         // worst difference that passes
  bool merged = false;  // as one of two decoders in a file
};
// A float16 model's reference carries the rounding of every operator to float16; ours that of the
// weights alone. Float32 scales of 4-bit weights become float16 scales.
constexpr float kF32 = 5e-5f, kF16 = 1.5e-2f, kQ4 = 1.5e-2f;

class ImportedFolder : public testing::TestWithParam<Folder> {
 protected:
  ~ImportedFolder() override {
    std::error_code ignored;
    fs::remove_all(out_, ignored);
  }
  fs::path out_ = fs::temp_directory_path() / ("weft-onnx-import-" + SecureRandomHex(8));
};

// Logits of all rows of one prompt, through stages that end at the layers `cuts`.
Result<std::vector<float>> Logits(engine::StageEngine& engine, uint32_t session, uint32_t layers,
                                  const std::vector<uint32_t>& cuts, std::span<const int32_t> ids) {
  std::vector<float> hidden;
  uint32_t first = 0;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const bool last = i == cuts.size();
    const uint32_t end = last ? layers : cuts[i];
    const StepRun run = {session,
                         0,
                         0,
                         static_cast<uint32_t>(ids.size()),
                         {last ? OutputKind::kLogits : OutputKind::kHidden}};
    ASSIGN_OR_RETURN(
        auto out,
        engine.Step(
            {{first, end}, {&run, 1}, first == 0 ? ids : std::span<const int32_t>(), hidden}));
    if (last) return std::move(out.logits);
    hidden = std::move(out.hidden);
    first = end;
  }
  return hidden;
}

// A copy whose graph is one of two decoders.
void WriteMerged(const fs::path& source, const fs::path& target) {
  fs::create_directories(target);
  fs::copy_file(source / "config.json", target / "config.json");
  auto model = onnx::LoadModel(source / "model.onnx");
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  const Status saved =
      onnx::SaveModel(onnx::testing::Merged(std::move(*model)), target / "model.onnx");
  ASSERT_TRUE(saved.ok()) << saved.error().ToString();
}

TEST_P(ImportedFolder, GivesTheLogitsAndGreedyIdsOfTheModelAsItCame) {
  const Folder& folder = GetParam();
  const fs::path source = TestDataFolder() / "onnx" / folder.name;
  WEFT_NEED_DATA(source);
  if (folder.merged) WriteMerged(source, out_ / "merged");
  const auto report =
      convert::ConvertCheckpoint({.source = folder.merged ? out_ / "merged" : source,
                                  .package = out_ / "package",
                                  .without_tokenizer = true},
                                 [](auto) {});
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_EQ(report->lowered, folder.lowered) << report->why_not_lowered;
  if (!report->lowered) {
    std::printf("%-26s not lowered: %s\n", folder.name, report->why_not_lowered.c_str());
    return;
  }
  const auto package = package::Package::Open(out_ / "package");
  ASSERT_TRUE(package.ok()) << package.error().ToString();
  const auto engine = engine::MakeNativeEngine({.thread_count = 2, .kv_dtype = DType::kF32});
  const auto programs = Programs(*package);
  PackageWeights weights(*package);
  const Status loaded = engine->Load(programs, weights);
  ASSERT_TRUE(loaded.ok()) << loaded.error().ToString();

  const TestSafetensors reference(source / "reference.safetensors");
  const std::vector<int64_t> input_ids = reference.Ints("input_ids");
  const std::vector<int32_t> ids(input_ids.begin(), input_ids.end());
  const auto layers = static_cast<uint32_t>(programs.size());
  const std::vector<float> expected = reference.Floats("logits");
  const auto whole = Logits(*engine, 1, layers, {}, ids);
  ASSERT_TRUE(whole.ok()) << whole.error().ToString();
  EXPECT_LE(WorstDifference(*whole, expected), folder.logits);
  std::vector<uint32_t> cuts;
  for (uint32_t layer = 1; layer < layers; ++layer) cuts.push_back(layer);
  const auto cut = Logits(*engine, 2, layers, cuts, ids);
  ASSERT_TRUE(cut.ok()) << cut.error().ToString();
  EXPECT_EQ(*cut, *whole);

  const std::vector<int64_t> greedy = reference.Ints("greedy_ids");
  const std::vector<float> margins = reference.Floats("greedy_margin");
  std::vector<int32_t> next = ids;
  uint32_t position = 0;
  size_t same = 0;
  for (; same < greedy.size(); ++same) {
    const StepRun run = {3, 0, position, static_cast<uint32_t>(next.size()), {OutputKind::kArgmax}};
    const auto step = engine->Step({{0, layers}, {&run, 1}, next, {}});
    ASSERT_TRUE(step.ok()) << step.error().ToString();
    const int32_t token = step->selections.at(0).candidates[0].token_id;
    if (token != greedy[same]) {
      EXPECT_LT(margins[same], 2 * folder.logits) << "token " << same;
      break;
    }
    position += run.count;
    next = {token};
  }
  ExpectExpertsInBlobs(programs);
  std::printf("%-26s worst logit difference %.2e, %zu of %zu greedy tokens, weights %s\n",
              folder.name, static_cast<double>(WorstDifference(*whole, expected)), same,
              greedy.size(), report->quantisation.c_str());
}

INSTANTIATE_TEST_SUITE_P(
    Onnx, ImportedFolder,
    testing::Values(
        Folder{"llama3-genai", true, kF32}, Folder{"qwen3-genai", true, kF32},
        Folder{"llama3-genai-2025-int4zp", true, kQ4}, Folder{"qwen3-genai-2025-fp16", true, kF16},
        Folder{"qwen3-genai-int4", true, kQ4}, Folder{"qwen3-genai-int4-shared", true, kQ4},
        Folder{"llama3-optimum", true, kF32}, Folder{"llama3-optimum", true, kF32, true},
        Folder{"gemma2-optimum", true, kF32, true}, Folder{"qwen3-optimum", true, kF32},
        Folder{"llama3-dynamo", true, kF32}, Folder{"qwen3-dynamo", true, kF32},
        Folder{"llama3-dynamo-op23", true, kF32}, Folder{"qwen3-fused", true, kF32},
        Folder{"llama3-optimum-q4", true, kQ4}, Folder{"llama3-optimum-q4-ort", true, kQ4},
        Folder{"llama3-optimum-fp16", true, kF16}, Folder{"gemma2-optimum", true, kF32},
        Folder{"qwen3-moe-genai-int4", true, kQ4}, Folder{"qwen3-moe-optimum-fp16", true, kF16},
        Folder{"qwen3-optimum-int8", false, kQ4}),
    [](const auto& test) {
      std::string name = test.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name + (test.param.merged ? "_merged" : "");
    });

}  // namespace
}  // namespace weft::apps
