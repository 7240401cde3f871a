#include "server/cluster_cell.h"

#include <utility>

#include "base/log.h"
#include "server/worker_socket.h"
#include "wire/elsewhere.h"

namespace weft::server {
namespace {

// How soon others hear of a device that came or went.
constexpr Duration kCountInterval = Milliseconds(100);

// "wss://a.weft.school.lan:443" for "https://a.weft.school.lan": what workers connect to.
std::string SocketUrl(const std::string& url) {
  return url.starts_with("http") ? "ws" + url.substr(4) : url;
}

std::string ElsewhereOf(const cluster_host::PeerAddress& to) {
  return wire::EncodeElsewhere({SocketUrl(to.url), to.fingerprint});
}

std::vector<swarm::Successor> SuccessorsOf(const std::vector<cluster_host::PeerAddress>& peers) {
  std::vector<swarm::Successor> successors;
  for (const auto& [url, fingerprint] : peers) successors.push_back({SocketUrl(url), fingerprint});
  return successors;
}

}  // namespace

ClusterCell::ClusterCell(net::EventLoop& loop, Cell& cell, cluster_host::LeaseHost& leases,
                         cluster_host::PeerLinks& links, cluster::CellId id,
                         std::function<void()> on_first_lead)
    : loop_(loop),
      cell_(cell),
      leases_(leases),
      id_(id),
      on_first_lead_(std::move(on_first_lead)),
      requests_(loop, leases_, links, id, *cell.clustered(), cell.host(),
                cell.ConstraintCompiler()),
      parked_(std::make_shared<ParkedSockets>(loop)),
      count_timer_(loop) {
  cell_.OnPlacement([this](const store::pb::Placement& placement) {
    std::vector<uint8_t> body(placement.ByteSizeLong());
    placement.SerializeToArray(body.data(), static_cast<int>(body.size()));
    leases_.NotePlacement(id_, std::move(body));
  });
  cell_.OnWorkerSaw(
      [this](uint64_t seen) { leases_.OnWorkerSaw(id_, cluster::Incarnation(seen)); });
}

void ClusterCell::Lead(cluster::Incarnation incarnation, const std::vector<uint8_t>& placement,
                       const std::vector<cluster_host::PeerAddress>& successors) {
  CellLead lead{incarnation.value(), SuccessorsOf(successors), std::nullopt};
  store::pb::Placement record;
  if (!placement.empty() &&
      record.ParseFromArray(placement.data(), static_cast<int>(placement.size())))
    lead.placement = std::move(record);
  else if (!placement.empty())
    LogWarn("the placement of the leader before cannot be parsed: devices load anew");
  cell_.Lead(std::move(lead));
  parked_->AttachAll([this](const ParkedSockets::Parked& each) { return Attach(each); });
  requests_.BeginLeading(incarnation);
  if (on_first_lead_) std::exchange(on_first_lead_, nullptr)();
  OnSwarmChanged();
}

void ClusterCell::Change(cluster::Incarnation incarnation,
                         const std::vector<cluster_host::PeerAddress>& successors) {
  cell_.host().ChangeLeadership(incarnation.value(), SuccessorsOf(successors));
  requests_.BeginLeading(incarnation);
}

void ClusterCell::StepDown(const cluster_host::PeerAddress& to) {
  requests_.StopLeading();
  cell_.host().EndLeading(ElsewhereOf(to));
  requests_.OnLeaderChanged();
}

void ClusterCell::PlaceWorkers(const cluster_host::PeerAddress& to) {
  parked_->SendElsewhere(ElsewhereOf(to));
}

net::WebSocketCallbacks ClusterCell::Attach(const ParkedSockets::Parked& parked) {
  return AttachWorkerSocket(cell_.host(), parked.address, parked.is_owner, parked.socket);
}

void ClusterCell::AddParts(RouteParts& parts) {
  parts.admit_worker = [this](const net::HttpRequest& request) {
    return AdmitWorker(request, [this](uint32_t number) { return number == id_.value(); });
  };
  parts.connect_worker = [this](const net::HttpRequest& request, bool is_owner,
                                std::shared_ptr<net::WebSocket> socket) {
    return Take({request.remote_address, is_owner, std::nullopt, std::move(socket)});
  };
  parts.find_not_ready = [this] { return FindReasonNotReady(); };
}

net::WebSocketCallbacks ClusterCell::Take(ParkedSockets::Parked worker) {
  if (cell_.host().leads()) return Attach(worker);
  return parked_->Park(std::move(worker));
}

std::optional<NotReady> ClusterCell::FindReasonNotReady() const {
  const SwarmHost& host = cell_.host();
  if (host.leads() || host.is_ending()) return FindNotReady(host);
  const auto leader = leases_.FindLeader(id_);
  if (!leader) return NotReady{"down", "No server leads the model."};
  if (leader->up) return std::nullopt;
  return NotReady{"preparing", "Devices of another server are loading the model."};
}

void ClusterCell::OnSwarmChanged() {
  if (std::exchange(counts_, true)) return;
  count_timer_.FireAfter(kCountInterval, [this] { CountWorkers(); });
}

void ClusterCell::CountWorkers() {
  counts_ = false;
  if (!cell_.host().leads()) return;
  const auto workers = static_cast<uint32_t>(cell_.host().snapshot().workers.size());
  leases_.OnWorkers(id_, workers, cell_.host().is_up());
}

void ClusterCell::OnLeaderChanged() {
  requests_.OnLeaderChanged();
  if (cell_.host().leads()) return;
  const auto leader = leases_.FindLeader(id_);
  if (!leader)
    return cell_.host().SetStandby("No server leads this model now: ask again in a second.", false);
  cell_.host().SetStandby(leader->name + " leads this model, and this server stands by.",
                          leader->up);
}

}  // namespace weft::server
