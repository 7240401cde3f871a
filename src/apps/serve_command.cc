// `weft serve PACKAGE`: the orchestrator, its page and API on one port, and a built-in native
// worker.
#include "apps/serve_command.h"

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <iostream>
#include <thread>

#include "apps/commands.h"
#include "apps/local_worker.h"
#include "apps/model_info.h"
#include "apps/qr_code.h"
#include "apps/web_server.h"
#include "base/log.h"
#include "base/random.h"
#include "hub/hub_settings.h"
#include "hub/library.h"
#include "net/address.h"

namespace weft::apps {
namespace {

constexpr size_t kSecretBytes = 16;  // 128 bits
// How often the log looks for a new state of the swarm: soon while it comes up, seldom while it
// serves.
constexpr Duration kLookInterval = Milliseconds(20);
constexpr Duration kLookIntervalUp = Seconds(1);
// How long a server that stops waits for clients to take their answers.
constexpr Duration kStopLimit = Seconds(1);

// Secrets in clear, only between making them and printing them.
struct Secrets {
  std::string api_key;
  std::string join_token;
};

std::string SecretFrom(const char* environment_name) {
  const char* given = std::getenv(environment_name);
  return given != nullptr && *given != '\0' ? given : SecureRandomHex(kSecretBytes);
}

std::filesystem::path StateFolder() {
  if (const char* xdg = std::getenv("XDG_STATE_HOME"); xdg != nullptr && *xdg != '\0') {
    return std::filesystem::path(xdg) / "weft";
  }
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home != nullptr ? home : "/tmp") / ".local" / "state" / "weft";
}

// web/dist of the source tree this program was built in, or share/weft/web of an installation.
std::filesystem::path FindWebRoot() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const char* relative : {"../../web/dist", "../share/weft/web"}) {
    const auto candidate = program.parent_path() / relative;
    if (std::filesystem::exists(candidate / "index.html")) return candidate.lexically_normal();
  }
  return (program.parent_path() / "../../web/dist").lexically_normal();
}

class ServeCommand {
 public:
  explicit ServeCommand(ServeOptions options)
      : options_(std::move(options)),
        started_(MonotonicNow()),
        pool_(2),
        look_timer_(loop_),
        stop_timer_(loop_) {}

  // Everything that can fail: afterwards the port is open.
  Status Start() {
    if (options_.share && options_.address == "127.0.0.1") options_.address = "0.0.0.0";
    if (options_.share && options_.tls.empty()) options_.tls = "auto";
    ASSIGN_OR_RETURN(const std::filesystem::path folder,
                     hub::FindPackage(hub::LibraryFolder(std::getenv), options_.package));
    ASSIGN_OR_RETURN(package_, package::Package::Open(folder));
    ASSIGN_OR_RETURN(api::ModelText text, LoadModelText(package_));
    TRY(MakeSecrets());
    MakeHost(package_, std::make_shared<const api::ModelText>(std::move(text)));
    TRY(Listen());
    if (!options_.no_worker && package_.manifest.lowered) StartWorker(package_);
    return OkStatus();
  }

  void ServeUntilSignal() {
    PrintAddresses(package_);
    loop_.OnStopSignal([this] {
      LogInfo("stopping");
      BeginStop();
    });
    loop_.Run();
  }

  // Until Stop(), which any thread may call.
  void Serve() { loop_.Run(); }
  void Stop() {
    loop_.Post([this] { BeginStop(); });
  }
  std::string BaseUrl() const { return Base("http"); }

 private:
  // Requests that wait are told why they end; the loop goes on until they have their answers.
  void BeginStop() {
    host_->EndRequests(Error(ErrorCode::kUnavailable, "The server is stopping."));
    feed_->EndSubscriptions();
    stop_timer_.FireAfter(kStopLimit, [this] { loop_.Stop(); });
    server_->Drain([this] { loop_.Stop(); });
  }

  bool IsPublic() const { return !net::IsLoopbackAddress(options_.address); }

  Status MakeSecrets() {
    if (!IsPublic()) return OkStatus();
    secrets_.api_key = SecretFrom("WEFT_API_KEY");
    secrets_.join_token = SecretFrom("WEFT_JOIN_TOKEN");
    for (const std::string* secret : {&secrets_.api_key, &secrets_.join_token}) {
      if (secret->size() < 2 * kSecretBytes) {
        return Error(
            ErrorCode::kInvalidArgument,
            "WEFT_API_KEY and WEFT_JOIN_TOKEN must have at least 32 characters; leave them "
            "unset to have new ones made.");
      }
    }
    return OkStatus();
  }

  void MakeHost(const package::Package& package, std::shared_ptr<const api::ModelText> text) {
    const uint32_t context =
        package.manifest.context_length > 0
            ? std::min(options_.context_length, package.manifest.context_length)
            : options_.context_length;
    if (context < options_.context_length) {
      LogInfo("the model was made for {} positions: the context is {}", context, context);
    }
    swarm::CoreOptions core;
    core.model = ModelInfoOf(package);
    core.context_length = context;
    core.session_count = options_.sessions;
    core.queue_limit = options_.queue;
    core.generate_interval = options_.generate_interval;
    if (!secrets_.join_token.empty()) core.join_token_sha256_hex = HashSecret(secrets_.join_token);
    host_ = std::make_unique<SwarmHost>(loop_, pool_, core);
    feed_ = std::make_unique<SwarmFeed>(loop_, *host_, ModelCardOf(package, context));
    host_->OnSwarmChanged([this] { OnSwarmChanged(); });
    chat_ = std::make_unique<ChatRoutes>(
        ChatRoutes::Options{package.manifest.name, context, std::time(nullptr)}, std::move(text),
        *host_, loop_, pool_);
    package_routes_ = std::make_unique<PackageRoutes>(package, loop_, pool_);
  }

  Status Listen() {
    WeftServer::Parts parts;
    parts.host = host_.get();
    parts.feed = feed_.get();
    parts.chat = chat_.get();
    parts.package = package_routes_.get();
    const auto root =
        options_.web_root.empty() ? FindWebRoot() : std::filesystem::path(options_.web_root);
    auto files = StaticFiles::Load(root);
    if (files.ok()) {
      parts.files = std::move(files).value();
    } else if (!options_.web_root.empty()) {
      return std::move(files).error();
    } else {
      LogWarn("{} The API works without it.", files.error().message());
    }
    handler_ = std::make_unique<WeftServer>(std::move(parts));
    net::ServerOptions server;
    server.address = options_.address;
    server.port = options_.port;
    ASSIGN_OR_RETURN(server.tls, MakeTls());
    tls_ = server.tls;
    ASSIGN_OR_RETURN(server_, net::Server::Listen(loop_, server, handler_.get()));
    handler_->SetAccess(MakeAccess());
    handler_->SetShare(MakeShare());
    return OkStatus();
  }

  std::vector<std::string> ReachableHosts() const {
    std::vector<std::string> hosts;
    if (options_.address == "0.0.0.0") hosts = net::LanAddresses();
    if (options_.address != "0.0.0.0" && IsPublic()) hosts.push_back(options_.address);
    hosts.insert(hosts.end(), options_.host_names.begin(), options_.host_names.end());
    hosts.insert(hosts.end(), {"localhost", "127.0.0.1"});
    return hosts;
  }

  Result<std::shared_ptr<net::TlsContext>> MakeTls() {
    if (options_.tls.empty()) return std::shared_ptr<net::TlsContext>();
    if (options_.tls == "auto") return net::SelfSignedTls(StateFolder(), ReachableHosts());
    return net::LoadTls(options_.tls, options_.tls_key.empty() ? options_.tls : options_.tls_key);
  }

  AccessPolicy MakeAccess() const {
    AccessPolicy access;
    const std::string port = std::to_string(server_->port());
    const uint16_t default_port = tls_ ? 443 : 80;
    for (const std::string& host : ReachableHosts()) {
      access.allowed_hosts.insert(host + ":" + port);
      if (server_->port() == default_port) access.allowed_hosts.insert(host);
    }
    access.allowed_hosts.insert("[::1]:" + port);
    // A name given with its own port is behind a proxy and comes as it is.
    access.allowed_hosts.insert(options_.host_names.begin(), options_.host_names.end());
    access.allowed_origins.insert(options_.allowed_origins.begin(), options_.allowed_origins.end());
    if (!secrets_.api_key.empty()) access.api_key_hash = HashSecret(secrets_.api_key);
    if (!secrets_.join_token.empty()) access.join_token_hash = HashSecret(secrets_.join_token);
    return access;
  }

  std::string Base(const std::string& scheme) const {
    const std::string host = IsPublic() ? ReachableHosts().front() : "127.0.0.1";
    return scheme + (tls_ ? "s" : "") + "://" + host + ":" + std::to_string(server_->port());
  }

  ShareInfo MakeShare() const {
    ShareInfo share;
    share.lan = IsPublic();
    share.chat_url = Base("http") + "/";
    share.join_url = Base("http") + "/join";
    if (!secrets_.join_token.empty()) share.join_url += "#" + secrets_.join_token;
    if (share.lan) share.qr_svg = QrAsSvg(share.join_url);
    return share;
  }

  void StartWorker(const package::Package& package) {
    worker::NativeWorkerOptions worker;
    worker.name = "this server";
    worker.worker_id = "built-in";
    worker.join_token = secrets_.join_token;
    worker.thread_count = options_.threads;
    worker.memory_bytes = options_.worker_memory.empty() ? worker::DefaultMemoryOffer()
                                                         : *ParseByteCount(options_.worker_memory);
    worker_ = std::make_unique<LocalWorker>(loop_, *host_, worker, package, nullptr);
  }

  void PrintAddresses(const package::Package& package) const {
    const ShareInfo share = MakeShare();
    std::cout << "weft " << wire::kServerVersion << " serves " << package.manifest.name << " ("
              << package.manifest.quantisation << ")\n\n"
              << "  chat:  " << share.chat_url;
    if (!secrets_.api_key.empty()) std::cout << "#key=" << secrets_.api_key;
    std::cout << "\n  help:  " << share.join_url
              << "   (open it in a browser tab and press the button)\n"
              << "  API:   " << Base("http") << "/v1\n";
    if (!package.manifest.lowered) {
      std::cout
          << "\n  This model has no programs for native workers: browser tabs compute it with\n"
             "  onnxruntime-web. Open the help address and press the button.\n";
    }
    if (!IsPublic()) {
      std::cout << "\n  To let other devices on your network help:  weft serve --share "
                << options_.package << "\n";
    } else {
      std::cout << "  API key:     " << secrets_.api_key
                << "\n  join token:  " << secrets_.join_token << "\n  native worker:  weft worker "
                << Base("ws") << "#" << secrets_.join_token;
      if (tls_) std::cout << " --fingerprint " << net::CertificateFingerprint(*tls_);
      std::cout << "\n";
      if (options_.tls == "auto") {
        std::cout << "\n  The certificate is self-signed: browsers warn once. Its SHA-256 is\n  "
                  << net::CertificateFingerprint(*tls_) << "\n";
      } else if (!tls_) {
        std::cout
            << "\n  Without TLS, tabs on other devices cannot help (browsers give them no WebGPU,\n"
               "  no hashing and no cache on plain http) and keys travel in clear. Use --tls "
               "auto.\n";
      }
      std::cout << "\n" << QrForTerminal(share.join_url);
    }
    std::cout << std::endl;
  }

  // Runs for every step: what it costs is paid per token, so the picture is only taken now and
  // then.
  void OnSwarmChanged() {
    feed_->Changed();
    if (look_pending_) return;
    look_pending_ = true;
    look_timer_.FireAfter(last_state_ == swarm::SwarmState::kUp ? kLookIntervalUp : kLookInterval,
                          [this] {
                            look_pending_ = false;
                            const swarm::Snapshot snapshot = host_->snapshot();
                            if (snapshot.state == last_state_) return;
                            last_state_ = snapshot.state;
                            LogInfo("{} ({:.2f} s after start)", snapshot.message,
                                    (MonotonicNow() - started_).seconds());
                          });
  }

  ServeOptions options_;
  package::Package package_;
  const Instant started_;
  Secrets secrets_;
  net::EventLoop loop_;
  net::ThreadPool pool_;
  std::shared_ptr<net::TlsContext> tls_;
  std::unique_ptr<SwarmHost> host_;
  std::unique_ptr<SwarmFeed> feed_;
  std::unique_ptr<ChatRoutes> chat_;
  std::unique_ptr<PackageRoutes> package_routes_;
  std::unique_ptr<WeftServer> handler_;
  std::unique_ptr<net::Server> server_;
  std::unique_ptr<LocalWorker> worker_;
  net::EventLoop::Timer look_timer_;
  net::EventLoop::Timer stop_timer_;
  bool look_pending_ = false;
  swarm::SwarmState last_state_ = swarm::SwarmState::kDown;
};

}  // namespace

// The server and the thread that runs its loop.
struct BackgroundServer::State {
  explicit State(const ServeOptions& options) : server(options) {}
  ServeCommand server;
  std::thread thread;
};

Result<BackgroundServer> BackgroundServer::Start(const ServeOptions& options) {
  auto state = std::make_unique<State>(options);
  TRY(state->server.Start());
  state->thread = std::thread([server = &state->server] { server->Serve(); });
  return BackgroundServer(std::move(state));
}

BackgroundServer::BackgroundServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
BackgroundServer::BackgroundServer(BackgroundServer&&) noexcept = default;

BackgroundServer::~BackgroundServer() {
  if (!state_) return;
  state_->server.Stop();
  state_->thread.join();
}

std::string BackgroundServer::url() const {
  return state_->server.BaseUrl();
}

namespace {

Status Serve(const ServeOptions& options) {
  ServeCommand command(options);
  TRY(command.Start());
  command.ServeUntilSignal();
  return OkStatus();
}

}  // namespace

void AddServeCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand(
      "serve",
      "Serve a model: chat page, OpenAI-compatible API, and the address where devices join.");
  command->add_option("package", options->package, "A package's folder, or its name in the library")
      ->required();
  command->add_flag(
      "--share", options->share,
      "Let devices on your network join: LAN address, TLS, join token, API key, QR code");
  command->add_option("--address", options->address, "IP address to listen on")
      ->capture_default_str();
  command->add_option("--port", options->port, "Port; 0 takes a free one")->capture_default_str();
  command->add_option("--tls", options->tls, "'auto' (self-signed) or a PEM certificate file");
  command->add_option("--tls-key", options->tls_key, "PEM key of the certificate");
  command
      ->add_option(
          "--worker-memory", options->worker_memory,
          "Memory that the built-in worker offers, e.g. 4GiB (default: half of what is free)")
      ->check(ByteCountOption());
  command->add_flag("--no-worker", options->no_worker, "Start without the built-in worker");
  command->add_option("--threads", options->threads, "Threads of the built-in worker")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->add_option("--context", options->context_length, "Positions of a conversation")
      ->capture_default_str()
      ->check(CLI::Range(16, 1 << 20));
  command->add_option("--sessions", options->sessions, "Conversations computed at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--generate-interval", options->generate_interval,
                   "Tokens in a frame of a tab that runs the whole model; 0: by its speed")
      ->capture_default_str()
      ->check(CLI::Range(0, 256));
  command->add_option("--queue", options->queue, "Requests that may wait")
      ->capture_default_str()
      ->check(CLI::Range(0, 100000));
  command->add_option("--web-root", options->web_root,
                      "Folder of the built page (default: beside this program)");
  command->add_option("--host-name", options->host_names, "Another name this server is reached by");
  command->add_option("--allow-origin", options->allowed_origins,
                      "Origin of a page that may call the API (CORS)");
  command->callback([options, exit_code] { *exit_code = ReportStatus(Serve(*options)); });
}

}  // namespace weft::apps
