#include "store/store.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/sentence.h"

namespace weft::store {
namespace {

constexpr std::string_view kColumns =
    "id, hash, name, role, models, per_minute, tokens_per_day, at_once, created, expires, ended";

template <typename Number>
std::optional<Number> LimitAt(const Rows& rows, int column) {
  const auto number = rows.OptionalInt(column);
  return number ? std::optional(static_cast<Number>(*number)) : std::nullopt;
}

// The row of these columns.
Result<Key> ReadKey(const Rows& rows) {
  Key key;
  key.id = rows.Int(0);
  key.hash = ToHex(rows.Blob(1));
  key.name = rows.Text(2);
  ASSIGN_OR_RETURN(key.role, ParseRole(rows.Text(3)));
  key.models = SplitLines(rows.Text(4));
  key.limits.per_minute = LimitAt<uint32_t>(rows, 5);
  key.limits.tokens_per_day = LimitAt<uint64_t>(rows, 6);
  key.limits.at_once = LimitAt<uint32_t>(rows, 7);
  key.created_ms = rows.Int(8);
  key.expires_ms = rows.OptionalInt(9);
  key.ended_ms = rows.OptionalInt(10);
  return key;
}

}  // namespace

Result<std::unique_ptr<Store>> Store::Open(const std::filesystem::path& path, OpenMode mode,
                                           int64_t now_ms) {
  ASSIGN_OR_RETURN(DatabaseFile file, DatabaseFile::Open(path, mode, KeysSchema(), {}, now_ms));
  return std::unique_ptr<Store>(new Store(std::move(file)));
}

Result<int64_t> Store::DataVersion() {
  return database().AskNumber("pragma data_version");
}

Result<std::vector<Key>> ReadKeys(Database& database) {
  std::vector<Key> keys;
  ASSIGN_OR_RETURN(Rows rows, database.Ask(Sentence("select ", std::string(kColumns),
                                                    " from keys order by id")));
  while (rows.has_row()) {
    ASSIGN_OR_RETURN(Key key, ReadKey(rows));
    keys.push_back(std::move(key));
    TRY(rows.Next());
  }
  return keys;
}

Result<std::vector<KeptUsage>> ReadUsage(Database& database) {
  std::vector<KeptUsage> usage;
  ASSIGN_OR_RETURN(Rows rows,
                   database.Ask("select hour, key, model, server, requests, prompt, cached, "
                                "generated from usage_hour"));
  while (rows.has_row()) {
    usage.push_back({{rows.Int(0),
                      rows.Int(1),
                      {rows.Int(4), rows.Int(5), rows.Int(6), rows.Int(7)},
                      rows.Text(2)},
                     rows.Text(3)});
    TRY(rows.Next());
  }
  return usage;
}

Status PutKeys(Database& database, std::span<const Key> keys, std::span<const KeptUsage> usage) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database));
  for (const Key& key : keys)
    TRY(database.Run(
        Sentence("insert into keys (", std::string(kColumns),
                 ") values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
        {key.id, FromHex(key.hash).value_or(std::vector<uint8_t>()), key.name,
         std::string(RoleName(key.role)), JoinLines(key.models), OrNull(key.limits.per_minute),
         OrNull(key.limits.tokens_per_day), OrNull(key.limits.at_once), key.created_ms,
         OrNull(key.expires_ms), OrNull(key.ended_ms)}));
  for (const auto& [row, server] : usage)
    TRY(database.Run(
        "insert into usage_hour values (?, ?, ?, ?, ?, ?, ?, ?)",
        {row.hour_ms, row.key, row.model, server, row.usage.requests, row.usage.prompt_tokens,
         row.usage.cached_tokens, row.usage.generated_tokens}));
  return transaction.Commit();
}

Result<std::vector<Key>> Store::Keys() {
  return ReadKeys(database());
}

Result<std::vector<KeptUsage>> Store::AllUsage() {
  return ReadUsage(database());
}

Result<Key> Store::AddKey(const NewKey& wanted, const std::string& hash, int64_t now_ms) {
  TRY(CheckNewKey(wanted, now_ms));
  const auto hash_bytes = FromHex(hash);
  CHECK(hash_bytes && hash_bytes->size() == 32, "the hash of a key is a SHA-256 in hex");
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database()));
  ASSIGN_OR_RETURN(const std::vector<Key> keys, Keys());
  TRY(CheckRoomFor(wanted, keys, now_ms));
  TRY(database().Run(
      "insert into keys (hash, name, role, models, per_minute, tokens_per_day, at_once, created, "
      "expires) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
      {*hash_bytes, wanted.name, std::string(RoleName(wanted.role)), JoinLines(wanted.models),
       OrNull(wanted.limits.per_minute), OrNull(wanted.limits.tokens_per_day),
       OrNull(wanted.limits.at_once), now_ms, OrNull(wanted.expires_ms)}));
  Key made{wanted, database().last_id(), hash, now_ms, std::nullopt};
  TRY(transaction.Commit());
  return made;
}

Result<Key> Store::EndKey(const std::string& name, int64_t now_ms) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database()));
  ASSIGN_OR_RETURN(const std::vector<Key> keys, Keys());
  ASSIGN_OR_RETURN(Key key, FindToEnd(name, keys));
  TRY(database().Run("update keys set ended = ? where id = ?", {now_ms, key.id}));
  TRY(transaction.Commit());
  key.ended_ms = now_ms;
  return key;
}

Status Store::AddUsage(std::span<const HourlyUsage> rows, const std::string& model,
                       const std::string& server, int64_t now_ms) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database()));
  for (const HourlyUsage& row : rows) {
    const Usage& usage = row.usage;
    // A key that is not known any more, in a file that was put in the place of another one, has
    // nothing to count for.
    TRY(database().Run(
        "insert into usage_hour (hour, key, model, server, requests, prompt, cached, generated) "
        "select ?, ?, ?, ?, ?, ?, ?, ? where exists (select 1 from keys where id = ?2) "
        "on conflict (hour, key, model, server) do update set requests = requests + "
        "excluded.requests, prompt = prompt + excluded.prompt, cached = cached + excluded.cached, "
        "generated = generated + excluded.generated",
        {row.hour_ms, row.key, row.model.empty() ? model : row.model, server, usage.requests,
         usage.prompt_tokens, usage.cached_tokens, usage.generated_tokens}));
  }
  TRY(database().Run("delete from usage_hour where hour < ?", {now_ms - kUsageKeptMs}));
  return transaction.Commit();
}

Result<std::map<int64_t, Usage>> Store::UsageSince(int64_t begin_ms) {
  std::map<int64_t, Usage> by_key;
  ASSIGN_OR_RETURN(
      Rows rows,
      database().Ask("select key, sum(requests), sum(prompt), sum(cached), sum(generated) "
                     "from usage_hour where hour >= ? group by key",
                     {begin_ms}));
  while (rows.has_row()) {
    by_key[rows.Int(0)] = {rows.Int(1), rows.Int(2), rows.Int(3), rows.Int(4)};
    TRY(rows.Next());
  }
  return by_key;
}

}  // namespace weft::store
