#include "server/server.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "base/secret.h"
#include "net/web_names.h"
#include "server/cluster_routes.h"
#include "server/model_routes.h"
#include "server/own_user.h"
#include "server/routes.h"
#include "store/store.h"

namespace weft::server {
namespace {

// How long a server that stops waits for clients to take their answers.
constexpr Duration kStopLimit = Seconds(1);

}  // namespace

Server::Server(const ServerOptions& options)
    : options_(options), planning_thread_(1), stop_timer_(loop_) {
  reach_.address = options.address;
  reach_.host_names = options.host_names;
  reach_.tls = !options.tls.empty();
  if (options.cluster) reach_.url = options.cluster->url;
}

Result<std::unique_ptr<Server>> Server::Prepare(const ServerOptions& options) {
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
  TRY(server->OpenJournal());
  ASSIGN_OR_RETURN(server->tls_, server->MakeTls());
  server->feed_ = std::make_unique<SwarmFeed>(server->loop_);
  return server;
}

Result<std::unique_ptr<Server>> Server::Listen(const ServerOptions& options, ServedModel model) {
  ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Prepare(options));
  Server* const self = server.get();
  self->files_ = std::move(model.files);
  const std::string name = model.package.manifest.name;
  if (options.cluster) {
    TRY(self->JoinCluster({{name, model.package.digest}}));
  }
  TRY(self->OpenKeys(name));
  const CellShared shared = self->Shared(false);
  AdminParts admin;
  ASSIGN_OR_RETURN(auto cell_recovery, self->recovery_->BeginCell(model.info.package_digest));
  const swarm::ModelInfo info = model.info;
  self->cell_ =
      std::make_unique<Cell>(self->cluster_ ? self->cluster_->SharedBy(shared, name) : shared,
                             std::move(model), std::move(cell_recovery));
  admin.need_bytes =
      NeedBytes(self->cluster_ ? self->cluster_->OptionsOf(name) : self->options_, info);
  self->body_limit_bytes_ = self->cell_->body_limit_bytes();
  self->feed_->Show(&self->cell_->host(), self->cell_->card());
  self->cell_->OnChanged([self] {
    self->feed_->Changed();
    if (self->cluster_cell_) self->cluster_cell_->OnSwarmChanged();
  });
  RouteParts parts = self->Parts();
  self->cell_->AddParts(parts);
  const auto resume = [self] { self->cell_->Resume(self->Salts()); };
  if (self->cluster_) {
    self->cluster_cell_ = self->cluster_->Make(*self->cell_, resume);
    self->cluster_cell_->AddParts(parts);
  } else {
    self->loop_.Post(resume);
  }
  admin.cell = self->cell_.get();
  self->MakeRouter(MakeRoutes(parts), admin);
  TRY(self->Open());
  if (self->cluster_) self->StartCluster();
  return server;
}

Result<std::unique_ptr<Server>> Server::Listen(const ServerOptions& options, ModelLibrary library) {
  ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Prepare(options));
  Server* const self = server.get();
  uint32_t context_length = options.context_length;
  if (options.cluster) {
    std::vector<ClusterCells::Model> models;
    for (const KnownModel& known : library.list())
      models.push_back({known.name, package::Digest(known.info.package_digest)});
    TRY(self->JoinCluster(models));
    for (const ClusterCells::Model& model : models)
      context_length =
          std::max(context_length, self->cluster_->OptionsOf(model.name).context_length);
  }
  TRY(self->OpenKeys(""));
  self->files_ = std::exchange(library.files, std::nullopt);
  self->body_limit_bytes_ = BodyLimitOf(options, /*embeds=*/true, context_length);
  self->models_ = std::make_unique<Models>(self->Shared(true), *self->recovery_, std::move(library),
                                           self->cluster_.get());
  self->models_->SetFeed(self->feed_.get());
  self->models_->SetSalts([self] { return self->Salts(); });
  if (self->cluster_) {
    TRY(self->models_->LoadPinned());
  }
  RouteParts parts = self->Parts();
  parts.chat_body_bytes = self->body_limit_bytes_;
  AdminParts admin;
  admin.models = self->models_.get();
  self->MakeRouter(SeveralModelsRoutes(self->loop_, *self->models_, parts), admin);
  self->router_->FindModelsWith([models = self->models_.get()](const net::HttpRequest& request) {
    return ModelOf(*models, request);
  });
  TRY(self->Open());
  if (self->cluster_) self->StartCluster();
  self->models_->Start();
  return server;
}

CellShared Server::Shared(bool has_several) {
  return {options_,
          loop_,
          planning_thread_,
          keys_->table(),
          [this](swarm::CoreOptions& core) { HashSecretsInto(core); },
          has_several};
}

Status Server::JoinCluster(const std::vector<ClusterCells::Model>& models) {
  std::vector<uint8_t> fingerprint;
  // Certificates of others are renewed, and whoever asks checks them with those it trusts.
  if (tls_ && options_.tls == "auto")
    fingerprint = FromHex(net::CertificateFingerprint(*tls_)).value_or(std::vector<uint8_t>());
  ASSIGN_OR_RETURN(cluster_, ClusterCells::Join(loop_, options_, fingerprint, models));
  for (const cluster_host::ClusterKey& key : member()->keys()) {
    derives_api_key_ = derives_api_key_ || secrets_.api_key == key.ApiKey();
    derives_join_token_ = derives_join_token_ || secrets_.join_token == key.JoinToken();
  }
  NoteClusterKeys();
  return OkStatus();
}

void Server::StartCluster() {
  member()->OnKeys([this] {
    NoteClusterKeys();
    AccessPolicy access = router_->access();
    LetInEarlier(access);
    router_->SetAccess(std::move(access));
  });
  cluster_->Start([this] { MeetServers(); });
}

// Servers take up another key one after the other. Until then whoever has a secret that follows
// from one of both is let in by all.
void Server::NoteClusterKeys() {
  derived_api_keys_.clear();
  derived_join_tokens_.clear();
  for (const cluster_host::ClusterKey& key : member()->keys()) {
    if (derives_api_key_) derived_api_keys_.push_back(HashSecret(key.ApiKey()));
    if (derives_join_token_) derived_join_tokens_.push_back(HashSecret(key.JoinToken()));
  }
}

// Pages of this server may connect to the others, and pages of the others to this one.
void Server::MeetServers() {
  const cluster_host::LeaseHost& leases = member()->leases();
  std::vector<cluster_host::PeerAddress> others;
  for (const shared_store::SharedServer& each : leases.tables().servers)
    if (each.id != leases.self().id && leases.SharesModels(each))
      others.push_back({each.url, ToHex(each.fingerprint)});
  if (others == met_servers_) return;
  met_servers_ = std::move(others);
  AccessPolicy access = router_->access();
  std::vector<net::Url> servers;
  for (const cluster_host::PeerAddress& each : met_servers_) {
    auto url = net::ParseUrl(each.url);
    if (auto origin = net::CanonicalOrigin(each.url)) access.allowed_origins.insert(*origin);
    if (url.ok()) servers.push_back(*std::move(url));
  }
  router_->SetAccess(std::move(access));
  router_->LetPagesConnectTo(servers);
  if (on_servers_met_) on_servers_met_(met_servers_);
}

// Without a journal records are kept in memory: a model that is loaded again finds its own.
Status Server::OpenJournal() {
  // Secrets that are to end must not be good again after the next start.
  const bool is_needed =
      !options_.journal.empty() && (options_.journal_is_asked_for || options_.new_secrets);
  Recovery::Options open;
  open.path = options_.journal;
  open.keep_prompts = options_.journal_prompts;
  auto recovery = Recovery::Open(loop_, open);
  if (!recovery.ok()) {
    if (is_needed) return recovery.error();
    LogWarn("{} The server goes on without a journal.", recovery.error().message());
    open.path.clear();
    recovery = Recovery::Open(loop_, open);
    if (!recovery.ok()) return recovery.error();
  }
  has_journal_ = !open.path.empty();
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
  const Sha256Digest key = Sha256(AsBytes(secrets_.api_key));
  const Sha256Digest token = Sha256(AsBytes(secrets_.join_token));
  const store::StoredSecrets now{std::string(AsText(key)), std::string(AsText(token)),
                                 SharedLinks(reach_, secrets_).hidden_token(), false};
  for (const store::StoredSecrets& each : recovery_->secrets()) {
    const bool is_good = each.api_key.size() == key.size() &&
                         each.join_token.size() == token.size() &&
                         !(only_key && each.api_key != now.api_key) &&
                         !(only_token && each.join_token != now.join_token);
    const bool is_new = each.api_key != now.api_key || each.join_token != now.join_token;
    if (is_good && is_new) earlier_secrets_.push_back(each);
  }
  return recovery_->NoteSecrets(now, only_key, only_token);
}

// Those of a cluster are in its database. A start without them would let in whom nobody knows.
Status Server::OpenKeys(const std::string& model_name) {
  KeyKeeper::Options options{.path = options_.keys, .model = model_name};
  const bool is_off = options_.keys_are_asked_for && options_.keys.empty();
  if (cluster_ && !is_off) {
    ASSIGN_OR_RETURN(options.shared, cluster_host::OpenKeys(options_.cluster->database_url));
  }
  auto opened = KeyKeeper::Open(loop_, std::move(options));
  if (!opened.ok()) {
    if (options_.keys_are_asked_for || cluster_) return opened.error();
    LogError("{} The server goes on without named keys.", opened.error().message());
    opened = KeyKeeper::WithoutFile(loop_, model_name);
  }
  keys_ = std::move(*opened);
  keys_->OnChanged([this] { CloseRevoked(); });
  if (cluster_) WarnOfOwnKeys();
  return OkStatus();
}

// Keys that were made before this server was in a cluster.
void Server::WarnOfOwnKeys() const {
  if (options_.keys.empty()) return;
  const auto own = store::Store::Open(options_.keys, store::OpenMode::kExisting, UnixNowMs());
  if (!own.ok()) return;
  const auto keys = (*own)->Keys();
  if (!keys.ok()) return;
  const auto left = std::ranges::count_if(*keys, [this](const store::Key& key) {
    return !key.ended_ms && !key.IsExpired(UnixNowMs()) && !keys_->table().Find(key.hash);
  });
  if (left > 0)
    LogWarn(
        "{} keys of '{}' are not the cluster's, and let nobody in: take them there with `weft "
        "state export FILE` and `weft state import FILE --cluster URL`",
        left, options_.keys.string());
}

void Server::HashSecretsInto(swarm::CoreOptions& core) const {
  if (!secrets_.api_key.empty()) core.api_key_sha256_hex = HashSecret(secrets_.api_key);
  for (const store::StoredSecrets& earlier : earlier_secrets_)
    core.earlier_api_keys_sha256_hex.push_back(ToHex(AsBytes(earlier.api_key)));
  if (!secrets_.join_token.empty()) core.join_token_sha256_hex = HashSecret(secrets_.join_token);
  for (const store::StoredSecrets& earlier : earlier_secrets_)
    core.earlier_join_tokens_sha256_hex.push_back(ToHex(AsBytes(earlier.join_token)));
  const KeyTable& named = keys_->table();
  core.is_join_token = [this, &named](const std::string& hash) {
    return named.IsGood(hash, store::Role::kHelper) ||
           std::ranges::find(derived_join_tokens_, hash) != derived_join_tokens_.end();
  };
  core.find_eviction = [this](const std::string& device) {
    return evictions_.Find(device, MonotonicNow());
  };
  core.is_owner_key = [this, &named](const std::string& hash) {
    return named.IsGood(hash, store::Role::kAdmin) ||
           std::ranges::find(derived_api_keys_, hash) != derived_api_keys_.end();
  };
}

RouteParts Server::Parts() {
  RouteParts parts;
  parts.feed = feed_.get();
  parts.files = files_ ? &*files_ : nullptr;
  parts.links = &links_;
  parts.tls = tls_.get();
  parts.keys = keys_.get();
  parts.evictions = &evictions_;
  return parts;
}

void Server::MakeRouter(std::vector<Route> routes, AdminParts admin) {
  admin.evictions = &evictions_;
  admin.keys = &keys_->table();
  for (Route& route : AdminRoutes(admin)) routes.push_back(std::move(route));
  if (cluster_)
    for (Route& route : ClusterRoutes(*member())) routes.push_back(std::move(route));
  router_ = std::make_unique<Router>(std::move(routes));
  std::vector<net::Url> servers;
  for (const swarm::Successor& each : options_.successors)
    if (auto url = net::ParseUrl(each.url); url.ok()) servers.push_back(*std::move(url));
  router_->LetPagesConnectTo(servers);
  if (options_.log_requests) router_->LogRequests();
}

// A token whose time is over lets nobody in, and those who are in stay; one that somebody has ended
// is to end what came of it.
void Server::CloseRevoked() {
  const auto find_reason = [this](const std::string& hash) -> std::optional<std::string> {
    const store::Key* key = keys_->table().Find(hash);
    if (key == nullptr || !key->ended_ms) return std::nullopt;
    return "The join token '" + key->name + "' was revoked: ask for a new join link.";
  };
  if (cell_) cell_->host().CloseWorkers(find_reason);
  if (!models_) return;
  for (const auto& [name, loaded] : models_->loaded())
    loaded->cell->host().CloseWorkers(find_reason);
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
  keys_->Start(cluster_ ? member()->leases().self().name : std::to_string(reach_.port));
  ASSIGN_OR_RETURN(AccessPolicy access, MakeAccess());
  router_->SetAccess(std::move(access));
  links_ = SharedLinks(reach_, secrets_);
  for (const store::StoredSecrets& earlier : earlier_secrets_) {
    const std::string key_hash = ToHex(AsBytes(earlier.api_key));
    if (key_hash != HashSecret(secrets_.api_key))
      links_.AddEarlier(key_hash, earlier.hidden_join_token);
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
  LetInEarlier(access);
  access.keys = &keys_->table();
  access.on_use = [this](const std::string& hash) { recovery_->NoteUse(hash); };
  for (const std::string& proxy : options_.trusted_proxies)
    access.trusted_proxies.insert(net::CanonicalAddress(proxy));
  const std::optional<uint32_t> own_user = OwnUserIfKnown();
  if (secrets_.api_key.empty()) access.only_user = own_user;
  if (options_.host_names.empty() && options_.trusted_proxies.empty()) access.own_user = own_user;
  return access;
}

void Server::LetInEarlier(AccessPolicy& access) const {
  access.earlier_api_key_hashes = derived_api_keys_;
  access.earlier_join_token_hashes = derived_join_tokens_;
  for (const store::StoredSecrets& earlier : earlier_secrets_) {
    access.earlier_api_key_hashes.push_back(ToHex(AsBytes(earlier.api_key)));
    access.earlier_join_token_hashes.push_back(ToHex(AsBytes(earlier.join_token)));
  }
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
  if (cell_) cell_->NoteStop();
  if (models_) models_->NoteStop();
  recovery_->NoteStop();
  const Error stopping(ErrorCode::kUnavailable, "The server is stopping.");
  if (cluster_) cluster_->StopServing();
  if (cell_) cell_->EndRequests(stopping);
  if (models_) models_->EndRequests(stopping);
  feed_->EndSubscriptions();
  stop_timer_.FireAfter(kStopLimit, [this] { loop_.Stop(); });
  server_->Drain([this] { loop_.Stop(); });
}

}  // namespace weft::server
