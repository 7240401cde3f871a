// Devices from a file, and that `weft plan` finds for them what the server finds when they join.
#include "apps/plan_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "swarm/core/core.h"
#include "swarm/plan/planning.h"
#include "wire/version.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;

std::string FileWith(const std::string& text) {
  std::string path =
      testing::TempDir() + "plan_devices_" + std::to_string(std::hash<std::string>()(text));
  std::ofstream(path) << text;
  return path;
}

constexpr const char* kThreeDevices = R"({"workers": [
  {"name": "desktop", "memory": "90MiB", "download_mb_per_s": 100, "upload_mb_per_s": 10},
  {"name": "tab", "memory": "120MiB", "kind": "web", "weight_factor": 1.25,
   "cached_layers": [3, 4]},
  {"name": "onnx tab", "memory": "200MiB", "kind": "web", "needs_onnx": true,
   "download_mb_per_s": 5}]})";

swarm::CoreOptions Options() {
  swarm::ModelInfo model;
  model.layers.assign(10, {20'000'000, 20'000'000, 20'000'000, 64});
  model.layers.back().tied_to = 0;
  model.layers.back().tied_bytes = 10'000'000;
  model.hidden_columns = 512;
  model.vocabulary = 1000;
  model.context_length = 2048;
  return swarm::OptionsFor(model, 4096, 4);
}

wire::pb::WorkerMessage ConnectOf(const swarm::DeviceNumbers& device) {
  wire::pb::WorkerMessage message;
  auto& connect = *message.mutable_connect();
  connect.set_protocol_version(wire::kProtocolVersion);
  connect.set_program_version(1);
  connect.set_package_format(1);
  connect.set_kind(device.native ? "native" : "web");
  connect.set_engine(device.native ? "native" : device.needs_onnx ? "ort-wasm" : "webgpu");
  connect.set_name(device.name);
  connect.set_memory_bytes(device.memory_bytes);
  connect.set_weight_factor(device.weight_factor);
  connect.set_download_bytes_per_s(device.download_bytes_per_s);
  connect.set_upload_bytes_per_s(device.upload_bytes_per_s);
  connect.set_needs_onnx(device.needs_onnx);
  for (uint32_t layer = 0; layer < device.cached_layers.size(); ++layer)
    if (device.cached_layers[layer]) connect.add_cached_layers(layer);
  return message;
}

// What the core hands to the planner when these devices have joined.
swarm::StartPlanning JobOfCore(const std::vector<swarm::DeviceNumbers>& devices) {
  swarm::Core core(Options());
  const Instant now{1'000'000};
  swarm::WorkerId id = 1;
  for (const swarm::DeviceNumbers& device : devices) {
    core.Handle(swarm::WorkerConnected{id, "127.0.0.1"}, now);
    core.Handle(swarm::WorkerControl{id++, ConnectOf(device)}, now);
  }
  for (const swarm::Action& action : core.Handle(swarm::TimerFired{}, now + Seconds(1)))
    if (const auto* job = std::get_if<swarm::StartPlanning>(&action)) return *job;
  ADD_FAILURE() << "the core looked for no plan";
  return {};
}

TEST(PlanDevices, TheServerFindsTheSamePlanForThem) {
  const auto devices = ReadDevices(FileWith(kThreeDevices), 10);
  ASSERT_TRUE(devices.ok()) << devices.error().message();
  const swarm::Costs costs(Options());
  std::vector<planner::WorkerMetrics> workers;
  for (const swarm::DeviceNumbers& device : *devices) workers.push_back(swarm::MetricsOf(device));
  const swarm::StartPlanning job = JobOfCore(*devices);
  for (size_t i = 0; i < workers.size(); ++i) {
    // The core has known them for a moment.
    EXPECT_NEAR(workers[i].departures_per_s, job.workers[i].departures_per_s, 1e-6);
    workers[i].departures_per_s = job.workers[i].departures_per_s;
  }
  const auto ours = swarm::RunPlanning(swarm::PlanningJob(costs, workers, job.context));
  const auto theirs = swarm::RunPlanning(job);
  ASSERT_TRUE(ours.plan) << ours.problem;
  ASSERT_TRUE(theirs.plan) << theirs.problem;
  EXPECT_GE(ours.plan->stages.size(), 2u);
  ASSERT_EQ(ours.plan->stages.size(), theirs.plan->stages.size());
  for (size_t i = 0; i < ours.plan->stages.size(); ++i) {
    const planner::StageAssignment &a = ours.plan->stages[i], &b = theirs.plan->stages[i];
    EXPECT_EQ(a.worker, b.worker);
    EXPECT_EQ(a.first_layer, b.first_layer);
    EXPECT_EQ(a.end_layer, b.end_layer);
    EXPECT_EQ(a.exec_us, b.exec_us);
    EXPECT_EQ(a.init_us, b.init_us);
    EXPECT_EQ(a.memory_bytes, b.memory_bytes);
    EXPECT_EQ(a.download_bytes, b.download_bytes);
  }
  EXPECT_EQ(ours.plan->total_cost, theirs.plan->total_cost);
}

TEST(PlanDevices, SaysWhichFieldOfWhichDeviceIsWrong) {
  const auto problem = [](const std::string& device) {
    const auto devices = ReadDevices(FileWith(R"({"workers": [)" + device + "]}"), 10);
    return devices.ok() ? std::string() : devices.error().message();
  };
  EXPECT_EQ(problem(R"({"memory": "1GiB"})"), "");
  EXPECT_THAT(problem(R"({})"), HasSubstr("workers[0] needs 'memory'"));
  EXPECT_THAT(problem(R"({"memory": "1GiB", "kind": "phone"})"), HasSubstr("'kind' = \"phone\""));
  EXPECT_THAT(problem(R"({"memory": "1GiB", "needs_onnx": 1})"), HasSubstr("'needs_onnx'"));
  EXPECT_THAT(problem(R"({"memory": "1GiB", "read_gb_per_s": 0})"), HasSubstr("read_gb_per_s"));
  EXPECT_THAT(problem(R"({"memory": "1GiB", "cached_layers": [10]})"), HasSubstr("layer 10 of 10"));
  EXPECT_THAT(problem(R"({"memory": "1GiB", "latncy_ms": 3})"), HasSubstr("unknown 'latncy_ms'"));
  EXPECT_THAT(problem("3"), HasSubstr("is not an object"));
}

TEST(PlanDevices, OneMoreDeviceIsAsShortAsItsNameAndMemory) {
  const auto laptop = ParseDevice("laptop=8GB", 10);
  ASSERT_TRUE(laptop.ok()) << laptop.error().message();
  EXPECT_EQ(laptop->name, "laptop");
  EXPECT_EQ(laptop->memory_bytes, 8'000'000'000u);
  EXPECT_TRUE(laptop->native);
  EXPECT_EQ(laptop->losses_per_s, swarm::kAssumedLossesPerS);

  const auto tab =
      ParseDevice("12=3GiB,kind=web,latency_ms=20,needs_onnx=true,lifetime_minutes=5", 10);
  ASSERT_TRUE(tab.ok()) << tab.error().message();
  EXPECT_EQ(tab->name, "12");
  EXPECT_FALSE(tab->native);
  EXPECT_TRUE(tab->needs_onnx);
  EXPECT_EQ(tab->latency_us, 20'000);
  EXPECT_DOUBLE_EQ(tab->losses_per_s, 1.0 / 300);

  const auto problem = [](const std::string& text) {
    const auto device = ParseDevice(text, 10);
    return device.ok() ? std::string() : device.error().message();
  };
  EXPECT_THAT(problem(""), HasSubstr("expected one such as laptop=8GB"));
  EXPECT_THAT(problem("8GB"), HasSubstr("'8GB' is no device"));
  EXPECT_THAT(problem("laptop=8GB,fast"), HasSubstr("is no device"));
  EXPECT_THAT(problem("laptop=much"), HasSubstr("needs 'memory'"));
  EXPECT_THAT(problem("laptop=8GB,speed=3"), HasSubstr("unknown 'speed'"));
}

TEST(PlanDevices, ADeviceIsRemovedByItsName) {
  auto devices = ReadDevices(FileWith(kThreeDevices), 10);
  ASSERT_TRUE(devices.ok());
  EXPECT_TRUE(RemoveDevice(*devices, "tab").ok());
  EXPECT_EQ(devices->size(), 2u);
  const Status again = RemoveDevice(*devices, "tab");
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.error().message(), HasSubstr("no device 'tab' to remove; there are: desktop, "
                                                 "onnx tab."));
}

}  // namespace
}  // namespace weft::apps
