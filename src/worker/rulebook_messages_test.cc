// Messages of a server, shard messages and outcomes of work from the words of
// tests/conformance/membership.
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "package/manifest.h"
#include "program/ir.h"
#include "wire/fork_frame.h"
#include "wire/version.h"
#include "worker/rulebook_testing.h"

namespace weft::worker {
namespace {

namespace json = boost::json;
namespace pb = wire::pb;

std::vector<uint8_t> ControlBytes(const json::value& words) {
  pb::ServerMessage message;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json::serialize(words), &message);
  CHECK(parsed.ok());
  std::vector<uint8_t> bytes(1 + message.ByteSizeLong());
  bytes[0] = wire::kControlByte;
  CHECK(message.SerializeToArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
  return bytes;
}

std::vector<uint8_t> BytesOf(const pb::ServerMessage& message) {
  std::vector<uint8_t> bytes(1 + message.ByteSizeLong());
  bytes[0] = wire::kControlByte;
  CHECK(message.SerializeToArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
  return bytes;
}

std::vector<uint8_t> FromHex(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    std::from_chars(hex.data() + i, hex.data() + i + 2, bytes.emplace_back(), 16);
  return bytes;
}

// One row for each run, [session, first position].
std::vector<uint8_t> StepBytes(const json::value& words) {
  std::vector<wire::Run> runs;
  if (const auto* named = At(words, "runs").if_array())
    for (const json::value& run : *named)
      runs.push_back({run.at(0).to_number<uint32_t>(), 0, run.at(1).to_number<uint32_t>(), 1,
                      wire::OutputKind::kNone, 0});
  else
    runs.push_back({1, 0, 0, 1, wire::OutputKind::kNone, 0});
  wire::FrameHeader header;
  header.sequence = Number(words, "sequence");
  header.binding = Number(words, "binding");
  header.stage = static_cast<uint16_t>(Number(words, "stage"));
  header.rows = static_cast<uint16_t>(runs.size());
  header.columns = 1;
  header.dtype = DType::kI32;
  std::vector<uint8_t> bytes = wire::EncodeFrameHead(header, runs, 4 * runs.size());
  bytes.resize(bytes.size() + 4 * runs.size());
  return bytes;
}

std::vector<uint8_t> GenerateBytes(const json::value& words) {
  wire::Generate generate;
  generate.sequence = Number(words, "sequence");
  generate.binding = Number(words, "binding");
  generate.session = Number(words, "session", 1);
  generate.position = Number(words, "position", 3);
  generate.count = 8;
  generate.interval = 2;
  return wire::EncodeWholeFrame(generate);
}

std::vector<wire::LayerExperts> SetsOf(const json::value& words) {
  std::vector<wire::LayerExperts> sets;
  for (const json::value& named : words.as_array()) {
    wire::LayerExperts& set = sets.emplace_back();
    set.layer = named.at(0).to_number<uint32_t>();
    for (size_t i = 1; i < named.as_array().size(); ++i)
      set.experts.push_back(named.at(i).to_number<uint32_t>());
  }
  return sets;
}

// One for each expert, all of the same rows.
void AddFrames(wire::ExpertFrameType type, const json::value& words,
               std::vector<wire::ExpertFrame>* frames) {
  const bool is_cancel = type == wire::ExpertFrameType::kCancel;
  wire::ExpertFrame frame;
  frame.type = type;
  frame.sequence = Number(words, "sequence", 1);
  if (At(words, "otherBatch").is_bool()) frame.sequence |= wire::kBatchBit;
  frame.layer = static_cast<uint16_t>(Number(words, "layer"));
  frame.tokens = is_cancel ? 0 : Number(words, "tokens", 1);
  frame.hidden = static_cast<uint16_t>(is_cancel ? 0 : Number(words, "hidden", 1));
  frame.rows = Slice(std::vector<uint8_t>(size_t{4} * frame.tokens * frame.hidden));
  std::vector<uint16_t> experts = {wire::kAnyExpert};
  if (const auto* named = At(words, "experts").if_array()) {
    experts.clear();
    for (const json::value& expert : *named) experts.push_back(expert.to_number<uint16_t>());
  }
  for (const uint16_t expert : experts) {
    frame.expert = expert;
    frames->push_back(frame);
    frame.same_rows = !is_cancel;
  }
}

std::vector<uint8_t> ShardBytes(const json::value& words) {
  std::vector<wire::ExpertFrame> frames;
  for (const json::value& named : At(words, "frames").as_array()) {
    const auto& [name, frame] = *named.as_object().begin();
    using Type = wire::ExpertFrameType;
    AddFrames(name == "cancel"   ? Type::kCancel
              : name == "result" ? Type::kResult
                                 : Type::kDispatch,
              frame, &frames);
  }
  std::vector<uint8_t> bytes;
  for (const Slice& piece : wire::EncodeShardMessage(Number(words, "peer"), frames))
    bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
  return bytes;
}

// Who holds expert 0 of layer 1.
std::vector<uint8_t> HoldersBytes(const json::value& words) {
  pb::ServerMessage message;
  auto& statement = *message.mutable_expert_holders();
  statement.set_statement(Number(words, "statement"));
  statement.set_self(Number(words, "self"));
  for (const json::value& peer : At(words, "peers").as_array()) {
    auto& holder = *statement.add_holders();
    holder.set_peer(peer.to_number<uint32_t>());
    wire::FillExpertSets({{1, {0}}}, *holder.mutable_sets());
  }
  return BytesOf(message);
}

wire::WholeModel::State StateOf(const std::string& name) {
  using State = wire::WholeModel::State;
  return name == "fits"    ? State::kFits
         : name == "here"  ? State::kHere
         : name == "asked" ? State::kAsked
                           : State::kTooLarge;
}

}  // namespace

const json::value& At(const json::value& words, const char* name) {
  static const json::value kNone;
  const json::object* object = words.if_object();
  const json::value* found = object ? object->if_contains(name) : nullptr;
  return found ? *found : kNone;
}

uint32_t Number(const json::value& words, const char* name, uint32_t otherwise) {
  const json::value& value = At(words, name);
  return value.is_null() ? otherwise : value.to_number<uint32_t>();
}

std::string TextOf(const json::value& words) {
  return json::value_to<std::string>(words);
}

Error ErrorOf(const json::value& code) {
  for (const ErrorCode each :
       {ErrorCode::kInvalidArgument, ErrorCode::kInvalidData, ErrorCode::kNotFound, ErrorCode::kIo,
        ErrorCode::kOutOfMemory, ErrorCode::kUnavailable, ErrorCode::kCancelled})
    if (TextOf(code) == ErrorCodeName(each)) return Error(each, "It went wrong.");
  CHECK(false);
}

std::vector<uint8_t> InitBytes(const json::value& changes) {
  json::object init = {{"protocolVersion", wire::kProtocolVersion},
                       {"programVersion", program::kProgramVersion},
                       {"packageFormat", package::kPackageFormat},
                       {"packageDigest", std::string(43, 'A') + "="},
                       {"layerCount", 6},
                       {"contextLength", 100},
                       {"sessionCount", 2},
                       {"swarmId", "b25l"},
                       {"resumeMs", 60'000},
                       {"pingIntervalMs", 500},
                       {"batchesTokens", true}};
  for (const auto& [name, value] : changes.as_object()) init[name] = value;
  return ControlBytes(json::object{{"init", init}});
}

std::vector<uint8_t> MessageBytes(const std::string& name, const json::value& words) {
  if (name == "server") return ControlBytes(words);
  if (name == "bytes") return FromHex(TextOf(words));
  if (name == "step") return StepBytes(words);
  if (name == "generate") return GenerateBytes(words);
  if (name == "shards") return ShardBytes(words);
  if (name == "holders") return HoldersBytes(words);
  if (name == "stop")
    return wire::EncodeWholeFrame(
        wire::StopGenerating{Number(words, "sequence"), Number(words, "binding")});
  if (name == "wholeModel")
    return wire::EncodeWholeFrame(wire::WholeModel{StateOf(TextOf(words)), ""});
  if (name == "runHere") return wire::EncodeWholeFrame(wire::RunHere{true, ""});
  if (name == "fork")
    return wire::EncodeFork({Number(words, "binding"), 0, Number(words, "from"),
                             Number(words, "to"), 1, Number(words, "positions")});
  CHECK(name == "holdExperts");
  pb::ServerMessage message;
  message.mutable_hold_experts()->set_binding(Number(words, "binding"));
  wire::FillExpertSets(SetsOf(At(words, "sets")), *message.mutable_hold_experts()->mutable_sets());
  return BytesOf(message);
}

PlayedWork::PlayedWork(const Work& work) {
  if (std::holds_alternative<InstallLayers>(work)) plain_ = Installed{1, 100};
  if (std::holds_alternative<InstallExperts>(work)) plain_ = ExpertsInstalled{50};
  if (std::holds_alternative<RunStep>(work) || std::holds_alternative<ResumeStep>(work))
    plain_ = StepReply{};
  if (const auto* measure = std::get_if<MeasureSpeed>(&work)) {
    plain_ = Timings{};
    measured_ = measure->ranges;
  }
  if (const auto* experts = std::get_if<RunExperts>(&work)) {
    plain_ = ExpertResults{};
    dispatches_ = experts->dispatches;
  }
  if (const auto* tokens = std::get_if<MakeTokens>(&work)) {
    plain_ = MadeTokens{};
    generates_ = tokens->asked;
  }
  if (const auto* stock = std::get_if<TakeStock>(&work)) {
    plain_ = Stock{};
    bindings_ = stock->bindings;
  }
}

Outcome PlayedWork::Of(const json::value& details) const {
  if (!At(details, "waits").is_null()) return StepWaits{1, 1, 1, {1.0f}, {0}};
  if (std::holds_alternative<Installed>(plain_)) {
    const json::value& factor = At(details, "weightFactor");
    return Installed{factor.is_null() ? 1 : factor.to_number<double>(), 100};
  }
  if (std::holds_alternative<ExpertResults>(plain_)) {
    ExpertResults results{dispatches_, Milliseconds(1)};
    for (wire::ExpertFrame& frame : results.results) frame.type = wire::ExpertFrameType::kResult;
    return results;
  }
  if (std::holds_alternative<Timings>(plain_)) {
    Timings timings;
    for (const LayerRange range : measured_) {
      Timing& timing = timings.of_ranges.emplace_back(Timing{range, {}});
      if (const auto* runs = At(details, "runUs").if_array())
        for (const json::value& us : *runs)
          timing.runs.push_back(Microseconds(us.to_number<int64_t>()));
    }
    return timings;
  }
  if (std::holds_alternative<Stock>(plain_)) {
    Stock stock{bindings_};
    for (pb::HeldBinding& binding : stock.bindings)
      if (const auto* of =
              At(At(details, "held"), std::to_string(binding.id()).c_str()).if_object())
        for (const auto& [session, positions] : *of) {
          uint32_t number = 0;
          std::from_chars(session.data(), session.data() + session.size(), number);
          binding.add_sessions(number);
          binding.add_positions(positions.to_number<uint32_t>());
        }
    return stock;
  }
  if (!std::holds_alternative<MadeTokens>(plain_)) return plain_;
  MadeTokens made;
  for (const json::value& words : At(details, "tokens").as_array()) {
    MadeOfOne& one = made.of_each.emplace_back();
    const uint32_t sequence = Number(words, "sequence");
    one.rest = *std::find_if(generates_.begin(), generates_.end(),
                             [&](const auto& generate) { return generate.sequence == sequence; });
    one.tokens.sequence = sequence;
    one.tokens.binding = one.rest.binding;
    one.tokens.last = At(words, "last").is_bool();
    if (const auto* ids = At(words, "tokens").if_array())
      for (const json::value& id : *ids) one.tokens.token_ids.push_back(id.to_number<int32_t>());
    if (const json::value& code = At(words, "fails"); !code.is_null()) one.error = ErrorOf(code);
  }
  return made;
}

}  // namespace weft::worker
