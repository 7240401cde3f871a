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
using shared_store::KeyChecks;
using shared_store::SharedCell;
using shared_store::SharedServer;
using shared_store::SharedTables;

struct ClusterOptions {
  std::string url;  // of the database
  std::string key_file;
  std::string name = "weft";  // of the cluster
  std::string server;         // of `drain`
  std::string role;           // of `init`: that runs servers
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

Result<std::filesystem::path> KeyFile(const ClusterOptions& options) {
  const std::filesystem::path path = ClusterKeyFile(options.key_file);
  if (!path.empty()) return path;
  return Error(ErrorCode::kInvalidArgument,
               "There is no folder for the cluster's key: set HOME, or name a file with "
               "--cluster-key.");
}

// Of an earlier `init`, or a new one.
Result<ClusterKey> FindOrMakeKey(const ClusterOptions& options, const std::filesystem::path& path,
                                 bool* is_new) {
  auto found = ClusterKey::Read(path);
  *is_new = !found.ok() && found.error().code() == ErrorCode::kNotFound;
  if (*is_new) return ClusterKey::Random();
  if (!found.ok()) return found.error();
  const auto sorted = cluster_host::SortKeys(options.url, *found);
  return sorted.ok() ? sorted->front() : found->front();
}

Status Init(const ClusterOptions& options) {
  ASSIGN_OR_RETURN(const std::filesystem::path path, KeyFile(options));
  bool is_new = false;
  ASSIGN_OR_RETURN(const ClusterKey key, FindOrMakeKey(options, path, &is_new));
  ASSIGN_OR_RETURN(const auto database, Database::Open(options));
  ASSIGN_OR_RETURN(const Status made, database->Hear<Status>([&](auto done) {
    shared_store::MakeTables(database->connection(), key.Check(), options.name, std::move(done));
  }));
  TRY(made);
  if (!options.role.empty()) {
    ASSIGN_OR_RETURN(const Status granted, database->Hear<Status>([&](auto done) {
      shared_store::GrantRows(database->connection(), options.role, std::move(done));
    }));
    TRY(granted);
    std::cout << "The role '" << options.role << "' may read and write rows, and no more.\n";
  }
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

// The servers that run and do not have the key with this check yet: "b, c".
std::string WithoutKey(const SharedTables& tables, const std::vector<uint8_t>& check) {
  std::string names;
  for (const SharedServer& server : tables.servers)
    if (IsSeen(server) && server.next_check != check)
      names += (names.empty() ? "" : ", ") + TerminalText(server.name);
  return names;
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
      if (!Serves(server, cell.model)) continue;
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
  if (!tables.keys.next.empty()) {
    const std::string without = WithoutKey(tables, tables.keys.next);
    std::cout << "\nThe cluster's key is being exchanged; "
              << (without.empty() ? "all servers have the new one: run `weft cluster rekey` again."
                                  : "still without the new one: " + without + ".")
              << "\n";
  }
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

Status Change(Database& database, const KeyChecks& before, const KeyChecks& after) {
  ASSIGN_OR_RETURN(const Result<bool> changed, database.Hear<Result<bool>>([&](auto done) {
    shared_store::ChangeKeyChecks(database.connection(), before, after, std::move(done));
  }));
  if (!changed.ok()) return changed.error();
  if (*changed) return OkStatus();
  return Error(ErrorCode::kAlreadyExists,
               "Somebody else exchanges the cluster's key at this moment: look at `weft cluster "
               "status`.");
}

// First the file, then the database: a new key that the file has not is never counted on.
Status BeginRekey(Database& database, const std::filesystem::path& path, const ClusterKey& current,
                  const KeyChecks& checks) {
  const ClusterKey next = ClusterKey::Random();
  TRY(ClusterKey::Replace(path, {current, next}));
  TRY(Change(database, checks, {checks.current, next.Check()}));
  std::cout << "Two keys are valid now; both are in " << path.string()
            << ".\n\nNext: copy that file to each server. They see it in a second, and go on. Then "
               "run\n`weft cluster rekey` again: it lets the new key count alone.\n";
  return OkStatus();
}

Status EndRekey(Database& database, const std::filesystem::path& path, const ClusterKey& current,
                const ClusterKey& next, const KeyChecks& checks) {
  ASSIGN_OR_RETURN(const SharedTables tables, database.Read());
  const std::string without = WithoutKey(tables, checks.next);
  if (!without.empty())
    return Error(ErrorCode::kUnavailable, "The new key is not at all servers yet (" + without +
                                              "): copy " + path.string() +
                                              " there, and run this again.");
  TRY(Change(database, checks, {checks.next, {}}));
  TRY(ClusterKey::Replace(path, {next, current}));
  std::cout
      << "The new key counts alone between servers. Restart them one after the other.\n\n"
         "Links that followed from the old key let devices in for as long as it is the second "
         "line\nof a server's "
      << path.string() << ": delete it there when you have given out new ones.\n";
  return OkStatus();
}

Status Rekey(const ClusterOptions& options) {
  ASSIGN_OR_RETURN(const std::filesystem::path path, KeyFile(options));
  ASSIGN_OR_RETURN(const std::vector<ClusterKey> keys, ClusterKey::Read(path));
  ASSIGN_OR_RETURN(const auto database, Database::Open(options));
  ASSIGN_OR_RETURN(const Result<KeyChecks> checks,
                   database->Hear<Result<KeyChecks>>([&](auto done) {
                     shared_store::ReadKeyChecks(database->connection(), std::move(done));
                   }));
  if (!checks.ok()) return checks.error();
  const auto find = [&](const std::vector<uint8_t>& check) {
    return std::ranges::find_if(keys, [&](const ClusterKey& key) { return key.Check() == check; });
  };
  const auto current = find(checks->current), next = find(checks->next);
  if (current == keys.end() || (!checks->next.empty() && next == keys.end()))
    return Error(ErrorCode::kInvalidArgument,
                 "The file '" + path.string() +
                     "' does not have the cluster's key: copy that of a server that works.");
  if (checks->next.empty()) return BeginRekey(*database, path, *current, *checks);
  return EndRekey(*database, path, *current, *next, *checks);
}

void AddDatabase(CLI::App& command, ClusterOptions& options) {
  command.add_option("--cluster", options.url,
                     "Address of the database (default: WEFT_CLUSTER), e.g. "
                     "postgres://weft@db/weft");
}

void AddKeyFile(CLI::App& command, ClusterOptions& options) {
  command.add_option("--cluster-key", options.key_file,
                     "The key's file (default: /etc/weft/cluster.key, or cluster.key in the state "
                     "folder)");
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
  CLI::App* cluster =
      app.add_subcommand("cluster", "Several servers with one database that lead models by turns.");
  cluster->require_subcommand(1);
  CLI::App* init = cluster->add_subcommand(
      "init", "Make the tables and the cluster's key, or bring tables up to this version.");
  init->add_option("database", options->url, "Address, e.g. postgres://weft@db/weft")->required();
  init->add_option("--name", options->name, "The cluster's name, for people")
      ->capture_default_str();
  AddKeyFile(*init, *options);
  init->add_option("--role", options->role,
                   "Role of the database that runs servers: it may read and write rows alone");
  init->callback([options, exit_code] { *exit_code = ReportStatus(Run(*options, Init)); });
  CLI::App* status = cluster->add_subcommand("status", "The servers, and who leads which model.");
  AddDatabase(*status, *options);
  status->callback([options, exit_code] { *exit_code = ReportStatus(Run(*options, ShowStatus)); });
  CLI::App* drain = cluster->add_subcommand(
      "drain", "Have a server give what it leads to another one, before an upgrade.");
  drain->add_option("name", options->server, "The server's name in `weft cluster status`")
      ->required();
  AddDatabase(*drain, *options);
  CLI::App* rekey = cluster->add_subcommand(
      "rekey", "Exchange the cluster's key while servers run: once to begin, once to end.");
  AddDatabase(*rekey, *options);
  AddKeyFile(*rekey, *options);
  rekey->callback([options, exit_code] { *exit_code = ReportStatus(Run(*options, Rekey)); });
  drain->callback([options, exit_code] { *exit_code = ReportStatus(Run(*options, Drain)); });
}

}  // namespace weft::apps
