#include "cluster/leases.h"

#include <algorithm>

#include "base/check.h"

namespace weft::cluster {
namespace {

constexpr size_t kMostSuccessors = 4;

}  // namespace

Leases::Leases(Holder self, LeaseOptions options, Instant now)
    : self_(self),
      options_(options),
      now_(now),
      peers_(self, options_),
      next_hello_(now),
      next_read_(now),
      next_renewal_(now) {
  peers_.Listen(now);
}

std::vector<Action> Leases::Handle(const Event& event, Instant now) {
  CHECK(now >= now_, "time went backwards");
  // Who has slept has heard nobody, and must not take that for silence.
  if (now - now_ > options_.sleep) peers_.Listen(now);
  now_ = now;
  std::visit([this](const auto& each) { On(each); }, event);
  Settle();
  return out_.Take();
}

void Leases::On(const LinkOpened& event) {
  peers_.OnOpened(event.peer);
  next_hello_ = now_;
}

void Leases::On(const TablesRead& event) {
  if (!read_ || read_->query != event.query) return;
  read_.reset();
  for (const ServerId server : event.servers) peers_.Know(server);
  for (const CellRow& row : event.cells) At(row.cell).OnRow(row);
  for (auto& [cell, lease] : leases_)
    if (std::ranges::find(event.cells, cell, &CellRow::cell) == event.cells.end())
      lease.OnRowGone(now_, out_);
}

void Leases::On(const TakeAnswered& event) {
  if (Lease* lease = Find(event.cell)) lease->OnTakeAnswered(event, now_, out_);
}

void Leases::On(const Renewed& event) {
  if (!renewal_ || renewal_->query != event.query) return;
  renewal_.reset();
  for (const Renew::Cell& cell : renewing_)
    if (std::ranges::find(event.cells, cell.cell) == event.cells.end())
      At(cell.cell).OnNotMine(cell.incarnation);
}

void Leases::On(const QueryFailed& event) {
  if (read_ && read_->query == event.query) read_.reset();
  if (renewal_ && renewal_->query == event.query) renewal_.reset();
  for (auto& [cell, lease] : leases_) lease.OnQueryFailed(event.query);
}

void Leases::On(const HandedOver& event) {
  if (Lease* lease = Find(event.cell)) lease->OnHandedOver(event.is_given, now_, out_);
}

void Leases::On(const WorkersCounted& event) {
  if (Lease* lease = Find(event.cell)) lease->OnWorkers(event.workers, event.up);
}

void Leases::On(const WorkerSaw& event) {
  if (Lease* lease = Find(event.cell)) lease->OnWorkerSaw(event.incarnation);
}

void Leases::On(const PackageFound& event) {
  At(event.cell).OnPackage(event.is_here);
}

Lease& Leases::At(CellId cell) {
  return leases_.try_emplace(cell, cell, self_, options_, peers_).first->second;
}

Lease* Leases::Find(CellId cell) {
  const auto found = leases_.find(cell);
  return found == leases_.end() ? nullptr : &found->second;
}

void Leases::Settle() {
  for (auto& [cell, lease] : leases_) {
    lease.Decide(is_draining_, now_, out_);
    if (lease.TakeNews()) next_hello_ = now_;
  }
  for (const ServerId peer : peers_.TakeDue(now_)) out_.Add(Connect{peer});
  SayHelloIfDue();
  ReadIfDue();
  RenewIfDue();
}

void Leases::SayHelloIfDue() {
  if (now_ < next_hello_) return;
  next_hello_ = now_ + options_.hello_interval;
  Hello hello{self_.start, is_draining_, {}, {}};
  for (const auto& [cell, lease] : leases_) {
    if (const auto told = lease.Told(now_)) hello.cells.push_back(*told);
    if (lease.has_package()) hello.packages.push_back(cell);
  }
  out_.Add(SayHello{std::move(hello)});
}

void Leases::ReadIfDue() {
  if (read_ && now_ >= read_->until) read_.reset();
  const bool is_urgent =
      std::ranges::any_of(leases_, [](const auto& entry) { return entry.second.wants_row(); });
  if (is_urgent) next_read_ = std::min(next_read_, last_read_ + options_.read_again);
  if (read_ || now_ < next_read_) return;
  last_read_ = now_;
  next_read_ = now_ + options_.read_interval;
  read_ = Question{out_.NextQuery(), now_ + options_.query_timeout};
  out_.Add(ReadTables{read_->query});
}

void Leases::RenewIfDue() {
  if (renewal_ && now_ >= renewal_->until) renewal_.reset();
  if (renewal_ || now_ < next_renewal_) return;
  next_renewal_ = now_ + options_.renew_interval;
  renewing_.clear();
  for (const auto& [cell, lease] : leases_)
    if (lease.is_renewed())
      renewing_.push_back({cell, lease.incarnation(), lease.up(), lease.workers()});
  if (renewing_.empty()) return;
  renewal_ = Question{out_.NextQuery(), now_ + options_.query_timeout};
  out_.Add(Renew{renewal_->query, renewing_});
}

Instant Leases::next_timer() const {
  Instant next = next_hello_;
  next = std::min(next, read_ ? read_->until : next_read_);
  next = std::min(next, renewal_ ? renewal_->until : next_renewal_);
  if (const auto timer = peers_.next_timer()) next = std::min(next, *timer);
  for (const auto& [cell, lease] : leases_)
    if (const auto timer = lease.next_timer()) next = std::min(next, *timer);
  return next;
}

std::vector<ServerId> Leases::successors(CellId cell) const {
  std::vector<ServerId> servers;
  for (const Holder& candidate : peers_.Candidates(cell, false, false, now_))
    if (servers.size() < kMostSuccessors) servers.push_back(candidate.server);
  return servers;
}

bool Leases::is_drained() const {
  return is_draining_ &&
         std::ranges::none_of(leases_, [](const auto& entry) { return entry.second.leads(); });
}

}  // namespace weft::cluster
