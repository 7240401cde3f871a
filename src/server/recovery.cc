#include "server/recovery.h"

#include <algorithm>
#include <future>
#include <utility>

#include "base/log.h"
#include "base/unix_time.h"
#include "server/placement_record.h"

namespace weft::server {
namespace {

using store::Durability;
using store::Records;

// What waits for a disk that is full takes no more memory than this.
constexpr size_t kMostWaitingBytes = 64 << 20;
// Of a write besides its tokens and messages.
constexpr size_t kWriteBytes = 256;

// Whether it may well succeed later, as a disk has room again.
bool IsOfTheDisk(ErrorCode code) {
  return code == ErrorCode::kIo || code == ErrorCode::kUnavailable ||
         code == ErrorCode::kPermissionDenied || code == ErrorCode::kInvalidData;
}

}  // namespace

Result<std::unique_ptr<Recovery>> Recovery::Open(net::EventLoop& loop, const Options& options) {
  ASSIGN_OR_RETURN(auto records, Records::Open(options.path, UnixNowMs()));
  if (!records->note().empty()) LogWarn("{}", records->note());
  ASSIGN_OR_RETURN(std::vector<store::StoredSecrets> secrets, records->Secrets());
  // Whatever is synced later takes it along.
  TRY(records->SetDurability(Durability::kProcess));
  ASSIGN_OR_RETURN(std::string seed_key, records->SeedKey());
  std::unique_ptr<Recovery> recovery(new Recovery(loop, options, std::move(records)));
  for (const store::StoredSecrets& each : secrets)
    if (!each.used) recovery->unused_.push_back(each);
  recovery->found_secrets_ = std::move(secrets);
  recovery->seed_key_ = std::move(seed_key);
  return recovery;
}

Recovery::Recovery(net::EventLoop& loop, const Options& options,
                   std::unique_ptr<store::Records> records)
    : loop_(loop),
      options_(options),
      records_(std::move(records)),
      status_at_start_(records_->status()) {}

Recovery::~Recovery() {
  thread_.Push([this] {
    retry_at_ = Instant();
    WriteAll();
  });
  Flush();
}

void Recovery::Push(Write write) {
  thread_.Push([this, write = std::move(write)]() mutable {
    waiting_bytes_ += write.byte_count;
    waiting_.push_back(std::move(write));
    if (is_failing_ && MonotonicNow() < retry_at_) return DropWhatIsTooMuch();
    WriteAll();
  });
}

// Answers do not depend on records: a failure is a matter for the log.
void Recovery::WriteAll() {
  while (!waiting_.empty()) {
    const Write& write = waiting_.front();
    Status status = records_->SetDurability(write.durability);
    if (status.ok()) status = write.operation(*records_);
    if (!status.ok() && IsOfTheDisk(status.error().code())) return NoteFailure(status.error());
    if (!status.ok()) LogWarn("{} It is left out.", status.error().message());
    waiting_bytes_ -= write.byte_count;
    waiting_.pop_front();
  }
  if (!std::exchange(is_failing_, false)) return;
  if (lost_count_ == 0)
    LogInfo("the journal can be written again, and lacks nothing");
  else
    LogWarn("the journal can be written again; {} records were given up", lost_count_);
  lost_count_ = 0;
}

void Recovery::NoteFailure(const Error& error) {
  retry_at_ = MonotonicNow() + options_.retry_interval;
  if (!std::exchange(is_failing_, true))
    LogError("{} Nothing is noted for a restart until it can be written.", error.message());
  DropWhatIsTooMuch();
}

// Tokens can be computed again. Then those go that have waited longest.
void Recovery::DropWhatIsTooMuch() {
  if (waiting_bytes_ <= kMostWaitingBytes) return;
  std::erase_if(waiting_, [this](const Write& write) {
    if (!write.are_tokens) return false;
    waiting_bytes_ -= write.byte_count;
    ++lost_count_;
    return true;
  });
  while (waiting_bytes_ > kMostWaitingBytes) {
    waiting_bytes_ -= waiting_.front().byte_count;
    waiting_.pop_front();
    ++lost_count_;
  }
}

Status Recovery::NoteSecrets(const store::StoredSecrets& secrets, bool only_key, bool only_token) {
  unused_.push_back(secrets);
  std::promise<Status> done;
  thread_.Push([&] {
    Status status = records_->SetDurability(Durability::kMachine);
    if (status.ok()) status = records_->AddSecrets(secrets, only_key, only_token);
    done.set_value(std::move(status));
  });
  return done.get_future().get();
}

void Recovery::NoteUse(const std::string& hash_hex) {
  if (stopped_ || unused_.empty()) return;
  const auto bytes = FromHex(hash_hex);
  if (!bytes) return;
  const std::string_view hash = AsText(*bytes);
  std::erase_if(unused_, [&](const store::StoredSecrets& each) {
    if (each.api_key != hash && each.join_token != hash) return false;
    Push({Durability::kMachine, kWriteBytes, false,
          [each](Records& records) { return records.MarkUsed(each); }});
    return true;
  });
}

Result<std::unique_ptr<CellRecovery>> Recovery::BeginCell(const Sha256Digest& package_digest) {
  const std::string digest(AsText(package_digest));
  std::promise<Result<store::FoundCell>> done;
  thread_.Push([&] {
    // An incarnation that a power cut takes is the clock's: the next one is higher all the same.
    const Status durable = records_->SetDurability(Durability::kProcess);
    if (!durable.ok())
      done.set_value(durable.error());
    else
      done.set_value(records_->BeginCell(digest, options_.keep_prompts, UnixNowMs()));
  });
  ASSIGN_OR_RETURN(store::FoundCell found, done.get_future().get());
  return std::make_unique<CellRecovery>(*this, digest, std::move(found));
}

void Recovery::Flush() {
  std::promise<void> done;
  thread_.Push([&done] { done.set_value(); });
  done.get_future().wait();
}

// ---- one cell ----

std::optional<swarm::Placement> CellRecovery::PlacementFor(const swarm::CoreOptions& core) const {
  if (!found_.placement) return std::nullopt;
  const auto kept_ms = static_cast<int64_t>(core.timeouts.resume_limit.us / 1000);
  if (found_.stopped_at_ms && UnixNowMs() > *found_.stopped_at_ms + kept_ms) return std::nullopt;
  return TakeUp(*found_.placement, core);
}

std::vector<swarm::PlacedLifetime> CellRecovery::Lifetimes() const {
  std::vector<swarm::PlacedLifetime> lifetimes;
  for (const store::pb::Lifetime& each : found_.lifetimes)
    lifetimes.push_back({each.device(), each.losses(), each.stayed_s()});
  return lifetimes;
}

std::vector<swarm::PlacedPopularity> CellRecovery::Popularity() const {
  if (!found_.popularity) return {};
  return FromRecord(*found_.popularity);
}

void CellRecovery::Note(size_t byte_count, Recovery::Operation operation, bool are_tokens) {
  if (stopped_ || recovery_.stopped()) return;
  recovery_.Push(
      {Durability::kProcess, kWriteBytes + byte_count, are_tokens, std::move(operation)});
}

void CellRecovery::NotePlacement(const swarm::Placement& placement,
                                 const swarm::CoreOptions& core) {
  if (stopped_ || recovery_.stopped()) return;
  NotePopularity(placement.popularity);
  store::pb::Placement record = ToRecord(placement, core);
  std::string bytes = record.SerializeAsString();
  if (bytes == last_placement_) return;
  last_placement_ = std::move(bytes);
  const std::lock_guard lock(latest_->mutex);
  const bool is_waiting = latest_->placement.has_value();
  latest_->placement = std::move(record);
  if (is_waiting) return;
  recovery_.Push({Durability::kMachine, kWriteBytes + last_placement_.size(), false,
                  [latest = latest_, cell = found_.cell](Records& records) {
                    std::unique_lock taken(latest->mutex);
                    auto next = std::exchange(latest->placement, std::nullopt);
                    taken.unlock();
                    if (!next) return OkStatus();
                    Status written = records.SetPlacement(cell, *next, UnixNowMs());
                    taken.lock();
                    if (!written.ok() && !latest->placement) latest->placement = std::move(next);
                    return written;
                  }});
}

void CellRecovery::NotePopularity(const std::vector<swarm::PlacedPopularity>& popularity) {
  if (popularity.empty()) return;
  store::pb::Popularity record = ToRecord(popularity, package_digest_);
  std::string bytes = record.SerializeAsString();
  if (bytes == last_popularity_) return;
  last_popularity_ = std::move(bytes);
  Note(last_popularity_.size(), [record = std::move(record)](Records& records) {
    return records.SetPopularity(record, UnixNowMs());
  });
}

void CellRecovery::NoteStop() {
  if (std::exchange(stopped_, true)) return;
  recovery_.Push({Durability::kProcess, kWriteBytes, false, [cell = found_.cell](Records& records) {
                    return records.StopCell(cell, UnixNowMs());
                  }});
}

// Reading is in order with what was noted. While the disk refuses to be written, what waits is not
// found: it ran or ended in this process, and its seed comes from its digest all the same.
void CellRecovery::FindRequest(const std::string& key, Found then) {
  recovery_.thread_.Push([&recovery = recovery_, key, alive = std::weak_ptr(alive_),
                          then = std::move(then)]() mutable {
    auto found = recovery.records_->FindRequest(key, UnixNowMs());
    std::optional<store::KnownRequest> known;
    if (found.ok())
      known = std::move(*found);
    else
      LogWarn("{}", found.error().message());
    recovery.loop_.Post([alive, known = std::move(known), then = std::move(then)]() mutable {
      if (!alive.expired()) then(std::move(known));
    });
  });
}

void CellRecovery::NoteBegun(store::KeyedRequest request) {
  const size_t byte_count =
      request.request ? static_cast<size_t>(request.request->ByteSizeLong()) : 0;
  Note(byte_count, [cell = found_.cell, request = std::move(request)](Records& records) {
    return records.BeginRequest(cell, request);
  });
}

void CellRecovery::NoteTokens(const std::string& key, uint32_t first,
                              std::vector<int32_t> token_ids) {
  const size_t byte_count = token_ids.size() * sizeof(int32_t);
  Note(
      byte_count,
      [key, first, token_ids = std::move(token_ids)](Records& records) {
        return records.AddTokens(key, first, token_ids);
      },
      /*are_tokens=*/true);
}

void CellRecovery::NoteSession(const std::string& key, const store::StoredSession& session) {
  Note(sizeof(session),
       [key, session](Records& records) { return records.SetSession(key, session); });
}

void CellRecovery::NoteEnded(const std::string& key, uint32_t generated_tokens) {
  Note(0, [key, generated_tokens](Records& records) {
    return records.EndRequest(key, generated_tokens, UnixNowMs());
  });
}

void CellRecovery::NoteKept(store::StoredPrefix prefix) {
  const size_t byte_count = prefix.token_ids.size() * sizeof(int32_t);
  Note(byte_count, [cell = found_.cell, prefix = std::move(prefix)](Records& records) {
    return records.KeepPrefix(cell, prefix);
  });
}

void CellRecovery::NoteForgotten(const std::string& salt, const std::string& name) {
  Note(0, [cell = found_.cell, salt, name](Records& records) {
    return records.ForgetPrefix(cell, salt, name);
  });
}

}  // namespace weft::server
