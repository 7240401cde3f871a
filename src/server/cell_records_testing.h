// Records in memory, for tests: what was noted is there at once.
#pragma once

#include <deque>
#include <map>
#include <utility>

#include "net/loop.h"
#include "server/cell_records.h"

namespace weft::server {

class RememberedRecords : public CellRecords {
 public:
  struct Request : store::OpenRequest {
    std::optional<uint32_t> generated_tokens;
  };
  // Without a loop whoever looks for a request waits for Answer.
  explicit RememberedRecords(net::EventLoop* loop = nullptr) : loop_(loop) {}

  void FindRequest(const std::string& key, Found then) override {
    const auto answer = [then = std::move(then), known = Known(key)] { then(known); };
    if (loop_ != nullptr) return loop_->Post(answer);
    waiting_.emplace_back(answer);
  }
  void NoteBegun(store::KeyedRequest request) override {
    const std::string key = request.key;
    requests[key] = {{std::move(request), {}}, std::nullopt};
    ++begun_count;
  }
  void NoteTokens(const std::string& key, uint32_t first, std::vector<int32_t> token_ids) override {
    std::vector<int32_t>& known = requests.at(key).token_ids;
    if (first == known.size()) known.insert(known.end(), token_ids.begin(), token_ids.end());
  }
  void NoteSession(const std::string& key, const store::StoredSession& session) override {
    requests.at(key).session = session;
  }
  void NoteEnded(const std::string& key, uint32_t generated_tokens) override {
    const auto found = requests.find(key);
    if (found == requests.end()) return;
    found->second.generated_tokens = generated_tokens;
    found->second.request.reset();
    found->second.token_ids.clear();
  }
  void NoteKept(store::StoredPrefix prefix) override { kept.push_back(std::move(prefix)); }
  void NoteForgotten(const std::string& salt, const std::string& name) override {
    std::erase_if(kept, [&](const auto& each) { return each.salt == salt && each.name == name; });
  }
  void Flush() override {
    if (on_flush) on_flush();
  }

  // Answers those who wait.
  void Answer() {
    for (const auto& each : std::exchange(waiting_, {})) each();
  }
  // What a later start of a cell finds.
  store::FoundCell Found() const {
    store::FoundCell found;
    found.kept_prefixes = kept;
    for (const auto& [key, request] : requests)
      if (request.request) found.open_requests.push_back(request);
    return found;
  }

  std::map<std::string, Request> requests;  // by key
  std::vector<store::StoredPrefix> kept;
  std::function<void()> on_flush;
  int begun_count = 0;

 private:
  std::optional<store::KnownRequest> Known(const std::string& key) const {
    const auto found = requests.find(key);
    if (found == requests.end()) return std::nullopt;
    return store::KnownRequest{found->second.digest, found->second.seed};
  }

  net::EventLoop* const loop_;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace weft::server
