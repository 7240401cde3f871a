#include "registry/file_download.h"

#include "registry/blob_file.h"
#include "registry/range_download.h"

namespace weft::registry {
namespace {

// Asks for what is missing, once. nullopt: the connection brought everything.
std::optional<Failure> FetchRest(RegistryClient& client, const DownloadJob& job, BlobFile& blob,
                                 Patience& patience) {
  std::optional<Error> failure;
  const auto on_start = [&](uint64_t start) -> Status {
    if (start == blob.byte_count()) return OkStatus();
    job.on_bytes(-static_cast<int64_t>(blob.byte_count()), false);  // the server has no ranges
    return blob.Clear();
  };
  const auto on_data = [&](ByteSpan bytes) {
    const Status written = blob.Append(bytes);
    if (!written.ok()) {
      failure = written.error();
      return false;
    }
    patience.Progressed();
    job.on_bytes(static_cast<int64_t>(bytes.size()), true);
    return !job.cancelled.load();
  };
  auto outcome = client.Fetch(job.repository, job.commit, job.file,
                              {blob.byte_count(), job.file.byte_count}, on_start, on_data);
  if (failure) return Failure{*failure};
  if (outcome) return outcome;
  if (!blob.IsWhole()) {
    return Failure{
        Error(ErrorCode::kIo, "The registry said that '" + job.file.name + "' has " +
                                  std::to_string(job.file.byte_count) + " bytes and sent " +
                                  std::to_string(blob.byte_count()) + "."),
        true};
  }
  return {};
}

}  // namespace

namespace {

// Bytes of an earlier run may have been damaged by a crash: if the hash is wrong with them, the
// file is downloaded once more without them.
Status OverOneConnection(RegistryClient& client, const DownloadJob& job) {
  ASSIGN_OR_RETURN(BlobFile blob, BlobFile::Open(job.cache, job.file));
  Patience patience = job.make_patience();
  bool has_old_bytes = blob.byte_count() > 0;
  job.on_bytes(static_cast<int64_t>(blob.byte_count()), false);
  while (true) {
    if (!blob.IsWhole()) {
      const auto failure = FetchRest(client, job, blob, patience);
      if (job.cancelled) return Stopped();
      if (failure && !patience.TryAgain(*failure)) {
        return job.cancelled ? Stopped() : failure->error;
      }
      if (failure) continue;
    }
    Status published = blob.Publish();
    if (published.ok() || !has_old_bytes) return published;
    has_old_bytes = false;
    job.on_bytes(-static_cast<int64_t>(blob.byte_count()), false);
    TRY(blob.Reopen());
  }
}

// The same with ranges. kUnsupported, and nothing is left, when the server has none.
Status OverManyConnections(const DownloadJob& job) {
  for (bool again = true;; again = false) {
    ASSIGN_OR_RETURN(RangeFile file,
                     RangeFile::Open(job.cache, job.file, job.settings.range_bytes));
    const uint64_t old_bytes = file.DoneBytes();
    job.on_bytes(static_cast<int64_t>(old_bytes), false);
    if (const auto error = DownloadRanges(job, file)) {
      if (error->code() == ErrorCode::kUnsupported) {
        job.on_bytes(-static_cast<int64_t>(file.DoneBytes()), false);
        file.Remove();
      }
      return *error;
    }
    Status published = file.Publish();
    if (published.ok() || old_bytes == 0 || !again) return published;
    job.on_bytes(-static_cast<int64_t>(job.file.byte_count), false);
  }
}

}  // namespace

Status DownloadFile(RegistryClient& client, const DownloadJob& job) {
  const auto is_there = [&] {
    if (!job.cache.HasBlob(job.file.content, job.file.byte_count)) return false;
    job.on_bytes(static_cast<int64_t>(job.file.byte_count), false);
    return true;
  };
  if (is_there()) return OkStatus();
  ASSIGN_OR_RETURN(const BlobLock lock,
                   BlobLock::Take(job.cache, job.file.content, job.cancelled, [&] {
                     job.make_patience().Note("Another process is downloading '" + job.file.name +
                                              "'; waiting for it.");
                   }));
  if (is_there()) return OkStatus();  // another process finished it
  if (job.connections > 1 && job.file.byte_count >= job.settings.split_bytes) {
    Status done = OverManyConnections(job);
    if (done.ok() || done.error().code() != ErrorCode::kUnsupported) return done;
  }
  return OverOneConnection(client, job);
}

}  // namespace weft::registry
