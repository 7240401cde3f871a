#include "registry/range_download.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace weft::registry {
namespace {

class RangeDownload {
 public:
  RangeDownload(const DownloadJob& job, RangeFile& file) : job_(job), file_(file) {}

  std::optional<Error> Run() {
    std::vector<std::thread> threads;
    for (size_t i = 1; i < job_.connections; ++i) threads.emplace_back([this] { Connection(); });
    Connection();
    for (std::thread& thread : threads) thread.join();
    if (job_.cancelled) return Stopped();
    return error_;
  }

 private:
  // One range after the other, for as long as there are some and nothing failed.
  void Connection() {
    RegistryClient client(job_.settings, job_.cancelled);
    Patience patience = job_.make_patience();
    while (!IsOver()) {
      const auto range = file_.Take();
      if (!range) return;
      while (!IsOver() && !IsWhole(*range)) {
        const auto failure = Fetch(client, *range, patience);
        if (failure && !IsOver() && !patience.TryAgain(*failure)) Fail(failure->error);
      }
      file_.GiveBack(*range);
    }
  }

  // Asks for what is missing of a range, once.
  std::optional<Failure> Fetch(RegistryClient& client, size_t range, Patience& patience) {
    std::optional<Error> refused;
    const ByteRange missing = file_.Missing(range);
    const auto on_start = [&](uint64_t start) -> Status {
      if (start == missing.first) return OkStatus();
      refused = Error(ErrorCode::kUnsupported, "The registry does not serve parts of files.");
      return *refused;
    };
    const auto on_data = [&](ByteSpan bytes) {
      const ByteRange rest = file_.Missing(range);
      const ByteSpan wanted = bytes.first(std::min<size_t>(bytes.size(), rest.end - rest.first));
      const Status written = file_.Append(range, wanted);
      if (!written.ok()) {
        refused = written.error();
        return false;
      }
      patience.Progressed();
      job_.on_bytes(static_cast<int64_t>(wanted.size()), true);
      // A server that sends more than it was asked for is not listened to.
      return wanted.size() == bytes.size() && !IsOver();
    };
    auto outcome =
        client.Fetch(job_.repository, job_.commit, job_.file, missing, on_start, on_data);
    if (refused) return Failure{*refused};
    if (IsWhole(range)) return {};
    if (outcome) return outcome;
    const ByteRange rest = file_.Missing(range);
    return Failure{Error(ErrorCode::kIo,
                         "The registry was asked for bytes " + std::to_string(missing.first) +
                             " to " + std::to_string(missing.end - 1) + " of '" + job_.file.name +
                             "' and stopped at " + std::to_string(rest.first) + "."),
                   true};
  }

  bool IsWhole(size_t range) const {
    const ByteRange missing = file_.Missing(range);
    return missing.first == missing.end;
  }
  bool IsOver() const { return failed_ || job_.cancelled; }

  void Fail(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    failed_ = true;
  }

  const DownloadJob& job_;
  RangeFile& file_;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;  // error_
  std::optional<Error> error_;
};

}  // namespace

std::optional<Error> DownloadRanges(const DownloadJob& job, RangeFile& file) {
  return RangeDownload(job, file).Run();
}

}  // namespace weft::registry
