// What a membership asks for, in the words of tests/conformance/membership.
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "package/manifest.h"
#include "worker/rulebook_testing.h"

namespace weft::worker {
namespace {

namespace json = boost::json;
namespace pb = wire::pb;

json::value Pair(LayerRange range) {
  return json::array{range.first, range.end};
}

json::value Pairs(const std::vector<LayerRange>& ranges) {
  json::array pairs;
  for (const LayerRange range : ranges) pairs.push_back(Pair(range));
  return pairs;
}

json::value Numbers(std::vector<uint32_t> numbers, bool sorted = true) {
  if (sorted) std::sort(numbers.begin(), numbers.end());
  return json::value_from(numbers);
}

// Ranges that touch as one, in order: [[0, 2], [2, 3]] are [[0, 3]].
json::value JoinedRanges(const std::vector<LayerRange>& ranges) {
  std::set<uint32_t> layers;
  for (const LayerRange range : ranges)
    for (uint32_t layer = range.first; layer < range.end; ++layer) layers.insert(layer);
  std::vector<LayerRange> joined;
  for (const uint32_t layer : layers)
    if (!joined.empty() && joined.back().end == layer)
      ++joined.back().end;
    else
      joined.push_back({layer, layer + 1});
  return Pairs(joined);
}

json::value SetWords(const std::vector<wire::LayerExperts>& sets) {
  json::array words;
  for (const wire::LayerExperts& set : sets) {
    json::array& named = words.emplace_back(json::array{set.layer}).as_array();
    for (const uint32_t expert : set.experts) named.push_back(expert);
  }
  return words;
}

json::value ExpertWords(const std::vector<wire::ExpertFrame>& frames) {
  json::array words;
  for (const wire::ExpertFrame& frame : frames) {
    if (frame.type == wire::ExpertFrameType::kHeartbeat) {
      const wire::Heartbeat heartbeat = wire::ReadHeartbeat(frame);
      words.emplace_back("heartbeat: " + std::to_string(heartbeat.waiting) + " wait, " +
                         std::to_string(heartbeat.held_bytes) + " bytes held");
      continue;
    }
    words.emplace_back((frame.failed ? "failed " : "") + std::to_string(frame.layer) + ":" +
                       std::to_string(frame.expert));
  }
  return words;
}

// Numbers that protobuf writes as text are numbers; of an error the code counts, not the sentence.
void MakePlain(json::value& words) {
  if (auto* text = words.if_string()) {
    const bool is_number = !text->empty() && std::all_of(text->begin(), text->end(), [](char c) {
      return '0' <= c && c <= '9';
    });
    if (is_number) words = json::parse(*text);
  } else if (auto* list = words.if_array()) {
    for (json::value& each : *list) MakePlain(each);
  } else if (auto* object = words.if_object()) {
    if (object->contains("code")) object->erase("message");
    for (auto& [name, each] : *object) MakePlain(each);
  }
}

json::value ConnectWords(const pb::Connect& connect) {
  json::object words;
  json::object held;
  for (const pb::HeldBinding& binding : connect.held()) {
    json::object sessions;
    for (int i = 0; i < binding.sessions_size(); ++i)
      sessions[std::to_string(binding.sessions(i))] = binding.positions(i);
    held[std::to_string(binding.id())] = sessions;
  }
  if (!held.empty()) words["held"] = held;
  if (!connect.cached_layers().empty())
    words["cachedLayers"] =
        Numbers({connect.cached_layers().begin(), connect.cached_layers().end()}, false);
  if (connect.makes_tokens() > 0) words["makesTokens"] = connect.makes_tokens();
  if (connect.package_format() != package::kPackageFormat)
    words["packageFormat"] = connect.package_format();
  if (connect.seen_incarnation() > 0) words["seenIncarnation"] = connect.seen_incarnation();
  return json::object{{"connect", words}};
}

json::value ControlWords(const pb::WorkerMessage& message) {
  if (message.has_connect()) return ConnectWords(message.connect());
  if (message.has_pong())
    return json::object{
        {"pong",
         {{"nonce", message.pong().nonce()}, {"padding", message.pong().padding().size()}}}};
  std::string text;
  CHECK(google::protobuf::util::MessageToJsonString(message, &text).ok());
  json::value words = json::parse(text);
  MakePlain(words);
  return json::object{{"say", words}};
}

json::value FrameWords(const std::vector<Slice>& message) {
  if (message.empty()) return "result";
  const auto frame = wire::DecodeWholeFrame(message.at(0).bytes());
  CHECK(frame.ok());
  if (const auto* here = std::get_if<wire::RunHere>(&*frame))
    return json::object{{"runHere", here->wanted}};
  const auto& tokens = std::get<wire::Tokens>(*frame);
  json::object words = {{"sequence", tokens.sequence},
                        {"tokens", json::value_from(tokens.token_ids)}};
  if (tokens.last) words["last"] = true;
  return json::object{{"tokens", words}};
}

std::vector<std::pair<std::string, std::string>> NamesOf(const KnowSuccessors& action) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& each : action.successors) names.emplace_back(each.url(), each.fingerprint());
  return names;
}

struct WorkNamer {
  json::value operator()(const InstallLayers& each) {
    return json::object{
        {"install", {{"binding", each.binding}, {"layers", Pair(each.ranges.at(0))}}}};
  }
  // The read before it names them.
  json::value operator()(const InstallExperts&) { return nullptr; }
  json::value operator()(const MeasureSpeed& each) {
    json::object words = {{"ranges", Pairs(each.ranges)}, {"runs", each.runs}};
    json::array probes;
    for (const Probe& probe : each.probes)
      probes.push_back(json::object{{"layers", Pair(probe.layers)}, {"rows", probe.rows}});
    if (!probes.empty()) words["probes"] = probes;
    return json::object{{"measure", words}};
  }
  json::value operator()(const RunStep& each) {
    return json::object{
        {IsHub(each.form) ? "hubStep" : "step",
         {{"sequence", each.frame.header.sequence}, {"layers", Pair(each.layers)}}}};
  }
  json::value operator()(const ResumeStep& each) { return json::object{{"resume", each.place}}; }
  json::value operator()(const PredictNext& each) { return json::object{{"predict", each.place}}; }
  json::value operator()(const AbandonSteps& each) {
    return json::object{{"abandon", Numbers(each.places)}};
  }
  json::value operator()(const RunExperts& each) {
    return json::object{{"experts", ExpertWords(each.dispatches)}};
  }
  json::value operator()(const MakeTokens& each) {
    std::vector<uint32_t> sequences;
    for (const wire::Generate& asked : each.asked) sequences.push_back(asked.sequence);
    return json::object{{"makeTokens", Numbers(sequences)}};
  }
  json::value operator()(const ForkSession& each) {
    return json::object{{"fork",
                         {{"from", each.fork.from},
                          {"to", each.fork.to},
                          {"positions", each.fork.position_count},
                          {"layers", Pair(each.layers)}}}};
  }
  json::value operator()(const TakeSampling& each) {
    return json::object{{"sampling", each.message.session()}};
  }
  json::value operator()(const ReleaseSessions& each) {
    return json::object{{"release", Numbers(each.sessions)}};
  }
  json::value operator()(const ReleaseAll&) { return "releaseAll"; }
  json::value operator()(const KeepLayers& each) {
    json::object words = {{"keep", JoinedRanges(each.ranges)}};
    if (!each.hubs.empty()) words["hubs"] = JoinedRanges(each.hubs);
    return words;
  }
  json::value operator()(const TakeStock& each) {
    std::vector<uint32_t> bindings;
    for (const pb::HeldBinding& binding : each.bindings) bindings.push_back(binding.id());
    return json::object{
        {"takeStock",
         {{"bindings", Numbers(bindings, false)}, {"sessions", Numbers(each.sessions)}}}};
  }
};

const char* EndingOf(ErrorCode code) {
  if (code == ErrorCode::kUnavailable) return "retry";
  return code == ErrorCode::kInvalidData ? "violation" : "refused";
}

struct ActionNamer {
  using Words = std::optional<json::value>;
  Words operator()(const SendControl& each) { return ControlWords(each.message); }
  Words operator()(const SendFrame& each) { return FrameWords(each.message); }
  Words operator()(const SendShards& each) {
    return json::object{{"shards", {{"peer", each.peer}, {"frames", ExpertWords(each.frames)}}}};
  }
  Words operator()(const SendDatagrams&) { return "datagrams"; }
  Words operator()(const Join&) { return "join"; }
  Words operator()(const Fetch& each) {
    if (!each.experts.empty()) return json::object{{"fetchExperts", SetWords(each.experts)}};
    return json::object{{IsHub(each.form) ? "fetchHub" : "fetch", Numbers(each.layers, false)}};
  }
  Words operator()(const InterruptFetch&) { return "interruptFetch"; }
  Words operator()(const ReadLayers& each) {
    if (each.experts) return json::object{{"installExperts", SetWords(*each.experts)}};
    return std::nullopt;
  }
  Words operator()(const InterruptRead&) { return std::nullopt; }
  Words operator()(const Compute& each) { return std::visit(WorkNamer(), each.work); }
  Words operator()(const Finish& each) {
    return json::object{{"finish", EndingOf(each.error.code())}, {"says", each.error.message()}};
  }
  Words operator()(const HangUp& each) {
    return json::object{{"hangUp", each.later ? "later" : "soon"}, {"says", each.reason}};
  }
  Words operator()(const KnowSuccessors& each) {
    json::array successors;
    for (const auto& [url, fingerprint] : NamesOf(each))
      successors.emplace_back(fingerprint.empty() ? url : url + " " + fingerprint);
    return json::object{{"successors", successors}};
  }
  Words operator()(const KeepFor& each) { return json::object{{"keepFor", each.time.us / 1000}}; }
  Words operator()(const WakeAt& each) { return each.at ? "wakeLater" : "wakeNever"; }
  Words operator()(const LimitSilence& each) {
    return json::object{{"limitSilence", each.time.us / 1000}};
  }
};

}  // namespace

std::optional<json::value> WordOf(const Action& action) {
  return std::visit(ActionNamer(), action);
}

}  // namespace weft::worker
