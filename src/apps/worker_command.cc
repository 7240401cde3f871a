// `weft worker ws://host:port`: joins a swarm from another machine and stays (remote_cells.h), or
// with --gpu becomes the program that does so on a GPU (gpu_worker.h).
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include "apps/commands.h"
#include "apps/device_id.h"
#include "apps/gpu_worker.h"
#include "apps/http_source.h"
#include "apps/remote_cells.h"
#include "apps/secret_file.h"
#include "base/secret.h"
#include "kernels/panel_matmul.h"
#include "net/udp_socket.h"

namespace weft::apps {
namespace {

struct WorkerCommandOptions {
  std::vector<std::string> servers;  // the first one is tried first
  std::string memory;
  std::string token, token_file;
  std::string name;
  std::vector<std::string> fingerprints;  // of each server, or one for all
  std::string cache;
  std::string kernels;
  bool insecure = false;
  bool list_kernels = false;
  bool verify = false;
  bool gpu = false, list = false, allow_software = false, run_here = false;  // of --gpu
  std::string adapter;                                                       // of --gpu, too
  uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
};

constexpr char kJoinTokenName[] = "WEFT_JOIN_TOKEN";

// What the headless worker is told; what nobody said, it finds out by itself.
std::vector<std::string> GpuArguments(const WorkerCommandOptions& options) {
  std::vector<std::string> arguments;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {name, value});
  };
  const auto add_flag = [&](const char* name, bool is_set) {
    if (is_set) arguments.emplace_back(name);
  };
  add("--memory", options.memory);
  add("--name", options.name);
  for (const std::string& fingerprint : options.fingerprints) add("--fingerprint", fingerprint);
  add("--cache", options.cache);
  add("--adapter", options.adapter);
  add_flag("--insecure", options.insecure);
  add_flag("--list", options.list);
  add_flag("--allow-software", options.allow_software);
  add_flag("--run-here", options.run_here);
  for (const std::string& server : options.servers)
    arguments.push_back(server.substr(0, server.find('#')));
  return arguments;
}

// Of the command line, a file, the address or the environment, whichever says it first. Afterwards
// it is nowhere where the system shows it.
Result<std::string> TakeJoinToken(const WorkerCommandOptions& options) {
  std::string from_environment = TakeFromEnvironment(kJoinTokenName);
  if (!options.token.empty()) return options.token;
  if (!options.token_file.empty()) return ReadSecretFile(options.token_file, "join token");
  for (const std::string& server : options.servers) {
    const size_t hash = server.find('#');
    if (hash != std::string::npos && hash + 1 < server.size()) return server.substr(hash + 1);
  }
  return from_environment;
}

Result<std::vector<ServerAddress>> ServersOf(const WorkerCommandOptions& options) {
  if (options.servers.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "Where is the swarm? Expected ws://host:port or wss://host:port.");
  }
  return ParseServers(options.servers, options.fingerprints, options.insecure);
}

// Until a signal, or until the server refuses this worker.
Status RunWorker(const WorkerCommandOptions& options) {
  ASSIGN_OR_RETURN(const std::string join_token, TakeJoinToken(options));
  if (options.gpu) {
    // Others than this user may read what a process was started with, but not its environment.
    if (!join_token.empty()) setenv(kJoinTokenName, join_token.c_str(), 1);
    return BecomeGpuWorker(GpuArguments(options));
  }
  ASSIGN_OR_RETURN(const std::vector<ServerAddress> servers, ServersOf(options));
  net::EventLoop loop;
  worker::NativeWorkerOptions worker_options;
  worker_options.join_token = join_token;
  const std::filesystem::path cache =
      options.cache.empty() ? DefaultCacheFolder() : std::filesystem::path(options.cache);
  worker_options.memory_bytes =
      options.memory.empty() ? worker::DefaultMemoryOffer() : *ParseByteCount(options.memory);
  worker_options.thread_count = options.threads;
  worker_options.name = options.name;
  const DeviceId id(cache);
  worker_options.worker_id = id.text();
  const auto make_source = [&](std::shared_ptr<ServerList> list) {
    return MakeHttpSource({std::move(list), worker_options.join_token, cache, options.verify});
  };
  // A cache that cannot be used ends it now.
  ASSIGN_OR_RETURN(const auto source, make_source(std::make_shared<ServerList>(servers)));
  // For servers that may lose sums of neuron groups (serve --lossy).
  auto datagrams = net::UdpSocket::Open(loop, "::", 0);
  if (!datagrams.ok()) datagrams = net::UdpSocket::Open(loop, "0.0.0.0", 0);
  if (datagrams.ok()) worker_options.datagrams = *datagrams;
  Status end = OkStatus();
  RemoteCells remote(loop, servers, worker_options, make_source, [&](Status status) {
    end = std::move(status);
    loop.Stop();
  });
  loop.OnStopSignal([&] { remote.Leave("stopped by its user"); });
  if (datagrams.ok())
    (*datagrams)->Receive([&](ReceivedDatagram datagram) {
      remote.OnDatagram(std::move(datagram));
    });
  remote.Start();
  loop.Run();
  if (datagrams.ok()) (*datagrams)->Stop();
  return end;
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "native worker";
}

// The kernels of superblocks, the best first.
void ListKernels() {
  for (const kernels::PanelKernel& kernel : kernels::PanelKernels()) {
    const bool is_used = &kernel == &kernels::UsedPanelKernel();
    std::cout << kernel.name
              << (is_used              ? " (used)"
                  : kernel.runs_here() ? ""
                                       : " (this machine lacks it)")
              << "\n";
  }
}

void AddGpuOptions(CLI::App& command, WorkerCommandOptions& options, CLI::Option* threads) {
  CLI::Option* gpu =
      command
          .add_flag("--gpu", options.gpu,
                    "Compute with this machine's GPU (needs Node.js and says what else)")
          ->excludes(threads);
  command
      .add_option("--adapter", options.adapter,
                  "Which GPU, one process for each: a number, a PCI address, a device file or a "
                  "UUID that '--adapter list' shows")
      ->needs(gpu);
  command.add_flag("--list", options.list, "Name the GPUs and what each could hold")->needs(gpu);
  command
      .add_flag("--run-here", options.run_here,
                "Ask for the whole model on this GPU, where it fits")
      ->needs(gpu);
  command
      .add_flag("--allow-software", options.allow_software,
                "Compute on a software adapter, too (for tests: it is slow)")
      ->needs(gpu);
}

}  // namespace

void AddWorkerCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<WorkerCommandOptions>();
  options->name = HostName();
  CLI::App* command = app.add_subcommand(
      "worker", "Help a swarm from this machine: computes a part of the model, no other setup.");
  command->add_option("servers", options->servers,
                      "Where the swarm is: ws://host:port or wss://host:port (#token may follow). "
                      "Of several servers the next one is tried where one does not answer");
  command
      ->add_option("--memory", options->memory,
                   "Memory to offer, e.g. 4GiB (default: half of what is free)")
      ->check(ByteCountOption());
  CLI::Option* threads = command->add_option("--threads", options->threads, "Threads that compute")
                             ->capture_default_str()
                             ->check(CLI::Range(1, 1024));
  command->add_flag(
      "--list-kernels", options->list_kernels,
      "Name the kernels for weights in superblocks, which of them this machine has, and which one "
      "it uses");
  command->add_option(
      "--kernels", options->kernels,
      "Use these kernels for weights in superblocks (for tests and comparisons; all "
      "give the same numbers)");
  command->add_option("--name", options->name, "Name shown to the others")->capture_default_str();
  CLI::Option* token =
      command->add_option("--token", options->token,
                          "Join token (also after '#' in the address). Others on this machine may "
                          "see it in the moment before weft hides it: they never see one that is "
                          "in WEFT_JOIN_TOKEN or a file");
  command
      ->add_option("--token-file", options->token_file, "File whose first line is the join token")
      ->excludes(token);
  command
      ->add_option("--fingerprint", options->fingerprints,
                   "SHA-256 of the server's self-signed certificate, as it prints it; of "
                   "several servers one for each in their order, or one for all")
      ->allow_extra_args(false);
  command->add_flag("--insecure", options->insecure,
                    "Accept any certificate (only where nobody can interfere)");
  command->add_option("--cache", options->cache,
                      "Folder for downloaded weights (default: ~/.cache/weft)");
  command->add_flag("--verify", options->verify,
                    "Hash all weights of the cache when they are loaded, also of files that did "
                    "not change");
  AddGpuOptions(*command, *options, threads);
  command->callback([options, exit_code] {
    OutliveReaders();
    Status status = OkStatus();
    if (!options->kernels.empty()) status = kernels::UsePanelKernel(options->kernels);
    if (status.ok() && options->list_kernels) return ListKernels();
    if (status.ok()) status = RunWorker(*options);
    if (!status.ok()) *exit_code = ReportStatus(status);
  });
}

}  // namespace weft::apps
