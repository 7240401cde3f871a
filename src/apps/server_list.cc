#include "apps/server_list.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "wire/elsewhere.h"

namespace weft::apps {
namespace {

// Of an address, in characters: names have 253 at most.
constexpr size_t kLongestUrl = 300;

bool IsSame(const net::Url& one, const net::Url& other) {
  return one.tls == other.tls && one.Authority() == other.Authority();
}

}  // namespace

Result<std::vector<ServerAddress>> ParseServers(const std::vector<std::string>& urls,
                                                const std::vector<std::string>& fingerprints,
                                                bool insecure) {
  if (fingerprints.size() > 1 && fingerprints.size() != urls.size()) {
    return Error(ErrorCode::kInvalidArgument,
                 "--fingerprint is given " + std::to_string(fingerprints.size()) + " times for " +
                     std::to_string(urls.size()) +
                     " servers; expected one for all of them, or one for each in their order.");
  }
  std::vector<ServerAddress> servers;
  for (size_t i = 0; i < urls.size(); ++i) {
    ASSIGN_OR_RETURN(net::Url url, net::ParseUrl(urls[i]));
    std::string fingerprint;
    if (!fingerprints.empty()) fingerprint = fingerprints[fingerprints.size() == 1 ? 0 : i];
    servers.push_back({std::move(url), {std::move(fingerprint), insecure}});
  }
  return servers;
}

ServerList::ServerList(std::vector<ServerAddress> given) : given_(std::move(given)) {
  CHECK(!given_.empty());
  for (const ServerAddress& each : given_) Add(all_, each);
  tried_.insert(all_.front().url.Authority());
}

ServerAddress ServerList::current() const {
  const std::lock_guard lock(mutex_);
  return all_[current_];
}

std::vector<ServerAddress> ServerList::InOrder() const {
  const std::lock_guard lock(mutex_);
  std::vector<ServerAddress> order = all_;
  std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(current_), order.end());
  return order;
}

size_t ServerList::size() const {
  const std::lock_guard lock(mutex_);
  return all_.size();
}

std::optional<ServerAddress> ServerList::Accept(std::string_view url,
                                                const std::string& fingerprint) const {
  if (url.size() > kLongestUrl) return std::nullopt;
  auto parsed = net::ParseUrl(url);
  const ServerAddress& first = given_.front();
  if (!parsed.ok() || (first.url.tls && !parsed->tls)) return std::nullopt;
  return ServerAddress{*std::move(parsed), {fingerprint, first.tls.insecure}};
}

void ServerList::Add(std::vector<ServerAddress>& list, const ServerAddress& address) const {
  const bool is_known = std::any_of(list.begin(), list.end(), [&](const ServerAddress& each) {
    return IsSame(each.url, address.url);
  });
  if (!is_known) list.push_back(address);
}

size_t ServerList::Find(const net::Url& url) const {
  const auto found = std::find_if(all_.begin(), all_.end(),
                                  [&](const ServerAddress& each) { return IsSame(each.url, url); });
  return static_cast<size_t>(found - all_.begin());
}

void ServerList::SetSuccessors(const std::vector<wire::pb::Init::Successor>& successors) {
  const std::lock_guard lock(mutex_);
  const ServerAddress current = all_[current_];
  std::vector<ServerAddress> all;
  for (const ServerAddress& each : given_) Add(all, each);
  Add(all, current);
  int count = 0;
  for (const auto& named : successors) {
    const auto address = Accept(named.url(), named.fingerprint());
    if (!address || ++count > kMostSuccessors)
      LogWarn(
          "the server's successor '{}' is left out: {}", named.url().substr(0, kLongestUrl),
          address ? "there are too many" : "expected wss://host:port, or ws:// as the server's");
    else
      Add(all, *address);
  }
  all_ = std::move(all);
  current_ = Find(current.url);
}

bool ServerList::Try(size_t index) {
  current_ = index;
  return tried_.insert(all_[current_].url.Authority()).second;
}

bool ServerList::Next() {
  const std::lock_guard lock(mutex_);
  return Try((current_ + 1) % all_.size());
}

bool ServerList::NextIs(std::string_view reason) {
  const std::lock_guard lock(mutex_);
  const wire::Elsewhere to = wire::DecodeElsewhere(reason);
  const auto address = to.url.empty() ? std::nullopt : Accept(to.url, to.fingerprint);
  if (!address) return Try((current_ + 1) % all_.size());
  // Of one that is known the certificate is known, too.
  if (all_.size() <= given_.size() + kMostSuccessors) Add(all_, *address);
  const size_t found = Find(address->url);
  return Try(found < all_.size() ? found : (current_ + 1) % all_.size());
}

void ServerList::Settle() {
  const std::lock_guard lock(mutex_);
  tried_ = {all_[current_].url.Authority()};
}

}  // namespace weft::apps
