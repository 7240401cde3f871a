#include "server/embedding_routes.h"

#include <algorithm>
#include <utility>

#include "api/embedding_response.h"
#include "api/ollama_response.h"
#include "api/openai_response.h"
#include "server/ollama_answers.h"
#include "server/responses.h"

namespace weft::server {
namespace {

using Form = EmbeddingRoutes::Form;

net::HttpResponse Refusal(Form form, const api::ApiError& error) {
  return form == Form::kOpenAi ? ErrorResponse(error) : OllamaErrorResponse(error);
}

api::ApiResult<api::EmbeddingRequest> Parse(Form form, ByteSpan body) {
  switch (form) {
    case Form::kOpenAi:
      return api::ParseEmbeddingRequest(body);
    case Form::kOllamaEmbed:
      return api::ParseOllamaEmbed(body);
    case Form::kOllamaEmbeddings:
      break;
  }
  return api::ParseOllamaEmbeddings(body);
}

// The field of a form that has what becomes vectors.
const char* InputField(Form form) {
  return form == Form::kOllamaEmbeddings ? "prompt" : "input";
}

std::string Written(Form form, const std::string& model, const Embeddings& made, bool base64) {
  switch (form) {
    case Form::kOpenAi:
      return api::EmbeddingsJson(model, made.vectors, base64, made.prompt_tokens);
    case Form::kOllamaEmbed:
      return api::OllamaEmbedJson(model, made.vectors, made.prompt_tokens, made.total.us * 1000,
                                  made.load.us * 1000);
    case Form::kOllamaEmbeddings:
      break;
  }
  return api::OllamaEmbeddingsJson(made.vectors);
}

// "query, document"
std::string Names(const std::map<std::string, std::string>& prompts) {
  std::string names;
  for (const auto& [name, text] : prompts) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace

EmbeddingRoutes::EmbeddingRoutes(Options options, std::shared_ptr<const api::ModelText> text,
                                 Generator& generator, net::EventLoop& loop)
    : options_(std::move(options)),
      text_(std::move(text)),
      generator_(generator),
      loop_(loop),
      reading_(loop, options_.queue_limit) {}

void EmbeddingRoutes::Answer(Form form, net::HttpRequest request,
                             std::shared_ptr<net::Responder> responder) {
  if (!options_.embedding)
    return responder->Send(Refusal(
        form, api::RefuseField("model",
                               "'" + options_.model_name +
                                   "' writes text and makes no embeddings. Serve a package that "
                                   "does: `weft convert --embedding mean` (or last) makes one.")));
  if (const auto refusal = reading_.FindNoRoom(request.client))
    return responder->Send(Refusal(form, *refusal));
  const std::string client = request.client;
  const size_t byte_count = request.body.size();
  reading_.Push(client, byte_count,
                [this, form, request = std::move(request),
                 responder = std::move(responder)]() mutable -> std::function<void()> {
                  auto read = std::make_shared<api::ApiResult<Question>>(Read(form, request.body));
                  if (auto* question = std::get_if<Question>(read.get())) {
                    question->work.client = request.client;
                    question->work.salt = request.salt;
                  }
                  return [this, form, read, responder = std::move(responder)] {
                    if (const auto* refused = std::get_if<api::ApiError>(read.get()))
                      return responder->Send(Refusal(form, *refused));
                    Begin(form, std::move(std::get<Question>(*read)), responder);
                  };
                });
}

void EmbeddingRoutes::Begin(Form form, Question question,
                            std::shared_ptr<net::Responder> responder) const {
  const auto respond = [form, base64 = question.base64,
                        model = options_.model_name](const Embeddings& made) {
    return JsonResponse(200, Written(form, model, made, base64));
  };
  // Ollama's clients ask for nothing to see that a model is there.
  if (question.work.inputs.empty()) return responder->Send(respond({}));
  EmbeddingJob::Start(
      {generator_, loop_, options_.wait, options_.at_once, options_.load_wait},
      std::move(question.work), respond,
      [form](const api::ApiError& error) { return Refusal(form, error); }, std::move(responder));
}

api::ApiResult<EmbeddingRoutes::Question> EmbeddingRoutes::Read(Form form,
                                                                const std::string& body) const {
  auto parsed = Parse(form, AsBytes(body));
  if (auto* refused = std::get_if<api::ApiError>(&parsed)) return std::move(*refused);
  const auto& asked = std::get<api::EmbeddingRequest>(parsed);
  if (auto error = Check(asked)) return std::move(*error);
  auto prompt = PromptOf(asked);
  if (auto* refused = std::get_if<api::ApiError>(&prompt)) return std::move(*refused);
  Question question;
  question.base64 = asked.base64;
  EmbeddingWork& work = question.work;
  work.pooling = options_.embedding->pooling;
  // Ollama's newer form gives vectors of length 1 whatever the model says.
  work.normalize = options_.embedding->normalize || form == Form::kOllamaEmbed;
  work.columns = options_.columns;
  work.dimensions = asked.dimensions.value_or(options_.columns);
  for (size_t i = 0; i < asked.inputs.size(); ++i) {
    auto ids = TokensOf(asked.inputs[i], i, std::get<std::string>(prompt), asked.truncates);
    if (auto* refused = std::get_if<api::ApiError>(&ids)) {
      refused->param = InputField(form);
      return std::move(*refused);
    }
    work.inputs.push_back(std::move(std::get<std::vector<int32_t>>(ids)));
  }
  return question;
}

std::optional<api::ApiError> EmbeddingRoutes::Check(const api::EmbeddingRequest& asked) const {
  if (!options_.takes_any_name && !api::IsServed(asked.model, options_.model_name))
    return api::NoSuchModel(asked.model, options_.model_name);
  return asked.dimensions ? CheckDimensions(*asked.dimensions) : std::nullopt;
}

std::optional<api::ApiError> EmbeddingRoutes::CheckDimensions(uint32_t dimensions) const {
  if (dimensions == options_.columns) return std::nullopt;
  const auto refuse = [&](const std::string& expected) {
    return api::RefuseField("dimensions",
                            "'dimensions' is " + std::to_string(dimensions) + "; " + expected);
  };
  const package::Embedding& embedding = *options_.embedding;
  const std::string columns = std::to_string(options_.columns);
  if (!embedding.matryoshka)
    return refuse("embeddings of '" + options_.model_name + "' have " + columns +
                  ", and its package does not say that a part of them is one, too (`weft convert "
                  "--matryoshka`).");
  if (dimensions > options_.columns) return refuse("expected at most " + columns + ".");
  const auto& known = embedding.dimensions;
  if (known.empty() || std::ranges::find(known, dimensions) != known.end()) return std::nullopt;
  std::string list;
  for (const uint32_t each : known) list += std::to_string(each) + ", ";
  return refuse("the model was trained for " + list + columns + ".");
}

// What stands in front of each text.
api::ApiResult<std::string> EmbeddingRoutes::PromptOf(const api::EmbeddingRequest& asked) const {
  const package::Embedding& embedding = *options_.embedding;
  const std::string name = asked.prompt_name.value_or(embedding.default_prompt);
  if (name.empty()) return std::string();
  const auto found = embedding.prompts.find(name);
  if (found == embedding.prompts.end())
    return api::RefuseField(
        "prompt_name",
        "'prompt_name' is '" + name.substr(0, 100) + "'; " +
            (embedding.prompts.empty() ? "the package has no prompts."
                                       : "expected one of: " + Names(embedding.prompts) + "."));
  const bool has_ids = std::ranges::any_of(asked.inputs, [](const api::EmbeddingInput& input) {
    return std::holds_alternative<std::vector<int32_t>>(input);
  });
  if (asked.prompt_name && has_ids)
    return api::RefuseField("prompt_name",
                            "'prompt_name' is for texts: put the prompt's tokens in front of those "
                            "of the input.");
  return found->second;
}

api::ApiResult<std::vector<int32_t>> EmbeddingRoutes::TokensOf(const api::EmbeddingInput& input,
                                                               size_t index,
                                                               const std::string& prompt,
                                                               bool truncates) const {
  const std::string which = "Input " + std::to_string(index);
  std::vector<int32_t> ids;
  if (const auto* text = std::get_if<std::string>(&input)) {
    auto encoded = text_->EncodeText(prompt + *text);
    if (!encoded.ok()) return api::FromError(encoded.error());
    ids = std::move(encoded).value();
  } else {
    ids = std::get<std::vector<int32_t>>(input);
    for (const int32_t id : ids)
      if (static_cast<uint32_t>(id) >= options_.vocabulary)
        return api::RefuseField("", which + " names the token " + std::to_string(id) +
                                        "; the model has tokens 0 to " +
                                        std::to_string(options_.vocabulary - 1) + ".");
  }
  if (ids.empty()) return api::RefuseField("", which + " has no tokens; expected a text.");
  if (ids.size() > options_.context_length && truncates) Cut(&ids);
  if (ids.size() <= options_.context_length) return ids;
  api::ApiError error = api::RefuseField(
      "", which + " has " + std::to_string(ids.size()) + " tokens; this server takes at most " +
              std::to_string(options_.context_length) +
              ". Cut the text, or restart the server with a larger --context.");
  error.code = "context_length_exceeded";
  return error;
}

// Its end goes, but for what the tokenizer puts behind every text: the last row is made there.
void EmbeddingRoutes::Cut(std::vector<int32_t>* ids) const {
  const auto end = text_->tokenizer().suffix_ids();
  if (end.size() >= options_.context_length) return;
  const bool has_end = std::equal(end.rbegin(), end.rend(), ids->rbegin());
  ids->resize(options_.context_length - (has_end ? end.size() : 0));
  if (has_end) ids->insert(ids->end(), end.begin(), end.end());
}

std::vector<Route> MakeEmbeddingRoutes(EmbeddingRoutes* routes, size_t body_bytes) {
  const auto route = [&](std::string path, Form form, auto refuse) {
    Route made;
    made.method = "POST";
    made.path = std::move(path);
    made.secret = Secret::kApiKey;
    made.body_limit_bytes = body_bytes;
    made.handle = [routes, form](net::HttpRequest request, std::shared_ptr<net::Responder> client) {
      routes->Answer(form, std::move(request), std::move(client));
    };
    made.refuse = refuse;
    return made;
  };
  return {route("/v1/embeddings", Form::kOpenAi, &ErrorResponse),
          route("/api/embed", Form::kOllamaEmbed, &OllamaErrorResponse),
          route("/api/embeddings", Form::kOllamaEmbeddings, &OllamaErrorResponse)};
}

}  // namespace weft::server
