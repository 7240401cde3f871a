// What `weft plan` finds out about devices: strategies, metrics left out, what changes.
#include "apps/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/plan_devices.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;

// Ten layers of 20 MB.
swarm::CoreOptions TenLayers() {
  swarm::ModelInfo model;
  model.layers.assign(10, {20'000'000, 20'000'000, 20'000'000, 64});
  model.hidden_columns = 512;
  model.vocabulary = 1000;
  model.context_length = 2048;
  return swarm::OptionsFor(model, 512, 1);
}

std::vector<swarm::DeviceNumbers> Devices(const std::vector<std::string>& texts) {
  std::vector<swarm::DeviceNumbers> devices;
  for (const std::string& text : texts) {
    auto device = ParseDevice(text, 10);
    EXPECT_TRUE(device.ok()) << text;
    devices.push_back(*device);
  }
  return devices;
}

PlanCase Solve(const std::vector<std::string>& texts, const PlanSettings& settings = {}) {
  return SolvePlanCase(TenLayers(), Devices(texts), settings);
}

constexpr const char* kFast = "fast=120MB,read_gb_per_s=20,download_mb_per_s=100";
constexpr const char* kSlow = "slow=170MB,read_gb_per_s=2,download_mb_per_s=100";
constexpr const char* kSpare = "spare=260MB,read_gb_per_s=5,download_mb_per_s=100";

TEST(PlanReport, AnAddedDeviceMakesAModelRunAndSurviveLosses) {
  EXPECT_THAT(SummaryOf(Solve({kFast})), HasSubstr("does not run: "));
  EXPECT_THAT(SummaryOf(Solve({kFast})), HasSubstr(" of memory are missing"));
  const PlanCase two = Solve({kFast, kSlow});
  ASSERT_TRUE(two.outcome.plan) << two.outcome.problem;
  EXPECT_THAT(SummaryOf(two), HasSubstr(" tokens/s on 2 of 2 devices, ready after "));
  EXPECT_THAT(SummaryOf(two), HasSubstr("; survives the loss of none"));
  const PlanCase three = Solve({kFast, kSlow, kSpare});
  EXPECT_THAT(SummaryOf(three), HasSubstr("; survives the loss of any device"));
  EXPECT_LT(three.outcome.plan->exec_us, two.outcome.plan->exec_us);
  EXPECT_THAT(ReportOf(two), HasSubstr("everything stops: "));
  EXPECT_THAT(ReportOf(three), HasSubstr("answers stand still for "));
  EXPECT_THAT(ReportOf(three), HasSubstr("[==="));
  // The fast one and the spare one hold the model; without the fast one, the spare one alone.
  EXPECT_THAT(SummaryOf(Solve({"tiny=30MB,read_gb_per_s=40", kSpare})), HasSubstr("tokens/s on "));
}

// Three devices hold the model alone: each answers conversations of its own, if there are several.
TEST(PlanReport, TellsOfPlansBesideTheFirst) {
  const std::vector<swarm::DeviceNumbers> devices =
      Devices({"one=300MB,read_gb_per_s=20", "two=300MB,read_gb_per_s=10",
               "three=300MB,read_gb_per_s=5", "small=5MB,read_gb_per_s=40"});
  swarm::CoreOptions core = TenLayers();
  EXPECT_TRUE(SolvePlanCase(core, devices, {}).side_plans.empty()) << "a single conversation";
  core.session_count = 4;
  const PlanCase several = SolvePlanCase(core, devices, {});
  ASSERT_EQ(several.side_plans.size(), 2u);
  EXPECT_LT(several.outcome.plan->exec_us, several.side_plans[0].exec_us);
  EXPECT_LT(several.side_plans[0].exec_us, several.side_plans[1].exec_us);
  EXPECT_THAT(ReportOf(several), HasSubstr("Beside it, for conversations of their own: "));
  EXPECT_THAT(ReportOf(several), HasSubstr("; three "));
  EXPECT_THAT(ReportOf(several), HasSubstr(". Together "));
  EXPECT_EQ(JsonOf(several).at("side_plans").as_array().size(), 2u);
}

TEST(PlanReport, SaysWhatConversationsTake) {
  swarm::CoreOptions options = TenLayers();
  const std::vector<swarm::DeviceNumbers> devices = Devices({"big=2GB,read_gb_per_s=20"});
  EXPECT_THAT(
      ReportOf(SolvePlanCase(options, devices, {})),
      HasSubstr("Memory of 1 conversation of 512 positions, counted in the plan: 327.7 kB of "
                "keys and values.\n"));
  options.session_count = 4;
  options.marks = 2;
  options.model.layers[3].state_bytes = 1'000'000;
  const PlanCase recurrent = SolvePlanCase(options, devices, {});
  EXPECT_THAT(ReportOf(recurrent),
              HasSubstr("1.3 MB of keys and values, 16.0 MB of recurrent state (4 states each: the "
                        "last, the next and 2 at marks)."));
  EXPECT_EQ(JsonOf(recurrent).at("state_bytes"), 16'000'000u);
  const PlanCase before = SolvePlanCase(TenLayers(), devices, {});
  EXPECT_GE(recurrent.outcome.plan->stages[0].memory_bytes,
            before.outcome.plan->stages[0].memory_bytes + 16'000'000);
}

TEST(PlanReport, OtherStrategiesAreSlowerAndNamed) {
  PlanSettings settings;
  const double ours = Solve({kFast, kSlow, kSpare}).outcome.plan->total_cost;
  settings.choice = planner::PlanChoice::kEqual;
  settings.equal_parts = 3;
  const PlanCase equal = Solve({kFast, kSlow, kSpare}, settings);
  ASSERT_TRUE(equal.outcome.plan) << equal.outcome.problem;
  ASSERT_EQ(equal.outcome.plan->stages.size(), 3u);
  EXPECT_EQ(equal.outcome.plan->stages[0].end_layer, 2);
  EXPECT_EQ(equal.outcome.plan->stages[1].end_layer, 6);
  EXPECT_GT(equal.outcome.plan->total_cost, ours);
  EXPECT_THAT(ReportOf(equal), HasSubstr("Search equally over 3 workers: to compare with"));
  settings.equal_parts = 0;
  for (const auto choice : {planner::PlanChoice::kMemory, planner::PlanChoice::kPermutation}) {
    settings.choice = choice;
    const PlanCase other = Solve({kFast, kSlow, kSpare}, settings);
    ASSERT_TRUE(other.outcome.plan) << other.outcome.problem;
    EXPECT_GE(other.outcome.plan->total_cost, ours * (1 - 1e-9));
  }
}

TEST(PlanReport, WhoIsBlindForBandwidthTakesTheSlowLink) {
  PlanSettings settings;
  settings.without = {planner::Metric::kBandwidth};
  // Two are needed. The fastest is behind a line of 20 kB/s.
  const std::vector<std::string> three = {"near=170MB,read_gb_per_s=5,download_mb_per_s=100",
                                          "nearer=170MB,read_gb_per_s=5,download_mb_per_s=100",
                                          "far=170MB,read_gb_per_s=6,download_mb_per_s=0.02"};
  const PlanCase seeing = Solve(three), blind = Solve(three, settings);
  ASSERT_TRUE(seeing.outcome.plan && blind.outcome.plan);
  const auto uses_far = [](const PlanCase& of) {
    const auto& stages = of.outcome.plan->stages;
    return std::any_of(stages.begin(), stages.end(),
                       [](const planner::StageAssignment& stage) { return stage.worker == 2; });
  };
  EXPECT_FALSE(uses_far(seeing));
  EXPECT_TRUE(uses_far(blind));
  EXPECT_GT(blind.outcome.plan->exec_us, seeing.outcome.plan->exec_us);
  EXPECT_LT(blind.believed_us, blind.outcome.plan->exec_us);
  EXPECT_EQ(blind.best_us, seeing.outcome.plan->exec_us);
  EXPECT_THAT(ReportOf(blind), HasSubstr("Planned without all metrics: it was believed to take "));
}

// Ten layers of 20 MB, 16 of which are eight experts: two tabs of 180 MB have none of them whole.
TEST(PlanReport, ATabIsTheHubWhereNobodyElseIs) {
  swarm::CoreOptions core = TenLayers();
  for (size_t layer = 1; layer + 1 < core.model.layers.size(); ++layer) {
    swarm::ModelLayer& costs = core.model.layers[layer];
    costs.expert_count = 8;
    costs.experts_per_token = 2;
    costs.expert_bytes = 2'000'000;
  }
  PlanSettings settings;
  settings.kind = swarm::PlanKind::kExperts;
  const PlanCase plan = SolvePlanCase(
      core, Devices({"slow=180MB,kind=web,read_gb_per_s=1", "fast=180MB,kind=web,read_gb_per_s=2"}),
      settings);
  ASSERT_TRUE(plan.outcome.plan) << plan.outcome.problem;
  ASSERT_EQ(plan.outcome.plan->stages.size(), 1u);
  EXPECT_EQ(plan.workers[static_cast<size_t>(plan.outcome.plan->stages[0].worker)].name, "fast");
  // The hub holds no experts, and the other one has no room for all.
  const PlanCase tight = SolvePlanCase(
      core, Devices({"slow=100MB,kind=web,read_gb_per_s=1", "fast=180MB,kind=web,read_gb_per_s=2"}),
      settings);
  EXPECT_FALSE(tight.outcome.plan);
  EXPECT_THAT(tight.outcome.problem, HasSubstr("too little memory"));
}

// Layers of 20 MB of which 16 are eight neuron groups: 10 ms each on one of these devices.
TEST(PlanReport, NeuronGroupsPayWhereARoundTripIsShort) {
  swarm::CoreOptions core = TenLayers();
  for (size_t layer = 1; layer + 1 < core.model.layers.size(); ++layer) {
    swarm::ModelLayer& costs = core.model.layers[layer];
    costs.expert_count = costs.experts_per_token = 8;
    costs.expert_bytes = 2'000'000;
    costs.groups = true;
  }
  PlanSettings settings;
  settings.kind = swarm::PlanKind::kTensor;
  const std::string hub = "hub=2GB,read_gb_per_s=2,upload_mb_per_s=100,download_mb_per_s=100";
  const auto us_with = [&](const std::string& other) {
    std::vector<std::string> texts = {hub};
    if (!other.empty())
      texts.push_back(other +
                      ",read_gb_per_s=2,upload_mb_per_s=100,"
                      "download_mb_per_s=100");
    const PlanCase plan = SolvePlanCase(core, Devices(texts), settings);
    EXPECT_TRUE(plan.outcome.plan) << plan.outcome.problem;
    EXPECT_EQ(plan.kind, "tensor");
    EXPECT_EQ(JsonOf(plan).at("kind"), "tensor");
    return plan.outcome.plan ? plan.outcome.plan->exec_us : 0;
  };
  const double alone_us = us_with("");
  EXPECT_GT(alone_us, 100'000);
  // Of 8 ms of groups four at most are left, beside 2 ms that the hub computes itself.
  EXPECT_LT(us_with("near=2GB,latency_ms=0.5"), 0.85 * alone_us);
  EXPECT_EQ(us_with("far=2GB,latency_ms=100"), alone_us);
  EXPECT_EQ(us_with("tab=2GB,latency_ms=0.5,kind=web,needs_onnx=true"), alone_us);
  EXPECT_LE(us_with("tab=2GB,latency_ms=0.5,kind=web"), alone_us);
  settings.kind = swarm::PlanKind::kAuto;
  EXPECT_EQ(SolvePlanCase(core, Devices({hub}), settings).kind, "layers");
  const std::string lines = ",read_gb_per_s=2,upload_mb_per_s=100,download_mb_per_s=100";
  const PlanCase near =
      SolvePlanCase(core, Devices({hub, "near=2GB,latency_ms=0.5" + lines}), settings);
  EXPECT_EQ(near.kind, "tensor");
  EXPECT_THAT(ReportOf(near), HasSubstr("Planned: parts of every layer."));
  const PlanCase far =
      SolvePlanCase(core, Devices({hub, "far=2GB,latency_ms=100" + lines}), settings);
  EXPECT_EQ(far.kind, "layers");
  EXPECT_THAT(ReportOf(far), HasSubstr("Planned: whole layers."));
}

TEST(PlanReport, JsonSaysWhatTheTextSays) {
  const PlanCase two = Solve({kFast, kSlow});
  const boost::json::object json = JsonOf(two);
  EXPECT_EQ(json.at("plan").at("stages").as_array().size(), 2u);
  EXPECT_EQ(json.at("plan").at("predicted_us_per_token").as_double(), two.outcome.plan->exec_us);
  EXPECT_EQ(json.at("gap").as_double(), 0);
  EXPECT_EQ(json.at("losses").as_array().size(), 2u);
  EXPECT_FALSE(json.at("losses").at(0).at("survives").as_bool());
  EXPECT_GT(json.at("losses").at(0).at("missing_memory_bytes").to_number<double>(), 0);
  const boost::json::object none = JsonOf(Solve({kFast}));
  EXPECT_TRUE(none.at("plan").is_null());
  EXPECT_GT(none.at("missing_memory_bytes").to_number<double>(), 0);
}

}  // namespace
}  // namespace weft::apps
