// RemoteCells: the worker of a device beside a server that may have several models. It asks the
// server which models are loaded, and has a RemoteWorker for each: a socket of its own, and the
// device's memory between them. A server of one model knows no such question: there it is the one
// RemoteWorker that it always was.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "apps/remote_worker.h"
#include "base/result.h"
#include "base/task_queue.h"
#include "net/client.h"
#include "net/loop.h"

namespace weft::apps {

// A model that is loaded, as GET /worker/cells tells it.
struct RemoteCell {
  uint32_t cell = 0;
  std::string model;
  uint64_t need_bytes = 0;
};
struct RemoteCellList {
  uint64_t version = 0;
  std::vector<RemoteCell> cells;
};
// Errors: kInvalidData where the text is no such list.
Result<RemoteCellList> ParseCellList(std::string_view text);

class RemoteCells {
 public:
  // Where a worker with these servers gets its package.
  using MakeSource = std::function<Result<std::shared_ptr<worker::PackageSource>>(
      std::shared_ptr<ServerList> servers)>;

  // Of RemoteWorker; `servers`: one or more, that the user gave. It is destroyed when the loop runs
  // no more.
  RemoteCells(net::EventLoop& loop, std::vector<ServerAddress> servers,
              worker::NativeWorkerOptions options, MakeSource make_source,
              std::function<void(Status)> on_over);
  ~RemoteCells();
  RemoteCells(const RemoteCells&) = delete;
  RemoteCells& operator=(const RemoteCells&) = delete;

  void Start();
  void OnDatagram(ReceivedDatagram datagram) {
    if (single_) single_->OnDatagram(std::move(datagram));
  }
  void Leave(const std::string& reason);

 private:
  struct Helped {
    std::string model;
    uint64_t offer_bytes = 0;
    std::unique_ptr<RemoteWorker> worker;  // null: the others leave it no memory, or given up
    uint64_t need_bytes = 0;
    bool is_given_up = false;  // something went wrong that a new connection would not mend
  };

  // On the thread that asks.
  void AskAgainAndAgain();
  void Pause(Duration time) const;

  void OnList(const RemoteCellList& list);
  // The server does not answer, or has one model.
  void HelpOne();
  void HelpMore();
  void Drop(std::unique_ptr<RemoteWorker> worker);
  void OnCellOver(uint32_t cell, const Status& status);
  void GiveUp(uint32_t cell, const Status& status);
  void Over(Status status);

  net::EventLoop& loop_;
  const std::vector<ServerAddress> servers_;
  worker::NativeWorkerOptions options_;  // with the limit that all share
  const MakeSource make_source_;
  std::function<void(Status)> on_over_;   // null once it was called
  std::unique_ptr<RemoteWorker> single_;  // of a server of one model
  std::map<uint32_t, Helped> helped_;     // of one with several
  bool leaving_ = false;
  size_t leaving_count_ = 0;  // workers that have not gone yet
  std::atomic<bool> stops_ = false;
  std::thread asking_;
  TaskQueue ends_;  // destroys what workers held
};

}  // namespace weft::apps
