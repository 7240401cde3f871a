// A named API key says who may do what, how much of it and until when. Here is what is kept of it,
// never the key itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::store {

// All times are milliseconds since 1970, UTC.

enum class Role {
  kUser,     // the API and the chat
  kAdmin,    // everything
  kMetrics,  // /metrics alone
  kHelper,   // a join token: what a device needs that helps
};
inline constexpr size_t kRoleCount = 4;

// Gives the role's name: "user", "admin", "metrics" or "helper".
std::string_view RoleName(Role role);
// Reads such a name. kInvalidArgument names those that there are.
Result<Role> ParseRole(std::string_view text);

// Each limit is nullopt where there is none.
struct KeyLimits {
  std::optional<uint32_t> per_minute;      // requests in any 60 s
  std::optional<uint64_t> tokens_per_day;  // of a day in UTC: computed of prompts, and generated
  std::optional<uint32_t> at_once;         // requests that have not ended
  bool operator==(const KeyLimits&) const = default;
};

inline constexpr uint32_t kMostPerMinute = 100'000, kMostAtOnce = 100'000;
inline constexpr uint64_t kMostTokensPerDay = 1'000'000'000'000;

// What somebody wants a key for.
struct NewKey {
  std::string name;
  Role role = Role::kUser;
  std::vector<std::string> models;  // that it is for; empty: all
  KeyLimits limits;
  std::optional<int64_t> expires_ms;

  bool IsExpired(int64_t now_ms) const { return expires_ms && *expires_ms <= now_ms; }
};

struct Key : NewKey {
  int64_t id = 0;    // never given again
  std::string hash;  // SHA-256 of the key in hex
  int64_t created_ms = 0;
  std::optional<int64_t> ended_ms;
};

// Checks what is wanted. kInvalidArgument: a name that is not 1 to 64 letters, digits, '.', '_' or
// '-', a limit out of its range, an unknown model, or a time that is over.
Status CheckNewKey(const NewKey& key, int64_t now_ms);

// Reads a time. "2027-06-30" (to the end of that day), "2027-06-30T18:00" and
// "2027-06-30T18:00:00Z" are UTC. "30m", "8h", "90d" and "2w" count from now. kInvalidArgument:
// none of these, a time that is over, or one in more than a hundred years.
Result<int64_t> ParseExpiry(std::string_view text, int64_t now_ms);

// Writes a time as "2027-06-30T18:00:00Z".
std::string TimeText(int64_t time_ms);

// Makes a new key: "weft-" and 128 random bits in hex.
std::string MakeApiKey();

}  // namespace weft::store
