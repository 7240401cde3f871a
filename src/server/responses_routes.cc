#include "server/responses_routes.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/response_store.h"
#include "server/responses.h"
#include "server/responses_dialect.h"

namespace weft::server {
namespace json = boost::json;

namespace {

using Store = std::shared_ptr<ResponseStore>;
using Client = std::shared_ptr<net::Responder>;

constexpr std::string_view kPath = "/v1/responses/";
constexpr std::string_view kItems = "/input_items";
constexpr size_t kMostListed = 100;
constexpr size_t kDefaultListed = 20;

// In /v1/responses/ID and /v1/responses/ID/input_items.
std::string IdIn(std::string_view path) {
  path.remove_prefix(kPath.size());
  return std::string(path.substr(0, path.find('/')));
}

api::ApiError NoSuchResponse(const std::string& id) {
  return {404, "Response with id '" + id.substr(0, 200) + "' not found.", "invalid_request_error",
          "response_id", "not_found"};
}

// `limit`, `order` and `after` of a list, newest first where nothing is said.
std::optional<api::ApiError> Select(const net::HttpRequest& request, json::array& items,
                                    bool* has_more) {
  const std::string limit_text = request.QueryValue("limit");
  size_t limit = kDefaultListed;
  if (!limit_text.empty()) {
    const char* end = limit_text.data() + limit_text.size();
    const auto [stop, error] = std::from_chars(limit_text.data(), end, limit);
    if (error != std::errc() || stop != end || limit == 0 || limit > kMostListed)
      return api::RefuseField("limit", "'limit' is '" + limit_text.substr(0, 60) +
                                           "'; expected a number from 1 to " +
                                           std::to_string(kMostListed) + ".");
  }
  const std::string order = request.QueryValue("order");
  if (!order.empty() && order != "asc" && order != "desc")
    return api::RefuseField("order",
                            "'order' is '" + order.substr(0, 60) + "'; expected asc or desc.");
  if (order != "asc") std::reverse(items.begin(), items.end());
  if (const std::string after = request.QueryValue("after"); !after.empty()) {
    const auto* found = std::find_if(items.begin(), items.end(), [&](const json::value& item) {
      return item.at("id").as_string() == after;
    });
    if (found == items.end())
      return api::RefuseField("after", "'after' is '" + after.substr(0, 200) +
                                           "'; expected the id of an item of the list.");
    items.erase(items.begin(), found + 1);
  }
  *has_more = items.size() > limit;
  if (*has_more) items.resize(limit);
  return std::nullopt;
}

net::HttpResponse ListItems(const net::HttpRequest& request, json::array items) {
  bool has_more = false;
  if (const auto refusal = Select(request, items, &has_more)) return ErrorResponse(*refusal);
  const auto id_of = [&](size_t i) { return items.empty() ? json::value() : items[i].at("id"); };
  json::object list = {{"object", "list"},
                       {"first_id", id_of(0)},
                       {"last_id", id_of(items.empty() ? 0 : items.size() - 1)},
                       {"has_more", has_more}};
  list["data"] = std::move(items);
  return JsonResponse(200, json::serialize(list));
}

net::HttpResponse Get(const ResponseStore& store, const net::HttpRequest& request) {
  const std::string id = IdIn(request.path);
  const bool lists = request.path == std::string(kPath) + id + std::string(kItems);
  if (!lists && request.path != std::string(kPath) + id)
    return ErrorResponse(NothingAt(request.path));
  if (request.QueryValue("stream") == "true")
    return ErrorResponse(api::RefuseField(
        "stream", "A response that is over is not streamed again; leave 'stream' out."));
  auto found = store.Find(request.salt, id, std::time(nullptr));
  if (!found) return ErrorResponse(NoSuchResponse(id));
  if (lists) return ListItems(request, std::move(found->input));
  return JsonResponse(200, json::serialize(found->response));
}

net::HttpResponse Forget(ResponseStore& store, const net::HttpRequest& request) {
  const std::string id = request.path.substr(kPath.size());
  if (!store.Forget(request.salt, id, std::time(nullptr))) return ErrorResponse(NoSuchResponse(id));
  return JsonResponse(
      200, json::serialize(json::object{{"id", id}, {"object", "response"}, {"deleted", true}}));
}

Route AskRoute(std::string path, ChatRoutes* chat, std::shared_ptr<const Dialect> dialect,
               size_t body_bytes) {
  const auto handle = [chat, dialect](net::HttpRequest request, Client client) {
    chat->Answer(dialect, std::move(request), std::move(client));
  };
  return {"POST", std::move(path), Secret::kApiKey, body_bytes, handle, nullptr, nullptr};
}

Route RefuseEmbeddings(ChatRoutes* chat, size_t body_bytes) {
  const auto refuse = [chat](const net::HttpRequest&, const Client& client) {
    client->Send(ErrorResponse(api::RefuseField(
        "model", "The model '" + chat->Served().name +
                     "' makes no embeddings: it writes text, and this server has no other.")));
  };
  return {"POST", "/v1/embeddings", Secret::kApiKey, body_bytes, refuse, nullptr, nullptr};
}

}  // namespace

std::vector<Route> ResponsesRoutes(ChatRoutes* chat, size_t body_bytes,
                                   const std::shared_ptr<ResponseStore>& store) {
  const auto get = [store](const net::HttpRequest& request, const Client& client) {
    client->Send(Get(*store, request));
  };
  const auto forget = [store](const net::HttpRequest& request, const Client& client) {
    client->Send(Forget(*store, request));
  };
  const auto refuse = [](const net::HttpRequest& request, const Client& client) {
    if (!request.path.ends_with("/cancel"))
      return client->Send(ErrorResponse(NothingAt(request.path)));
    client->Send(ErrorResponse(
        api::RefuseField("background",
                         "Only responses in the background can be cancelled, and weft makes none: "
                         "close the connection to cancel one.")));
  };
  return {
      AskRoute("/v1/responses", chat, std::make_shared<ResponsesDialect>(store, false), body_bytes),
      AskRoute("/v1/responses/input_tokens", chat, std::make_shared<ResponsesDialect>(store, true),
               body_bytes),
      {"GET", "/v1/responses/*", Secret::kApiKey, 0, get, nullptr, nullptr},
      {"DELETE", "/v1/responses/*", Secret::kApiKey, 0, forget, nullptr, nullptr},
      {"POST", "/v1/responses/*", Secret::kApiKey, 1 << 20, refuse, nullptr, nullptr},
      RefuseEmbeddings(chat, body_bytes)};
}

}  // namespace weft::server
