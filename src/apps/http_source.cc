#include "apps/http_source.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/environment.h"
#include "base/log.h"
#include "package/blob_store.h"

namespace weft::apps {
namespace {

// A download that breaks off is tried again from where it stopped this many times, waiting a little
// longer each time.
constexpr int kAttempts = 6;
// Bytes that do not match what the manifest says: a line changes none, so once more is enough to
// know that the server has no others.
constexpr int kAttemptsDamaged = 2;
constexpr Duration kFirstPause = Milliseconds(250);
constexpr Duration kProbeTime = Milliseconds(1500);

class HttpSource : public worker::PackageSource {
 public:
  HttpSource(HttpSourceOptions options, std::unique_ptr<package::BlobStore> cache)
      : options_(std::move(options)), cache_(std::move(cache)) {}

  Result<package::Manifest> FetchManifest(const package::Digest& digest) override {
    Result<package::Manifest> manifest = Error(ErrorCode::kUnavailable, "No server is known.");
    for (const ServerAddress& server : options_.servers->InOrder()) {
      manifest = FetchManifest(server, digest);
      if (manifest.ok()) break;
    }
    return manifest;
  }

  bool Has(const package::Digest& blob) override { return cache_->Contains(blob); }

  Status Fetch(const package::Digest& blob, const package::BlobInfo& info,
               const std::function<void(uint64_t)>& on_progress,
               const std::atomic<bool>& cancel) override {
    if (cache_->Contains(blob)) {
      // Here rather than where layers are read; a damaged one is moved away and fetched again.
      const auto held = cache_->Get(blob, info);
      if (held.ok()) return OkStatus();
      if (held.error().code() != ErrorCode::kInvalidData) return held.error();
      LogWarn("{}", held.error().message());
    }
    // The one that gave something last is asked on; after a failure the next one is.
    std::vector<ServerAddress> servers = options_.servers->InOrder();
    Duration pause = kFirstPause;
    for (int attempt = 1;; ++attempt) {
      bool cache_failed = false;
      Status fetched =
          FetchRest(ClientOf(servers[0]), blob, info, on_progress, cancel, cache_failed);
      if (fetched.ok() || cancel) return fetched;
      const ErrorCode code = fetched.error().code();
      if (cache_failed) return CacheProblem(fetched.error());
      if (code == ErrorCode::kInvalidData && attempt == kAttemptsDamaged)
        return Error(code, fetched.error().message() +
                               " It came so twice: the package on the server is damaged.");
      const bool are_all_asked = attempt >= static_cast<int>(servers.size());
      const bool is_final = attempt >= kAttempts || code == ErrorCode::kPermissionDenied ||
                            code == ErrorCode::kNotFound;
      if (is_final && are_all_asked) return fetched;
      std::rotate(servers.begin(), servers.begin() + 1, servers.end());
      if (!are_all_asked) continue;
      const Instant next = MonotonicNow() + pause;
      while (MonotonicNow() < next && !cancel)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      pause = pause * 2;
    }
  }

  Result<Slice> Read(const package::Digest& blob, const package::BlobInfo& info) override {
    return cache_->Get(blob, info);
  }

  double MeasureDownload(uint64_t byte_count) override {
    uint64_t got_bytes = 0;
    const Instant begin = MonotonicNow();
    net::HttpCall call = Get("/probe?bytes=" + std::to_string(byte_count));
    const auto reply = ClientOf(options_.servers->current()).Call(call, [&](ByteSpan data) {
      got_bytes += data.size();
      return MonotonicNow() - begin < kProbeTime;  // a slow link is not held up for long
    });
    const double seconds = (MonotonicNow() - begin).seconds();
    return seconds > 0 ? static_cast<double>(got_bytes) / seconds : 0;
  }

 private:
  Result<package::Manifest> FetchManifest(const ServerAddress& server,
                                          const package::Digest& digest) {
    ASSIGN_OR_RETURN(const net::HttpReply reply,
                     ClientOf(server).Call(Get("/package/weft.json?package=" + digest.ToHex())));
    TRY(CheckStatus(reply, "the manifest"));
    if (package::Digest::Of(AsBytes(reply.body)) != digest) {
      return Error(ErrorCode::kInvalidData,
                   "The manifest that the server sent does not have the digest it announced.");
    }
    return package::ParseManifest(AsBytes(reply.body));
  }

  // Keeps its connection open for the next call.
  net::HttpClient& ClientOf(const ServerAddress& server) {
    const auto key = std::pair(server.url.Authority(), server.tls.pinned_fingerprint);
    return clients_.try_emplace(key, server.url, server.tls).first->second;
  }

  net::HttpCall Get(std::string path) const {
    net::HttpCall call;
    call.path = std::move(path);
    if (!options_.join_token.empty()) {
      call.headers.emplace_back("Authorization", "Bearer " + options_.join_token);
    }
    return call;
  }

  static Status CheckStatus(const net::HttpReply& reply, const std::string& what) {
    if (reply.status == 200 || reply.status == 206) return OkStatus();
    const ErrorCode code = reply.status == 401 || reply.status == 403 ? ErrorCode::kPermissionDenied
                           : reply.status == 404                      ? ErrorCode::kNotFound
                                                                      : ErrorCode::kUnavailable;
    return Error(code, "The server answered " + std::to_string(reply.status) + " for " + what +
                           ": " + reply.body.substr(0, 300));
  }

  // A full disk, say, or a folder that cannot be written: asking again changes nothing of it.
  Error CacheProblem(const Error& error) const {
    return Error(error.code(), "The cache of this device fails: " + error.message() +
                                   " Make room there, or choose another folder with --cache.");
  }

  // Continues a blob after its last verified chunk. `cache_failed`: not the line, not the server.
  Status FetchRest(net::HttpClient& client, const package::Digest& blob,
                   const package::BlobInfo& info, const std::function<void(uint64_t)>& on_progress,
                   const std::atomic<bool>& cancel, bool& cache_failed) {
    const auto held = cache_->ResumeOffset(blob, info);
    cache_failed = !held.ok();
    ASSIGN_OR_RETURN(const uint64_t offset, held);
    net::HttpCall call = Get("/package/blobs/" + blob.ToHex());
    call.cancelled = &cancel;
    if (offset > 0) call.headers.emplace_back("Range", "bytes=" + std::to_string(offset) + "-");
    std::vector<uint8_t> chunk;
    uint64_t index = offset / package::kChunkBytes;
    uint64_t position = offset;
    Status stored = OkStatus();
    const auto take = [&](ByteSpan data) {
      on_progress(data.size());
      while (!data.empty() && stored.ok()) {
        const uint64_t chunk_bytes = std::min<uint64_t>(
            package::kChunkBytes, info.byte_count - index * package::kChunkBytes);
        const size_t take_bytes = std::min<size_t>(data.size(), chunk_bytes - chunk.size());
        if (position + take_bytes > info.byte_count || take_bytes == 0) {
          stored = Error(ErrorCode::kInvalidData, "Blob " + blob.ToHex() + " is longer than the " +
                                                      std::to_string(info.byte_count) +
                                                      " bytes of the manifest.");
          break;
        }
        chunk.insert(chunk.end(), data.begin(), data.begin() + static_cast<ptrdiff_t>(take_bytes));
        data = data.subspan(take_bytes);
        position += take_bytes;
        if (chunk.size() == chunk_bytes) {
          stored = cache_->AppendChunk(blob, info, index++, chunk);
          // Of bytes that do not match the server is to blame.
          cache_failed = !stored.ok() && stored.error().code() != ErrorCode::kInvalidData;
          chunk.clear();
        }
      }
      return stored.ok() && !cancel;
    };
    const auto reply = client.Call(call, take);
    TRY(std::move(stored));
    if (cancel) return Error(ErrorCode::kCancelled, "The download was cancelled.");
    TRY(reply);
    TRY(CheckStatus(*reply, "blob " + blob.ToHex()));
    if (offset > 0 && reply->status != 206) {
      return Error(ErrorCode::kInvalidData,
                   "The server ignored the range of blob " + blob.ToHex() + ".");
    }
    if (!cache_->Contains(blob)) {
      return Error(ErrorCode::kUnavailable, "Blob " + blob.ToHex() + " ended after " +
                                                std::to_string(position) + " of " +
                                                std::to_string(info.byte_count) + " bytes.");
    }
    return OkStatus();
  }

  const HttpSourceOptions options_;
  // Download thread only. By address and certificate.
  std::map<std::pair<std::string, std::string>, net::HttpClient> clients_;
  std::unique_ptr<package::BlobStore> cache_;
};

}  // namespace

Result<std::shared_ptr<worker::PackageSource>> MakeHttpSource(const HttpSourceOptions& options) {
  ASSIGN_OR_RETURN(auto cache, package::BlobStore::Open(options.cache_folder / "blobs"));
  if (options.verify) cache->Distrust();
  return std::shared_ptr<worker::PackageSource>(
      std::make_shared<HttpSource>(options, std::move(cache)));
}

std::filesystem::path DefaultCacheFolder() {
  const std::filesystem::path base = BaseFolder(std::getenv, "XDG_CACHE_HOME", ".cache");
  return base.empty() ? std::filesystem::temp_directory_path() / "weft-cache" : base / "weft";
}

}  // namespace weft::apps
