// KeptPrefixes: beginnings of conversations that are kept by name (swarm::Request::keep), each for
// those who share its salt. The core keeps what was computed; here is what was asked for, so that a
// restart asks for it again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/openai_request.h"
#include "net/loop.h"
#include "server/cell_records.h"
#include "server/generator.h"

namespace weft::server {

class KeptPrefixes {
 public:
  // All of them outlive this.
  KeptPrefixes(Generator& generator, net::EventLoop& loop, CellRecords& records)
      : generator_(generator), records_(records), timer_(loop) {}

  struct Prefix {
    std::string salt, name;
    std::vector<int32_t> token_ids;
    int64_t asked_at_s = 0;  // Unix time
    bool is_kept = false;    // it is being computed until then
  };
  // Called once, with why it is not kept or with nothing.
  using Done = std::function<void(std::optional<api::ApiError>)>;
  // `client`: whose turn it takes. Takes the place of what has the name; the same tokens again are
  // no work. A refusal may be told before this returns.
  void Keep(Prefix prefix, const std::string& client, Done done);
  // The same for a client that would like it (`prompt_cache_key`), with a name that is made of its
  // key: so many of all clients, of which the one that was asked for the longest time ago makes
  // room. Where the core has none left nothing is kept.
  void KeepWhileRoom(const std::string& key, Prefix prefix, const std::string& client);
  void set_most_cached(size_t count) { most_cached_ = count; }
  // Whether there was one.
  bool Forget(const std::string& salt, const std::string& name);
  std::vector<Prefix> Of(const std::string& salt) const;

  // What an earlier start kept is asked for again, until it is there. Of salts that are not among
  // `salts` nobody could use any: their prefixes get the last one.
  void Restore(const std::vector<store::StoredPrefix>& found,
               const std::vector<std::string>& salts);

 private:
  struct Entry {
    Prefix prefix;
    swarm::RequestId request;  // that computes it
    bool is_restored = false;
    uint64_t asked_last = 0;  // of KeepWhileRoom: greater for later ones
    std::vector<Done> waiting;
  };
  Entry* Find(const std::string& salt, const std::string& name);
  void MakeRoomForCached();
  void Submit(uint64_t number, const std::string& client);
  void OnFinish(uint64_t number, const swarm::FinishRequest& end);
  void TryAgain();
  void Drop(Entry& entry);

  Generator& generator_;
  CellRecords& records_;
  std::map<uint64_t, Entry> entries_;  // by number, in the order in which they came
  uint64_t next_number_ = 1;
  uint64_t asked_last_ = 0;
  size_t most_cached_ = 0;
  net::EventLoop::Timer timer_;
};

}  // namespace weft::server
