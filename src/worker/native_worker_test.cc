// The threads of a native worker on a small random model: what waits for what. No test measures
// time: where something must not wait, the other side is held until it has happened.
#include "worker/native_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "engine/test_model.h"
#include "package/manifest.h"
#include "program/codec.h"
#include "wire/control.pb.h"
#include "wire/data_frame.h"
#include "wire/version.h"

namespace weft::worker {
namespace {

namespace pb = wire::pb;

// A random model as a package in memory.
class ModelSource : public PackageSource {
 public:
  // Called without a lock, on the worker's threads. `fetch` returns what Fetch returns.
  std::function<Status(uint32_t layer, const std::atomic<bool>& cancel)> fetch =
      [](uint32_t, const std::atomic<bool>&) { return OkStatus(); };
  std::function<void(uint32_t layer)> read = [](uint32_t) {};

  ModelSource() {
    engine::MemorySource weights;
    for (const program::Program& program :
         engine::ModelBuilder({}, engine::RandomTensors(1), weights).Build()) {
      package::LayerInfo& layer = manifest_.layers.emplace_back();
      layer.index = static_cast<uint32_t>(manifest_.layers.size() - 1);
      layer.program = Add(program::Encode(program), layer.index);
      for (const program::Weight& weight : program.weights) {
        for (const program::Part& part : weight.data) {
          const package::Digest digest(part.digest);
          layer.blobs.push_back(digest);
          layer.weight_bytes += part.byte_count;
          manifest_.blobs[digest].byte_count = part.byte_count;
          blobs_.try_emplace(digest, weights.Read(part).value());
          layer_of_.try_emplace(digest, layer.index);
        }
      }
    }
    const engine::ModelSpec spec;
    manifest_.name = "random";
    manifest_.quantisation = "f16";
    manifest_.hidden_columns = spec.hidden;
    manifest_.vocabulary = spec.vocabulary;
  }

  const package::Manifest& manifest() const { return manifest_; }

  Result<package::Manifest> FetchManifest(const package::Digest&) override { return manifest_; }
  bool Has(const package::Digest&) override { return true; }
  Status Fetch(const package::Digest& blob, const package::BlobInfo&,
               const std::function<void(uint64_t)>&, const std::atomic<bool>& cancel) override {
    const uint32_t layer = layer_of_.at(blob);
    return blob == manifest_.layers[layer].program ? fetch(layer, cancel) : OkStatus();
  }
  Result<Slice> Read(const package::Digest& blob, const package::BlobInfo&) override {
    const uint32_t layer = layer_of_.at(blob);
    if (blob == manifest_.layers[layer].program) read(layer);
    return blobs_.at(blob);
  }
  double MeasureDownload(uint64_t) override { return 0; }

 private:
  package::Digest Add(std::vector<uint8_t> bytes, uint32_t layer) {
    const package::Digest digest = package::Digest::Of(bytes);
    manifest_.blobs[digest].byte_count = bytes.size();
    blobs_.emplace(digest, Slice(std::move(bytes)));
    layer_of_[digest] = layer;
    return digest;
  }

  package::Manifest manifest_;
  std::map<package::Digest, Slice> blobs_;
  std::map<package::Digest, uint32_t> layer_of_;
};

// Something that one thread waits for and another brings about. Gives up after so long that only a
// fault can be the reason.
class Latch {
 public:
  void Open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  bool Wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// The orchestrator's side: sends, and waits for what comes.
class NativeWorkerTest : public testing::Test {
 protected:
  void Start() {
    NativeWorkerOptions options;
    options.memory_bytes = 1 << 30;
    worker_ = std::make_unique<NativeWorker>(
        options, source_,
        [this](std::vector<Slice> pieces) {
          std::vector<uint8_t> bytes;
          for (const Slice& piece : pieces)
            bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
          Take(std::move(bytes));
        },
        [](const Error& error) { ADD_FAILURE() << "gave up: " << error.ToString(); });
    pb::ServerMessage message;
    pb::Init& init = *message.mutable_init();
    init.set_protocol_version(wire::kProtocolVersion);
    init.set_program_version(program::kProgramVersion);
    init.set_package_format(package::kPackageFormat);
    init.set_package_digest(std::string(32, 'x'));
    init.set_layer_count(static_cast<uint32_t>(source_->manifest().layers.size()));
    Tell(message);
    ASSERT_TRUE(Comes("connect"));
  }

  void Tell(const pb::ServerMessage& message) {
    std::vector<uint8_t> bytes(1 + message.ByteSizeLong());
    bytes[0] = wire::kControlByte;
    ASSERT_TRUE(message.SerializeToArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
    worker_->OnMessage(Slice(std::move(bytes)));
  }
  void Prepare(uint32_t epoch, uint32_t first, uint32_t end) {
    pb::ServerMessage message;
    message.mutable_prepare_stage()->set_epoch(epoch);
    message.mutable_prepare_stage()->mutable_layers()->set_first(first);
    message.mutable_prepare_stage()->mutable_layers()->set_end(end);
    Tell(message);
  }
  // One token of session 1.
  void Step(uint32_t sequence, uint32_t epoch, uint32_t position, wire::OutputKind output) {
    wire::FrameHeader header;
    header.sequence = sequence;
    header.epoch = epoch;
    header.rows = header.columns = 1;
    header.dtype = DType::kI32;
    const wire::Run run = {1, 0, position, 1, output, 0};
    std::vector<uint8_t> bytes = wire::EncodeFrameHead(header, {&run, 1}, 4);
    bytes.insert(bytes.end(), {7, 0, 0, 0});
    worker_->OnMessage(Slice(std::move(bytes)));
  }

  // Whether a message came, in all, that begins with this text: "result 3", or a control message
  // as its fields.
  testing::AssertionResult Comes(const std::string& begin) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::seconds(60), [&] { return Has(begin); }))
      return testing::AssertionSuccess();
    auto failure = testing::AssertionFailure() << "what came:";
    for (const std::string& text : came_) failure << "\n" << text;
    return failure;
  }
  bool CameYet(const std::string& begin) {
    const std::lock_guard lock(mutex_);
    return Has(begin);
  }

  std::shared_ptr<ModelSource> source_ = std::make_shared<ModelSource>();
  std::unique_ptr<NativeWorker> worker_;

 private:
  void Take(std::vector<uint8_t> bytes) {
    std::string text;
    if (bytes[0] == wire::kControlByte) {
      pb::WorkerMessage message;
      ASSERT_TRUE(message.ParseFromArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
      text = message.ShortDebugString();
    } else {
      const auto frame = wire::DecodeFrame(Slice(std::move(bytes)));
      ASSERT_TRUE(frame.ok());
      text = "result " + std::to_string(frame->header.sequence);
    }
    const std::lock_guard lock(mutex_);
    came_.push_back(text);
    changed_.notify_all();
  }
  bool Has(const std::string& begin) const {
    return std::any_of(came_.begin(), came_.end(),
                       [&](const std::string& text) { return text.starts_with(begin); });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> came_;
};

TEST_F(NativeWorkerTest, ComputesStepsOfTheStageItPrepared) {
  Start();
  Prepare(1, 0, 4);
  ASSERT_TRUE(Comes("prepared { epoch: 1 "));
  Step(5, 1, 0, wire::OutputKind::kArgmax);
  EXPECT_TRUE(Comes("result 5"));
  Step(6, 1, 5, wire::OutputKind::kArgmax);  // does not continue the session
  EXPECT_TRUE(Comes("step_failed { sequence: 6 "));
}

TEST_F(NativeWorkerTest, StepsGoOnWhileTheNextStageIsFetchedAndRead) {
  Latch computed_while_fetching, computed_while_reading;
  bool fetch_held = false, read_held = false;
  source_->fetch = [&](uint32_t layer, const std::atomic<bool>&) {
    if (layer == 2) fetch_held = computed_while_fetching.Wait();
    return OkStatus();
  };
  source_->read = [&](uint32_t layer) {
    if (layer == 2) read_held = computed_while_reading.Wait();
  };
  Start();
  Prepare(1, 0, 2);
  ASSERT_TRUE(Comes("prepared { epoch: 1 "));
  Prepare(2, 0, 3);
  Step(1, 1, 0, wire::OutputKind::kHidden);
  EXPECT_TRUE(Comes("result 1"));
  computed_while_fetching.Open();
  EXPECT_TRUE(Comes("layer_downloaded { layer: 2"));
  Step(2, 1, 1, wire::OutputKind::kHidden);
  EXPECT_TRUE(Comes("result 2"));
  EXPECT_FALSE(CameYet("prepared { epoch: 2 "));
  computed_while_reading.Open();
  EXPECT_TRUE(Comes("prepared { epoch: 2 "));
  EXPECT_TRUE(fetch_held);
  EXPECT_TRUE(read_held);
  // The layers that both bindings run keep their keys and values.
  Step(3, 1, 2, wire::OutputKind::kHidden);
  EXPECT_TRUE(Comes("result 3"));
  worker_.reset();  // before what its threads use here
}

TEST_F(NativeWorkerTest, AStageOvertakesAStandbyDownloadThatGoesOnAfterwards) {
  std::mutex mutex;
  std::vector<std::string> order;
  const auto note = [&](const std::string& what, uint32_t layer) {
    const std::lock_guard lock(mutex);
    order.push_back(what + " " + std::to_string(layer));
  };
  Latch begun;
  std::atomic<bool> first = true;
  source_->fetch = [&](uint32_t layer, const std::atomic<bool>& cancel) -> Status {
    if (layer != 3 || !first.exchange(false)) {
      note("fetched", layer);
      return OkStatus();
    }
    begun.Open();
    while (!cancel) std::this_thread::yield();  // as a slow link
    note("interrupted", layer);
    return Error(ErrorCode::kCancelled, "The download was cancelled.");
  };
  Start();
  pb::ServerMessage standby;
  standby.mutable_download_layers()->add_layers(3);
  Tell(standby);
  ASSERT_TRUE(begun.Wait());
  Prepare(1, 0, 1);
  EXPECT_TRUE(Comes("prepared { epoch: 1 "));
  EXPECT_TRUE(Comes("layer_downloaded { layer: 3"));
  worker_.reset();
  EXPECT_THAT(order, testing::ElementsAre("interrupted 3", "fetched 0", "fetched 3"));
}

TEST_F(NativeWorkerTest, StopsWhileItDownloadsAndReads) {
  Latch fetching, reading;
  source_->fetch = [&](uint32_t layer, const std::atomic<bool>& cancel) -> Status {
    if (layer != 3) return OkStatus();
    fetching.Open();
    while (!cancel) std::this_thread::yield();
    return Error(ErrorCode::kCancelled, "The download was cancelled.");
  };
  source_->read = [&](uint32_t) { reading.Open(); };
  Start();
  Prepare(1, 0, 2);
  ASSERT_TRUE(reading.Wait());
  pb::ServerMessage standby;
  standby.mutable_download_layers()->add_layers(3);
  Tell(standby);
  ASSERT_TRUE(fetching.Wait());
  worker_->Leave("done");
  EXPECT_TRUE(CameYet("leaving { reason: \"done\""));
  worker_.reset();
}

}  // namespace
}  // namespace weft::worker
