#include "server/models.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "server/dialect_routes.h"
#include "server/responses.h"
#include "server/worker_socket.h"
#include "swarm/workers/costs.h"

namespace weft::server {
namespace {

// A library that others change (`weft pull`, `weft rm`) is read again so soon.
constexpr Duration kListAgain = Seconds(2);
constexpr Duration kListInterval = Seconds(15);
constexpr Duration kWaitLook = Milliseconds(250);

// Beside weights and conversations: what a plan that is being loaded takes for a while, and steps.
constexpr uint64_t kSpareBytes = 64 << 20;

const char* TextOf(ModelShelf::State state) {
  switch (state) {
    case ModelShelf::State::kLoading:
      return "loading";
    case ModelShelf::State::kLoaded:
      return "loaded";
    case ModelShelf::State::kUnloading:
      return "unloading";
    case ModelShelf::State::kOnDisk:
      break;
  }
  return "on disk";
}

}  // namespace

uint64_t NeedBytes(const ServerOptions& options, const swarm::ModelInfo& info) {
  const swarm::CoreOptions core = swarm::OptionsFor(info, options.context_length, options.sessions);
  if (core.model.layers.empty()) return 0;
  const swarm::Costs costs(core);
  const uint64_t bytes = costs.MemoryBytes(1, {0, costs.layer_count()});
  return bytes + bytes / 8 + kSpareBytes;
}

// A request until its model is loaded.
struct Models::Waiting {
  size_t route = 0;
  std::string model;
  net::HttpRequest request;
  std::shared_ptr<net::Responder> client;
  net::HttpResponse (*refuse)(const api::ApiError&) = ErrorResponse;
  Instant since = MonotonicNow();
  bool is_over = false;
};

// A request that its model answers: as long as anybody holds its responder.
class Models::Use {
 public:
  Use(Models& models, std::shared_ptr<Loaded> loaded, std::shared_ptr<net::Responder> client)
      : models_(models),
        alive_(models.alive_),
        loaded_(std::move(loaded)),
        client_(std::move(client)) {
    models_.shelf_.Begin(loaded_->cell->name(), MonotonicNow());
  }
  ~Use() {
    if (!alive_.expired()) models_.EndUse(loaded_->cell->name());
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  net::Responder* client() const { return client_.get(); }

 private:
  Models& models_;
  const std::weak_ptr<bool> alive_;
  const std::shared_ptr<Loaded> loaded_;
  const std::shared_ptr<net::Responder> client_;
};

net::WebSocketCallbacks Models::Loaded::TakeWorker(const ParkedSockets::Parked& worker) const {
  if (clustered) return clustered->Take(worker);
  return AttachWorkerSocket(cell->host(), worker.address, worker.is_owner, worker.socket);
}

std::optional<NotReady> Models::Loaded::FindReasonNotReady() const {
  return clustered ? clustered->FindReasonNotReady() : FindNotReady(cell->host());
}

Models::Models(const CellShared& shared, Recovery& recovery, ModelLibrary library,
               ClusterCells* cluster)
    : shared_(shared),
      recovery_(recovery),
      library_(std::move(library)),
      cluster_(cluster),
      shelf_({.keep_alive = shared.options.keep_alive, .least_offer_bytes = kLeastOfferBytes}),
      look_timer_(shared.loop),
      wait_timer_(shared.loop),
      list_timer_(shared.loop) {
  shelf_.SetRoom({shared_.options.memory_bytes});
}

Models::~Models() {
  thread_.Stop();
  alive_.reset();
  waiting_.clear();
  loaded_.clear();
  closing_.clear();
  std::exchange(*graves_, {}).clear();
}

Status Models::LoadPinned() {
  SetKnown(library_.list());
  for (const ModelShelf::Action& action : shelf_.Next(MonotonicNow()))
    TRY(Take(action.model, library_.open(action.model)));
  return OkStatus();
}

void Models::Start() {
  SetKnown(library_.list());
  listed_at_ = MonotonicNow();
  list_timer_.FireAfter(kListInterval, [this] { Refresh(nullptr); });
  shared_.loop.Post([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) Look();
  });
}

void Models::SetDeviceMemory(std::vector<uint64_t> bytes) {
  bytes.push_back(shared_.options.memory_bytes);
  shelf_.SetRoom(std::move(bytes));
  Look();
}

// ---- what there is ----

const ServerOptions& Models::OptionsOf(const std::string& name) const {
  return cluster_ != nullptr ? cluster_->OptionsOf(name) : shared_.options;
}

void Models::Refresh(std::function<void()> then) {
  if (then) after_listing_.push_back(std::move(then));
  if (std::exchange(is_listing_, true)) return;
  thread_.Push([this, alive = std::weak_ptr(alive_)] {
    auto known = std::make_shared<std::vector<KnownModel>>(library_.list());
    shared_.loop.Post([this, alive, known] {
      if (alive.expired()) return;
      is_listing_ = false;
      listed_at_ = MonotonicNow();
      SetKnown(std::move(*known));
      for (const auto& after : std::exchange(after_listing_, {})) after();
      list_timer_.FireAfter(kListInterval, [this] { Refresh(nullptr); });
    });
  });
}

void Models::SetKnown(std::vector<KnownModel> known) {
  std::map<std::string, KnownModel> now;
  for (KnownModel& model : known) {
    shelf_.Know(model.name, NeedBytes(OptionsOf(model.name), model.info), library_.is_pinned);
    const std::string name = model.name;
    now.emplace(name, std::move(model));
  }
  for (const auto& [name, model] : known_)
    if (!now.contains(name)) shelf_.Forget(name);
  shelf_.Sweep();
  // What is loaded or waited for stays known, as all does until the library is read again.
  for (auto& [name, model] : known_)
    if (shelf_.Knows(name)) now.try_emplace(name, std::move(model));
  known_ = std::move(now);
}

std::vector<std::string> Models::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, model] : known_) names.push_back(name);
  return names;
}

std::string Models::NameOf(const std::string& asked) const {
  if (asked.empty()) {
    if (!current_.empty() && known_.contains(current_)) return current_;
    for (const auto& [name, model] : known_)
      if (!model.info.embeds) return name;
    return known_.empty() ? "" : known_.begin()->first;
  }
  for (const auto& [name, model] : known_)
    if (api::IsServed(asked, name)) return name;
  const std::string other = library_.name_of ? library_.name_of(asked) : asked;
  return known_.contains(other) ? other : "";
}

std::vector<api::ServedModel> Models::Served() {
  if (MonotonicNow() - listed_at_ > kListAgain) Refresh(nullptr);
  std::vector<api::ServedModel> served;
  for (const auto& [name, model] : known_) {
    const auto loaded = FindLoaded(name);
    served.push_back(loaded ? loaded->cell->Served() : model.served);
    served.back().state = TextOf(shelf_.StateOf(name));
  }
  return served;
}

std::vector<api::OllamaModel> Models::OllamaModels() {
  if (MonotonicNow() - listed_at_ > kListAgain) Refresh(nullptr);
  std::vector<api::OllamaModel> models;
  for (const auto& [name, model] : known_) {
    const auto loaded = FindLoaded(name);
    models.push_back(loaded ? loaded->cell->ollama_model() : model.ollama);
  }
  return models;
}

std::vector<api::OllamaHeld> Models::OllamaHeldNow() const {
  std::vector<api::OllamaHeld> held;
  for (const auto& [name, loaded] : loaded_) {
    held.push_back(HeldOf(loaded->cell->ollama_model(), loaded->cell->host()));
    if (const auto end = shelf_.EndOf(name))
      held.back().ends_at_us = UnixNowMs() * 1000 + (*end - MonotonicNow()).us;
  }
  return held;
}

std::vector<Models::Shelved> Models::Shelf() {
  std::vector<Shelved> all;
  for (const api::ServedModel& served : Served()) {
    const std::string& name = served.name;
    Shelved& model = all.emplace_back();
    model.name = name;
    model.state = served.state;
    model.is_pinned = shelf_.IsPinned(name);
    model.weight_bytes = known_.at(name).ollama.byte_count;
    model.need_bytes = shelf_.NeedOf(name);
    model.waiting = shelf_.WaitingFor(name);
    model.loaded = FindLoaded(name);
    if (const auto end = shelf_.EndOf(name)) model.goes_in = *end - MonotonicNow();
    const auto problem = problems_.find(name);
    if (problem != problems_.end()) model.problem = problem->second;
  }
  return all;
}

void Models::LoadNow(const std::string& name) {
  const bool is_loaded = shelf_.StateOf(name) == ModelShelf::State::kLoaded;
  if (ended_with_ || is_loaded || asked_loads_.contains(name)) return;
  problems_.erase(name);
  asked_loads_.emplace(name, MonotonicNow());
  shelf_.Ask(name);
  Look();
  LookAtWaiting();
}

Status Models::UnloadNow(const std::string& name) {
  if (shelf_.IsPinned(name))
    return Error(ErrorCode::kUnsupported,
                 "'" + name + "' was named when the server was started, so it stays loaded.");
  if (shelf_.StateOf(name) != ModelShelf::State::kLoaded)
    return Error(ErrorCode::kUnavailable, "'" + name + "' is not loaded.");
  shelf_.AskUnload(name);
  Look();
  return OkStatus();
}

// Nobody waits for it any more, but for requests.
void Models::EndAskedLoad(const std::string& name, std::string problem) {
  if (asked_loads_.erase(name) == 0) return;
  shelf_.Withdraw(name);
  if (!problem.empty()) problems_[name] = std::move(problem);
}

std::shared_ptr<Models::Loaded> Models::FindLoaded(const std::string& name) const {
  const auto found = loaded_.find(name);
  return found == loaded_.end() ? nullptr : found->second;
}

std::shared_ptr<Models::Loaded> Models::FindNumber(uint32_t number) const {
  for (const auto& [name, loaded] : loaded_)
    if (loaded->number == number) return loaded;
  return nullptr;
}

std::shared_ptr<Models::Loaded> Models::FindPackage(const std::string& digest_hex) const {
  for (const auto& [name, loaded] : loaded_)
    if (loaded->cell->digest().ToHex() == digest_hex) return loaded;
  return nullptr;
}

std::shared_ptr<Models::Loaded> Models::FindSwarm(const std::string& swarm_id_hex) const {
  for (const auto& [name, loaded] : loaded_)
    if (ToHex(AsBytes(loaded->cell->swarm_id())) == swarm_id_hex) return loaded;
  return nullptr;
}

std::shared_ptr<Models::Loaded> Models::Current() const {
  if (auto loaded = FindLoaded(current_)) return loaded;
  return loaded_.empty() ? nullptr : loaded_.begin()->second;
}

std::shared_ptr<Models::Loaded> Models::Neediest() const {
  const auto find = [this](auto&& is_it) -> std::shared_ptr<Loaded> {
    for (const auto& [name, loaded] : loaded_)
      if (is_it(*loaded->cell)) return loaded;
    return nullptr;
  };
  auto current = Current();
  if (auto found = find([](const Cell& cell) { return cell.host().leads() && !cell.is_up(); }))
    return found;
  if (!current || current->cell->host().leads()) return current;
  if (auto found = find([](const Cell& cell) { return cell.host().leads(); })) return found;
  auto down = find([](const Cell& cell) { return !cell.is_up(); });
  return down ? down : current;
}

// The picture follows who asks.
void Models::Choose(const std::string& name) {
  current_ = name;
  const auto loaded = Current();
  if (feed_ == nullptr || feed_->host() == (loaded ? &loaded->cell->host() : nullptr)) return;
  feed_->Show(loaded ? &loaded->cell->host() : nullptr,
              loaded ? loaded->cell->card() : api::ModelCard());
}

// ---- requests ----

void Models::Answer(size_t route, const std::string& asked, net::HttpRequest request,
                    std::shared_ptr<net::Responder> client) {
  auto waiting = std::make_shared<Waiting>();
  waiting->route = route;
  waiting->request = std::move(request);
  waiting->client = std::move(client);
  static const std::vector<Route> forms = CellRoutes({});
  waiting->refuse = forms[route].refuse;
  waiting->model = NameOf(asked);
  if (!waiting->model.empty()) return Enter(std::move(waiting));
  // It may have come just now.
  Refresh([this, waiting, asked] {
    waiting->model = NameOf(asked);
    if (!waiting->model.empty()) return Enter(waiting);
    Refuse(*waiting, api::NoSuchModel(asked, Names()));
  });
}

void Models::Enter(std::shared_ptr<Waiting> waiting) {
  if (ended_with_) return Refuse(*waiting, api::FromError(*ended_with_));
  const std::string& name = waiting->model;
  if (shelf_.IsOpen(name)) return Begin(FindLoaded(name), *waiting);
  shelf_.Ask(name);
  waiting->client->OnClosed([this, alive = std::weak_ptr(alive_), weak = std::weak_ptr(waiting)] {
    const auto gone = weak.lock();
    if (alive.expired() || !gone || gone->is_over) return;
    gone->is_over = true;
    std::erase(waiting_, gone);
    shelf_.Withdraw(gone->model);
    Look();
  });
  if (waiting->is_over) return;  // it has gone already
  waiting_.push_back(std::move(waiting));
  Look();
  LookAtWaiting();
}

void Models::Begin(const std::shared_ptr<Loaded>& loaded, Waiting& waiting) {
  waiting.is_over = true;
  Choose(waiting.model);
  const auto use = std::make_shared<Use>(*this, loaded, std::move(waiting.client));
  loaded->routes[waiting.route].handle(std::move(waiting.request),
                                       std::shared_ptr<net::Responder>(use, use->client()));
}

void Models::Refuse(Waiting& waiting, const api::ApiError& error) {
  waiting.is_over = true;
  std::exchange(waiting.client, nullptr)->Send(waiting.refuse(error));
}

// A request that ends may be the last one of a cell that is to go.
void Models::EndUse(const std::string& name) {
  shelf_.End(name, MonotonicNow());
  shared_.loop.Post([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) Look();
  });
}

void Models::LetIn(const std::string& name) {
  const auto waiting = waiting_;
  for (const auto& each : waiting) {
    const auto loaded = FindLoaded(name);
    if (each->model != name || !loaded || !shelf_.IsOpen(name)) continue;
    std::erase(waiting_, each);
    shelf_.Withdraw(name);
    Begin(loaded, *each);
  }
}

// Whose turn does not come is told so. A model that is being loaded is waited for.
void Models::LookAtWaiting() {
  if (waiting_.empty() && asked_loads_.empty()) return;
  const Instant last = MonotonicNow() - shared_.options.wait;
  for (const auto& [name, since] : std::map(asked_loads_))
    if (since <= last && shelf_.StateOf(name) != ModelShelf::State::kLoading)
      EndAskedLoad(name, shelf_.WhyItWaits(name));
  const auto waiting = waiting_;
  for (const auto& each : waiting) {
    if (shelf_.StateOf(each->model) == ModelShelf::State::kLoading ||
        MonotonicNow() - each->since < shared_.options.wait)
      continue;
    std::erase(waiting_, each);
    const std::string why = shelf_.WhyItWaits(each->model);
    shelf_.Withdraw(each->model);
    Refuse(*each, Overloaded(why + " Its turn did not come within " +
                             std::to_string(static_cast<int64_t>(shared_.options.wait.seconds())) +
                             " s; try again later."));
  }
  wait_timer_.FireAfter(kWaitLook, [this] {
    Look();
    LookAtWaiting();
  });
}

void Models::NoteStop() {
  for (const auto& [name, loaded] : loaded_) loaded->cell->NoteStop();
}

void Models::EndRequests(const Error& error) {
  ended_with_ = error;
  for (const auto& [name, since] : std::map(asked_loads_)) EndAskedLoad(name, "");
  for (const auto& each : std::exchange(waiting_, {})) {
    shelf_.Withdraw(each->model);
    Refuse(*each, api::FromError(error));
  }
  for (const auto& [name, loaded] : loaded_) {
    loaded->cell->EndRequests(error);
  }
}

// ---- loading ----

void Models::Look() {
  if (ended_with_) return;
  const Instant now = MonotonicNow();
  for (const ModelShelf::Action& action : shelf_.Next(now)) {
    if (action.kind == ModelShelf::Action::Kind::kLoad)
      Load(action.model);
    else
      Unload(action.model);
  }
  std::vector<std::string> names;
  for (const auto& [name, loaded] : loaded_) names.push_back(name);
  for (const std::string& name : names) LetIn(name);
  if (const auto next = shelf_.next_look())
    look_timer_.FireAfter(std::max(*next - now, Milliseconds(1)), [this] { Look(); });
}

void Models::Load(const std::string& name) {
  LogInfo("loading '{}'", name);
  thread_.Push([this, alive = std::weak_ptr(alive_), name] {
    auto opened = std::make_shared<Result<ServedModel>>(library_.open(name));
    shared_.loop.Post([this, alive, name, opened] {
      if (!alive.expired()) OnOpened(name, std::move(*opened));
    });
  });
}

void Models::FailToLoad(const std::string& name, const Error& error) {
  LogError("'{}' cannot be loaded: {}", name, error.message());
  std::vector<std::shared_ptr<Waiting>> refused;
  for (const auto& each : waiting_)
    if (each->model == name) refused.push_back(each);
  std::erase_if(waiting_, [&](const auto& each) { return each->model == name; });
  EndAskedLoad(name, "");
  problems_[name] = error.message();
  shelf_.NoteFailed(name, MonotonicNow());
  for (const auto& each : refused)
    Refuse(*each, api::FromError(Error(ErrorCode::kUnavailable,
                                       "'" + name + "' cannot be loaded. " + error.message())));
  Look();
}

std::shared_ptr<Models::Loaded> Models::Make(const std::string& name, ServedModel opened,
                                             std::unique_ptr<CellRecovery> recovery) {
  auto made = std::make_unique<Loaded>();
  made->number = cluster_ != nullptr ? cluster_->NumberOf(name) : ++last_number_;
  made->need_bytes = NeedBytes(OptionsOf(name), opened.info);
  made->cell =
      std::make_unique<Cell>(cluster_ != nullptr ? cluster_->SharedBy(shared_, name) : shared_,
                             std::move(opened), std::move(recovery));
  RouteParts parts;
  made->cell->AddParts(parts);
  made->routes = CellRoutes(parts);
  made->cell->OnChanged([this, self = made.get()] {
    if (feed_ != nullptr && feed_->host() == &self->cell->host()) feed_->Changed();
    if (self->clustered) self->clustered->OnSwarmChanged();
  });
  // Whoever lets go of it last may be one of its own functions.
  auto bury = [graves = graves_, &loop = shared_.loop](Loaded* gone) {
    graves->emplace_back(gone);
    loop.Post([graves] { std::exchange(*graves, {}).clear(); });
  };
  return {made.release(), bury};
}

void Models::OnOpened(const std::string& name, Result<ServedModel> opened) {
  const Status taken = Take(name, std::move(opened));
  if (!taken.ok()) return FailToLoad(name, taken.error());
  Look();
}

Status Models::Take(const std::string& name, Result<ServedModel> opened) {
  if (!opened.ok()) return opened.error();
  ASSIGN_OR_RETURN(auto recovery, recovery_.BeginCell(opened->package.digest.bytes()));
  const package::Package package = opened->package;
  const std::shared_ptr<Loaded> loaded = loaded_[name] =
      Make(name, *std::move(opened), std::move(recovery));
  shelf_.NoteLoaded(name, MonotonicNow());
  problems_.erase(name);
  EndAskedLoad(name, "");
  if (library_.on_opened) library_.on_opened(*loaded->cell, package, loaded->need_bytes);
  // What an earlier start left behind goes on. In a cluster it does so where the cell is led.
  const auto resume = [this, cell = loaded->cell.get()] {
    if (salts_) cell->Resume(salts_());
  };
  if (cluster_ != nullptr)
    loaded->clustered = cluster_->Make(*loaded->cell, resume);
  else
    resume();
  Choose(current_.empty() ? name : current_);
  if (on_loaded_changed_) on_loaded_changed_();
  return OkStatus();
}

void Models::Unload(const std::string& name) {
  LogInfo("unloading '{}'", name);
  const std::shared_ptr<Loaded> loaded = closing_[name] = FindLoaded(name);
  loaded_.erase(name);
  loaded->cell->OnChanged(nullptr);
  if (feed_ != nullptr && feed_->host() == &loaded->cell->host())
    feed_->Show(nullptr, api::ModelCard());
  Choose(current_);
  if (on_loaded_changed_) on_loaded_changed_();
  const auto done = [this, alive = std::weak_ptr(alive_), name] {
    if (alive.expired()) return;
    const auto gone = std::exchange(closing_[name], nullptr);
    closing_.erase(name);
    gone->cell->host().CloseAllWorkers("'" + name + "' was unloaded");
    shelf_.NoteUnloaded(name);
    Look();
  };
  if (library_.on_closing) return library_.on_closing(*loaded->cell, done);
  done();
}

}  // namespace weft::server
