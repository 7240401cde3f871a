#include "server/constraint_cache.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"

namespace weft::server {
namespace {

constexpr size_t kMostEntries = 64;

}  // namespace

ConstraintCache::Constraint ConstraintCache::Find(const Sha256Digest& digest) {
  const auto found = std::ranges::find(entries_, digest, &Entry::digest);
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return entries_.front().constraint;
}

void ConstraintCache::Keep(Entry entry) {
  if (Find(entry.digest) != nullptr) return;
  entries_.push_front(std::move(entry));
  if (entries_.size() > kMostEntries) entries_.pop_back();
}

void ConstraintCache::Make(std::string source, Then then) {
  const Sha256Digest digest = Sha256(AsBytes(source));
  if (Constraint known = Find(digest)) return then(std::move(known));
  thread_.Push([this, digest, source = std::move(source), then = std::move(then),
                alive = std::weak_ptr(alive_)]() mutable {
    auto made = std::make_shared<Result<Constraint>>(compile_(source));
    loop_.Post([this, digest, made, then = std::move(then), alive] {
      if (alive.expired()) return;
      if (made->ok()) Keep({digest, made->value()});
      then(std::move(*made));
    });
  });
}

}  // namespace weft::server
