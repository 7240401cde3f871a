#include "apps/remote_cells.h"

#include <algorithm>
#include <boost/json.hpp>
#include <set>
#include <utility>

#include "apps/cell_offer.h"
#include "base/log.h"
#include "engine/engine.h"

namespace weft::apps {
namespace json = boost::json;

namespace {

// Of a server that does not answer, and of one that knows no such question: it may be another one
// by then.
constexpr Duration kAwayPause = Seconds(5), kOneModelPause = Seconds(60);
constexpr Duration kFirstAnswerLimit = Seconds(3), kAnswerLimit = Seconds(40);

}  // namespace

Result<RemoteCellList> ParseCellList(std::string_view text) {
  const auto wrong = [](const std::string& what) {
    return Error(ErrorCode::kInvalidData, "The server's list of models " + what + ".");
  };
  boost::system::error_code failed;
  const json::value value = json::parse({text.data(), text.size()}, failed);
  if (failed || !value.is_object()) return wrong("is no JSON object");
  const auto number = [](const json::object& object, const char* name) -> std::optional<uint64_t> {
    const json::value* found = object.if_contains(name);
    if (found == nullptr || !found->is_int64() || found->get_int64() < 0) return std::nullopt;
    return static_cast<uint64_t>(found->get_int64());
  };
  const auto version = number(value.get_object(), "version");
  const json::value* cells = value.get_object().if_contains("cells");
  if (!version || cells == nullptr || !cells->is_array())
    return wrong("lacks its version or cells");
  RemoteCellList list{*version, {}};
  for (const json::value& each : cells->get_array()) {
    if (!each.is_object()) return wrong("has a cell that is no object");
    const auto cell = number(each.get_object(), "cell");
    const auto need_bytes = number(each.get_object(), "need_bytes");
    const json::value* model = each.get_object().if_contains("model");
    if (!cell || *cell == 0 || *cell > UINT32_MAX || !need_bytes || model == nullptr ||
        !model->is_string())
      return wrong("has a cell without number, model or memory");
    list.cells.push_back(
        {static_cast<uint32_t>(*cell), std::string(model->get_string()), *need_bytes});
  }
  return list;
}

RemoteCells::RemoteCells(net::EventLoop& loop, std::vector<ServerAddress> servers,
                         worker::NativeWorkerOptions options, MakeSource make_source,
                         std::function<void(Status)> on_over)
    : loop_(loop),
      servers_(std::move(servers)),
      options_(std::move(options)),
      make_source_(std::move(make_source)),
      on_over_(std::move(on_over)) {}

RemoteCells::~RemoteCells() {
  stops_ = true;
  if (asking_.joinable()) asking_.join();
}

void RemoteCells::Start() {
  asking_ = std::thread([this] { AskAgainAndAgain(); });
}

void RemoteCells::Pause(Duration time) const {
  const Instant end = MonotonicNow() + time;
  while (MonotonicNow() < end && !stops_)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

// A server that does not answer in time leaves the question to the next one.
void RemoteCells::AskAgainAndAgain() {
  ServerList servers(servers_);
  std::optional<net::HttpClient> client;
  uint64_t seen = 0;
  while (!stops_) {
    if (!client) client.emplace(servers.current().url, servers.current().tls);
    net::HttpCall call;
    call.path = "/worker/cells?device=" + options_.worker_id +
                "&memory=" + std::to_string(options_.memory_bytes) +
                "&seen=" + std::to_string(seen);
    if (!options_.join_token.empty())
      call.headers.emplace_back("Authorization", "Bearer " + options_.join_token);
    // What a device has not seen yet is told at once.
    call.timeout = seen == 0 ? kFirstAnswerLimit : kAnswerLimit;
    call.cancelled = &stops_;
    const auto reply = client->Call(call);
    if (stops_) return;
    if (reply.ok() && reply->status == 200) {
      auto list = ParseCellList(reply->body);
      if (list.ok()) {
        seen = list->version;
        servers.Settle();
        loop_.Post([this, list = std::move(*list)] { OnList(list); });
        continue;
      }
      LogWarn("{}", list.error().message());
    }
    seen = 0;
    if (!reply.ok()) {
      client.reset();
      if (servers.Next()) continue;
    }
    loop_.Post([this] { HelpOne(); });
    Pause(reply.ok() ? kOneModelPause : kAwayPause);
  }
}

void RemoteCells::HelpOne() {
  // Sockets of models that were there go on or come again by themselves.
  if (leaving_ || single_ || !helped_.empty() || !on_over_) return;
  const auto servers = std::make_shared<ServerList>(servers_);
  auto source = make_source_(servers);
  if (!source.ok()) return Over(source.error());
  single_ = std::make_unique<RemoteWorker>(loop_, servers, "", options_, std::move(*source),
                                           [this](Status status) { Over(std::move(status)); });
  single_->Start();
}

void RemoteCells::OnList(const RemoteCellList& list) {
  if (leaving_ || !on_over_) return;
  Drop(std::exchange(single_, nullptr));
  if (!options_.memory) {
    options_.memory = std::make_shared<engine::MemoryLimit>(options_.memory_bytes);
    options_.threads = engine::ShareThreads(options_.thread_count);
  }
  options_.datagrams = nullptr;  // of servers with one model
  std::set<uint32_t> there;
  for (const RemoteCell& cell : list.cells) there.insert(cell.cell);
  for (auto helped = helped_.begin(); helped != helped_.end();) {
    if (there.contains(helped->first)) {
      ++helped;
      continue;
    }
    LogInfo("'{}' was unloaded", helped->second.model);
    Drop(std::move(helped->second.worker));
    helped = helped_.erase(helped);
  }
  for (const RemoteCell& cell : list.cells)
    helped_.try_emplace(cell.cell, Helped{.model = cell.model, .need_bytes = cell.need_bytes});
  HelpMore();
}

// Those that were loaded first come first. A model is offered what it needs, so that the next one
// finds the rest.
void RemoteCells::HelpMore() {
  uint64_t left_bytes = options_.memory_bytes;
  for (const auto& [cell, helped] : helped_) left_bytes -= std::min(left_bytes, helped.offer_bytes);
  for (auto& [cell, helped] : helped_) {
    const uint64_t offer_bytes = OfferFor(helped.need_bytes, left_bytes);
    if (helped.worker || helped.is_given_up || offer_bytes == 0) continue;
    const auto servers = std::make_shared<ServerList>(servers_);
    auto source = make_source_(servers);
    if (!source.ok()) return Over(source.error());
    LogInfo("helping '{}'", helped.model);
    helped.offer_bytes = offer_bytes;
    left_bytes -= offer_bytes;
    worker::NativeWorkerOptions options = options_;
    options.memory_bytes = offer_bytes;
    helped.worker = std::make_unique<RemoteWorker>(
        loop_, servers, "cell=" + std::to_string(cell), options, std::move(*source),
        [this, cell = cell](const Status& status) { OnCellOver(cell, status); });
    helped.worker->Start();
  }
}

// What a worker holds is let go of on a thread, for that waits for a step that it computes.
void RemoteCells::Drop(std::unique_ptr<RemoteWorker> worker) {
  if (!worker) return;
  auto held = std::make_shared<std::shared_ptr<void>>(worker->End());
  ends_.Push([held] { held->reset(); });
}

void RemoteCells::OnCellOver(uint32_t cell, const Status& status) {
  if (leaving_) {
    if (leaving_count_ > 0 && --leaving_count_ == 0) Over(OkStatus());
    return;
  }
  LogError("the worker of '{}' stopped: {}", helped_[cell].model, status.error().message());
  loop_.Post([this, cell, status] { GiveUp(cell, status); });
}

// A device that one model's server refuses is refused by all of them. What else goes wrong ends
// the help for this model: one that is being unloaded has no package any more, for example.
void RemoteCells::GiveUp(uint32_t cell, const Status& status) {
  const auto found = helped_.find(cell);
  if (found == helped_.end() || leaving_) return;
  const ErrorCode code = status.error().code();
  if (code == ErrorCode::kPermissionDenied) return Over(status);
  Helped& helped = found->second;
  helped.is_given_up = true;
  helped.offer_bytes = 0;
  Drop(std::move(helped.worker));
  const auto is_given_up = [](const auto& each) { return each.second.is_given_up; };
  if (code != ErrorCode::kNotFound && std::all_of(helped_.begin(), helped_.end(), is_given_up))
    return Over(status);
  HelpMore();
}

void RemoteCells::Leave(const std::string& reason) {
  if (std::exchange(leaving_, true)) return;
  stops_ = true;
  if (single_) return single_->Leave(reason);
  std::vector<RemoteWorker*> workers;
  for (const auto& [cell, helped] : helped_)
    if (helped.worker) workers.push_back(helped.worker.get());
  leaving_count_ = workers.size();
  if (workers.empty()) return Over(OkStatus());
  for (RemoteWorker* worker : workers) worker->Leave(reason);
}

void RemoteCells::Over(Status status) {
  stops_ = true;
  if (const auto on_over = std::exchange(on_over_, nullptr)) on_over(std::move(status));
}

}  // namespace weft::apps
