// `weft serve PACKAGE`: the orchestrator, its page and API on one port, and a built-in native
// worker.
#include "apps/serve_command.h"

#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <thread>

#include "apps/cluster_settings.h"
#include "apps/commands.h"
#include "apps/gpu_beside.h"
#include "apps/local_worker.h"
#include "apps/model_info.h"
#include "apps/model_library.h"
#include "apps/port_owner.h"
#include "apps/pull_model.h"
#include "apps/remote_worker.h"
#include "apps/secret_file.h"
#include "apps/service_manager.h"
#include "apps/settings.h"
#include "apps/state_folder.h"
#include "apps/web_files.h"
#include "base/log.h"
#include "base/log_line.h"
#include "net/udp_socket.h"
#include "registry/library.h"
#include "registry/registry_settings.h"
#include "server/qr_code.h"
#include "server/server.h"
#include "swarm/experts/exchange_costs.h"
#include "wire/version.h"

namespace weft::apps {
namespace {

// That the first line names.
constexpr size_t kMostNamed = 8;

// What --gpu takes.
const std::map<std::string, GpuUse> kGpuUses = {
    {"auto", GpuUse::kAuto}, {"off", GpuUse::kOff}, {"software", GpuUse::kSoftware}};

// What --expert-copies takes: of swarm::CoreOptions.
const std::map<std::string, uint32_t> kExpertCopies = {
    {"auto", 0}, {"1", 1}, {"2", 2}, {"3", 3}, {"4", 4}};

// The page's files; nullopt with a warning when none were built and none were asked for.
Result<std::optional<server::StaticFiles>> LoadPage(const std::string& web_root) {
  auto files =
      server::StaticFiles::Load(web_root.empty() ? FindWebRoot() : std::filesystem::path(web_root));
  if (files.ok()) return std::optional(std::move(files).value());
  if (!web_root.empty()) return std::move(files).error();
  LogWarn("{} The API works without it.", files.error().message());
  return std::optional<server::StaticFiles>();
}

// Rows kept for recovery may take a twentieth of the machine's memory, a gibibyte at most.
uint64_t HistoryBytes(const std::string& wanted) {
  if (!wanted.empty()) return *ParseByteCount(wanted);
  return std::min<uint64_t>(worker::TotalMemory() / 20, 1ull << 30);
}

// One for each port: a server that starts again is found by its devices where the one before was.
std::filesystem::path JournalOf(const ServeOptions& options) {
  if (options.journal == "off") return {};
  if (!options.journal.empty()) return options.journal;
  return JournalFile(options.port);
}

// Those that files hold.
Result<server::Secrets> ReadSecrets(const std::string& key_file, const std::string& token_file) {
  server::Secrets secrets;
  if (!key_file.empty()) {
    ASSIGN_OR_RETURN(secrets.api_key, ReadSecretFile(key_file, "API key"));
  }
  if (!token_file.empty()) {
    ASSIGN_OR_RETURN(secrets.join_token, ReadSecretFile(token_file, "join token"));
  }
  return secrets;
}

// A server that others reach at its --url is shared.
bool IsShared(const ServeOptions& options) {
  if (options.share || options.cluster.empty()) return options.share;
  const auto url = net::ParseUrl(options.url);
  return url.ok() && !IsThisMachine(*url);
}

server::ServerOptions ServerOptionsOf(const ServeOptions& options) {
  server::ServerOptions server;
  const bool share = IsShared(options);
  server.is_shared = share;
  server.address = options.address;
  if (server.address.empty()) server.address = share ? "0.0.0.0" : "127.0.0.1";
  server.tls = share && options.tls.empty() ? "auto" : options.tls;
  server.port = options.port;
  server.tls_key = options.tls_key;
  server.state_folder = StateFolder();
  server.host_names = options.host_names;
  server.allowed_origins = options.allowed_origins;
  server.context_length = options.context_length;
  if (!options.body_limit.empty()) server.body_limit_bytes = *ParseByteCount(options.body_limit);
  server.sessions = options.sessions;
  server.marks = options.marks;
  server.generate_interval = options.generate_interval;
  server.plan_kind = kPlanKinds.at(options.plan);
  server.expert_copies = kExpertCopies.at(options.expert_copies);
  server.half_rows = options.expert_rows == "f16";
  if (options.lossy) server.loss_limit = options.loss_limit;
  server.prefill_chunk_time = Milliseconds(options.prefill_chunk_ms);
  server.history_bytes = HistoryBytes(options.history);
  server.queue = options.queue;
  server.worker_limit = options.worker_limit;
  server.wait = Seconds(options.wait_s);
  server.token_limit = Seconds(options.token_limit_s);
  server.trusted_proxies = options.trusted_proxies;
  server.journal = JournalOf(options);
  server.keys = KeysFile(options.keys);
  server.keys_are_asked_for = !options.keys.empty();
  server.journal_is_asked_for = !options.journal.empty() || options.journal_prompts;
  server.journal_prompts = options.journal_prompts;
  server.new_secrets = options.new_secrets;
  server.keep_alive.reset();
  if (options.keep_alive_s >= 0) server.keep_alive = Seconds(options.keep_alive_s);
  server.log_requests = options.log_requests;
  if (options.own_secrets) server.secrets = server::RandomSecrets();
  server.read_secrets = [key = options.api_key_file, token = options.join_token_file] {
    return ReadSecrets(key, token);
  };
  return server;
}

// Of a port that is in use, with who has it where that can be told.
Error WithPortOwner(const Error& error, uint16_t port) {
  if (error.code() != ErrorCode::kAlreadyExists) return error;
  const std::string owner = DescribePortOwner(port);
  return owner.empty() ? error : Error(error.code(), error.message() + " It is " + owner + ".");
}

// A server with its built-in worker, and what it says on the terminal.
class ServeCommand {
 public:
  // Everything that can fail: afterwards the port is open.
  static Result<std::unique_ptr<ServeCommand>> Start(const ServeOptions& options) {
    auto command = std::make_unique<ServeCommand>();
    command->options_ = options;
    server::ServerOptions server = ServerOptionsOf(options);
    TRY(AddCluster(options, server));
    if (options.journal_prompts && server.journal.empty()) {
      return Error(ErrorCode::kInvalidArgument,
                   "--journal-prompts needs a journal: name its file with --journal.");
    }
    if (options.lossy && server.plan_kind != swarm::PlanKind::kTensor) {
      return Error(ErrorCode::kInvalidArgument,
                   "--lossy is for neuron groups alone: serve with --plan tensor.");
    }
    if (options.lossy && options.exact) {
      return Error(ErrorCode::kInvalidArgument, "--exact and --lossy exclude each other.");
    }
    ASSIGN_OR_RETURN(std::optional<server::StaticFiles> files, LoadPage(options.web_root));
    TRY(options.packages.size() == 1 ? command->ListenForOne(server, std::move(files))
                                     : command->ListenForSeveral(server, std::move(files)));
    command->secrets_ = command->server_->TakeSecrets();
    if (!options.no_worker) command->StartWorkers();
    return command;
  }

  void ServeUntilSignal() {
    // Before a word is said: whoever reads the addresses may already stop the server.
    server_->StopOnSignal();
    // Who closes a terminal ends what runs there.
    if (isatty(STDIN_FILENO) == 0) server_->ReloadOnSignal();
    PrintAddresses();
    NotifyReady();
    if (!options_.no_worker && (has_several() || package_.manifest.lowered)) StartGpu();
    server::Wipe(secrets_);
    server_->Run();
  }

  server::Server& server() { return *server_; }
  const server::Secrets& secrets() const { return secrets_; }

 private:
  bool has_several() const { return options_.packages.size() != 1; }

  Status ListenForOne(const server::ServerOptions& server,
                      std::optional<server::StaticFiles> files) {
    ASSIGN_OR_RETURN(const std::filesystem::path folder,
                     FindOrPull({.model = options_.packages.front()}));
    ASSIGN_OR_RETURN(server::ServedModel model, OpenModel(folder, options_, server.plan_kind));
    package_ = model.package;
    is_divided_ = std::ranges::any_of(
        model.info.layers, [](const swarm::ModelLayer& layer) { return layer.expert_count > 0; });
    model.files = std::move(files);
    return Take(server::Server::Listen(server, std::move(model)));
  }

  Status ListenForSeveral(server::ServerOptions server, std::optional<server::StaticFiles> files) {
    if (options_.lossy) {
      return Error(ErrorCode::kInvalidArgument,
                   "--lossy is for a server of one model: name its package.");
    }
    server.memory_bytes = options_.no_worker ? 0 : WorkerMemory();
    ASSIGN_OR_RETURN(server::ModelLibrary library, MakeModelLibrary(options_, server));
    library.files = std::move(files);
    library.on_opened = [this](server::Cell& cell, const package::Package& package,
                               uint64_t need_bytes) {
      if (cell_workers_) return cell_workers_->Attach(cell, package, need_bytes);
      opened_.push_back({&cell, package, need_bytes});
    };
    library.on_closing = [this](server::Cell& cell, std::function<void()> done) {
      if (!cell_workers_) return done();
      cell_workers_->Detach(cell, std::move(done));
    };
    return Take(server::Server::Listen(server, std::move(library)));
  }

  Status Take(Result<std::unique_ptr<server::Server>> listening) {
    if (!listening.ok()) return WithPortOwner(listening.error(), options_.port);
    server_ = std::move(listening).value();
    return OkStatus();
  }

  uint64_t WorkerMemory() const {
    return options_.worker_memory.empty() ? worker::DefaultMemoryOffer()
                                          : *ParseByteCount(options_.worker_memory);
  }

  void StartWorkers() {
    worker::NativeWorkerOptions worker;
    worker.name = "this server";
    worker.worker_id = "built-in";
    worker.join_token = secrets_.join_token;
    worker.thread_count = options_.threads;
    worker.memory_bytes = WorkerMemory();
    if (server_->member() != nullptr) {
      worker.name = server_->member()->leases().self().name;
      worker.worker_id = "built-in " + worker.name;
      FollowServers();
    }
    if (has_several()) {
      cell_workers_ =
          std::make_unique<CellWorkers>(server_->loop(), worker,
                                        [this](server::Cell& cell, const package::Package& package,
                                               const worker::NativeWorkerOptions& options) {
                                          return StartCellWorker(cell, package, options);
                                        });
      for (const Opened& each : std::exchange(opened_, {}))
        cell_workers_->Attach(*each.cell, each.package, each.need_bytes);
    } else if (!package_.manifest.lowered) {
      return;
    } else if (server_->member() != nullptr) {
      cluster_worker_ = StartClusterWorker(worker, package_, "");
    } else {
      worker_ = std::make_unique<LocalWorker>(server_->loop(), server_->host(), worker, package_,
                                              is_divided_ ? OpenDatagrams() : nullptr);
    }
  }

  // Of one of several models.
  CellWorkers::End StartCellWorker(server::Cell& cell, const package::Package& package,
                                   const worker::NativeWorkerOptions& options) {
    if (server_->member() == nullptr) {
      const auto local =
          std::make_shared<LocalWorker>(server_->loop(), cell.host(), options, package);
      return [local] { return local->End(); };
    }
    const uint32_t number = server_->models().FindLoaded(cell.name())->number;
    const std::shared_ptr<RemoteWorker> remote =
        StartClusterWorker(options, package, "cell=" + std::to_string(number));
    return [remote] { return remote->End(); };
  }

  // Workers in this process know the others of the cluster, with their certificates, so that they
  // may go where they are sent.
  void FollowServers() {
    server_->OnServersMet([this](const std::vector<cluster_host::PeerAddress>& others) {
      met_.assign(others.size(), {});
      for (size_t i = 0; i < others.size(); ++i) {
        met_[i].set_url(others[i].url);
        met_[i].set_fingerprint(others[i].fingerprint);
      }
      for (const auto& servers : known_servers_) servers->SetSuccessors(met_);
    });
  }

  // It works for whichever server leads, and finds it as any other worker does. `query` names the
  // model where there are several.
  std::unique_ptr<RemoteWorker> StartClusterWorker(const worker::NativeWorkerOptions& options,
                                                   const package::Package& package,
                                                   const std::string& query) {
    ServerAddress own{*net::ParseUrl(server_->reach().Base("ws")), {}};
    if (server_->reach().tls)
      own.tls.pinned_fingerprint = net::CertificateFingerprint(*server_->tls());
    const auto servers = std::make_shared<ServerList>(std::vector<ServerAddress>{own});
    servers->SetSuccessors(met_);
    known_servers_.push_back(servers);
    auto worker = std::make_unique<RemoteWorker>(
        server_->loop(), servers, query, options, worker::MakeLocalSource(package),
        [](const Status& status) {
          if (!status.ok()) LogWarn("the built-in worker has ended: {}", status.error().message());
        });
    server_->loop().Post([started = worker.get()] { started->Start(); });
    return worker;
  }

  // Another worker than the built-in one: who of both computes what is planned by their speed.
  void StartGpu() {
    GpuBesideOptions options;
    options.use = kGpuUses.at(options_.gpu);
    options.server = server_->reach().Base("ws");
    options.join_token = secrets_.join_token;
    if (server_->reach().tls) options.fingerprint = net::CertificateFingerprint(*server_->tls());
    gpu_ = GpuBeside::Start(options);
  }

  // On the port of the server where that is free: whoever lets one through a wall, knows the other.
  std::shared_ptr<net::UdpSocket> OpenDatagrams() {
    const std::string address = server_->reach().PlainAddress();
    auto socket = net::UdpSocket::Open(server_->loop(), address, server_->reach().port);
    if (!socket.ok()) socket = net::UdpSocket::Open(server_->loop(), address, 0);
    if (!socket.ok()) {
      LogWarn("{} What devices exchange in a layer goes through WebSockets.",
              socket.error().message());
      return nullptr;
    }
    LogInfo("devices may exchange rows in datagrams, by UDP port {}", (*socket)->port());
    return *std::move(socket);
  }

  // "tiny (q4)", or "3 models: a, b, c".
  std::string Served() const {
    if (!has_several()) return package_.manifest.name + " (" + package_.manifest.quantisation + ")";
    const std::vector<std::string> names = server_->models().Names();
    if (names.empty())
      return "the library, which is empty: `weft pull ORGANISATION/NAME` puts a model there";
    std::string text =
        std::to_string(names.size()) + (names.size() == 1 ? " model: " : " models: ");
    for (size_t i = 0; i < names.size() && i < kMostNamed; ++i)
      text += (i == 0 ? "" : ", ") + names[i];
    return names.size() > kMostNamed ? text + ", ..." : text;
  }

  // For readers of a journal: nothing that lets somebody in.
  void PrintWithoutSecrets() const {
    const server::Reach& reach = server_->reach();
    std::cout << "weft " << wire::kServerVersion << " serves " << Served()
              << "\n  chat:  " << reach.PublicBase("http")
              << "/\n  help:  " << reach.PublicBase("http")
              << "/join\n  API:   " << reach.PublicBase("http") << "/v1\n";
    if (!secrets_.api_key.empty()) {
      std::cout << "  The API key and the join token are not written here. Set them with "
                   "--api-key-file and\n  --join-token-file, or make named ones with `weft keys "
                   "add` and `weft join-link`.\n";
    }
    std::cout << std::flush;
  }

  void PrintAddresses() const {
    if (IsKeptInJournal(std::getenv, isatty(STDOUT_FILENO) == 1)) return PrintWithoutSecrets();
    const server::Reach& reach = server_->reach();
    const std::string join_url = reach.JoinUrl(secrets_.join_token);
    std::cout << "weft " << wire::kServerVersion << " serves " << Served() << "\n\n";
    if (server_->member() != nullptr)
      std::cout << "  cluster: " << server_->member()->Describe() << "\n";
    std::cout << "  chat:  " << reach.PublicBase("http") << "/";
    if (!secrets_.api_key.empty()) std::cout << "#key=" << secrets_.api_key;
    std::cout << "\n  help:  " << join_url << "   (open it in a browser tab and press the button)\n"
              << "  API:   " << reach.PublicBase("http") << "/v1\n";
    if (!has_several() && !package_.manifest.lowered) {
      std::cout
          << "\n  This model has no programs for native workers: browser tabs compute it with\n"
             "  onnxruntime-web. Open the help address and press the button.\n";
    }
    if (!secrets_.api_key.empty()) PrintSecrets();
    if (reach.IsPublic()) {
      PrintTls();
      std::cout << "\n" << server::QrForTerminal(join_url);
    } else if (secrets_.api_key.empty() && server_->member() == nullptr) {
      std::cout << "\n  To let other devices on your network help:  weft serve --share";
      for (const std::string& package : options_.packages) std::cout << " " << package;
      std::cout << "\n";
    }
    std::cout << std::endl;
  }

  void PrintSecrets() const {
    const server::Reach& reach = server_->reach();
    std::cout << "  API key:     " << secrets_.api_key << "\n  join token:  " << secrets_.join_token
              << "\n  native worker:  WEFT_JOIN_TOKEN=" << secrets_.join_token << " weft worker "
              << reach.PublicBase("ws");
    if (reach.tls) std::cout << " --fingerprint " << net::CertificateFingerprint(*server_->tls());
    std::cout << "\n";
    if (server_->admits_earlier()) {
      std::cout << "\n  Keys and links of earlier starts are as good as these (--new-secrets ends "
                   "that).\n";
    }
  }

  void PrintTls() const {
    if (options_.tls == "auto" || (options_.share && options_.tls.empty())) {
      std::cout
          << "\n  The certificate is the server's own: browsers warn once, and iPhones want its "
             "authority\n  installed (the page /certificate says how). Its SHA-256 is\n  "
          << net::CertificateFingerprint(*server_->tls()) << "\n";
    } else if (!server_->reach().tls) {
      std::cout
          << "\n  Without TLS, tabs on other devices cannot help (browsers give them no WebGPU,\n"
             "  no hashing and no cache on plain http) and keys travel in clear. Use --tls "
             "auto.\n";
    }
  }

  // A model that was loaded before there were workers.
  struct Opened {
    server::Cell* cell;
    package::Package package;
    uint64_t need_bytes;
  };

  ServeOptions options_;
  package::Package package_;
  bool is_divided_ = false;  // into experts, neuron groups or ranges: devices may exchange rows
  std::vector<Opened> opened_;
  std::unique_ptr<server::Server> server_;
  server::Secrets secrets_;                       // until they are printed
  std::unique_ptr<LocalWorker> worker_;           // of one model
  std::unique_ptr<RemoteWorker> cluster_worker_;  // the same, of a cluster
  std::unique_ptr<CellWorkers> cell_workers_;     // of several
  // Of workers in this process, in a cluster: the other servers, and where each worker keeps them.
  std::vector<wire::pb::Init::Successor> met_;
  std::vector<std::shared_ptr<ServerList>> known_servers_;
  std::unique_ptr<GpuBeside> gpu_;
};

}  // namespace

// The server and the thread that runs its loop.
struct BackgroundServer::State {
  std::unique_ptr<ServeCommand> command;
  std::thread thread;
};

Result<BackgroundServer> BackgroundServer::Start(const ServeOptions& options) {
  auto state = std::make_unique<State>();
  ASSIGN_OR_RETURN(state->command, ServeCommand::Start(options));
  state->thread = std::thread([server = &state->command->server()] { server->Run(); });
  return BackgroundServer(std::move(state));
}

BackgroundServer::BackgroundServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
BackgroundServer::BackgroundServer(BackgroundServer&&) noexcept = default;

BackgroundServer::~BackgroundServer() {
  if (!state_) return;
  state_->command->server().Stop();
  state_->thread.join();
}

const std::string& BackgroundServer::api_key() const {
  return state_->command->secrets().api_key;
}

std::string BackgroundServer::url() const {
  return state_->command->server().reach().Base("http");
}

namespace {

std::vector<std::string> NamesInEnvironment() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

// `flags` fill `options`.
Status Serve(CLI::App& flags, const ServeOptions& options) {
  TRY(ApplySettings(flags, std::getenv));
  if (!options.log.empty()) SetLogLevel(options.log);
  SetLogFormat(options.log_format);
  for (const std::string& sentence : FindMistypedVariables(flags, NamesInEnvironment()))
    LogWarn("{}", sentence);
  OutliveReaders();
  ASSIGN_OR_RETURN(const auto command, ServeCommand::Start(options));
  command->ServeUntilSignal();
  return OkStatus();
}

constexpr uint64_t kSmallestBodyLimitBytes = 1 << 10;
constexpr uint64_t kLargestBodyLimitBytes = 1 << 30;

CLI::Validator BodyLimitOption() {
  return CLI::Validator(
      [](const std::string& text) {
        const auto byte_count = ParseByteCount(text);
        const bool fits = byte_count && *byte_count >= kSmallestBodyLimitBytes &&
                          *byte_count <= kLargestBodyLimitBytes;
        return fits ? std::string() : "'" + text + "' is no size from 1KiB to 1GiB";
      },
      "SIZE");
}

// How long requests may be and wait, and how many; how many devices there may be.
void AddPatience(CLI::App& command, ServeOptions& options) {
  command
      .add_option("--body-limit", options.body_limit,
                  "Size of the longest request for a chat (default: 16 bytes for each position of "
                  "--context, at least 2MiB)")
      ->check(BodyLimitOption());
  command.add_option("--worker-limit", options.worker_limit, "Devices that may be connected")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  command.add_option("--queue", options.queue, "Requests that may wait")
      ->capture_default_str()
      ->check(CLI::Range(0, 100000));
  command
      .add_option("--wait", options.wait_s,
                  "Seconds that a request waits for a swarm that is down, before it is told so")
      ->capture_default_str()
      ->check(CLI::Range(0, 86'400));
  command
      .add_option("--keep-alive", options.keep_alive_s,
                  "Seconds without a request after which a model of the library is unloaded; -1: "
                  "when another one wants its memory")
      ->capture_default_str()
      ->check(CLI::Range(-1, 31'536'000));
  command
      .add_option("--token-limit", options.token_limit_s,
                  "Seconds without a token after which a request is given up")
      ->capture_default_str()
      ->check(CLI::Range(1, 86'400));
}

void AddPlanning(CLI::App& command, ServeOptions& options) {
  AddMarksOption(command, options.marks);
  command
      .add_option("--plan", options.plan,
                  "What devices hold: layers, experts apart from the layers that they are of, "
                  "parts of every layer (tensor, for packages of `weft groups`), or whichever is "
                  "predicted to be faster (auto)")
      ->capture_default_str()
      ->check(CLI::IsMember(kPlanKinds));
  command
      .add_option("--expert-copies", options.expert_copies,
                  "Devices that are asked for the same expert at once: as many as make answers "
                  "faster (auto), or always so many")
      ->capture_default_str()
      ->check(CLI::IsMember(kExpertCopies));
  command
      .add_option("--expert-rows", options.expert_rows,
                  "How numbers travel to experts on other devices and back: f32 gives the bits of "
                  "one device, f16 takes half the bytes, which pays on slow lines")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "f16"}));
  CLI::Option* lossy = command.add_flag(
      "--lossy", options.lossy,
      "With --plan tensor: native workers send what their neuron groups add up to over UDP, and "
      "what is lost on the way is left out of the answer, and counted in its usage");
  command
      .add_option("--loss-limit", options.loss_limit,
                  "Share of the neuron groups, the larger ones counting more, beyond which nothing "
                  "may be lost for a minute")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0))
      ->needs(lossy);
  command
      .add_flag("--exact", options.exact,
                "Never lose anything, which is so without --lossy, too: refuses to start with it")
      ->excludes(lossy);
}

void AddTextOptions(CLI::App* command, ServeOptions* options) {
  command->add_flag("--control-tokens-in-text", options->control_tokens_in_text,
                    "Take the texts of control tokens in messages of users and tools as these "
                    "tokens (SECURITY.md)");
}

void AddJournalOptions(CLI::App* command, ServeOptions* options) {
  command->add_option("--journal", options->journal,
                      "File that a restart takes up plan, keys and requests from, or 'off' "
                      "(default: serve-PORT.db in the state folder)");
  command->add_option("--keys", options->keys,
                      "File of named API keys (weft keys), or 'off' (default: weft.db in the state "
                      "folder)");
  command->add_flag("--journal-prompts", options->journal_prompts,
                    "Keep prompts and answers of unfinished requests in it, too, which then go on "
                    "after a restart");
}

void AddBuiltInWorker(CLI::App& command, ServeOptions& options) {
  command
      .add_option(
          "--worker-memory", options.worker_memory,
          "Memory that the built-in worker offers, e.g. 4GiB (default: half of what is free)")
      ->check(ByteCountOption());
  command.add_flag("--no-worker", options.no_worker,
                   "Start without the built-in worker, and without a GPU's");
  command
      .add_option("--gpu", options.gpu,
                  "This machine's GPU: used where there is one, with Node.js and Dawn (auto), not "
                  "used (off), or a software adapter, too (software: for tests)")
      ->capture_default_str()
      ->check(CLI::IsMember(kGpuUses));
  command.add_flag("--verify", options.verify,
                   "Hash all weights when they are loaded, also of files that did not change");
  command.add_option("--threads", options.threads, "Threads of the built-in worker")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
}

// Who may come, and how they are told from others.
void AddReach(CLI::App& command, ServeOptions& options) {
  command.add_flag(
      "--share", options.share,
      "Let devices on your network join: LAN address, TLS, join token, API key, QR code");
  command.add_option("--address", options.address,
                     "IP address to listen on (default: 127.0.0.1; 0.0.0.0 with --share)");
  command.add_option("--port", options.port, "Port; 0 takes a free one")
      ->capture_default_str()
      ->check(CLI::Range(0, 65'535));
  command.add_option("--tls", options.tls, "'auto' (self-signed) or a PEM certificate file");
  command.add_option("--tls-key", options.tls_key, "PEM key of the certificate");
  command.add_option("--host-name", options.host_names,
                     "Another name this server is reached by; demands an API key");
  command
      .add_option("--trusted-proxy", options.trusted_proxies,
                  "Address of a proxy whose X-Forwarded-For and X-Forwarded-Proto are believed; "
                  "demands an API key")
      ->check(AddressOption());
  command.add_option("--allow-origin", options.allowed_origins,
                     "Origin of a page that may call the API (CORS)");
  command.add_option("--api-key-file", options.api_key_file,
                     "File whose first line is the API key (before WEFT_API_KEY)");
  command.add_option("--join-token-file", options.join_token_file,
                     "File whose first line is the join token (before WEFT_JOIN_TOKEN)");
  command.add_flag("--new-secrets", options.new_secrets,
                   "Let nobody in with an API key or a join token of an earlier start");
}

// Several servers that lead models by turns.
void AddClusterOptions(CLI::App& command, ServeOptions& options) {
  CLI::Option* url = command.add_option(
      "--url", options.url,
      "How other servers and devices reach this one, e.g. https://a.weft.school.lan");
  CLI::Option* key = command.add_option("--cluster-key", options.cluster_key,
                                        "The key's file (default: /etc/weft/cluster.key, or "
                                        "cluster.key in the state folder)");
  CLI::Option* cluster = command.add_option(
      "--cluster", options.cluster,
      "Address of the PostgreSQL database of a cluster, whose servers lead the models that are "
      "named by turns; these are loaded from the start, and stay (docs/cluster.md)");
  for (CLI::Option* each : {url, key}) each->needs(cluster);
}

void AddOperations(CLI::App& command, ServeOptions& options) {
  command.add_option("--config", options.config,
                     "File of settings in TOML; flags and WEFT_... variables count more "
                     "(docs/operations.md)");
  command.add_option("--log", options.log, "How much to log: error, warn or info")
      ->check(CLI::IsMember({"error", "warn", "info"}));
  command
      .add_option("--log-format", options.log_format,
                  "Form of the log: text, or json for one object a line")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "json"}));
}

// How much is computed at once, for whom.
void AddComputing(CLI::App& command, ServeOptions& options) {
  command.add_option("--context", options.context_length, "Positions of a conversation")
      ->capture_default_str()
      ->check(CLI::Range(16, 1 << 20));
  command
      .add_option("--sessions", options.sessions,
                  "Conversations computed at once, prefixes that are kept by name among them")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--generate-interval", options.generate_interval,
                  "Tokens in a frame of a tab that runs the whole model; 0: by its speed")
      ->capture_default_str()
      ->check(CLI::Range(0, 256));
  command
      .add_option(
          "--prefill-chunk,--prefill-slice", options.prefill_chunk_ms,
          "Time of the slowest device, in ms, that one frame of a prompt takes: no token of "
          "another conversation waits longer for it")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  command
      .add_option("--history", options.history,
                  "Memory for rows between devices, with which a lost device is replaced; 0 keeps "
                  "none (default: 5% of this machine's, at most 1GiB)")
      ->check(ByteCountOption());
}

}  // namespace

void AddServeOptions(CLI::App& command, ServeOptions& options) {
  command.add_option("package", options.packages,
                     "A package's folder, or its name in the library; several serve several "
                     "models, none all of the library (with --cluster at least one is named)");
  AddOperations(command, options);
  AddReach(command, options);
  AddClusterOptions(command, options);
  AddBuiltInWorker(command, options);
  AddComputing(command, options);
  AddPlanning(command, options);
  command.add_option("--web-root", options.web_root,
                     "Folder of the built page (default: beside this program)");
  AddPatience(command, options);
  AddJournalOptions(&command, &options);
  AddTextOptions(&command, &options);
}

void AddServeCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand(
      "serve",
      "Serve a model: chat page, OpenAI-compatible API, and the address where devices join.");
  AddServeOptions(*command, *options);
  command->callback([command, options, exit_code] {
    options->log_requests = true;
    *exit_code = ReportStatus(Serve(*command, *options));
  });
}

}  // namespace weft::apps
