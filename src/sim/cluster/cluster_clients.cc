#include "sim/cluster/cluster_clients.h"

#include <algorithm>
#include <utility>

#include "sim/simulation.h"

namespace weft::sim {
namespace {

constexpr double kFirstAsk = 4, kPause = 3;  // seconds at most
constexpr Duration kAsksAgain = Milliseconds(250);
constexpr double kCancelled = 0.1, kSampled = 0.4;  // shares of the requests
constexpr uint32_t kLongestStart = 30, kLongestPrompt = 40, kLongestAnswer = 60;

}  // namespace

Duration ClusterClients::UpTo(double seconds) {
  return Microseconds(static_cast<int64_t>(1e6 * seconds * random_.Uniform()));
}

void ClusterClients::Start() {
  for (uint32_t cell = 1; cell <= world_.scenario.cells; ++cell)
    for (uint32_t i = 1; i <= world_.scenario.clients_of_cell; ++i) {
      clients_.push_back(std::make_unique<Client>());
      Client& client = *clients_.back();
      client.cell = cluster::CellId(cell);
      client.name = "client " + std::to_string(i) + " of cell " + std::to_string(cell);
      world_.scheduler.After(UpTo(kFirstAsk), [this, &client] { AskSomething(client); });
    }
}

void ClusterClients::AskLater(Client& client) {
  world_.scheduler.After(UpTo(kPause), [this, &client] { AskSomething(client); });
}

void ClusterClients::AskSomething(Client& client) {
  if (is_over_) return;
  const CellModel& model = world_.ModelOf(client.cell);
  client.request = {};
  client.request.client = client.name;
  // Half of the prompts begin as others do, so that sessions go on for other requests.
  if (random_.Below(2) == 0) client.request.prompt_ids.assign(1 + random_.Below(kLongestStart), 1);
  for (uint64_t i = 1 + random_.Below(kLongestPrompt); i > 0; --i)
    client.request.prompt_ids.push_back(
        static_cast<int32_t>(random_.Below(model.options.model.vocabulary)));
  client.request.max_tokens = 1 + static_cast<uint32_t>(random_.Below(kLongestAnswer));
  client.request.sampling.temperature = 0;
  if (random_.Uniform() < kSampled)
    SetSampling(random_, model.options.model.vocabulary, client.request.sampling);
  client.request.stop_ids.push_back(
      static_cast<int32_t>(random_.Below(model.options.model.vocabulary)));
  client.expected = Reference(model.hash, client.request, model.options.context_length);
  client.is_open = true;
  client.is_cancelled = false;
  client.heard_at = world_.scheduler.now();
  Ask(client);
  if (random_.Uniform() >= kCancelled) return;
  world_.scheduler.After(UpTo(kPause), [this, &client, attempt = client.attempt] {
    if (client.is_open && client.attempt == attempt) Cancel(client);
  });
}

// It asks any server that listens.
void ClusterClients::Ask(Client& client) {
  const uint64_t attempt = ++client.attempt;
  client.tokens.clear();
  client.id = 0;
  client.server = {};
  ServerHost& server = *servers_[random_.Below(servers_.size())];
  if (!server.is_alive()) {
    world_.scheduler.After(kAsksAgain, [this, &client, attempt] {
      if (client.attempt == attempt) Ask(client);
    });
    return;
  }
  client.server = server.id();
  server.Do([this, &client, &server, attempt] {
    if (client.attempt == attempt && client.is_open) Submit(client, server);
  });
}

void ClusterClients::Submit(Client& client, ServerHost& server) {
  const auto if_current = [&client, attempt = client.attempt](auto then) {
    return [&client, attempt, then](const auto&... told) {
      if (client.attempt == attempt) then(told...);
    };
  };
  GatewayClient hooks;
  hooks.token = if_current([this, &client](const auto& token) { OnToken(client, token); });
  hooks.end = if_current([this, &client](const auto& end) { OnEnd(client, end); });
  hooks.moving = if_current([this, &client] { OnMoving(client); });
  client.id = server.GatewayOf(client.cell).Submit(client.request, std::move(hooks));
}

// What it had is worth nothing, since its connection is gone.
void ClusterClients::NoteDeath(cluster::ServerId server) {
  for (const auto& client : clients_) {
    if (!client->is_open || client->server != server) continue;
    ++counts_.cut;
    const uint64_t attempt = ++client->attempt;
    world_.scheduler.After(kAsksAgain, [this, to = client.get(), attempt] {
      if (to->attempt == attempt) Ask(*to);
    });
  }
}

void ClusterClients::Cancel(Client& client) {
  client.is_cancelled = true;
  if (!client.server.is_set()) return;  // it looks for a server
  ServerHost& server = *servers_.at(world_.NodeOf(client.server));
  server.Do([this, &client, &server, attempt = client.attempt] {
    if (client.attempt != attempt || !client.is_open) return;
    server.GatewayOf(client.cell).Cancel(client.id);
  });
}

void ClusterClients::NoteWait(Client& client) {
  const Instant now = world_.scheduler.now();
  counts_.longest_wait = std::max(counts_.longest_wait, now - client.heard_at);
  client.heard_at = now;
}

void ClusterClients::OnToken(Client& client, const swarm::EmitToken& token) {
  NoteWait(client);
  ++counts_.tokens;
  if (!client.is_open) return Violate(client, "got a token behind the end");
  const std::vector<int32_t>& expected = client.expected.tokens;
  const size_t at = client.tokens.size();
  if (token.index != at)
    return Violate(client,
                   "got token " + std::to_string(token.index) + " as number " + std::to_string(at));
  if (at >= expected.size() || expected[at] != token.token_id)
    return Violate(client, "got " + std::to_string(token.token_id) + " as token " +
                               std::to_string(at) + ", without faults it would be " +
                               (at < expected.size() ? std::to_string(expected[at]) : "over"));
  client.tokens.push_back(token.token_id);
}

// Usage is counted by what the end says.
void ClusterClients::OnEnd(Client& client, const swarm::FinishRequest& end) {
  NoteWait(client);
  if (!std::exchange(client.is_open, false)) return Violate(client, "got a second end");
  ++counts_.answers;
  if (end.error) return Violate(client, "got an error: " + end.error->message());
  const bool was_cancelled = end.reason == swarm::FinishReason::kCancelled;
  if (was_cancelled) ++counts_.cancelled;
  if (was_cancelled && !client.is_cancelled) Violate(client, "was cancelled by nobody");
  if (!was_cancelled && client.tokens != client.expected.tokens) Violate(client, "lacks tokens");
  if (!was_cancelled && end.reason != client.expected.reason)
    Violate(client, "got an end for another reason");
  if (end.generated_tokens != client.tokens.size() ||
      end.prompt_tokens != client.request.prompt_ids.size())
    Violate(client, "was counted " + std::to_string(end.generated_tokens) + " tokens behind " +
                        std::to_string(end.prompt_tokens) + ", but was given " +
                        std::to_string(client.tokens.size()) + " behind " +
                        std::to_string(client.request.prompt_ids.size()));
  AskLater(client);
}

void ClusterClients::OnMoving(const Client& client) {
  if (world_.scenario.faults == ClusterFaults::kDatabase)
    Violate(client, "waits for another leader, though only the database had faults");
}

bool ClusterClients::AnyOpen() const {
  return std::ranges::any_of(clients_, [](const auto& client) { return client->is_open; });
}

void ClusterClients::CheckEnd() {
  for (const auto& client : clients_)
    if (client->is_open)
      Violate(*client, "has no end, with " + std::to_string(client->tokens.size()) + " of " +
                           std::to_string(client->expected.tokens.size()) + " tokens from server " +
                           ToString(client->server));
}

void ClusterClients::Violate(const Client& client, const std::string& what) {
  world_.violate(client.name + " " + what);
}

}  // namespace weft::sim
