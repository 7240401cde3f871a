#include "server/recovery.h"

#include <algorithm>
#include <ctime>
#include <future>
#include <utility>

#include "base/log.h"
#include "server/placement_record.h"

namespace weft::server {

using journal::Durability;

Result<std::unique_ptr<Recovery>> Recovery::Open(const Options& options) {
  journal::OpenOptions open;
  open.path = options.path;
  open.package_digest = std::string(AsText(options.package_digest));
  open.keep_prompts = options.keep_prompts;
  open.now_s = std::time(nullptr);
  ASSIGN_OR_RETURN(auto journal, journal::Journal::Open(open));
  if (!journal->note().empty()) LogWarn("{}", journal->note());
  return std::unique_ptr<Recovery>(new Recovery(options, std::move(journal)));
}

Recovery::Recovery(const Options& options, std::unique_ptr<journal::Journal> journal)
    : keep_prompts_(options.keep_prompts),
      package_digest_(AsText(options.package_digest)),
      journal_(std::move(journal)),
      found_(journal_->contents()),
      status_at_start_(journal_->status()),
      stopped_at_s_(journal_->stopped_at_s()) {
  for (const journal::pb::Secrets& secrets : found_.secrets())
    if (!secrets.used()) secrets_.push_back(secrets);
}

Recovery::~Recovery() {
  std::promise<void> written;
  thread_.Push([&written] { written.set_value(); });
  written.get_future().wait();
}

std::optional<swarm::Placement> Recovery::PlacementFor(const swarm::CoreOptions& core) const {
  const auto& record = found_.placement();
  if (!record) return std::nullopt;
  // Memory was planned for so many positions and marks of so many sessions.
  if (record->context_length() != core.context_length ||
      record->session_count() != core.session_count ||
      (core.model.is_recurrent() && record->marks() != core.marks)) {
    return std::nullopt;
  }
  const auto kept_s = static_cast<int64_t>(core.timeouts.resume_limit.seconds());
  if (stopped_at_s_ && std::time(nullptr) > *stopped_at_s_ + kept_s) return std::nullopt;
  swarm::Placement placement = FromRecord(*record);
  const Status status =
      swarm::CheckPlacement(placement, static_cast<uint32_t>(core.model.layers.size()));
  if (status.ok()) return placement;
  LogWarn("the journal's placement is not used: {}", status.error().message());
  return std::nullopt;
}

std::vector<swarm::PlacedLifetime> Recovery::Lifetimes() const {
  const auto& record = found_.placement();
  return record ? FromRecord(*record).lifetimes : std::vector<swarm::PlacedLifetime>{};
}

std::vector<swarm::PlacedPopularity> Recovery::Popularity() const {
  for (const journal::pb::Popularity& each : found_.popularities())
    if (each.package_digest() == package_digest_) return FromRecord(each);
  return {};
}

// A journal that fails is a matter for the log: answers do not depend on it.
void Recovery::Append(const journal::pb::Record& record, Durability durability) {
  const bool was_ok = journal_->status().ok();
  const Status appended = journal_->Append(record, durability);
  const Status& status = journal_->status();
  if (was_ok && !status.ok())
    LogError("{} Nothing is noted for a restart until it can be written.",
             status.error().message());
  else if (!was_ok && status.ok())
    LogInfo("the journal can be written again, and lacks nothing");
  else if (status.ok() && !appended.ok())
    LogWarn("{} It is left out.", appended.error().message());
}

Status Recovery::NoteSecrets(const journal::pb::Secrets& secrets) {
  secrets_.push_back(secrets);
  std::promise<Status> done;
  thread_.Push([this, &done, secrets] {
    journal::pb::Record record;
    *record.mutable_secrets() = secrets;
    done.set_value(journal_->Append(record, Durability::kMachine));
  });
  return done.get_future().get();
}

void Recovery::NoteUse(const std::string& hash_hex) {
  if (stopped_ || secrets_.empty()) return;
  const auto bytes = FromHex(hash_hex);
  if (!bytes) return;
  const std::string_view hash = AsText(*bytes);
  std::erase_if(secrets_, [&](const journal::pb::Secrets& each) {
    if (each.api_key() != hash && each.join_token() != hash) return false;
    journal::pb::Record record;
    *record.mutable_secrets() = each;
    record.mutable_secrets()->set_used(true);
    record.mutable_secrets()->clear_only_key();
    record.mutable_secrets()->clear_only_token();
    thread_.Push([this, record] { Append(record, Durability::kMachine); });
    return true;
  });
}

void Recovery::NotePlacement(const swarm::Placement& placement, const swarm::CoreOptions& core) {
  if (stopped_) return;
  NotePopularity(placement.popularity);
  journal::pb::Record record;
  *record.mutable_placement() = ToRecord(placement);
  record.mutable_placement()->set_context_length(core.context_length);
  record.mutable_placement()->set_session_count(core.session_count);
  record.mutable_placement()->set_marks(core.marks);
  std::string bytes = record.SerializeAsString();
  if (bytes == last_placement_) return;
  last_placement_ = std::move(bytes);
  const std::lock_guard lock(mutex_);
  const bool is_waiting = placement_.has_value();
  placement_ = std::move(record);
  if (!is_waiting) thread_.Push([this] { WritePlacement(); });
}

void Recovery::NotePopularity(const std::vector<swarm::PlacedPopularity>& popularity) {
  if (popularity.empty()) return;
  journal::pb::Record record;
  *record.mutable_popularity() = ToRecord(popularity, package_digest_);
  std::string bytes = record.SerializeAsString();
  if (bytes == last_popularity_) return;
  last_popularity_ = std::move(bytes);
  Note(std::move(record));
}

// Those that came while the disk was busy count as one.
void Recovery::WritePlacement() {
  std::optional<journal::pb::Record> latest;
  {
    const std::lock_guard lock(mutex_);
    latest = std::exchange(placement_, std::nullopt);
  }
  if (latest) Append(*latest, Durability::kMachine);
}

void Recovery::Note(journal::pb::Record record) {
  if (stopped_) return;
  thread_.Push([this, record = std::move(record)] { Append(record, Durability::kProcess); });
}

void Recovery::Flush() {
  std::promise<void> done;
  thread_.Push([&done] { done.set_value(); });
  done.get_future().wait();
}

void Recovery::NoteStop() {
  if (std::exchange(stopped_, true)) return;
  journal::pb::Record record;
  record.mutable_stop()->set_at_s(std::time(nullptr));
  thread_.Push([this, record] { Append(record, Durability::kProcess); });
}

}  // namespace weft::server
