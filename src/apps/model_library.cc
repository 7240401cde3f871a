#include "apps/model_library.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "apps/cell_offer.h"
#include "apps/model_info.h"
#include "apps/onnx_stages.h"
#include "apps/pull_model.h"
#include "base/log.h"
#include "engine/engine.h"
#include "registry/library.h"
#include "registry/model_reference.h"
#include "registry/registry_settings.h"
#include "server/cell.h"
#include "swarm/experts/exchange_costs.h"

namespace weft::apps {
namespace {

namespace fs = std::filesystem;

// Packages by the names that clients say. What was read of one counts until its manifest changes.
class Shelf {
 public:
  Shelf(ServeOptions options, uint32_t context_length)
      : options_(std::move(options)), context_length_(context_length) {}

  Status AddNamed(const std::string& text) {
    ASSIGN_OR_RETURN(const fs::path found, FindOrPull({.model = text}));
    fs::path folder = fs::absolute(found).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();
    const std::string name = folder.filename().string();
    if (named_.contains(name) && named_[name] != folder) {
      return Error(ErrorCode::kInvalidArgument,
                   "'" + named_[name].string() + "' and '" + folder.string() +
                       "' have the same name: rename one of these folders.");
    }
    named_[name] = folder;
    const auto opened = package::Package::Open(folder);
    return opened.ok() ? OkStatus() : Status(opened.error());
  }

  // Any thread.
  std::vector<server::KnownModel> List() {
    const std::lock_guard lock(mutex_);
    std::map<std::string, Entry> now;
    std::vector<server::KnownModel> known;
    for (const auto& [name, folder] : Folders()) {
      std::error_code unknown;
      const auto changed = fs::last_write_time(folder / "weft.json", unknown);
      const auto before = entries_.find(name);
      if (before != entries_.end() && before->second.changed == changed) {
        now.insert(*before);
      } else {
        Entry entry{changed, std::nullopt};
        auto read = Read(name, folder);
        if (read.ok())
          entry.model = std::move(*read);
        else
          LogWarn("the library's '{}' is left out: {}", name, read.error().message());
        now.emplace(name, std::move(entry));
      }
      if (const auto& model = now.at(name).model) known.push_back(*model);
    }
    entries_ = std::move(now);
    return known;
  }

  // Any thread.
  Result<fs::path> FolderOf(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto folders = Folders();
    const auto found = folders.find(name);
    if (found == folders.end())
      return Error(ErrorCode::kNotFound, "The library has no '" + name + "' any more.");
    return found->second;
  }

 private:
  struct Entry {
    fs::file_time_type changed;
    std::optional<server::KnownModel> model;  // nullopt: it cannot be read
  };

  std::map<std::string, fs::path> Folders() const {
    if (!named_.empty()) return named_;
    std::map<std::string, fs::path> folders;
    std::error_code failure;
    for (const auto& folder :
         fs::directory_iterator(registry::LibraryFolder(std::getenv), failure)) {
      std::error_code none;
      if (folder.path().extension() != ".partial" &&
          fs::is_regular_file(folder.path() / "weft.json", none))
        folders[folder.path().filename().string()] = folder.path();
    }
    return folders;
  }

  Result<server::KnownModel> Read(const std::string& name, const fs::path& folder) const {
    server::KnownModel known;
    known.name = name;
    package::Package package;
    auto opened = package::Package::Open(folder);
    if (opened.ok()) {
      package = std::move(*opened);
      known.info = ModelInfoOf(package);
    } else {
      // A damaged one is listed: who asks it hears what is wrong.
      ASSIGN_OR_RETURN(registry::LibraryEntry entry, registry::ReadEntry(folder));
      package.folder = folder;
      package.manifest = std::move(entry.manifest);
    }
    const package::Manifest& manifest = package.manifest;
    known.info.embeds = manifest.embedding.has_value();
    known.ollama = server::DescribeForOllama(
        package, nullptr,
        swarm::OptionsFor(known.info, context_length_, options_.sessions).context_length);
    known.ollama.name = name;
    known.served = {name,
                    known.ollama.changed_s,
                    known.ollama.context_length,
                    {manifest.embedding ? "embedding" : "completion"}};
    return known;
  }

  const ServeOptions options_;
  const uint32_t context_length_;
  std::map<std::string, fs::path> named_;  // empty: all of the library
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace

Result<server::ServedModel> OpenModel(const fs::path& folder, const ServeOptions& options,
                                      swarm::PlanKind plan_kind) {
  server::ServedModel model;
  ASSIGN_OR_RETURN(model.package, package::Package::Open(folder));
  if (options.verify) model.package.blobs->Distrust();
  ASSIGN_OR_RETURN(api::ModelText text, LoadModelText(model.package));
  text.set_control_tokens_in_text(options.control_tokens_in_text);
  if (text.chat_templates().named.empty()) {
    LogWarn("the model has no chat template: requests for chat are refused");
  }
  model.info = ModelInfoOf(model.package);
  if (std::string problem = swarm::PlanProblem(model.info, plan_kind); !problem.empty())
    return Error(ErrorCode::kInvalidArgument, std::move(problem));
  model.text = std::make_shared<const api::ModelText>(std::move(text));
  model.graphs = MakeOnnxStages(folder / "model.onnx");
  return model;
}

Result<server::ModelLibrary> MakeModelLibrary(const ServeOptions& options,
                                              const server::ServerOptions& server) {
  const auto shelf = std::make_shared<Shelf>(options, server.context_length);
  for (const std::string& name : options.packages) TRY(shelf->AddNamed(name));
  server::ModelLibrary library;
  library.is_pinned = !options.packages.empty();
  library.list = [shelf] { return shelf->List(); };
  library.open = [shelf, options, plan_kind = server.plan_kind](
                     const std::string& name) -> Result<server::ServedModel> {
    ASSIGN_OR_RETURN(const fs::path folder, shelf->FolderOf(name));
    ASSIGN_OR_RETURN(server::ServedModel model, OpenModel(folder, options, plan_kind));
    // Packages of one model in several forms share its name; their folders do not.
    model.package.manifest.name = model.info.name = name;
    return model;
  };
  library.name_of = [](const std::string& asked) {
    const auto reference = registry::ParseModelReference(asked);
    return reference.ok() ? reference->PackageName() : asked;
  };
  return library;
}

CellWorkers::CellWorkers(net::EventLoop& loop, worker::NativeWorkerOptions options, Start start)
    : loop_(loop), options_(std::move(options)), start_(std::move(start)) {
  options_.memory = std::make_shared<engine::MemoryLimit>(options_.memory_bytes);
  options_.threads = engine::ShareThreads(options_.thread_count);
}

CellWorkers::~CellWorkers() {
  alive_.reset();
  attached_.clear();
}

void CellWorkers::Attach(server::Cell& cell, const package::Package& package, uint64_t need_bytes) {
  uint64_t left_bytes = options_.memory_bytes;
  for (const auto& [other, attached] : attached_)
    left_bytes -= std::min(left_bytes, attached.offer_bytes);
  worker::NativeWorkerOptions options = options_;
  options.memory_bytes = OfferFor(need_bytes, left_bytes);
  if (!package.manifest.lowered || options.memory_bytes == 0) return;
  attached_[&cell] = {start_(cell, package, options), options.memory_bytes};
}

void CellWorkers::Detach(server::Cell& cell, std::function<void()> done) {
  const auto found = attached_.find(&cell);
  if (found == attached_.end()) return done();
  auto held = std::make_shared<std::shared_ptr<void>>(found->second.end());
  attached_.erase(found);
  ends_.Push([held, &loop = loop_, alive = std::weak_ptr(alive_), done = std::move(done)] {
    held->reset();
    loop.Post([alive, done] {
      if (!alive.expired()) done();
    });
  });
}

}  // namespace weft::apps
