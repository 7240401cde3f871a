// A device whose engine is the simulator's hash model, behind a real socket. A token depends on all
// tokens before it, so wrong keys and values show as a wrong text, and computing it costs little:
// for benchmarks with more clients than a machine can compute answers for.
//
//   build/release/hash_worker PACKAGE NAME ws://SERVER...
//
// The package gives the model's shape; its vocabulary is a power of two. The device takes the whole
// model, for rows of the hash model have 8 columns and those of the package others. It goes from
// server to server as a native worker does: at once where a server names another one, and every
// quarter of a second in turn while none takes it.
#include <fmt/format.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/model_info.h"
#include "base/check.h"
#include "net/client.h"
#include "net/loop.h"
#include "package/package.h"
#include "sim/model_worker.h"
#include "wire/version.h"

namespace weft {
namespace {

// The virtual clock of the simulator's worker follows the real one in steps of this.
constexpr Duration kTick = Milliseconds(1);
constexpr Duration kRetry = Milliseconds(250);
constexpr Duration kSilence = Seconds(3);

sim::Device DeviceOf(const std::string& name) {
  sim::Device device;
  device.id = name;
  device.memory_bytes = uint64_t{8} << 30;
  device.overhead_us = 500;
  device.bytes_per_us = 100'000;
  device.link_bytes_per_us = 1000;
  return device;
}

class HashWorker {
 public:
  HashWorker(net::EventLoop& loop, swarm::CoreOptions options, const std::string& name,
             std::vector<net::Url> servers)
      : loop_(loop),
        options_(std::move(options)),
        costs_(options_),
        model_(sim::HashModel::Of(options_.model)),
        device_(DeviceOf(name)),
        servers_(std::move(servers)),
        tick_(loop),
        retry_(loop) {
    CatchUp();
    Tick();
    Connect();
  }

 private:
  void Tick() {
    CatchUp();
    tick_.FireAfter(kTick, [this] { Tick(); });
  }
  void CatchUp() {
    while (scheduler_.Step(MonotonicNow())) {
    }
  }

  void Connect() {
    net::Url url = servers_[at_];
    url.path = "/worker";
    net::WebSocketClientLimits limits;
    limits.silence = kSilence;
    net::ConnectWebSocket(
        loop_, url, {}, {}, limits,
        [this](std::shared_ptr<net::WebSocket> socket) { return OnOpen(std::move(socket)); },
        [this](const Error&) { Next(); });
  }
  void Next() {
    at_ = (at_ + 1) % servers_.size();
    retry_.FireAfter(kRetry, [this] { Connect(); });
  }

  net::WebSocketCallbacks OnOpen(std::shared_ptr<net::WebSocket> socket) {
    CatchUp();
    socket_ = std::move(socket);
    // A server that refused it does not want to see what it holds.
    if (worker_ && !worker_->refused() && worker_->can_connect_again())
      worker_->ConnectAgain();
    else
      Begin();
    net::WebSocketCallbacks callbacks;
    callbacks.on_message = [this](Slice message) { OnMessage(std::move(message)); };
    callbacks.on_close_frame = [this](uint16_t code, const std::string& reason) {
      if (code == net::kTryElsewhere) GoTo(reason);
    };
    callbacks.on_closed = [this](const std::string&) {
      CatchUp();
      socket_.reset();
      worker_->LoseConnection();
      Next();
    };
    return callbacks;
  }
  // The next one to be tried.
  void GoTo(const std::string& url) {
    const auto wanted = net::ParseUrl(url);
    for (size_t i = 0; wanted.ok() && i < servers_.size(); ++i)
      if (servers_[i].port == wanted->port && servers_[i].host == wanted->host)
        at_ = (i + servers_.size() - 1) % servers_.size();
  }

  void Begin() {
    sim::ModelWorker::Hooks hooks;
    hooks.send = [this](sim::FromWorker message) { Send(std::move(message)); };
    hooks.violation = [](const std::string& text) { fmt::print("violation: {}\n", text); };
    hooks.crash = [] {};
    hooks.numbers_failed = [](uint32_t) {};
    hooks.datagrams = [](const auto&) {};
    worker_ = std::make_shared<sim::ModelWorker>(options_, costs_, model_, device_, scheduler_,
                                                 static_cast<uint64_t>(MonotonicNow().us), hooks);
  }

  void OnMessage(Slice message) {
    CatchUp();
    const ByteSpan bytes = message.bytes();
    if (bytes.empty() || bytes[0] != wire::kControlByte)
      return worker_->OnFrame(std::move(message));
    wire::pb::ServerMessage control;
    CHECK(control.ParseFromArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
    worker_->OnControl(std::move(control));
    if (worker_->has_hung_up() && socket_) socket_->Close("");
  }
  void Send(sim::FromWorker message) {
    if (!socket_) return;
    if (auto* frame = std::get_if<Slice>(&message)) return socket_->Send({std::move(*frame)});
    const auto& control = std::get<wire::pb::WorkerMessage>(message);
    std::vector<uint8_t> bytes(1 + control.ByteSizeLong());
    bytes[0] = wire::kControlByte;
    CHECK(control.SerializeToArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
    socket_->Send({Slice(std::move(bytes))});
  }

  net::EventLoop& loop_;
  const swarm::CoreOptions options_;
  const swarm::Costs costs_;
  const sim::HashModel model_;
  sim::Device device_;
  const std::vector<net::Url> servers_;
  size_t at_ = 0;  // of the one that is tried, or that it is at
  net::EventLoop::Timer tick_, retry_;
  sim::Scheduler scheduler_;
  std::shared_ptr<net::WebSocket> socket_;
  std::shared_ptr<sim::ModelWorker> worker_;  // outlives connections
};

int Main(std::span<char*> arguments) {
  if (arguments.size() < 4) {
    fmt::print(stderr, "usage: hash_worker PACKAGE NAME ws://SERVER...\n");
    return 2;
  }
  const auto package = package::Package::Open(arguments[1]);
  CHECK(package.ok(), package.ok() ? "" : package.error().message());
  std::vector<net::Url> servers;
  for (const char* text : arguments.subspan(3)) {
    auto url = net::ParseUrl(text);
    CHECK(url.ok(), text);
    servers.push_back(std::move(url).value());
  }
  net::EventLoop loop;
  const HashWorker worker(loop, swarm::OptionsFor(apps::ModelInfoOf(*package), 4096, 1),
                          arguments[2], std::move(servers));
  loop.OnStopSignal([&loop] { loop.Stop(); });
  loop.Run();
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  return weft::Main({argv, static_cast<size_t>(argc)});
}
