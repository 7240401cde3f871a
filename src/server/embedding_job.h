// EmbeddingJob: one request for embeddings, from tokens to the answer. Each of its inputs is a
// request of the core's, several of them at once; their rows become vectors here (pooling.h). A
// client that goes away cancels what is left.
//
// Inputs without room in the queue wait until one of the job's own is over. A long list takes no
// more than a client's share, and is not refused for its length.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/api_error.h"
#include "api/embedding_response.h"
#include "base/clock.h"
#include "net/http.h"
#include "net/loop.h"
#include "package/embedding.h"
#include "server/generator.h"
#include "server/pooling.h"

namespace weft::server {

// What all jobs share. All of it outlives them.
struct EmbeddingContext {
  Generator& generator;
  net::EventLoop& loop;
  // Of CompletionContext.
  Duration wait;
  size_t at_once = 1;  // inputs that are asked of the core at a time
  Duration load_wait = {};
};

struct EmbeddingWork {
  std::string client, salt;                  // of net::HttpRequest
  std::vector<std::vector<int32_t>> inputs;  // none of them empty
  package::Pooling pooling = package::Pooling::kMean;
  bool normalize = true;
  uint32_t columns = 0;     // of the model's rows
  uint32_t dimensions = 0;  // of the vectors
};

// What came of it.
struct Embeddings {
  api::Vectors vectors;  // one for each input
  uint64_t prompt_tokens = 0;
  Duration total, load;  // `load`: until the swarm was up
};

class EmbeddingJob : public std::enable_shared_from_this<EmbeddingJob> {
 public:
  // On the loop. `respond` or `refuse` gives the answer.
  using Respond = std::function<net::HttpResponse(const Embeddings&)>;
  using Refuse = std::function<net::HttpResponse(const api::ApiError&)>;
  static void Start(const EmbeddingContext& context, EmbeddingWork work, Respond respond,
                    Refuse refuse, std::shared_ptr<net::Responder> responder);

 private:
  struct Part {
    Pooler pooler;
    swarm::RequestId id;
    bool is_running = false;
  };

  EmbeddingJob(const EmbeddingContext& context, EmbeddingWork work, Respond respond, Refuse refuse,
               std::shared_ptr<net::Responder> responder);

  void AwaitSwarm();
  // In a turn of the loop of its own: not within the core's word of something else.
  void GoOnLater();
  void SubmitMore();
  bool Submit(size_t index);
  void OnFinish(size_t index, const swarm::FinishRequest& finish);
  void Fail(const api::ApiError& error);
  void End();

  const EmbeddingContext context_;
  const EmbeddingWork work_;
  const Respond respond_;
  const Refuse refuse_;
  const std::shared_ptr<net::Responder> responder_;
  const Instant begun_;
  Instant up_at_;
  net::EventLoop::Timer timer_;
  std::vector<Part> parts_;     // one for each input
  std::deque<size_t> waiting_;  // inputs that the core has not been asked for
  size_t running_ = 0;
  size_t done_ = 0;
  Embeddings made_;
  bool is_over_ = false;
  // Set while the core is asked: what it says then is a refusal.
  bool is_submitting_ = false;
  std::optional<swarm::FinishRequest> refused_;
};

}  // namespace weft::server
