// GET /package/...: the manifest, blobs by digest, and any range of layers as one ONNX graph.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>

#include "net/http.h"
#include "net/loop.h"
#include "net/thread_pool.h"
#include "package/package.h"

namespace weft::apps {

class PackageRoutes {
 public:
  PackageRoutes(package::Package package, net::EventLoop& loop, net::ThreadPool& pool);
  ~PackageRoutes();

  // Answers paths that begin with "/package/".
  void Answer(const net::HttpRequest& request, std::shared_ptr<net::Responder> responder);

 private:
  struct Graph;  // the layered ONNX model, loaded on the pool when first asked for

  void AnswerStage(const net::HttpRequest& request, const std::string& name,
                   std::shared_ptr<net::Responder> responder);

  const package::Package package_;
  net::EventLoop& loop_;
  net::ThreadPool& pool_;
  std::shared_ptr<Graph> graph_;
};

}  // namespace weft::apps
