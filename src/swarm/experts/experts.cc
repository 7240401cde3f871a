#include "swarm/experts/experts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "base/sha256.h"
#include "planner/expert_ring.h"
#include "swarm/workers/channel_addresses.h"
#include "wire/expert_frame.h"
#include "wire/tensor_channel.h"

namespace weft::swarm {
namespace {

// What a worker is told of at a time takes about so long to load: others are asked meanwhile, and
// what is more urgent by then comes before the rest.
constexpr Duration kLoadedAtATime = Seconds(10);

Error BadAnswer(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

bool Has(const std::vector<bool>& set, size_t at) {
  return at < set.size() && set[at];
}

// Whether it keeps what it holds while it loads more: a tab loads a layer's experts anew.
bool LoadsMoreAlone(const Offer& offer) {
  return offer.kind == "native";
}

// Whether it is a hub that the server serves: its engine waits in the middle of a step, and
// computes nothing for others meanwhile.
bool HoldsNothing(const Worker& worker) {
  return worker.offer.rows_to_server &&
         std::ranges::any_of(*worker.bindings,
                             [](const Binding& each) { return each.layers.is_hub(); });
}

bool IsEmpty(const std::vector<bool>& set) {
  return std::find(set.begin(), set.end(), true) == set.end();
}

}  // namespace

Experts::Experts(const CoreOptions& options, const Costs& costs, Roster& roster,
                 Lifecycle& lifecycle, const Probation& probation, const Popularity& popularity,
                 ServedHubs& served_hubs, Changes& changes, Outbox& outbox)
    : options_(options),
      costs_(costs),
      roster_(roster),
      lifecycle_(lifecycle),
      probation_(probation),
      popularity_(popularity),
      served_hubs_(served_hubs),
      changes_(changes),
      outbox_(outbox) {
  first_number_.push_back(0);
  for (const ModelLayer& layer : options.model.layers) {
    layer_of_.insert(layer_of_.end(), layer.part_count(),
                     static_cast<uint32_t>(first_number_.size() - 1));
    first_number_.push_back(first_number_.back() + layer.part_count());
  }
  holders_.assign(first_number_.back(), 0);
  settled_ = holders_;
  needed_.assign(first_number_.back(), false);
}

void Experts::Mark(const SwarmPlan* plan, Set& needed) const {
  if (plan == nullptr || !plan->is_hub()) return;
  for (const PlanStage& stage : plan->stages)
    std::fill(needed.begin() + first_number_[stage.first],
              needed.begin() + first_number_[stage.end], true);
}

uint64_t Experts::BytesOf(const Set& set) const {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < layer_of_.size(); ++i)
    if (Has(set, i)) bytes += BytesOf(i);
  return bytes;
}

uint64_t Experts::BytesOf(uint32_t i) const {
  const uint32_t layer = layer_of_[i];
  return options_.model.layers[layer].part_bytes(i - first_number_[layer]);
}

// As the worker has reported of experts, before that as of its layers.
double Experts::WeightFactor(const Worker& worker) const {
  return worker.holding->weight_factor.value_or(worker.memory->weight_factor);
}

// What these weights take, and working rows as a layer has them.
uint64_t Experts::MemoryBytes(const Worker& worker, uint64_t weight_bytes) const {
  if (weight_bytes == 0) return 0;
  return static_cast<uint64_t>(
             std::ceil(static_cast<double>(weight_bytes) * WeightFactor(worker))) +
         costs_.layers()[0].scratch_bytes;
}

// What its layers, and those that it measures, leave of its offer.
uint64_t Experts::RoomFor(const Worker& worker) const {
  if (HoldsNothing(worker)) return 0;
  LayerSet held(costs_.layer_count()), hubs(costs_.layer_count());
  for (const Binding& binding : *worker.bindings) {
    held.Add(binding.layers);
    if (binding.layers.is_hub()) hubs.Add(binding.layers);
  }
  if (worker.measure->phase == MeasureJob::Phase::kRunning)
    held.AddRange(worker.measure->first, worker.measure->end);
  const uint64_t bytes = costs_.MemoryBytes(worker.memory->weight_factor, held, hubs);
  return worker.limit->bytes - std::min(bytes, worker.limit->bytes);
}

bool Experts::MayHold(const Worker& worker, Instant now) const {
  return worker.ready && CanHoldExperts(worker.offer, options_) && !worker.leaves_at &&
         worker.check->state != CheckState::kFailed &&
         !probation_.IsAside(worker.probation_key, now) &&
         (!worker.loading->paused_until || !worker.holding->held.empty());
}

// A device has its places whatever connection it comes with.
void Experts::Place(Instant now) {
  planner::ExpertProblem problem;
  problem.replicas = std::max(options_.expert_replicas, options_.expert_copies);
  for (uint32_t layer = 0; layer < costs_.layer_count(); ++layer)
    if (const ModelLayer& costs = options_.model.layers[layer];
        costs.expert_count > 0 && needed_[first_number_[layer]]) {
      problem.layers.push_back({layer, costs.expert_count, costs.expert_bytes});
      std::vector<double>& shares = problem.popularity.emplace_back();
      std::vector<bool>& hot = problem.hot.emplace_back();
      for (uint32_t expert = 0; expert < costs.expert_count; ++expert) {
        shares.push_back(popularity_.Share(layer, expert));
        hot.push_back(popularity_.IsHot(layer, expert));
      }
      if (costs.range_count == 0) continue;
      // The hub needs ranges more often than others do: on a slow line it computes all of them.
      problem.layers.push_back(
          {layer + costs_.layer_count(), costs.range_count, costs.range_bytes});
      problem.popularity.emplace_back(costs.range_count, 1.0);
      problem.hot.emplace_back(costs.range_count, true);
    }
  std::map<uint32_t, Worker*> holders;
  for (auto& [id, worker] : roster_) {
    worker.experts.edit().wanted.clear();
    worker.experts.edit().wanted_first.clear();
    uint64_t room = MayHold(worker, now) ? RoomFor(worker) : 0;
    // One that cannot get more keeps what it holds.
    if (worker.loading->paused_until)
      room = std::min(room, MemoryBytes(worker, BytesOf(worker.holding->held)));
    const uint64_t scratch_bytes = costs_.layers()[0].scratch_bytes;
    if (room <= scratch_bytes) continue;
    worker.experts.edit().wanted.assign(needed_.size(), false);
    worker.experts.edit().wanted_first.assign(needed_.size(), false);
    const Sha256Digest digest = Sha256(AsBytes(worker.probation_key));
    auto number = LoadLe<uint32_t>(digest.data());
    while (!holders.emplace(number, &worker).second) ++number;
    planner::ExpertHolder& holder = problem.holders.emplace_back();
    holder.id = number;
    holder.memory_bytes =
        static_cast<uint64_t>(static_cast<double>(room - scratch_bytes) / WeightFactor(worker));
    for (const Binding& binding : *worker.bindings)
      if (binding.layers.is_hub())
        for (const uint32_t ranges : {uint32_t{0}, costs_.layer_count()})
          holder.hub_layers.push_back({binding.layers.first + ranges, binding.layers.end + ranges});
  }
  const planner::ExpertPlacement placement = planner::PlaceExperts(problem);
  for (const planner::HolderExperts& holder : placement.holders)
    for (const planner::PlacedExpert& placed : holder.experts) {
      WorkerExperts& part = holders.at(holder.id)->experts.edit();
      const uint32_t number = NumberOf(placed.layer, placed.expert);
      part.wanted[number] = true;
      part.wanted_first[number] = placed.replica == 0;
    }
  coverage_.missing_bytes = 0;
  for (const planner::PlacedExpert& missing : placement.unplaced)
    coverage_.missing_bytes += BytesOf(NumberOf(missing.layer, missing.expert));
}

uint32_t Experts::NumberOf(uint32_t placed_layer, uint32_t expert) const {
  const uint32_t layer = placed_layer % costs_.layer_count();
  const uint32_t behind = placed_layer == layer ? 0 : options_.model.layers[layer].expert_count;
  return first_number_[layer] + behind + expert;
}

// Nothing answers before every expert has a holder, so experts come before layers that a device
// only stands by with. Example: a hub takes 14 of a device's 16 MB, and experts want 10. Another
// device with 15 MB could stand by for the hub, or hold them all.
void Experts::LetGoOfStandbys(Instant now) {
  for (auto& [id, worker] : roster_) {
    if (coverage_.missing_bytes == 0) return;
    if (!MayHold(worker, now)) continue;
    const uint64_t room = RoomFor(worker);
    lifecycle_.KeepStandbys(worker, [](LayerSpan) { return false; });
    if (RoomFor(worker) > room) Place(now);
  }
}

// The most urgent are those that nobody holds and whose first place this is, if there are any: then
// the others are for later.
std::vector<uint32_t> Experts::Missing(const Worker& worker) const {
  const WorkerExperts& part = *worker.experts;
  std::vector<uint32_t> lost, missing;
  for (uint32_t i = 0; i < part.wanted.size(); ++i) {
    if (!part.wanted[i] || !needed_[i] || Has(worker.holding->held, i)) continue;
    missing.push_back(i);
    if (holders_[i] == 0 && part.wanted_first[i]) lost.push_back(i);
  }
  if (!lost.empty() && LoadsMoreAlone(worker.offer)) missing = std::move(lost);
  const auto share = [this](uint32_t i) {
    return popularity_.Share(layer_of_[i], i - first_number_[layer_of_[i]]);
  };
  std::ranges::stable_sort(missing, std::greater(), share);
  return missing;
}

double Experts::LoadBytesPerUs(const Worker& worker) const {
  return std::min(worker.offer.download_bytes_per_s * 1e-6, costs_.LoadBytesPerUs(worker));
}

uint64_t Experts::MostAtATime(const Worker& worker) const {
  if (!LoadsMoreAlone(worker.offer)) return UINT64_MAX;
  return static_cast<uint64_t>(LoadBytesPerUs(worker) * static_cast<double>(kLoadedAtATime.us));
}

// What the worker is to hold of what it wants: first what it holds already, then, with `keeps`,
// what nobody else holds in its place yet, and what else there is room for. A native worker keeps
// what it lets go of until it has read what is new: where both do not fit, it lets go first.
//
//   room for 4   held 1 2 3   wanted 3 4 5     told 3 4, which makes 1 2 3 4, then 3 4 5
//   room for 3   held 1 2 3   wanted 3 4 5     told 3, then 3 4 5
void Experts::Target(const Worker& worker, bool keeps, Set& target) const {
  const Set& wanted = worker.experts->wanted;
  const Set& held = worker.holding->held;
  const uint64_t room = RoomFor(worker);
  uint64_t bytes = 0, new_bytes = 0, leaving_bytes = 0;
  target.assign(needed_.size(), false);
  const auto take = [&](uint32_t i) {
    const uint64_t more = BytesOf(i);
    if (target[i] || !needed_[i]) return false;
    if (MemoryBytes(worker, bytes + leaving_bytes + more) > room) return false;
    bytes += more;
    target[i] = true;
    return true;
  };
  for (uint32_t i = 0; i < held.size(); ++i)
    if (held[i] && Has(wanted, i)) take(i);
  for (uint32_t i = 0; i < held.size(); ++i)
    if (keeps && held[i] && settled_[i] == 0) take(i);
  if (worker.loading->paused_until) return;
  if (LoadsMoreAlone(worker.offer))
    for (uint32_t i = 0; i < held.size(); ++i)
      if (held[i] && !target[i]) leaving_bytes += BytesOf(i);
  const uint64_t most = MostAtATime(worker);
  for (const uint32_t i : Missing(worker)) {
    if (new_bytes > 0 && new_bytes >= most) return;
    if (take(i)) new_bytes += BytesOf(i);
  }
}

// `holders_`: who can be asked. `settled_`: of them those whose place it is.
void Experts::CountHolders() {
  std::fill(holders_.begin(), holders_.end(), 0);
  std::fill(settled_.begin(), settled_.end(), 0);
  for (const auto& [id, worker] : roster_)
    for (size_t i = 0; i < worker.holding->held.size(); ++i) {
      if (!worker.holding->held[i] || HoldsNothing(worker)) continue;
      ++holders_[i];
      if (Has(worker.experts->wanted, i)) ++settled_[i];
    }
}

void Experts::Settle(Instant now) {
  if (!changes_.TakeExperts() && lifecycle_.version() == lifecycle_version_) return;
  lifecycle_version_ = lifecycle_.version();
  Set needed(needed_.size(), false);
  Mark(lifecycle_.active(), needed);
  Mark(lifecycle_.staged(), needed);
  // Between two plans everybody keeps what he has.
  if (!lifecycle_.active() && !lifecycle_.staged()) needed = needed_;
  if (IsEmpty(needed) && IsEmpty(needed_)) return;
  needed_ = std::move(needed);
  Place(now);
  LetGoOfStandbys(now);
  CountHolders();
  std::vector<std::pair<Worker*, Set>> changes;
  bool waits = false;
  // Where nothing moves any more and experts are missing, those that keep each other's places make
  // room.
  for (const bool keeps : {true, false}) {
    for (auto& [id, worker] : roster_) {
      waits = waits || !worker.holding->answered;
      const bool takes_part = MayHold(worker, now);
      if (!worker.holding->answered || (!takes_part && worker.holding->told.empty())) continue;
      if (worker.leaves_at) continue;  // it goes on until others have loaded what it holds
      Set target;
      if (takes_part) Target(worker, keeps, target);
      if (IsEmpty(target)) target.clear();
      if (target != worker.holding->told) changes.emplace_back(&worker, std::move(target));
    }
    if (!changes.empty() || waits || coverage_.missing_bytes > 0) break;
  }
  for (auto& [worker, target] : changes) lifecycle_.KeepExperts(*worker, target);
  CountHolders();
  NoteCoverage();
  TellHubs(now);
  for (auto& [worker, target] : changes) TellHolder(*worker, std::move(target), now);
  changes_.Note({.view = true});
}

void Experts::TellHolder(Worker& worker, Set target, Instant now) {
  uint64_t missing_bytes = 0;
  for (uint32_t i = 0; i < layer_of_.size(); ++i)
    if (Has(target, i) && !Has(worker.holding->held, i)) missing_bytes += BytesOf(i);
  const double us = static_cast<double>(missing_bytes) / LoadBytesPerUs(worker);
  const std::vector<wire::LayerExperts> layers = ByLayer(target, needed_);
  const uint64_t memory_bytes = MemoryBytes(worker, BytesOf(target));
  auto& message = lifecycle_.HoldExperts(worker, std::move(target), memory_bytes, us, now);
  wire::FillExpertSets(layers, *message.mutable_sets());
}

// Those of `set` in layers of which `of_layers` has any.
std::vector<wire::LayerExperts> Experts::ByLayer(const Set& set, const Set& of_layers) const {
  std::vector<wire::LayerExperts> layers;
  for (uint32_t layer = 0; layer < costs_.layer_count(); ++layer) {
    const uint32_t first = first_number_[layer], end = first_number_[layer + 1];
    if (first == end || !Has(of_layers, first)) continue;
    wire::LayerExperts experts{layer, {}};
    for (uint32_t i = first; i < end; ++i)
      if (Has(set, i)) experts.experts.push_back(i - first);
    if (!experts.experts.empty()) layers.push_back(std::move(experts));
  }
  return layers;
}

void Experts::NoteCoverage() {
  coverage_.needed = coverage_.held = 0;
  for (size_t i = 0; i < needed_.size(); ++i) {
    if (!needed_[i]) continue;
    ++coverage_.needed;
    if (holders_[i] > 0) ++coverage_.held;
  }
}

// The rows of a chunk, once for each expert that they chose; or sentences in their place.
uint64_t Experts::LongestMessage() const {
  uint64_t longest = 0;
  for (const ModelLayer& layer : options_.model.layers) {
    const uint64_t frames = std::min<uint64_t>(layer.part_count(), wire::kMaxShardFrames);
    const uint64_t columns =
        std::max({options_.model.hidden_columns, layer.head_range_columns, layer.range_columns});
    const uint64_t row_bytes = columns * sizeof(float) + 2;
    longest = std::max(longest,
                       frames * (wire::kExpertHeaderBytes + wire::kMaxFailureBytes) +
                           std::min(uint64_t{options_.prefill_chunk_rows} *
                                        (layer.experts_per_token + layer.range_count) * row_bytes,
                                    wire::kMaxShardRowBytes));
  }
  return wire::kShardHeadBytes + longest;
}

// Every hub hears who can be asked for the experts of its layers, where that changed.
void Experts::TellHubs(Instant now) {
  for (auto& [id, hub] : roster_) {
    WorkerExperts& part = hub.experts.edit();
    Set asked(needed_.size(), false);
    part.is_hub = false;
    for (const Binding& binding : *hub.bindings) {
      if (!binding.layers.is_hub()) continue;
      part.is_hub = true;
      std::fill(asked.begin() + first_number_[binding.layers.first],
                asked.begin() + first_number_[binding.layers.end], true);
    }
    part.was_hub = part.was_hub || part.is_hub;
    part.longest_message = part.is_hub || !IsEmpty(hub.holding->told) ? LongestMessage() : 0;
    const bool waited = std::exchange(part.waits, false);
    if (!part.is_hub) {
      part.told_holders.clear();
      served_hubs_.Retire(hub);
      continue;
    }
    wire::pb::ExpertHolders statement;
    statement.set_copies(options_.expert_copies);
    statement.set_half_rows(options_.half_rows);
    statement.set_stats_ms(static_cast<uint32_t>(options_.timeouts.holder_stats.us / 1000));
    for (const auto& [holder, worker] : roster_) {
      const std::vector<wire::LayerExperts> layers = ByLayer(worker.holding->held, asked);
      if (layers.empty() || HoldsNothing(worker)) continue;
      auto& out = *statement.add_holders();
      out.set_peer(PeerOf(holder));
      out.set_datagrams(worker.offer.datagrams);
      out.set_messages(worker.offer.messages && hub.offer.messages);
      // What it sends to itself goes over no line.
      out.set_integers(worker.offer.integer_rows && hub.offer.integer_rows && holder != id);
      out.set_steps(worker.offer.sum_steps && hub.offer.sum_steps && holder != id);
      if (holder == id) statement.set_self(PeerOf(id));
      wire::FillExpertSets(layers, *out.mutable_sets());
    }
    if (options_.loss_limit) TellLosses(asked, *statement.mutable_losses());
    for (size_t i = 0; i < asked.size(); ++i) part.waits = part.waits || (asked[i] && !holders_[i]);
    // Its step has the time that it would have had.
    if (waited && !part.waits) part.waited_until = now;
    std::string bytes = statement.SerializeAsString();
    // Even nobody is worth a statement where somebody was.
    if (part.told_holders == bytes) continue;
    part.told_holders = std::move(bytes);
    hub.times.waits_us.Clear();  // they were for others
    statement.set_statement(++last_statement_);
    if (hub.offer.rows_to_server)
      served_hubs_.SetHolders(hub, statement, now);
    else
      *outbox_.Control(id).mutable_expert_holders() = std::move(statement);
  }
}

// What a hub of these experts may lose.
void Experts::TellLosses(const Set& asked, wire::pb::ExpertHolders::Losses& losses) const {
  losses.set_limit(*options_.loss_limit);
  for (uint32_t layer = 0; layer < costs_.layer_count(); ++layer) {
    const std::vector<float>& norms = options_.model.layers[layer].group_norms;
    if (norms.empty() || !Has(asked, first_number_[layer])) continue;
    auto& out = *losses.add_norms();
    out.set_layer(layer);
    out.mutable_norms()->Assign(norms.begin(), norms.end());
  }
}

bool Experts::Covers(const SwarmPlan& plan) const {
  Set needed(needed_.size(), false);
  Mark(&plan, needed);
  for (size_t i = 0; i < needed.size(); ++i)
    if (needed[i] && holders_[i] == 0) return false;
  return true;
}

Status Experts::OnHeld(Worker& worker, const wire::pb::ExpertsHeld& held) {
  const WorkerHolding& holding = *worker.holding;
  // It answered a statement before it heard of the one that has taken its place.
  if (!holding.answered && held.binding() != 0 && BindingId(held.binding()) < holding.binding)
    return OkStatus();
  if (BindingId(held.binding()) != holding.binding || holding.answered)
    return BadAnswer("ExpertsHeld names binding " + std::to_string(held.binding()) +
                     (holding.answered ? ", but no answer is due."
                                       : ", expected " + ToString(holding.binding) + "."));
  if (held.used_bytes() > (1ull << 50))
    return BadAnswer("ExpertsHeld reports " + std::to_string(held.used_bytes()) +
                     " bytes in use, expected at most 2^50.");
  const uint64_t weight_bytes = BytesOf(holding.told);
  std::optional<double> factor;
  if (weight_bytes > 0)
    factor = std::clamp(static_cast<double>(held.used_bytes()) / static_cast<double>(weight_bytes),
                        kMinWeightFactor, kMaxWeightFactor);
  lifecycle_.NoteExpertsHeld(worker, weight_bytes, factor);
  lifecycle_.NoteExpertMemory(worker, MemoryBytes(worker, weight_bytes));
  changes_.Note({.experts = true});
  return OkStatus();
}

bool Experts::OnFailed(Worker& worker, const wire::pb::Failed& failed) {
  const WorkerHolding& holding = *worker.holding;
  if (holding.answered || BindingId(failed.binding()) != holding.binding) return false;
  lifecycle_.NoteExpertsFailed(worker);
  lifecycle_.NoteExpertMemory(worker, MemoryBytes(worker, BytesOf(holding.told)));
  changes_.Note({.experts = true});
  return true;
}

Result<Experts::Forwarded> Experts::ToServer(Worker& hub, const Slice& message, Instant now) {
  if (!hub.offer.rows_to_server || !hub.experts->was_hub) return Forwarded::kWrong;
  ++hub.experts.edit().messages_sent;
  TRY(served_hubs_.OnHub(hub, message, now));
  return Forwarded::kPassed;
}

Result<Experts::Forwarded> Experts::Forward(Worker& sender, const Slice& message, Instant now) {
  WorkerExperts& from = sender.experts.edit();
  const auto peer = wire::ShardPeer(message.bytes());
  const bool was_holder = sender.holding->was_holder;
  if (!peer.ok() || !(from.was_hub || was_holder)) return Forwarded::kWrong;
  if (*peer == 0) return ToServer(sender, message, now);
  Worker* receiver = roster_.Find(WorkerId(*peer));
  // What was on its way to one that has gone, or that has another part by now, is nobody's fault.
  if (receiver == nullptr) return Forwarded::kNowhere;
  const WorkerExperts& to = *receiver->experts;
  if (!(from.was_hub && receiver->holding->was_holder) && !(was_holder && to.was_hub))
    return Forwarded::kWrong;
  if (!(from.is_hub && !receiver->holding->held.empty()) && !to.is_hub) return Forwarded::kNowhere;
  if (wire::IsChannelMessage(message.bytes())) return ForwardChannel(sender, *receiver, message);
  ++receiver->experts.edit().messages_received;
  ++from.messages_sent;
  if (served_hubs_.Serves(receiver->id)) {
    served_hubs_.OnHolder(*receiver, sender, message, now);
    return Forwarded::kPassed;
  }
  outbox_.Add(SendData{receiver->id, wire::WithShardPeer(message, PeerOf(sender.id)), sender.id});
  return Forwarded::kPassed;
}

// With those addresses alone that may be the hub's; without any it goes nowhere.
Experts::Forwarded Experts::ForwardChannel(const Worker& hub, const Worker& holder,
                                           const Slice& message) {
  if (!hub.experts->was_hub) return Forwarded::kWrong;
  const auto decoded = wire::DecodeShardMessage(message);
  if (!decoded.ok()) return Forwarded::kWrong;
  auto channel = wire::ReadChannel(decoded->frames.front());
  if (!channel.ok()) return Forwarded::kWrong;
  channel->addresses = AddressesToProbe(hub, holder, channel->addresses);
  if (channel->addresses.empty()) return Forwarded::kNowhere;
  const wire::ExpertFrame frame = wire::ChannelFrame(*channel);
  outbox_.Add(SendData{holder.id, wire::EncodeShardMessage(PeerOf(hub.id), {&frame, 1}), hub.id});
  return Forwarded::kPassed;
}

}  // namespace weft::swarm
