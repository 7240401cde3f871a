// A hub and holders of its experts put together as they are in a swarm, but for the sockets: steps
// that stop and are resumed (engine), the dispatcher, shard messages as bytes, expert queues and
// expert hosts, on a virtual clock. The oracle is the same model on one engine: the tokens are
// equal whoever holds what, however often it is asked, and whoever is lost in mid-layer.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "base/random.h"
#include "dispatch/dispatcher.h"
#include "engine/test_model.h"
#include "program/shards.h"
#include "worker/expert_host.h"
#include "worker/expert_queue.h"

namespace weft::worker {
namespace {

using Pending = std::unique_ptr<engine::PendingStep>;

constexpr uint32_t kHub = 77;
constexpr size_t kSessions = 2, kTokens = 6;

enum class Fault { kNone, kStopped, kLost, kGarbled, kNotFinite };

engine::ModelSpec SwarmSpec() {
  engine::ModelSpec spec;
  spec.experts = 6;
  spec.top_k = 3;
  return spec;
}
engine::LayerRange Whole() {
  return {0, SwarmSpec().layers + 2};
}
std::vector<int32_t> Prompt(size_t session) {
  std::vector<int32_t> ids(session == 0 ? 11 : 140);  // one of them in two passes
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i * 37 + session) % 100);
  return ids;
}

struct Model {
  engine::MemorySource weights;
  std::vector<program::Program> programs =
      engine::ModelBuilder(SwarmSpec(), engine::RandomTensors(3), weights).Build();
};

engine::NativeEngineOptions HubOptions() {
  return {.residual_dtype = DType::kF16};
}

// Greedy tokens of one session on one engine that holds everything.
std::vector<int32_t> Expected(Model& model, size_t session) {
  const auto engine = engine::MakeNativeEngine(HubOptions());
  EXPECT_TRUE(engine->Load(model.programs, model.weights).ok());
  std::vector<int32_t> ids = Prompt(session), tokens;
  uint32_t position = 0;
  while (tokens.size() < kTokens) {
    const engine::Run run = {
        1, 0, position, static_cast<uint32_t>(ids.size()), {engine::OutputKind::kArgmax}};
    const auto output = engine->Step({Whole(), {&run, 1}, ids, {}});
    position += run.count;
    tokens.push_back(output.value().selections.at(0).candidates.at(0).token_id);
    ids = {tokens.back()};
  }
  return tokens;
}

class ExpertSwarm {
 public:
  // Expert e of every layer is held by two holders, e and e + 1 modulo their count.
  ExpertSwarm(Model& model, uint32_t holder_count, const dispatch::Options& options, uint64_t seed)
      : dispatcher_(options), hub_(engine::MakeNativeEngine(HubOptions())), random_(seed) {
    std::vector<program::Program> hubs;
    for (const program::Program& layer : model.programs) hubs.push_back(program::HubProgram(layer));
    EXPECT_TRUE(hub_->Load(hubs, model.weights).ok());
    for (uint32_t id = 0; id < holder_count; ++id) {
      Holder& holder = holders_[id];
      std::vector<wire::LayerExperts> sets;
      std::vector<program::Program> layers;
      for (uint32_t layer = 1; layer <= SwarmSpec().layers; ++layer) {
        wire::LayerExperts& set = sets.emplace_back();
        set.layer = layer;
        for (uint32_t e = 0; e < SwarmSpec().experts; ++e)
          if (e % holder_count == id || (e + 1) % holder_count == id) set.experts.push_back(e);
        layers.push_back(model.programs[layer]);
      }
      holder.host = std::make_unique<ExpertHost>(engine::MakeNativeEngine({}));
      holder.host->Install(holder.host->Read(sets, layers, model.weights).value());
      holder.queue.Hold(sets);
      holder.sets = sets;
    }
  }

  // Holder 0 does this from its tenth message on.
  void Break(Fault fault) { fault_ = fault; }

  void Run() {
    SetHolders();
    for (size_t session = 0; session < kSessions; ++session) {
      sessions_[session].ids = Prompt(session);
      Step(session);
    }
    int events = 0;
    while (Left() && ++events < 100'000) {
      if (timer_ && (events_.empty() || *timer_ <= events_.begin()->first)) {
        now_ = std::max(now_, *timer_);
        timer_.reset();
        Apply(dispatcher_.OnTimer(now_));
        continue;
      }
      ASSERT_FALSE(events_.empty()) << "everybody waits";
      auto next = events_.extract(events_.begin());
      now_ = next.key();
      next.mapped()();
    }
    EXPECT_FALSE(Left());
    EXPECT_EQ(dispatcher_.HeldBytes(), 0u);
  }
  const std::vector<int32_t>& tokens(size_t session) const { return sessions_[session].tokens; }
  uint32_t missing() const { return missing_; }

 private:
  struct Holder {
    std::unique_ptr<ExpertHost> host;
    ExpertQueue queue;
    std::vector<wire::LayerExperts> sets;
    uint32_t messages = 0;
    bool is_lost = false;
  };
  struct Session {
    std::vector<int32_t> ids, tokens;
    uint32_t position = 0;
    engine::Run run;
    Pending pending;
  };

  bool Left() const {
    return std::any_of(sessions_.begin(), sessions_.end(),
                       [](const Session& each) { return each.tokens.size() < kTokens; });
  }
  void SetHolders() {
    std::vector<dispatch::Holder> all;
    for (const auto& [id, holder] : holders_) {
      if (holder.is_lost) continue;
      dispatch::Holder& one = all.emplace_back();
      one.id = id;
      for (const wire::LayerExperts& set : holder.sets)
        for (const uint32_t expert : set.experts)
          one.experts.emplace_back(static_cast<uint16_t>(set.layer), static_cast<uint16_t>(expert));
    }
    Apply(dispatcher_.SetHolders(now_, ++epoch_, std::move(all)));
  }

  void Step(size_t index) {
    Session& session = sessions_[index];
    session.run = {static_cast<uint32_t>(index) + 1,
                   0,
                   session.position,
                   static_cast<uint32_t>(session.ids.size()),
                   {engine::OutputKind::kArgmax}};
    GoOn(index, hub_->Begin({Whole(), {&session.run, 1}, session.ids, {}}));
  }
  // The step ended, or waits at a layer with experts: then it is a batch of the dispatcher's.
  void GoOn(size_t index, Result<engine::StepProgress> progress) {
    ASSERT_TRUE(progress.ok()) << progress.error().ToString();
    Session& session = sessions_[index];
    if (auto* pending = std::get_if<Pending>(&*progress)) {
      session.pending = std::move(*pending);
      const engine::SlotRequest& request = session.pending->request();
      std::vector<uint32_t> experts;
      for (size_t row = 0; row < request.row_count; ++row)
        for (size_t j = 0; j < request.top_k; ++j)
          experts.push_back(static_cast<uint32_t>(request.route[row * 2 * request.top_k + j]));
      return Apply(
          dispatcher_.Begin(now_, static_cast<uint32_t>(index),
                            {static_cast<uint16_t>(request.layer), request.top_k,
                             static_cast<uint16_t>(request.columns), request.in, experts}));
    }
    session.position += session.run.count;
    const auto& output = std::get<engine::StepOutput>(*progress);
    session.tokens.push_back(output.selections.at(0).candidates.at(0).token_id);
    session.ids = {session.tokens.back()};
    if (session.tokens.size() < kTokens) Step(index);
  }

  void Apply(dispatch::Actions actions) {
    timer_ = actions.timer;
    missing_ += static_cast<uint32_t>(actions.missing.size());
    for (const dispatch::Send& send : actions.sends) {
      Post([this, to = send.holder, message = Bytes(kHub, send.frames)] { Hear(to, message); });
    }
    for (const dispatch::Done& done : actions.done) {
      Session& session = sessions_[done.batch];
      GoOn(done.batch, hub_->Resume(std::move(session.pending), done.slot_rows));
    }
  }

  static Slice Bytes(uint32_t peer, std::span<const wire::ExpertFrame> frames) {
    std::vector<uint8_t> bytes;
    for (const Slice& piece : wire::EncodeShardMessage(peer, frames))
      bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
    return Slice(std::move(bytes));
  }
  // Messages may overtake each other.
  void Post(std::function<void()> then) {
    const Duration delay = Microseconds(static_cast<int64_t>(1000 + random_.Below(20'000)));
    events_.emplace(now_ + delay, std::move(then));
  }

  void Hear(uint32_t id, const Slice& message) {
    Holder& holder = holders_.at(id);
    const auto decoded = wire::DecodeShardMessage(message);
    ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
    const bool breaks = id == 0 && ++holder.messages >= 10 && fault_ != Fault::kNone;
    if (breaks && fault_ == Fault::kLost && !holder.is_lost) {
      holder.is_lost = true;
      Apply(dispatcher_.OnHolderLost(now_, id));
      // Alone it comes back: until then what it held is missing.
      if (holders_.size() > 1) return;
      events_.emplace(now_ + Seconds(1), [this] {
        holders_.at(0).is_lost = false;
        fault_ = Fault::kNone;
        SetHolders();
      });
    }
    if (holder.is_lost || (breaks && fault_ == Fault::kStopped)) return;
    Answer(id, holder.queue.Take(kHub, decoded->frames), breaks);
    while (const auto work = holder.queue.Next())
      Answer(id, holder.host->Run(work->dispatches), breaks);
  }
  void Answer(uint32_t id, std::vector<wire::ExpertFrame> results, bool breaks) {
    if (results.empty()) return;
    if (breaks && fault_ == Fault::kNotFinite) {
      for (wire::ExpertFrame& result : results)
        result.rows = Slice(std::vector<uint8_t>(result.rows.byte_count(), 0xff));
    }
    if (breaks && fault_ == Fault::kGarbled)
      return Post([this, id] { Apply(dispatcher_.OnMalformed(now_, id, "cut off")); });
    Post([this, id, message = Bytes(kHub, results)] {
      if (holders_.at(id).is_lost) return;
      const wire::ShardMessage decoded = wire::DecodeShardMessage(message).value();
      for (const wire::ExpertFrame& frame : decoded.frames)
        Apply(dispatcher_.OnResult(now_, id, frame));
    });
  }

  dispatch::Dispatcher dispatcher_;
  const std::unique_ptr<engine::StageEngine> hub_;
  SeededRandom random_;
  std::map<uint32_t, Holder> holders_;
  std::array<Session, kSessions> sessions_;
  std::multimap<Instant, std::function<void()>> events_;
  Instant now_{1'000'000};
  std::optional<Instant> timer_;
  Fault fault_ = Fault::kNone;
  uint32_t epoch_ = 0, missing_ = 0;
};

class ExpertSwarmTest : public testing::Test {
 protected:
  void ExpectEqual(uint32_t holders, const dispatch::Options& options, Fault fault) {
    SCOPED_TRACE(std::to_string(holders) + " holders, " + std::to_string(options.copies) +
                 " copies, fault " + std::to_string(static_cast<int>(fault)));
    ExpertSwarm swarm(model_, holders, options, ++seed_);
    swarm.Break(fault);
    swarm.Run();
    for (size_t session = 0; session < kSessions; ++session)
      EXPECT_EQ(swarm.tokens(session), expected_[session]);
    EXPECT_EQ(swarm.missing() > 0, holders == 1 && fault == Fault::kLost);
  }
  static dispatch::Options Fixed(uint32_t copies) {
    dispatch::Options options;
    options.adaptive = false;
    options.copies = copies;
    options.copy_time = dispatch::CopyTime::kAtOnce;
    return options;
  }

  Model model_;
  const std::vector<int32_t> expected_[kSessions] = {Expected(model_, 0), Expected(model_, 1)};
  uint64_t seed_ = 0;
};

TEST_F(ExpertSwarmTest, TokensAreThoseOfOneEngineWhoeverHoldsWhat) {
  for (const uint32_t holders : {1u, 2u, 5u}) {
    for (uint32_t copies = 1; copies <= 4; ++copies)
      ExpectEqual(holders, Fixed(copies), Fault::kNone);
    ExpectEqual(holders, {}, Fault::kNone);
  }
}

TEST_F(ExpertSwarmTest, AHolderThatBreaksInMidLayerCostsNoToken) {
  for (const Fault fault : {Fault::kStopped, Fault::kLost, Fault::kGarbled, Fault::kNotFinite}) {
    for (const uint32_t holders : {2u, 5u}) {
      for (const uint32_t copies : {1u, 2u}) ExpectEqual(holders, Fixed(copies), fault);
      ExpectEqual(holders, {}, fault);
    }
  }
}

TEST_F(ExpertSwarmTest, WhatNobodyHoldsIsWaitedFor) {
  ExpectEqual(1, Fixed(1), Fault::kLost);
}

}  // namespace
}  // namespace weft::worker
