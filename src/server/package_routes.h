// GET /package/...: the manifest, blobs by digest, and any range of layers as one ONNX graph. Files
// that are not in memory are read, and graphs cut, on threads of this: never on the loop.
#pragma once

#include <memory>
#include <string>

#include "base/task_queue.h"
#include "net/http.h"
#include "net/loop.h"
#include "package/package.h"
#include "server/stage_graphs.h"

namespace weft::server {

class PackageRoutes {
 public:
  PackageRoutes(package::Package package, std::shared_ptr<StageGraphs> graphs,
                net::EventLoop& loop);

  // Answers paths that begin with "/package/". 503 when too many wait to be read; answers that are
  // under way already go on.
  void Answer(const net::HttpRequest& request, std::shared_ptr<net::Responder> responder);

 private:
  void AnswerBlob(const net::HttpRequest& request, const std::string& name,
                  std::shared_ptr<net::Responder> responder);
  void AnswerStage(const net::HttpRequest& request, const std::string& name,
                   std::shared_ptr<net::Responder> responder);
  // On a thread.
  void ReadAsItIsSent(net::HttpResponse& response);
  void Deliver(std::shared_ptr<net::Responder> responder, net::HttpResponse response);

  const package::Package package_;
  net::EventLoop& loop_;
  const std::shared_ptr<StageGraphs> graphs_;
  size_t waiting_ = 0;  // answers, and pieces of them, that the threads owe
  // Last: their threads use what stands above. Apart: a graph takes seconds, and blobs go on.
  TaskQueue reading_threads_;
  TaskQueue cutting_threads_;
};

}  // namespace weft::server
