// Membership under orders in any order, from seeds: whatever comes, and whenever the connection
// breaks, one fetch, one read and one piece of work are under way at a time, every step of a
// connection is answered once and in order, and nothing is left undone.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "base/random.h"
#include "package/manifest.h"
#include "program/ir.h"
#include "wire/version.h"
#include "worker/membership.h"

namespace weft::worker {
namespace {

namespace pb = wire::pb;

constexpr uint32_t kLayers = 5;

class NoLayers : public engine::LoadedLayers {};

// One worker and a server that asks for anything legal.
class RandomRun {
 public:
  explicit RandomRun(uint64_t seed)
      : random_(seed),
        membership_(MakeOffer(seed)),
        places_(MakeOffer(seed).makes_tokens),
        steps_in_flight_(MakeOffer(seed).steps_in_flight) {}

  void Run() {
    SayInit();
    for (int i = 0; i < 2500; ++i) {
      if (random_.Below(150) == 0)
        Break();
      else if (is_member_ && random_.Below(6) == 0)
        Ask();
      else
        Answer();
    }
    if (!connected_) Break();
    for (int i = 0; i < 20'000 && (IsBusy() || !asked_.empty()); ++i) {
      if (is_member_ && i % 100 == 0) SayHolders(true);
      Answer();
    }
    EXPECT_FALSE(IsBusy()) << "something goes on for ever";
    EXPECT_TRUE(is_member_);
    EXPECT_TRUE(asked_.empty()) << asked_.size() << " steps were never answered";
    EXPECT_FALSE(membership_.ended());
  }

  uint64_t joins = 0, returns = 0;
  uint64_t steps = 0, prepared = 0, interrupted = 0, dropped_reads = 0, tokens = 0, together = 0;
  uint64_t resumed = 0, abandoned = 0, beside = 0;

 private:
  static Offer MakeOffer(uint64_t seed) {
    Offer offer;
    offer.makes_tokens = 1 + static_cast<uint32_t>(seed % 4);
    offer.steps_in_flight = 1 + static_cast<uint32_t>(seed % 3);
    offer.can_be_hub = true;
    return offer;
  }

  bool IsBusy() const { return fetching_ || reading_ || !works_.empty() || joining_; }

  void SayInit() {
    connected_ = true;
    pb::ServerMessage init;
    init.mutable_init()->set_protocol_version(wire::kProtocolVersion);
    init.mutable_init()->set_program_version(program::kProgramVersion);
    init.mutable_init()->set_package_format(package::kPackageFormat);
    init.mutable_init()->set_package_digest(std::string(32, 'x'));
    init.mutable_init()->set_layer_count(kLayers);
    init.mutable_init()->set_swarm_id(random_.Below(8) == 0 ? "two" : "one");
    init.mutable_init()->set_resume_ms(60'000);
    init.mutable_init()->set_batches_tokens(true);
    Feed(ControlReceived{std::move(init)});
  }

  // The connection breaks, or there is another one; perhaps it took too long.
  void Break() {
    if (connected_) {
      connected_ = is_member_ = false;
      dispatched_.clear();
      asked_.clear();
      generates_.clear();
      return Feed(ConnectionLost{});
    }
    if (random_.Below(6) == 0) now_ = now_ + Seconds(60);
    if (random_.Below(3) == 0) Feed(KeptLongEnough{});
    Feed(ConnectedAgain{});
    SayInit();
  }

  void Ask() {
    pb::ServerMessage message;
    const auto first = static_cast<uint32_t>(random_.Below(kLayers));
    const auto end = first + 1 + static_cast<uint32_t>(random_.Below(kLayers - first));
    switch (random_.Below(10)) {
      case 0:
        message.mutable_download_layers()->add_layers(first);
        break;
      case 1: {
        auto& range = *message.mutable_measure_speed()->add_ranges();
        range.set_first(first);
        range.set_end(end);
        break;
      }
      case 2:
      case 6: {
        auto& prepare = *message.mutable_prepare_stage();
        prepare.set_binding(++binding_);
        prepare.set_standby(random_.Below(4) == 0);
        prepare.set_is_hub(random_.Below(3) == 0);
        prepare.mutable_layers()->set_first(random_.Below(2) == 0 ? 0 : first);
        prepare.mutable_layers()->set_end(random_.Below(2) == 0 ? kLayers : end);
        break;
      }
      case 3: {
        for (const uint32_t binding : {prepared_binding_, binding_})
          if (random_.Below(4) != 0) message.mutable_retire()->add_bindings(binding);
        auto& keep = *message.mutable_retire()->add_keep();
        keep.set_first(random_.Below(2) == 0 ? 0 : first);
        keep.set_end(random_.Below(3) == 0 ? end : kLayers);
        if (keep.first() >= keep.end()) keep.set_first(0);
        break;
      }
      case 4:
        if (random_.Below(8) != 0) return;
        message.mutable_release();
        break;
      case 5:
        // Those that come while others are made are made together with them.
        if (random_.Below(2) == 0) Generate();
        return Generate();
      case 7:
        return SayHolders(random_.Below(3) != 0);
      default:
        return Step();
    }
    Feed(ControlReceived{std::move(message)});
  }

  void Step() {
    wire::FrameHeader header;
    header.sequence = ++sequence_;
    header.binding = prepared_binding_;
    header.rows = header.columns = 1;
    header.dtype = DType::kI32;
    const auto session = static_cast<uint32_t>(1 + random_.Below(3));
    const wire::Run run = {session, 0, 0, 1, wire::OutputKind::kNone, 0};
    std::vector<uint8_t> bytes = wire::EncodeFrameHead(header, {&run, 1}, 4);
    bytes.resize(bytes.size() + 4);
    asked_.push_back(sequence_);
    ++steps;
    Feed(MessageReceived{Slice(std::move(bytes))});
  }

  // Two workers hold what steps want, or nobody does.
  void SayHolders(bool held) {
    pb::ServerMessage message;
    auto& statement = *message.mutable_expert_holders();
    statement.set_statement(++statement_);
    for (const uint32_t peer : {5u, 6u}) {
      auto& holder = *statement.add_holders();
      holder.set_peer(peer);
      if (held) wire::FillExpertSets({{1, {0}}}, *holder.mutable_sets());
    }
    Feed(ControlReceived{std::move(message)});
  }

  // A holder answers what it was asked, in any order, or says that it is there.
  void AnswerShards() {
    if (!is_member_) return;
    uint32_t peer = 5 + static_cast<uint32_t>(random_.Below(2));
    wire::ExpertFrame frame = wire::HeartbeatFrame({});
    if (!dispatched_.empty()) {
      const auto place =
          dispatched_.begin() + static_cast<std::ptrdiff_t>(random_.Below(dispatched_.size()));
      std::tie(peer, frame) = *place;
      frame.type = wire::ExpertFrameType::kResult;
      dispatched_.erase(place);
    }
    std::vector<uint8_t> bytes;
    for (const Slice& piece : wire::EncodeShardMessage(peer, {&frame, 1}))
      bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
    Feed(MessageReceived{Slice(std::move(bytes))});
  }

  void Generate() {
    wire::Generate generate;
    generate.sequence = ++sequence_;
    generate.binding = prepared_binding_;
    asked_.push_back(sequence_);
    generates_.insert(sequence_);
    Feed(MessageReceived{Slice(wire::EncodeWholeFrame(generate))});
    if (random_.Below(3) == 0)
      Feed(MessageReceived{Slice(wire::EncodeWholeFrame(
          wire::StopGenerating{static_cast<uint32_t>(1 + random_.Below(sequence_)), 1}))});
  }

  void Answer() {
    const bool well = random_.Below(8) != 0;
    const Error error(ErrorCode::kUnavailable, "It went wrong.");
    switch (random_.Below(6)) {
      case 4:
        return AnswerShards();
      case 5:
        if (!wakes_at_ || random_.Below(8) != 0) return;
        now_ = std::max(now_, *std::exchange(wakes_at_, std::nullopt));
        return Feed(TimerDue{});
      case 0:
        if (fetching_) AnswerFetch(well);
        return;
      case 3:
        return AnswerJoin();
      case 1:
        if (!reading_) return;
        reading_ = false;
        if (!well) return Feed(LayersRead{error});
        return Feed(
            LayersRead{std::unique_ptr<engine::LoadedLayers>(std::make_unique<NoLayers>())});
      default:
        if (works_.empty()) return;
        Work work = std::move(works_.front());
        works_.pop_front();
        if (!well && CanFail(work)) {
          if (const auto* resumes = std::get_if<ResumeStep>(&work)) waiting_.erase(resumes->place);
          return Feed(WorkDone{error});
        }
        return Feed(WorkDone{OutcomeOf(work)});
    }
  }

  void AnswerJoin() {
    if (!std::exchange(joining_, false)) return;
    JoinedPackage package;
    package.layer_count = kLayers;
    Feed(Joined{std::move(package)});
  }

  void AnswerFetch(bool well) {
    if (interrupting_ && random_.Below(2) == 0) {
      fetching_.reset();
      return Feed(FetchEnded{Error(ErrorCode::kCancelled, "Interrupted.")});
    }
    if (!well) {
      fetching_.reset();
      return Feed(FetchEnded{Error(ErrorCode::kIo, "Gone.")});
    }
    if (fetching_->empty()) {
      fetching_.reset();
      return Feed(FetchEnded{});
    }
    const uint32_t layer = fetching_->front();
    fetching_->pop_front();
    Feed(LayerFetched{layer, 1, Microseconds(1)});
  }

  static bool CanFail(const Work& work) {
    return std::holds_alternative<InstallLayers>(work) ||
           std::holds_alternative<MeasureSpeed>(work) || std::holds_alternative<RunStep>(work) ||
           std::holds_alternative<ResumeStep>(work) || std::holds_alternative<MakeTokens>(work);
  }

  Outcome OutcomeOf(Work& work) {
    if (std::holds_alternative<InstallLayers>(work)) return Installed{1, 1};
    if (std::holds_alternative<MeasureSpeed>(work)) return Timings{};
    if (const auto* step = std::get_if<RunStep>(&work)) {
      const Slice head(wire::EncodeFrameHead(step->frame.header, step->frame.runs, 0));
      if (!IsHub(step->form)) return StepReply{{head}};
      // Two steps of a session must not be under way together.
      for (const auto& [place, other] : waiting_)
        EXPECT_NE(other.second, step->frame.runs[0].session);
      waiting_[step->place] = {head, step->frame.runs[0].session};
      return StepOrWait(step->place);
    }
    if (const auto* step = std::get_if<ResumeStep>(&work)) {
      EXPECT_TRUE(waiting_.contains(step->place));
      EXPECT_EQ(step->slot_rows.size(), 1u);
      ++resumed;
      return StepOrWait(step->place);
    }
    if (const auto* abandon = std::get_if<AbandonSteps>(&work)) {
      for (const uint32_t place : abandon->places) abandoned += waiting_.erase(place);
      return Done{};
    }
    if (const auto* release = std::get_if<ReleaseSessions>(&work)) {
      for (const auto& [place, step] : waiting_)
        EXPECT_EQ(std::count(release->sessions.begin(), release->sessions.end(), step.second), 0);
      return Done{};
    }
    if (std::holds_alternative<ReleaseAll>(work) || std::holds_alternative<KeepLayers>(work)) {
      EXPECT_TRUE(waiting_.empty());
      return Done{};
    }
    if (auto* stock = std::get_if<TakeStock>(&work)) {
      for (pb::HeldBinding& binding : stock->bindings)
        for (const uint32_t session : stock->sessions)
          if (random_.Below(2) == 0) binding.add_sessions(session);
      return Stock{std::move(stock->bindings)};
    }
    auto* make = std::get_if<MakeTokens>(&work);
    if (make == nullptr) return Done{};
    MadeTokens made;
    EXPECT_LE(make->asked.size(), places_);
    for (wire::Generate& asked : make->asked) {
      MadeOfOne& one = made.of_each.emplace_back();
      one.tokens.sequence = asked.sequence;
      one.tokens.binding = asked.binding;
      one.tokens.last = random_.Below(3) == 0;
      one.rest = std::move(asked);
      if (random_.Below(8) == 0) one.error = Error(ErrorCode::kUnavailable, "It went wrong.");
    }
    together += make->asked.size() > 1 ? 1 : 0;
    return made;
  }

  Outcome StepOrWait(uint32_t place) {
    if (random_.Below(3) != 0) return StepWaits{1, 1, 1, {1.0f}, {0}};
    return StepReply{{waiting_.extract(place).mapped().first}};
  }

  void Feed(Event event) {
    now_ = now_ + Microseconds(1);
    for (Action& action : membership_.Handle(std::move(event), now_))
      std::visit([this](auto& each) { Take(each); }, action);
  }

  void Take(SendControl& action) {
    const pb::WorkerMessage& message = action.message;
    EXPECT_TRUE(connected_);
    if (message.has_connect()) Welcome(message.connect());
    if (message.has_prepared()) {
      ++prepared;
      prepared_binding_ = message.prepared().binding();
      loaded_.insert(prepared_binding_);
    }
    if (message.has_step_failed()) Answered(message.step_failed().sequence(), true);
  }
  void Take(SendFrame& action) {
    EXPECT_TRUE(connected_);
    const ByteSpan bytes = action.message.at(0).bytes();
    if (!wire::IsWholeFrame(bytes)) return Answered(LoadLe<uint32_t>(&bytes[12]), true);
    const auto frame = wire::DecodeWholeFrame(bytes);
    ASSERT_TRUE(frame.ok());
    const auto& made = std::get<wire::Tokens>(*frame);
    ++tokens;
    Answered(made.sequence, made.last);
  }
  void Answered(uint32_t sequence, bool last) {
    // Generates are answered each for itself, steps in their order.
    const bool for_itself = generates_.contains(sequence);
    const auto asked = std::find_if(asked_.begin(), asked_.end(), [&](uint32_t each) {
      return for_itself ? each == sequence : !generates_.contains(each);
    });
    ASSERT_NE(asked, asked_.end());
    EXPECT_EQ(*asked, sequence);
    if (last) asked_.erase(asked);
  }
  // Only what was prepared, and since the worker last joined.
  void Welcome(const pb::Connect& connect) {
    is_member_ = true;
    if (connect.held_size() > 0) ++returns;
    for (const pb::HeldBinding& held : connect.held()) EXPECT_TRUE(loaded_.contains(held.id()));
    loaded_.clear();
    for (const pb::HeldBinding& held : connect.held()) loaded_.insert(held.id());
  }
  void Take(SendShards& action) {
    EXPECT_TRUE(connected_);
    for (const wire::ExpertFrame& frame : action.frames)
      if (frame.type == wire::ExpertFrameType::kDispatch)
        dispatched_.emplace_back(action.peer, frame);
  }
  void Take(WakeAt& action) { wakes_at_ = action.at; }
  void Take(Join&) {
    EXPECT_FALSE(IsBusy());
    joining_ = true;
    ++joins;
    loaded_.clear();
  }
  void Take(KeepFor& action) {
    EXPECT_FALSE(connected_);
    EXPECT_GT(action.time.us, 0);
  }
  void Take(HangUp& action) { ADD_FAILURE() << action.reason; }  // neither refused nor outdated
  void Take(KnowSuccessors&) {}
  void Take(LimitSilence&) {}
  void Take(Fetch& action) {
    EXPECT_FALSE(fetching_.has_value());
    fetching_.emplace();
    if (!IsHub(action.form)) fetching_->assign(action.layers.begin(), action.layers.end());
    interrupting_ = false;
  }
  void Take(InterruptFetch&) {
    EXPECT_TRUE(fetching_.has_value());
    EXPECT_FALSE(interrupting_);
    interrupting_ = true;
    ++interrupted;
  }
  void Take(ReadLayers& action) {
    EXPECT_FALSE(reading_);
    EXPECT_FALSE(action.ranges.empty());
    reading_ = true;
  }
  void Take(InterruptRead&) {
    EXPECT_TRUE(reading_);
    ++dropped_reads;
  }
  void Take(Compute& action) {
    // Beside a step there may be other sessions' steps, and nothing else.
    for (const Work& other : works_) {
      const auto *before = std::get_if<RunStep>(&other), *step = std::get_if<RunStep>(&action.work);
      ASSERT_TRUE(before && step && !IsHub(before->form) && !IsHub(step->form));
      EXPECT_NE(before->frame.runs[0].session, step->frame.runs[0].session);
      ++beside;
    }
    works_.push_back(std::move(action.work));
    EXPECT_LE(works_.size(), steps_in_flight_);
  }
  void Take(Finish& action) { ADD_FAILURE() << action.error.ToString(); }
  void Take(SendDatagrams&) { ADD_FAILURE() << "it has no socket for datagrams"; }

  SeededRandom random_;
  Membership membership_;
  const uint32_t places_;  // sessions of a batch
  const uint32_t steps_in_flight_;
  Instant now_{1};
  uint32_t binding_ = 0, sequence_ = 0, prepared_binding_ = 0;
  std::deque<uint32_t> asked_;    // sequences, in order
  std::set<uint32_t> generates_;  // those of Generates
  std::optional<std::deque<uint32_t>> fetching_;
  std::set<uint32_t> loaded_;  // what was prepared and may be held
  // Steps of the hub that were begun: the head of their answer, and their session. By place.
  std::map<uint32_t, std::pair<Slice, uint32_t>> waiting_;
  std::vector<std::pair<uint32_t, wire::ExpertFrame>> dispatched_;  // to whom
  std::optional<Instant> wakes_at_;
  uint32_t statement_ = 0;
  bool interrupting_ = false, reading_ = false, joining_ = false;
  bool connected_ = false, is_member_ = false;
  std::deque<Work> works_;  // under way
};

TEST(MembershipRandom, WhateverComesIsAnsweredOnceAndInOrder) {
  uint64_t steps = 0, prepared = 0, interrupted = 0, dropped_reads = 0, tokens = 0, together = 0;
  uint64_t joins = 0, returns = 0, resumed = 0, abandoned = 0, beside = 0;
  for (uint64_t seed = 1; seed <= 500 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRun run(seed);
    run.Run();
    steps += run.steps;
    prepared += run.prepared;
    interrupted += run.interrupted;
    dropped_reads += run.dropped_reads;
    tokens += run.tokens;
    together += run.together;
    joins += run.joins;
    returns += run.returns;
    resumed += run.resumed;
    abandoned += run.abandoned;
    beside += run.beside;
  }
  // The seeds are only worth something if they reach what they are about.
  EXPECT_GT(steps, 10'000u);
  EXPECT_GT(prepared, 1'000u);
  EXPECT_GT(interrupted, 500u);
  EXPECT_GT(dropped_reads, 100u);
  EXPECT_GT(tokens, 50u);
  EXPECT_GT(together, 20u);
  EXPECT_GT(joins, 800u);
  EXPECT_GT(returns, 100u);
  EXPECT_GT(resumed, 500u);
  EXPECT_GT(abandoned, 50u);
  EXPECT_GT(beside, 100u);
}

}  // namespace
}  // namespace weft::worker
