// A download of one file is given these, and has this patience with busy servers. The file comes in
// one piece (file_download.h) or in ranges (range_download.h).
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "registry/registry_cache.h"
#include "registry/registry_client.h"

namespace weft::registry {

// Repeats what fails in a way that may pass. One thread at a time may use it.
class Patience {
 public:
  using OnNote = std::function<void(const std::string&)>;
  // Gives up after `attempts` failures in a row.
  Patience(int attempts, Duration first_pause, const std::atomic<bool>& cancelled, OnNote note)
      : attempts_(attempts),
        first_pause_(first_pause),
        cancelled_(cancelled),
        note_(std::move(note)) {}

  // Tells whether to try again, after a pause (the registry's Retry-After, when it gave one).
  bool TryAgain(const Failure& failure);
  void Note(const std::string& sentence) const {
    if (note_) note_(sentence);
  }
  // Counts failures from the beginning again, since something worked.
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
  // Is told from any thread how many bytes came, and whether from the network. A negative number
  // was thrown away and comes again.
  std::function<void(int64_t bytes, bool fresh)> on_bytes;
  // Makes a new Patience for every connection.
  std::function<Patience()> make_patience;
  size_t connections = 1;  // for a file of settings.split_bytes or more
};

// Gives the error kCancelled with its sentence.
Error Stopped();

}  // namespace weft::registry
