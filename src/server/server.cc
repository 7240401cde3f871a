#include "server/server.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "base/secret.h"
#include "net/web_names.h"
#include "server/own_user.h"
#include "server/package_check.h"
#include "server/routes.h"

namespace weft::server {
namespace {

// How often the log looks for a new state of the swarm: soon while it comes up, seldom while it
// serves.
constexpr Duration kLookInterval = Milliseconds(20);
constexpr Duration kLookIntervalUp = Seconds(1);
// How long a server that stops waits for clients to take their answers.
constexpr Duration kStopLimit = Seconds(1);

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

api::OllamaModel DescribeForOllama(const ServedModel& model, uint32_t context_length) {
  const package::Manifest& manifest = model.package.manifest;
  const auto& layers = manifest.layers;
  api::OllamaModel out;
  out.name = manifest.name;
  out.digest = model.package.digest.ToHex();
  out.architecture = manifest.architecture;
  out.quantisation = manifest.quantisation;
  if (const ChatTemplate* chat = model.text->chat_templates().Choose(/*has_tools=*/false))
    out.chat_template = chat->source();
  out.capabilities = {"embedding"};
  if (!manifest.embedding) out.capabilities = model.text->Capabilities();
  std::error_code unknown;
  const auto changed =
      std::filesystem::last_write_time(model.package.folder / "weft.json", unknown);
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

}  // namespace

Server::Server(const ServerOptions& options)
    : options_(options), planning_thread_(1), look_timer_(loop_), stop_timer_(loop_) {
  reach_.address = options.address;
  reach_.host_names = options.host_names;
  reach_.tls = !options.tls.empty();
}

Result<std::unique_ptr<Server>> Server::Listen(const ServerOptions& options, ServedModel model) {
  for (const std::string& name : options.host_names) {
    TRY(net::ParseHostName("--host-name", name));
  }
  for (const std::string& origin : options.allowed_origins) {
    TRY(net::ParseOrigin("--allow-origin", origin));
  }
  std::unique_ptr<Server> server(new Server(options));
  if (options.secrets) {
    server->secrets_ = *options.secrets;
  } else {
    // A name or a proxy means that others come through it, wherever the server itself listens.
    const bool demanded = options.is_shared || server->reach_.IsPublic() ||
                          !options.host_names.empty() || !options.trusted_proxies.empty();
    Secrets given;
    if (options.read_secrets) {
      ASSIGN_OR_RETURN(given, options.read_secrets());
    }
    ASSIGN_OR_RETURN(server->secrets_, MakeSecrets(demanded, std::move(given)));
  }
  TRY(server->OpenJournal(model.info));
  TRY(server->OpenKeys(model.package.manifest.name));
  ASSIGN_OR_RETURN(server->tls_, server->MakeTls());
  server->MakeHost(model);
  TRY(server->Open());
  return server;
}

Status Server::OpenJournal(const swarm::ModelInfo& model) {
  if (options_.journal.empty()) return OkStatus();
  // Secrets that are to end must not be good again after the next start.
  const bool is_needed = options_.journal_is_asked_for || options_.new_secrets;
  Recovery::Options open;
  open.path = options_.journal;
  open.package_digest = model.package_digest;
  open.keep_prompts = options_.journal_prompts;
  auto recovery = Recovery::Open(open);
  if (!recovery.ok()) {
    if (is_needed) return recovery.error();
    LogWarn("{} The server goes on without a journal.", recovery.error().message());
    return OkStatus();
  }
  recovery_ = std::move(*recovery);
  Status written = recovery_->status();
  // Without secrets whoever comes is let in.
  if (!secrets_.api_key.empty()) {
    const Status noted = NoteSecrets();
    if (written.ok()) written = noted;
  }
  if (written.ok() || is_needed) return written;
  LogWarn("{} What the journal holds is used all the same.", written.error().message());
  return OkStatus();
}

// From now on the journal knows the secrets of this start, and this start those still good.
Status Server::NoteSecrets() {
  const bool only_key = options_.new_secrets || secrets_.key_is_set;
  const bool only_token = options_.new_secrets || secrets_.token_is_set;
  journal::pb::Secrets now;
  const Sha256Digest key = Sha256(AsBytes(secrets_.api_key));
  const Sha256Digest token = Sha256(AsBytes(secrets_.join_token));
  now.set_api_key(std::string(AsText(key)));
  now.set_join_token(std::string(AsText(token)));
  now.set_hidden_join_token(SharedLinks(reach_, secrets_).hidden_token());
  now.set_only_key(only_key);
  now.set_only_token(only_token);
  for (const journal::pb::Secrets& each : recovery_->found().secrets()) {
    const bool is_good = each.api_key().size() == key.size() &&
                         each.join_token().size() == token.size() &&
                         !(only_key && each.api_key() != now.api_key()) &&
                         !(only_token && each.join_token() != now.join_token());
    const bool is_new = each.api_key() != now.api_key() || each.join_token() != now.join_token();
    if (is_good && is_new) earlier_secrets_.push_back(each);
  }
  return recovery_->NoteSecrets(now);
}

Status Server::OpenKeys(const std::string& model_name) {
  auto opened = KeyKeeper::Open(loop_, {.path = options_.keys, .model = model_name});
  if (!opened.ok()) {
    if (options_.keys_are_asked_for) return opened.error();
    LogError("{} The server goes on without named keys.", opened.error().message());
    opened = KeyKeeper::WithoutFile(loop_, model_name);
  }
  keys_ = std::move(*opened);
  return OkStatus();
}

void Server::HashSecretsInto(swarm::CoreOptions& core) const {
  if (!secrets_.api_key.empty()) core.api_key_sha256_hex = HashSecret(secrets_.api_key);
  for (const journal::pb::Secrets& earlier : earlier_secrets_)
    core.earlier_api_keys_sha256_hex.push_back(ToHex(AsBytes(earlier.api_key())));
  if (!secrets_.join_token.empty()) core.join_token_sha256_hex = HashSecret(secrets_.join_token);
  for (const journal::pb::Secrets& earlier : earlier_secrets_)
    core.earlier_join_tokens_sha256_hex.push_back(ToHex(AsBytes(earlier.join_token())));
  const KeyTable& named = keys_->table();
  core.is_join_token = [&named](const std::string& hash) {
    return named.IsGood(hash, store::Role::kHelper);
  };
  core.is_owner_key = [&named](const std::string& hash) {
    return named.IsGood(hash, store::Role::kAdmin);
  };
}

void Server::MakeHost(ServedModel& model) {
  const package::Manifest& manifest = model.package.manifest;
  swarm::CoreOptions core =
      swarm::OptionsFor(std::move(model.info), options_.context_length, options_.sessions);
  const uint32_t context = core.context_length;
  body_limit_bytes_ =
      options_.body_limit_bytes > 0
          ? options_.body_limit_bytes
          : std::max(manifest.embedding ? kLeastEmbeddingBodyBytes : kLeastBodyLimitBytes,
                     kBodyBytesPerPosition * context);
  if (context < options_.context_length) {
    LogInfo("the model was made for {} positions: the context is {}", context, context);
  }
  core.queue_limit = options_.queue;
  core.worker_limit = options_.worker_limit;
  core.generate_interval = options_.generate_interval;
  core.plan_kind = options_.plan_kind;
  core.expert_copies = options_.expert_copies;
  core.loss_limit = options_.loss_limit;
  core.prefill_chunk_time = options_.prefill_chunk_time;
  core.history_bytes = options_.history_bytes;
  core.marks = options_.marks;
  core.timeouts.token_limit = options_.token_limit;
  std::array<uint8_t, 16> swarm_id;
  SecureRandomBytes(swarm_id);
  core.swarm_id = std::string(AsText(swarm_id));
  std::array<uint8_t, 8> probe_seed;
  SecureRandomBytes(probe_seed);
  core.probe_seed = LoadLe<uint64_t>(probe_seed.data());
  HashSecretsInto(core);
  if (recovery_) {
    core.lifetimes = recovery_->Lifetimes();
    core.popularity = recovery_->Popularity();
    core.restored = recovery_->PlacementFor(core);
    if (core.restored) core.swarm_id = core.restored->swarm_id;
  }
  host_ = std::make_unique<SwarmHost>(loop_, planning_thread_, core);
  host_->SetLayerChecker([package = model.package](uint32_t first, uint32_t end) {
    return FindDamage(package, first, end);
  });
  if (recovery_) {
    host_->OnPlacementChanged([this, core](const swarm::Placement& placement) {
      recovery_->NotePlacement(placement, core);
    });
  }
  feed_ = std::make_unique<SwarmFeed>(loop_, *host_, CardOf(model.package, context));
  what_if_ = std::make_unique<WhatIf>(core, *host_, loop_, planning_thread_);
  host_->OnSwarmChanged([this] { OnSwarmChanged(); });
  keys_->OnChanged([this] { CloseRevoked(); });
  CountTokens();
  ollama_model_ = DescribeForOllama(model, context);
  chat_ = std::make_unique<ChatRoutes>(
      ChatRoutes::Options{manifest.name, std::time(nullptr), options_.wait,
                          core.model.is_recurrent(), recovery_ && recovery_->keeps_prompts(),
                          core.model.vocabulary, context, core.session_count / 4,
                          core.model.embeds},
      model.text, *host_, loop_, MakeLedger(), MakeNote());
  embeddings_ = std::make_unique<EmbeddingRoutes>(
      EmbeddingRoutes::Options{manifest.name, manifest.embedding, manifest.hidden_columns,
                               manifest.vocabulary, context, options_.wait, core.session_count},
      std::move(model.text), *host_, loop_);
  if (recovery_) {
    loop_.Post([this] { chat_->Resume(recovery_->found(), Salts()); });
  }
  package_routes_ =
      std::make_unique<PackageRoutes>(std::move(model.package), std::move(model.graphs), loop_);
  files_ = std::move(model.files);
  MakeRouter();
}

void Server::MakeRouter() {
  RouteParts parts;
  parts.host = host_.get();
  parts.feed = feed_.get();
  parts.what_if = what_if_.get();
  parts.chat = chat_.get();
  parts.embeddings = embeddings_.get();
  parts.package = package_routes_.get();
  parts.files = files_ ? &*files_ : nullptr;
  parts.links = &links_;
  parts.tls = tls_.get();
  parts.keys = keys_.get();
  parts.ollama_model = &ollama_model_;
  parts.chat_body_bytes = body_limit_bytes_;
  router_ = std::make_unique<Router>(MakeRoutes(parts));
  if (options_.log_requests) router_->LogRequests();
}

// Of named keys, whatever their requests came through.
void Server::CountTokens() {
  host_->OnRequestFinished([this](const std::string& client, const swarm::FinishRequest& end) {
    keys_->table().Count(KeyOfClient(client), end.prompt_tokens, end.cached_prompt_tokens,
                         end.generated_tokens);
  });
}

// A token whose time is over lets nobody in, and those who are in stay; one that somebody has ended
// is to end what came of it.
void Server::CloseRevoked() {
  host_->CloseWorkers([this](const std::string& hash) -> std::optional<std::string> {
    const store::Key* key = keys_->table().Find(hash);
    if (key == nullptr || !key->ended_ms) return std::nullopt;
    return "The join token '" + key->name + "' was revoked: ask for a new join link.";
  });
}

RequestLedger Server::MakeLedger() {
  if (!recovery_) return {};
  return {recovery_->found(), MakeNote(), [this] { recovery_->Flush(); }};
}

std::function<void(journal::pb::Record)> Server::MakeNote() {
  if (!recovery_) return nullptr;
  return [this](journal::pb::Record record) { recovery_->Note(std::move(record)); };
}

// What SaltOf may come to; the last one is that of this start.
std::vector<std::string> Server::Salts() const {
  std::vector<std::string> salts;
  for (const store::Key& key : keys_->table().keys())
    if (!keys_->table().FindEnd(key)) salts.push_back(key.hash);
  if (router_->access().api_key_hash.empty()) {
    salts.emplace_back();
    return salts;
  }
  for (const std::string& hash : router_->access().earlier_api_key_hashes) salts.push_back(hash);
  salts.push_back(router_->access().api_key_hash);
  return salts;
}

Status Server::Open() {
  net::ServerOptions listen;
  listen.address = options_.address;
  listen.port = options_.port;
  listen.tls = tls_;
  // Clients and pages have as many as before, however many devices there may be.
  if (options_.worker_limit > swarm::kDefaultWorkerLimit)
    listen.limits.connections += options_.worker_limit - swarm::kDefaultWorkerLimit;
  listen.limits.body_bytes = body_limit_bytes_;
  for (const std::string& proxy : options_.trusted_proxies)
    listen.uncounted_addresses.insert(net::CanonicalAddress(proxy));
  ASSIGN_OR_RETURN(server_, net::Server::Listen(loop_, listen, router_.get()));
  reach_.port = server_->port();
  keys_->Start(std::to_string(reach_.port));
  ASSIGN_OR_RETURN(AccessPolicy access, MakeAccess());
  router_->SetAccess(std::move(access));
  links_ = SharedLinks(reach_, secrets_);
  for (const journal::pb::Secrets& earlier : earlier_secrets_) {
    const std::string key_hash = ToHex(AsBytes(earlier.api_key()));
    if (key_hash != HashSecret(secrets_.api_key))
      links_.AddEarlier(key_hash, earlier.hidden_join_token());
  }
  return OkStatus();
}

Result<std::shared_ptr<net::TlsContext>> Server::MakeTls() const {
  if (options_.tls.empty()) return std::shared_ptr<net::TlsContext>();
  if (options_.tls == "auto") {
    if (options_.state_folder.empty()) {
      return Error(ErrorCode::kInvalidArgument,
                   "There is no folder for the key of a certificate: neither XDG_STATE_HOME nor "
                   "HOME is set. Set one of them, or name a certificate with --tls.");
    }
    return net::SelfSignedTls(options_.state_folder, reach_.Hosts());
  }
  return net::LoadTls(options_.tls, TlsKey());
}

std::string Server::TlsKey() const {
  return options_.tls_key.empty() ? options_.tls : options_.tls_key;
}

void Server::ReloadCertificate() {
  if (!tls_ || options_.tls == "auto") {
    LogInfo("SIGHUP: there is no certificate that was named with --tls, so nothing is read again");
    return;
  }
  const Status reloaded = net::ReloadTls(*tls_, options_.tls, TlsKey());
  if (!reloaded.ok()) {
    LogWarn("{} The certificate that was there goes on.", reloaded.error().message());
    return;
  }
  LogInfo("SIGHUP: the certificate '{}' was read again", options_.tls);
}

Result<AccessPolicy> Server::MakeAccess() const {
  AccessPolicy access;
  access.allowed_hosts = reach_.AllowedHosts();
  for (const std::string& text : options_.allowed_origins) {
    ASSIGN_OR_RETURN(std::string origin, net::ParseOrigin("--allow-origin", text));
    access.allowed_origins.insert(std::move(origin));
  }
  if (!secrets_.api_key.empty()) access.api_key_hash = HashSecret(secrets_.api_key);
  if (!secrets_.join_token.empty()) access.join_token_hash = HashSecret(secrets_.join_token);
  for (const journal::pb::Secrets& earlier : earlier_secrets_) {
    access.earlier_api_key_hashes.push_back(ToHex(AsBytes(earlier.api_key())));
    access.earlier_join_token_hashes.push_back(ToHex(AsBytes(earlier.join_token())));
  }
  access.keys = &keys_->table();
  if (recovery_) access.on_use = [this](const std::string& hash) { recovery_->NoteUse(hash); };
  for (const std::string& proxy : options_.trusted_proxies)
    access.trusted_proxies.insert(net::CanonicalAddress(proxy));
  const std::optional<uint32_t> own_user = OwnUserIfKnown();
  if (secrets_.api_key.empty()) access.only_user = own_user;
  if (options_.host_names.empty() && options_.trusted_proxies.empty()) access.own_user = own_user;
  return access;
}

Secrets Server::TakeSecrets() {
  Secrets taken = secrets_;
  Wipe(secrets_);
  return taken;
}

void Server::Stop() {
  loop_.Post([this] { BeginStop(); });
}

void Server::StopOnSignal() {
  loop_.OnStopSignal([this] {
    LogInfo("stopping");
    BeginStop();
  });
}

void Server::ReloadOnSignal() {
  loop_.OnHangUp([this] { ReloadCertificate(); });
}

// Requests that wait are told why they end; the loop goes on until they have their answers.
void Server::BeginStop() {
  if (recovery_) recovery_->NoteStop();
  host_->EndRequests(Error(ErrorCode::kUnavailable, "The server is stopping."));
  feed_->EndSubscriptions();
  stop_timer_.FireAfter(kStopLimit, [this] { loop_.Stop(); });
  server_->Drain([this] { loop_.Stop(); });
}

// A swarm that cannot come up for want of memory says nothing else: it was down and stays so.
void Server::TellLack(const swarm::Snapshot& snapshot) {
  if (snapshot.state != swarm::SwarmState::kDown || snapshot.missing_memory_bytes == 0) return;
  if (std::exchange(told_lack_, snapshot.message) != snapshot.message)
    LogWarn("{}", snapshot.message);
}

// Runs for every step: what it costs is paid per token, so the picture is only taken now and then.
void Server::OnSwarmChanged() {
  feed_->Changed();
  if (look_pending_) return;
  look_pending_ = true;
  look_timer_.FireAfter(last_state_ == swarm::SwarmState::kUp ? kLookIntervalUp : kLookInterval,
                        [this] {
                          look_pending_ = false;
                          const swarm::Snapshot snapshot = host_->snapshot();
                          TellLack(snapshot);
                          if (snapshot.state == last_state_) return;
                          last_state_ = snapshot.state;
                          LogInfo("{} ({:.2f} s after start)", snapshot.message,
                                  (MonotonicNow() - options_.started).seconds());
                        });
}

}  // namespace weft::server
