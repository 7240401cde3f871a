#include "shared_store/shared_leases.h"

#include <memory>
#include <utility>

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

// "{1,2,3}"
template <typename Cells, typename Write>
std::string ArrayOf(const Cells& cells, Write write) {
  std::string text = "{";
  for (const auto& cell : cells) text += (text.size() > 1 ? "," : "") + write(cell);
  return text + "}";
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
  return cell;
}

std::function<void(Result<Answer>)> ToStatus(SharedLeases::Done done) {
  return [done = std::move(done)](Result<Answer> answer) {
    if (!answer.ok()) return done(answer.error());
    done(OkStatus());
  };
}

std::function<void(Result<Answer>)> ToBool(std::function<void(Result<bool>)> done) {
  return [done = std::move(done)](Result<Answer> answer) {
    if (!answer.ok()) return done(answer.error());
    done(answer->changed_rows > 0);
  };
}

}  // namespace

void SharedLeases::Register(const SharedServer& server, Done done) {
  connection_.Ask(
      "insert into servers values ($1, $2, $3, $4, $5, $6, $7, clock_timestamp()) on conflict (id) "
      "do update set start = excluded.start, name = excluded.name, url = excluded.url, "
      "fingerprint = excluded.fingerprint, version = excluded.version, roles = excluded.roles, "
      "seen = excluded.seen",
      {ToValue(self_.server), ToValue(self_.start), server.name, server.url, server.fingerprint,
       server.version, server.roles},
      ToStatus(std::move(done)));
}

void SharedLeases::AddCell(const std::string& model, const std::vector<uint8_t>& digest,
                           const std::vector<uint8_t>& options,
                           const std::vector<uint8_t>& swarm_id,
                           std::function<void(Result<CellId>)> done) {
  // One statement: a model without a cell would be of no use to anybody.
  connection_.Ask(
      "with model as (insert into models values ($1, $2, $3) on conflict (digest) do update set "
      "name = excluded.name returning digest) insert into cells (model, swarm_id) select digest, "
      "$4 from model returning id",
      {digest, model, options, swarm_id}, [done = std::move(done)](Result<Answer> answer) {
        if (!answer.ok()) return done(answer.error());
        done(FromRow<CellId>(answer->rows[0], 0));
      });
}

void SharedLeases::Read(std::function<void(Result<SharedTables>)> done) {
  auto tables = std::make_shared<SharedTables>();
  connection_.Ask(
      "select id, start, name, url, fingerprint, version, roles, (extract(epoch from "
      "clock_timestamp() - seen) * 1000000)::bigint from servers order by name",
      {}, [this, tables, done = std::move(done)](Result<Answer> servers) {
        if (!servers.ok()) return done(servers.error());
        for (const Row& row : servers->rows) tables->servers.push_back(ServerOf(row));
        connection_.Ask(
            "select id, incarnation, server, start, expires < clock_timestamp(), up, name, digest, "
            "swarm_id, options from cells join models on model = digest order by id",
            {}, [tables, done](Result<Answer> cells) {
              if (!cells.ok()) return done(cells.error());
              for (const Row& row : cells->rows) tables->cells.push_back(CellOf(row));
              done(std::move(*tables));
            });
      });
}

void SharedLeases::Take(const cluster::Take& take,
                        std::function<void(Result<std::optional<Incarnation>>)> done) {
  connection_.Ask(
      "update cells set incarnation = greatest(incarnation + 1, $5::bigint + 1, (extract(epoch "
      "from "
      "clock_timestamp()) * 1000)::bigint), server = $1, start = $2, expires = clock_timestamp() + "
      "$7 * interval '1 microsecond', up = false where id = $3 and incarnation = $4 and (expires < "
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
                         std::function<void(Result<std::vector<CellId>>)> done) {
  const auto number = [](auto id) { return std::to_string(static_cast<int64_t>(id.value())); };
  connection_.Ask(
      "update cells set expires = clock_timestamp() + $6 * interval '1 microsecond', up = told.up "
      "from unnest($1::bigint[], $2::bigint[], $3::bool[]) told(id, incarnation, up) where "
      "cells.id = told.id and cells.incarnation = told.incarnation and cells.server = $4 and "
      "cells.start = $5 returning cells.id",
      {ArrayOf(cells, [&](const auto& cell) { return number(cell.cell); }),
       ArrayOf(cells, [&](const auto& cell) { return number(cell.incarnation); }),
       ArrayOf(cells, [](const auto& cell) { return std::string(cell.up ? "t" : "f"); }),
       ToValue(self_.server), ToValue(self_.start), lease_time_.us},
      [done = std::move(done)](Result<Answer> answer) {
        if (!answer.ok()) return done(answer.error());
        std::vector<CellId> renewed;
        for (const Row& row : answer->rows) renewed.push_back(FromRow<CellId>(row, 0));
        done(std::move(renewed));
      });
}

void SharedLeases::Give(CellId cell, Incarnation incarnation, cluster::Holder to,
                        std::function<void(Result<bool>)> done) {
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
                                  std::function<void(Result<bool>)> done) {
  connection_.Ask(
      "with mine as materialized (select id from cells where id = $1 and incarnation = $2 and "
      "server = $3 and start = $4 for share) insert into placements select id, $2, $5 from mine on "
      "conflict (cell) do update set incarnation = excluded.incarnation, body = excluded.body",
      {ToValue(cell), ToValue(incarnation), ToValue(self_.server), ToValue(self_.start),
       std::move(body)},
      ToBool(std::move(done)));
}

void SharedLeases::ReadPlacement(CellId cell,
                                 std::function<void(Result<std::vector<uint8_t>>)> done) {
  connection_.Ask("select body from placements where cell = $1", {ToValue(cell)},
                  [done = std::move(done)](Result<Answer> answer) {
                    if (!answer.ok()) return done(answer.error());
                    done(answer->rows.empty() ? std::vector<uint8_t>() : answer->rows[0].Bytes(0));
                  });
}

}  // namespace weft::shared_store
