// A membership for tests: its events told by name, and what it asks for then in words.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "package/manifest.h"
#include "program/ir.h"
#include "wire/version.h"
#include "worker/membership.h"

namespace weft::worker {

namespace pb = wire::pb;
using Said = std::vector<std::string>;

inline constexpr uint32_t kTestLayers = 6;

class NoLayers : public engine::LoadedLayers {};

inline std::string Text(const std::vector<LayerRange>& ranges) {
  std::string text;
  for (const LayerRange range : ranges)
    text += " " + std::to_string(range.first) + "-" + std::to_string(range.end);
  return text;
}

inline std::string Text(const pb::WorkerMessage& message) {
  if (message.has_connect()) {
    std::string text = "connect";
    for (const pb::HeldBinding& held : message.connect().held()) {
      text += " [" + held.ShortDebugString() + "]";
    }
    return text;
  }
  std::string text = message.ShortDebugString();
  // Only what failed counts here, the sentence has its own tests.
  if (message.has_failed())
    text = "failed " + std::to_string(message.failed().binding()) + " " + message.failed().code();
  if (message.has_step_failed())
    text = "step_failed " + std::to_string(message.step_failed().sequence()) + " " +
           message.step_failed().code();
  return text;
}

inline std::string Text(const Work& work) {
  struct Namer {
    std::string operator()(const InstallLayers& each) { return "install" + Text(each.ranges); }
    std::string operator()(const InstallExperts&) { return "install experts"; }
    std::string operator()(const RunExperts& each) {
      std::string text = "experts";
      for (const wire::ExpertFrame& frame : each.dispatches)
        text += " " + std::to_string(frame.layer) + ":" + std::to_string(frame.expert);
      return text;
    }
    std::string operator()(const MeasureSpeed& each) { return "measure" + Text(each.ranges); }
    std::string operator()(const RunStep& each) {
      return "step " + std::to_string(each.frame.header.sequence);
    }
    std::string operator()(const ResumeStep& each) {
      return "resume " + std::to_string(each.place) + " with " +
             std::to_string(each.slot_rows.size()) + " values";
    }
    std::string operator()(const PredictNext& each) {
      return "predict behind " + std::to_string(each.place);
    }
    std::string operator()(const AbandonSteps& each) {
      std::string text = "abandon";
      for (const uint32_t place : each.places) text += " " + std::to_string(place);
      return text;
    }
    std::string operator()(const MakeTokens& each) {
      std::string text = "tokens";
      for (const wire::Generate& asked : each.asked) text += " " + std::to_string(asked.sequence);
      return text;
    }
    std::string operator()(const ForkSession& each) {
      return "fork " + std::to_string(each.fork.from) + " into " + std::to_string(each.fork.to) +
             " at " + std::to_string(each.fork.position_count) + Text({each.layers});
    }
    std::string operator()(const TakeSampling&) { return "sampling"; }
    std::string operator()(const ReleaseSessions&) { return "release sessions"; }
    std::string operator()(const ReleaseAll&) { return "release all"; }
    std::string operator()(const KeepLayers& each) {
      return "keep" + Text(each.ranges) + (each.hubs.empty() ? "" : " hubs" + Text(each.hubs));
    }
    std::string operator()(const TakeStock& each) {
      std::string text = "stock";
      for (const pb::HeldBinding& binding : each.bindings)
        text += " " + std::to_string(binding.id());
      for (const uint32_t session : each.sessions) text += " s" + std::to_string(session);
      return text;
    }
  };
  return std::visit(Namer(), work);
}

inline std::string Text(const Action& action) {
  struct Namer {
    std::string operator()(const SendControl& each) { return Text(each.message); }
    std::string operator()(const SendFrame&) { return "frame"; }
    std::string operator()(const SendShards& each) {
      std::string text = "shards to " + std::to_string(each.peer);
      for (const wire::ExpertFrame& frame : each.frames) {
        const bool beats = frame.type == wire::ExpertFrameType::kHeartbeat;
        text += beats ? " heartbeat"
                      : (frame.failed ? " failed " : " ") + std::to_string(frame.layer) + ":" +
                            std::to_string(frame.expert);
      }
      return text;
    }
    std::string operator()(const SendDatagrams& each) {
      return std::to_string(each.datagrams.size()) + " datagrams";
    }
    std::string operator()(const Join&) { return "JOIN"; }
    std::string operator()(const Fetch& each) {
      std::string text = IsHub(each.form) ? "FETCH HUBS" : "FETCH";
      for (const uint32_t layer : each.layers) text += " " + std::to_string(layer);
      for (const wire::LayerExperts& set : each.experts)
        for (const uint32_t expert : set.experts)
          text += " " + std::to_string(set.layer) + ":" + std::to_string(expert);
      return text;
    }
    std::string operator()(const InterruptFetch&) { return "INTERRUPT FETCH"; }
    std::string operator()(const ReadLayers& each) {
      if (each.experts) return "READ EXPERTS";
      return (IsHub(each.form) ? "READ HUBS" : "READ") + Text(each.ranges);
    }
    std::string operator()(const InterruptRead&) { return "INTERRUPT READ"; }
    std::string operator()(const Compute& each) { return "COMPUTE " + Text(each.work); }
    std::string operator()(const Finish& each) {
      return "FINISH " + std::string(ErrorCodeName(each.error.code()));
    }
    std::string operator()(const HangUp& each) { return each.later ? "HANG UP LATER" : "HANG UP"; }
    std::string operator()(const KnowSuccessors& each) {
      return "SUCCESSORS " + std::to_string(each.successors.size());
    }
    std::string operator()(const KeepFor& each) {
      return "KEEP " + std::to_string(each.time.us / 1000);
    }
    std::string operator()(const WakeAt& each) { return each.at ? "WAKE" : "WAKE NEVER"; }
    std::string operator()(const LimitSilence& each) {
      return "SILENCE " + std::to_string(each.time.us / 1000);
    }
  };
  return std::visit(Namer(), action);
}

inline pb::ServerMessage InitMessage() {
  pb::ServerMessage message;
  pb::Init& init = *message.mutable_init();
  init.set_protocol_version(wire::kProtocolVersion);
  init.set_program_version(program::kProgramVersion);
  init.set_package_format(package::kPackageFormat);
  init.set_package_digest(std::string(32, 'x'));
  init.set_layer_count(kTestLayers);
  init.set_context_length(100);
  init.set_session_count(2);
  init.set_swarm_id("one");
  init.set_resume_ms(60'000);
  init.set_ping_interval_ms(500);
  init.set_batches_tokens(true);
  return message;
}

inline pb::ServerMessage PrepareMessage(uint32_t binding, uint32_t first, uint32_t end) {
  pb::ServerMessage message;
  message.mutable_prepare_stage()->set_binding(binding);
  message.mutable_prepare_stage()->set_stage(1);
  message.mutable_prepare_stage()->mutable_layers()->set_first(first);
  message.mutable_prepare_stage()->mutable_layers()->set_end(end);
  return message;
}

inline pb::ServerMessage StandbyMessage(uint32_t binding, uint32_t first, uint32_t end) {
  pb::ServerMessage message = PrepareMessage(binding, first, end);
  message.mutable_prepare_stage()->set_standby(true);
  return message;
}

inline pb::ServerMessage RetireMessage(std::vector<uint32_t> bindings, uint32_t first,
                                       uint32_t end) {
  pb::ServerMessage message;
  message.mutable_retire()->mutable_bindings()->Add(bindings.begin(), bindings.end());
  auto& keep = *message.mutable_retire()->add_keep();
  keep.set_first(first);
  keep.set_end(end);
  return message;
}

inline pb::ServerMessage DownloadMessage(std::vector<uint32_t> layers) {
  pb::ServerMessage message;
  message.mutable_download_layers()->mutable_layers()->Add(layers.begin(), layers.end());
  return message;
}

inline pb::ServerMessage Make(void (*fill)(pb::ServerMessage&)) {
  pb::ServerMessage message;
  fill(message);
  return message;
}

// A worker and what it does, in words.
class MembershipTest : public testing::Test {
 protected:
  explicit MembershipTest(Offer offer = {})
      : membership_(std::make_unique<Membership>(std::move(offer))) {}

  Said Told(Event event) {
    Said said;
    actions_ = membership_->Handle(std::move(event), now_);
    for (const Action& action : actions_) said.push_back(Text(action));
    return said;
  }
  Said Told(pb::ServerMessage message) { return Told(ControlReceived{std::move(message)}); }
  Said Told(std::vector<uint8_t> bytes) { return Told(MessageReceived{Slice(std::move(bytes))}); }

  Said Read() {
    return Told(LayersRead{std::unique_ptr<engine::LoadedLayers>(std::make_unique<NoLayers>())});
  }
  Said FetchOver() { return Told(FetchEnded{}); }
  Said FetchInterrupted() {
    return Told(FetchEnded{Error(ErrorCode::kCancelled, "The download was cancelled.")});
  }
  Said WorkOver(Outcome outcome = Done{}) { return Told(WorkDone{std::move(outcome)}); }

  void Join() {
    ASSERT_THAT(Told(InitMessage()), testing::ElementsAre("SILENCE 3000", "JOIN"));
    JoinedPackage package;
    package.layer_count = kTestLayers;
    ASSERT_THAT(Told(Joined{package}), testing::ElementsAre("connect"));
  }
  // Brings a binding to where it computes.
  void Bind(uint32_t binding, uint32_t first, uint32_t end) {
    Told(PrepareMessage(binding, first, end));
    FetchOver();
    Read();
    const std::string binding_text = std::to_string(binding);
    ASSERT_THAT(WorkOver(Installed{1, 100}),
                testing::ElementsAre("prepared { binding: " + binding_text +
                                     " weight_factor: 1 used_bytes: 100 }"));
  }

  Said Step(uint32_t sequence, uint32_t binding, uint32_t session = 1, uint32_t first = 0,
            uint32_t stage = 1, uint16_t rows = 1) {
    wire::FrameHeader header;
    header.sequence = sequence;
    header.binding = binding;
    header.stage = static_cast<uint16_t>(stage);
    header.rows = rows;
    header.columns = 1;
    header.dtype = DType::kI32;
    const wire::Run run = {session, 0, first, rows, wire::OutputKind::kNone, 0};
    std::vector<uint8_t> bytes = wire::EncodeFrameHead(header, {&run, 1}, rows * 4u);
    bytes.resize(bytes.size() + rows * 4u);
    return Told(std::move(bytes));
  }

  Instant now_{1'000'000};
  std::unique_ptr<Membership> membership_;
  std::vector<Action> actions_;
};

}  // namespace weft::worker
