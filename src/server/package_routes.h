// GET /package/...: the manifest, blobs by digest, and any range of layers as one ONNX graph.
#pragma once

#include <memory>
#include <string>

#include "net/http.h"
#include "net/loop.h"
#include "net/thread_pool.h"
#include "package/package.h"
#include "server/stage_graphs.h"

namespace weft::server {

class PackageRoutes {
 public:
  PackageRoutes(package::Package package, std::shared_ptr<StageGraphs> graphs, net::EventLoop& loop,
                net::ThreadPool& pool);

  // Answers paths that begin with "/package/".
  void Answer(const net::HttpRequest& request, std::shared_ptr<net::Responder> responder);

 private:
  void AnswerStage(const net::HttpRequest& request, const std::string& name,
                   std::shared_ptr<net::Responder> responder);

  const package::Package package_;
  net::EventLoop& loop_;
  net::ThreadPool& pool_;
  const std::shared_ptr<StageGraphs> graphs_;
};

}  // namespace weft::server
