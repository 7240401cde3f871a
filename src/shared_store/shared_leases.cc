#include "shared_store/shared_leases.h"

#include <algorithm>
#include <memory>
#include <sstream>
#include <utility>

#include "shared_store/array_text.h"

namespace weft::shared_store {
namespace {

using cluster::CellId;
using cluster::Incarnation;
using cluster::ServerId;
using cluster::StartId;
using postgres::Answer;
using postgres::Row;
using postgres::Value;

// PostgreSQL's bigint has a sign, and these numbers use all of their bits.
template <typename Id>
Value ToValue(Id id) {
  return static_cast<int64_t>(id.value());
}
template <typename Id>
Id FromRow(const Row& row, size_t column) {
  return Id(static_cast<decltype(Id().value())>(row.Int(column)));
}

// A column of names has one a line.
std::vector<std::string> SplitNames(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string name; std::getline(lines, name);)
    if (!name.empty()) names.push_back(name);
  return names;
}
std::string JoinNames(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "\n") + name;
  return text;
}

SharedServer ServerOf(const Row& row) {
  SharedServer server;
  server.id = FromRow<ServerId>(row, 0);
  server.start = FromRow<StartId>(row, 1);
  server.name = row.Text(2);
  server.url = row.Text(3);
  server.fingerprint = row.Bytes(4);
  server.version = row.Text(5);
  server.roles = row.Text(6);
  server.seen = Microseconds(row.Int(7));
  server.is_draining = row.Bool(8);
  server.next_check = row.Bytes(9);
  server.models = SplitNames(row.Text(10));
  return server;
}

SharedCell CellOf(const Row& row) {
  SharedCell cell;
  cell.row.cell = FromRow<CellId>(row, 0);
  cell.row.incarnation = FromRow<Incarnation>(row, 1);
  if (!row.IsNull(2)) cell.row.holder = {FromRow<ServerId>(row, 2), FromRow<StartId>(row, 3)};
  cell.row.has_expired = row.Bool(4);
  cell.up = row.Bool(5);
  cell.model = row.Text(6);
  cell.digest = row.Bytes(7);
  cell.swarm_id = row.Bytes(8);
  cell.options = row.Bytes(9);
  cell.workers = static_cast<uint32_t>(row.Int(10));
  cell.former = FromRow<ServerId>(row, 11);
  cell.taken_unix_s = row.Int(12);
  return cell;
}

std::function<void(Result<Answer>)> ToBool(std::function<void(Result<bool>)> done) {
  return [done = std::move(done)](Result<Answer> answer) {
    if (!answer.ok()) return done(answer.error());
    done(answer->changed_rows > 0);
  };
}

}  // namespace

bool Serves(const SharedServer& server, const std::string& model) {
  return server.models.empty() || std::ranges::find(server.models, model) != server.models.end();
}

void SharedLeases::Register(const SharedServer& server, Done done) {
  connection_.Ask(
      "insert into servers (id, start, name, url, fingerprint, version, roles, next_check, model, "
      "seen) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, clock_timestamp()) on conflict (id) do "
      "update set model = excluded.model, "
      "start = excluded.start, name = excluded.name, url = excluded.url, fingerprint = "
      "excluded.fingerprint, version = excluded.version, roles = excluded.roles, next_check = "
      "excluded.next_check, seen = excluded.seen",
      {ToValue(self_.server), ToValue(self_.start), server.name, server.url, server.fingerprint,
       server.version, server.roles, server.next_check, JoinNames(server.models)},
      [this, server, done = std::move(done)](Result<Answer> answer) mutable {
        if (answer.ok()) return done(OkStatus());
        if (answer.error().code() != ErrorCode::kAlreadyExists) return done(answer.error());
        ReplaceServer(server, std::move(done));
      });
}

// A machine that was set up anew has another id, and its former name.
void SharedLeases::ReplaceServer(const SharedServer& server, Done done) {
  connection_.Ask(
      "delete from servers where name = $1 and seen < clock_timestamp() - interval '60 s'",
      {server.name}, [this, server, done = std::move(done)](Result<Answer> answer) mutable {
        if (!answer.ok()) return done(answer.error());
        if (answer->changed_rows > 0) return Register(server, std::move(done));
        done(Error(ErrorCode::kAlreadyExists,
                   "The cluster has another server called '" + server.name +
                       "' that was seen in the last minute: give this one another --url, or end "
                       "the other one and wait for a minute."));
      });
}

void SharedLeases::AddCell(const std::string& model, const std::vector<uint8_t>& digest,
                           const std::vector<uint8_t>& options,
                           const std::vector<uint8_t>& swarm_id, Then<CellId> done) {
  // One statement: a model without a cell would be of no use to anybody.
  connection_.Ask(
      "with model as (insert into models values ($1, $2, $3) on conflict (digest) do nothing "
      "returning digest) insert into cells (model, swarm_id) select digest, $4 from model "
      "returning id",
      {digest, model, options, swarm_id}, [done = std::move(done), model](Result<Answer> answer) {
        if (!answer.ok()) return done(answer.error());
        if (answer->rows.empty())
          return done(Error(ErrorCode::kAlreadyExists, "The cluster has '" + model + "' already."));
        done(FromRow<CellId>(answer->rows[0], 0));
      });
}

void ReadTables(postgres::Connection& connection, std::function<void(Result<SharedTables>)> done) {
  auto tables = std::make_shared<SharedTables>();
  connection.Ask("select name, key_check, next_check from weft_cluster", {},
                 [tables](Result<Answer> rows) {
                   if (!rows.ok() || rows->rows.empty()) return;
                   const Row& row = rows->rows[0];
                   tables->cluster = row.Text(0);
                   tables->keys = {row.Bytes(1), row.Bytes(2)};
                 });
  // Answers come in order, so the last one of them has all.
  auto failed = std::make_shared<std::optional<Error>>();
  connection.Ask(
      "select id, start, name, url, fingerprint, version, roles, (extract(epoch from "
      "clock_timestamp() - seen) * 1000000)::bigint, drained = start, next_check, model from "
      "servers order by name",
      {}, [tables, failed](Result<Answer> servers) {
        if (!servers.ok()) {
          *failed = servers.error();
          return;
        }
        for (const Row& row : servers->rows) tables->servers.push_back(ServerOf(row));
      });
  connection.Ask(
      "select id, incarnation, server, start, expires < clock_timestamp(), up, name, digest, "
      "swarm_id, options, workers, former, extract(epoch from taken)::bigint from cells join "
      "models on model = digest order by id",
      {}, [tables, failed, done = std::move(done)](Result<Answer> cells) {
        if (*failed) return done(**failed);
        if (!cells.ok()) return done(cells.error());
        for (const Row& row : cells->rows) tables->cells.push_back(CellOf(row));
        done(std::move(*tables));
      });
}

void AskToGo(postgres::Connection& connection, const std::string& name,
             std::function<void(Result<bool>)> done) {
  connection.Ask("update servers set drained = start where name = $1", {name},
                 ToBool(std::move(done)));
}

void SharedLeases::Read(Then<SharedTables> done) {
  ReadTables(connection_, std::move(done));
}

void SharedLeases::Take(const cluster::Take& take, Then<std::optional<Incarnation>> done) {
  connection_.Ask(
      "update cells set incarnation = greatest(incarnation + 1, $5::bigint + 1, (extract(epoch "
      "from clock_timestamp()) * 1000)::bigint), server = $1, start = $2, expires = "
      "clock_timestamp() + "
      "$7 * interval '1 microsecond', up = false, workers = 0, former = server, taken = "
      "clock_timestamp() where id = $3 and incarnation = $4 and (expires < "
      "clock_timestamp() or $6) returning incarnation",
      {ToValue(self_.server), ToValue(self_.start), ToValue(take.cell), ToValue(take.seen),
       ToValue(take.above), std::string(take.has_evidence ? "true" : "false"), lease_time_.us},
      [done = std::move(done)](Result<Answer> answer) {
        if (!answer.ok()) return done(answer.error());
        if (answer->rows.empty()) return done(std::optional<Incarnation>());
        done(std::optional(FromRow<Incarnation>(answer->rows[0], 0)));
      });
}

void SharedLeases::Renew(const std::vector<cluster::Renew::Cell>& cells,
                         Then<std::vector<CellId>> done) {
  const auto number = [](auto id) { return std::to_string(static_cast<int64_t>(id.value())); };
  connection_.Ask(
      "update cells set expires = clock_timestamp() + $7 * interval '1 microsecond', up = told.up, "
      "workers = told.workers from unnest($1::bigint[], $2::bigint[], $3::bool[], $4::int[]) "
      "told(id, incarnation, up, workers) where cells.id = told.id and cells.incarnation = "
      "told.incarnation and cells.server = $5 and cells.start = $6 returning cells.id",
      {ArrayOf(cells, [&](const auto& cell) { return number(cell.cell); }),
       ArrayOf(cells, [&](const auto& cell) { return number(cell.incarnation); }),
       ArrayOf(cells, [](const auto& cell) { return std::string(cell.up ? "t" : "f"); }),
       ArrayOf(cells, [](const auto& cell) { return std::to_string(cell.workers); }),
       ToValue(self_.server), ToValue(self_.start), lease_time_.us},
      [done = std::move(done)](Result<Answer> answer) {
        if (!answer.ok()) return done(answer.error());
        std::vector<CellId> renewed;
        for (const Row& row : answer->rows) renewed.push_back(FromRow<CellId>(row, 0));
        done(std::move(renewed));
      });
}

void SharedLeases::Give(CellId cell, Incarnation incarnation, cluster::Holder to, Then<bool> done) {
  connection_.Ask(
      "update cells set server = $5, start = $6, expires = clock_timestamp() where id = $1 and "
      "incarnation = $2 and server = $3 and start = $4",
      {ToValue(cell), ToValue(incarnation), ToValue(self_.server), ToValue(self_.start),
       ToValue(to.server), ToValue(to.start)},
      ToBool(std::move(done)));
}

// `for share` makes a take wait until this is written, and what comes behind the take find another
// holder: so the new leader reads all that was acknowledged, and the old one writes nothing more.
void SharedLeases::WritePlacement(CellId cell, Incarnation incarnation, std::vector<uint8_t> body,
                                  Then<bool> done) {
  connection_.Ask(
      "with mine as materialized (select id from cells where id = $1 and incarnation = $2 and "
      "server = $3 and start = $4 for share) insert into placements select id, $2, $5 from mine on "
      "conflict (cell) do update set incarnation = excluded.incarnation, body = excluded.body",
      {ToValue(cell), ToValue(incarnation), ToValue(self_.server), ToValue(self_.start),
       std::move(body)},
      ToBool(std::move(done)));
}

void SharedLeases::ReadPlacement(CellId cell, Then<std::vector<uint8_t>> done) {
  connection_.Ask("select body from placements where cell = $1", {ToValue(cell)},
                  [done = std::move(done)](Result<Answer> answer) {
                    if (!answer.ok()) return done(answer.error());
                    done(answer->rows.empty() ? std::vector<uint8_t>() : answer->rows[0].Bytes(0));
                  });
}

}  // namespace weft::shared_store
