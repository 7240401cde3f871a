#include "server/key_routes.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "base/log.h"
#include "base/secret.h"
#include "server/key_json.h"

namespace weft::server {
namespace json = boost::json;

namespace {

using Client = std::shared_ptr<net::Responder>;

constexpr size_t kKeyBodyBytes = 16 << 10;
constexpr std::string_view kPath = "/api/keys/";

void List(const KeyTable& table, net::Responder& client) {
  json::array data;
  for (const store::Key& key : table.keys())
    data.push_back(KeyJson(key, table.TodayOf(key.id), table.now_ms()));
  client.Send(JsonResponse(
      200, json::serialize(json::object{{"object", "list"}, {"data", std::move(data)}})));
}

int StatusOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kLimitExceeded:
      return 409;
    case ErrorCode::kUnsupported:
      return 501;
    case ErrorCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

api::ApiError ErrorOfStore(const Error& error) {
  const int status = StatusOf(error.code());
  return {status, error.message(), status < 500 ? "invalid_request_error" : "server_error", "",
          std::string(ErrorCodeName(error.code()))};
}

void Add(KeyKeeper& keeper, const net::HttpRequest& request, Client client) {
  auto parsed = ParseNewKey(request.body, keeper.table().now_ms());
  if (const auto* refused = std::get_if<api::ApiError>(&parsed))
    return client->Send(ErrorResponse(*refused));
  const std::string secret = store::MakeApiKey();
  keeper.Add(std::get<store::NewKey>(parsed), HashSecret(secret),
             [&keeper, secret, client = std::move(client)](const Result<store::Key>& made) {
               if (!made.ok()) return client->Send(ErrorResponse(ErrorOfStore(made.error())));
               LogInfo("the API key '{}' was made", made.value().name);
               json::object shown = KeyJson(made.value(), {}, keeper.table().now_ms());
               shown["key"] = secret;
               client->Send(JsonResponse(201, json::serialize(shown)));
             });
}

void End(KeyKeeper& keeper, const net::HttpRequest& request, Client client) {
  keeper.End(request.path.substr(kPath.size()), [&keeper, client = std::move(client)](
                                                    const Result<store::Key>& ended) {
    if (!ended.ok()) return client->Send(ErrorResponse(ErrorOfStore(ended.error())));
    LogInfo("the API key '{}' was ended", ended.value().name);
    const KeyTable& table = keeper.table();
    client->Send(JsonResponse(
        200,
        json::serialize(KeyJson(ended.value(), table.TodayOf(ended.value().id), table.now_ms()))));
  });
}

}  // namespace

std::vector<Route> KeyRoutes(KeyKeeper* keeper) {
  return {
      {"GET", "/api/keys", Secret::kAdmin, 0,
       [keeper](const net::HttpRequest&, const Client& client) { List(keeper->table(), *client); },
       nullptr, nullptr},
      {"POST", "/api/keys", Secret::kAdmin, kKeyBodyBytes,
       [keeper](const net::HttpRequest& request, Client client) {
         Add(*keeper, request, std::move(client));
       },
       nullptr, nullptr},
      {"DELETE", std::string(kPath) + "*", Secret::kAdmin, 0,
       [keeper](const net::HttpRequest& request, Client client) {
         End(*keeper, request, std::move(client));
       },
       nullptr, nullptr}};
}

}  // namespace weft::server
