// How far a download is, and when to say so. What the orchestrator hears never passes the total
// (it would not believe more), and the last word is the total.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace weft::worker {

class DownloadProgress {
 public:
  DownloadProgress(uint64_t total_bytes, Instant now) : total_bytes_(total_bytes), said_at_(now) {}

  uint64_t done_bytes() const { return done_bytes_; }
  uint64_t total_bytes() const { return total_bytes_; }

  // Bytes came in. After a connection that broke, some come twice.
  void Add(uint64_t byte_count) {
    done_bytes_ = std::min(total_bytes_, done_bytes_ + std::min(byte_count, total_bytes_));
  }
  // What is still missing, wherever the rest came from: an earlier download that was not finished
  // leaves less to fetch than a blob's length.
  void SetMissing(uint64_t missing_bytes) {
    done_bytes_ = total_bytes_ - std::min(missing_bytes, total_bytes_);
    complete_ = missing_bytes == 0;
  }

  // Whether it is time to report; the caller does. That everything is there is said once.
  bool IsDue(Instant now) {
    if (said_all_ || total_bytes_ == 0 || (!complete_ && now - said_at_ < kInterval)) return false;
    said_all_ = complete_;
    said_at_ = now;
    return true;
  }

 private:
  static constexpr Duration kInterval = Milliseconds(200);

  const uint64_t total_bytes_;
  uint64_t done_bytes_ = 0;
  Instant said_at_;
  bool complete_ = false, said_all_ = false;
};

}  // namespace weft::worker
