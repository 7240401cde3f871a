// KeyStore: where named API keys and their usage are kept: a file of the user's (store.h), or the
// database of a cluster (shared_store/shared_keys.h). Calls wait for a disk or a network: never on
// an event loop. One thread at a time for each KeyStore.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "store/key.h"
#include "store/usage.h"

namespace weft::store {

// Of more keys that have not ended AddKey makes no other.
inline constexpr int64_t kMostKeys = 10'000;
// How often a server looks whether others have changed the keys.
inline constexpr Duration kKeysLookInterval = Milliseconds(500);
// Usage of longer ago is forgotten.
inline constexpr int64_t kUsageKeptMs = int64_t{400} * 24 * 3600 * 1000;

// What servers use at this moment of the limits of a key.
struct KeyLoad {
  int64_t key = 0;
  uint32_t last_minute = 0;  // requests
  uint32_t under_way = 0;    // requests
  bool operator==(const KeyLoad&) const = default;
};

// The loads of all other servers together.
struct OthersLoads {
  std::vector<KeyLoad> loads;
  uint32_t server_count = 1;  // that run, this one included
};

// Usage with the server that has counted it, as it is moved between stores.
struct KeptUsage {
  HourlyUsage row;
  std::string server;
};

class KeyStore {
 public:
  KeyStore() = default;
  KeyStore(const KeyStore&) = delete;
  KeyStore& operator=(const KeyStore&) = delete;
  virtual ~KeyStore() = default;

  // kInvalidArgument: CheckNewKey's. kAlreadyExists: a key has this name and has not ended.
  // kLimitExceeded: there are too many. `hash`: SHA-256 of the key in hex.
  virtual Result<Key> AddKey(const NewKey& key, const std::string& hash, int64_t now_ms) = 0;
  // The key with this name ends now. kNotFound: there is none that has not ended.
  virtual Result<Key> EndKey(const std::string& name, int64_t now_ms) = 0;
  // All that there ever were, those made first first.
  virtual Result<std::vector<Key>> Keys() = 0;

  // Adds these to what is known. `model`, where a row names none, and `server`: where it was used.
  virtual Status AddUsage(std::span<const HourlyUsage> rows, const std::string& model,
                          const std::string& server, int64_t now_ms) = 0;
  // By key, of hours that begin then or later.
  virtual Result<std::map<int64_t, Usage>> UsageSince(int64_t begin_ms) = 0;
  virtual Result<std::vector<KeptUsage>> AllUsage() = 0;

  // Another number than before when somebody else has written something since.
  virtual Result<int64_t> DataVersion() = 0;
  // Whether it is still the one that was opened.
  virtual bool IsInPlace() const = 0;

  // Tells the others what this server uses of limits, and gives what they use. Only servers of a
  // cluster share limits.
  virtual bool shares_limits() const { return false; }
  virtual Result<OthersLoads> ShareLoads(const std::string& /*server*/,
                                         std::span<const KeyLoad> /*loads*/) {
    return OthersLoads();
  }
};

// What stores have in common: how keys are found among all that there are.

// kAlreadyExists, kLimitExceeded: AddKey's.
Status CheckRoomFor(const NewKey& wanted, std::span<const Key> keys, int64_t now_ms);
// The key that EndKey ends. kNotFound.
Result<Key> FindToEnd(const std::string& name, std::span<const Key> keys);
// The names of models as one text, a line each, and back.
std::string JoinLines(const std::vector<std::string>& lines);
std::vector<std::string> SplitLines(std::string_view text);

}  // namespace weft::store
