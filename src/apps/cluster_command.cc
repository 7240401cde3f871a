// `weft cluster`: servers that lead a model by turns, and the database that they share.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>

#include "apps/cluster_settings.h"
#include "apps/commands.h"
#include "apps/settings.h"
#include "apps/terminal_text.h"
#include "apps/text_columns.h"
#include "cluster_host/cluster_member.h"
#include "shared_store/cluster_tables.h"

namespace weft::apps {
namespace {

using cluster_host::ClusterKey;
using shared_store::SharedCell;
using shared_store::SharedServer;
using shared_store::SharedTables;

struct ClusterOptions {
  std::string url;  // of the database
  std::string key_file;
  std::string name = "weft";  // of the cluster
  std::string server;         // of `drain`
};

// How long `drain` waits for a server's answers to end.
constexpr Duration kDrainLimit = Seconds(60);
constexpr Duration kLookInterval = Milliseconds(250);
// A server registers every second.
constexpr Duration kSeenLately = Seconds(5);

// A connection, and the loop that it is on, for a command that waits for each answer.
class Database {
 public:
  static Result<std::unique_ptr<Database>> Open(const ClusterOptions& options) {
    if (options.url.empty())
      return Error(ErrorCode::kInvalidArgument,
                   "Name the database: --cluster postgres://USER@HOST/DATABASE, or WEFT_CLUSTER.");
    auto database = std::make_unique<Database>();
    ASSIGN_OR_RETURN(database->connection_,
                     cluster_host::OpenDatabase(database->loop_, options.url));
    return database;
  }

  // Gives what `ask` tells.
  template <typename Told>
  Result<Told> Hear(const std::function<void(std::function<void(Told)>)>& ask) {
    auto told = std::make_shared<std::optional<Told>>();
    TRY(cluster_host::Await(loop_, [&](const std::function<void()>& done) {
      ask([told, done](Told heard) {
        *told = std::move(heard);
        done();
      });
    }));
    return std::move(**told);
  }
  Result<SharedTables> Read() {
    ASSIGN_OR_RETURN(Result<SharedTables> read, Hear<Result<SharedTables>>([this](auto done) {
                       shared_store::ReadTables(*connection_, std::move(done));
                     }));
    if (!read.ok() && read.error().code() == ErrorCode::kInvalidData)
      return Error(ErrorCode::kNotFound,
                   "The database has no tables of weft: run `weft cluster init` once.");
    return read;
  }
  void Sleep(Duration time) {
    net::EventLoop::Timer timer(loop_);
    timer.FireAfter(time, [this] { loop_.Stop(); });
    loop_.Run();
  }
  postgres::Connection& connection() { return *connection_; }

 private:
  net::EventLoop loop_;
  std::unique_ptr<postgres::Connection> connection_;
};

// Of an earlier `init`, or a new one.
Result<ClusterKey> FindOrMakeKey(const std::filesystem::path& path, bool* is_new) {
  if (path.empty())
    return Error(ErrorCode::kInvalidArgument,
                 "There is no folder for the cluster's key: set HOME, or name a file with "
                 "--cluster-key.");
  auto found = ClusterKey::Read(path);
  *is_new = !found.ok() && found.error().code() == ErrorCode::kNotFound;
  if (*is_new) return ClusterKey::Random();
  return found;
}

Status Init(const ClusterOptions& options) {
  const std::filesystem::path path = ClusterKeyFile(options.key_file);
  bool is_new = false;
  ASSIGN_OR_RETURN(const ClusterKey key, FindOrMakeKey(path, &is_new));
  ASSIGN_OR_RETURN(const auto database, Database::Open(options));
  ASSIGN_OR_RETURN(const Status made, database->Hear<Status>([&](auto done) {
    shared_store::MakeTables(database->connection(), key.Check(), options.name, std::move(done));
  }));
  TRY(made);
  if (is_new) {
    TRY(key.WriteNew(path));
  }
  std::cout
      << (is_new ? "The key is in " : "The key was there: ") << path.string()
      << "\n\nNext: copy that file to each server (0600), and start each with its own --url:\n"
         "  weft serve MODEL --cluster URL --url https://a.weft.school.lan\n"
      << std::flush;
  return OkStatus();
}

std::string NameOf(const SharedTables& tables, cluster::ServerId id) {
  for (const SharedServer& server : tables.servers)
    if (server.id == id) return TerminalText(server.name);
  return id.is_set() ? "(gone)" : "-";
}

bool IsSeen(const SharedServer& server) {
  return server.seen < kSeenLately;
}

bool Holds(const SharedServer& server, const SharedCell& cell) {
  return cell.row.holder == cluster::Holder{server.id, server.start};
}

// "a -> b 2026-11-28 02:41:07".
std::string MoveOf(const SharedTables& tables, const SharedCell& cell) {
  if (cell.taken_unix_s == 0) return "-";
  const std::time_t time = cell.taken_unix_s;
  std::tm local = {};
  localtime_r(&time, &local);
  std::string text(32, '\0');
  text.resize(std::strftime(text.data(), text.size(), "%F %T", &local));
  const std::string to = NameOf(tables, cell.row.holder.server);
  return cell.former.is_set() ? NameOf(tables, cell.former) + " -> " + to + " " + text : text;
}

Status ShowStatus(const ClusterOptions& options) {
  ASSIGN_OR_RETURN(const auto database, Database::Open(options));
  ASSIGN_OR_RETURN(const SharedTables tables, database->Read());
  std::vector<std::vector<std::string>> servers = {
      {"SERVER", "SEEN", "LEADS", "STANDS BY", "VERSION", "URL"}};
  for (const SharedServer& server : tables.servers) {
    std::string leads, stands_by;
    for (const SharedCell& cell : tables.cells) {
      std::string& list = Holds(server, cell) ? leads : stands_by;
      list += (list.empty() ? "" : ", ") + TerminalText(cell.model);
    }
    if (!IsSeen(server)) leads = stands_by = "-";
    if (server.is_draining) stands_by = "(drained)";
    std::array<char, 32> seen{};
    std::snprintf(seen.data(), seen.size(), "%.1f s", server.seen.seconds());
    servers.push_back({TerminalText(server.name), seen.data(), leads.empty() ? "-" : leads,
                       stands_by.empty() ? "-" : stands_by, TerminalText(server.version),
                       TerminalText(server.url)});
  }
  if (servers.size() == 1) {
    std::cout << "The cluster '" << TerminalText(tables.cluster) << "' has no servers yet.\n";
    return OkStatus();
  }
  PrintColumns(servers);
  if (tables.cells.empty()) return OkStatus();
  std::vector<std::vector<std::string>> cells = {{"MODEL", "LEADER", "WORKERS", "UP", "MOVED"}};
  for (const SharedCell& cell : tables.cells) {
    const bool is_led = !cell.row.has_expired;
    cells.push_back({TerminalText(cell.model),
                     is_led ? NameOf(tables, cell.row.holder.server) : "-",
                     is_led ? std::to_string(cell.workers) : "-", is_led && cell.up ? "yes" : "no",
                     MoveOf(tables, cell)});
  }
  std::cout << "\n";
  PrintColumns(cells);
  return OkStatus();
}

Result<SharedServer> FindServer(const SharedTables& tables, const std::string& name) {
  std::string names;
  for (const SharedServer& server : tables.servers) {
    if (server.name == name) return server;
    names += (names.empty() ? "" : ", ") + TerminalText(server.name);
  }
  return Error(ErrorCode::kNotFound, "The cluster has no server '" + name + "'; it has " +
                                         (names.empty() ? "none" : names) + ".");
}

// Waits until it leads nothing: whoever stops it then interrupts nobody.
Status Drain(const ClusterOptions& options) {
  ASSIGN_OR_RETURN(const auto database, Database::Open(options));
  ASSIGN_OR_RETURN(SharedTables tables, database->Read());
  ASSIGN_OR_RETURN(const SharedServer server, FindServer(tables, options.server));
  if (!IsSeen(server))
    return Error(ErrorCode::kUnavailable,
                 "The server '" + server.name + "' does not run: there is nothing to drain.");
  ASSIGN_OR_RETURN(const Result<bool> asked, database->Hear<Result<bool>>([&](auto done) {
    shared_store::AskToGo(database->connection(), options.server, std::move(done));
  }));
  if (!asked.ok()) return asked.error();
  const Instant until = MonotonicNow() + kDrainLimit;
  while (MonotonicNow() < until) {
    ASSIGN_OR_RETURN(tables, database->Read());
    const bool leads = std::ranges::any_of(
        tables.cells, [&](const SharedCell& cell) { return Holds(server, cell); });
    if (!leads) {
      std::cout << "The server '" << server.name
                << "' leads nothing. Stop it now; when it starts again, it takes part again.\n";
      return OkStatus();
    }
    database->Sleep(kLookInterval);
  }
  return Error(ErrorCode::kTimeout,
               "The server '" + server.name +
                   "' still leads after 60 s: no other server can take over. Look at `weft "
                   "cluster status`.");
}

void AddDatabase(CLI::App& command, ClusterOptions& options) {
  command.add_option("--cluster", options.url,
                     "Address of the database (default: WEFT_CLUSTER), e.g. "
                     "postgres://weft@db/weft");
}

// The address stands in the environment of a server; so it does for who looks after it.
Status Run(const ClusterOptions& options, Status (*command)(const ClusterOptions&)) {
  ClusterOptions with = options;
  with.url = ClusterUrl(options.url);
  return command(with);
}

}  // namespace

void AddClusterCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<ClusterOptions>();
  CLI::App* cluster = app.add_subcommand(
      "cluster", "Several servers with one database that lead a model by turns.");
  cluster->require_subcommand(1);
  CLI::App* init = cluster->add_subcommand(
      "init", "Make the tables and the cluster's key, or bring tables up to this version.");
  init->add_option("database", options->url, "Address, e.g. postgres://weft@db/weft")->required();
  init->add_option("--name", options->name, "The cluster's name, for people")
      ->capture_default_str();
  init->add_option("--cluster-key", options->key_file,
                   "The key's file (default: /etc/weft/cluster.key, or cluster.key in the state "
                   "folder)");
  init->callback([options, exit_code] { *exit_code = ReportStatus(Run(*options, Init)); });
  CLI::App* status = cluster->add_subcommand("status", "The servers, and who leads which model.");
  AddDatabase(*status, *options);
  status->callback([options, exit_code] { *exit_code = ReportStatus(Run(*options, ShowStatus)); });
  CLI::App* drain = cluster->add_subcommand(
      "drain", "Have a server give what it leads to another one, before an upgrade.");
  drain->add_option("name", options->server, "The server's name in `weft cluster status`")
      ->required();
  AddDatabase(*drain, *options);
  drain->callback([options, exit_code] { *exit_code = ReportStatus(Run(*options, Drain)); });
}

}  // namespace weft::apps
