// ResponseStore: responses of the Responses API that can be asked for and gone on from. They stay
// in memory for an hour, as many as there is room for, and the oldest go first. Each belongs to
// those who share a salt (net::HttpRequest::salt). Any thread.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

namespace weft::server {

struct StoredResponse {
  std::string id, salt;
  int64_t created_s = 0;         // Unix time
  boost::json::object response;  // as it was answered
  boost::json::array input;      // items of its request
  boost::json::array items;      // of the whole conversation, its own input and output included
};

class ResponseStore {
 public:
  struct Limits {
    size_t count = 1000;
    size_t bytes = size_t{256} << 20;  // of their JSON
    int64_t age_s = 3600;
  };
  ResponseStore() : ResponseStore(Limits()) {}
  explicit ResponseStore(const Limits& limits) : limits_(limits) {}

  void Keep(StoredResponse response);
  // nullopt: there is none, or it is another's.
  std::optional<StoredResponse> Find(const std::string& salt, const std::string& id,
                                     int64_t now_s) const;
  // An item of the input or output of a response.
  std::optional<boost::json::object> FindItem(const std::string& salt, const std::string& id,
                                              int64_t now_s) const;
  // Whether there was one.
  bool Forget(const std::string& salt, const std::string& id, int64_t now_s);

 private:
  struct Entry {
    StoredResponse stored;
    size_t bytes = 0;
  };
  bool IsAlive(const Entry& entry, int64_t now_s) const {
    return now_s - entry.stored.created_s < limits_.age_s;
  }
  const Entry* Get(const std::string& salt, const std::string& id, int64_t now_s) const;

  const Limits limits_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // the oldest first
  size_t bytes_ = 0;
};

}  // namespace weft::server
