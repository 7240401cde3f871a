// How records are opened: the lock, what cannot be used, what cannot be written, and the journals
// that stood there before.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "base/bytes.h"
#include "base/file.h"
#include "store/records.h"

namespace weft::store {
namespace {

constexpr mode_t kLockMode = 0600;
constexpr uint64_t kMaxJournalBytes = 256u << 20;

void AddSentence(std::string& note, const std::string& sentence) {
  note += (note.empty() ? "" : " ") + sentence;
}

std::filesystem::path WithEnding(const std::filesystem::path& path, std::string_view ending) {
  std::filesystem::path with = path;
  with += ending;
  return with;
}

// Two servers would write placements of one another. SQLite's own locks let several write.
Result<Descriptor> Lock(const std::filesystem::path& path) {
  const std::filesystem::path lock = WithEnding(path, ".lock");
  Descriptor file(open(lock.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kLockMode));
  if (!file.is_open()) return SystemError("Cannot open", lock);
  if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
  if (errno != EWOULDBLOCK) return SystemError("Cannot lock", lock);
  return Error(ErrorCode::kUnavailable,
               "Another server that runs uses the journal '" + path.string() + "'.");
}

Status PutAside(const std::filesystem::path& path, const std::string& why, std::string& note) {
  const std::filesystem::path aside = WithEnding(path, ".bad");
  if (rename(path.c_str(), aside.c_str()) != 0) return SystemError("Cannot rename", path);
  // What belongs to it goes with it: beside another file it would be taken for that one's.
  for (const std::string_view ending : {"-wal", "-shm"})
    (void)rename(WithEnding(path, ending).c_str(), WithEnding(aside, ending).c_str());
  AddSentence(note, "The journal '" + path.string() + "' cannot be used: " + why +
                        " It was put aside as '" + aside.string() + "', and a new one is begun.");
  return OkStatus();
}

bool IsOldJournal(const std::filesystem::path& path) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  std::array<char, 32> beginning{};
  std::ifstream file(path, std::ios::binary);
  file.read(beginning.data(), beginning.size());
  return LooksLikeOldJournal({beginning.data(), static_cast<size_t>(file.gcount())});
}

// The journals that earlier versions kept for this file: serve-8080.journal for serve-8080.db, and
// one for each of several models, serve-8080.journal.0f3a6b7c8d9e. One that was named stands aside
// as FILE.before: the database has its name.
std::vector<std::filesystem::path> JournalsOf(const std::filesystem::path& path) {
  std::filesystem::path own = path;
  if (path.extension() == ".db") own.replace_extension(".journal");
  std::vector<std::filesystem::path> journals;
  const std::string beginning = own.filename().string() + ".";
  std::error_code error;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_models =
        name.starts_with(beginning) && name.size() == beginning.size() + 12 &&
        name.find_first_not_of("0123456789abcdef", beginning.size()) == std::string::npos;
    if (is_models && IsOldJournal(entry.path())) journals.push_back(entry.path());
  }
  // Last: of a key or device that several know, the server's own counts.
  for (const auto& each : {own, WithEnding(path, ".before")})
    if (each != path && IsOldJournal(each)) journals.push_back(each);
  return journals;
}

// Whether the file is what other programs, versions or people have left, which a new one may take
// the place of.
bool CanBePutAside(ErrorCode code) {
  return code == ErrorCode::kInvalidData || code == ErrorCode::kUnsupported;
}

}  // namespace

DatabaseOptions RecordsOptions() {
  DatabaseOptions options;
  // The token ids of a prompt take at most 5 bytes for each of a body's 2^20.
  options.longest_value_bytes = 16 << 20;
  options.without = "without records";
  return options;
}

Result<std::unique_ptr<Records>> Records::Open(const std::filesystem::path& path, int64_t now_ms) {
  if (path.empty()) return MakeInMemory(now_ms);
  if (const Status made = MakeOwnFolder(path.parent_path()); !made.ok())
    return Error(made.error().code(),
                 "The journal '" + path.string() + "' has no folder. " + made.error().message());
  auto lock = Lock(path);
  if (!lock.ok() && lock.error().code() == ErrorCode::kUnavailable) return lock.error();
  std::string note;
  std::error_code unknown;
  auto opened = lock.ok() ? OpenFile(path, now_ms, &note) : lock.error();
  if (!opened.ok() && opened.error().code() != ErrorCode::kInvalidArgument &&
      std::filesystem::exists(path, unknown) && !IsOthersFile(path)) {
    opened = ReadIntoMemory(path, opened.error());
  }
  if (!opened.ok()) return opened.error();
  if (lock.ok()) (*opened)->lock_ = std::move(*lock);
  (*opened)->note_ = note;
  return opened;
}

Result<std::unique_ptr<Records>> Records::OpenFile(const std::filesystem::path& path,
                                                   int64_t now_ms, std::string* note) {
  if (IsOldJournal(path) && !IsOthersFile(path) &&
      rename(path.c_str(), WithEnding(path, ".before").c_str()) != 0)
    return SystemError("Cannot rename", path);
  if (IsOthersFile(path))
    TRY(PutAside(path, "Others than this user could have written it.", *note));
  auto file =
      DatabaseFile::Open(path, OpenMode::kCreate, RecordsSchema(), RecordsOptions(), now_ms);
  if (!file.ok() && CanBePutAside(file.error().code())) {
    TRY(PutAside(path, file.error().message(), *note));
    file = DatabaseFile::Open(path, OpenMode::kCreate, RecordsSchema(), RecordsOptions(), now_ms);
  }
  if (!file.ok()) return file.error();
  std::unique_ptr<Records> records(new Records(std::move(*file)));
  // Several transactions, all again where the machine fails between them: they come to the same.
  for (const std::filesystem::path& journal : JournalsOf(path)) {
    const Status imported = records->ImportFrom(journal, now_ms);
    if (imported.ok()) {
      if (!records->note_.empty()) AddSentence(*note, records->note_);
    } else if (imported.error().code() == ErrorCode::kIo) {
      // The next start tries again: it may have room on its disk.
      AddSentence(*note, "The journal '" + journal.string() +
                             "' is not imported yet: " + imported.error().message());
    } else {
      TRY(PutAside(journal, imported.error().message(), *note));
    }
  }
  records->note_.clear();
  return records;
}

Status Records::ImportFrom(const std::filesystem::path& journal, int64_t now_ms) {
  note_.clear();
  if (IsOthersFile(journal))
    return Error(ErrorCode::kPermissionDenied, "Others than this user could have written it.");
  ASSIGN_OR_RETURN(const std::string bytes, ReadTextFile(journal, kMaxJournalBytes));
  ASSIGN_OR_RETURN(const OldJournal read, ReadOldJournal(AsBytes(bytes)));
  TRY(Import(read, now_ms));
  const std::filesystem::path imported = WithEnding(journal, ".imported");
  if (rename(journal.c_str(), imported.c_str()) != 0) return SystemError("Cannot rename", journal);
  (void)unlink(WithEnding(journal, ".lock").c_str());
  if (read.good_bytes < bytes.size())
    note_ = std::to_string(bytes.size() - read.good_bytes) + " of " + std::to_string(bytes.size()) +
            " bytes of the journal '" + journal.string() +
            "' are no whole records and were left out.";
  return OkStatus();
}

Result<std::unique_ptr<Records>> Records::MakeInMemory(int64_t now_ms) {
  ASSIGN_OR_RETURN(Database database, Database::InMemory(RecordsOptions()));
  TRY(ApplyMigrations(database, RecordsSchema(), now_ms));
  TRY(database.Run("pragma foreign_keys = on"));
  return std::unique_ptr<Records>(new Records(std::move(database)));
}

// On a full or read-only disk what was noted before is known all the same.
Result<std::unique_ptr<Records>> Records::ReadIntoMemory(const std::filesystem::path& path,
                                                         Error why) {
  auto copied = Database::CopyToMemory(path, RecordsOptions());
  if (!copied.ok()) return why;
  const auto version = SchemaVersion(*copied);
  if (!version.ok() || *version != RecordsSchema().latest_version()) return why;
  TRY(copied->Run("pragma foreign_keys = on"));
  std::unique_ptr<Records> records(new Records(std::move(*copied)));
  records->status_ = std::move(why);
  return records;
}

}  // namespace weft::store
