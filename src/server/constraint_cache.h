// ConstraintCache: constraints that came as sources from other servers, compiled on a thread of its
// own. A class of pupils asks for the same form: it is compiled once, and kept while it is in use.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/sha256.h"
#include "base/task_queue.h"
#include "net/loop.h"
#include "swarm/events.h"

namespace weft::server {

class ConstraintCache {
 public:
  using Constraint = std::shared_ptr<const sampling::Constraint>;
  // Called on the thread.
  using Compile = std::function<Result<Constraint>(const std::string& source)>;
  // `loop` outlives this.
  ConstraintCache(net::EventLoop& loop, Compile compile)
      : loop_(loop), compile_(std::move(compile)) {}

  // Calls `then` once, on the loop: at once where it is known; never after this has ended.
  using Then = std::function<void(Result<Constraint>)>;
  void Make(std::string source, Then then);

 private:
  struct Entry {
    Sha256Digest digest;  // of the source
    Constraint constraint;
  };
  Constraint Find(const Sha256Digest& digest);
  void Keep(Entry entry);

  net::EventLoop& loop_;
  const Compile compile_;
  std::list<Entry> entries_;  // the one that was used last comes first
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  // Last: its thread uses what stands above.
  TaskQueue thread_{1};
};

}  // namespace weft::server
