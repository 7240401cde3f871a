#include "store/schema.h"

#include <string>
#include <vector>

namespace weft::store {
namespace {

// "weft" and "wefr".
constexpr int64_t kKeysId = 0x77656674, kRecordsId = 0x77656672;

// Times are milliseconds since 1970; `models` has one name a line, and none for all.
std::vector<std::vector<std::string>> KeysMigrations() {
  return {
      {
          R"(create table keys (
               id integer primary key autoincrement, hash blob not null unique, name text not null,
               role text not null check (role in ('admin', 'user', 'metrics')),
               models text not null, per_minute integer, tokens_per_day integer, at_once integer,
               created integer not null, expires integer, ended integer))",
          // Of those that have not ended each has a name of its own.
          "create unique index keys_name on keys (name) where ended is null",
          R"(create table usage_hour (
               hour integer not null, key integer not null references keys, model text not null,
               server text not null, requests integer not null, prompt integer not null,
               cached integer not null, generated integer not null,
               primary key (hour, key, model, server)) without rowid)",
      },
      // Another role. A check cannot be altered: the table is made anew, with the same numbers.
      {
          R"(create table keys_new (
               id integer primary key autoincrement, hash blob not null unique, name text not null,
               role text not null check (role in ('admin', 'user', 'metrics', 'helper')),
               models text not null, per_minute integer, tokens_per_day integer, at_once integer,
               created integer not null, expires integer, ended integer))",
          R"(insert into keys_new
             select id, hash, name, role, models, per_minute, tokens_per_day, at_once, created,
               expires, ended from keys)",
          "drop table keys",
          "alter table keys_new rename to keys",
          "create unique index keys_name on keys (name) where ended is null",
      },
  };
}

// `model` is a package's digest, `body` and `generation` are messages of records.proto, `ids` are
// 32-bit numbers, little-endian. A request's row has its cell's: what one model leaves behind is
// not another's to forget.
std::vector<std::vector<std::string>> RecordsMigrations() {
  return {{
      R"(create table settings (name text primary key, value blob not null) without rowid)",
      // `stopped`: when the last start was told to stop; null: it runs, or was killed.
      R"(create table cells (
           id integer primary key autoincrement, model blob not null unique,
           incarnation integer not null default 0, stopped integer))",
      R"(create table placements (cell integer primary key references cells, body blob not null))",
      R"(create table device_times (
           device blob primary key, losses integer not null, stayed_s real not null,
           noted integer not null) without rowid)",
      R"(create table popularities (
           model blob primary key, noted integer not null, body blob not null) without rowid)",
      R"(create table kept_prefixes (
           id integer primary key autoincrement, cell integer not null references cells,
           salt blob not null, name text not null, kept integer not null, ids blob not null,
           unique (cell, salt, name)))",
      R"(create table secrets (
           id integer primary key autoincrement, api_key blob not null, join_token blob not null,
           hidden_join_token blob not null, used integer not null,
           unique (api_key, join_token)))",
      R"(create table requests (
           id integer primary key autoincrement, key blob not null unique, digest blob not null,
           cell integer not null references cells, seed integer not null, begun integer not null,
           prompt_tokens integer not null, attempts integer not null, ended integer,
           generated integer, generation blob, session integer, first_generation integer,
           last_generation integer))",
      "create index requests_open on requests (cell) where generation is not null",
      "create index requests_begun on requests (begun)",
      R"(create table request_tokens (
           request integer not null references requests on delete cascade, first integer not null,
           ids blob not null, primary key (request, first)) without rowid)",
  }};
}

}  // namespace

const Schema& KeysSchema() {
  static const Schema schema{kKeysId, "keys", KeysMigrations()};
  return schema;
}

const Schema& RecordsSchema() {
  static const Schema schema{kRecordsId, "records", RecordsMigrations()};
  return schema;
}

Result<int64_t> SchemaVersion(Database& database) {
  ASSIGN_OR_RETURN(const int64_t tables,
                   database.AskNumber("select count(*) from sqlite_master where type = 'table' and "
                                      "name = 'migrations'"));
  if (tables == 0) return 0;
  return database.AskNumber("select max(version) from migrations");
}

Status ApplyMigrations(Database& database, const Schema& schema, int64_t now_ms) {
  ASSIGN_OR_RETURN(int64_t version, SchemaVersion(database));
  if (version == 0) {
    TRY(database.Run("pragma application_id = " + std::to_string(schema.application_id)));
    TRY(database.Run("create table migrations (version integer primary key, at integer not null)"));
  }
  while (version < schema.latest_version()) {
    for (const std::string& statement : schema.migrations[static_cast<size_t>(version)])
      TRY(database.Run(statement));
    ++version;
    TRY(database.Run("insert into migrations values (?, ?)", {version, now_ms}));
  }
  return OkStatus();
}

}  // namespace weft::store
