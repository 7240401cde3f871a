// Recovery stands between a server and its records (store/records.h). At start it tells what an
// earlier server has left, then it notes what a later one will need. Each cell has its own part.
//
//   Recovery          the file, its thread, the secrets of starts
//   CellRecovery      placement, popularity, requests and prefixes of one model
//
// Some records must be on the disk before anybody relies on them, and are synced. Those are secrets
// before they are printed, and placements soon after they change (a lost one costs loading).
// Requests are not synced. Their records are written at once and survive a killed process. All of
// it happens on a thread of its own, in order: the loop waits for no disk.
//
// What cannot be written, on a full disk, waits in memory. It is written in order as soon as that
// is possible.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/sha256.h"
#include "base/task_queue.h"
#include "net/loop.h"
#include "server/cell_records.h"
#include "store/records.h"
#include "swarm/options.h"

namespace weft::server {

class CellRecovery;

class Recovery {
 public:
  struct Options {
    std::filesystem::path path;  // "": in memory, so that only this process knows it
    bool keep_prompts = false;
    Duration retry_interval = Seconds(10);  // between attempts to write what could not be written
  };
  // Opens the records, with the errors of store::Records::Open. `loop` outlives this.
  static Result<std::unique_ptr<Recovery>> Open(net::EventLoop& loop, const Options& options);
  // Waits until what was noted is written, or cannot be. The cells' parts end before it.
  ~Recovery();
  Recovery(const Recovery&) = delete;
  Recovery& operator=(const Recovery&) = delete;

  // Tells whether it could be written at start. What was in it is known in any case.
  const Status& status() const { return status_at_start_; }
  // Gives the secrets of earlier starts that are let in, the latest last.
  const std::vector<store::StoredSecrets>& secrets() const { return found_secrets_; }
  // Of the seeds of keyed requests: the same after a restart (RequestLedger).
  const std::string& seed_key() const { return seed_key_; }
  bool keeps_prompts() const { return options_.keep_prompts; }

  // Notes secrets, and waits for the disk. Arguments: store::Records::AddSecrets.
  Status NoteSecrets(const store::StoredSecrets& secrets, bool only_key, bool only_token);
  // Notes that somebody was let in by the secret with this hash.
  void NoteUse(const std::string& hash_hex);
  // Begins a start of the cell that serves this package, and waits until that is written.
  Result<std::unique_ptr<CellRecovery>> BeginCell(const Sha256Digest& package_digest);
  // Waits until what was noted would survive this process.
  void Flush();
  // Is told that the server stops: what ends from now on ends because of that, and is not noted.
  void NoteStop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

 private:
  friend class CellRecovery;
  using Operation = std::function<Status(store::Records&)>;
  struct Write {
    store::Durability durability;
    size_t byte_count;  // that it holds, about
    bool are_tokens;    // what is given up first
    Operation operation;
  };
  Recovery(net::EventLoop& loop, const Options& options, std::unique_ptr<store::Records> records);

  void Push(Write write);
  // All below on the thread.
  void WriteAll();
  void DropWhatIsTooMuch();
  void NoteFailure(const Error& error);

  net::EventLoop& loop_;
  const Options options_;
  const std::unique_ptr<store::Records> records_;  // the thread's, after Open
  const Status status_at_start_;
  std::vector<store::StoredSecrets> found_secrets_;
  std::string seed_key_;
  std::vector<store::StoredSecrets> unused_;  // whose first use is not known yet
  bool stopped_ = false;
  // The thread's:
  std::deque<Write> waiting_;
  size_t waiting_bytes_ = 0;
  uint64_t lost_count_ = 0;  // of writes that were given up since the last failure
  bool is_failing_ = false;
  Instant retry_at_;
  // Last: it uses what stands above.
  TaskQueue thread_;
};

class CellRecovery : public CellRecords {
 public:
  CellRecovery(Recovery& recovery, std::string package_digest, store::FoundCell found)
      : recovery_(recovery), package_digest_(std::move(package_digest)), found_(std::move(found)) {}

  // Gives what earlier starts have left.
  const store::FoundCell& found() const { return found_; }
  // Gives what a core with these options takes up, or nullopt: there is nothing, or nobody holds it
  // any more.
  std::optional<swarm::Placement> PlacementFor(const swarm::CoreOptions& core) const;
  // Gives the lifetimes of devices that were known at any earlier start, whatever it served.
  std::vector<swarm::PlacedLifetime> Lifetimes() const;
  // Gives the popularity of this package's experts, as any earlier start has seen it.
  std::vector<swarm::PlacedPopularity> Popularity() const;
  bool keeps_prompts() const { return recovery_.keeps_prompts(); }
  const std::string& seed_key() const { return recovery_.seed_key(); }

  // Notes the placement, and its popularity, which is synced no more than requests are.
  void NotePlacement(const swarm::Placement& placement, const swarm::CoreOptions& core);
  // Is told that the cell stops, and was not killed.
  void NoteStop();

  void FindRequest(const std::string& key, Found then) override;
  void NoteBegun(store::KeyedRequest request) override;
  void NoteTokens(const std::string& key, uint32_t first, std::vector<int32_t> token_ids) override;
  void NoteEnded(const std::string& key, uint32_t generated_tokens) override;
  void NoteKept(store::StoredPrefix prefix) override;
  void NoteForgotten(const std::string& salt, const std::string& name) override;
  void Flush() override { recovery_.Flush(); }

 private:
  // The latest placement is to be written: those that came while the disk was busy count as one.
  struct LatestPlacement {
    std::mutex mutex;
    std::optional<store::pb::Placement> placement;
  };

  void NotePopularity(const std::vector<swarm::PlacedPopularity>& popularity);
  // Notes what need not be synced.
  void Note(size_t byte_count, Recovery::Operation operation, bool are_tokens = false);

  Recovery& recovery_;
  const std::string package_digest_;
  const store::FoundCell found_;
  const std::shared_ptr<LatestPlacement> latest_ = std::make_shared<LatestPlacement>();
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::string last_placement_, last_popularity_;
  bool stopped_ = false;
};

}  // namespace weft::server
