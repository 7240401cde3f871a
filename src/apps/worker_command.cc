// `weft worker ws://host:port`: joins a swarm from another machine and stays, reconnecting with
// growing pauses.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "apps/commands.h"
#include "apps/http_source.h"
#include "apps/worker_id.h"
#include "base/log.h"
#include "base/random.h"
#include "net/client.h"
#include "wire/version.h"
#include "worker/native_worker.h"

namespace weft::apps {
namespace {

constexpr Duration kFirstPause = Seconds(1);
constexpr Duration kLongestPause = Seconds(30);
// A connection that lasted this long was a good one: the next pause starts small again.
constexpr Duration kGoodConnection = Seconds(20);
// A worker that was told to stop waits so long for the server to take notice.
constexpr Duration kGoodbye = Seconds(2);

struct WorkerCommandOptions {
  std::string server;
  std::string memory;
  std::string token;
  std::string name;
  std::string fingerprint;
  std::string cache;
  bool insecure = false;
  uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
};

// One connection after another until a signal, or until the server refuses this worker.
class RemoteWorker {
 public:
  RemoteWorker(net::Url url, net::ClientTls tls, worker::NativeWorkerOptions options,
               std::shared_ptr<worker::PackageSource> source)
      : url_(std::move(url)),
        tls_(std::move(tls)),
        options_(std::move(options)),
        source_(std::move(source)),
        retry_(loop_),
        random_(static_cast<uint64_t>(MonotonicNow().us)) {}

  int Run() {
    loop_.OnStopSignal([this] { Stop(); });
    Connect();
    loop_.Run();
    worker_.reset();
    return exit_code_;
  }

 private:
  // Says goodbye and ends when the server has closed the connection, or does not.
  void Stop() {
    constexpr const char* kReason = "stopped by its user";
    stopping_ = true;
    if (!socket_ || !worker_) return loop_.Stop();
    LogInfo("leaving {}; once more ends at once", url_.Authority());
    worker_->Leave(kReason);  // posts its message to this loop
    loop_.Post([this] {
      if (socket_) socket_->Close(kReason);
    });
    retry_.FireAfter(kGoodbye, [this] { loop_.Stop(); });
  }

  void Connect() {
    LogInfo("connecting to {}", url_.Authority());
    connected_at_ = MonotonicNow();
    net::WebSocketClientLimits limits;
    // The server pings: a line that went dead without a word (a cable, a router, a machine that
    // sleeps) is noticed by the silence.
    limits.silence = wire::kPingInterval * 6;
    net::Headers headers;
    // In the handshake already, so that a wrong one is refused before there is a connection.
    if (!options_.join_token.empty()) {
      headers.emplace_back("Authorization", "Bearer " + options_.join_token);
    }
    net::ConnectWebSocket(
        loop_, url_, tls_, std::move(headers), limits,
        [this](auto socket) { return OnOpen(std::move(socket)); },
        [this](const Error& error) {
          if (error.code() == ErrorCode::kPermissionDenied) return GiveUp(error);
          Retry(error.message());
        });
  }

  net::WebSocketCallbacks OnOpen(std::shared_ptr<net::WebSocket> socket) {
    LogInfo("connected to {}; offering {}", url_.Authority(), HumanBytes(options_.memory_bytes));
    socket_ = std::move(socket);
    const std::weak_ptr<net::WebSocket> weak = socket_;
    worker_ = std::make_unique<worker::NativeWorker>(
        options_, source_,
        [this, weak](std::vector<Slice> pieces) {
          loop_.Post([weak, pieces = std::move(pieces)]() mutable {
            if (const auto open = weak.lock()) open->Send(std::move(pieces));
          });
        },
        [this](const Error& error) { loop_.Post([this, error] { GiveUp(error); }); });
    net::WebSocketCallbacks callbacks;
    callbacks.on_message = [this](Slice message) {
      if (worker_) worker_->OnMessage(std::move(message));
    };
    callbacks.on_closed = [this](const std::string& reason) {
      worker_.reset();
      socket_.reset();
      if (stopping_) return loop_.Stop();
      if (!gave_up_) Retry(reason);
    };
    return callbacks;
  }

  void GiveUp(const Error& error) {
    if (error.code() == ErrorCode::kUnavailable) {  // another connection may do better
      if (socket_) socket_->Close(error.message());
      return;
    }
    // The server's answer will not change by trying again soon.
    gave_up_ = true;
    LogError("{}", error.ToString());
    exit_code_ = 1;
    loop_.Stop();
  }

  void Retry(const std::string& reason) {
    if (MonotonicNow() - connected_at_ > kGoodConnection) pause_ = kFirstPause;
    // Jitter: a server that restarts is not met by all its workers in one instant.
    const Duration wait{
        static_cast<int64_t>(static_cast<double>(pause_.us) * (0.75 + 0.5 * random_.Uniform()))};
    LogWarn("not connected ({}); trying again in {:.1f} s", reason, wait.seconds());
    retry_.FireAfter(wait, [this] { Connect(); });
    pause_ = std::min(pause_ * 2, kLongestPause);
  }

  const net::Url url_;
  const net::ClientTls tls_;
  const worker::NativeWorkerOptions options_;
  const std::shared_ptr<worker::PackageSource> source_;
  net::EventLoop loop_;
  net::EventLoop::Timer retry_;
  SeededRandom random_;
  std::shared_ptr<net::WebSocket> socket_;
  std::unique_ptr<worker::NativeWorker> worker_;
  Instant connected_at_;
  Duration pause_ = kFirstPause;
  bool gave_up_ = false, stopping_ = false;
  int exit_code_ = 0;
};

Status RunWorker(const WorkerCommandOptions& options, int* exit_code) {
  ASSIGN_OR_RETURN(net::Url url, net::ParseUrl(options.server));
  worker::NativeWorkerOptions worker_options;
  worker_options.join_token = options.token.empty() ? url.fragment : options.token;
  if (worker_options.join_token.empty()) {
    if (const char* from_environment = std::getenv("WEFT_JOIN_TOKEN")) {
      worker_options.join_token = from_environment;
    }
  }
  url.path = "/worker";
  const std::filesystem::path cache =
      options.cache.empty() ? DefaultCacheFolder() : std::filesystem::path(options.cache);
  worker_options.memory_bytes =
      options.memory.empty() ? worker::DefaultMemoryOffer() : *ParseByteCount(options.memory);
  worker_options.thread_count = options.threads;
  worker_options.name = options.name;
  const WorkerId id(cache);
  worker_options.worker_id = id.text();
  const net::ClientTls tls{options.fingerprint, options.insecure};
  ASSIGN_OR_RETURN(auto source, MakeHttpSource({url, tls, worker_options.join_token, cache}));
  *exit_code = RemoteWorker(url, tls, worker_options, std::move(source)).Run();
  return OkStatus();
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "native worker";
}

}  // namespace

void AddWorkerCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<WorkerCommandOptions>();
  options->name = HostName();
  CLI::App* command = app.add_subcommand(
      "worker", "Help a swarm from this machine: computes a part of the model, no other setup.");
  command
      ->add_option("server", options->server,
                   "Where the swarm is: ws://host:port or wss://host:port#token")
      ->required();
  command
      ->add_option("--memory", options->memory,
                   "Memory to offer, e.g. 4GiB (default: half of what is free)")
      ->check(ByteCountOption());
  command->add_option("--threads", options->threads, "Threads that compute")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->add_option("--name", options->name, "Name shown to the others")->capture_default_str();
  command->add_option("--token", options->token,
                      "Join token (also after '#' in the address, or in WEFT_JOIN_TOKEN)");
  command->add_option("--fingerprint", options->fingerprint,
                      "SHA-256 of the server's self-signed certificate, as it prints it");
  command->add_flag("--insecure", options->insecure,
                    "Accept any certificate (only where nobody can interfere)");
  command->add_option("--cache", options->cache,
                      "Folder for downloaded weights (default: ~/.cache/weft)");
  command->callback([options, exit_code] {
    const Status status = RunWorker(*options, exit_code);
    if (!status.ok()) *exit_code = ReportStatus(status);
  });
}

}  // namespace weft::apps
