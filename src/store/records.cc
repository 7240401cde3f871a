#include "store/records.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/random.h"
#include "base/sentence.h"

namespace weft::store {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr std::string_view kSeedKey = "seed_key";
// How often old requests are looked for, in requests that begin.
constexpr uint64_t kDropInterval = 1024;

Bytes BytesOf(std::string_view text) {
  return {text.begin(), text.end()};
}

std::string TextOf(ByteSpan bytes) {
  return std::string(AsText(bytes));
}

// 32-bit numbers, little-endian.
Bytes BytesOf(const std::vector<int32_t>& ids) {
  Bytes bytes(ids.size() * sizeof(int32_t));
  for (size_t i = 0; i < ids.size(); ++i) StoreLe(bytes.data() + i * sizeof(int32_t), ids[i]);
  return bytes;
}

std::vector<int32_t> IdsOf(ByteSpan bytes) {
  std::vector<int32_t> ids(bytes.size() / sizeof(int32_t));
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = LoadLe<int32_t>(bytes.data() + i * sizeof(int32_t));
  return ids;
}

// What a row holds of a message; nullopt: not one of this kind.
template <typename Message>
std::optional<Message> MessageOf(ByteSpan bytes) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return std::nullopt;
  return message;
}

Bytes BytesOf(const google::protobuf::MessageLite& message) {
  return BytesOf(std::string_view(message.SerializeAsString()));
}

}  // namespace

Status Records::SetDurability(Durability durability) {
  if (durability_ == durability) return OkStatus();
  const bool is_synced = durability == Durability::kMachine;
  TRY(database().Run(is_synced ? "pragma synchronous = full" : "pragma synchronous = normal"));
  durability_ = durability;
  return OkStatus();
}

// ---- secrets ----

Result<std::vector<StoredSecrets>> Records::Secrets() {
  std::vector<StoredSecrets> all;
  ASSIGN_OR_RETURN(Rows rows, database().Ask("select api_key, join_token, hidden_join_token, used "
                                             "from secrets order by id"));
  while (rows.has_row()) {
    all.push_back(
        {TextOf(rows.Blob(0)), TextOf(rows.Blob(1)), TextOf(rows.Blob(2)), rows.Int(3) != 0});
    TRY(rows.Next());
  }
  return all;
}

Status Records::AddSecrets(const StoredSecrets& secrets, bool only_key, bool only_token) {
  const Bytes key = BytesOf(secrets.api_key), token = BytesOf(secrets.join_token);
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database()));
  ASSIGN_OR_RETURN(const int64_t used_before,
                   database().AskNumber("select count(*) from secrets where api_key = ? and "
                                        "join_token = ? and used",
                                        {key, token}));
  TRY(database().Run(
      "delete from secrets where (api_key = ?1 and join_token = ?2) or (?3 and api_key <> ?1) or "
      "(?4 and join_token <> ?2)",
      {key, token, int64_t{only_key}, int64_t{only_token}}));
  TRY(
      database().Run("delete from secrets where id in (select id from secrets order by used, id "
                     "limit max(0, (select count(*) from secrets) - ?))",
                     {kMostSecrets - 1}));
  TRY(database().Run(
      "insert into secrets (api_key, join_token, hidden_join_token, used) "
      "values (?, ?, ?, ?)",
      {key, token, BytesOf(secrets.hidden_join_token), int64_t{secrets.used || used_before > 0}}));
  return transaction.Commit();
}

Status Records::MarkUsed(const StoredSecrets& secrets) {
  return database().Run("update secrets set used = 1 where api_key = ? and join_token = ?",
                        {BytesOf(secrets.api_key), BytesOf(secrets.join_token)});
}

Result<std::string> Records::SeedKey() {
  Bytes key(32);
  SecureRandomBytes(key);
  TRY(database().Run("insert into settings values (?, ?) on conflict do nothing",
                     {std::string(kSeedKey), key}));
  ASSIGN_OR_RETURN(const Rows rows, database().Ask("select value from settings where name = ?",
                                                   {std::string(kSeedKey)}));
  return TextOf(rows.Blob(0));
}

// ---- a cell ----

Result<int64_t> Records::CellOf(std::string_view package_digest) {
  const Bytes model = BytesOf(package_digest);
  TRY(database().Run("insert into cells (model) values (?) on conflict do nothing", {model}));
  return database().AskNumber("select id from cells where model = ?", {model});
}

// Incarnations are the clock's milliseconds, so that they rise even where a file was lost.
Result<FoundCell> Records::BeginCell(std::string_view package_digest, bool keep_prompts,
                                     int64_t now_ms) {
  FoundCell found;
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database()));
  ASSIGN_OR_RETURN(found.cell, CellOf(package_digest));
  {
    ASSIGN_OR_RETURN(const Rows row, database().Ask("select incarnation, stopped from cells "
                                                    "where id = ?",
                                                    {found.cell}));
    found.incarnation = static_cast<uint64_t>(std::max(row.Int(0) + 1, now_ms));
    found.stopped_at_ms = row.OptionalInt(1);
  }
  TRY(database().Run("update cells set incarnation = ?, stopped = null where id = ?",
                     {static_cast<int64_t>(found.incarnation), found.cell}));
  if (!keep_prompts) {
    TRY(
        database().Run("delete from request_tokens where request in (select id from requests "
                       "where cell = ? and generation is not null)",
                       {found.cell}));
    TRY(database().Run("update requests set generation = null where cell = ?", {found.cell}));
  }
  TRY(DropOld(now_ms));
  TRY(
      database().Run("delete from cells where id <> ? and id not in (select id from cells "
                     "order by incarnation desc limit ?)",
                     {found.cell, kMostCells}));
  TRY(ReadPlaced(found, package_digest));
  TRY(ReadOpenRequests(found));
  TRY(transaction.Commit());
  return found;
}

// A clock that was set back a little leaves no request in the future for long.
Status Records::DropOld(int64_t now_ms) {
  begun_count_ = 0;
  TRY(database().Run("delete from requests where begun <= ? or begun > ?",
                     {now_ms - kRequestMs, now_ms + kRequestMs}));
  return database().Run("delete from requests where id <= (select max(id) from requests) - ?",
                        {kMostRequests});
}

Status Records::ReadPlaced(FoundCell& found, std::string_view package_digest) {
  ASSIGN_OR_RETURN(const Rows placement,
                   database().Ask("select body from placements where cell = ?", {found.cell}));
  if (placement.has_row()) found.placement = MessageOf<pb::Placement>(placement.Blob(0));
  ASSIGN_OR_RETURN(
      const Rows popularity,
      database().Ask("select body from popularities where model = ?", {BytesOf(package_digest)}));
  if (popularity.has_row()) found.popularity = MessageOf<pb::Popularity>(popularity.Blob(0));
  ASSIGN_OR_RETURN(Rows times, database().Ask("select device, losses, stayed_s from device_times"));
  while (times.has_row()) {
    pb::Lifetime& lifetime = found.lifetimes.emplace_back();
    lifetime.set_device(TextOf(times.Blob(0)));
    lifetime.set_losses(static_cast<uint64_t>(times.Int(1)));
    lifetime.set_stayed_s(times.Real(2));
    TRY(times.Next());
  }
  ASSIGN_OR_RETURN(Rows kept, database().Ask("select salt, name, ids, kept from kept_prefixes "
                                             "where cell = ? order by id",
                                             {found.cell}));
  while (kept.has_row()) {
    found.kept_prefixes.push_back(
        {TextOf(kept.Blob(0)), kept.Text(1), IdsOf(kept.Blob(2)), kept.Int(3) / 1000});
    TRY(kept.Next());
  }
  return OkStatus();
}

Status Records::ReadOpenRequests(FoundCell& found) {
  ASSIGN_OR_RETURN(Rows rows,
                   database().Ask("select key, digest, seed, begun, prompt_tokens, attempts, "
                                  "generation, id, coalesce(session, 0), first_generation, "
                                  "last_generation from requests where cell = ? and generation is "
                                  "not null order by id",
                                  {found.cell}));
  while (rows.has_row()) {
    OpenRequest request;
    request.request = MessageOf<pb::Request>(rows.Blob(6));
    request.key = TextOf(rows.Blob(0));
    request.digest = TextOf(rows.Blob(1));
    request.seed = static_cast<uint64_t>(rows.Int(2));
    request.begun_at_s = rows.Int(3) / 1000;
    request.prompt_tokens = static_cast<uint32_t>(rows.Int(4));
    request.attempts = static_cast<uint32_t>(rows.Int(5));
    if (rows.Int(8) > 0)
      request.session = {static_cast<uint32_t>(rows.Int(8)), static_cast<uint32_t>(rows.Int(9)),
                         static_cast<uint32_t>(rows.Int(10))};
    ASSIGN_OR_RETURN(Rows tokens, database().Ask("select first, ids from request_tokens "
                                                 "where request = ? order by first",
                                                 {rows.Int(7)}));
    while (tokens.has_row() && tokens.Int(0) == static_cast<int64_t>(request.token_ids.size())) {
      const std::vector<int32_t> ids = IdsOf(tokens.Blob(1));
      request.token_ids.insert(request.token_ids.end(), ids.begin(), ids.end());
      TRY(tokens.Next());
    }
    if (request.request) found.open_requests.push_back(std::move(request));
    TRY(rows.Next());
  }
  return OkStatus();
}

Status Records::StopCell(int64_t cell, int64_t now_ms) {
  return database().Run("update cells set stopped = ? where id = ?", {now_ms, cell});
}

Status Records::SetPlacement(int64_t cell, const pb::Placement& placement, int64_t now_ms) {
  pb::Placement body = placement;
  body.clear_lifetimes();
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database()));
  TRY(
      database().Run("insert into placements values (?, ?) on conflict (cell) do update set "
                     "body = excluded.body",
                     {cell, BytesOf(body)}));
  TRY(SetLifetimes(placement, now_ms));
  return transaction.Commit();
}

Status Records::SetLifetimes(const pb::Placement& placement, int64_t now_ms) {
  for (const pb::Lifetime& each : placement.lifetimes())
    TRY(database().Run(
        "insert into device_times values (?, ?, ?, ?) on conflict (device) do update set losses = "
        "excluded.losses, stayed_s = excluded.stayed_s, noted = excluded.noted where losses <> "
        "excluded.losses or stayed_s <> excluded.stayed_s",
        {BytesOf(each.device()), static_cast<int64_t>(each.losses()), each.stayed_s(), now_ms}));
  return database().Run(
      "delete from device_times where device in (select device from device_times "
      "order by noted limit max(0, (select count(*) from device_times) - ?))",
      {kMostDeviceTimes});
}

Status Records::SetPopularity(const pb::Popularity& popularity, int64_t now_ms) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database()));
  TRY(
      database().Run("insert into popularities values (?, ?, ?) on conflict (model) do update set "
                     "noted = excluded.noted, body = excluded.body",
                     {BytesOf(popularity.package_digest()), now_ms, BytesOf(popularity)}));
  TRY(
      database().Run("delete from popularities where model in (select model from popularities "
                     "order by noted limit max(0, (select count(*) from popularities) - ?))",
                     {kMostPopularities}));
  return transaction.Commit();
}

Status Records::KeepPrefix(int64_t cell, const StoredPrefix& prefix) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database()));
  TRY(database().Run("delete from kept_prefixes where cell = ? and salt = ? and name = ?",
                     {cell, BytesOf(prefix.salt), prefix.name}));
  TRY(
      database().Run("insert into kept_prefixes (cell, salt, name, kept, ids) "
                     "values (?, ?, ?, ?, ?)",
                     {cell, BytesOf(prefix.salt), prefix.name, prefix.kept_at_s * 1000,
                      BytesOf(prefix.token_ids)}));
  TRY(
      database().Run("delete from kept_prefixes where cell = ?1 and id not in (select id from "
                     "kept_prefixes where cell = ?1 order by id desc limit ?2)",
                     {cell, kMostKeptPrefixes}));
  return transaction.Commit();
}

Status Records::ForgetPrefix(int64_t cell, std::string_view salt, std::string_view name) {
  return database().Run("delete from kept_prefixes where cell = ? and salt = ? and name = ?",
                        {cell, BytesOf(salt), std::string(name)});
}

// ---- requests ----

Status Records::BeginRequest(int64_t cell, const KeyedRequest& request) {
  const Bytes key = BytesOf(request.key);
  const Value generation = request.request ? Value(BytesOf(*request.request)) : Value(nullptr);
  const int64_t begun_ms = request.begun_at_s * 1000;
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database()));
  TRY(database().Run("delete from requests where key = ?", {key}));
  TRY(database().Run(
      "insert into requests (key, digest, cell, seed, begun, prompt_tokens, "
      "attempts, generation) values (?, ?, ?, ?, ?, ?, ?, ?)",
      {key, BytesOf(request.digest), cell, static_cast<int64_t>(request.seed), begun_ms,
       int64_t{request.prompt_tokens}, int64_t{request.attempts}, generation}));
  if (++begun_count_ >= kDropInterval) TRY(DropOld(begun_ms));
  return transaction.Commit();
}

Status Records::AddTokens(std::string_view key, uint32_t first,
                          const std::vector<int32_t>& token_ids) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database()));
  // The last row tells how many there are: a number of a token takes four bytes.
  ASSIGN_OR_RETURN(const Rows row,
                   database().Ask("select id, coalesce((select first + length(ids) / 4 from "
                                  "request_tokens where request = requests.id order by first "
                                  "desc limit 1), 0) from requests where key = ? and generation is "
                                  "not null",
                                  {BytesOf(key)}));
  if (!row.has_row() || row.Int(1) != int64_t{first}) return OkStatus();
  TRY(database().Run("insert into request_tokens values (?, ?, ?)",
                     {row.Int(0), int64_t{first}, BytesOf(token_ids)}));
  return transaction.Commit();
}

Status Records::SetSession(std::string_view key, const StoredSession& session) {
  return database().Run(
      "update requests set session = ?, first_generation = ?, last_generation = ? "
      "where key = ? and generation is not null",
      {int64_t{session.session}, int64_t{session.first_generation},
       int64_t{session.last_generation}, BytesOf(key)});
}

Status Records::EndRequest(std::string_view key, uint32_t generated_tokens, int64_t now_ms) {
  const Bytes bytes = BytesOf(key);
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database()));
  TRY(
      database().Run("delete from request_tokens where request = (select id from requests "
                     "where key = ?)",
                     {bytes}));
  TRY(
      database().Run("update requests set ended = ?, generated = ?, generation = null "
                     "where key = ?",
                     {now_ms, int64_t{generated_tokens}, bytes}));
  return transaction.Commit();
}

Result<std::optional<KnownRequest>> Records::FindRequest(std::string_view key, int64_t now_ms) {
  ASSIGN_OR_RETURN(const Rows row,
                   database().Ask("select digest, seed from requests where key = ? and begun > ? "
                                  "and begun <= ?",
                                  {BytesOf(key), now_ms - kRequestMs, now_ms + kRequestMs}));
  if (!row.has_row()) return std::optional<KnownRequest>();
  return std::optional(KnownRequest{TextOf(row.Blob(0)), static_cast<uint64_t>(row.Int(1))});
}

// ---- journals of before ----

Status Records::Import(const OldJournal& journal, int64_t now_ms) {
  for (const StoredSecrets& secrets : journal.secrets) TRY(AddSecrets(secrets, false, false));
  for (const pb::Popularity& popularity : journal.popularities)
    TRY(SetPopularity(popularity, now_ms));
  ASSIGN_OR_RETURN(const int64_t cell, CellOf(journal.package_digest));
  if (journal.placement) {
    // One of lifetimes alone belongs to no plan.
    if (journal.placement->swarm_id().empty())
      TRY(SetLifetimes(*journal.placement, now_ms));
    else
      TRY(SetPlacement(cell, *journal.placement, now_ms));
  }
  for (const StoredPrefix& prefix : journal.kept_prefixes) TRY(KeepPrefix(cell, prefix));
  for (const OldJournal::Request& request : journal.requests) {
    TRY(BeginRequest(cell, request));
    if (!request.token_ids.empty()) TRY(AddTokens(request.key, 0, request.token_ids));
    if (request.generated_tokens)
      TRY(EndRequest(request.key, *request.generated_tokens, request.begun_at_s * 1000));
  }
  if (journal.stopped_at_s) TRY(StopCell(cell, *journal.stopped_at_s * 1000));
  return OkStatus();
}

}  // namespace weft::store
