// StageHost: the engine of one connection and how its sessions sample. Does the work that
// membership asks for, one piece at a time, on the computing thread; decides nothing.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "package/group_predictor.h"
#include "worker/expert_host.h"
#include "worker/membership_events.h"
#include "worker/sampling_table.h"
#include "worker/step_codec.h"

namespace weft::worker {

class StageHost {
 public:
  // `clock` is what steps are timed with; it is read on the computing thread alone.
  StageHost(ModelShape model, std::unique_ptr<engine::StageEngine> engine,
            std::function<Instant()> clock)
      : model_(std::move(model)), engine_(std::move(engine)), clock_(std::move(clock)) {}

  // Experts that are held for hubs. Before any work for them.
  void HoldExpertsWith(std::unique_ptr<ExpertHost> experts) { experts_ = std::move(experts); }
  ExpertHost& experts() { return *experts_; }

  // Layers whose experts are elsewhere, in an engine of their own: the same layers may be whole in
  // the other one. Before any work for them.
  void BeHubWith(std::unique_ptr<engine::StageEngine> engine) { hub_ = std::move(engine); }

  // Gives the predictor of a layer's neuron groups, or nothing. Called once a layer, on the
  // computing thread, when its norms are wanted first. Before any work for hubs.
  using FindPredictor = std::function<std::optional<package::GroupPredictor>(uint32_t layer)>;
  void PredictWith(FindPredictor find) { find_predictor_ = std::move(find); }

  // The outcome that membership_events.h names for each kind of work. Errors of TakeSampling mean
  // that the orchestrator cannot be trusted any more, all others that the work was not done.
  Result<Outcome> Do(Work work);

  // Beside Do, on the thread that reads (engine.h).
  Result<std::unique_ptr<engine::LoadedLayers>> Read(std::span<const program::Program> programs,
                                                     engine::WeightSource& source) {
    return engine_->Read(programs, source);
  }
  // The hub form of these layers.
  Result<std::unique_ptr<engine::LoadedLayers>> ReadHubs(std::span<const program::Program> programs,
                                                         engine::WeightSource& source);

 private:
  class LoadedHubs;
  // A hub's step, from when it was begun to its end.
  struct HubStep {
    wire::Frame frame;
    LayerRange layers;
    Instant arrival;
    Duration computed;
    DecodedStep decoded;
    bool predicts = false;
    // Where it stopped last: the layer, and the rows that this gave to its groups.
    uint32_t layer = 0, columns = 0;
    std::vector<float> rows;
    // Norms of the layer behind it, where they were predicted while its rows were away.
    std::vector<float> next_norms;
    std::unique_ptr<engine::PendingStep> pending;  // while it waits; ends before what it looks at
  };

  Result<Outcome> On(InstallLayers& work);
  Result<Outcome> On(InstallExperts& work);
  Result<Outcome> On(RunExperts& work);
  Result<Outcome> On(MeasureSpeed& work);
  Result<Outcome> On(RunStep& work);
  Result<Outcome> On(ResumeStep& work);
  Result<Outcome> On(PredictNext& work);
  Result<Outcome> On(AbandonSteps& work);
  Result<Outcome> On(MakeTokens& work);
  Result<Outcome> On(ForkSession& work);
  Result<Outcome> On(TakeSampling& work);
  Result<Outcome> On(ReleaseSessions& work);
  Result<Outcome> On(ReleaseAll& work);
  Result<Outcome> On(KeepLayers& work);
  Result<Outcome> On(TakeStock& work);

  // Of the weights that this engine has, as packages have them.
  uint64_t StoredBytes(const engine::StageEngine& engine, bool are_hubs) const;

  Result<Outcome> BeginHubStep(RunStep& work);
  // `begin`: since when this piece of it was computed.
  Result<Outcome> GoOn(uint32_t place, Instant begin, Result<engine::StepProgress> progress);

  // The norms of all rows that `waits` has, added up; empty where nothing predicts them.
  std::vector<float> Predict(HubStep& step, const StepWaits& waits);
  // Those of a layer from rows [rows, columns] that layer `of` gave to its groups; empty where its
  // predictor reads others.
  std::vector<float> NormsOf(uint32_t layer, uint32_t of, std::span<const float> rows,
                             uint32_t columns);

  Result<ProbeAnswer> Answer(const Probe& probe);
  Result<Duration> TimeOneRow(LayerRange range, uint32_t session, uint32_t position);
  // The tokens behind each one's position, which the step appends.
  Result<std::vector<int32_t>> NextTokens(std::span<MadeOfOne* const> parts);
  void MakeNext(std::span<MadeOfOne* const> parts);

  const ModelShape model_;
  const std::unique_ptr<engine::StageEngine> engine_;
  const std::function<Instant()> clock_;
  SamplingTable sampling_;
  std::unique_ptr<engine::StageEngine> hub_;  // null: this worker is none
  std::map<uint32_t, uint64_t> hub_bytes_;    // of weights, by layer that is loaded in it
  // Of StepWaits::in_integers: a layer, and the first part that is asked for.
  std::set<std::pair<uint32_t, uint32_t>> in_integers_;
  std::array<std::unique_ptr<HubStep>, engine::kStepsInFlight> hub_steps_;  // by place
  FindPredictor find_predictor_;
  std::map<uint32_t, std::optional<package::GroupPredictor>> predictors_;  // that were asked for
  std::unique_ptr<ExpertHost> experts_;
};

}  // namespace weft::worker
