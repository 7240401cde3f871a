// The worker's side of the protocol as tables: an event, and what membership asks for then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/membership_testing.h"

namespace weft::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(MembershipTest, JoinsWithWhatItOffers) {
  EXPECT_THAT(Told(InitMessage()), ElementsAre("SILENCE 3000", "JOIN"));
  JoinedPackage package;
  package.layer_count = kTestLayers;
  package.cached_layers = {2, 3};
  EXPECT_THAT(Told(Joined{package}), ElementsAre("connect"));
  const pb::Connect& connect = std::get<SendControl>(actions_[0]).message.connect();
  EXPECT_EQ(connect.kind(), "native");
  EXPECT_EQ(connect.cached_layers_size(), 2);
  EXPECT_EQ(connect.download_bytes_per_s(), 1e10);  // a local disk
}

// Of what Init says, and never less than a busy machine may need.
TEST_F(MembershipTest, ThreePingsThatDoNotComeAreSilence) {
  const std::pair<uint32_t, const char*> cases[] = {
      {0, "SILENCE 3000"}, {1, "SILENCE 3000"}, {1000, "SILENCE 3000"}, {1001, "SILENCE 3003"}};
  for (const auto& [interval_ms, silence] : cases) {
    membership_ = std::make_unique<Membership>(Offer());
    auto init = InitMessage();
    init.mutable_init()->set_ping_interval_ms(interval_ms);
    EXPECT_THAT(Told(init), ElementsAre(silence, "JOIN"));
  }
}

TEST_F(MembershipTest, APingIsAnsweredAtOnceWhateverElseGoesOn) {
  const auto ping = Make([](pb::ServerMessage& m) { m.mutable_ping()->set_nonce(7); });
  EXPECT_THAT(Told(ping), ElementsAre("pong { nonce: 7 }"));
  Join();
  Bind(1, 0, kTestLayers);
  Step(1, 1);
  EXPECT_THAT(Told(ping), ElementsAre("pong { nonce: 7 }"));
}

TEST_F(MembershipTest, APongHasTheBytesThatThePingAsksForUpToALimit) {
  const auto padding_of = [this](uint32_t wanted) {
    pb::ServerMessage ping;
    ping.mutable_ping()->set_answer_bytes(wanted);
    Told(ping);
    return std::get<SendControl>(actions_.at(0)).message.pong().padding().size();
  };
  EXPECT_EQ(padding_of(0), 0u);
  EXPECT_EQ(padding_of(1000), 1000u);
  EXPECT_EQ(padding_of(1u << 31), 32'768u);
}

TEST_F(MembershipTest, WhatTheServerMustNotSendEndsTheConnection) {
  struct Case {
    bool joins_first;
    pb::ServerMessage message;
    const char* code;
    const char* problem;
  };
  auto other_protocol = InitMessage();
  other_protocol.mutable_init()->set_protocol_version(99);
  auto other_program = InitMessage();
  other_program.mutable_init()->set_program_version(98);
  auto other_format = InitMessage();
  other_format.mutable_init()->set_package_format(97);
  auto short_digest = InitMessage();
  short_digest.mutable_init()->set_package_digest("xyz");
  const auto refused = [](const char* code) {
    pb::ServerMessage message;
    message.mutable_refused()->set_code(code);
    message.mutable_refused()->set_message("No room.");
    return message;
  };
  const Case cases[] = {
      {false, other_protocol, "unsupported", "protocol version 99, this worker version"},
      {false, other_program, "unsupported", "program version 98"},
      {false, other_format, "unsupported", "package format version 97"},
      {false, short_digest, "invalid_data", "has 3 bytes, expected 32"},
      {false, refused("permission_denied"), "permission_denied", "No room."},
      {false, refused("unavailable"), "unavailable", "No room."},
      {false, PrepareMessage(1, 0, 1), "invalid_data", "before Init was answered"},
      {true, InitMessage(), "invalid_data", "Init twice"},
      {true, PrepareMessage(1, 2, 2), "invalid_data", "layers 2 to 2 of a model with 6"},
      {true, PrepareMessage(1, 0, 7), "invalid_data", "layers 0 to 7"},
      {true, PrepareMessage(0, 0, 6), "invalid_data", "epoch 0 to be prepared"},
      {true, RetireMessage({}, 3, 9), "invalid_data", "layers 3 to 9"},
      {true, MeasureMessage(5, 4), "invalid_data", "layers 5 to 4"},
      {true, DownloadMessage({1, 6}), "invalid_data", "layer 6 of a model with 6"},
      {true, pb::ServerMessage(), "invalid_data", "unknown control message"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.problem);
    membership_ = std::make_unique<Membership>(Offer());
    if (each.joins_first) Join();
    EXPECT_THAT(Told(each.message), ElementsAre("FINISH " + std::string(each.code)));
    EXPECT_THAT(Problem(), HasSubstr(each.problem));
    EXPECT_THAT(Told(Make([](pb::ServerMessage& m) { m.mutable_ping(); })), IsEmpty());
  }
}

TEST_F(MembershipTest, WhatCannotBeReadEndsTheConnection) {
  EXPECT_THAT(Told(std::vector<uint8_t>{}), ElementsAre("FINISH invalid_data"));
  for (const std::vector<uint8_t>& bytes :
       {std::vector<uint8_t>{wire::kControlByte, 0xff, 0xff}, {'W', 'E', 'F', 'T', 1}, {9}}) {
    membership_ = std::make_unique<Membership>(Offer());
    Join();
    EXPECT_THAT(Told(bytes), ElementsAre("FINISH invalid_data"));
  }
}

TEST_F(MembershipTest, APackageThatIsNotTheServersEndsTheConnection) {
  Told(InitMessage());
  JoinedPackage package;
  package.layer_count = kTestLayers + 1;
  EXPECT_THAT(Told(Joined{package}), ElementsAre("FINISH invalid_data"));
  EXPECT_THAT(Problem(), HasSubstr("7 layers, the server announced 6"));
}

TEST_F(MembershipTest, ABindingIsFetchedReadInstalledAndRun) {
  Join();
  EXPECT_THAT(Told(PrepareMessage(3, 1, 3)), ElementsAre("FETCH 1 2"));
  EXPECT_THAT(Told(FetchProgressed{5, 20}),
              ElementsAre("download_progress { done_bytes: 5 total_bytes: 20 }"));
  EXPECT_THAT(Fetched(1),
              ElementsAre("layer_downloaded { layer: 1 byte_count: 10 elapsed_us: 1000 }"));
  EXPECT_THAT(Told(LayerFetched{2, 0, Milliseconds(5)}),
              ElementsAre("layer_downloaded { layer: 2 }"));  // it was there
  EXPECT_THAT(FetchOver(), ElementsAre("READ 1-3"));
  EXPECT_THAT(Step(1, 3), ElementsAre("step_failed 1 invalid_argument"));
  EXPECT_THAT(Read(), ElementsAre("COMPUTE install 1-3"));
  EXPECT_THAT(WorkOver(Installed{1.5, 100}),
              ElementsAre("prepared { epoch: 3 weight_factor: 1.5 used_bytes: 100 }"));
  EXPECT_THAT(Step(2, 3), ElementsAre("COMPUTE step 2"));
  EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("frame"));
  EXPECT_THAT(Step(3, 4), ElementsAre("step_failed 3 invalid_argument"));
}

TEST_F(MembershipTest, WhatFailsOnTheWayIsSaidAndForgotten) {
  Join();
  Told(PrepareMessage(1, 0, 2));
  EXPECT_THAT(Told(FetchEnded{Error(ErrorCode::kNotFound, "Gone.")}),
              ElementsAre("failed 1 not_found"));
  Told(PrepareMessage(2, 0, 2));
  FetchOver();
  EXPECT_THAT(Told(LayersRead{Error(ErrorCode::kOutOfMemory, "Full.")}),
              ElementsAre("failed 2 out_of_memory"));
  Told(PrepareMessage(3, 0, 2));
  FetchOver();
  Read();
  EXPECT_THAT(WorkFailed(ErrorCode::kUnavailable), ElementsAre("failed 3 unavailable"));
  EXPECT_THAT(Step(1, 3), ElementsAre("step_failed 1 invalid_argument"));
  Told(DownloadMessage({4}));
  EXPECT_THAT(Told(FetchEnded{Error(ErrorCode::kIo, "Disk.")}), ElementsAre("failed 0 io"));
  EXPECT_THAT(Told(PrepareMessage(4, 0, 2)), ElementsAre("FETCH 0 1"));
}

// A PrepareStage overtakes standby layers, which go on afterwards where they were.
TEST_F(MembershipTest, AStageInterruptsAFetchOfStandbyLayers) {
  Join();
  EXPECT_THAT(Told(DownloadMessage({4, 5, 3})), ElementsAre("FETCH 4 5 3"));
  Fetched(4);
  EXPECT_THAT(Told(DownloadMessage({0})), IsEmpty());
  EXPECT_THAT(Told(PrepareMessage(1, 1, 3)), ElementsAre("INTERRUPT FETCH"));
  EXPECT_THAT(FetchInterrupted(), ElementsAre("FETCH 1 2"));
  EXPECT_THAT(Told(MeasureMessage(1, 2)), IsEmpty());  // as urgent, but later
  EXPECT_THAT(FetchOver(), ElementsAre("READ 1-3", "FETCH 1"));
  EXPECT_THAT(FetchOver(), ElementsAre("FETCH 5 3"));
  EXPECT_THAT(FetchOver(), ElementsAre("FETCH 0"));
  EXPECT_THAT(FetchOver(), IsEmpty());
}

TEST_F(MembershipTest, AFetchThatEndedBeforeItWasInterruptedIsComplete) {
  Join();
  Told(DownloadMessage({4}));
  EXPECT_THAT(Told(PrepareMessage(1, 1, 2)), ElementsAre("INTERRUPT FETCH"));
  EXPECT_THAT(FetchOver(), ElementsAre("FETCH 1"));
  EXPECT_THAT(FetchOver(), ElementsAre("READ 1-2"));
}

// Whoever fetches must not give up by itself and be asked again without end.
TEST_F(MembershipTest, AnInterruptionThatNobodyAskedForIsAFailure) {
  Join();
  Told(PrepareMessage(1, 1, 2));
  EXPECT_THAT(FetchInterrupted(), ElementsAre("failed 1 cancelled"));
}

// Nobody waits for it.
TEST_F(MembershipTest, AStandbyBindingIsFetchedAndReadBehindTheOthers) {
  Join();
  EXPECT_THAT(Told(StandbyMessage(1, 0, 2)), ElementsAre("FETCH 0 1"));
  Told(StandbyMessage(2, 4, 5));
  Fetched(0);
  EXPECT_THAT(Told(PrepareMessage(3, 3, 4)), ElementsAre("INTERRUPT FETCH"));
  EXPECT_THAT(FetchInterrupted(), ElementsAre("FETCH 3"));
  EXPECT_THAT(FetchOver(), ElementsAre("READ 3-4", "FETCH 1"));
  EXPECT_THAT(FetchOver(), ElementsAre("FETCH 4"));
  EXPECT_THAT(FetchOver(), IsEmpty());
  EXPECT_THAT(Told(PrepareMessage(4, 5, 6)), ElementsAre("FETCH 5"));
  EXPECT_THAT(FetchOver(), IsEmpty());
  EXPECT_THAT(Read(), ElementsAre("COMPUTE install 3-4"));
  EXPECT_THAT(WorkOver(Installed{1, 1}),
              ElementsAre("prepared { epoch: 3 weight_factor: 1 used_bytes: 1 }", "READ 5-6"));
  Read();
  EXPECT_THAT(WorkOver(Installed{1, 1}),
              ElementsAre("prepared { epoch: 4 weight_factor: 1 used_bytes: 1 }", "READ 0-2"));
}

TEST_F(MembershipTest, ARetiredBindingIsDroppedWhereverItIs) {
  Join();
  Told(PrepareMessage(1, 0, 2));
  Told(PrepareMessage(2, 3, 5));
  // While it is fetched.
  EXPECT_THAT(Told(RetireMessage({2}, 0, 6)), ElementsAre("COMPUTE keep 0-6", "INTERRUPT FETCH"));
  EXPECT_THAT(FetchInterrupted(), ElementsAre("FETCH 3 4"));
  WorkOver();
  EXPECT_THAT(FetchOver(), ElementsAre("READ 3-5"));
  // While it is read.
  Told(PrepareMessage(3, 0, 1));
  EXPECT_THAT(Told(RetireMessage({3}, 0, 6)), ElementsAre("COMPUTE keep 0-6", "INTERRUPT READ"));
  WorkOver();
  EXPECT_THAT(FetchOver(), IsEmpty());  // one read at a time
  EXPECT_THAT(Read(), ElementsAre("READ 0-1"));
  EXPECT_THAT(Read(), ElementsAre("COMPUTE install 0-1"));
  WorkOver(Installed{1, 1});
  // While its layers wait for a step to end.
  Step(1, 3);
  Told(PrepareMessage(4, 2, 3));
  FetchOver();
  EXPECT_THAT(Read(), IsEmpty());
  EXPECT_THAT(Told(RetireMessage({3}, 0, 6)), IsEmpty());
  EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("frame", "COMPUTE keep 0-6"));
  EXPECT_THAT(WorkOver(), IsEmpty());
  EXPECT_THAT(Step(2, 4), ElementsAre("step_failed 2 invalid_argument"));
  // The binding that computes was never touched.
  EXPECT_THAT(Step(3, 3), ElementsAre("COMPUTE step 3"));
}

TEST_F(MembershipTest, SeveralBindingsComputeBesideEachOther) {
  Join();
  Bind(1, 0, 2);
  Bind(2, 0, 4);
  Bind(5, 4, 6);
  EXPECT_THAT(Step(1, 5), ElementsAre("COMPUTE step 1"));
  EXPECT_THAT(Step(2, 1), IsEmpty());
  EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("frame", "COMPUTE step 2"));
  WorkOver(StepReply{});
  EXPECT_THAT(Told(RetireMessage({1, 5}, 0, 6)), ElementsAre("COMPUTE keep 0-6"));
  WorkOver();
  EXPECT_THAT(Step(3, 2), ElementsAre("step_failed 3 invalid_argument"));
  EXPECT_THAT(Step(4, 1), ElementsAre("COMPUTE step 4"));
  WorkOver(StepReply{});
  EXPECT_THAT(Step(5, 5), ElementsAre("COMPUTE step 5"));
}

TEST_F(MembershipTest, ABindingIsNeverPreparedTwiceNorOneOfAnOlderNumber) {
  for (const uint32_t epoch : {4u, 5u}) {
    membership_ = std::make_unique<Membership>(Offer());
    Join();
    Told(PrepareMessage(5, 0, 2));
    EXPECT_THAT(Told(PrepareMessage(epoch, 0, 2)), ElementsAre("FINISH invalid_data"));
  }
}

TEST_F(MembershipTest, MoreBindingsThanAnyoneNeedsEndTheConnection) {
  Join();
  uint32_t epoch = 0;
  while (epoch < StageTable::kMaxBindings) Told(PrepareMessage(++epoch, 0, 1));
  Told(RetireMessage({1}, 0, 6));  // makes room
  for (uint32_t i = 1; i < StageTable::kMaxBindings; ++i) Told(PrepareMessage(++epoch, 0, 1));
  EXPECT_FALSE(membership_->ended());
  EXPECT_THAT(Told(PrepareMessage(++epoch, 0, 1)), ElementsAre("FINISH invalid_data"));
  EXPECT_THAT(Problem(), HasSubstr("at most 64 at a time"));
}

TEST_F(MembershipTest, AnswersAndUnloadingKeepTheOrderOfTheMessages) {
  Join();
  Bind(1, 0, kTestLayers);
  Bind(2, 2, 4);
  EXPECT_THAT(Step(1, 1), ElementsAre("COMPUTE step 1"));
  EXPECT_THAT(Step(2, 1), IsEmpty());
  EXPECT_THAT(Step(3, 3), IsEmpty());  // refused, in its turn
  EXPECT_THAT(Step(4, 2), IsEmpty());
  EXPECT_THAT(Told(RetireMessage({2}, 2, 4)), IsEmpty());
  EXPECT_THAT(Step(5, 1), IsEmpty());
  EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("frame", "COMPUTE step 2"));
  EXPECT_THAT(WorkOver(StepReply{}),
              ElementsAre("frame", "step_failed 3 invalid_argument", "COMPUTE step 4"));
  EXPECT_THAT(WorkFailed(ErrorCode::kInvalidData),
              ElementsAre("step_failed 4 invalid_data", "COMPUTE keep 2-4"));
  EXPECT_THAT(WorkOver(), ElementsAre("step_failed 5 invalid_argument"));
}

// What is read counts on what is loaded, so nothing may be about to be unloaded.
TEST_F(MembershipTest, NothingIsReadWhileLayersAreToBeUnloaded) {
  Join();
  Bind(1, 0, kTestLayers);
  Step(1, 1);
  Told(Make([](pb::ServerMessage& m) { m.mutable_release(); }));
  Told(PrepareMessage(2, 0, 2));
  EXPECT_THAT(FetchOver(), IsEmpty());
  EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("frame", "COMPUTE release all"));
  EXPECT_THAT(WorkOver(), ElementsAre("READ 0-2"));
}

TEST_F(MembershipTest, RetireDropsBindingsItDoesNotNameOrWhoseLayersItDoesNotKeep) {
  Join();
  Bind(1, 0, 3);
  Bind(2, 0, 3);
  Bind(3, 2, 4);
  EXPECT_THAT(Told(RetireMessage({1, 3}, 0, 4)), ElementsAre("COMPUTE keep 0-4"));
  WorkOver();
  EXPECT_THAT(Step(1, 1), ElementsAre("COMPUTE step 1"));
  WorkOver(StepReply{});
  EXPECT_THAT(Step(2, 2), ElementsAre("step_failed 2 invalid_argument"));
  Told(RetireMessage({1, 3}, 1, 4));
  WorkOver();
  EXPECT_THAT(Step(3, 1), ElementsAre("step_failed 3 invalid_argument"));
  EXPECT_THAT(Step(4, 3), ElementsAre("COMPUTE step 4"));
}

TEST_F(MembershipTest, MeasuresAndUnloadsWhatNobodyKeeps) {
  Join();
  Bind(1, 0, 2);
  EXPECT_THAT(Told(MeasureMessage(1, 4)), ElementsAre("FETCH 1 2 3"));
  EXPECT_THAT(FetchOver(), ElementsAre("READ 1-4"));
  EXPECT_THAT(Read(), ElementsAre("COMPUTE install 1-4"));
  EXPECT_THAT(WorkOver(Installed{1, 1}), ElementsAre("COMPUTE measure 1-4"));
  Timings timings;
  timings.of_ranges = {{{1, 4}, {Microseconds(30), Microseconds(31)}}};
  EXPECT_THAT(
      WorkOver(timings),
      ElementsAre("measured { timings { layers { first: 1 end: 4 } run_us: 30 run_us: 31 } }",
                  "COMPUTE keep 0-2"));
  WorkOver();
  Told(RetireMessage({1}, 0, 3));
  WorkOver();
  Told(MeasureMessage(1, 4));
  FetchOver();
  Read();
  WorkOver(Installed{1, 1});
  EXPECT_THAT(WorkFailed(ErrorCode::kUnavailable),
              ElementsAre("failed 0 unavailable", "COMPUTE keep 0-2 0-3"));
}

TEST_F(MembershipTest, StepsBeyondTheLimitsOfInitAreRefused) {
  Join();
  Bind(1, 0, kTestLayers);
  EXPECT_THAT(Step(6, 1, kMeasureSession), ElementsAre("step_failed 6 invalid_argument"));
  EXPECT_THAT(Step(1, 1, 7, 99), ElementsAre("COMPUTE step 1"));
  WorkOver(StepReply{});
  EXPECT_THAT(Step(2, 1, 7, 100), ElementsAre("step_failed 2 invalid_argument"));  // 100 positions
  EXPECT_THAT(Step(3, 1, 8), ElementsAre("COMPUTE step 3"));
  WorkOver(StepReply{});
  EXPECT_THAT(Step(4, 1, 9), ElementsAre("step_failed 4 invalid_argument"));  // 2 sessions
  EXPECT_THAT(
      Told(Make([](pb::ServerMessage& m) { m.mutable_invalidate_sessions()->add_sessions(7); })),
      ElementsAre("COMPUTE release sessions"));
  WorkOver();
  EXPECT_THAT(Step(5, 1, 9), ElementsAre("COMPUTE step 5"));
  WorkOver(StepReply{});
  EXPECT_THAT(Step(7, 1, 9, 0, 2), ElementsAre("step_failed 7 invalid_argument"));  // stage 2
}

TEST_F(MembershipTest, SamplingThatCannotBeEndsTheConnection) {
  Join();
  EXPECT_THAT(Told(Make([](pb::ServerMessage& m) { m.mutable_sampling(); })),
              ElementsAre("COMPUTE sampling"));
  EXPECT_THAT(WorkFailed(ErrorCode::kInvalidData), ElementsAre("FINISH invalid_data"));
}

TEST_F(MembershipTest, AWorkerThatChoosesNoTokensRefusesGenerationFrames) {
  Join();
  EXPECT_THAT(Told(wire::EncodeGeneration(wire::WholeModel{})), ElementsAre("FINISH invalid_data"));
}

// A worker that knows whole-model generation.
class GeneratingTest : public MembershipTest {
 protected:
  explicit GeneratingTest(uint32_t sessions = 1) : MembershipTest(MakeOffer(sessions)) {}
  static Offer MakeOffer(uint32_t sessions) {
    Offer offer;
    offer.makes_tokens = sessions;
    return offer;
  }
  Said Generate(uint32_t sequence, uint32_t session = 1, uint16_t count = 8) {
    wire::Generate generate;
    generate.sequence = sequence;
    generate.epoch = 1;
    generate.session = session;
    generate.position = 3;
    generate.count = count;
    generate.interval = 2;
    return Told(wire::EncodeGeneration(generate));
  }
  Said Made(uint32_t sequence, bool last) { return MadeEach({{sequence, last}}); }
  // Of a batch: the sequences, and whether these tokens are their last ones.
  Said MadeEach(std::vector<std::pair<uint32_t, bool>> of_each) {
    MadeTokens made;
    for (const auto& [sequence, last] : of_each) {
      MadeOfOne& one = made.of_each.emplace_back();
      one.tokens.sequence = one.rest.sequence = sequence;
      one.tokens.epoch = one.rest.epoch = 1;
      one.tokens.last = last;
      one.tokens.token_ids = {4, 5};
    }
    return WorkOver(std::move(made));
  }
  wire::Tokens Tokens() {
    auto frame = wire::DecodeGeneration(std::get<SendFrame>(actions_.at(0)).message.at(0).bytes());
    return std::get<wire::Tokens>(frame.value());
  }
  // Epoch 1, with all layers.
  void BindWhole(uint32_t stage = 0) {
    auto prepare = PrepareMessage(1, 0, kTestLayers);
    prepare.mutable_prepare_stage()->set_stage(stage);
    Told(prepare);
    FetchOver();
    Read();
    WorkOver(Installed{1, 100});
  }
};

TEST_F(GeneratingTest, GivesOneIntervalAfterAnotherBeforeAnyOtherWork) {
  Join();
  BindWhole();
  EXPECT_THAT(Generate(1), ElementsAre("COMPUTE tokens 1"));
  EXPECT_THAT(Step(2, 1, 1, 20, 0), IsEmpty());
  EXPECT_THAT(Made(1, false), ElementsAre("frame", "COMPUTE tokens 1"));
  EXPECT_FALSE(Tokens().last);
  EXPECT_THAT(Made(1, true), ElementsAre("frame", "COMPUTE step 2"));
  EXPECT_TRUE(Tokens().last);
}

class BatchingTest : public GeneratingTest {
 protected:
  BatchingTest() : GeneratingTest(2) {}
};

TEST_F(BatchingTest, GenerationsRunTogetherAndOneStepPassesBetweenBatches) {
  Join();
  BindWhole();
  EXPECT_THAT(Generate(1), ElementsAre("COMPUTE tokens 1"));
  EXPECT_THAT(Generate(2, 2), IsEmpty());
  EXPECT_THAT(Step(3, 1, 1, 20, 0), IsEmpty());
  EXPECT_THAT(Step(4, 1, 2, 20, 0), IsEmpty());
  EXPECT_THAT(MadeEach({{1, false}}), ElementsAre("frame", "COMPUTE step 3"));
  EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("frame", "COMPUTE tokens 1 2"));
  EXPECT_THAT(MadeEach({{1, false}, {2, true}}), ElementsAre("frame", "frame", "COMPUTE step 4"));
  EXPECT_THAT(WorkOver(StepReply{}), ElementsAre("frame", "COMPUTE tokens 1"));
  EXPECT_THAT(MadeEach({{1, false}}), ElementsAre("frame", "COMPUTE tokens 1"));
}

TEST_F(BatchingTest, MoreThanABatchTakeTurns) {
  Join();
  BindWhole();
  Generate(1);
  Generate(2, 2);
  Generate(3, 2);
  EXPECT_THAT(MadeEach({{1, false}}), ElementsAre("frame", "COMPUTE tokens 1 2"));
  EXPECT_THAT(MadeEach({{1, false}, {2, false}}),
              ElementsAre("frame", "frame", "COMPUTE tokens 3 1"));
  EXPECT_THAT(MadeEach({{3, false}, {1, true}}),
              ElementsAre("frame", "frame", "COMPUTE tokens 2 3"));
}

TEST_F(BatchingTest, OneOfABatchIsStoppedOrFails) {
  Join();
  BindWhole();
  Generate(1);
  Generate(2, 2);
  MadeEach({{1, false}});
  EXPECT_THAT(Told(wire::EncodeGeneration(wire::StopGenerating{1, 1})), IsEmpty());
  EXPECT_THAT(MadeEach({{1, false}, {2, false}}),
              ElementsAre("frame", "frame", "frame", "COMPUTE tokens 2"));
  MadeTokens made;
  made.of_each.push_back(
      {{2, 1, false, 0, {}}, {}, Error(ErrorCode::kUnavailable, "It hiccuped.")});
  EXPECT_THAT(WorkOver(std::move(made)), ElementsAre("step_failed 2 unavailable"));
}

// What the server says of a session's end comes between two batches, and may come before its Stop.
TEST_F(BatchingTest, AnEndedSessionIsInNoFurtherBatch) {
  Join();
  BindWhole();
  Generate(1);
  Generate(2, 2);
  MadeEach({{1, false}});
  Told(Make([](pb::ServerMessage& m) { m.mutable_invalidate_sessions()->add_sessions(1); }));
  EXPECT_THAT(MadeEach({{1, false}, {2, false}}),
              ElementsAre("frame", "frame", "COMPUTE release sessions"));
  EXPECT_THAT(WorkOver(), ElementsAre("frame", "COMPUTE tokens 2"));
  EXPECT_TRUE(Tokens().last);
}

TEST_F(GeneratingTest, AGenerationThatNobodyWantsEndsWithAnEmptyFrame) {
  Join();
  BindWhole();
  Generate(1);
  Generate(2);
  EXPECT_THAT(Told(wire::EncodeGeneration(wire::StopGenerating{1, 1})), IsEmpty());
  EXPECT_THAT(Told(wire::EncodeGeneration(wire::StopGenerating{2, 1})), IsEmpty());
  EXPECT_THAT(Told(wire::EncodeGeneration(wire::StopGenerating{9, 1})), IsEmpty());
  EXPECT_THAT(Made(1, false), ElementsAre("frame", "frame", "frame"));
  EXPECT_EQ(Tokens().token_ids.size(), 2u);
  // An old Stop says nothing about a later generation of that number.
  EXPECT_THAT(Generate(9), ElementsAre("COMPUTE tokens 9"));
  EXPECT_THAT(WorkFailed(ErrorCode::kUnavailable), ElementsAre("step_failed 9 unavailable"));
}

TEST_F(GeneratingTest, NeedsTheWholeModelWithinTheLimits) {
  Join();
  EXPECT_THAT(Generate(1), ElementsAre("step_failed 1 invalid_argument"));
  BindWhole(1);  // as another stage
  EXPECT_THAT(Generate(2), ElementsAre("step_failed 2 invalid_argument"));
  Told(Make([](pb::ServerMessage& m) { m.mutable_release(); }));
  WorkOver();
  Bind(2, 0, kTestLayers - 1);
  EXPECT_THAT(Generate(3), ElementsAre("step_failed 3 invalid_argument"));
}

TEST_F(GeneratingTest, KeepsTheLimitsOfInit) {
  Join();
  BindWhole();
  EXPECT_THAT(Generate(4, 1, 98), ElementsAre("step_failed 4 invalid_argument"));
  EXPECT_THAT(Generate(5, 1, 97), ElementsAre("COMPUTE tokens 5"));
  EXPECT_THAT(Told(wire::EncodeGeneration(wire::WholeModel{})), IsEmpty());
  EXPECT_THAT(Told(wire::EncodeGeneration(wire::RunHere{true})),
              ElementsAre("FINISH invalid_data"));
}

TEST_F(GeneratingTest, AUsersWishIsSentOnceItIsAMember) {
  EXPECT_THAT(Told(WholeWished{true}), IsEmpty());
  Join();
  EXPECT_THAT(Told(WholeWished{true}), ElementsAre("frame"));
}

class OnnxTest : public MembershipTest {
 protected:
  OnnxTest() : MembershipTest(MakeOffer()) {}
  static Offer MakeOffer() {
    Offer offer;
    offer.needs_onnx = true;
    return offer;
  }
};

TEST_F(OnnxTest, TakesOneRunInAFrame) {
  Join();
  Bind(1, 0, kTestLayers);
  wire::FrameHeader header;
  header.sequence = 1;
  header.epoch = 1;
  header.stage = 1;
  header.rows = 2;
  header.columns = 1;
  header.dtype = DType::kI32;
  const wire::Run runs[] = {{1, 0, 0, 1, wire::OutputKind::kNone, 0},
                            {2, 0, 0, 1, wire::OutputKind::kNone, 0}};
  std::vector<uint8_t> bytes = wire::EncodeFrameHead(header, runs, 8);
  bytes.resize(bytes.size() + 8);
  EXPECT_THAT(Told(bytes), ElementsAre("step_failed 1 invalid_argument"));
}

}  // namespace
}  // namespace weft::worker
