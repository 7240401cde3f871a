// Models: those of a server with several. Each that is loaded is a cell (cell.h). A request waits
// until the model that it names is loaded (model_shelf.h decides which ones are), and is answered
// by its cell, which in a cluster another server may lead (cluster_cells.h). All of it happens on
// the loop; files are read on a thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/ollama_models.h"
#include "base/task_queue.h"
#include "server/cell.h"
#include "server/cluster_cells.h"
#include "server/model_shelf.h"
#include "server/parked_sockets.h"
#include "server/recovery.h"
#include "server/router.h"
#include "server/static_files.h"
#include "server/swarm_feed.h"

namespace weft::server {

// A model that can be had, as far as it is known before it is loaded.
struct KnownModel {
  std::string name;
  swarm::ModelInfo info;
  api::ServedModel served;
  api::OllamaModel ollama;
};

// Where models come from, and who computes them in this process.
struct ModelLibrary {
  bool is_pinned = false;  // all are loaded from the start, and stay
  // Gives all that can be had. A thread calls it.
  std::function<std::vector<KnownModel>()> list;
  // Opens one of them. A thread calls it.
  std::function<Result<ServedModel>(const std::string& name)> open;
  // What else a request may call a model, as its name; others come back as they are.
  std::function<std::string(const std::string& asked)> name_of;
  // A cell begins: workers in this process may attach. It ends: `done` is to be called on the loop,
  // now or later, when they are gone and their memory is free. Both may be empty.
  std::function<void(Cell&, const package::Package&, uint64_t need_bytes)> on_opened;
  std::function<void(Cell&, std::function<void()> done)> on_closing;
  std::optional<StaticFiles> files;  // nullopt: no page was built
};

// What a model of such a size takes of all devices together, with its conversations.
uint64_t NeedBytes(const ServerOptions& options, const swarm::ModelInfo& info);

class Models {
 public:
  // A model that is loaded. A request that is under way keeps it.
  struct Loaded {
    uint32_t number = 0;  // never used again; of a cluster's cell the same at every server
    uint64_t need_bytes = 0;
    std::unique_ptr<Cell> cell;
    std::unique_ptr<ClusterCell> clustered;  // null: this server is in no cluster
    std::vector<Route> routes;

    // Takes a worker's socket, of which nothing was read.
    net::WebSocketCallbacks TakeWorker(const ParkedSockets::Parked& worker) const;
    // Why a request would not be answered now; nullopt: it would be.
    std::optional<NotReady> FindReasonNotReady() const;
  };

  // `recovery` and `cluster` outlive this. `cluster` may be null. Else it has all models of the
  // library, which are pinned, and LoadPinned is called before it starts.
  Models(const CellShared& shared, Recovery& recovery, ModelLibrary library,
         ClusterCells* cluster = nullptr);
  ~Models();
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  // Loads all models that are pinned, and waits for the disk. Without this they are loaded behind
  // Start. A server of a cluster stands by with what it has loaded. Errors: those of opening one.
  Status LoadPinned();
  // Reads the library for the first time; then its own state goes on by itself.
  void Start();
  // `salts`: of Cell::Resume.
  void SetSalts(std::function<std::vector<std::string>()> salts) { salts_ = std::move(salts); }
  // The picture that pages see is that of the model that was asked last.
  void SetFeed(SwarmFeed* feed) { feed_ = feed; }

  // The name of the model that `asked` means; "" where it means none that is known. An empty one
  // means the one that was asked last.
  std::string NameOf(const std::string& asked) const;
  // Answers with the route of this number (CellRoutes) of the model, when that is loaded.
  void Answer(size_t route, const std::string& asked, net::HttpRequest request,
              std::shared_ptr<net::Responder> client);
  // By its name, number or package; nullptr: there is none.
  std::shared_ptr<Loaded> FindLoaded(const std::string& name) const;
  std::shared_ptr<Loaded> FindNumber(uint32_t number) const;
  std::shared_ptr<Loaded> FindPackage(const std::string& digest_hex) const;
  std::shared_ptr<Loaded> FindSwarm(const std::string& swarm_id_hex) const;
  // The one that was asked last; nullptr: none is loaded.
  std::shared_ptr<Loaded> Current() const;
  // Where a device helps most that can serve one model alone: what is not up, then who answers. In
  // a cluster what this server leads comes first, so that the device stays.
  std::shared_ptr<Loaded> Neediest() const;
  const std::map<std::string, std::shared_ptr<Loaded>>& loaded() const { return loaded_; }
  // By name, with what they are now.
  std::vector<api::ServedModel> Served();
  std::vector<api::OllamaModel> OllamaModels();
  std::vector<api::OllamaHeld> OllamaHeldNow() const;
  std::vector<std::string> Names() const;
  // The same for whoever looks after the server.
  struct Shelved {
    std::string name, state;  // as in Served
    bool is_pinned = false;
    uint64_t weight_bytes = 0, need_bytes = 0;
    uint32_t waiting = 0;             // requests until it is loaded
    std::optional<Duration> goes_in;  // without further requests
    std::shared_ptr<Loaded> loaded;   // nullptr: it is not
    std::string problem;              // why it could not be loaded the last time
  };
  std::vector<Shelved> Shelf();
  // Loads the model as if somebody had asked it. Of one that finds no memory in ServerOptions::wait
  // the problem is kept. REQUIRES of both: it is known (NameOf).
  void LoadNow(const std::string& name);
  // Unloads it when what is under way has ended. Errors: kUnavailable, it is not loaded;
  // kUnsupported, it was named at the start, and stays.
  Status UnloadNow(const std::string& name);

  // The memory of each device that helps all models (device_list.h), beside the server's own.
  void SetDeviceMemory(std::vector<uint64_t> bytes);
  // Called when a model begins or ends to be loaded.
  void OnLoadedChanged(std::function<void()> callback) { on_loaded_changed_ = std::move(callback); }
  // Is told that the server stops.
  void NoteStop();
  void EndRequests(const Error& error);
  bool is_ending() const { return ended_with_.has_value(); }

 private:
  struct Waiting;
  class Use;

  void Refresh(std::function<void()> then);
  void SetKnown(std::vector<KnownModel> known);
  void Enter(std::shared_ptr<Waiting> waiting);
  void Begin(const std::shared_ptr<Loaded>& loaded, Waiting& waiting);
  void Refuse(Waiting& waiting, const api::ApiError& error);
  void Look();
  void Load(const std::string& name);
  void OnOpened(const std::string& name, Result<ServedModel> opened);
  Status Take(const std::string& name, Result<ServedModel> opened);
  void FailToLoad(const std::string& name, const Error& error);
  void Unload(const std::string& name);
  void EndUse(const std::string& name);
  void LetIn(const std::string& name);
  void LookAtWaiting();
  void EndAskedLoad(const std::string& name, std::string problem);
  void Choose(const std::string& name);
  const ServerOptions& OptionsOf(const std::string& name) const;
  std::shared_ptr<Loaded> Make(const std::string& name, ServedModel opened,
                               std::unique_ptr<CellRecovery> recovery);

  const CellShared shared_;
  Recovery& recovery_;
  const ModelLibrary library_;
  ClusterCells* const cluster_;
  ModelShelf shelf_;
  std::map<std::string, KnownModel> known_;
  std::map<std::string, std::shared_ptr<Loaded>> loaded_;
  // Whose workers in this process have not ended yet.
  std::map<std::string, std::shared_ptr<Loaded>> closing_;
  std::deque<std::shared_ptr<Waiting>> waiting_;
  std::map<std::string, Instant> asked_loads_;   // LoadNow, each a request that waits
  std::map<std::string, std::string> problems_;  // of the last attempt to load
  std::string current_;                          // that was asked last
  uint32_t last_number_ = 0;
  SwarmFeed* feed_ = nullptr;
  std::function<std::vector<std::string>()> salts_;
  std::function<void()> on_loaded_changed_;
  std::optional<Error> ended_with_;
  Instant listed_at_;
  bool is_listing_ = false;
  std::vector<std::function<void()>> after_listing_;
  // Those that no request keeps any more, until the loop has come back from their functions.
  using Graves = std::vector<std::unique_ptr<Loaded>>;
  std::shared_ptr<Graves> graves_ = std::make_shared<Graves>();
  net::EventLoop::Timer look_timer_, wait_timer_, list_timer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  // Last: it uses what stands above.
  TaskQueue thread_;
};

}  // namespace weft::server
