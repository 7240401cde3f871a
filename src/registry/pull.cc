#include "registry/pull.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/file.h"
#include "registry/file_download.h"
#include "registry/file_selection.h"
#include "registry/registry_cache.h"

namespace weft::registry {
namespace {

namespace fs = std::filesystem;

constexpr size_t kThreadCount = 4;
constexpr int kAskAttempts = 3;       // for what is small
constexpr int kDownloadAttempts = 7;  // without one byte arriving: half a minute
constexpr auto kTick = std::chrono::milliseconds(100);
constexpr uint64_t kSpareBytes = 64 << 20;  // left free for everything else on the disk
constexpr uint64_t kMaxIndexBytes = 64 << 20;

class Puller {
 public:
  Puller(const RegistrySettings& settings, const ModelReference& reference,
         const PullCallbacks& callbacks, const std::atomic<bool>& cancelled)
      : settings_(settings),
        reference_(reference),
        callbacks_(callbacks),
        cancelled_(cancelled),
        cache_(settings.cache, reference.repository) {}

  Result<PulledModel> Online() {
    TRY(cache_.Prepare());
    TRY(InParallel(1, [&](RegistryClient& client, size_t) { return List(client); }));
    ASSIGN_OR_RETURN(Selection selection,
                     SelectFiles(listing_.files, reference_.form, reference_.repository));
    if (!selection.index_file.empty()) TRY(FetchIndex(selection));
    TRY(LookAtAll(selection.files));
    TRY(ReportPlan());
    TRY(DownloadAll());
    TRY(cache_.WriteRef(reference_.revision, listing_.commit));
    return Outcome(selection);
  }

  Result<PulledModel> Offline() {
    const auto commit = cache_.ReadRef(reference_.revision);
    if (!commit) {
      return Error(ErrorCode::kNotFound,
                   "'" + reference_.repository + "' (" + reference_.revision +
                       ") was not downloaded into '" + settings_.cache.string() +
                       "' before, and weft was told to stay offline (--offline or "
                       "HF_HUB_OFFLINE).");
    }
    listing_.commit = *commit;
    listing_.files = cache_.SnapshotFiles(*commit);
    const std::string context =
        "While using only what was downloaded to '" + cache_.SnapshotPath(*commit).string() + "'";
    ASSIGN_OR_RETURN(Selection selection,
                     SelectFiles(listing_.files, reference_.form, reference_.repository)
                         .Context(std::string(context)));
    if (!selection.index_file.empty()) {
      const auto added = AddFilesOfIndex(selection);
      if (!added.ok()) return Error(added.error()).Context(std::string(context));
    }
    for (const std::string& name : selection.files) {
      std::error_code failure;
      done_bytes_ +=
          static_cast<int64_t>(fs::file_size(cache_.SnapshotPath(*commit) / name, failure));
    }
    total_bytes_ = static_cast<uint64_t>(done_bytes_.load());
    return Outcome(selection);
  }

 private:
  using Work = std::function<Status(RegistryClient&, size_t)>;

  // Runs work(client, 0 .. count - 1) on a few threads; reports from this one. The first error
  // stops the others.
  Status InParallel(size_t count, const Work& work) {
    std::atomic<size_t> next = 0;
    size_t running = std::min(count, ThreadCount());
    std::optional<Error> first_error;
    std::condition_variable changed;
    const auto loop = [&] {
      RegistryClient client(settings_, stop_);
      for (size_t i; !stop_ && (i = next++) < count;) {
        const Status done = work(client, i);
        if (done.ok()) continue;
        const std::lock_guard lock(mutex_);
        if (!first_error) first_error = done.error();
        stop_ = true;
      }
      const std::lock_guard lock(mutex_);
      --running;
      changed.notify_all();
    };
    std::vector<std::thread> threads;
    for (size_t i = running; i > 0; --i) threads.emplace_back(loop);
    std::unique_lock lock(mutex_);
    while (running > 0) {
      changed.wait_for(lock, kTick);
      if (cancelled_) stop_ = true;
      lock.unlock();
      Report();
      lock.lock();
    }
    lock.unlock();
    for (std::thread& thread : threads) thread.join();
    Report();
    if (cancelled_) {
      return Error(ErrorCode::kCancelled,
                   "Stopped. What was downloaded is kept: run the command again to go on.");
    }
    if (first_error) return *first_error;
    return OkStatus();
  }

  void Report() {
    std::vector<std::string> notes;
    {
      const std::lock_guard lock(mutex_);
      notes.swap(notes_);
    }
    for (const std::string& note : notes) {
      if (callbacks_.on_note) callbacks_.on_note(note);
    }
    if (callbacks_.on_progress && total_bytes_ > 0) {
      const auto done = static_cast<uint64_t>(std::max<int64_t>(0, done_bytes_));
      callbacks_.on_progress({std::min(done, total_bytes_), total_bytes_, fresh_bytes_});
    }
  }

  Patience MakePatience(int attempts) {
    return Patience(attempts, settings_.first_backoff, stop_, [this](const std::string& note) {
      const std::lock_guard lock(mutex_);
      notes_.push_back(note);
    });
  }

  Status List(RegistryClient& client) {
    Patience patience = MakePatience(kAskAttempts);
    while (const auto failure =
               client.List(reference_.repository, reference_.revision, &listing_)) {
      if (!patience.TryAgain(*failure)) return failure->error;
    }
    return OkStatus();
  }

  Status Look(RegistryClient& client, const std::string& name, RemoteFile* file) {
    Patience patience = MakePatience(kAskAttempts);
    while (const auto failure = client.Look(reference_.repository, listing_.commit, name, file)) {
      if (!patience.TryAgain(*failure)) return failure->error;
    }
    return OkStatus();
  }

  Status Download(RegistryClient& client, const RemoteFile& file) {
    const DownloadJob job{settings_,
                          cache_,
                          reference_.repository,
                          listing_.commit,
                          file,
                          stop_,
                          [this](int64_t bytes, bool fresh) {
                            done_bytes_ += bytes;
                            if (fresh) fresh_bytes_ += static_cast<uint64_t>(bytes);
                          },
                          [this] { return MakePatience(kDownloadAttempts); },
                          ConnectionsPerFile()};
    TRY(DownloadFile(client, job));
    return cache_.Link(listing_.commit, file.name, file.content);
  }

  // Large files share the connections: one alone gets all of them.
  size_t ConnectionsPerFile() const {
    size_t large = 0;
    for (const RemoteFile& file : files_) {
      const bool is_there = cache_.HasBlob(file.content, file.byte_count);
      if (file.byte_count >= settings_.split_bytes && !is_there) ++large;
    }
    return settings_.connections / std::clamp<size_t>(large, 1, ThreadCount());
  }

  size_t ThreadCount() const { return std::min(kThreadCount, settings_.connections); }

  // The index comes before everything else: it says which files there are.
  Status FetchIndex(Selection& selection) {
    const Status fetched = InParallel(1, [&](RegistryClient& client, size_t) -> Status {
      RemoteFile index;
      TRY(Look(client, selection.index_file, &index));
      if (index.byte_count > kMaxIndexBytes) {
        return Error(ErrorCode::kInvalidData, selection.index_file + " has " +
                                                  HumanBytes(index.byte_count) + "; at most " +
                                                  HumanBytes(kMaxIndexBytes) + " are read.");
      }
      return Download(client, index);
    });
    if (!fetched.ok()) return fetched.error();
    return AddFilesOfIndex(selection);
  }

  // From the index in the snapshot.
  Status AddFilesOfIndex(Selection& selection) {
    ASSIGN_OR_RETURN(
        const std::string index,
        ReadTextFile(cache_.SnapshotPath(listing_.commit) / selection.index_file, kMaxIndexBytes));
    ASSIGN_OR_RETURN(const auto files, FilesOfIndex(index, listing_.files));
    selection.files.push_back(selection.index_file);
    selection.files.insert(selection.files.end(), files.begin(), files.end());
    return OkStatus();
  }

  Status LookAtAll(const std::vector<std::string>& names) {
    files_.resize(names.size());
    TRY(InParallel(names.size(), [&](RegistryClient& client, size_t i) {
      return Look(client, names[i], &files_[i]);
    }));
    std::stable_sort(files_.begin(), files_.end(), [](const RemoteFile& a, const RemoteFile& b) {
      return a.byte_count < b.byte_count;  // what is wrong with small files shows at once
    });
    return OkStatus();
  }

  // What is to come, and whether the disk can hold it.
  Status ReportPlan() {
    PullSummary summary;
    summary.commit = listing_.commit;
    summary.file_count = files_.size();
    for (const RemoteFile& file : files_) {
      const auto total = CheckedAdd(summary.total_bytes, file.byte_count);
      if (!total) {
        return Error(ErrorCode::kInvalidData, "The registry says that '" + file.name + "' has " +
                                                  std::to_string(file.byte_count) +
                                                  " bytes, which no disk can hold.");
      }
      summary.total_bytes = *total;
      if (cache_.HasBlob(file.content, file.byte_count)) continue;
      summary.missing_bytes +=
          file.byte_count -
          std::min(file.byte_count, cache_.IncompleteBytes(file.content, file.byte_count));
    }
    ASSIGN_OR_RETURN(const uint64_t free_bytes, FreeBytesAt(settings_.cache));
    const uint64_t usable_bytes = free_bytes - std::min(free_bytes, kSpareBytes);
    if (summary.missing_bytes > 0 && summary.missing_bytes > usable_bytes) {
      return Error(ErrorCode::kIo,
                   "The download needs " + HumanBytes(summary.missing_bytes) + " in '" +
                       settings_.cache.string() + "', where " + HumanBytes(free_bytes) +
                       " are free. Make room, or name another folder in HF_HUB_CACHE.");
    }
    if (callbacks_.on_summary) TRY(callbacks_.on_summary(summary));
    done_bytes_ = 0;
    fresh_bytes_ = 0;
    total_bytes_ = summary.total_bytes;
    return OkStatus();
  }

  Status DownloadAll() {
    return InParallel(files_.size(), [&](RegistryClient& client, size_t i) {
      return Download(client, files_[i]);
    });
  }

  PulledModel Outcome(const Selection& selection) const {
    PulledModel model;
    model.commit = listing_.commit;
    model.folder = cache_.SnapshotPath(listing_.commit);
    model.source =
        selection.model_file.empty() ? model.folder : model.folder / selection.model_file;
    model.quantisation = selection.quantisation;
    model.files = selection.files;
    model.total_bytes = total_bytes_;
    model.fresh_bytes = fresh_bytes_;
    return model;
  }

  const RegistrySettings& settings_;
  const ModelReference& reference_;
  const PullCallbacks& callbacks_;
  const std::atomic<bool>& cancelled_;  // the caller's
  const RegistryCache cache_;
  std::atomic<bool> stop_ = false;  // ours: cancelled, or something failed
  RepositoryListing listing_;
  std::vector<RemoteFile> files_;
  uint64_t total_bytes_ = 0;
  std::atomic<int64_t> done_bytes_ = 0;
  std::atomic<uint64_t> fresh_bytes_ = 0;
  std::mutex mutex_;  // notes_, and the errors of InParallel
  std::vector<std::string> notes_;
};

}  // namespace

Result<PulledModel> Pull(const RegistrySettings& settings, const ModelReference& reference,
                         const PullCallbacks& callbacks, const std::atomic<bool>& cancelled) {
  Puller puller(settings, reference, callbacks, cancelled);
  return settings.offline ? puller.Offline() : puller.Online();
}

}  // namespace weft::registry
