#include "server/cell.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <utility>

#include "api/make_constraint.h"
#include "base/log.h"
#include "base/random.h"
#include "base/unix_time.h"
#include "server/package_check.h"
#include "server/placement_record.h"
#include "swarm/incarnation.h"

namespace weft::server {
namespace {

// How often the log looks for a new state of the swarm: soon while it comes up, seldom while it
// serves.
constexpr Duration kLookInterval = Milliseconds(20);
constexpr Duration kLookIntervalUp = Seconds(1);
// Of a request for a model that its devices have to load first.
constexpr Duration kLoadWait = Seconds(900);

api::ModelCard CardOf(const package::Package& package, uint32_t context_length) {
  const package::Manifest& manifest = package.manifest;
  api::ModelCard card;
  card.name = manifest.name;
  card.architecture = manifest.architecture;
  card.quantisation = manifest.quantisation;
  card.layer_count = static_cast<uint32_t>(manifest.layers.size());
  card.weight_bytes = package::DownloadBytes(manifest, 0, card.layer_count);
  card.context_length = context_length;
  return card;
}

}  // namespace

api::OllamaModel DescribeForOllama(const package::Package& package, const api::ModelText* text,
                                   uint32_t context_length) {
  const package::Manifest& manifest = package.manifest;
  const auto& layers = manifest.layers;
  api::OllamaModel out;
  out.name = manifest.name;
  out.digest = package.digest.ToHex();
  out.architecture = manifest.architecture;
  out.quantisation = manifest.quantisation;
  out.capabilities = {manifest.embedding ? "embedding" : "completion"};
  if (text != nullptr) {
    if (const ChatTemplate* chat = text->chat_templates().Choose(/*has_tools=*/false))
      out.chat_template = chat->source();
    if (!manifest.embedding) out.capabilities = text->Capabilities();
  }
  std::error_code unknown;
  const auto changed = std::filesystem::last_write_time(package.folder / "weft.json", unknown);
  if (!unknown)
    out.changed_s = std::chrono::duration_cast<std::chrono::seconds>(
                        std::chrono::file_clock::to_sys(changed).time_since_epoch())
                        .count();
  out.byte_count = package::DownloadBytes(manifest, 0, static_cast<uint32_t>(layers.size()));
  out.context_length = context_length;
  out.layer_count = static_cast<uint32_t>(std::ranges::count_if(
      layers, [](const package::LayerInfo& layer) { return layer.kind == "transformer"; }));
  out.hidden_columns = manifest.hidden_columns;
  return out;
}

size_t BodyLimitOf(const ServerOptions& options, bool embeds, uint32_t context_length) {
  if (options.body_limit_bytes > 0) return options.body_limit_bytes;
  return std::max(embeds ? kLeastEmbeddingBodyBytes : kLeastBodyLimitBytes,
                  kBodyBytesPerPosition * context_length);
}

Cell::Cell(const CellShared& shared, ServedModel model, std::unique_ptr<CellRecovery> recovery)
    : shared_(shared),
      recovery_(std::move(recovery)),
      digest_(model.package.digest),
      lowered_(model.package.manifest.lowered),
      look_timer_(shared.loop) {
  const ServerOptions& options = shared_.options;
  const package::Manifest& manifest = model.package.manifest;
  core_ = CoreOptionsOf(model);
  const swarm::CoreOptions& core = core_;
  const uint32_t context = core.context_length;
  card_ = CardOf(model.package, context);
  body_limit_bytes_ = BodyLimitOf(options, manifest.embedding.has_value(), context);
  if (context < options.context_length) {
    LogInfo("the model was made for {} positions: the context is {}", context, context);
  }
  const Duration load_wait = shared_.has_several ? kLoadWait : Duration();
  if (shared_.has_several)
    for (const auto& [digest, blob] : manifest.blobs) blobs_.insert(digest.ToHex());
  host_ = std::make_unique<SwarmHost>(shared_.loop, shared_.planning);
  host_->SetLayerChecker([package = model.package](uint32_t first, uint32_t end) {
    return FindDamage(package, first, end);
  });
  host_->OnPlacementChanged([this](const swarm::Placement& placement) {
    if (!shared_.cluster) return recovery_->NotePlacement(placement, core_);
    if (on_placement_) on_placement_(ToRecord(placement, core_));
  });
  if (!shared_.cluster) LeadAlone();
  if (shared_.cluster)
    clustered_ = std::make_unique<ClusteredGenerator>(
        ClusteredGenerator::Options{options.wait, options.queue}, shared_.loop);
  Generator& generator = clustered_ ? static_cast<Generator&>(*clustered_) : *host_;
  what_if_ = std::make_unique<WhatIf>(core, *host_, shared_.loop, shared_.planning);
  host_->OnSwarmChanged([this] { OnSwarmChanged(); });
  CountTokens();
  text_ = model.text;
  ollama_model_ = DescribeForOllama(model.package, model.text.get(), context);
  chat_ = std::make_unique<ChatRoutes>(
      ChatRoutes::Options{manifest.name, std::time(nullptr), options.wait,
                          core.model.is_recurrent(), recovery_->keeps_prompts(),
                          core.model.vocabulary, context, core.session_count / 4, core.model.embeds,
                          shared_.has_several, load_wait, options.queue},
      model.text, generator, shared_.loop, *recovery_,
      shared_.cluster ? shared_.cluster->seed_key : recovery_->seed_key());
  embeddings_ = std::make_unique<EmbeddingRoutes>(
      EmbeddingRoutes::Options{manifest.name, manifest.embedding, manifest.hidden_columns,
                               manifest.vocabulary, context, options.wait, core.session_count,
                               shared_.has_several, load_wait, options.queue},
      std::move(model.text), generator, shared_.loop);
  package_routes_ = std::make_unique<PackageRoutes>(std::move(model.package),
                                                    std::move(model.graphs), shared_.loop);
}

swarm::CoreOptions Cell::CoreOptionsOf(ServedModel& model) const {
  const ServerOptions& options = shared_.options;
  swarm::CoreOptions core =
      swarm::OptionsFor(std::move(model.info), options.context_length, options.sessions);
  core.queue_limit = options.queue;
  core.worker_limit = options.worker_limit;
  core.generate_interval = options.generate_interval;
  core.plan_kind = options.plan_kind;
  core.expert_copies = options.expert_copies;
  core.half_rows = options.half_rows;
  core.loss_limit = options.loss_limit;
  core.prefill_chunk_time = options.prefill_chunk_time;
  core.history_bytes = options.history_bytes;
  core.marks = options.marks;
  core.timeouts.token_limit = options.token_limit;
  std::array<uint8_t, 16> swarm_id;
  SecureRandomBytes(swarm_id);
  core.swarm_id = shared_.cluster ? shared_.cluster->swarm_id : std::string(AsText(swarm_id));
  core.successors = options.successors;
  std::array<uint8_t, 8> probe_seed;
  SecureRandomBytes(probe_seed);
  core.probe_seed = LoadLe<uint64_t>(probe_seed.data());
  shared_.add_secrets(core);
  core.lifetimes = recovery_->Lifetimes();
  core.popularity = recovery_->Popularity();
  return core;
}

void Cell::LeadAlone() {
  swarm::CoreOptions core = core_;
  core.restored = recovery_->PlacementFor(core);
  if (core.restored) core.swarm_id = core_.swarm_id = core.restored->swarm_id;
  // A core may have gone on above the number of its start.
  core.incarnation =
      std::max(recovery_->found().incarnation,
               swarm::NextIncarnation(core.restored ? core.restored->incarnation : uint64_t{0},
                                      UnixNowMs()));
  host_->BeginLeading(std::move(core));
}

void Cell::Lead(CellLead lead) {
  swarm::CoreOptions core = core_;
  core.incarnation = lead.incarnation;
  core.successors = std::move(lead.successors);
  if (lead.placement) core.restored = TakeUp(*lead.placement, core);
  if (core.restored && core.restored->swarm_id != core.swarm_id) core.restored.reset();
  if (core.restored)
    LogInfo("{} devices may come with what they hold, {} stages among it",
            core.restored->devices.size(), core.restored->stages.size());
  // The core handles an event meanwhile.
  core.tell_seen = [this](uint64_t seen) {
    shared_.loop.Post([this, life = host_->life(), seen] {
      if (!life.expired() && on_worker_saw_) on_worker_saw_(seen);
    });
  };
  host_->BeginLeading(std::move(core));
}

void Cell::AddParts(RouteParts& parts) {
  parts.host = host_.get();
  parts.clustered = clustered_.get();
  parts.what_if = what_if_.get();
  parts.chat = chat_.get();
  parts.embeddings = embeddings_.get();
  parts.package = package_routes_.get();
  parts.ollama_model = &ollama_model_;
  parts.chat_body_bytes = body_limit_bytes_;
}

// Of named keys of this server, wherever their answers are computed.
void Cell::CountTokens() {
  const auto count = [this](const std::string& client, const swarm::FinishRequest& end) {
    shared_.keys.Count(KeyOfClient(client), end.prompt_tokens, end.cached_prompt_tokens,
                       end.generated_tokens, card_.name);
  };
  if (clustered_)
    clustered_->OnRequestFinished(count);
  else
    host_->OnRequestFinished(count);
}

ConstraintCache::Compile Cell::ConstraintCompiler() const {
  return [text = text_](const std::string& source) -> Result<ConstraintCache::Constraint> {
    if (text == nullptr)
      return Error(ErrorCode::kUnsupported, "The model writes no text: nothing constrains it.");
    ASSIGN_OR_RETURN(api::ConstraintSource read, api::ConstraintSource::FromJson(source));
    const auto made = api::MakeConstraint(std::move(read), *text);
    if (const auto* refused = std::get_if<api::ApiError>(&made))
      return Error(ErrorCode::kInvalidArgument, refused->message);
    return ConstraintCache::Constraint(std::get<std::shared_ptr<const api::TokenGrammar>>(made));
  };
}

void Cell::EndRequests(const Error& error) {
  if (clustered_) clustered_->EndRequests(error);
  host_->EndRequests(error);
}

// A swarm that cannot come up for want of memory says nothing else: it was down and stays so.
void Cell::TellLack(const swarm::Snapshot& snapshot) {
  if (snapshot.state != swarm::SwarmState::kDown || snapshot.missing_memory_bytes == 0) return;
  if (std::exchange(told_lack_, snapshot.message) != snapshot.message)
    LogWarn("{}", snapshot.message);
}

// Runs for every step: what it costs is paid per token, so the picture is only taken now and then.
void Cell::OnSwarmChanged() {
  if (on_changed_) on_changed_();
  if (look_pending_) return;
  look_pending_ = true;
  look_timer_.FireAfter(
      last_state_ == swarm::SwarmState::kUp ? kLookIntervalUp : kLookInterval, [this] {
        look_pending_ = false;
        const swarm::Snapshot snapshot = host_->snapshot();
        TellLack(snapshot);
        if (snapshot.state == last_state_) return;
        last_state_ = snapshot.state;
        LogInfo("{}{} ({:.2f} s after start)", shared_.has_several ? card_.name + ": " : "",
                snapshot.message, (MonotonicNow() - shared_.options.started).seconds());
      });
}

}  // namespace weft::server
