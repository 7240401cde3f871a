#include "server/cluster_cells.h"

#include <utility>

#include "base/check.h"

namespace weft::server {
namespace {

// What a cell is made with where no server has made it yet.
wire::pb::CellOptions CellOptionsOf(const ServerOptions& options) {
  wire::pb::CellOptions cell;
  cell.set_context_length(options.context_length);
  cell.set_session_count(options.sessions);
  cell.set_marks(options.marks);
  cell.set_plan_kind(static_cast<uint32_t>(options.plan_kind));
  cell.set_expert_copies(options.expert_copies);
  cell.set_half_rows(options.half_rows);
  cell.set_generate_interval(options.generate_interval);
  cell.set_prefill_chunk_us(static_cast<uint64_t>(options.prefill_chunk_time.us));
  return cell;
}

// The cell's options are those of the server that made it: what devices hold fits no others.
ServerOptions WithCellOptions(ServerOptions options, const wire::pb::CellOptions& cell) {
  options.context_length = cell.context_length();
  options.sessions = cell.session_count();
  options.marks = cell.marks();
  options.plan_kind = static_cast<swarm::PlanKind>(cell.plan_kind());
  options.expert_copies = cell.expert_copies();
  options.half_rows = cell.half_rows();
  options.generate_interval = cell.generate_interval();
  options.prefill_chunk_time = Microseconds(static_cast<int64_t>(cell.prefill_chunk_us()));
  return options;
}

}  // namespace

Result<std::unique_ptr<ClusterCells>> ClusterCells::Join(net::EventLoop& loop,
                                                         const ServerOptions& options,
                                                         const std::vector<uint8_t>& fingerprint,
                                                         const std::vector<Model>& models) {
  std::vector<cluster_host::WantedCell> wanted;
  for (const Model& model : models) {
    const auto digest = model.digest.bytes();
    wanted.push_back({model.name, {digest.begin(), digest.end()}, CellOptionsOf(options)});
  }
  ASSIGN_OR_RETURN(auto member,
                   cluster_host::ClusterMember::Join(loop, *options.cluster, fingerprint, wanted));
  std::unique_ptr<ClusterCells> cells(new ClusterCells(loop, std::move(member)));
  for (const cluster_host::JoinedCell& joined : cells->member_->cells())
    cells->places_.emplace(joined.cell.model,
                           Place{joined.cell.row.cell, WithCellOptions(options, joined.options),
                                 std::string(AsText(joined.cell.swarm_id))});
  return cells;
}

const ServerOptions& ClusterCells::OptionsOf(const std::string& model) const {
  return places_.at(model).options;
}

CellShared ClusterCells::SharedBy(const CellShared& shared, const std::string& model) const {
  const Place& place = places_.at(model);
  return {place.options,
          shared.loop,
          shared.planning,
          shared.keys,
          shared.add_secrets,
          shared.has_several,
          CellShared::Shared{place.swarm_id, member_->keys().front().SeedKey()}};
}

uint32_t ClusterCells::NumberOf(const std::string& model) const {
  return places_.at(model).id.value();
}

std::unique_ptr<ClusterCell> ClusterCells::Make(Cell& cell, std::function<void()> on_first_lead) {
  Place& place = places_.at(cell.name());
  auto made = std::make_unique<ClusterCell>(loop_, cell, member_->leases(), member_->links(),
                                            place.id, std::move(on_first_lead));
  place.cell = made.get();
  return made;
}

void ClusterCells::Start(std::function<void()> on_changed) {
  member_->leases().OnChanged([this, on_changed = std::move(on_changed)] {
    for (const auto& [model, place] : places_) place.cell->OnLeaderChanged();
    on_changed();
  });
  member_->Start();
  for (const auto& [model, place] : places_) {
    CHECK(place.cell != nullptr, "a model of the cluster was not loaded");
    place.cell->Begin();
  }
}

void ClusterCells::StopServing() {
  for (const auto& [model, place] : places_) place.cell->StopServing();
}

}  // namespace weft::server
