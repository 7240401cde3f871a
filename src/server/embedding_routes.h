// EmbeddingRoutes: POST /v1/embeddings, and Ollama's /api/embed and /api/embeddings. Texts become
// tokens on threads of their own, and then an EmbeddingJob has the swarm compute their rows.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/embedding_request.h"
#include "api/model_text.h"
#include "net/http.h"
#include "net/loop.h"
#include "package/embedding.h"
#include "server/embedding_job.h"
#include "server/generator.h"
#include "server/reading_queue.h"
#include "server/router.h"

namespace weft::server {

class EmbeddingRoutes {
 public:
  struct Options {
    std::string model_name;
    std::optional<package::Embedding> embedding;  // nullopt: the model writes text
    uint32_t columns = 0;                         // of its rows
    uint32_t vocabulary = 0;
    uint32_t context_length = 0;  // tokens of the longest input
    Duration wait = Seconds(30);  // for a swarm that is down
    size_t at_once = 1;           // EmbeddingContext
    bool takes_any_name = false;  // as of ChatRoutes
    Duration load_wait;
    size_t queue_limit = 0;  // ReadingQueue's
  };
  enum class Form { kOpenAi, kOllamaEmbed, kOllamaEmbeddings };

  // `loop` and `generator` outlive this.
  EmbeddingRoutes(Options options, std::shared_ptr<const api::ModelText> text, Generator& generator,
                  net::EventLoop& loop);

  void Answer(Form form, net::HttpRequest request, std::shared_ptr<net::Responder> responder);

 private:
  // What a body asks, with its texts as tokens.
  struct Question {
    EmbeddingWork work;
    bool base64 = false;
  };
  api::ApiResult<Question> Read(Form form, const std::string& body) const;
  std::optional<api::ApiError> Check(const api::EmbeddingRequest& asked) const;
  std::optional<api::ApiError> CheckDimensions(uint32_t dimensions) const;
  api::ApiResult<std::string> PromptOf(const api::EmbeddingRequest& asked) const;
  api::ApiResult<std::vector<int32_t>> TokensOf(const api::EmbeddingInput& input, size_t index,
                                                const std::string& prompt, bool truncates) const;
  void Cut(std::vector<int32_t>* ids) const;
  void Begin(Form form, Question question, std::shared_ptr<net::Responder> responder) const;

  const Options options_;
  const std::shared_ptr<const api::ModelText> text_;
  Generator& generator_;
  net::EventLoop& loop_;
  // Last: its threads use what stands above.
  ReadingQueue reading_;
};

// `routes` outlives them.
std::vector<Route> MakeEmbeddingRoutes(EmbeddingRoutes* routes, size_t body_bytes);

}  // namespace weft::server
