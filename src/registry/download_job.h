// What a download of one file is given, and its patience with busy servers: for a file in one piece
// (file_download.h) and in ranges (range_download.h).
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "registry/registry_cache.h"
#include "registry/registry_client.h"

namespace weft::registry {

// Repeats what fails in a way that may pass. Not thread-safe.
class Patience {
 public:
  using OnNote = std::function<void(const std::string&)>;
  // Gives up after `attempts` failures in a row.
  Patience(int attempts, Duration first_pause, const std::atomic<bool>& cancelled, OnNote note)
      : attempts_(attempts),
        first_pause_(first_pause),
        cancelled_(cancelled),
        note_(std::move(note)) {}

  // True after a pause (the registry's Retry-After, when it gave one): try again. False: give up.
  bool TryAgain(const Failure& failure);
  void Note(const std::string& sentence) const {
    if (note_) note_(sentence);
  }
  // Something worked: counts from the beginning.
  void Progressed() { failures_ = 0; }

 private:
  void Sleep(Duration pause) const;

  const int attempts_;
  const Duration first_pause_;
  const std::atomic<bool>& cancelled_;
  const OnNote note_;
  int failures_ = 0;
};

struct DownloadJob {
  const RegistrySettings& settings;
  const RegistryCache& cache;
  const std::string& repository;
  const std::string& commit;
  const RemoteFile& file;
  const std::atomic<bool>& cancelled;
  // How many bytes came (negative: were thrown away and come again), and whether from the network.
  // From any thread.
  std::function<void(int64_t bytes, bool fresh)> on_bytes;
  // A new one for every connection.
  std::function<Patience()> make_patience;
  size_t connections = 1;  // for a file of settings.split_bytes or more
};

// kCancelled, in words.
Error Stopped();

}  // namespace weft::registry
