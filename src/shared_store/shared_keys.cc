#include "shared_store/shared_keys.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/sentence.h"
#include "shared_store/array_text.h"

namespace weft::shared_store {
namespace {

using postgres::Answer;
using postgres::Row;
using postgres::Value;
using store::HourlyUsage;
using store::Key;
using store::KeyLoad;

// So long a call waits for a line that is being made anew.
constexpr Duration kLineWait = Milliseconds(400);

template <typename Number>
Value OrNull(const std::optional<Number>& number) {
  return number ? Value(static_cast<int64_t>(*number)) : Value(nullptr);
}

template <typename Number>
std::optional<Number> NumberAt(const Row& row, size_t column) {
  return row.IsNull(column) ? std::nullopt : std::optional(static_cast<Number>(row.Int(column)));
}

// Without its number.
std::vector<Value> ValuesOf(const Key& key) {
  return {FromHex(key.hash).value_or(std::vector<uint8_t>()),
          key.name,
          std::string(RoleName(key.role)),
          store::JoinLines(key.models),
          OrNull(key.limits.per_minute),
          OrNull(key.limits.tokens_per_day),
          OrNull(key.limits.at_once),
          key.created_ms,
          OrNull(key.expires_ms),
          OrNull(key.ended_ms)};
}

constexpr const char* kInsertKey =
    "with changed as (update key_changes set number = number + 1) insert into keys (hash, name, "
    "role, models, per_minute, tokens_per_day, at_once, created, expires, ended) values ($1, $2, "
    "$3, $4, $5, $6, $7, $8, $9, $10) returning id";

Result<Key> KeyOf(const Row& row) {
  Key key;
  key.id = row.Int(0);
  key.hash = ToHex(row.Bytes(1));
  key.name = row.Text(2);
  ASSIGN_OR_RETURN(key.role, store::ParseRole(row.Text(3)));
  key.models = store::SplitLines(row.Text(4));
  key.limits = {NumberAt<uint32_t>(row, 5), NumberAt<uint64_t>(row, 6), NumberAt<uint32_t>(row, 7)};
  key.created_ms = row.Int(8);
  key.expires_ms = NumberAt<int64_t>(row, 9);
  key.ended_ms = NumberAt<int64_t>(row, 10);
  return key;
}

store::Usage UsageAt(const Row& row, size_t column) {
  return {row.Int(column), row.Int(column + 1), row.Int(column + 2), row.Int(column + 3)};
}

// A name as an element of an array: in quotes.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

// The loop stands still between two calls. So a line that broke meanwhile is noticed, and made
// anew, while calls wait.
void SharedKeys::AwaitLine() {
  if (connection_->is_connected()) return;
  net::EventLoop::Timer limit(*loop_);
  limit.FireAfter(kLineWait, [this] { loop_->Stop(); });
  connection_->OnLine([this](bool) { loop_->Stop(); });
  loop_->Run();
  connection_->OnLine(nullptr);
}

Result<Answer> SharedKeys::Ask(const std::string& sql, std::vector<Value> values) {
  AwaitLine();
  std::optional<Result<Answer>> told;
  connection_->Ask(sql, std::move(values), [this, &told](Result<Answer> answer) {
    told = std::move(answer);
    loop_->Stop();
  });
  while (!told) loop_->Run();
  if (told->ok() || told->error().code() != ErrorCode::kInvalidData) return std::move(*told);
  return Error(ErrorCode::kNotFound,
               "The database has no tables for keys: run `weft cluster init` with this program.");
}

Result<int64_t> SharedKeys::DataVersion() {
  ASSIGN_OR_RETURN(const Answer answer, Ask("select number from key_changes", {}));
  return answer.rows.empty() ? 0 : answer.rows[0].Int(0);
}

Result<std::vector<Key>> SharedKeys::Keys() {
  ASSIGN_OR_RETURN(const Answer answer,
                   Ask("select id, hash, name, role, models, per_minute, tokens_per_day, at_once, "
                       "created, expires, ended from keys order by id",
                       {}));
  std::vector<Key> keys;
  for (const Row& row : answer.rows) {
    ASSIGN_OR_RETURN(Key key, KeyOf(row));
    keys.push_back(std::move(key));
  }
  return keys;
}

Result<Key> SharedKeys::AddKey(const store::NewKey& wanted, const std::string& hash,
                               int64_t now_ms) {
  TRY(CheckNewKey(wanted, now_ms));
  Key key{wanted, 0, hash, now_ms, std::nullopt};
  CHECK(FromHex(hash) && hash.size() == 64, "the hash of a key is a SHA-256 in hex");
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<Key> keys, Keys());
    TRY(CheckRoomFor(wanted, keys, now_ms));
    const auto added = Ask(kInsertKey, ValuesOf(key));
    // Another server has just made one with this name: the next look says which.
    if (!added.ok() && added.error().code() == ErrorCode::kAlreadyExists) continue;
    if (!added.ok()) return added.error();
    key.id = added->rows[0].Int(0);
    return key;
  }
}

Result<Key> SharedKeys::EndKey(const std::string& name, int64_t now_ms) {
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<Key> keys, Keys());
    ASSIGN_OR_RETURN(Key key, FindToEnd(name, keys));
    ASSIGN_OR_RETURN(const Answer ended,
                     Ask("with gone as (update keys set ended = $2 where id = $1 and ended is null "
                         "returning id) update key_changes set number = number + 1 where exists "
                         "(select 1 from gone)",
                         {key.id, now_ms}));
    if (ended.changed_rows == 0) continue;  // another server has just ended it
    key.ended_ms = now_ms;
    return key;
  }
}

// One statement for all rows. Each server has rows of its own, so no two write the same ones.
Status SharedKeys::AddUsage(std::span<const HourlyUsage> rows, const std::string& model,
                            const std::string& server, int64_t now_ms) {
  const auto numbers = [&](auto number_of) {
    return ArrayOf(rows, [&](const HourlyUsage& row) { return std::to_string(number_of(row)); });
  };
  if (!rows.empty())
    TRY(Ask(
        "with changed as (update key_changes set number = number + 1) insert into usage_hour "
        "select told.hour, told.key, told.model, $1, told.requests, told.prompt, told.cached, "
        "told.generated from unnest($2::bigint[], $3::bigint[], $4::text[], $5::bigint[], "
        "$6::bigint[], $7::bigint[], $8::bigint[]) told(hour, key, model, requests, prompt, "
        "cached, generated) join keys on keys.id = told.key on conflict (hour, key, model, "
        "server) do update set requests = usage_hour.requests + excluded.requests, prompt = "
        "usage_hour.prompt + excluded.prompt, cached = usage_hour.cached + excluded.cached, "
        "generated = usage_hour.generated + excluded.generated",
        {server, numbers([](const auto& row) { return row.hour_ms; }),
         numbers([](const auto& row) { return row.key; }),
         ArrayOf(rows,
                 [&](const auto& row) { return Quoted(row.model.empty() ? model : row.model); }),
         numbers([](const auto& row) { return row.usage.requests; }),
         numbers([](const auto& row) { return row.usage.prompt_tokens; }),
         numbers([](const auto& row) { return row.usage.cached_tokens; }),
         numbers([](const auto& row) { return row.usage.generated_tokens; })}));
  TRY(Ask("delete from usage_hour where hour < $1", {now_ms - store::kUsageKeptMs}));
  return OkStatus();
}

Result<std::map<int64_t, store::Usage>> SharedKeys::UsageSince(int64_t begin_ms) {
  ASSIGN_OR_RETURN(const Answer answer,
                   Ask("select key, sum(requests)::bigint, sum(prompt)::bigint, "
                       "sum(cached)::bigint, sum(generated)::bigint from usage_hour where hour >= "
                       "$1 group by key",
                       {begin_ms}));
  std::map<int64_t, store::Usage> by_key;
  for (const Row& row : answer.rows) by_key[row.Int(0)] = UsageAt(row, 1);
  return by_key;
}

Result<std::vector<store::KeptUsage>> SharedKeys::AllUsage() {
  ASSIGN_OR_RETURN(const Answer answer,
                   Ask("select hour, key, model, server, requests, prompt, cached, generated from "
                       "usage_hour",
                       {}));
  std::vector<store::KeptUsage> usage;
  for (const Row& row : answer.rows)
    usage.push_back({{row.Int(0), row.Int(1), UsageAt(row, 4), row.Text(2)}, row.Text(3)});
  return usage;
}

// A server that has not told anything for a while has gone: what it had under way has ended, and
// after a minute its requests do not count any more.
Result<store::OthersLoads> SharedKeys::ShareLoads(const std::string& server,
                                                  std::span<const KeyLoad> loads) {
  const auto numbers = [&](auto number_of) {
    return ArrayOf(loads, [&](const KeyLoad& load) { return std::to_string(number_of(load)); });
  };
  ASSIGN_OR_RETURN(
      const Answer answer,
      Ask("with told as (select * from unnest($2::bigint[], $3::int[], $4::int[]) told(key, "
          "last_minute, under_way)), ended as (delete from key_loads where server = $1 and key not "
          "in (select key from told)), put as (insert into key_loads select told.key, $1, "
          "told.last_minute, told.under_way, clock_timestamp() from told join keys on keys.id = "
          "told.key on conflict (key, server) do update set last_minute = excluded.last_minute, "
          "under_way = excluded.under_way, noted = excluded.noted), others as (select key, "
          "sum(last_minute)::bigint as last_minute, coalesce(sum(under_way) filter (where noted > "
          "clock_timestamp() - interval '5 s'), 0)::bigint as under_way from key_loads where "
          "server <> $1 and noted > clock_timestamp() - interval '60 s' group by key) select "
          "running.number, others.key, others.last_minute, others.under_way from (select count(*) "
          "as number from servers where seen > clock_timestamp() - interval '10 s') running left "
          "join others on true",
          {server, numbers([](const auto& load) { return load.key; }),
           numbers([](const auto& load) { return load.last_minute; }),
           numbers([](const auto& load) { return load.under_way; })}));
  store::OthersLoads others;
  for (const Row& row : answer.rows) {
    others.server_count = std::max<uint32_t>(1, static_cast<uint32_t>(row.Int(0)));
    if (row.IsNull(1)) continue;
    others.loads.push_back(
        {row.Int(1), static_cast<uint32_t>(row.Int(2)), static_cast<uint32_t>(row.Int(3))});
  }
  return others;
}

Result<int64_t> SharedKeys::TakeOver(std::span<const Key> keys,
                                     std::span<const store::KeptUsage> usage) {
  ASSIGN_OR_RETURN(const std::vector<Key> here, Keys());
  std::set<std::string> hashes, names;
  for (const Key& key : here) {
    hashes.insert(key.hash);
    if (!key.ended_ms) names.insert(key.name);
  }
  for (const Key& key : keys)
    if (!key.ended_ms && !hashes.contains(key.hash) && names.contains(key.name))
      return Error(ErrorCode::kAlreadyExists, "The cluster has another key '" + key.name +
                                                  "': end one of the two first (weft keys end " +
                                                  key.name + ").");
  int64_t taken = 0;
  for (const Key& key : keys) {
    if (hashes.contains(key.hash)) continue;
    ASSIGN_OR_RETURN(const Answer added, Ask(kInsertKey, ValuesOf(key)));
    ++taken;
    for (const auto& [row, server] : usage) {
      if (row.key != key.id) continue;
      HourlyUsage moved = row;
      moved.key = added.rows[0].Int(0);
      TRY(AddUsage({&moved, 1}, row.model, server, row.hour_ms));
    }
  }
  return taken;
}

}  // namespace weft::shared_store
