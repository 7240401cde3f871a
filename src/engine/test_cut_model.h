// For tests only: a model whose layers are cut into neuron groups or parts of experts, and what it
// makes of one prompt.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/test_model.h"
#include "program/codec.h"

namespace weft::engine {

// Appends random f32 biases to the layer's weights.
inline program::WeightId AddBias(MemorySource& source, program::Program& layer,
                                 const std::string& name, const std::vector<uint64_t>& shape) {
  const std::vector<float> values = RandomTensors(2)(name, shape);
  layer.weights.push_back(StoreWeight(source, name, DType::kF32, shape, values));
  return static_cast<program::WeightId>(layer.weights.size() - 1);
}

struct CutModel {
  explicit CutModel(const ModelSpec& spec) {
    programs = ModelBuilder(spec, RandomTensors(1), source).Build();
    layers = {0, spec.layers + 2};
    source.AddZeros(spec.hidden * sizeof(float));
  }

  // The layers as `cut` gives them, which are valid.
  template <typename Cut>
  std::vector<program::Program> With(const Cut& cut) const {
    std::vector<program::Program> made;
    for (const program::Program& layer : programs) {
      Result<program::Program> one = cut(layer);
      EXPECT_TRUE(one.ok()) << one.error().ToString();
      const Status valid = program::Validate(*one);
      EXPECT_TRUE(valid.ok()) << valid.error().ToString();
      made.push_back(std::move(*one));
    }
    return made;
  }
  StepInput Prompt() const { return {layers, {&run, 1}, ids, {}}; }

  static constexpr uint32_t kRows = 20;
  MemorySource source;
  std::vector<program::Program> programs;
  LayerRange layers;
  Run run = {1, 0, 0, kRows, {OutputKind::kLogits}};
  std::vector<int32_t> ids = std::vector<int32_t>(kRows, 7);
};

inline NativeEngineOptions TwoThreads(bool reference = false) {
  return {.thread_count = 2, .reference_kernels = reference};
}

inline std::vector<float> Logits(CutModel& model, std::span<const program::Program> programs,
                                 bool reference = false) {
  const auto engine = MakeNativeEngine(TwoThreads(reference));
  const Status loaded = engine->Load(programs, model.source);
  EXPECT_TRUE(loaded.ok()) << loaded.error().ToString();
  const auto output = engine->Step(model.Prompt());
  EXPECT_TRUE(output.ok()) << output.error().ToString();
  return output->logits;
}

inline double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::fabs(double{a[i]} - double{b[i]}));
  return largest;
}

}  // namespace weft::engine
