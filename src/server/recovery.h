// Recovery stands between a server and its journal. At start it tells what an earlier one has left,
// then it notes what a later one will need.
//
// Some records must be on the disk before anybody relies on them, and are synced. Those are secrets
// before they are printed, and placements soon after they change (a lost one costs loading).
// Requests are not synced. Their records are written at once and survive a killed process. A record
// lost in a power cut costs another seed. All of it happens on a thread of its own, in order: the
// loop waits for no disk.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/task_queue.h"
#include "journal/journal.h"
#include "swarm/options.h"

namespace weft::server {

class Recovery {
 public:
  struct Options {
    std::filesystem::path path;
    Sha256Digest package_digest{};
    bool keep_prompts = false;
  };
  // Opens the journal, with the errors of journal::Journal::Open.
  static Result<std::unique_ptr<Recovery>> Open(const Options& options);
  // Waits until what was noted is written.
  ~Recovery();
  Recovery(const Recovery&) = delete;
  Recovery& operator=(const Recovery&) = delete;

  // Tells whether it could be written at start. What was in it is known in any case.
  const Status& status() const { return status_at_start_; }
  // Gives the journal's contents at start.
  const journal::Contents& found() const { return found_; }
  // Gives what a core with these options takes up, or nullopt: there is nothing, or nobody holds it
  // any more.
  std::optional<swarm::Placement> PlacementFor(const swarm::CoreOptions& core) const;
  // Gives the lifetimes of devices that were known at any earlier start, whatever it served.
  std::vector<swarm::PlacedLifetime> Lifetimes() const;
  // Gives the popularity of this package's experts, as any earlier start has seen it.
  std::vector<swarm::PlacedPopularity> Popularity() const;
  bool keeps_prompts() const { return keep_prompts_; }

  // Notes secrets, and waits for the disk.
  Status NoteSecrets(const journal::pb::Secrets& secrets);
  // Notes that somebody was let in by the secret with this hash.
  void NoteUse(const std::string& hash_hex);
  // Notes the placement, and its popularity, which is synced no more than requests are.
  void NotePlacement(const swarm::Placement& placement, const swarm::CoreOptions& core);
  // Notes a record of requests.
  void Note(journal::pb::Record record);
  // Waits until what was noted would survive this process.
  void Flush();
  // Is told that the server stops: what ends from now on ends because of that, and is not noted.
  void NoteStop();

 private:
  Recovery(const Options& options, std::unique_ptr<journal::Journal> journal);

  void Append(const journal::pb::Record& record, journal::Durability durability);
  void WritePlacement();

  void NotePopularity(const std::vector<swarm::PlacedPopularity>& popularity);

  const bool keep_prompts_;
  const std::string package_digest_;
  const std::unique_ptr<journal::Journal> journal_;  // the thread's, after Open
  const journal::Contents found_;
  const Status status_at_start_;
  const std::optional<int64_t> stopped_at_s_;
  bool stopped_ = false;
  std::vector<journal::pb::Secrets> secrets_;  // whose first use is not known yet
  std::string last_placement_, last_popularity_;
  std::mutex mutex_;
  std::optional<journal::pb::Record> placement_;  // to be written: the latest; under mutex_
  // Last: it uses what stands above.
  TaskQueue thread_;
};

}  // namespace weft::server
