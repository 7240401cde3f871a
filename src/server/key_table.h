// KeyTable: a server's named API keys in memory, by hash. It has what is left of each, and the
// usage that the file does not have yet. No files and no threads (key_keeper.h); times are given.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/api_error.h"
#include "base/clock.h"
#include "base/unix_time.h"
#include "net/http.h"
#include "store/key.h"
#include "store/key_store.h"
#include "store/usage.h"

namespace weft::server {

// As whom the requests of a key are counted (net::HttpRequest::client), and back; 0: another
// client.
std::string ClientOfKey(int64_t key);
int64_t KeyOfClient(std::string_view client);

struct KeyClocks {
  std::function<int64_t()> unix_ms = UnixNowMs;  // of ends and days
  std::function<Instant()> now = MonotonicNow;   // of minutes
};

class KeyTable {
 public:
  // `model`: the one that is served, where there is one alone.
  explicit KeyTable(std::string model, KeyClocks clocks = {})
      : model_(std::move(model)), clocks_(std::move(clocks)) {}

  // All keys as the file has them, and what it has of the day that begins then. What was used of
  // keys that stay counts on.
  void Replace(std::vector<store::Key> keys, std::map<int64_t, store::Usage> today, int64_t day_ms);
  const std::vector<store::Key>& keys() const { return keys_; }
  int64_t now_ms() const { return clocks_.unix_ms(); }

  // The key with this hash (HashSecret), ended ones too; nullptr: none ever was. In a time that
  // tells nothing: who asks cannot choose hashes.
  const store::Key* Find(const std::string& hash) const;
  // Whether there is one, which is good now and has that role.
  bool IsGood(const std::string& hash, store::Role role) const;
  // Why it is not good any more (401); nullopt: it is.
  std::optional<api::ApiError> FindEnd(const store::Key& key) const;

  // One of the requests that a key may have at once, for as long as it lives.
  class Place {
   public:
    Place(std::shared_ptr<std::map<int64_t, uint32_t>> under_way, int64_t key);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    const std::shared_ptr<std::map<int64_t, uint32_t>> under_way_;
    const int64_t key_;
  };
  struct Admission {
    std::optional<api::ApiError> refusal;  // 403: not this model. 429: beyond a limit
    int64_t retry_after_s = 0;             // of a refusal; 0: that does not help
    net::Headers headers;                  // x-ratelimit-...-requests, where there is such a limit
    std::unique_ptr<Place> place;          // nullptr: refused
  };
  // A request that wants something computed. One that is let in counts. `model`: the one that it
  // asks; "": the one that is served.
  Admission Admit(const store::Key& key, const std::string& model = "");

  // Of a request whose client was ClientOfKey(key); of no key that is known: not counted.
  void Count(int64_t key, uint32_t prompt_tokens, uint32_t cached_tokens, uint32_t generated_tokens,
             const std::string& model = "");
  // Since the day began in UTC, what is not in the file yet included.
  store::Usage TodayOf(int64_t key) const;

  // What the file is to be given. REQUIRES: the call before was followed by NoteWritten.
  std::vector<store::HourlyUsage> TakeUnwritten();
  // What was taken is in the file, or is to be taken again.
  void NoteWritten(bool is_written);

  // What this server uses now of the limits of its keys; keys without use are left out.
  std::vector<store::KeyLoad> Loads();
  // What the other servers of a cluster use of them counts, too.
  void NoteOthers(const store::OthersLoads& others);
  // The others have not been heard for a while: each limit is divided by as many servers as there
  // were, but one request is always let in.
  void CountAlone();

  // Of all keys with that role since the start.
  const store::Usage& UsageOf(store::Role role) const {
    return by_role_[static_cast<size_t>(role)];
  }
  // Keys that are good now.
  size_t LiveCount(store::Role role) const;

 private:
  // By when they begin, and the model.
  using Hours = std::map<std::pair<int64_t, std::string>, store::Usage>;
  struct Refusal {
    api::ApiError error;
    int64_t retry_after_s = 0;
  };

  void Add(const store::Key& key, const store::Usage& usage, const std::string& model);
  const store::Key* OfId(int64_t key) const;
  std::optional<Refusal> FindLimit(const store::Key& key, const std::deque<Instant>& minute) const;
  net::Headers MinuteHeaders(const store::Key& key, const std::deque<Instant>& minute) const;
  std::deque<Instant>& MinuteOf(const store::Key& key);
  // Of this server, as long as the others are heard or not.
  uint32_t ShareOf(uint32_t limit) const;
  store::KeyLoad OthersOf(const store::Key& key) const;

  const std::string model_;
  const KeyClocks clocks_;
  std::vector<store::Key> keys_;
  std::unordered_map<std::string, size_t> by_hash_;  // in keys_
  std::unordered_map<int64_t, size_t> by_id_;
  int64_t day_ms_ = 0;
  std::map<int64_t, store::Usage> today_;           // by key, as the file has it of that day
  std::map<int64_t, Hours> unwritten_, writing_;    // by key
  std::map<int64_t, std::deque<Instant>> minutes_;  // by key: requests of the last 60 s
  std::map<int64_t, store::KeyLoad> others_;        // by key: what other servers use
  uint32_t server_count_ = 1;                       // that run, as was told last
  bool counts_alone_ = false;
  std::array<store::Usage, store::kRoleCount> by_role_;
  const std::shared_ptr<std::map<int64_t, uint32_t>> under_way_ =
      std::make_shared<std::map<int64_t, uint32_t>>();
};

}  // namespace weft::server
