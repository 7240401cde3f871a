// A hub and holders of its experts put together as they are in a swarm, but for threads and
// sockets: memberships and stage hosts, step frames and shard messages as bytes, on a virtual
// clock. The oracle is the same model on one engine: the tokens are equal whoever holds what,
// however often it is asked, and whoever is lost in mid-layer.
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/random.h"
#include "dispatch/dispatcher.h"
#include "engine/test_model.h"
#include "program/neuron_groups.h"
#include "program/product_ranges.h"
#include "worker/membership_testing.h"
#include "worker/stage_host.h"

namespace weft::worker {
namespace {

constexpr uint32_t kHub = 77;
constexpr size_t kSessions = 2, kTokens = 6;

enum class Fault { kNone, kStopped, kLost, kGarbled, kNotFinite };

engine::ModelSpec SwarmSpec() {
  engine::ModelSpec spec;
  spec.experts = 6;
  spec.top_k = 3;
  return spec;
}
LayerRange Whole() {
  return {0, SwarmSpec().layers + 2};
}
std::vector<int32_t> Prompt(size_t session) {
  std::vector<int32_t> ids(session == 0 ? 11 : 140);  // one of them in two passes
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i * 37 + session) % 100);
  return ids;
}

struct Model {
  // A mixture of experts; `grouped`: a dense model of the same shape in eight neuron groups, its
  // output head in eight ranges, and attention's products in ranges of 16 columns.
  explicit Model(bool grouped = false, DType dtype = DType::kF32) {
    engine::ModelSpec spec = SwarmSpec();
    spec.matrix_dtype = dtype;
    // Superblocks are not cut.
    const uint32_t columns = IsSuperblockFormat(dtype) ? 256 : 32;
    if (grouped) spec.experts = 0, spec.width = 8 * columns;
    programs = engine::ModelBuilder(spec, engine::RandomTensors(3), weights).Build();
    if (!grouped) return;
    experts = 8;
    for (program::Program& layer : programs) {
      layer = program::GroupedProgram(layer, columns, {0x1p-18f, 0x1p21f}).value();
      if (program::FindExperts(layer) == nullptr) continue;
      for (program::Op& op : layer.ops)
        if (auto* product = std::get_if<program::MatMul>(&op))
          product->ranges = product->out.columns / 16;
    }
    std::get<program::MatMul>(programs.back().ops.back()).ranges = experts;
    CHECK(program::FindHeadRanges(programs.back()).has_value());
    last_divided = Whole().end - 1;
  }
  // Experts or groups, and ranges.
  uint32_t PartsOf(uint32_t layer) const {
    uint32_t parts = experts;
    if (program::FindExperts(programs[layer]) != nullptr)
      for (const program::ProductRanges& ranges : program::FindRanges(programs[layer]))
        parts += ranges.count;
    return parts;
  }

  // Every layer's groups matter by their number, whatever the row.
  std::optional<package::GroupPredictor> Predictor(uint32_t layer) {
    asked_for.insert(layer);
    (is_ahead ? asked_ahead : asked_late).insert(layer);
    package::GroupPredictor all{
        SwarmSpec().hidden, 1, experts, std::max(1u, layer - 1), {}, {0}, {}, {}};
    all.first.assign(all.columns, 0);
    all.second.assign(all.groups, 0);
    for (uint32_t group = 0; group < all.groups; ++group)
      all.second_bias.push_back(static_cast<float>(group + 1));
    return all;
  }

  engine::MemorySource weights;
  std::vector<program::Program> programs;
  uint32_t experts = SwarmSpec().experts;
  uint32_t last_divided = SwarmSpec().layers;    // of the layers that are with holders
  std::set<uint32_t> asked_for;                  // layers whose predictors were wanted
  std::map<uint32_t, std::vector<float>> norms;  // that were predicted last, by layer
  // Layers whose predictors were wanted first while rows were away, or where they were needed.
  std::set<uint32_t> asked_ahead, asked_late;
  bool is_ahead = false;
};

engine::NativeEngineOptions EngineOptions() {
  return {.residual_dtype = DType::kF16};
}

// Greedy tokens of one session on one engine that holds everything.
std::vector<int32_t> Expected(Model& model, size_t session) {
  const auto engine = engine::MakeNativeEngine(EngineOptions());
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

// A worker as it is, but for its threads and its socket: the real membership and stage host.
class Device {
 public:
  struct Hooks {
    std::function<void(std::function<void()>)> soon;  // done after everything that is done now
    std::function<void(SendFrame&)> frame = [](SendFrame&) {};
    std::function<void(SendShards&)> shards = [](SendShards&) {};
    std::function<void(std::optional<Instant>)> wake = [](std::optional<Instant>) {};
    std::function<void(SendDatagrams&)> datagrams = [](SendDatagrams&) {};
    std::function<void(SendControl&)> control = [](SendControl&) {};
    std::function<Instant()> now;
  };

  Device(Model& model, const Offer& offer, const dispatch::Options& options, Hooks hooks)
      : model_(model),
        hooks_(std::move(hooks)),
        membership_(offer, options, [this](MutableByteSpan out) {
          for (uint8_t& byte : out) byte = static_cast<uint8_t>(keys_.Next());
        }) {
    ModelShape shape;
    shape.layers.resize(model.programs.size(), {1000});
    shape.vocabulary = SwarmSpec().vocabulary;
    shape.hidden_columns = SwarmSpec().hidden;
    host_ =
        std::make_unique<StageHost>(shape, engine::MakeNativeEngine(EngineOptions()), hooks_.now);
    host_->BeHubWith(engine::MakeNativeEngine(EngineOptions()));
    host_->PredictWith([&model](uint32_t layer) { return model.Predictor(layer); });
    host_->HoldExpertsWith(std::make_unique<ExpertHost>(engine::MakeNativeEngine({})));
    pb::ServerMessage init = InitMessage();
    init.mutable_init()->set_layer_count(Whole().end);
    init.mutable_init()->set_context_length(1000);
    Feed(ControlReceived{init});
    JoinedPackage joined;
    joined.layer_count = Whole().end;
    Feed(Joined{joined});
  }

  void Feed(Event event) {
    for (Action& action : membership_.Handle(std::move(event), hooks_.now()))
      std::visit([this](auto& each) { Carry(each); }, action);
  }

 private:
  void Carry(SendControl& action) {
    EXPECT_FALSE(action.message.has_failed()) << action.message.failed().message();
    EXPECT_FALSE(action.message.has_step_failed()) << action.message.step_failed().message();
    hooks_.control(action);
  }
  void Carry(SendFrame& action) { hooks_.frame(action); }
  void Carry(SendShards& action) { hooks_.shards(action); }
  void Carry(SendDatagrams& action) { hooks_.datagrams(action); }
  void Carry(WakeAt& action) { hooks_.wake(action.at); }
  void Carry(Fetch&) { Soon(FetchEnded{}); }
  void Carry(ReadLayers& action) {
    if (!action.experts) return Soon(LayersRead{host_->ReadHubs(model_.programs, model_.weights)});
    std::vector<program::Program> layers;
    for (const wire::LayerExperts& set : *action.experts)
      layers.push_back(model_.programs[set.layer]);
    Soon(LayersRead{host_->experts().Read(*action.experts, layers, model_.weights)});
  }
  void Carry(Compute& action) {
    model_.is_ahead = std::holds_alternative<PredictNext>(action.work);
    auto outcome = host_->Do(std::move(action.work));
    if (outcome.ok())
      if (const auto* waits = std::get_if<StepWaits>(&*outcome); waits && !waits->norms.empty())
        model_.norms[waits->layer] = waits->norms;
    Soon(WorkDone{std::move(outcome)});
  }
  void Carry(Finish& action) { ADD_FAILURE() << action.error.ToString(); }
  template <typename Other>
  void Carry(Other&) {}
  void Soon(Event event) {
    hooks_.soon(
        [this, event = std::make_shared<Event>(std::move(event))] { Feed(std::move(*event)); });
  }

  Model& model_;
  const Hooks hooks_;
  SeededRandom keys_{1};
  std::unique_ptr<StageHost> host_;
  Membership membership_;
};

class ExpertSwarm {
 public:
  // Expert e of every layer is held by two holders, e and e + 1 modulo their count. The hub's own
  // number is among them with `hub_holds`.
  ExpertSwarm(Model& model, uint32_t holder_count, const dispatch::Options& options, uint64_t seed,
              bool hub_holds, double loss = -1)
      : experts_(model.experts), random_(seed), loss_(loss) {
    Offer offer;
    offer.datagrams = loss >= 0;
    if (loss >= 0) offer.datagram_addresses = {AddressOf(kHub)};
    offer.can_be_hub = offer.takes_experts = true;
    Device::Hooks hooks = HooksOf(kHub);
    hooks.frame = [this](SendFrame& frame) { OnFrame(frame); };
    hooks.wake = [this](std::optional<Instant> at) { timer_ = at; };
    hooks.control = [this](SendControl& sent) {
      const pb::GroupsLost& lost = sent.message.groups_lost();
      for (int i = 0; i < lost.groups_size(); ++i) {
        lost_groups_ += lost.groups(i);
        const Session& session = sessions_.at(lost.sessions(i) - 1);
        if (session.ids.size() > 1) lost_in_prompts_ += lost.groups(i);
      }
    };
    hub_ = std::make_unique<Device>(model, offer, options, hooks);
    offer.can_be_hub = false;
    for (uint32_t i = 0; i < holder_count; ++i) {
      const uint32_t id = hub_holds && i == holder_count - 1 ? kHub : i;
      if (id != kHub)
        holders_[id].device = std::make_unique<Device>(model, offer, options, HooksOf(id));
      for (uint32_t layer = 1; layer <= model.last_divided; ++layer) {
        wire::LayerExperts& set = holders_[id].sets.emplace_back();
        set.layer = layer;
        for (uint32_t e = 0; e < model.PartsOf(layer); ++e)
          if (e % holder_count == i || (e + 1) % holder_count == i) set.experts.push_back(e);
      }
      pb::ServerMessage hold;
      hold.mutable_hold_experts()->set_binding(1);
      wire::FillExpertSets(holders_[id].sets, *hold.mutable_hold_experts()->mutable_sets());
      DeviceOf(id).Feed(ControlReceived{hold});
    }
    pb::ServerMessage prepare = PrepareMessage(2, 0, Whole().end);
    prepare.mutable_prepare_stage()->set_is_hub(true);
    hub_->Feed(ControlReceived{prepare});
    while (!events_.empty()) Next();
  }

  // Holder 0 does this from its tenth message on.
  void Break(Fault fault) { fault_ = fault; }
  // Messages go in datagrams, too.
  void SendMessagesInDatagrams() { has_messages_ = true; }
  void SendRowsInF16() { half_rows_ = true; }
  // Nothing may be lost for good.
  void LoseNothing() { may_lose_ = false; }
  // Prompts come in steps of one row, of which none but the last gives a token.
  void SendPromptsByRow() { by_row_ = true; }

  void Run() {
    SetHolders();
    // Channels are agreed on.
    for (const Instant end = now_ + Milliseconds(300); loss_ >= 0 && now_ < end;) {
      if (events_.empty()) events_.emplace(end, [] {});
      Next();
    }
    const Instant begin = now_;
    for (size_t session = 0; session < kSessions; ++session) {
      sessions_[session].ids = Prompt(session);
      Step(session);
    }
    int events = 0;
    while (Left() && ++events < 100'000) {
      if (timer_ && (events_.empty() || *timer_ <= events_.begin()->first)) {
        now_ = std::max(now_, *timer_);
        timer_.reset();
        hub_->Feed(TimerDue{});
        continue;
      }
      ASSERT_FALSE(events_.empty()) << "everybody waits";
      Next();
    }
    EXPECT_FALSE(Left());
    elapsed_ = now_ - begin;
  }
  const std::vector<int32_t>& tokens(size_t session) const { return sessions_[session].tokens; }
  Duration elapsed() const { return elapsed_; }
  // Results that holders have sent, but for ranges of the head; those of them that were in f16, and
  // experts that they had in them.
  uint64_t results() const { return results_; }
  uint64_t product_results() const { return product_results_; }
  uint64_t half_results() const { return half_results_; }
  uint64_t step_results() const { return step_results_; }
  // Dispatches, and those of them whose rows were whole numbers.
  uint64_t dispatches() const { return dispatches_; }
  uint64_t integers() const { return integers_; }
  uint64_t computed() const { return computed_; }
  // Datagrams that holders have sent, and groups that rows did without.
  uint64_t datagrams() const { return datagrams_; }
  uint64_t lost_groups() const { return lost_groups_; }
  // Of these, what rows of prompts did without that gave no token.
  uint64_t lost_in_prompts() const { return lost_in_prompts_; }

 private:
  static DatagramAddress AddressOf(uint32_t id) {
    DatagramAddress address;
    address.ip[0] = 0xfd;
    address.port = static_cast<uint16_t>(id);
    return address;
  }
  struct Holder {
    std::unique_ptr<Device> device;  // null: the hub's
    std::vector<wire::LayerExperts> sets;
    uint32_t messages = 0;
    bool is_lost = false;
  };
  struct Session {
    std::vector<int32_t> ids, tokens;
    uint32_t position = 0;
  };

  Device& DeviceOf(uint32_t id) { return id == kHub ? *hub_ : *holders_.at(id).device; }
  Device::Hooks HooksOf(uint32_t id) {
    Device::Hooks hooks;
    hooks.soon = [this](std::function<void()> then) {
      events_.emplace(now_ + Microseconds(100), std::move(then));
    };
    hooks.shards = [this, id](SendShards& shards) { Pass(id, shards); };
    hooks.datagrams = [this, id](SendDatagrams& sent) {
      for (const OutgoingDatagram& each : sent.datagrams) {
        if (id != kHub) ++datagrams_;
        if (random_.Uniform() < loss_) continue;
        events_.emplace(now_ + Microseconds(500), [this, id, each] {
          DeviceOf(each.to.port).Feed(DatagramReceived{{AddressOf(id), each.bytes, now_}});
        });
      }
    };
    hooks.wake = [this, id](std::optional<Instant> at) {
      wakes_[id] = at;
      if (at)
        events_.emplace(std::max(now_, *at), [this, id, at] {
          if (wakes_[id] != at || holders_[id].is_lost || !holders_[id].device) return;
          wakes_[id].reset();
          DeviceOf(id).Feed(TimerDue{});
        });
    };
    hooks.now = [this] { return now_; };
    return hooks;
  }
  void Next() {
    auto next = events_.extract(events_.begin());
    now_ = next.key();
    next.mapped()();
  }
  bool Left() const {
    return std::any_of(sessions_.begin(), sessions_.end(),
                       [](const Session& each) { return each.tokens.size() < kTokens; });
  }
  void SetHolders() {
    pb::ServerMessage message;
    auto& statement = *message.mutable_expert_holders();
    statement.set_statement(++statement_);
    for (const auto& [id, holder] : holders_) {
      if (holder.is_lost) continue;
      auto& one = *statement.add_holders();
      one.set_peer(id + 1);
      one.set_datagrams(loss_ >= 0);
      one.set_messages(has_messages_);
      // Workers from before know neither.
      one.set_steps(id % 2 == 1);
      one.set_integers(id % 3 == 0);
      if (id == kHub) statement.set_self(id + 1);
      wire::FillExpertSets(holder.sets, *one.mutable_sets());
    }
    if (loss_ >= 0 && may_lose_) statement.mutable_losses()->set_limit(1);
    statement.set_half_rows(half_rows_);
    hub_->Feed(ControlReceived{message});
  }

  void Step(size_t index) {
    const Session& session = sessions_[index];
    const size_t rows = by_row_ ? 1 : session.ids.size();
    wire::FrameHeader header;
    header.sequence = ++sequence_;
    header.binding = 2;
    header.stage = 1;
    header.rows = static_cast<uint32_t>(rows);
    header.columns = 1;
    header.dtype = DType::kI32;
    wire::Run run;
    run.session = static_cast<uint32_t>(index) + 1;
    run.first_position = session.position;
    run.count = static_cast<uint16_t>(rows);
    if (rows == session.ids.size()) run.output = wire::OutputKind::kArgmax;
    const ByteSpan ids = AsBytes(std::span(session.ids).first(rows));
    std::vector<uint8_t> bytes = wire::EncodeFrameHead(header, {&run, 1}, ids.size());
    bytes.insert(bytes.end(), ids.begin(), ids.end());
    asked_.push_back(sequence_);
    hub_->Feed(MessageReceived{Slice(std::move(bytes))});
  }
  void OnFrame(const SendFrame& sent) {
    const wire::Frame frame = wire::DecodeFrame(Joined(sent.message)).value();
    // Whoever waited for experts longer.
    ASSERT_FALSE(asked_.empty());
    EXPECT_EQ(frame.header.sequence, asked_.front());
    asked_.pop_front();
    const size_t index = frame.runs.at(0).session - 1;
    Session& session = sessions_.at(index);
    session.position += frame.runs[0].count;
    session.ids.erase(session.ids.begin(), session.ids.begin() + frame.runs[0].count);
    events_.emplace(now_, [this, index] {
      if (sessions_[index].tokens.size() < kTokens) Step(index);
    });
    if (!session.ids.empty()) return;
    const auto result = wire::DecodeArgmax(frame.payload.bytes(), SwarmSpec().vocabulary);
    session.tokens.push_back(result.value().token_id);
    session.ids = {session.tokens.back()};
  }

  static Slice Joined(const std::vector<Slice>& pieces) {
    std::vector<uint8_t> bytes;
    for (const Slice& piece : pieces)
      bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
    return Slice(std::move(bytes));
  }
  // As the server does, but for what is broken.
  void Pass(uint32_t from, SendShards& shards) {
    const uint32_t to = shards.peer - 1;
    EXPECT_NE(from, to) << "what is for itself takes no detour";
    for (const wire::ExpertFrame& frame : shards.frames) {
      if (frame.type == wire::ExpertFrameType::kDispatch) ++dispatches_;
      if (frame.row_type == wire::RowType::kIntegers) ++integers_;
      if (frame.type != wire::ExpertFrameType::kResult) continue;
      if (frame.layer > SwarmSpec().layers) continue;  // a range of the head
      if (frame.expert >= experts_) {
        ++product_results_;
        continue;
      }
      ++results_;
      if (frame.row_type == wire::RowType::kF16) ++half_results_;
      if (frame.row_type == wire::RowType::kSteps) ++step_results_;
      computed_ += 1 + frame.added.size();
    }
    const bool breaks = from == 0 && fault_ != Fault::kNone && holders_.at(0).messages >= 10;
    if (breaks && fault_ == Fault::kNotFinite)
      for (wire::ExpertFrame& result : shards.frames)
        result.rows = Slice(std::vector<uint8_t>(result.rows.byte_count(), 0xff));
    Slice message = Joined(wire::EncodeShardMessage(from + 1, shards.frames));
    if (breaks && fault_ == Fault::kGarbled) message = message.Sub(0, message.byte_count() - 1);
    // Messages may overtake each other.
    const Duration delay = Microseconds(static_cast<int64_t>(1000 + random_.Below(20'000)));
    events_.emplace(now_ + delay, [this, from, to, message] { Hear(from, to, message); });
  }
  void Hear(uint32_t from, uint32_t to, const Slice& message) {
    if (to != 0) {
      if (from == kHub || !holders_.at(from).is_lost) DeviceOf(to).Feed(MessageReceived{message});
      return;
    }
    Holder& holder = holders_.at(0);
    const bool breaks = ++holder.messages >= 10 && fault_ != Fault::kNone;
    if (breaks && fault_ == Fault::kLost && !holder.is_lost) {
      holder.is_lost = true;
      SetHolders();
      // Alone it comes back: until then what it held is missing.
      if (holders_.size() == 1)
        events_.emplace(now_ + Seconds(1), [this] {
          holders_.at(0).is_lost = false;
          fault_ = Fault::kNone;
          SetHolders();
        });
    }
    if (holder.is_lost || (breaks && fault_ == Fault::kStopped)) return;
    holder.device->Feed(MessageReceived{message});
  }

  const uint32_t experts_;
  SeededRandom random_;
  std::multimap<Instant, std::function<void()>> events_;
  std::unique_ptr<Device> hub_;
  std::map<uint32_t, Holder> holders_;
  std::array<Session, kSessions> sessions_;
  Instant now_{1'000'000};
  Duration elapsed_;
  std::optional<Instant> timer_;                      // the hub's
  std::map<uint32_t, std::optional<Instant>> wakes_;  // by holder
  bool has_messages_ = false;
  bool may_lose_ = true;
  std::deque<uint32_t> asked_;  // sequences, in order
  Fault fault_ = Fault::kNone;
  uint32_t statement_ = 0, sequence_ = 0;
  uint64_t results_ = 0, half_results_ = 0, step_results_ = 0, computed_ = 0;
  uint64_t product_results_ = 0;  // of ranges of products inside layers
  uint64_t dispatches_ = 0, integers_ = 0;
  bool half_rows_ = false;
  double loss_ = -1;  // of datagrams; below 0: there are none
  uint64_t datagrams_ = 0, lost_groups_ = 0, lost_in_prompts_ = 0;
  bool by_row_ = false;
};

class ExpertSwarmTest : public testing::Test {
 protected:
  explicit ExpertSwarmTest(bool grouped = false, DType dtype = DType::kF32)
      : model_(grouped, dtype) {}
  void ExpectEqual(uint32_t holders, const dispatch::Options& options, Fault fault,
                   bool hub_holds = false) {
    SCOPED_TRACE(std::to_string(holders) + " holders, " + std::to_string(options.copies) +
                 " copies, fault " + std::to_string(static_cast<int>(fault)));
    ExpertSwarm swarm(model_, holders, options, ++seed_, hub_holds);
    swarm.Break(fault);
    swarm.Run();
    for (size_t session = 0; session < kSessions; ++session)
      EXPECT_EQ(swarm.tokens(session), expected_[session]);
    if (holders == 1 && fault == Fault::kLost) {
      EXPECT_GE(swarm.elapsed(), Seconds(1));
    }
    results_ += swarm.results();
    product_results_ += swarm.product_results();
    step_results_ += swarm.step_results();
    computed_ += swarm.computed();
    dispatches_ += swarm.dispatches();
    integers_ += swarm.integers();
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
  // Of all swarms.
  uint64_t results_ = 0, step_results_ = 0, computed_ = 0, dispatches_ = 0, integers_ = 0;
  uint64_t product_results_ = 0;
};

TEST_F(ExpertSwarmTest, TokensAreThoseOfOneEngineWhoeverHoldsWhat) {
  for (const uint32_t holders : {1u, 2u, 5u}) {
    for (uint32_t copies = 1; copies <= 4; ++copies)
      ExpectEqual(holders, Fixed(copies), Fault::kNone);
    ExpectEqual(holders, {}, Fault::kNone);
  }
}

TEST_F(ExpertSwarmTest, RowsOfF32TravelAsSuch) {
  ExpectEqual(2, {}, Fault::kNone);
  EXPECT_GT(dispatches_, 0u);
  EXPECT_EQ(integers_, 0u);
}

// Weights in superblocks: rows travel as whole numbers to those who know them.
class IntegerSwarmTest : public ExpertSwarmTest, public testing::WithParamInterface<bool> {
 protected:
  IntegerSwarmTest() : ExpertSwarmTest(GetParam(), DType::kQ4S) {}
};

TEST_P(IntegerSwarmTest, TokensAreThoseOfOneEngineWhoeverHoldsWhat) {
  ExpectEqual(1, {}, Fault::kNone);
  EXPECT_EQ(integers_, dispatches_);
  for (const uint32_t holders : {2u, 5u})
    for (const bool hub_holds : {false, true}) ExpectEqual(holders, {}, Fault::kNone, hub_holds);
  EXPECT_GT(integers_, dispatches_ / 4);
  EXPECT_LT(integers_, dispatches_);
  for (const Fault fault : {Fault::kStopped, Fault::kLost, Fault::kGarbled})
    ExpectEqual(5, {}, fault);
}

INSTANTIATE_TEST_SUITE_P(Packages, IntegerSwarmTest, testing::Bool(),
                         [](const auto& which) { return which.param ? "Groups" : "Experts"; });

TEST_F(ExpertSwarmTest, AHolderThatBreaksInMidLayerCostsNoToken) {
  for (const Fault fault : {Fault::kStopped, Fault::kLost, Fault::kGarbled, Fault::kNotFinite}) {
    for (const uint32_t holders : {2u, 5u}) {
      for (const uint32_t copies : {1u, 2u}) ExpectEqual(holders, Fixed(copies), fault);
      ExpectEqual(holders, {}, fault);
    }
  }
}

TEST_F(ExpertSwarmTest, AHubMayHoldExpertsItself) {
  for (const uint32_t holders : {1u, 2u, 3u}) ExpectEqual(holders, {}, Fault::kNone, true);
  for (const Fault fault : {Fault::kStopped, Fault::kLost}) ExpectEqual(3, {}, fault, true);
}

// The hub's own experts take and give rounded rows, too.
TEST_F(ExpertSwarmTest, RowsInF16GiveTheSameTokensWhoeverHoldsWhat) {
  std::optional<std::vector<int32_t>> first[kSessions];
  for (const uint32_t holders : {1u, 2u, 5u})
    for (const bool hub_holds : {false, true}) {
      ExpertSwarm swarm(model_, holders, {}, ++seed_, hub_holds);
      swarm.SendRowsInF16();
      swarm.Run();
      EXPECT_EQ(swarm.half_results() == 0, hub_holds && holders == 1)
          << "then it asks itself alone";
      EXPECT_EQ(swarm.half_results(), swarm.results());
      for (size_t session = 0; session < kSessions; ++session) {
        if (!first[session]) first[session] = swarm.tokens(session);
        EXPECT_EQ(swarm.tokens(session), *first[session]) << holders << ", " << hub_holds;
      }
    }
}

TEST_F(ExpertSwarmTest, WhatNobodyHoldsIsWaitedFor) {
  ExpectEqual(1, Fixed(1), Fault::kLost);
}

class GroupSwarmTest : public ExpertSwarmTest {
 protected:
  GroupSwarmTest() : ExpertSwarmTest(true) {}
};

TEST_F(GroupSwarmTest, TokensAreThoseOfOneEngineForAnyNumberOfHolders) {
  ExpectEqual(1, {}, Fault::kNone);
  EXPECT_EQ(computed_, 8 * results_) << "one row for all groups of a layer";
  for (const uint32_t holders : {2u, 3u, 5u}) ExpectEqual(holders, {}, Fault::kNone);
  for (const uint32_t holders : {1u, 2u, 3u}) ExpectEqual(holders, {}, Fault::kNone, true);
  EXPECT_GT(computed_, 2 * results_);
  EXPECT_GT(step_results_, results_ / 4);
  EXPECT_LT(step_results_, results_);
  EXPECT_GT(product_results_, results_) << "attention is divided, too";
  EXPECT_TRUE(model_.asked_for.empty()) << "nothing may be lost";
}

TEST_F(GroupSwarmTest, DatagramsThatArriveGiveTheTokensOfOneEngine) {
  for (const uint32_t holders : {2u, 3u}) {
    ExpertSwarm swarm(model_, holders, {}, ++seed_, false, 0);
    swarm.Run();
    for (size_t session = 0; session < kSessions; ++session)
      EXPECT_EQ(swarm.tokens(session), expected_[session]);
    EXPECT_GT(swarm.datagrams(), 10u);
    EXPECT_EQ(swarm.lost_groups(), 0u);
  }
  // Every layer's groups were ranked, all but the first one's by the rows of the layer before.
  ASSERT_EQ(model_.norms.size(), SwarmSpec().layers);
  EXPECT_EQ(model_.asked_late, std::set<uint32_t>{1}) << "the others while rows were away";
  EXPECT_TRUE(model_.asked_ahead.contains(2));
  for (const auto& [layer, norms] : model_.norms) {
    ASSERT_EQ(norms.size(), model_.experts) << layer;
    for (size_t group = 0; group < norms.size(); ++group)
      EXPECT_EQ(norms[group], norms[0] * static_cast<float>(group + 1)) << layer;
  }
}

TEST_F(GroupSwarmTest, WhatIsLostIsSaidAndTheAnswersEnd) {
  uint64_t lost = 0;
  for (int i = 0; i < 10; ++i) {
    ExpertSwarm swarm(model_, 3, {}, ++seed_, false, 0.2);
    swarm.Run();
    for (size_t session = 0; session < kSessions; ++session)
      EXPECT_EQ(swarm.tokens(session).size(), kTokens);
    lost += swarm.lost_groups();
    EXPECT_EQ(swarm.lost_in_prompts(), 0u);
  }
  EXPECT_GT(lost, 0u);
}

// Rows go to holders in datagrams that are sent again, and sums come back in others that are not.
TEST_F(GroupSwarmTest, MessagesAndSumsThatMayBeLostShareAChannel) {
  uint64_t lost = 0;
  for (int i = 0; i < 10; ++i) {
    ++seed_;
    ExpertSwarm sums(model_, 3, {}, seed_, false, 0.2), both(model_, 3, {}, seed_, false, 0.2);
    both.SendMessagesInDatagrams();
    for (ExpertSwarm* swarm : {&sums, &both}) swarm->Run();
    for (size_t session = 0; session < kSessions; ++session)
      EXPECT_EQ(both.tokens(session).size(), kTokens);
    EXPECT_GT(both.datagrams(), sums.datagrams());
    EXPECT_EQ(both.lost_in_prompts(), 0u);
    lost += both.lost_groups();
  }
  EXPECT_GT(lost, 0u);
}

TEST_F(GroupSwarmTest, MessagesInDatagramsGiveTheTokensOfOneEngineWhateverIsLost) {
  for (const double loss : {0.0, 0.05, 0.5})
    for (const uint32_t holders : {2u, 4u}) {
      ExpertSwarm swarm(model_, holders, {}, ++seed_, holders == 4, loss);
      swarm.SendMessagesInDatagrams();
      swarm.LoseNothing();
      swarm.Run();
      for (size_t session = 0; session < kSessions; ++session)
        EXPECT_EQ(swarm.tokens(session), expected_[session]) << loss << ", " << holders;
      // Where half is lost they go by the other line after a few.
      EXPECT_GT(swarm.datagrams(), loss < 0.5 ? 100u : 0u);
      EXPECT_EQ(swarm.lost_groups(), 0u);
    }
}

TEST_F(ExpertSwarmTest, ExpertsMessagesMayGoInDatagrams) {
  ExpertSwarm swarm(model_, 3, {}, ++seed_, false, 0.1);
  swarm.SendMessagesInDatagrams();
  swarm.LoseNothing();
  swarm.Run();
  for (size_t session = 0; session < kSessions; ++session)
    EXPECT_EQ(swarm.tokens(session), expected_[session]);
  EXPECT_GT(swarm.datagrams(), 100u);
}

// What a prompt's keys and values were computed without would be missing in every later answer.
TEST_F(GroupSwarmTest, APromptThatComesRowByRowLosesNothing) {
  uint64_t lost = 0;
  for (int i = 0; i < 3; ++i) {
    ExpertSwarm swarm(model_, 3, {}, ++seed_, false, 0.2);
    swarm.SendPromptsByRow();
    swarm.Run();
    EXPECT_EQ(swarm.lost_in_prompts(), 0u);
    lost += swarm.lost_groups();
  }
  EXPECT_GT(lost, 0u) << "of tokens, something may be";
}

TEST_F(GroupSwarmTest, AHolderThatBreaksInMidLayerCostsNoToken) {
  for (const Fault fault : {Fault::kStopped, Fault::kLost, Fault::kGarbled, Fault::kNotFinite})
    for (const uint32_t holders : {2u, 5u}) ExpectEqual(holders, {}, fault);
  for (const Fault fault : {Fault::kStopped, Fault::kLost}) ExpectEqual(3, {}, fault, true);
  ExpectEqual(1, {}, Fault::kLost);
}

}  // namespace
}  // namespace weft::worker
