#include "cluster_host/cluster_member.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "base/sentence.h"
#include "shared_store/cluster_tables.h"
#include "wire/version.h"

namespace weft::cluster_host {
namespace {

using shared_store::SharedCell;
using shared_store::SharedServer;

// Of the first connection: as long as the database's machine may need to say that it is not there.
constexpr Duration kConnectLimit = Seconds(8);
constexpr Duration kKeysLookInterval = Seconds(1);

bool Mentions(const std::string& text, const char* word) {
  return text.find(word) != std::string::npos;
}

Error NoDatabase(const std::string& problem) {
  const auto because = [&](const char* advice) {
    return Error(ErrorCode::kUnavailable,
                 Sentence("The cluster's database cannot be used (", problem, "): ", advice));
  };
  if (Mentions(problem, "read-only"))
    return because("it takes no writes. Name the primary, not a standby.");
  if (Mentions(problem, "password") || Mentions(problem, "authentication") ||
      Mentions(problem, "role"))
    return because("check the user, and the password in ~/.pgpass or PGPASSWORD.");
  if (Mentions(problem, "does not exist"))
    return because("make it with `createdb -O weft weft`, or correct the address.");
  return because("check that it runs, that its machine lets this one in, and the address.");
}

uint64_t RandomId() {
  std::array<uint8_t, 8> bytes{};
  SecureRandomBytes(bytes);
  const auto id = LoadLe<uint64_t>(bytes.data());
  return id == 0 ? 1 : id;
}

std::vector<std::vector<uint8_t>> ChecksOf(const std::vector<ClusterKey>& keys) {
  std::vector<std::vector<uint8_t>> checks;
  for (const ClusterKey& key : keys) checks.push_back(key.Check());
  return checks;
}

}  // namespace

std::string ServerNameOf(const net::Url& url) {
  const bool is_default = url.port == (url.tls ? 443 : 80);
  if (net::IsIpAddress(url.host) || url.host == "localhost")
    return is_default ? url.host : url.Authority();
  const std::string name = url.host.substr(0, url.host.find('.'));
  return is_default ? name : name + ":" + std::to_string(url.port);
}

Status Await(net::EventLoop& loop, const std::function<void(std::function<void()>)>& ask) {
  bool is_told = false;
  ask([&] {
    is_told = true;
    loop.Stop();
  });
  if (!is_told) loop.Run();
  if (is_told) return OkStatus();
  return Error(ErrorCode::kCancelled, "Stopped before the cluster's database had answered.");
}

Result<std::unique_ptr<postgres::Connection>> OpenDatabase(net::EventLoop& loop,
                                                           const std::string& url) {
  TRY(postgres::CheckUrl(url));
  ASSIGN_OR_RETURN(const postgres::Libpq* libpq, postgres::Libpq::Load());
  postgres::ConnectionOptions options;
  options.url = url;
  auto connection = std::make_unique<postgres::Connection>(loop, *libpq, options);
  net::EventLoop::Timer limit(loop);
  TRY(Await(loop, [&](const std::function<void()>& done) {
    connection->OnLine([done](bool) { done(); });
    limit.FireAfter(kConnectLimit, done);
  }));
  connection->OnLine(nullptr);
  if (connection->is_connected()) return connection;
  return NoDatabase(connection->problem().empty() ? "no answer in 8 s" : connection->problem());
}

Result<std::unique_ptr<shared_store::SharedKeys>> OpenKeys(const std::string& url) {
  auto loop = std::make_unique<net::EventLoop>();
  ASSIGN_OR_RETURN(auto connection, OpenDatabase(*loop, url));
  auto keys = std::make_unique<shared_store::SharedKeys>(std::move(loop), std::move(connection));
  TRY(keys->DataVersion());
  return keys;
}

Result<std::vector<ClusterKey>> SortKeys(const std::string& url, std::vector<ClusterKey> keys) {
  if (keys.size() < 2) return keys;
  net::EventLoop loop;
  ASSIGN_OR_RETURN(const auto connection, OpenDatabase(loop, url));
  Result<shared_store::KeyChecks> checks = shared_store::KeyChecks();
  TRY(Await(loop, [&](const std::function<void()>& done) {
    shared_store::ReadKeyChecks(*connection, [&checks, done](Result<shared_store::KeyChecks> read) {
      checks = std::move(read);
      done();
    });
  }));
  if (!checks.ok()) return checks.error();
  std::stable_partition(keys.begin(), keys.end(),
                        [&](const ClusterKey& key) { return key.Check() == checks->current; });
  return keys;
}

// The lock proves that earlier starts with this id have gone.
Status ClusterMember::TakeId(const std::filesystem::path& path) {
  if (path.empty())
    return Error(ErrorCode::kInvalidArgument,
                 "A server of a cluster keeps its id in the state folder, and with its port: set "
                 "XDG_STATE_HOME or HOME, and name a --port.");
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  id_file_ = Descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!id_file_.is_open()) return SystemError("Cannot open the server's id", path);
  if (flock(id_file_.get(), LOCK_EX | LOCK_NB) != 0)
    return Error(ErrorCode::kAlreadyExists,
                 Sentence("Another process has the server's id '", path.string(),
                          "': this server runs already."));
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, 64));
  const auto kept = FromHex(std::string_view(text).substr(0, 16));
  if (text.size() >= 16 && kept && kept->size() == 8) {
    self_.server = cluster::ServerId(LoadLe<uint64_t>(kept->data()));
  } else {
    std::array<uint8_t, 8> bytes{};
    StoreLe<uint64_t>(bytes.data(), RandomId());
    self_.server = cluster::ServerId(LoadLe<uint64_t>(bytes.data()));
    const std::string written = ToHex(bytes) + "\n";
    if (ftruncate(id_file_.get(), 0) != 0 ||
        pwrite(id_file_.get(), written.data(), written.size(), 0) !=
            static_cast<ssize_t>(written.size()) ||
        fsync(id_file_.get()) != 0)
      return SystemError("Cannot write the server's id", path);
  }
  self_.start = cluster::StartId(RandomId());
  return OkStatus();
}

Status ClusterMember::ReadTables(net::EventLoop& loop) {
  Status status = OkStatus();
  TRY(Await(loop, [&](std::function<void()> done) {
    store_->Read([&status, this, done](Result<shared_store::SharedTables> read) {
      if (read.ok())
        tables_ = std::move(*read);
      else
        status = read.error();
      done();
    });
  }));
  return status;
}

const SharedCell* ClusterMember::FindModel(const std::string& model) const {
  const auto found = std::ranges::find(tables_.cells, model, &SharedCell::model);
  return found == tables_.cells.end() ? nullptr : &*found;
}

Result<JoinedCell> ClusterMember::ChooseCell(const WantedCell& wanted, const SharedCell& cell) {
  if (cell.digest != wanted.digest)
    return Error(
        ErrorCode::kInvalidArgument,
        Sentence("This cluster serves the package ", ToHex(cell.digest).substr(0, 12), " of '",
                 cell.model, "', and this server has ", ToHex(wanted.digest).substr(0, 12),
                 ": copy the package's folder from a server that works."));
  JoinedCell joined{cell, {}};
  if (!joined.options.ParseFromArray(cell.options.data(), static_cast<int>(cell.options.size())))
    return Error(ErrorCode::kInvalidData,
                 Sentence("The options of '", cell.model, "' in the database cannot be parsed."));
  if (joined.options.SerializeAsString() != wanted.options.SerializeAsString())
    LogInfo(
        "{}: the cell has the options of the server that made it: {} positions, {} conversations",
        cell.model, joined.options.context_length(), joined.options.session_count());
  return joined;
}

Result<JoinedCell> ClusterMember::FindCell(net::EventLoop& loop, const WantedCell& wanted) {
  TRY(ReadTables(loop));
  if (const SharedCell* cell = FindModel(wanted.model)) return ChooseCell(wanted, *cell);
  std::vector<uint8_t> options(wanted.options.ByteSizeLong());
  wanted.options.SerializeToArray(options.data(), static_cast<int>(options.size()));
  std::vector<uint8_t> swarm_id(16);
  SecureRandomBytes(swarm_id);
  Status status = OkStatus();
  TRY(Await(loop, [&](std::function<void()> done) {
    store_->AddCell(wanted.model, wanted.digest, options, swarm_id,
                    [&status, done](const Result<cluster::CellId>& added) {
                      // Another server may have added it just now.
                      if (!added.ok() && added.error().code() != ErrorCode::kAlreadyExists)
                        status = added.error();
                      done();
                    });
  }));
  TRY(status);
  TRY(ReadTables(loop));
  if (const SharedCell* cell = FindModel(wanted.model)) return ChooseCell(wanted, *cell);
  return Error(ErrorCode::kInvalidData,
               Sentence("The cluster has the package of '", wanted.model,
                        "' under another name: start this server with that one."));
}

Result<std::unique_ptr<ClusterMember>> ClusterMember::Join(net::EventLoop& loop,
                                                           const MemberOptions& options,
                                                           const std::vector<uint8_t>& fingerprint,
                                                           const std::vector<WantedCell>& wanted) {
  ASSIGN_OR_RETURN(const net::Url url, net::ParseUrl(options.url));
  for (const WantedCell& each : wanted)
    if (each.model.find('\n') != std::string::npos)
      return Error(ErrorCode::kInvalidArgument,
                   Sentence("The model's name '", each.model,
                            "' has several lines: a cluster's models need names of one line."));
  std::unique_ptr<ClusterMember> member(new ClusterMember(loop, options));
  TRY(member->TakeId(options.id_file));
  ASSIGN_OR_RETURN(member->database_, OpenDatabase(loop, options.database_url));
  Status status = OkStatus();
  const auto keep = [&status](const std::function<void()>& done) {
    return [&status, done](Status told) {
      status = std::move(told);
      done();
    };
  };
  TRY(Await(loop, [&](const std::function<void()>& done) {
    shared_store::CheckTables(*member->database_, options.keys.front().Check(), keep(done));
  }));
  TRY(status);
  const cluster::LeaseOptions lease;
  member->store_ = std::make_unique<shared_store::SharedLeases>(*member->database_, member->self_,
                                                                lease.time_to_live);
  SharedServer self;
  self.id = member->self_.server;
  self.start = member->self_.start;
  self.name = ServerNameOf(url);
  self.url = (url.tls ? "https://" : "http://") + url.Authority();
  self.fingerprint = fingerprint;
  self.version = wire::kServerVersion;
  self.roles = "both";
  for (const WantedCell& each : wanted) self.models.push_back(each.model);
  if (options.keys.size() > 1) self.next_check = options.keys[1].Check();
  TRY(Await(loop, [&](const std::function<void()>& done) {
    member->store_->Register(self, keep(done));
  }));
  TRY(status);
  for (const WantedCell& each : wanted) {
    ASSIGN_OR_RETURN(JoinedCell joined, member->FindCell(loop, each));
    member->cells_.push_back(std::move(joined));
  }
  member->links_ = std::make_unique<PeerLinks>(loop, options.keys.front(), member->self_);
  member->SetLinkKeys(member->tables_.keys);
  member->leases_ =
      std::make_unique<LeaseHost>(loop, *member->store_, *member->links_, self, lease);
  return member;
}

void ClusterMember::Start() {
  leases_->Start();
  LookForKeys();
}

// A file that cannot be read, because it is being copied or is not there, changes nothing.
void ClusterMember::LookForKeys() {
  key_timer_.FireAfter(kKeysLookInterval, [this] { LookForKeys(); });
  std::vector<ClusterKey> keys = keys_;
  std::error_code failed;
  const auto time = std::filesystem::last_write_time(key_file_, failed);
  if (!failed && time != key_file_time_) {
    key_file_time_ = time;
    if (auto read = ClusterKey::Read(key_file_); read.ok()) keys = *std::move(read);
  }
  const shared_store::KeyChecks& valid = leases_->tables().keys;
  const auto is_current = [&](const ClusterKey& key) { return key.Check() == valid.current; };
  // Keys without the one that counts would end all links; the database was not read yet.
  if (std::ranges::none_of(keys, is_current)) return;
  std::stable_partition(keys.begin(), keys.end(), is_current);
  if (ChecksOf(keys) == ChecksOf(keys_) && valid == valid_keys_) return;
  keys_ = std::move(keys);
  SetLinkKeys(valid);
  LogInfo("the cluster's key has changed: {} now",
          valid.next.empty() ? "one is valid" : "two are valid");
  leases_->NoteNextKey(keys_.size() > 1 ? keys_[1].Check() : std::vector<uint8_t>());
  if (on_keys_) on_keys_();
}

// Between servers a key counts that the database names. A file may have one of before.
void ClusterMember::SetLinkKeys(const shared_store::KeyChecks& valid) {
  valid_keys_ = valid;
  std::vector<ClusterKey> keys;
  for (const ClusterKey& key : keys_)
    if (key.Check() == valid.current || key.Check() == valid.next) keys.push_back(key);
  links_->SetKeys(std::move(keys));
}

std::string ClusterMember::Describe() const {
  const auto count = [](size_t number, const char* what) {
    return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
  };
  return tables_.cluster + ": " + count(tables_.servers.size(), "server") + ", " +
         count(tables_.cells.size(), "cell");
}

}  // namespace weft::cluster_host
