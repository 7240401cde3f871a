// SharedKeys: the API keys and join tokens of a cluster, their usage and what is left of their
// limits, in the database that its servers share. So a key that one server has made or ended is so
// at all, as soon as they look.
//
// Nothing in it lets anybody in: of keys and tokens there are hashes alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/loop.h"
#include "postgres/connection.h"
#include "store/key_store.h"

namespace weft::shared_store {

// A connection and a loop that runs while a call waits for its answer, so each call comes back
// within three seconds. kUnavailable: the database is away; the next call tries it again.
class SharedKeys : public store::KeyStore {
 public:
  // `connection` is on `loop`.
  SharedKeys(std::unique_ptr<net::EventLoop> loop, std::unique_ptr<postgres::Connection> connection)
      : loop_(std::move(loop)), connection_(std::move(connection)) {}

  Result<store::Key> AddKey(const store::NewKey& key, const std::string& hash,
                            int64_t now_ms) override;
  Result<store::Key> EndKey(const std::string& name, int64_t now_ms) override;
  Result<std::vector<store::Key>> Keys() override;
  Status AddUsage(std::span<const store::HourlyUsage> rows, const std::string& model,
                  const std::string& server, int64_t now_ms) override;
  Result<std::map<int64_t, store::Usage>> UsageSince(int64_t begin_ms) override;
  Result<std::vector<store::KeptUsage>> AllUsage() override;
  Result<int64_t> DataVersion() override;
  bool IsInPlace() const override { return true; }
  bool shares_limits() const override { return true; }
  Result<store::OthersLoads> ShareLoads(const std::string& server,
                                        std::span<const store::KeyLoad> loads) override;

  // Takes over keys of another store with their usage, under numbers of their own; gives how many.
  // Those that are here already, with the same hash, stay as they are. kAlreadyExists: another key
  // has the name of one, and neither has ended; then nothing is taken over.
  Result<int64_t> TakeOver(std::span<const store::Key> keys,
                           std::span<const store::KeptUsage> usage);

 private:
  Result<postgres::Answer> Ask(const std::string& sql, std::vector<postgres::Value> values);
  void AwaitLine();

  const std::unique_ptr<net::EventLoop> loop_;
  const std::unique_ptr<postgres::Connection> connection_;
};

}  // namespace weft::shared_store
