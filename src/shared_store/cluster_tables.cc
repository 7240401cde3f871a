#include "shared_store/cluster_tables.h"

#include <memory>
#include <utility>

#include "base/sentence.h"

namespace weft::shared_store {
namespace {

using postgres::Answer;
using postgres::Connection;

// One that was published is never changed: a change is a migration behind it. Each is one
// statement, so that it happens whole or not at all. Rows that change twice a second leave room on
// their page, so that no index has to follow.
const std::vector<std::string>& Migrations() {
  static const std::vector<std::string> migrations = {
      R"(do $$ begin
           create table if not exists weft_cluster (
             only_row boolean primary key default true check (only_row),
             name text not null, key_check bytea not null, version bigint not null);
           create table if not exists servers (
             id bigint primary key, start bigint not null, name text not null unique,
             url text not null, fingerprint bytea not null, version text not null,
             roles text not null, seen timestamptz not null, drained bigint)
             with (fillfactor = 50);
           create table if not exists models (
             digest bytea primary key, name text not null unique, options bytea not null);
           create table if not exists cells (
             id bigint generated always as identity primary key,
             model bytea not null references models, swarm_id bytea not null,
             incarnation bigint not null default 0, server bigint, start bigint,
             expires timestamptz not null default now(), up boolean not null default false,
             workers integer not null default 0, former bigint, taken timestamptz)
             with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,
                   autovacuum_vacuum_threshold = 2000);
           create table if not exists placements (
             cell bigint primary key references cells on delete cascade,
             incarnation bigint not null, body bytea not null);
           create table if not exists device_times (
             device bytea primary key, losses bigint not null, stayed_s double precision not null,
             noted timestamptz not null);
         end $$)",
      // As a server alone has them in SQLite: times are milliseconds since 1970, `models` has one
      // name a line, and none for all. `key_changes` counts the changes of keys and usage.
      R"(do $$ begin
           create table keys (
             id bigint generated always as identity primary key, hash bytea not null unique,
             name text not null,
             role text not null check (role in ('admin', 'user', 'metrics', 'helper')),
             models text not null, per_minute bigint, tokens_per_day bigint, at_once bigint,
             created bigint not null, expires bigint, ended bigint);
           create unique index keys_name on keys (name) where ended is null;
           create table usage_hour (
             hour bigint not null, key bigint not null references keys, model text not null,
             server text not null, requests bigint not null, prompt bigint not null,
             cached bigint not null, generated bigint not null,
             primary key (hour, key, model, server)) with (fillfactor = 70);
           create table key_loads (
             key bigint not null references keys, server text not null,
             last_minute integer not null, under_way integer not null, noted timestamptz not null,
             primary key (key, server)) with (fillfactor = 50);
           create table key_changes (
             only_row boolean primary key default true check (only_row),
             number bigint not null default 0);
           insert into key_changes default values;
         end $$)",
      // While the cluster's key is exchanged: the check of the one that is to count.
      R"(do $$ begin
           alter table weft_cluster add column next_check bytea;
           alter table servers add column next_check bytea not null default '';
         end $$)",
      // The names of the models that a server serves, one a line; none: any.
      "alter table servers add column model text not null default ''",
  };
  return migrations;
}

Error OtherKey() {
  return {ErrorCode::kInvalidArgument,
          "The database belongs to a cluster with another key: copy the key file of a server that "
          "uses it, or name another database."};
}

Error NoTables() {
  return {ErrorCode::kNotFound,
          "The database has no tables of weft: run `weft cluster init` once."};
}

// All that the migrations make.
constexpr const char* kTables[] = {"weft_cluster", "servers",      "models", "cells",
                                   "placements",   "device_times", "keys",   "usage_hour",
                                   "key_loads",    "key_changes"};

// One step after the other, each when the one before has been answered.
class Making : public std::enable_shared_from_this<Making> {
 public:
  Making(Connection& connection, std::vector<uint8_t> check, std::string name, Done done)
      : connection_(connection),
        check_(std::move(check)),
        name_(std::move(name)),
        done_(std::move(done)) {}

  void Begin() {
    Ask("select to_regclass('weft_cluster') is not null", {}, [this](const Answer& answer) {
      if (answer.rows[0].Bool(0)) return ReadVersion();
      Migrate(0);
    });
  }

 private:
  void Ask(const std::string& sql, std::vector<postgres::Value> values,
           std::function<void(const Answer&)> then) {
    connection_.Ask(sql, std::move(values),
                    [self = shared_from_this(), then = std::move(then)](Result<Answer> answer) {
                      if (!answer.ok()) return self->done_(answer.error());
                      then(*answer);
                    });
  }
  void ReadVersion() {
    Ask("select version, key_check from weft_cluster", {}, [this](const Answer& answer) {
      if (answer.rows.empty()) return Migrate(0);
      if (answer.rows[0].Bytes(1) != check_) return done_(OtherKey());
      const int64_t version = answer.rows[0].Int(0);
      if (version > LatestTables())
        return done_(Error(
            ErrorCode::kUnsupported,
            Sentence("The database is of a newer weft (its tables have version ", version,
                     ", this program knows ", LatestTables(), "): update weft on this machine.")));
      Migrate(version);
    });
  }
  void Migrate(int64_t version) {
    if (version == LatestTables()) return done_(OkStatus());
    Ask(Migrations()[static_cast<size_t>(version)], {}, [this, version](const Answer&) {
      Ask("insert into weft_cluster (name, key_check, version) values ($1, $2, $3) on conflict "
          "(only_row) do update set version = excluded.version",
          {name_, check_, version + 1}, [this, version](const Answer&) { Migrate(version + 1); });
    });
  }

  Connection& connection_;
  const std::vector<uint8_t> check_;
  const std::string name_;
  const Done done_;
};

}  // namespace

int64_t LatestTables() {
  return static_cast<int64_t>(Migrations().size());
}

void MakeTables(Connection& connection, std::vector<uint8_t> cluster_check,
                const std::string& cluster_name, Done done) {
  std::make_shared<Making>(connection, std::move(cluster_check), cluster_name, std::move(done))
      ->Begin();
}

void CheckTables(Connection& connection, std::vector<uint8_t> cluster_check, Done done) {
  // Tables of an earlier version have no other key, and not that column.
  connection.Ask(
      "select version, key_check, to_jsonb(weft_cluster)->>'next_check' from weft_cluster", {},
      [check = std::move(cluster_check), done = std::move(done)](Result<Answer> answer) {
        if (!answer.ok() && answer.error().code() == ErrorCode::kInvalidData)
          return done(NoTables());
        if (!answer.ok()) return done(answer.error());
        if (answer->rows.empty() ||
            (answer->rows[0].Bytes(1) != check && answer->rows[0].Bytes(2) != check))
          return done(OtherKey());
        const int64_t version = answer->rows[0].Int(0);
        if (version == LatestTables()) return done(OkStatus());
        done(Error(
            ErrorCode::kUnsupported,
            Sentence("The tables of the database have version ", version, ", this program knows ",
                     LatestTables(),
                     version > LatestTables() ? ": update weft on this machine."
                                              : ": run `weft cluster init` with this program.")));
      });
}

void ReadKeyChecks(Connection& connection, std::function<void(Result<KeyChecks>)> done) {
  connection.Ask("select key_check, next_check from weft_cluster", {},
                 [done = std::move(done)](Result<Answer> answer) {
                   if (!answer.ok() && answer.error().code() == ErrorCode::kInvalidData)
                     return done(NoTables());
                   if (!answer.ok()) return done(answer.error());
                   if (answer->rows.empty()) return done(NoTables());
                   done(KeyChecks{answer->rows[0].Bytes(0), answer->rows[0].Bytes(1)});
                 });
}

void ChangeKeyChecks(Connection& connection, const KeyChecks& before, const KeyChecks& after,
                     std::function<void(Result<bool>)> done) {
  connection.Ask(
      "update weft_cluster set key_check = $3, next_check = nullif($4, ''::bytea) where key_check "
      "= $1 and coalesce(next_check, '') = $2",
      {before.current, before.next, after.current, after.next},
      [done = std::move(done)](Result<Answer> answer) {
        if (!answer.ok()) return done(answer.error());
        done(answer->changed_rows > 0);
      });
}

// A statement of this kind takes no values, so the name is written into it by the database.
void GrantRows(Connection& connection, const std::string& role, Done done) {
  connection.Ask(
      "select quote_ident(rolname), quote_ident(current_schema()) from pg_roles where rolname = $1",
      {role}, [&connection, role, done = std::move(done)](Result<Answer> found) {
        if (!found.ok()) return done(found.error());
        if (found->rows.empty())
          return done(Error(ErrorCode::kInvalidArgument, "The database has no role '" + role +
                                                             "': make it with `createuser -P " +
                                                             role + "`."));
        const std::string name = found->rows[0].Text(0), schema = found->rows[0].Text(1);
        std::string tables;
        for (const char* table : kTables)
          tables += (tables.empty() ? "" : ", ") + std::string(table);
        connection.Ask("do $$ begin grant usage on schema " + schema + " to " + name +
                           "; grant select, insert, update, delete on " + tables + " to " + name +
                           "; end $$",
                       {}, [done](Result<Answer> granted) {
                         done(granted.ok() ? OkStatus() : Status(granted.error()));
                       });
      });
}

}  // namespace weft::shared_store
