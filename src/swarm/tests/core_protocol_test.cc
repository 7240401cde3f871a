// The handshake and every message that is not legal in its state: refused with a reason, never a
// crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/sha256.h"
#include "swarm/tests/core_testing.h"
#include "swarm/workers/connect.h"
#include "wire/version.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using wire::pb::ServerMessage;
using wire::pb::WorkerMessage;

TEST(Handshake, InitCarriesWhatAWorkerHasToKnow) {
  TestSwarm swarm;
  const WorkerId id = swarm.Open();
  const auto init = swarm.Last(id, ServerMessage::kInit).init();
  EXPECT_EQ(init.protocol_version(), wire::kProtocolVersion);
  EXPECT_EQ(init.layer_count(), 6u);
  EXPECT_EQ(init.context_length(), 64u);
  EXPECT_EQ(init.session_count(), 2u);
  EXPECT_EQ(init.package_digest().size(), 32u);
  EXPECT_FALSE(init.join_token_required());
}

// The refusal that a worker gets for this change to a good Connect; "" when it is let in.
std::string RefusalOf(const std::function<void(wire::pb::Connect&)>& change,
                      CoreOptions options = TestOptions()) {
  TestSwarm swarm(options);
  const WorkerId id = swarm.Open();
  WorkerMessage connect = swarm.ConnectOf(id);
  change(*connect.mutable_connect());
  swarm.Control(id, connect);
  if (swarm.CloseReasons(id).empty()) return "";
  const auto refused = swarm.Last(id, ServerMessage::kRefused).refused();
  EXPECT_THAT(swarm.CloseReasons(id), ElementsAre(refused.message()));
  return refused.code() + ": " + refused.message();
}

TEST(Handshake, AGoodConnectIsLetIn) {
  EXPECT_EQ(RefusalOf([](wire::pb::Connect&) {}), "");
}

TEST(Handshake, VersionMismatchesNameBothNumbersAndWhatToDo) {
  EXPECT_EQ(RefusalOf([](wire::pb::Connect& c) {
              c.set_protocol_version(0);
              c.set_kind("web");
              c.set_engine("ort-wasm");
            }),
            "unsupported: This worker speaks protocol version 0 and the server version 5: reload "
            "the page.");
  EXPECT_EQ(RefusalOf([](wire::pb::Connect& c) { c.set_protocol_version(0); }),
            "unsupported: This worker speaks protocol version 0 and the server version 5: update "
            "weft on this device.");
  EXPECT_EQ(RefusalOf([](wire::pb::Connect& c) { c.set_program_version(7); }),
            "unsupported: This worker speaks program version 7 and the server version 1: update "
            "weft on the server.");
  EXPECT_THAT(RefusalOf([](wire::pb::Connect& c) { c.set_package_format(2); }),
              HasSubstr("package format version 2"));
}

TEST(Handshake, JoinTokenIsComparedByItsHash) {
  CoreOptions options = TestOptions();
  const Sha256Digest digest = Sha256(AsBytes("open sesame"));
  options.join_token_sha256_hex = ToHex(digest);
  const auto with = [&](const std::string& token) {
    return RefusalOf([&](wire::pb::Connect& c) { c.set_join_token(token); }, options);
  };
  EXPECT_EQ(with("open sesame"), "");
  EXPECT_THAT(with(""), HasSubstr("permission_denied: This swarm needs a join token"));
  EXPECT_THAT(with("open sesamE"), HasSubstr("not this swarm's"));
  EXPECT_THAT(with("open sesame "), HasSubstr("not this swarm's"));
  EXPECT_THAT(with(std::string(10'000, 'x')), HasSubstr("not this swarm's"));
}

TEST(Handshake, FurtherJoinTokensAreTheHostsToJudge) {
  CoreOptions options = TestOptions();
  bool is_good = true;
  options.is_join_token = [&is_good](const std::string& hash) {
    return is_good && hash == ToHex(Sha256(AsBytes("of the phones")));
  };
  const auto with = [&](const std::string& token) {
    return RefusalOf([&](wire::pb::Connect& c) { c.set_join_token(token); }, options);
  };
  EXPECT_EQ(with("anything"), "") << "none is demanded";
  options.join_token_sha256_hex = ToHex(Sha256(AsBytes("open sesame")));
  EXPECT_EQ(with("open sesame"), "");
  EXPECT_EQ(with("of the phones"), "");
  EXPECT_THAT(with("anything"), HasSubstr("not this swarm's"));
  is_good = false;
  EXPECT_THAT(with("of the phones"), HasSubstr("not this swarm's"));
  EXPECT_EQ(with("open sesame"), "");
}

TEST(Handshake, EveryNumberHasARange) {
  using C = wire::pb::Connect;
  EXPECT_THAT(RefusalOf([](C& c) { c.set_memory_bytes(0); }), HasSubstr("offers 0 bytes"));
  EXPECT_THAT(RefusalOf([](C& c) { c.set_memory_bytes(UINT64_MAX); }),
              HasSubstr("offers 18446744073709551615 bytes"));
  for (const double factor :
       {0.0, -1.0, 17.0, static_cast<double>(NAN), static_cast<double>(INFINITY)})
    EXPECT_THAT(RefusalOf([&](C& c) { c.set_weight_factor(factor); }), HasSubstr("weight factor"));
  for (const double rate : {-1.0, 1e13, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    EXPECT_THAT(RefusalOf([&](C& c) { c.set_download_bytes_per_s(rate); }),
                HasSubstr("download rate"));
    EXPECT_THAT(RefusalOf([&](C& c) { c.set_upload_bytes_per_s(rate); }), HasSubstr("upload rate"));
  }
  EXPECT_THAT(RefusalOf([](C& c) { c.add_cached_layers(6); }), HasSubstr("cached layer 6"));
  EXPECT_THAT(RefusalOf([](C& c) {
                for (int i = 0; i < 7; ++i) c.add_cached_layers(0);
              }),
              HasSubstr("7 cached layers"));
  EXPECT_THAT(RefusalOf([](C& c) { c.set_kind("toaster"); }), HasSubstr("\"toaster\""));
  EXPECT_THAT(RefusalOf([](C& c) { c.set_engine(""); }), HasSubstr("engine"));
  EXPECT_EQ(RefusalOf([](C& c) { c.set_download_bytes_per_s(0); }), "");  // unknown
}

TEST(Handshake, NamesAreMadePrintableAndCut) {
  EXPECT_EQ(PrintableText("Ann's laptop", 64), "Ann's laptop");
  EXPECT_EQ(PrintableText("a\nb\x1b[31m", 64), "a?b?[31m");
  EXPECT_EQ(PrintableText("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 64),
            "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(PrintableText("\xc3\xa4\xc3\xa4", 3), "\xc3\xa4");  // never half a character
  EXPECT_EQ(PrintableText("\xff\xc0\x80\xed\xa0\x80\xc3", 64), "???????");  // no UTF-8
  EXPECT_EQ(PrintableText("\xc2\x85", 64), "??");                           // C1 control
  EXPECT_EQ(PrintableText(std::string(1000, 'x'), 64).size(), 64u);
  EXPECT_EQ(RefusalOf([](wire::pb::Connect& c) { c.set_name(std::string(60'000, 'x')); }), "");
}

TEST(Handshake, TooManyConnectionsAreRefused) {
  CoreOptions options = TestOptions();
  options.worker_limit = 2;
  TestSwarm swarm(options);
  swarm.Join();
  swarm.Join();
  const WorkerId third = swarm.Open();
  EXPECT_THAT(swarm.Last(third, ServerMessage::kRefused).refused().message(),
              HasSubstr("2 workers"));
  EXPECT_THAT(swarm.CloseReasons(third), SizeIs(1));
}

// Both had a place when they came.
TEST(Handshake, TheLastPlaceGoesToWhoSaysConnectFirst) {
  CoreOptions options = TestOptions();
  options.worker_limit = 1;
  TestSwarm swarm(options);
  const WorkerId first = swarm.Open();
  const WorkerId second = swarm.Open();
  swarm.Control(first, swarm.ConnectOf(first));
  swarm.Control(second, swarm.ConnectOf(second));
  EXPECT_THAT(swarm.CloseReasons(first), IsEmpty());
  EXPECT_THAT(swarm.Last(second, ServerMessage::kRefused).refused().message(),
              HasSubstr("1 workers"));
  EXPECT_THAT(swarm.CloseReasons(second), SizeIs(1));
}

TEST(Handshake, SilenceInsteadOfConnectEndsTheConnection) {
  TestSwarm swarm;
  const WorkerId id = swarm.Open();
  swarm.Advance(Milliseconds(4999));
  EXPECT_THAT(swarm.CloseReasons(id), IsEmpty());
  swarm.Advance(Milliseconds(2));
  EXPECT_THAT(swarm.CloseReasons(id), ElementsAre(HasSubstr("Connect within 5 s")));
}

// ---- how long a message may be ----

constexpr uint64_t kControlLimit = 1 + wire::kMaxControlBytes;

// Rows of 80 KB, so that whatever holds hidden rows is longer than any control message.
CoreOptions WideOptions() {
  CoreOptions options = TestOptions();
  options.model.hidden_columns = 40'000;
  return options;
}

TEST(MessageLimit, FollowsConnectAndThePlan) {
  TestSwarm swarm(WideOptions());
  TestWorker half;
  half.memory_bytes = 44'500'000;  // three layers of 1 MB and 41 MB of scratch
  const WorkerId first = swarm.Open(half);
  EXPECT_EQ(swarm.message_limit(first), 0u);
  swarm.Control(first, swarm.ConnectOf(first));
  EXPECT_EQ(swarm.message_limit(first), kControlLimit);
  const WorkerId second = swarm.Join(half);
  swarm.Advance(Milliseconds(200));
  ASSERT_EQ(swarm.picture().stages.size(), 2u);
  const WorkerId front = swarm.picture().stages[0].worker;
  const WorkerId back = front == first ? second : first;
  // A whole chunk of rows for both sessions; candidates are shorter than control messages.
  EXPECT_EQ(swarm.message_limit(front), 40u + 2 * 16 + 8 * 80'000);
  EXPECT_EQ(swarm.message_limit(back), kControlLimit);
  // In front of a hole it goes on; out of the plan it says no more than anybody.
  swarm.Lose(back);
  EXPECT_EQ(swarm.message_limit(front), 40u + 2 * 16 + 8 * 80'000);
  swarm.Join(half);
  swarm.Advance(Milliseconds(200));
  swarm.hold_plans = true;
  TestWorker all;
  all.memory_bytes = 200'000'000;
  swarm.AnswerPlan({{swarm.JoinTimed(all), {0, 6}}});
  ASSERT_EQ(swarm.picture().stages.size(), 1u);
  EXPECT_EQ(swarm.message_limit(front), kControlLimit);
}

TEST(MessageLimit, StepsThatWereSentMayBeAnsweredWhateverHappens) {
  TestSwarm swarm(WideOptions());
  TestWorker half;
  half.memory_bytes = 44'500'000;  // three layers of 1 MB and 41 MB of scratch
  half.answer_steps = false;
  swarm.BringUp(2, half);
  const WorkerId front = swarm.picture().stages[0].worker;
  swarm.Submit({1, 2, 3}, 1);
  ASSERT_EQ(swarm.unanswered_steps(front), 1u);
  swarm.hold_plans = true;
  TestWorker all;
  all.memory_bytes = 200'000'000;
  swarm.AnswerPlan({{swarm.JoinTimed(all), {0, 6}}});
  ASSERT_EQ(swarm.picture().stages.size(), 1u);
  EXPECT_EQ(swarm.message_limit(front), 40u + 16 + 3 * 80'000);
  swarm.AnswerStep(front);
  EXPECT_EQ(swarm.message_limit(front), kControlLimit);
  EXPECT_THAT(swarm.Tokens(1), ElementsAre(4));
}

TEST(MessageLimit, LogitsAreLetThroughWhileTheyAreExpected) {
  CoreOptions options = TestOptions();
  options.model.vocabulary = 50'000;
  TestSwarm swarm(options);
  TestWorker worker;
  worker.answer_steps = false;
  swarm.BringUp(1, worker);
  EXPECT_EQ(swarm.message_limit(1), kControlLimit);
  Request request;
  request.id = 1;
  request.prompt_ids = {1, 2, 3};
  request.want_logits = true;
  swarm.Submit(request);
  EXPECT_EQ(swarm.message_limit(1), 40u + 16 + 3 * 200'000);
  swarm.AnswerStep(1);
  EXPECT_THAT(swarm.Ends(1), SizeIs(1));
  EXPECT_EQ(swarm.message_limit(1), kControlLimit);
}

// ---- messages that are not legal in their state ----

struct IllegalCase {
  const char* name;
  std::function<WorkerMessage()> message;
  const char* reason;
};

WorkerMessage Make(const std::function<void(WorkerMessage&)>& fill) {
  WorkerMessage message;
  fill(message);
  return message;
}

const IllegalCase kBeforeConnect[] = {
    {"nothing", [] { return WorkerMessage(); }, "not Connect"},
    {"pong", [] { return Make([](auto& m) { m.mutable_pong(); }); }, "not Connect"},
    {"prepared", [] { return Make([](auto& m) { m.mutable_prepared(); }); }, "not Connect"},
    {"measured", [] { return Make([](auto& m) { m.mutable_measured(); }); }, "not Connect"},
    {"failed", [] { return Make([](auto& m) { m.mutable_failed(); }); }, "not Connect"},
    {"step failed", [] { return Make([](auto& m) { m.mutable_step_failed(); }); }, "not Connect"},
    {"progress", [] { return Make([](auto& m) { m.mutable_download_progress(); }); },
     "not Connect"},
    {"layer", [] { return Make([](auto& m) { m.mutable_layer_downloaded(); }); }, "not Connect"},
};

TEST(Illegal, NothingButConnectComesFirst) {
  for (const IllegalCase& each : kBeforeConnect) {
    TestSwarm swarm;
    const WorkerId id = swarm.Open();
    swarm.Control(id, each.message());
    EXPECT_THAT(swarm.CloseReasons(id), ElementsAre(HasSubstr(each.reason))) << each.name;
    EXPECT_THAT(swarm.picture().workers, IsEmpty()) << each.name;
  }
}

const IllegalCase kWhileUp[] = {
    {"nothing", [] { return WorkerMessage(); }, "unknown kind"},
    {"connect again", [] { return Make([](auto& m) { m.mutable_connect(); }); },
     "Connect came twice"},
    {"pong of no ping", [] { return Make([](auto& m) { m.mutable_pong()->set_nonce(999); }); },
     "Pong names 999"},
    {"prepared again",
     [] {
       return Make([](auto& m) {
         m.mutable_prepared()->set_binding(1);
         m.mutable_prepared()->set_weight_factor(1);
       });
     },
     "came twice"},
    {"prepared of the future",
     [] {
       return Make([](auto& m) {
         m.mutable_prepared()->set_binding(9);
         m.mutable_prepared()->set_weight_factor(1);
       });
     },
     "the last one asked for was 1"},
    {"prepared of binding 0",
     [] { return Make([](auto& m) { m.mutable_prepared()->set_weight_factor(1); }); },
     "names binding 0"},
    {"measured unasked", [] { return Make([](auto& m) { m.mutable_measured(); }); },
     "no measurement was asked for"},
    {"failed of the future",
     [] { return Make([](auto& m) { m.mutable_failed()->set_binding(4); }); },
     "the last one asked for was 1"},
    {"failed after all", [] { return Make([](auto& m) { m.mutable_failed()->set_binding(1); }); },
     "was answered before"},
    {"step failed without step", [] { return Make([](auto& m) { m.mutable_step_failed(); }); },
     "no step is under way"},
    {"layer beyond the model",
     [] { return Make([](auto& m) { m.mutable_layer_downloaded()->set_layer(6); }); }, "layer 6"},
    {"more done than there is",
     [] {
       return Make([](auto& m) {
         m.mutable_download_progress()->set_done_bytes(2);
         m.mutable_download_progress()->set_total_bytes(1);
       });
     },
     "2 of 1"},
    {"absurd total",
     [] {
       return Make([](auto& m) { m.mutable_download_progress()->set_total_bytes(UINT64_MAX); });
     },
     "at most the total"},
};

TEST(Illegal, MessagesWhileUpCloseTheWorkerAndTheSwarmGoesOn) {
  for (const IllegalCase& each : kWhileUp) {
    TestSwarm swarm;
    swarm.BringUp(1);
    swarm.Control(1, each.message());
    EXPECT_THAT(swarm.CloseReasons(1), ElementsAre(HasSubstr(each.reason))) << each.name;
    EXPECT_EQ(swarm.picture().state, SwarmState::kDown) << each.name;
    swarm.Join();
    swarm.Advance(Milliseconds(200));
    EXPECT_EQ(swarm.picture().state, SwarmState::kUp) << each.name;
  }
}

TEST(Illegal, PreparedWithAFactorOutOfRange) {
  for (const double factor : {0.0, -2.0, 1e9, static_cast<double>(NAN)}) {
    TestSwarm swarm;
    TestWorker worker;
    worker.answer_prepare = false;
    const WorkerId id = swarm.Join(worker);
    swarm.Advance(Milliseconds(200));
    WorkerMessage prepared = swarm.Prepared(id);
    prepared.mutable_prepared()->set_weight_factor(factor);
    swarm.Control(id, prepared);
    EXPECT_THAT(swarm.CloseReasons(id), ElementsAre(HasSubstr("weight factor")));
  }
}

TEST(Illegal, MeasurementsThatWereNotAskedFor) {
  const auto close_reason = [](const std::function<void(wire::pb::Measured&)>& change) {
    TestSwarm swarm;
    swarm.BringUp(1);
    TestWorker second;
    second.answer_measure = false;
    const WorkerId id = swarm.Join(second);
    swarm.Advance(Milliseconds(500));
    const auto asked = swarm.Last(id, ServerMessage::kMeasureSpeed).measure_speed();
    WorkerMessage message;
    for (const auto& range : asked.ranges()) {
      auto& timing = *message.mutable_measured()->add_timings();
      *timing.mutable_layers() = range;
      for (int i = 0; i < 7; ++i) timing.add_run_us(100);
    }
    change(*message.mutable_measured());
    swarm.Control(id, message);
    return swarm.CloseReasons(id).empty() ? "" : swarm.CloseReasons(id)[0];
  };
  using M = wire::pb::Measured;
  EXPECT_EQ(close_reason([](M&) {}), "");
  EXPECT_THAT(close_reason([](M& m) { m.mutable_timings()->RemoveLast(); }), HasSubstr("1 ranges"));
  EXPECT_THAT(close_reason([](M& m) { m.mutable_timings(0)->mutable_run_us()->RemoveLast(); }),
              HasSubstr("6 runs"));
  EXPECT_THAT(close_reason([](M& m) { m.mutable_timings(1)->mutable_layers()->set_end(9); }),
              HasSubstr("to 9"));
  EXPECT_THAT(close_reason([](M& m) { m.mutable_timings(0)->set_run_us(6, UINT64_MAX); }),
              HasSubstr("at most an hour"));
}

TEST(Illegal, FramesThatAreNotTheExpectedResult) {
  const auto close_reason =
      [](const std::function<std::vector<uint8_t>(std::vector<uint8_t>)>& change) {
        TestSwarm swarm;
        TestWorker worker;
        worker.answer_steps = false;
        swarm.BringUp(1, worker);
        const RequestId request = swarm.Submit({1, 2, 3}, 1);
        const Slice good = swarm.ResultOf(1);
        swarm.Feed(WorkerData{1, Slice(change({good.bytes().begin(), good.bytes().end()}))});
        // Whatever the frame was, the request is not lost: another worker answers it.
        swarm.Join();
        swarm.Advance(Seconds(1));
        EXPECT_THAT(swarm.Tokens(request), ElementsAre(4));
        EXPECT_THAT(swarm.Ends(request), SizeIs(1));
        return swarm.CloseReasons(1).empty() ? "" : swarm.CloseReasons(1)[0];
      };
  using B = std::vector<uint8_t>;
  const auto with_byte = [&](size_t at, uint8_t value) {
    return close_reason([=](B b) {
      b[at] = value;
      return b;
    });
  };
  EXPECT_EQ(close_reason([](B b) { return b; }), "");
  EXPECT_THAT(close_reason([](B) { return B(); }), HasSubstr("0 bytes"));
  EXPECT_THAT(close_reason([](B b) {
                b[12] ^= 1;
                return b;
              }),
              HasSubstr("sequence"));
  EXPECT_THAT(close_reason([](B b) {
                b[16] ^= 1;
                return b;
              }),
              HasSubstr("binding"));
  EXPECT_THAT(close_reason([](B b) {
                b[20] ^= 1;
                return b;
              }),
              HasSubstr("stage"));
  EXPECT_THAT(close_reason([](B b) {
                b[40] ^= 1;
                return b;
              }),
              HasSubstr("session"));
  EXPECT_THAT(close_reason([](B b) {
                b[44] ^= 1;
                return b;
              }),
              HasSubstr("generation"));
  EXPECT_THAT(close_reason([](B b) {
                b[48] ^= 1;
                return b;
              }),
              HasSubstr("position"));
  EXPECT_THAT(with_byte(6, 1), HasSubstr(""));
  EXPECT_THAT(close_reason([](B b) {
                b.pop_back();
                return b;
              }),
              HasSubstr("announces"));
  // A token outside of the vocabulary, a logit that is not a number.
  EXPECT_THAT(with_byte(58, 0xff), HasSubstr("token"));
  EXPECT_THAT(close_reason([](B b) {
                StoreLe(&b[60], NAN);
                return b;
              }),
              HasSubstr("logit"));
}

TEST(Illegal, AFrameThatNobodyAskedFor) {
  TestSwarm swarm;
  TestWorker worker;
  worker.answer_steps = false;
  swarm.BringUp(1, worker);
  swarm.Submit({1, 2, 3}, 2);
  const Slice result = swarm.ResultOf(1);
  swarm.AnswerStep(1);
  swarm.AnswerStep(1);
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
  swarm.Feed(WorkerData{1, result});
  EXPECT_THAT(swarm.CloseReasons(1), ElementsAre(HasSubstr("no step is under way")));
}

TEST(Illegal, MessagesOfWorkersThatAreGoneAreIgnored) {
  TestSwarm swarm;
  swarm.BringUp(1);
  swarm.Control(1, WorkerMessage());
  swarm.ClearLog();
  swarm.Control(1, WorkerMessage());
  swarm.Feed(WorkerData{1, Slice()});
  swarm.Feed(WorkerLost{1, "closed"});
  swarm.Control(77, WorkerMessage());
  EXPECT_THAT(swarm.CloseReasons(1), IsEmpty());
}

TEST(Heartbeat, PingsTwiceASecondAndMeasuresLatencyWhileIdle) {
  TestSwarm swarm;
  TestWorker worker;
  worker.answer_pings = false;
  const WorkerId id = swarm.Join(worker);
  swarm.Advance(Milliseconds(200));
  for (int i = 0; i < 5; ++i) {
    const uint64_t nonce = swarm.Last(id, ServerMessage::kPing).ping().nonce();
    EXPECT_EQ(nonce, static_cast<uint64_t>(i) + 1);
    swarm.Advance(Milliseconds(30));
    swarm.Control(id, Make([&](auto& m) { m.mutable_pong()->set_nonce(nonce); }));
    swarm.Advance(Milliseconds(i == 0 ? 270 : 470));  // to the next ping
  }
  // The first pong was late by the 200 ms of the join; the median is not.
  EXPECT_NEAR(swarm.picture().workers[0].latency_ms, 30, 0.01);
}

}  // namespace
}  // namespace weft::swarm
