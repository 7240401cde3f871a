// A hostile server: whatever a worker is told, in whatever order, its membership neither crashes
// nor asks for two things at once of what does one, and does nothing after its end. The worker's
// own parts answer honestly or fail.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "package/manifest.h"
#include "program/ir.h"
#include "script.h"
#include "wire/version.h"
#include "worker/membership.h"

namespace {

using namespace weft;
using namespace weft::worker;
namespace pb = wire::pb;

constexpr size_t kMaxScriptEvents = 120;
constexpr uint32_t kLayers = 4;

class NoLayers : public engine::LoadedLayers {};

Offer OfferOf(uint8_t byte) {
  Offer offer;
  offer.memory_bytes = 1 << 20;
  offer.makes_tokens = byte % 3;
  offer.takes_experts = (byte & 4) != 0;
  offer.can_be_hub = (byte & 8) != 0;
  offer.runs_groups = (byte & 16) != 0;
  offer.keeps_state = (byte & 32) != 0;
  offer.datagrams = (byte & 64) != 0;
  if ((byte & 128) != 0) offer.dtypes = {DType::kQ4S};
  if (offer.datagrams) offer.datagram_addresses.push_back({{}, 7});
  return offer;
}

class Hostility {
 public:
  explicit Hostility(Script script)
      : script_(script), membership_(OfferOf(script_.Byte()), {}, [this](MutableByteSpan out) {
          for (uint8_t& byte : out) byte = ++random_;
        }) {}

  void Run() {
    for (size_t i = 0; i < kMaxScriptEvents && !script_.done(); ++i) Next(script_.Byte());
  }

 private:
  void Next(uint8_t what) {
    switch (what % 16) {
      case 0:
        return Init();
      case 1:
        return Control();
      case 2:
        return Feed(MessageReceived{Slice(script_.Bytes())});
      case 3:
        return Prepare();
      case 4:
        return Step();
      case 5:
        return Generate();
      case 6:
        return Shards();
      case 7:
        return Own();
      case 8:
        return Answer(true);
      case 9:
        return Answer(false);
      case 10:
        return Sets();
      case 11:
        return Retire();
      case 12:
        now_ = now_ + Milliseconds(script_.Byte() * 10);
        if (wakes_at_ && now_ >= *wakes_at_) {
          wakes_at_.reset();
          Feed(TimerDue{});
        }
        return;
      case 13:
        return Feed(DatagramReceived{{{{}, script_.Byte()}, script_.Bytes(), now_}});
      default:
        return Answer(true);
    }
  }

  void Init() {
    pb::ServerMessage message;
    pb::Init& init = *message.mutable_init();
    const uint8_t how = script_.Byte();
    init.set_protocol_version(wire::kProtocolVersion);
    init.set_program_version((how & 1) != 0 ? 99 : program::kProgramVersion);
    init.set_package_format(package::kPackageFormat);
    init.set_package_digest(std::string((how & 2) != 0 ? 31 : 32, 'x'));
    init.set_layer_count((how & 4) != 0 ? script_.Word() : kLayers);
    init.set_context_length(100);
    init.set_session_count(2);
    init.set_swarm_id((how & 8) != 0 ? "two" : "one");
    init.set_resume_ms(60'000);
    init.set_ping_interval_ms(500);
    init.set_batches_tokens((how & 16) != 0);
    Feed(ControlReceived{std::move(message)});
  }

  void Control() {
    pb::ServerMessage message;
    const std::vector<uint8_t> bytes = script_.Bytes();
    if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      Feed(ControlReceived{std::move(message)});
  }

  void Range(pb::LayerRange& range) {
    const uint8_t layers = script_.Byte();
    range.set_first(layers % 8);
    range.set_end(layers / 8 % 8);
  }

  void Prepare() {
    pb::ServerMessage message;
    const uint8_t what = script_.Byte();
    if (what % 4 == 3) {
      message.mutable_measure_speed()->set_runs(script_.Byte());
      Range(*message.mutable_measure_speed()->add_ranges());
    } else {
      pb::PrepareStage& prepare = *message.mutable_prepare_stage();
      prepare.set_binding(what / 16);
      prepare.set_stage(1);
      prepare.set_standby((what & 4) != 0);
      prepare.set_is_hub((what & 8) != 0);
      Range(*prepare.mutable_layers());
    }
    Feed(ControlReceived{std::move(message)});
  }

  void Step() {
    wire::FrameHeader header;
    header.sequence = script_.Byte();
    header.binding = script_.Byte() % 16;
    header.stage = 1;
    header.rows = header.columns = 1;
    header.dtype = DType::kI32;
    const wire::Run run = {script_.Byte() % 4u,     script_.Byte() % 2u,
                           script_.Byte() % 128u,   1,
                           wire::OutputKind::kNone, 0};
    std::vector<uint8_t> bytes = wire::EncodeFrameHead(header, {&run, 1}, 4);
    bytes.resize(bytes.size() + 4);
    Feed(MessageReceived{Slice(std::move(bytes))});
  }

  void Generate() {
    const uint8_t what = script_.Byte();
    if (what % 4 == 0)
      return Feed(MessageReceived{
          Slice(wire::EncodeWholeFrame(wire::StopGenerating{script_.Byte(), what / 16u}))});
    wire::Generate generate;
    generate.sequence = script_.Byte();
    generate.binding = what / 16;
    generate.session = script_.Byte() % 4;
    generate.count = 1 + script_.Byte() % 4;
    Feed(MessageReceived{Slice(wire::EncodeWholeFrame(generate))});
  }

  void Shards() {
    const uint8_t what = script_.Byte();
    wire::ExpertFrame frame;
    frame.sequence = script_.Byte() | (what & 64 ? wire::kBatchBit : 0);
    frame.layer = what % 4;
    frame.expert = script_.Byte() % 4;
    frame.tokens = frame.hidden = 1;
    frame.may_sum = (what & 4) != 0;
    frame.rows = Slice(std::vector<uint8_t>(4));
    if (what / 8 % 4 == 1) frame.type = wire::ExpertFrameType::kResult, frame.may_sum = false;
    if (what / 8 % 4 == 2) frame = wire::CancelFrame(frame.sequence, frame.layer, wire::kAnyExpert);
    if (what / 8 % 4 == 3 && !dispatched_.empty()) {
      frame = dispatched_.front();
      frame.type = wire::ExpertFrameType::kResult;
      frame.same_rows = frame.may_sum = false;
      dispatched_.pop_front();
    }
    std::vector<uint8_t> bytes;
    for (const Slice& piece : wire::EncodeShardMessage(5 + what / 128u, {&frame, 1}))
      bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
    Feed(MessageReceived{Slice(std::move(bytes))});
  }

  // What happens on the worker's side.
  void Own() {
    const uint8_t what = script_.Byte();
    if (what % 8 == 0) return Feed(WholeWished{(what & 8) != 0});
    if (what % 8 == 1) return Feed(LeaveAsked{"bye", (what & 8) != 0});
    if (what % 8 == 2) {
      if (std::exchange(is_connected_, false)) Feed(ConnectionLost{});
      return;
    }
    if (what % 8 == 3) {
      if (!std::exchange(is_connected_, true)) Feed(ConnectedAgain{});
      return;
    }
    if (what % 8 == 4 && keeps_ && !is_connected_) Feed(KeptLongEnough{});
  }

  void Sets() {
    pb::ServerMessage message;
    const uint8_t what = script_.Byte();
    wire::ExpertSets* sets = nullptr;
    if ((what & 1) != 0) {
      message.mutable_hold_experts()->set_binding(what / 16);
      sets = message.mutable_hold_experts()->mutable_sets();
    } else {
      message.mutable_expert_holders()->set_statement(what / 16);
      auto& holder = *message.mutable_expert_holders()->add_holders();
      holder.set_peer(5);
      sets = holder.mutable_sets();
    }
    if ((what & 2) != 0) wire::FillExpertSets({{1, {0, 1}}}, *sets);
    Feed(ControlReceived{std::move(message)});
  }

  void Retire() {
    pb::ServerMessage message;
    const uint8_t what = script_.Byte();
    if (what % 4 == 0) {
      message.mutable_invalidate_sessions()->add_sessions(script_.Byte() % 4);
    } else if (what % 4 == 1) {
      message.mutable_release();
    } else if (what % 4 == 2) {
      message.mutable_sampling()->set_session(script_.Byte() % 4);
    } else {
      message.mutable_retire()->add_bindings(what / 16);
      Range(*message.mutable_retire()->add_keep());
    }
    Feed(ControlReceived{std::move(message)});
  }

  void Answer(bool well) {
    const Error error(ErrorCode::kUnavailable, "It went wrong.");
    switch (script_.Byte() % 4) {
      case 0: {
        if (!std::exchange(joining_, false)) return;
        if (!well) return Feed(Joined{error});
        JoinedPackage package;
        package.layer_count = kLayers;
        return Feed(Joined{std::move(package)});
      }
      case 1:
        if (!fetching_) return;
        if (well && !fetching_->empty()) {
          const uint32_t layer = fetching_->front();
          fetching_->pop_front();
          return Feed(LayerFetched{layer, 1, Microseconds(1)});
        }
        fetching_.reset();
        return Feed(FetchEnded{well ? OkStatus() : Status(error)});
      case 2:
        if (!std::exchange(reading_, false)) return;
        if (!well) return Feed(LayersRead{error});
        return Feed(
            LayersRead{std::unique_ptr<engine::LoadedLayers>(std::make_unique<NoLayers>())});
      default: {
        if (!work_) return;
        Work work = std::move(*std::exchange(work_, std::nullopt));
        return well || !CanFail(work) ? Feed(WorkDone{OutcomeOf(work)}) : Feed(WorkDone{error});
      }
    }
  }

  static bool CanFail(const Work& work) {
    return std::holds_alternative<InstallLayers>(work) ||
           std::holds_alternative<InstallExperts>(work) ||
           std::holds_alternative<MeasureSpeed>(work) || std::holds_alternative<RunStep>(work) ||
           std::holds_alternative<ResumeStep>(work) || std::holds_alternative<MakeTokens>(work);
  }

  Outcome OutcomeOf(Work& work) {
    if (std::holds_alternative<InstallLayers>(work)) return Installed{1, 1};
    if (std::holds_alternative<InstallExperts>(work)) return ExpertsInstalled{1};
    if (const auto* measure = std::get_if<MeasureSpeed>(&work)) {
      Timings timings;
      for (const LayerRange& range : measure->ranges)
        timings.of_ranges.push_back({range, std::vector<Duration>(std::min(measure->runs, 64u))});
      return timings;
    }
    if (const auto* step = std::get_if<RunStep>(&work)) {
      const Slice head(wire::EncodeFrameHead(step->frame.header, step->frame.runs, 0));
      if (!IsHub(step->form)) return StepReply{{head}};
      heads_[step->place] = head;
      return StepOrWait(step->place);
    }
    if (const auto* step = std::get_if<ResumeStep>(&work)) return StepOrWait(step->place);
    if (auto* experts = std::get_if<RunExperts>(&work)) {
      ExpertResults results;
      for (wire::ExpertFrame& frame : experts->dispatches) {
        frame.type = wire::ExpertFrameType::kResult;
        frame.same_rows = frame.may_sum = false;
        results.results.push_back(std::move(frame));
      }
      return results;
    }
    if (auto* stock = std::get_if<TakeStock>(&work)) return Stock{std::move(stock->bindings)};
    auto* make = std::get_if<MakeTokens>(&work);
    if (make == nullptr) return Done{};
    MadeTokens made;
    for (wire::Generate& asked : make->asked) {
      MadeOfOne& one = made.of_each.emplace_back();
      one.tokens.sequence = asked.sequence;
      one.tokens.binding = asked.binding;
      one.tokens.last = script_.Byte() % 3 == 0;
      one.rest = std::move(asked);
    }
    return made;
  }

  Outcome StepOrWait(uint32_t place) {
    if (script_.Byte() % 2 == 0) return StepWaits{1, 1, 1, {1.0f}, {0}};
    return StepReply{{heads_[place]}};
  }

  void Feed(Event event) {
    const bool had_ended = membership_.ended();
    now_ = now_ + Microseconds(1);
    std::vector<Action> actions = membership_.Handle(std::move(event), now_);
    CHECK(!had_ended || actions.empty(), "it acts after its end");
    for (Action& action : actions) std::visit([this](auto& each) { Take(each); }, action);
  }

  void Take(Join&) { CHECK(!std::exchange(joining_, true)); }
  void Take(Fetch& fetch) {
    CHECK(!fetching_, "two fetches at once");
    const bool whole = fetch.experts.empty() && !IsHub(fetch.form);
    fetching_.emplace();
    if (whole) fetching_->assign(fetch.layers.begin(), fetch.layers.end());
    for (const uint32_t layer : fetch.layers) CHECK(layer < kLayers, "a layer that there is not");
  }
  void Take(ReadLayers& read) {
    CHECK(!std::exchange(reading_, true), "two readings at once");
    for (const LayerRange& range : read.ranges)
      CHECK(range.first < range.end && range.end <= kLayers);
  }
  void Take(Compute& compute) {
    CHECK(!work_, "two works at once");
    work_.emplace(std::move(compute.work));
  }
  void Take(SendShards& sent) {
    CHECK(!sent.frames.empty() && sent.frames.size() <= wire::kMaxShardFrames);
    for (wire::ExpertFrame& frame : sent.frames)
      if (frame.type == wire::ExpertFrameType::kDispatch && dispatched_.size() < 64)
        dispatched_.push_back(std::move(frame));
  }
  void Take(KeepFor&) { keeps_ = true; }
  void Take(WakeAt& wake) { wakes_at_ = wake.at; }
  void Take(Finish&) { CHECK(membership_.ended()); }
  template <typename Other>
  void Take(Other&) {}

  Script script_;
  uint8_t random_ = 0;
  Membership membership_;
  Instant now_{1'000'000};
  bool joining_ = false, reading_ = false, is_connected_ = true, keeps_ = false;
  std::optional<std::deque<uint32_t>> fetching_;
  std::optional<Work> work_;
  std::optional<Instant> wakes_at_;
  std::map<uint32_t, Slice> heads_;
  std::deque<wire::ExpertFrame> dispatched_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  Hostility(Script(data, byte_count)).Run();
  return 0;
}
