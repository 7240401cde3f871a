#include "server/key_keeper.h"

#include <future>
#include <utility>

#include "base/log.h"
#include "store/store.h"

namespace weft::server {
namespace {

// Other servers that have not been heard for so long count no more.
constexpr Duration kOthersLimit = Seconds(5);

}  // namespace

// The file or the database, on the thread.
class KeyKeeper::Disk {
 public:
  Disk(std::filesystem::path path, std::string model, std::unique_ptr<store::KeyStore> shared)
      : path_(std::move(path)), model_(std::move(model)), store_(std::move(shared)) {}

  void SetServer(const std::string& server) { server_ = server; }

  // nullopt: nothing is new.
  Result<std::optional<Contents>> Read() {
    if (store_ && !store_->IsInPlace()) store_.reset();
    if (!store_) {
      auto opened = store::Store::Open(path_, store::OpenMode::kExisting, UnixNowMs());
      if (!opened.ok() && opened.error().code() == ErrorCode::kNotFound) return Gone();
      if (!opened.ok()) return opened.error();
      store_ = std::move(*opened);
      version_.reset();
    }
    ASSIGN_OR_RETURN(const int64_t version, store_->DataVersion());
    const int64_t day_ms = store::DayOf(UnixNowMs());
    if (version == version_ && day_ms == day_ms_ && !is_stale_) return std::optional<Contents>();
    // The version first: what is written meanwhile is found at the next look.
    Contents contents{{}, {}, day_ms};
    ASSIGN_OR_RETURN(contents.keys, store_->Keys());
    ASSIGN_OR_RETURN(contents.today, store_->UsageSince(day_ms));
    version_ = version;
    day_ms_ = day_ms;
    is_stale_ = false;
    return std::optional(std::move(contents));
  }

  Status Write(const std::vector<store::HourlyUsage>& rows) {
    if (rows.empty() || !store_) return OkStatus();
    is_stale_ = true;
    Status written = store_->AddUsage(rows, model_, server_, UnixNowMs());
    has_written_ = written.ok();
    return written;
  }
  // Whether the last that was to be written is there.
  bool has_written() const { return has_written_; }

  Result<store::Key> Change(const std::function<Result<store::Key>(store::KeyStore&)>& change) {
    if (store_ && !store_->IsInPlace()) store_.reset();
    if (!store_) {
      ASSIGN_OR_RETURN(store_, store::Store::Open(path_, store::OpenMode::kCreate, UnixNowMs()));
      version_.reset();
    }
    is_stale_ = true;
    return change(*store_);
  }

  // nullopt: others are not heard.
  std::optional<store::OthersLoads> Share(const std::vector<store::KeyLoad>& loads) {
    if (!store_) return std::nullopt;
    auto others = store_->ShareLoads(server_, loads);
    return others.ok() ? std::optional(*std::move(others)) : std::nullopt;
  }

  // Told once, not at every look.
  void Report(const Status& status) {
    const std::string problem = status.ok() ? "" : status.error().message();
    if (problem == problem_) return;
    problem_ = problem;
    if (!status.ok())
      LogError("{} Named keys stay as they were.", problem);
    else
      LogInfo("named keys can be read again");
  }

 private:
  // Without a file there are no keys.
  std::optional<Contents> Gone() {
    if (!std::exchange(version_, std::nullopt)) return std::nullopt;
    return Contents{};
  }

  const std::filesystem::path path_;
  const std::string model_;
  std::string server_;
  std::unique_ptr<store::KeyStore> store_;
  std::optional<int64_t> version_;  // of what was read last; nullopt: nothing was
  int64_t day_ms_ = 0;
  bool is_stale_ = false;  // this process has written since
  bool has_written_ = true;
  std::string problem_;
};

KeyKeeper::KeyKeeper(net::EventLoop& loop, Options options)
    : loop_(loop),
      table_(options.model),
      has_store_(options.shared || !options.path.empty()),
      shares_limits_(options.shared && options.shared->shares_limits()),
      disk_(std::make_unique<Disk>(options.path, options.model, std::move(options.shared))),
      looks_per_write_(options.looks_per_write),
      timer_(loop) {}

Result<std::unique_ptr<KeyKeeper>> KeyKeeper::Open(net::EventLoop& loop, Options options) {
  std::unique_ptr<KeyKeeper> keeper(new KeyKeeper(loop, std::move(options)));
  if (!keeper->has_store_) return keeper;
  ASSIGN_OR_RETURN(auto contents, keeper->disk_->Read());
  if (contents) keeper->Apply({std::move(contents)});
  return keeper;
}

std::unique_ptr<KeyKeeper> KeyKeeper::WithoutFile(net::EventLoop& loop, const std::string& model) {
  return std::unique_ptr<KeyKeeper>(new KeyKeeper(loop, {.path = {}, .model = model}));
}

KeyKeeper::~KeyKeeper() {
  std::promise<void> written;
  thread_.Push([&written] { written.set_value(); });
  written.get_future().wait();
  // Nothing is on its way to the disk any more, but the loop may not have heard of the last.
  table_.NoteWritten(disk_->has_written());
  const Status written_last = disk_->Write(table_.TakeUnwritten());
  if (!written_last.ok()) disk_->Report(written_last);
}

void KeyKeeper::Start(const std::string& server) {
  if (!has_store_) return;
  disk_->SetServer(server);
  timer_.FireAfter(store::kKeysLookInterval, [this] { Look(); });
}

void KeyKeeper::Look() {
  std::vector<store::HourlyUsage> rows;
  if (++looks_ >= looks_per_write_) {
    looks_ = 0;
    rows = table_.TakeUnwritten();
  }
  std::vector<store::KeyLoad> loads;
  if (shares_limits_) loads = table_.Loads();
  thread_.Push(
      [this, alive = std::weak_ptr(alive_), rows = std::move(rows), loads = std::move(loads)] {
        Status written = disk_->Write(rows);
        auto read = disk_->Read();
        disk_->Report(!written.ok() ? written : read.ok() ? OkStatus() : Status(read.error()));
        Found found{read.ok() ? std::move(*read) : std::nullopt, written.ok()};
        if (shares_limits_) found.others = disk_->Share(loads);
        loop_.Post([this, alive, found = std::move(found)]() mutable {
          if (alive.expired()) return;
          table_.NoteWritten(found.is_written);
          NoteOthers(found);
          Apply(std::move(found));
          timer_.FireAfter(store::kKeysLookInterval, [this] { Look(); });
        });
      });
}

void KeyKeeper::NoteOthers(const Found& found) {
  if (!shares_limits_) return;
  if (found.others) {
    heard_others_ = MonotonicNow();
    table_.NoteOthers(*found.others);
  } else if (MonotonicNow() - heard_others_ > kOthersLimit) {
    table_.CountAlone();
  }
}

void KeyKeeper::Apply(Found found) {
  if (!found.contents) return;
  table_.Replace(std::move(found.contents->keys), std::move(found.contents->today),
                 found.contents->day_ms);
  if (on_changed_) on_changed_();
}

void KeyKeeper::Add(const store::NewKey& key, const std::string& hash, OnKey on_key) {
  Change([key, hash](store::KeyStore& store) { return store.AddKey(key, hash, UnixNowMs()); },
         std::move(on_key));
}

void KeyKeeper::End(const std::string& name, OnKey on_key) {
  Change([name](store::KeyStore& store) { return store.EndKey(name, UnixNowMs()); },
         std::move(on_key));
}

void KeyKeeper::Change(std::function<Result<store::Key>(store::KeyStore&)> change, OnKey on_key) {
  if (!has_store_)
    return on_key(Error(ErrorCode::kUnsupported,
                        "This server keeps no keys: it has no state folder (XDG_STATE_HOME or "
                        "HOME), or was started with --keys off."));
  thread_.Push([this, alive = std::weak_ptr(alive_), change = std::move(change),
                on_key = std::move(on_key)] {
    auto changed = disk_->Change(change);
    auto read = disk_->Read();
    Found found{read.ok() ? std::move(*read) : std::nullopt};
    loop_.Post(
        [this, alive, on_key, changed = std::move(changed), found = std::move(found)]() mutable {
          if (alive.expired()) return;
          Apply(std::move(found));
          on_key(std::move(changed));
        });
  });
}

}  // namespace weft::server
