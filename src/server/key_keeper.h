// KeyKeeper: between a server's table of named keys and where they are kept (store/key_store.h): a
// file of the user's, or the database of a cluster. It looks for changes of others twice a second,
// writes usage every ten seconds, and makes and ends keys. All of it happens on a thread of its
// own, in order: the loop waits for no disk and no database.
//
// A file or database that cannot be read leaves the table as it was, with a line in the log. A file
// that is gone leaves no keys; it is made with the first key.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/task_queue.h"
#include "net/loop.h"
#include "server/key_table.h"
#include "store/key_store.h"

namespace weft::server {

class KeyKeeper {
 public:
  struct Options {
    std::filesystem::path path;                    // "": there are no keys, and none can be made
    std::string model;                             // that is served
    int looks_per_write = 20;                      // usage is written with every so many
    std::unique_ptr<store::KeyStore> shared = {};  // counts instead of the file
  };
  // Reads the file, where there is one, or the store that is shared. Errors: store::Store::Open's,
  // and those of the store.
  static Result<std::unique_ptr<KeyKeeper>> Open(net::EventLoop& loop, Options options);
  // With an empty table whatever is at the path.
  static std::unique_ptr<KeyKeeper> WithoutFile(net::EventLoop& loop, const std::string& model);
  // What was used is written.
  ~KeyKeeper();
  KeyKeeper(const KeyKeeper&) = delete;
  KeyKeeper& operator=(const KeyKeeper&) = delete;

  KeyTable& table() { return table_; }
  // Called on the loop when the table has other keys than before.
  void OnChanged(std::function<void()> callback) { on_changed_ = std::move(callback); }
  // Begins to look and to write. `server`: under which name usage is counted.
  void Start(const std::string& server);

  // Both call back on the loop, when the table has it. Errors: store::Store's, and kUnsupported
  // without a file.
  using OnKey = std::function<void(Result<store::Key>)>;
  void Add(const store::NewKey& key, const std::string& hash, OnKey on_key);
  void End(const std::string& name, OnKey on_key);

 private:
  // What the file has.
  struct Contents {
    std::vector<store::Key> keys;
    std::map<int64_t, store::Usage> today;
    int64_t day_ms = 0;
  };
  // What the thread found: `contents` when something is new.
  struct Found {
    std::optional<Contents> contents;
    bool is_written = true;
    std::optional<store::OthersLoads> others = {};
  };
  class Disk;

  KeyKeeper(net::EventLoop& loop, Options options);

  void Look();
  void Apply(Found found);
  void NoteOthers(const Found& found);
  void Change(std::function<Result<store::Key>(store::KeyStore&)> change, OnKey on_key);

  net::EventLoop& loop_;
  KeyTable table_;
  const bool has_store_;
  const bool shares_limits_;
  const std::unique_ptr<Disk> disk_;  // the thread's, after Open
  Instant heard_others_ = MonotonicNow();
  const int looks_per_write_;
  std::function<void()> on_changed_;
  net::EventLoop::Timer timer_;
  int looks_ = 0;  // since usage was written
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  // Last: it uses what stands above.
  TaskQueue thread_;
};

}  // namespace weft::server
