#include "server/admin_routes.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/swarm_json.h"
#include "base/log.h"
#include "server/responses.h"
#include "server/routes.h"

namespace weft::server {
namespace json = boost::json;

namespace {

using Request = net::HttpRequest;
using Client = std::shared_ptr<net::Responder>;

constexpr size_t kBodyBytes = 4096;
constexpr std::string_view kEvictedPath = "/api/admin/evicted/";

std::vector<Cell*> CellsOf(const AdminParts& parts) {
  if (parts.cell != nullptr) return {parts.cell};
  std::vector<Cell*> cells;
  for (const auto& [name, loaded] : parts.models->loaded()) cells.push_back(loaded->cell.get());
  return cells;
}

json::array Span(uint32_t first, uint32_t end) {
  return {first, end};
}

json::value SecondsOrNull(const std::optional<double>& time_s) {
  return time_s ? json::value(*time_s) : json::value(nullptr);
}

api::ApiError Refused(int status, std::string message, std::string field, std::string code) {
  return {status, std::move(message), "invalid_request_error", std::move(field), std::move(code)};
}

// ---- devices ----

// Its layers in a plan beside the active one; null: it has none.
json::value LayersBeside(const swarm::Snapshot& picture, swarm::WorkerId worker) {
  for (const swarm::SidePlanSnapshot& plan : picture.side_plans)
    for (const swarm::StageSnapshot& stage : plan.stages)
      if (stage.worker == worker) return Span(stage.first_layer, stage.end_layer);
  return nullptr;
}

json::array LayersHeldReady(const swarm::Snapshot& picture, swarm::WorkerId worker) {
  json::array spans;
  for (const swarm::StandbySnapshot& standby : picture.standbys)
    if (standby.worker == worker && standby.loaded)
      spans.push_back(Span(standby.first_layer, standby.end_layer));
  return spans;
}

// The share of the time since it came in which it computed steps.
double BusyShare(const swarm::WorkerSnapshot& worker) {
  if (worker.connected_s <= 0) return 0;
  return std::min(1.0, worker.steps.compute_us * 1e-6 / worker.connected_s);
}

json::object DeviceOf(const Cell& cell, const swarm::Snapshot& picture,
                      const swarm::WorkerSnapshot& worker) {
  json::object device = api::DeviceJson(worker);
  device["model"] = cell.name();
  device["layers"] = cell.card().layer_count;
  device["layers_beside"] = LayersBeside(picture, worker.id);
  device["layers_ready"] = LayersHeldReady(picture, worker.id);
  device["address"] = worker.address;
  device["is_own"] = worker.address == kInThisProcess;
  device["connected_s"] = worker.connected_s;
  device["silent_s"] = worker.silent_s;
  device["busy_share"] = BusyShare(worker);
  device["is_leaving"] = worker.is_leaving;
  device["aside"] = worker.aside.reason.empty()
                        ? json::value(nullptr)
                        : json::object{{"reason", worker.aside.reason},
                                       {"for_s", SecondsOrNull(worker.aside.for_s)}};
  return device;
}

void ListDevices(const AdminParts& parts, net::Responder& client) {
  json::array devices, evicted;
  for (const Cell* cell : CellsOf(parts)) {
    const swarm::Snapshot picture = cell->host().snapshot();
    for (const swarm::WorkerSnapshot& worker : picture.workers)
      devices.push_back(DeviceOf(*cell, picture, worker));
  }
  const Instant now = MonotonicNow();
  for (const Eviction& each : parts.evictions->Current(now))
    evicted.push_back({{"number", each.number},
                       {"name", each.name},
                       {"kind", each.kind},
                       {"address", each.address},
                       {"ends_in_s", (each.until - now).seconds()}});
  client.Send(JsonResponse(200, json::serialize(json::object{{"devices", std::move(devices)},
                                                             {"evicted", std::move(evicted)}})));
}

// The cell that a body means: of the only model, or of the loaded one that it names.
Cell* CellOf(const AdminParts& parts, const std::string& model) {
  if (parts.cell != nullptr)
    return model.empty() || model == parts.cell->name() ? parts.cell : nullptr;
  const auto loaded = parts.models->FindLoaded(model);
  return loaded ? loaded->cell.get() : nullptr;
}

std::optional<swarm::WorkerSnapshot> FindWorker(const Cell& cell, int64_t number) {
  for (swarm::WorkerSnapshot& worker : cell.host().snapshot().workers)
    if (worker.id == swarm::WorkerId(static_cast<uint64_t>(number))) return std::move(worker);
  return std::nullopt;
}

// A text of the body's object; "" where it is missing or none.
std::string TextIn(const json::object& fields, const char* name) {
  const json::value* value = fields.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

std::optional<json::object> ObjectIn(const Request& request) {
  boost::system::error_code failed;
  json::value body = json::parse(request.body, failed);
  if (failed || !body.is_object()) return std::nullopt;
  return std::move(body.as_object());
}

// Why the device cannot be evicted; nullopt: it can.
std::optional<api::ApiError> FindHindrance(const swarm::WorkerSnapshot& worker) {
  if (worker.address == kInThisProcess)
    return Refused(409,
                   "This is the server's own worker, which cannot be evicted. Start "
                   "'weft serve --no-worker' to go without it.",
                   "worker", "own_worker");
  if (worker.device_id.empty())
    return Refused(409,
                   "The device has not said yet who it is. Try again when it has joined; "
                   "who never joins is closed within seconds.",
                   "worker", "not_joined");
  return std::nullopt;
}

// {"worker": 3, "model": "qwen3-0.6b"}. A device may help several models; it goes from all.
void Evict(const AdminParts& parts, const Request& request, net::Responder& client) {
  const auto fields = ObjectIn(request);
  const json::value* number = fields ? fields->if_contains("worker") : nullptr;
  if (number == nullptr || !number->is_int64() || number->get_int64() < 0)
    return client.Send(ErrorResponse(
        Refused(400, "Expected {\"worker\": a device's id, \"model\": the model that it helps}.",
                "worker", "")));
  const Cell* cell = CellOf(parts, TextIn(*fields, "model"));
  const auto worker = cell != nullptr ? FindWorker(*cell, number->get_int64()) : std::nullopt;
  if (!worker)
    return client.Send(ErrorResponse(
        Refused(404, "No device with this number helps this model now. It may have gone.", "worker",
                "not_found")));
  if (const auto hindrance = FindHindrance(*worker)) return client.Send(ErrorResponse(*hindrance));
  const Instant now = MonotonicNow();
  const uint64_t eviction = parts.evictions->Evict({.device = worker->device_id,
                                                    .name = worker->name,
                                                    .kind = worker->kind,
                                                    .address = worker->address,
                                                    .until = {}},
                                                   now);
  const std::string sentence = *parts.evictions->Find(worker->device_id, now);
  LogInfo("the device '{}' ({}) was evicted", worker->name, worker->address);
  for (Cell* each : CellsOf(parts))
    for (const swarm::WorkerSnapshot& other : each->host().snapshot().workers)
      if (other.device_id == worker->device_id) each->host().Evict(other.id, sentence);
  client.Send(JsonResponse(
      200,
      json::serialize(json::object{
          {"number", eviction}, {"name", worker->name}, {"ends_in_s", kEvictionTime.seconds()}})));
}

void LetIn(Evictions& evictions, const Request& request, net::Responder& client) {
  const std::string text = request.path.substr(kEvictedPath.size());
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || !evictions.LetIn(number, MonotonicNow()))
    return client.Send(ErrorResponse(Refused(
        404, "No evicted device has this number: it was let in already, or its hour is over.", "",
        "not_found")));
  LogInfo("an evicted device was let in again");
  client.Send(JsonResponse(200, json::serialize(json::object{{"let_in", number}})));
}

// ---- models ----

// Who has asked what has not ended, by the name of the key or by the address.
json::array AskersOf(const SwarmHost& host, const KeyTable& keys) {
  json::array askers;
  for (const auto& [client, count] : host.OpenRequests()) {
    const int64_t key = KeyOfClient(client);
    const auto named =
        std::ranges::find_if(keys.keys(), [key](const store::Key& each) { return each.id == key; });
    const bool is_named = key != 0 && named != keys.keys().end();
    // Behind an address may stand the hash of a key.
    const std::string address = client.substr(0, client.find(' '));
    askers.push_back({{"name", is_named          ? named->name
                               : address.empty() ? "this server"
                                                 : address},
                      {"is_key", is_named},
                      {"requests", count}});
  }
  return askers;
}

json::object UseOf(const Cell& cell, const KeyTable& keys) {
  const swarm::Snapshot picture = cell.host().snapshot();
  return {{"message", picture.message},
          {"is_up", cell.host().is_up()},
          {"devices", picture.workers.size()},
          {"active_requests", picture.active_requests},
          {"queued_requests", picture.queued_requests},
          {"askers", AskersOf(cell.host(), keys)}};
}

json::object OnlyModel(const AdminParts& parts) {
  return {{"name", parts.cell->name()},
          {"state", "loaded"},
          {"stays", true},
          {"weight_bytes", parts.cell->card().weight_bytes},
          {"need_bytes", parts.need_bytes},
          {"waiting_requests", 0},
          {"goes_in_s", nullptr},
          {"problem", ""},
          {"use", UseOf(*parts.cell, *parts.keys)}};
}

json::object ShelvedModel(const Models::Shelved& model, const KeyTable& keys) {
  const auto goes_in_s =
      model.goes_in ? std::optional(std::max(0.0, model.goes_in->seconds())) : std::nullopt;
  return {{"name", model.name},
          {"state", model.state},
          {"stays", model.is_pinned},
          {"weight_bytes", model.weight_bytes},
          {"need_bytes", model.need_bytes},
          {"waiting_requests", model.waiting},
          {"goes_in_s", SecondsOrNull(goes_in_s)},
          {"problem", model.problem},
          {"use", model.loaded ? json::value(UseOf(*model.loaded->cell, keys)) : nullptr}};
}

void ListModels(const AdminParts& parts, net::Responder& client) {
  json::array models;
  if (parts.cell != nullptr) {
    models.push_back(OnlyModel(parts));
  } else {
    for (const Models::Shelved& model : parts.models->Shelf())
      models.push_back(ShelvedModel(model, *parts.keys));
  }
  client.Send(
      JsonResponse(200, json::serialize(json::object{{"models", std::move(models)},
                                                     {"has_several", parts.models != nullptr}})));
}

// {"model": "qwen3-0.6b"}; an error is sent, and gives "".
std::string ModelIn(const AdminParts& parts, const Request& request, net::Responder& client) {
  if (parts.models == nullptr) {
    client.Send(ErrorResponse(
        Refused(409,
                "This server serves one model, which stays loaded. Start 'weft serve' without a "
                "model to load and unload all of the library.",
                "model", "one_model")));
    return "";
  }
  const auto fields = ObjectIn(request);
  const std::string asked = fields ? TextIn(*fields, "model") : "";
  std::string name = asked.empty() ? "" : parts.models->NameOf(asked);
  if (asked.empty())
    client.Send(ErrorResponse(Refused(
        400, "Expected {\"model\": the name of a model in /api/admin/models}.", "model", "")));
  else if (name.empty())
    client.Send(ErrorResponse(api::NoSuchModel(asked, parts.models->Names())));
  return name;
}

void Load(const AdminParts& parts, const Request& request, net::Responder& client) {
  const std::string name = ModelIn(parts, request, client);
  if (name.empty()) return;
  parts.models->LoadNow(name);
  client.Send(JsonResponse(202, json::serialize(json::object{{"loads", name}})));
}

void Unload(const AdminParts& parts, const Request& request, net::Responder& client) {
  const std::string name = ModelIn(parts, request, client);
  if (name.empty()) return;
  const Status begun = parts.models->UnloadNow(name);
  if (!begun.ok())
    return client.Send(
        ErrorResponse(Refused(409, begun.error().message(), "model", "not_unloaded")));
  client.Send(JsonResponse(202, json::serialize(json::object{{"unloads", name}})));
}

}  // namespace

std::vector<Route> AdminRoutes(const AdminParts& parts) {
  const auto take = [parts](void (*answer)(const AdminParts&, const Request&, net::Responder&)) {
    return [parts, answer](const Request& request, const Client& client) {
      answer(parts, request, *client);
    };
  };
  return {
      GetRoute("/api/admin/devices", Secret::kAdmin,
               [parts](const Request&, const Client& client) { ListDevices(parts, *client); }),
      {"POST", "/api/admin/devices/evict", Secret::kAdmin, kBodyBytes, take(Evict), nullptr,
       nullptr},
      {"DELETE", std::string(kEvictedPath) + "*", Secret::kAdmin, 0,
       [parts](const Request& request, const Client& client) {
         LetIn(*parts.evictions, request, *client);
       },
       nullptr, nullptr},
      GetRoute("/api/admin/models", Secret::kAdmin,
               [parts](const Request&, const Client& client) { ListModels(parts, *client); }),
      {"POST", "/api/admin/models/load", Secret::kAdmin, kBodyBytes, take(Load), nullptr, nullptr},
      {"POST", "/api/admin/models/unload", Secret::kAdmin, kBodyBytes, take(Unload), nullptr,
       nullptr},
  };
}

}  // namespace weft::server
