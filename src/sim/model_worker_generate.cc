// A modelled worker with the whole model that chooses tokens by itself: the rules of
// docs/protocol.md for generation frames, tokens by the hash model.
#include <algorithm>

#include "base/random.h"
#include "sim/model_worker.h"
#include "text/sampler.h"

namespace weft::sim {

void ModelWorker::AskWhole(bool wanted) {
  if (!frozen_ && connected_) hooks_.send(Slice(wire::EncodeGeneration(wire::RunHere{wanted})));
}

void ModelWorker::OnGenerationFrame(ByteSpan message) {
  auto frame = wire::DecodeGeneration(message);
  if (!frame.ok()) return Violation("got a malformed frame: " + frame.error().message());
  if (device_.engine != "webgpu") Violation("got a generation frame that it cannot know");
  if (std::holds_alternative<wire::WholeModel>(*frame)) return;
  if (const auto* stop = std::get_if<wire::StopGenerating>(&*frame)) {
    const bool known = std::any_of(jobs_.begin(), jobs_.end(), [&](const Job& job) {
      const auto* generation = std::get_if<Generation>(&job);
      return generation && generation->frame.sequence == stop->sequence;
    });
    if (known) unwanted_.insert(stop->sequence);
    return;
  }
  if (auto* generate = std::get_if<wire::Generate>(&*frame)) return Push(Generation{*generate});
  Violation("got a frame that only workers send");
}

// The token that the orchestrator would have chosen from this row.
int32_t ModelWorker::ChooseToken(const wire::Generate& asked, uint64_t row) const {
  SamplingParams params;
  params.temperature = asked.temperature;
  params.top_k = static_cast<int32_t>(asked.top_k);
  params.top_p = asked.top_p;
  params.min_p = asked.min_p;
  params.repetition_penalty = asked.repetition_penalty;
  params.presence_penalty = asked.presence_penalty;
  params.frequency_penalty = asked.frequency_penalty;
  for (const auto& [id, bias] : asked.biases) params.logit_bias.push_back({id, bias});
  if (params.IsGreedy() && !params.ChangesLogits()) return model_.Argmax(row).token_id;
  std::vector<int32_t> history;
  for (const auto& [id, count] : asked.seen) history.insert(history.end(), count, id);
  return SampleLogits(params, history, model_.Logits(row),
                      CounterDouble(asked.seed, asked.position, 0));
}

// The next few tokens, the session's rules checked before the first.
Result<wire::Tokens> ModelWorker::MakeTokens(Generation& generation) {
  wire::Generate& asked = generation.frame;
  const auto stage = std::find_if(stages_.begin(), stages_.end(),
                                  [&](const Stage& s) { return s.epoch == asked.epoch; });
  if (stage == stages_.end() || !stage->committed || asked.epoch != committed_epoch_ ||
      stage->first != 0 || stage->end != model_.layer_count) {
    Violation("was asked to generate without the whole model of epoch " +
              std::to_string(asked.epoch));
    return Error(ErrorCode::kInvalidArgument, "The whole model is not committed here.");
  }
  wire::Run run;
  run.session = asked.session;
  run.generation = asked.generation;
  run.first_position = asked.position;
  run.count = asked.count;
  if (!generation.began) TRY(TakeRun(run, *stage));
  wire::Tokens tokens;
  tokens.sequence = asked.sequence;
  tokens.epoch = asked.epoch;
  tokens.last = unwanted_.contains(asked.sequence);
  while (!tokens.last && tokens.token_ids.size() < asked.interval) {
    run.count = 1;
    run.first_position = asked.position;
    run.output = wire::OutputKind::kHidden;
    std::vector<uint8_t> row;
    RunRow(run, *stage, asked.position, HashModel::Embed(asked.token_id, asked.position), row);
    ++asked.position;
    asked.token_id = ChooseToken(asked, LoadLe<uint64_t>(row.data()));
    if (!asked.seen.empty()) asked.seen.emplace_back(asked.token_id, 1);
    tokens.token_ids.push_back(asked.token_id);
    tokens.last = --asked.count == 0 || std::find(asked.stop_ids.begin(), asked.stop_ids.end(),
                                                  asked.token_id) != asked.stop_ids.end();
  }
  return tokens;
}

void ModelWorker::Do(Generation& generation, Instant began) {
  const wire::Generate& asked = generation.frame;
  const bool fails = random_.Uniform() < device_.step_failure;
  const bool numbers = random_.Uniform() < device_.numbers_failure;
  Result<wire::Tokens> tokens = Error(ErrorCode::kUnavailable, "The simulated device hiccuped.");
  if (numbers) {
    tokens = Error(ErrorCode::kInvalidData, "Layer 3 gave 7 values that are not finite.");
    hooks_.numbers_failed(asked.session);
  } else if (!fails) {
    tokens = MakeTokens(generation);
  }
  if (fails || numbers) failed_[asked.session] = asked.generation;
  generation.began = tokens.ok() && !tokens->last;
  if (!generation.began) unwanted_.erase(asked.sequence);
  if (!tokens.ok()) return FailStep(asked.sequence, asked.epoch, 0, tokens.error());
  tokens->compute_us = static_cast<uint32_t>((scheduler_.now() - began).us);
  hooks_.generated(tokens->token_ids.size());
  MaybeIllegal();
  hooks_.send(Slice(wire::EncodeGeneration(*tokens)));
}

}  // namespace weft::sim
