// /v1/models and POST /v1/chat/completions over a host: parses and tokenises on the pool, generates
// through the core, streams text as it comes, cancels when the client goes away.
#pragma once

#include <memory>
#include <string>

#include "api/model_text.h"
#include "net/http.h"
#include "net/loop.h"
#include "net/thread_pool.h"
#include "server/swarm_host.h"

namespace weft::server {

class ChatRoutes {
 public:
  struct Options {
    std::string model_name;
    uint32_t context_length = 4096;
    int64_t created = 0;  // Unix seconds
  };

  ChatRoutes(Options options, std::shared_ptr<const api::ModelText> text, SwarmHost& host,
             net::EventLoop& loop, net::ThreadPool& pool);

  // True when the path was one of ours (answered now or later). `extra_headers` go into every
  // answer.
  bool Answer(const net::HttpRequest& request, std::shared_ptr<net::Responder> responder,
              const net::Headers& extra_headers);

 private:
  class Completion;

  void Start(std::shared_ptr<Completion> completion, api::ChatRequest chat,
             std::vector<int32_t> prompt_ids);

  const Options options_;
  const std::shared_ptr<const api::ModelText> text_;
  SwarmHost& host_;
  net::EventLoop& loop_;
  net::ThreadPool& pool_;
};

}  // namespace weft::server
