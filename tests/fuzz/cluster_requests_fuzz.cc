// Messages about requests as a server sends them that has gone mad, or is none: to whoever leads a
// cell, and to whoever asks. Neither crashes, each request ends at most once, and what cannot be is
// refused with a sentence.
//
// The input is a script: one byte says what happens next, the bytes after it what with.
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/check.h"
#include "script.h"
#include "server/linked_generator.h"
#include "server/linked_requests.h"
#include "server/request_message.h"

namespace {

using namespace weft;
using server::RequestCallbacks;
using wire::pb::RequestMessage;

constexpr size_t kMaxScriptEvents = 200;

// Does with requests what the script says.
class ScriptedCore : public server::Generator {
 public:
  swarm::RequestId Submit(swarm::Request request, RequestCallbacks callbacks) override {
    const swarm::RequestId id = last_ = last_.Next();
    next_[id] = static_cast<uint32_t>(request.answer_ids.size());
    open_[id] = std::move(callbacks);
    return id;
  }
  void Cancel(swarm::RequestId id) override { End(id); }
  void ForgetPrefix(const std::string& /*salt*/, const std::string& /*name*/) override {}
  bool has_accepted(swarm::RequestId /*id*/) const override { return true; }
  bool is_up() const override { return true; }
  bool is_loading() const override { return false; }
  std::optional<uint32_t> loading_percent() const override { return 3; }
  std::string message() const override { return ""; }
  std::optional<swarm::RequestProgress> progress(swarm::RequestId /*id*/) const override {
    return std::nullopt;
  }

  void Act(Script& script) {
    if (open_.empty()) return;
    auto at = open_.begin();
    std::advance(at, script.Byte() % open_.size());
    const swarm::RequestId id = at->first;
    const RequestCallbacks callbacks = at->second;
    const uint8_t what = script.Byte();
    if (what % 4 == 0) return End(id);
    if (what % 4 == 1)
      return callbacks.on_logits({id, script.Byte(), 2, Slice(std::vector<uint8_t>(16))});
    swarm::EmitToken token;
    token.index = next_[id]++;
    token.token_id = script.Byte();
    token.logprob = static_cast<float>(script.Byte());
    if (what % 4 == 2) token.top = {{1, -1}, {2, -2}};
    callbacks.on_token(token);
  }

 private:
  void End(swarm::RequestId id) {
    const auto found = open_.find(id);
    if (found == open_.end()) return;
    const RequestCallbacks callbacks = std::move(found->second);
    open_.erase(found);
    callbacks.on_finish({});
  }
  std::map<swarm::RequestId, RequestCallbacks> open_;
  std::map<swarm::RequestId, uint32_t> next_;
  swarm::RequestId last_;
};

// What the leader sends is what a gateway can read.
struct ToGateway : server::RequestChannel {
  void Send(RequestMessage message) override {
    for (const auto& event : message.events().requests()) {
      CHECK(server::ReadTokens(event).ok());
      for (const auto& rows : event.rows()) CHECK(server::ReadRows(rows).ok());
      CHECK(!ended.contains(event.number()), "more came behind an end");
      if (event.has_end()) ended.insert(event.number());
    }
  }
  bool is_full() const override { return full; }
  std::set<uint64_t> ended;
  bool full = false;
};
struct ToLeader : server::RequestChannel {
  void Send(RequestMessage message) override {
    if (message.has_submit()) CHECK(server::ReadSubmit(message.submit()).ok());
  }
  bool is_full() const override { return false; }
};

RequestMessage MessageOf(Script& script) {
  RequestMessage message;
  const std::vector<uint8_t> bytes = script.Bytes();
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) message.Clear();
  return message;
}

void RunLoop(net::EventLoop& loop) {
  loop.Post([&loop] { loop.Stop(); });
  loop.Run();
}

void AttackLeader(Script& script, net::EventLoop& loop) {
  ScriptedCore core;
  ToGateway gateway, other;
  server::LinkedRequests requests(
      loop, core, [](const std::string& /*source*/) -> Result<server::ConstraintCache::Constraint> {
        return Error(ErrorCode::kInvalidArgument, "There is no such form.");
      });
  const server::PeerId peer = requests.Attach(gateway), second = requests.Attach(other);
  for (size_t i = 0; i < kMaxScriptEvents && !script.done(); ++i) {
    switch (script.Byte() % 6) {
      case 0:
        core.Act(script);
        break;
      case 1:
        gateway.full = !gateway.full;
        requests.OnDrained(peer);
        break;
      case 2:
        RunLoop(loop);
        break;
      case 3:
        if (script.Byte() == 255) requests.StopLeading();
        break;
      case 4:
        (void)requests.OnMessage(second, MessageOf(script));
        if (script.Byte() % 8 == 0) requests.Detach(second);
        break;
      default:
        (void)requests.OnMessage(peer, MessageOf(script));
    }
  }
  RunLoop(loop);
}

void AttackGateway(Script& script) {
  ToLeader leader;
  server::LinkedGenerator generator(leader);
  std::map<int, int> ends;
  int count = 0;
  for (size_t i = 0; i < kMaxScriptEvents && !script.done(); ++i) {
    switch (script.Byte() % 4) {
      case 0: {
        RequestCallbacks callbacks;
        callbacks.on_token = [](const swarm::EmitToken&) {};
        if (script.Byte() % 2 == 0) callbacks.on_logits = [](const swarm::EmitLogits&) {};
        callbacks.on_finish = [&ends, number = count++](const swarm::FinishRequest& end) {
          CHECK(++ends[number] == 1, "it ended twice");
          CHECK((end.reason == swarm::FinishReason::kError) == end.error.has_value());
        };
        (void)generator.Submit({}, std::move(callbacks));
        break;
      }
      case 1:
        generator.Cancel(swarm::RequestId(uint64_t{script.Byte()}));
        break;
      default:
        (void)generator.OnMessage(MessageOf(script));
    }
    (void)generator.progress(swarm::RequestId(uint64_t{1}));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  static net::EventLoop loop;
  Script script(data, byte_count);
  if (script.Byte() % 2 == 0)
    AttackLeader(script, loop);
  else
    AttackGateway(script);
  return 0;
}
