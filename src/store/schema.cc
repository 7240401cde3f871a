#include "store/schema.h"

#include <array>
#include <string>
#include <vector>

namespace weft::store {
namespace {

// One that was published is never changed: a change is a migration behind it. Times are
// milliseconds since 1970; `models` has one name a line, and none for all.
const std::vector<std::vector<std::string>>& Migrations() {
  static const std::vector<std::vector<std::string>> migrations = {
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
  return migrations;
}

}  // namespace

int64_t LatestVersion() {
  return static_cast<int64_t>(Migrations().size());
}

Result<int64_t> SchemaVersion(Database& database) {
  ASSIGN_OR_RETURN(const int64_t tables,
                   database.AskNumber("select count(*) from sqlite_master where type = 'table' and "
                                      "name = 'migrations'"));
  if (tables == 0) return 0;
  return database.AskNumber("select max(version) from migrations");
}

Status ApplyMigrations(Database& database, int64_t now_ms) {
  ASSIGN_OR_RETURN(int64_t version, SchemaVersion(database));
  if (version == 0) {
    TRY(database.Run("pragma application_id = " + std::to_string(kApplicationId)));
    TRY(database.Run("create table migrations (version integer primary key, at integer not null)"));
  }
  while (version < LatestVersion()) {
    for (const std::string& statement : Migrations()[static_cast<size_t>(version)])
      TRY(database.Run(statement));
    ++version;
    TRY(database.Run("insert into migrations values (?, ?)", {version, now_ms}));
  }
  return OkStatus();
}

}  // namespace weft::store
