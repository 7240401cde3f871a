// DeviceId: which device a native worker is, for the orchestrator. The id is kept beside the cache,
// so a restarted worker is the same device. Workers at the same time on one cache are different
// ones.
#pragma once

#include <filesystem>
#include <string>

#include "base/descriptor.h"

namespace weft::apps {

class DeviceId {
 public:
  // The first id of `folder` (files "worker-id", "worker-id-2", ...) that no other process holds,
  // held until this is destroyed or the process ends. Where the folder cannot be used, a new id for
  // this time.
  explicit DeviceId(const std::filesystem::path& folder);

  const std::string& text() const { return text_; }  // 32 hex digits

 private:
  // False when another process holds the file, or it cannot be used.
  bool Take(const std::filesystem::path& file);

  std::string text_;
  Descriptor lock_;  // the file; closing it gives the lock back
};

}  // namespace weft::apps
