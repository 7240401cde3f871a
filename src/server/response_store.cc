#include "server/response_store.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <utility>

namespace weft::server {
namespace json = boost::json;

void ResponseStore::Keep(StoredResponse response) {
  Entry entry;
  entry.bytes = json::serialize(response.response).size() + json::serialize(response.items).size() +
                json::serialize(response.input).size();
  entry.stored = std::move(response);
  const int64_t now_s = entry.stored.created_s;
  const std::lock_guard lock(mutex_);
  bytes_ += entry.bytes;
  entries_.push_back(std::move(entry));
  while (!entries_.empty() && (entries_.size() > limits_.count || bytes_ > limits_.bytes ||
                               !IsAlive(entries_.front(), now_s))) {
    bytes_ -= entries_.front().bytes;
    entries_.pop_front();
  }
}

const ResponseStore::Entry* ResponseStore::Get(const std::string& salt, const std::string& id,
                                               int64_t now_s) const {
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.stored.id == id && entry.stored.salt == salt && IsAlive(entry, now_s);
  });
  return found == entries_.end() ? nullptr : &*found;
}

std::optional<StoredResponse> ResponseStore::Find(const std::string& salt, const std::string& id,
                                                  int64_t now_s) const {
  const std::lock_guard lock(mutex_);
  const Entry* entry = Get(salt, id, now_s);
  if (entry == nullptr) return std::nullopt;
  return entry->stored;
}

std::optional<json::object> ResponseStore::FindItem(const std::string& salt, const std::string& id,
                                                    int64_t now_s) const {
  const std::lock_guard lock(mutex_);
  // Most often one of the latest is meant.
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->stored.salt != salt || !IsAlive(*entry, now_s)) continue;
    for (const json::value& item : entry->stored.items)
      if (item.at("id").as_string() == id) return item.as_object();
  }
  return std::nullopt;
}

bool ResponseStore::Forget(const std::string& salt, const std::string& id, int64_t now_s) {
  const std::lock_guard lock(mutex_);
  if (Get(salt, id, now_s) == nullptr) return false;
  std::erase_if(entries_, [&](const Entry& entry) {
    if (entry.stored.id != id || entry.stored.salt != salt) return false;
    bytes_ -= entry.bytes;
    return true;
  });
  return true;
}

}  // namespace weft::server
