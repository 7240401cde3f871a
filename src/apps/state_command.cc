// `weft state`: keys, usage and what servers have noted for their next start, as one file to keep
// or to move.
#include <fstream>
#include <iostream>

#include "apps/commands.h"
#include "apps/state_folder.h"
#include "base/file.h"
#include "base/sentence.h"
#include "base/unix_time.h"
#include "cluster_host/cluster_member.h"
#include "store/records.h"
#include "store/store.h"
#include "store/transfer.h"

namespace weft::apps {
namespace {

struct StateOptions {
  std::string file;     // of the export
  std::string keys;     // "": in the state folder
  std::string cluster;  // "": the keys are in a file; else the address of the cluster's database
  std::string journal;  // "": of the port, in the state folder
  uint16_t port = 8080;
};

std::filesystem::path RecordsFile(const StateOptions& options) {
  return options.journal.empty() ? JournalFile(options.port)
                                 : std::filesystem::path(options.journal);
}

Error NoFolder() {
  return {ErrorCode::kInvalidArgument,
          "There is no folder for weft's state: neither XDG_STATE_HOME nor HOME is set. Set one of "
          "them, or name files with --keys and --journal."};
}

std::string CountText(const store::TransferCount& count, const std::string& what,
                      const std::filesystem::path& path) {
  return Sentence(count.rows, " rows of ", what, " (", path.string(), ")");
}

// An empty database in memory with the tables for keys.
Result<store::Database> EmptyKeys() {
  ASSIGN_OR_RETURN(store::Database database, store::Database::InMemory({}));
  TRY(store::ApplyMigrations(database, store::KeysSchema(), UnixNowMs()));
  return database;
}

// The keys of a cluster, in the lines of those of a file.
Result<store::TransferCount> ExportCluster(const std::string& url, std::string& text) {
  ASSIGN_OR_RETURN(const auto shared, cluster_host::OpenKeys(url));
  ASSIGN_OR_RETURN(const std::vector<store::Key> keys, shared->Keys());
  ASSIGN_OR_RETURN(const std::vector<store::KeptUsage> usage, shared->AllUsage());
  ASSIGN_OR_RETURN(store::Database database, EmptyKeys());
  TRY(store::PutKeys(database, keys, usage));
  return store::ExportRows(database, store::KeysSchema(), [&text](const std::string& line) {
    text += line + "\n";
    return OkStatus();
  });
}

// nullopt: there is no such file.
Result<std::optional<store::TransferCount>> ExportFile(const std::filesystem::path& path,
                                                       const store::Schema& schema,
                                                       const store::DatabaseOptions& options,
                                                       std::string& text) {
  auto file =
      store::DatabaseFile::Open(path, store::OpenMode::kExisting, schema, options, UnixNowMs());
  if (!file.ok() && file.error().code() == ErrorCode::kNotFound)
    return std::optional<store::TransferCount>();
  if (!file.ok()) return file.error();
  ASSIGN_OR_RETURN(const store::TransferCount count,
                   store::ExportRows(file->database(), schema, [&text](const std::string& line) {
                     text += line + "\n";
                     return OkStatus();
                   }));
  return std::optional(count);
}

// Whoever reads hashes of keys cannot use them, but prompts may be in it.
Status WriteExport(const std::string& file, const std::string& text) {
  TRY(WriteFileAtomically(file, AsBytes(text)));
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  std::cerr << "Written to '" << file << "'.\n";
  return OkStatus();
}

Status Export(const StateOptions& options) {
  std::string text;
  if (!options.cluster.empty()) {
    ASSIGN_OR_RETURN(const store::TransferCount count, ExportCluster(options.cluster, text));
    std::cerr << count.rows << " rows of keys and usage of the cluster\n";
    return WriteExport(options.file, text);
  }
  const std::filesystem::path keys = KeysFile(options.keys), records = RecordsFile(options);
  if (keys.empty() || records.empty()) return NoFolder();
  ASSIGN_OR_RETURN(const auto key_count, ExportFile(keys, store::KeysSchema(), {}, text));
  ASSIGN_OR_RETURN(const auto record_count,
                   ExportFile(records, store::RecordsSchema(), store::RecordsOptions(), text));
  if (!key_count && !record_count)
    return Error(ErrorCode::kNotFound, "There is nothing to export: neither '" + keys.string() +
                                           "' nor '" + records.string() + "' is there.");
  if (key_count) std::cerr << CountText(*key_count, "keys and usage", keys) << "\n";
  if (record_count) std::cerr << CountText(*record_count, "records", records) << "\n";
  return WriteExport(options.file, text);
}

// nullopt: the export has nothing of it.
Result<std::optional<store::TransferCount>> ImportInto(store::Database& database,
                                                       const store::Schema& schema,
                                                       const std::string& file) {
  ASSIGN_OR_RETURN(store::RowsImport import, store::RowsImport::Begin(database, schema));
  std::ifstream lines(file, std::ios::binary);
  if (!lines) return SystemError("Cannot open", file);
  for (std::string line; std::getline(lines, line);) TRY(import.Add(line));
  const auto count = import.Commit();
  if (!count.ok() && count.error().code() == ErrorCode::kNotFound)
    return std::optional<store::TransferCount>();
  if (!count.ok()) return count.error();
  return std::optional(*count);
}

// Reads the whole file into memory first: what is wrong in it makes no file and changes none.
Status Check(const std::string& file) {
  int found_count = 0;
  for (const auto& [schema, options] :
       {std::pair(&store::KeysSchema(), store::DatabaseOptions()),
        std::pair(&store::RecordsSchema(), store::RecordsOptions())}) {
    ASSIGN_OR_RETURN(store::Database database, store::Database::InMemory(options));
    TRY(store::ApplyMigrations(database, *schema, UnixNowMs()));
    ASSIGN_OR_RETURN(const auto count, ImportInto(database, *schema, file));
    if (count) ++found_count;
  }
  if (found_count > 0) return OkStatus();
  return Error(ErrorCode::kInvalidData,
               "The file '" + file + "' has nothing of `weft state export`.");
}

Status ImportKeys(const std::filesystem::path& path, const std::string& file) {
  ASSIGN_OR_RETURN(store::DatabaseFile keys,
                   store::DatabaseFile::Open(path, store::OpenMode::kCreate, store::KeysSchema(),
                                             {}, UnixNowMs()));
  ASSIGN_OR_RETURN(const auto count, ImportInto(keys.database(), store::KeysSchema(), file));
  if (count) std::cerr << CountText(*count, "keys and usage", path) << "\n";
  return OkStatus();
}

Status ImportRecords(const std::filesystem::path& path, const std::string& file) {
  ASSIGN_OR_RETURN(const auto records, store::Records::Open(path, UnixNowMs()));
  TRY(Status(records->status()));
  ASSIGN_OR_RETURN(const auto count, ImportInto(records->database(), store::RecordsSchema(), file));
  if (count) std::cerr << CountText(*count, "records", path) << "\n";
  return OkStatus();
}

// Keys alone: records are of one server.
Status ImportCluster(const StateOptions& options) {
  TRY(Check(options.file));
  ASSIGN_OR_RETURN(store::Database database, EmptyKeys());
  ASSIGN_OR_RETURN(const auto count, ImportInto(database, store::KeysSchema(), options.file));
  if (!count) return Error(ErrorCode::kNotFound, "The file '" + options.file + "' has no keys.");
  ASSIGN_OR_RETURN(const std::vector<store::Key> keys, store::ReadKeys(database));
  ASSIGN_OR_RETURN(const std::vector<store::KeptUsage> usage, store::ReadUsage(database));
  ASSIGN_OR_RETURN(const auto shared, cluster_host::OpenKeys(options.cluster));
  ASSIGN_OR_RETURN(const int64_t taken, shared->TakeOver(keys, usage));
  std::cerr << "The cluster has " << taken << (taken == 1 ? " more key" : " more keys")
            << ", with their usage";
  const auto known = static_cast<int64_t>(keys.size()) - taken;
  if (known > 0) std::cerr << "; " << known << " of the file it had already";
  std::cerr << ".\n";
  return OkStatus();
}

Status Import(const StateOptions& options) {
  if (!std::filesystem::exists(options.file))
    return Error(ErrorCode::kNotFound, "There is no file '" + options.file + "'.");
  if (!options.cluster.empty()) return ImportCluster(options);
  const std::filesystem::path keys = KeysFile(options.keys), records = RecordsFile(options);
  if (keys.empty() || records.empty()) return NoFolder();
  TRY(Check(options.file));
  TRY(ImportKeys(keys, options.file));
  return ImportRecords(records, options.file);
}

void AddPlaces(CLI::App& command, StateOptions& options) {
  CLI::Option* keys = command.add_option(
      "--keys", options.keys, "File with the keys (default: weft.db in the state folder)");
  CLI::Option* journal = command.add_option(
      "--journal", options.journal,
      "File with a server's records (default: serve-PORT.db in the state folder)");
  command.add_option("--port", options.port, "The server's port")
      ->capture_default_str()
      ->excludes(journal);
  command
      .add_option("--cluster", options.cluster,
                  "Address of a cluster's database: its keys and their usage, and no records")
      ->excludes(keys)
      ->excludes(journal);
}

}  // namespace

void AddStateCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<StateOptions>();
  CLI::App* state = app.add_subcommand(
      "state", "Keep or move what servers know: keys, usage, and records for their next start.");
  state->require_subcommand(1);
  CLI::App* exported = state->add_subcommand(
      "export", "Write all of it into one file, a line of JSON for each row.");
  exported->add_option("file", options->file, "The file to write")->required();
  AddPlaces(*exported, *options);
  exported->callback([options, exit_code] { *exit_code = ReportStatus(Export(*options)); });
  CLI::App* imported = state->add_subcommand(
      "import", "Read such a file into databases that are empty or not there yet.");
  imported->add_option("file", options->file, "The file to read")->required();
  AddPlaces(*imported, *options);
  imported->callback([options, exit_code] { *exit_code = ReportStatus(Import(*options)); });
}

}  // namespace weft::apps
