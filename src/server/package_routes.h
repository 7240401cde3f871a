// GET /package/...: the manifest, blobs by digest, and any range of layers as one ONNX graph. Files
// that are not in memory are read, and graphs cut, on threads of this: never on the loop.
#pragma once

#include <memory>
#include <string>

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

  // An answer that is being sent holds them, since its routes may end before: a model is unloaded.
  struct Threads;

  const package::Package package_;
  const std::shared_ptr<StageGraphs> graphs_;
  const std::shared_ptr<Threads> threads_;
};

}  // namespace weft::server
