// Several models on one server: what the library has, read when it changed, and the workers in this
// process that compute the models which are loaded.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/local_worker.h"
#include "apps/serve_options.h"
#include "base/result.h"
#include "base/task_queue.h"
#include "server/models.h"

namespace weft::apps {

// What `weft serve NAME...` or, without names, all of the library has. Errors: those of opening a
// package that is named.
Result<server::ModelLibrary> MakeModelLibrary(const ServeOptions& options,
                                              const server::ServerOptions& server);

// The model of a package's folder, opened.
Result<server::ServedModel> OpenModel(const std::filesystem::path& folder,
                                      const ServeOptions& options, swarm::PlanKind plan_kind);

// The built-in workers of a server with several models, one for each that is loaded. They share
// one limit of memory. All of it happens on the loop.
class CellWorkers {
 public:
  // Ends a worker, which it owns: gives what is to be destroyed for its memory to be free, on any
  // thread (LocalWorker::End, RemoteWorker::End).
  using End = std::function<std::shared_ptr<void>()>;
  // Starts the worker of a cell.
  using Start = std::function<End(server::Cell&, const package::Package&,
                                  const worker::NativeWorkerOptions&)>;

  CellWorkers(net::EventLoop& loop, worker::NativeWorkerOptions options, Start start);
  ~CellWorkers();

  // Offers what the model needs, as far as the others leave it.
  void Attach(server::Cell& cell, const package::Package& package, uint64_t need_bytes);
  // `done` is called on the loop when the worker is gone.
  void Detach(server::Cell& cell, std::function<void()> done);

 private:
  struct Attached {
    End end;
    uint64_t offer_bytes = 0;
  };
  net::EventLoop& loop_;
  worker::NativeWorkerOptions options_;
  const Start start_;
  std::map<const server::Cell*, Attached> attached_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  // Last: it destroys what workers held.
  TaskQueue ends_;
};

}  // namespace weft::apps
