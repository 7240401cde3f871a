#include "server/responses_dialect.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <ctime>
#include <utility>
#include <variant>

#include "api/responses_answer.h"
#include "api/responses_items.h"
#include "api/responses_request.h"
#include "base/random.h"
#include "server/responses.h"

namespace weft::server {
namespace json = boost::json;

namespace {

constexpr size_t kIdBytes = 24;

// What is kept of a request until its answer is there.
struct AskedResponse {
  json::object told;
  json::array input, items;  // items: of all that came before, the input included
  std::string salt;
  bool stores = false;
  api::ResponsesAnswer::Form form;
};

class ResponsesWriter : public StreamingWriter {
 public:
  ResponsesWriter(std::shared_ptr<AskedResponse> asked, std::shared_ptr<ResponseStore> store,
                  const AnswerHead& head, std::shared_ptr<net::Responder> responder)
      : StreamingWriter(std::move(responder), asked->form.stream),
        asked_(std::move(asked)),
        store_(std::move(store)),
        id_("resp_" + SecureRandomHex(kIdBytes)),
        answer_(HeadOf(id_, *asked_, head), FormOf(*asked_, head)) {}

  void Begin() override {
    has_begun_ = true;
    if (!is_stream()) return;
    StartEventStream(responder());
    responder().Write(answer_.Begin());
  }

  void Write(const std::vector<chat::Event>& events, std::vector<api::SaidToken> said) override {
    std::string told = answer_.Take(events, said);
    if (!told.empty()) responder().Write(std::move(told));
  }

  void Finish(const api::AnswerEnd& end) override {
    std::string told = answer_.End(end, std::time(nullptr));
    if (asked_->stores) Keep();
    if (!is_stream())
      return responder().Send(JsonResponse(200, json::serialize(answer_.response())));
    responder().Write(std::move(told));
    responder().End();
  }

  void Fail(const api::ApiError& error) override {
    if (!is_stream() || !has_begun_) return responder().Send(ErrorResponse(error));
    responder().Write(answer_.Fail(error));
    responder().End();
  }

 private:
  static json::object HeadOf(const std::string& id, const AskedResponse& asked,
                             const AnswerHead& head) {
    json::object told = {{"id", id}, {"created_at", head.created_s}, {"model", head.model}};
    for (const auto& [key, value] : asked.told) told[key] = value;
    return told;
  }
  static api::ResponsesAnswer::Form FormOf(const AskedResponse& asked, const AnswerHead& head) {
    api::ResponsesAnswer::Form form = asked.form;
    form.short_ids = head.text.answer_format().short_ids;
    return form;
  }
  void Keep() {
    StoredResponse stored{id_,
                          asked_->salt,
                          std::time(nullptr),
                          answer_.response(),
                          std::move(asked_->input),
                          std::move(asked_->items)};
    for (const json::value& item : answer_.items()) stored.items.push_back(item);
    store_->Keep(std::move(stored));
  }

  const std::shared_ptr<AskedResponse> asked_;
  const std::shared_ptr<ResponseStore> store_;
  const std::string id_;
  api::ResponsesAnswer answer_;
  bool has_begun_ = false;
};

// Those that the server has in place of references to them.
std::optional<api::ApiError> Resolve(json::array& items, const ResponseStore& store,
                                     const std::string& salt) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].at("type") != "item_reference") continue;
    const std::string id(items[i].at("id").as_string());
    auto found = store.FindItem(salt, id, std::time(nullptr));
    if (!found)
      return api::ApiError{404,
                           "Item with id '" + id.substr(0, 200) +
                               "' not found. Items are kept for an hour with their response, where "
                               "'store' is not false.",
                           "invalid_request_error", "input[" + std::to_string(i) + "]",
                           "item_not_found"};
    items[i] = std::move(*found);
  }
  return std::nullopt;
}

}  // namespace

api::ApiResult<Question> ResponsesDialect::Read(std::string_view body, const std::string& salt,
                                                const sampling::Parameters& defaults) const {
  auto parsed = api::ParseResponsesRequest(AsBytes(body), defaults);
  if (auto* refused = std::get_if<api::ApiError>(&parsed)) return std::move(*refused);
  auto& request = std::get<api::ResponsesRequest>(parsed);
  if (auto error = Resolve(request.items, *store_, salt)) return *error;
  const auto asked = std::make_shared<AskedResponse>();
  if (!request.previous.empty()) {
    auto previous = store_->Find(salt, request.previous, std::time(nullptr));
    if (!previous)
      return api::ApiError{
          400, "Previous response with id '" + request.previous.substr(0, 200) + "' not found.",
          "invalid_request_error", "previous_response_id", "previous_response_not_found"};
    asked->items = std::move(previous->items);
  }
  for (const json::value& item : request.items) asked->items.push_back(item);
  Question question;
  question.chat = std::move(request.chat);
  question.chat.messages = api::MessagesOf(asked->items, request.instructions);
  if (question.chat.messages.empty())
    return api::RefuseField("input",
                            "'input' has nothing that the model can read; expected at "
                            "least one message.");
  if (counts_) {
    question.count = [](size_t tokens) {
      return JsonResponse(200, json::serialize(json::object{{"object", "response.input_tokens"},
                                                            {"input_tokens", tokens}}));
    };
    return question;
  }
  asked->told = std::move(request.told);
  asked->input = std::move(request.items);
  asked->salt = salt;
  asked->stores = request.stores;
  asked->form.stream = question.chat.stream;
  asked->form.summarises = request.summarises;
  asked->form.logprobs = question.chat.logprobs;
  question.write = [asked, store = store_](const AnswerHead& head,
                                           std::shared_ptr<net::Responder> responder) {
    Writers writers;
    writers.push_back(std::make_unique<ResponsesWriter>(asked, store, head, std::move(responder)));
    return writers;
  };
  return question;
}

net::HttpResponse ResponsesDialect::Error(const api::ApiError& error) const {
  return ErrorResponse(error);
}

}  // namespace weft::server
