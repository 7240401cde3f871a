// The rules of docs/protocol.md for workers, case by case: tests/conformance/membership. The same
// ones run through web/packages/worker/src/membership/rulebook.test.ts.
//
// Here layers are read beside the steps before they become part of the engine, also those that are
// only to be measured. The table knows all of that as one piece, so this plays the reader.
#include <gtest/gtest.h>
#include <weft_source_dir.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "worker/membership_testing.h"
#include "worker/rulebook_testing.h"

namespace weft::worker {
namespace {

namespace json = boost::json;

const std::filesystem::path kFolder =
    std::filesystem::path(WEFT_SOURCE_DIR) / "tests/conformance/membership";

Offer OfferOf(const json::value& options) {
  Offer offer;
  offer.makes_tokens = Number(options, "makesTokens");
  offer.steps_in_flight = Number(options, "stepsInFlight", 1);
  offer.takes_experts = At(options, "takesExperts").is_bool();
  offer.can_be_hub = At(options, "canBeHub").is_bool();
  offer.needs_onnx = At(options, "needsOnnx").is_bool();
  return offer;
}

class Player {
 public:
  explicit Player(const json::value& options) : membership_(OfferOf(options)) {}

  // What it is asked for in answer, in words.
  json::array Tell(const json::value& on, const json::value& at = nullptr) {
    if (!at.is_null()) now_ = kBegin + Milliseconds(at.to_number<int64_t>());
    words_.clear();
    On(on);
    return std::move(words_);
  }

 private:
  static constexpr Instant kBegin{1'000'000};

  void On(const json::value& on) {
    if (const auto* name = on.if_string()) return OnPlain(std::string(*name));
    const auto& [key, value] = *on.as_object().begin();
    const std::string name(key);
    if (name == "done") return End(value);
    if (name == "fails") return Fail(value);
    if (name == "init") return Handle(MessageReceived{Slice(InitBytes(value))});
    if (name == "joined") return OnJoined(value);
    if (name == "joinFails")
      return Handle(Joined{
          Error(TextOf(value) == "retry" ? ErrorCode::kUnavailable : ErrorCode::kPermissionDenied,
                "No.")});
    if (name == "fetchFails") return Handle(FetchEnded{ErrorOf(value)});
    if (name == "fetchProgressed")
      return Handle(
          FetchProgressed{value.at(0).to_number<uint64_t>(), value.at(1).to_number<uint64_t>()});
    if (name == "layerFetched")
      return Handle(LayerFetched{Number(value, "layer"), Number(value, "byteCount"),
                                 Microseconds(Number(value, "elapsedUs"))});
    if (name == "wish") return Handle(WholeWished{value.as_bool(), ""});
    if (name == "leave") return Handle(LeaveAsked{"stopped", At(value, "draining").is_bool()});
    Handle(MessageReceived{Slice(MessageBytes(name, value))});
  }

  void OnPlain(const std::string& name) {
    if (name == "done") return End(json::object());
    if (name == "joined") return OnJoined(json::object());
    if (name == "fetched") return Handle(FetchEnded{});
    if (name == "lost") return Handle(ConnectionLost{});
    if (name == "again") return Handle(ConnectedAgain{});
    if (name == "timer") return Handle(TimerDue{});
    ASSERT_EQ(name, "keptLongEnough");
    Handle(KeptLongEnough{});
  }

  void OnJoined(const json::value& words) {
    JoinedPackage package;
    package.layer_count = Number(words, "layers", 6);
    if (const auto* cached = At(words, "cachedLayers").if_array())
      for (const json::value& layer : *cached)
        package.cached_layers.push_back(layer.to_number<uint32_t>());
    Handle(Joined{package});
  }

  // What was begun first.
  void End(const json::value& details) {
    ASSERT_FALSE(under_way_.empty()) << "nothing is under way";
    WorkDone done{under_way_.front().Of(details)};
    under_way_.pop_front();
    Handle(std::move(done));
  }
  void Fail(const json::value& how) {
    ASSERT_FALSE(under_way_.empty()) << "nothing is under way";
    under_way_.pop_front();
    Handle(WorkDone{ErrorOf(how)});
  }

  void Handle(Event event) {
    bool reads = false;
    for (const Action& action : membership_.Handle(std::move(event), now_)) {
      if (const auto* read = std::get_if<ReadLayers>(&action)) {
        reads = true;
        if (read->experts) experts_ = *WordOf(action);
      } else if (const auto* compute = std::get_if<Compute>(&action)) {
        Begin(action, compute->work);
      } else if (auto word = WordOf(action)) {
        words_.push_back(*std::move(word));
      }
    }
    if (reads)
      Handle(LayersRead{std::unique_ptr<engine::LoadedLayers>(std::make_unique<NoLayers>())});
    if (std::exchange(installs_to_measure_, false)) End(json::object());
  }

  void Begin(const Action& action, const Work& work) {
    under_way_.emplace_back(work);
    const auto* install = std::get_if<InstallLayers>(&work);
    installs_to_measure_ = install && install->binding == 0;
    if (std::holds_alternative<InstallExperts>(work))
      words_.push_back(experts_);
    else if (!installs_to_measure_)
      words_.push_back(*WordOf(action));
  }

  Instant now_ = kBegin;
  Membership membership_;
  std::deque<PlayedWork> under_way_;
  json::value experts_;
  bool installs_to_measure_ = false;
  json::array words_;
};

// What has to have happened before a case.
void Give(Player& player, const json::value& given) {
  if (given.is_string()) {
    player.Tell(json::object{{"init", json::object()}});
    player.Tell("joined");
  } else if (const json::value& holders = At(given, "holders"); !holders.is_null()) {
    player.Tell(given);
  } else if (const json::value& experts = At(given, "experts"); !experts.is_null()) {
    player.Tell(json::object{{"holdExperts", experts}});
    player.Tell("fetched");
    player.Tell("done");
  } else {
    const json::value& binding = At(given, "binding");
    const json::value& layers = At(binding, "layers");
    json::object stage = {{"binding", Number(binding, "id")},
                          {"stage", Number(binding, "stage")},
                          {"isHub", At(binding, "hub").is_bool()},
                          {"layers", {{"first", layers.at(0)}, {"end", layers.at(1)}}}};
    player.Tell(json::object{{"server", {{"prepareStage", stage}}}});
    player.Tell("fetched");
    player.Tell("done");
  }
}

// Takes sentences out of endings, where they hold what the case says, or the case says nothing.
void CompareSentences(json::array& words, json::array& expected) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].is_object() || !words[i].as_object().contains("says")) continue;
    json::object* own = i < expected.size() ? expected[i].if_object() : nullptr;
    const json::value* says = own ? own->if_contains("says") : nullptr;
    const std::string said = TextOf(words[i].at("says"));
    if (says && said.find(TextOf(*says)) == std::string::npos) continue;
    words[i].as_object().erase("says");
    if (own) own->erase("says");
  }
}

void RunSteps(Player& player, const json::value& steps, const std::string& where) {
  for (const json::value& step : steps.as_array()) {
    json::array expected = step.at("do").as_array();
    json::array words = player.Tell(step.at("on"), At(step, "at"));
    CompareSentences(words, expected);
    ASSERT_TRUE(words == expected)
        << where << ", on " << json::serialize(step.at("on")) << "\n  asks for "
        << json::serialize(words) << "\n  expected " << json::serialize(expected);
  }
}

class RulebookTest : public testing::TestWithParam<std::string> {};

TEST_P(RulebookTest, Holds) {
  std::ifstream file(kFolder / (GetParam() + ".json"));
  std::stringstream text;
  text << file.rdbuf();
  const json::value each = json::parse(text.str());
  json::value branches = At(each, "branches");
  if (branches.is_null())
    branches = json::array{json::object{{"name", each.at("name")}, {"steps", json::array()}}};
  for (const json::value& branch : branches.as_array()) {
    Player player(At(each, "options"));
    if (const auto* given = At(each, "given").if_array())
      for (const json::value& part : *given) Give(player, part);
    const std::string name = TextOf(branch.at("name"));
    RunSteps(player, each.at("steps"), name);
    if (HasFatalFailure()) return;
    RunSteps(player, branch.at("steps"), name);
    if (HasFatalFailure()) return;
  }
}

std::vector<std::string> Cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Membership, RulebookTest, testing::ValuesIn(Cases()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace weft::worker
