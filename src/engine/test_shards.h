// For tests only: a model cut into a hub and holders of its experts, each an engine of its own.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "program/shards.h"

namespace weft::engine {

class SplitModel {
 public:
  // Expert e of every layer is held by holder e % holder_count.
  SplitModel(std::span<const program::Program> programs, WeightSource& source,
             const NativeEngineOptions& options, uint32_t holder_count)
      : hub(MakeNativeEngine(options)), holder_count_(holder_count) {
    std::vector<program::Program> hubs;
    for (const program::Program& layer : programs) hubs.push_back(program::HubProgram(layer));
    EXPECT_TRUE(hub->Load(hubs, source).ok());
    for (uint32_t holder = 0; holder < holder_count; ++holder) {
      holders_.push_back(MakeNativeEngine(
          {.thread_count = options.thread_count, .reference_kernels = options.reference_kernels}));
      std::vector<program::Program> shards;
      for (const program::Program& layer : programs) {
        const program::MoeExperts* experts = program::FindExperts(layer);
        std::vector<uint32_t> own;
        for (uint32_t e = holder; experts != nullptr && e < experts->experts; e += holder_count)
          own.push_back(e);
        if (!own.empty()) shards.push_back(program::ExpertProgram(layer, own).value());
      }
      EXPECT_TRUE(holders_.back()->Load(shards, source).ok());
    }
  }

  // What the holders give for a request, all slots of one holder in one step.
  std::vector<float> Slots(const SlotRequest& request) {
    const size_t columns = request.columns;
    std::vector<float> slots(request.row_count * request.top_k * columns);
    for (uint32_t holder = 0; holder < holder_count_; ++holder) {
      std::vector<float> rows;
      std::vector<size_t> places;
      for (size_t row = 0; row < request.row_count; ++row) {
        for (size_t j = 0; j < request.top_k; ++j) {
          const auto expert = static_cast<uint32_t>(request.route[row * 2 * request.top_k + j]);
          if (expert % holder_count_ != holder) continue;
          const auto in = request.in.subspan(row * columns, columns);
          rows.insert(rows.end(), in.begin(), in.end());
          const uint32_t place = expert / holder_count_;  // of those that it holds
          rows.push_back(static_cast<float>(place));
          rows.push_back(1);
          places.push_back(row * request.top_k + j);
        }
      }
      if (places.empty()) continue;
      const Run run = {
          1, ++generation_, 0, static_cast<uint32_t>(places.size()), {OutputKind::kHidden}};
      const auto given =
          holders_[holder]->Step({{request.layer, request.layer + 1}, {&run, 1}, {}, rows});
      EXPECT_TRUE(given.ok()) << given.error().ToString();
      for (size_t i = 0; i < places.size(); ++i)
        std::copy_n(given->hidden.data() + i * columns, columns,
                    slots.data() + places[i] * columns);
    }
    return slots;
  }

  // To the next stop or the end.
  Result<StepProgress> GoOn(std::unique_ptr<PendingStep> step) {
    const std::vector<float> slots = Slots(step->request());
    return hub->Resume(std::move(step), slots);
  }

  // A step from its beginning to its end.
  Result<StepOutput> Step(const StepInput& input) {
    ASSIGN_OR_RETURN(StepProgress progress, hub->Begin(input));
    while (auto* pending = std::get_if<std::unique_ptr<PendingStep>>(&progress)) {
      ASSIGN_OR_RETURN(progress, GoOn(std::move(*pending)));
    }
    return std::move(std::get<StepOutput>(progress));
  }

  std::unique_ptr<StageEngine> hub;

 private:
  const uint32_t holder_count_;
  std::vector<std::unique_ptr<StageEngine>> holders_;
  uint32_t generation_ = 0;
};

}  // namespace weft::engine
