// Recovery: between a server and its journal. At start it tells what an earlier one has left, then
// it notes what a later one will need.
//
// Some records must be on the disk before anybody relies on them, and are synced: secrets before
// they are printed, placements soon after they change (a lost one costs loading). Requests are not
// synced. Their records are written at once and survive a killed process. A record lost in a power
// cut costs another seed. All of it happens on a thread of its own, in order: the loop waits for no
// disk.
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
  // Errors: journal::Journal::Open's.
  static Result<std::unique_ptr<Recovery>> Open(const Options& options);
  // What was noted is written.
  ~Recovery();
  Recovery(const Recovery&) = delete;
  Recovery& operator=(const Recovery&) = delete;

  // Not ok: it could not be written at start; what was in it is known.
  const Status& status() const { return status_at_start_; }
  // As the journal was at start.
  const journal::Contents& found() const { return found_; }
  // What a core with these options takes up; nullopt: nothing, or nobody holds it any more.
  std::optional<swarm::Placement> PlacementFor(const swarm::CoreOptions& core) const;
  // Of devices that were known at any earlier start, whatever it served.
  std::vector<swarm::PlacedLifetime> Lifetimes() const;
  // Of the experts of this package, as any earlier start has seen it.
  std::vector<swarm::PlacedPopularity> Popularity() const;
  bool keeps_prompts() const { return keep_prompts_; }

  // Waits for the disk.
  Status NoteSecrets(const journal::pb::Secrets& secrets);
  // Somebody was let in by the secret with this hash.
  void NoteUse(const std::string& hash_hex);
  // And its popularity, which is synced no more than requests are.
  void NotePlacement(const swarm::Placement& placement, const swarm::CoreOptions& core);
  // Of requests.
  void Note(journal::pb::Record record);
  // Waits until what was noted would survive this process.
  void Flush();
  // The server is told to stop: what ends from now on ends because of that, and is not noted.
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
