#include "worker/native_worker.h"

#include <atomic>
#include <map>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "package/manifest.h"
#include "program/ir.h"
#include "wire/control.pb.h"
#include "wire/data_frame.h"
#include "wire/version.h"
#include "worker/download_progress.h"
#include "worker/layer_loader.h"
#include "worker/sampling_table.h"
#include "worker/step_codec.h"
#include "worker/task_queue.h"

namespace weft::worker {
namespace {

namespace pb = wire::pb;

// The session that speed measurements use; the orchestrator never names it.
constexpr uint32_t kMeasureSession = 0xffffffff;
constexpr uint32_t kMaxMeasureRuns = 64;

struct Stage {
  uint32_t stage = 0;
  engine::LayerRange layers;
  bool committed = false;
};

std::string VersionMismatch(const char* what, uint32_t server, uint32_t worker) {
  return std::string("The server speaks ") + what + " version " + std::to_string(server) +
         ", this worker version " + std::to_string(worker) + ": update weft on the older side.";
}

}  // namespace

class NativeWorker::Impl {
 public:
  Impl(NativeWorkerOptions options, std::shared_ptr<PackageSource> source,
       std::function<void(std::vector<Slice>)> send, std::function<void(Error)> on_finished)
      : options_(std::move(options)),
        source_(std::move(source)),
        send_(std::move(send)),
        on_finished_(std::move(on_finished)) {}

  ~Impl() {
    cancel_ = true;
    downloads_.Stop();
    compute_.Stop();
  }

  void OnMessage(Slice message) {
    const Instant arrival = MonotonicNow();
    if (message.empty())
      return Finish(Error(ErrorCode::kInvalidData, "The server sent an empty message."));
    if (message.bytes()[0] != wire::kControlByte) {
      compute_.Push([this, message = std::move(message), arrival] { OnFrame(message, arrival); });
      return;
    }
    pb::ServerMessage control;
    const ByteSpan body = message.bytes().subspan(1);
    if (!control.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
      return Finish(Error(ErrorCode::kInvalidData,
                          "The server sent a control message that cannot be parsed."));
    }
    if (control.kind_case() ==
        pb::ServerMessage::kPing) {  // answered at once, also while computing
      pb::WorkerMessage reply;
      reply.mutable_pong()->set_nonce(control.ping().nonce());
      return SendControl(reply);
    }
    compute_.Push([this, control = std::move(control)] { OnControl(control); });
  }

  void Leave(const std::string& reason) {
    pb::WorkerMessage message;
    message.mutable_leaving()->set_reason(reason);
    SendControl(message);
  }

 private:
  // ---- compute thread ----

  void OnControl(const pb::ServerMessage& message) {
    switch (message.kind_case()) {
      case pb::ServerMessage::kInit:
        return OnInit(message.init());
      case pb::ServerMessage::kRefused:
        return Finish(Error(ErrorCode::kPermissionDenied, message.refused().message()));
      default:
        break;
    }
    if (!loader_) {
      return Finish(
          Error(ErrorCode::kInvalidData, "The server sent work before Init was answered."));
    }
    switch (message.kind_case()) {
      case pb::ServerMessage::kDownloadLayers:
        return OnDownloadLayers(message.download_layers());
      case pb::ServerMessage::kMeasureSpeed:
        return OnMeasureSpeed(message.measure_speed());
      case pb::ServerMessage::kPrepareStage:
        return OnPrepareStage(message.prepare_stage());
      case pb::ServerMessage::kCommitStage:
        return OnCommitStage(message.commit_stage());
      case pb::ServerMessage::kRetire:
        return OnRetire(message.retire());
      case pb::ServerMessage::kInvalidateSessions:
        for (const uint32_t session : message.invalidate_sessions().sessions()) {
          engine_->Release(session);
          sampling_.Release(session);
        }
        return;
      case pb::ServerMessage::kSampling:
        return OnSampling(message.sampling());
      case pb::ServerMessage::kRelease:
        sampling_.Clear();
        stages_.clear();
        engine_->ReleaseAll();
        return engine_->Unload({0, LayerCount()});
      default:
        return Finish(Error(ErrorCode::kInvalidData,
                            "The server sent an unknown control message: update weft."));
    }
  }

  void OnInit(const pb::Init& init) {
    if (init_seen_) return Finish(Error(ErrorCode::kInvalidData, "The server sent Init twice."));
    init_seen_ = true;
    if (init.protocol_version() != wire::kProtocolVersion) {
      return Finish(
          Error(ErrorCode::kUnsupported,
                VersionMismatch("protocol", init.protocol_version(), wire::kProtocolVersion)));
    }
    if (init.program_version() != program::kProgramVersion) {
      return Finish(
          Error(ErrorCode::kUnsupported,
                VersionMismatch("program", init.program_version(), program::kProgramVersion)));
    }
    Sha256Digest digest;
    if (init.package_digest().size() != digest.size()) {
      return Finish(Error(ErrorCode::kInvalidData, "The server's package digest is not 32 bytes."));
    }
    std::copy(init.package_digest().begin(), init.package_digest().end(), digest.begin());
    // Fetching the manifest and measuring the link take a while: on the download thread.
    downloads_.Push([this, digest, probe_bytes = init.probe_bytes()] {
      auto manifest = source_->FetchManifest(package::Digest(digest));
      if (!manifest.ok()) return Finish(std::move(manifest).error());
      const double download_rate = source_->MeasureDownload(probe_bytes);
      compute_.Push([this, manifest = std::move(manifest).value(), download_rate] {
        SendConnect(manifest, download_rate);
      });
    });
  }

  void SendConnect(const package::Manifest& manifest, double download_rate) {
    loader_ = std::make_unique<LayerLoader>(manifest, source_);
    engine::NativeEngineOptions engine_options;
    engine_options.thread_count = options_.thread_count;
    engine_options.reference_kernels = options_.reference_kernels;
    engine_options.memory_limit_bytes = options_.memory_bytes;
    // Rows are what they would be if they crossed the wire between any two layers, so the answer
    // does not depend on the plan (docs/decisions/0006-cut-invariance.md).
    engine_options.residual_dtype = manifest.boundary_dtype;
    engine_options.kv_dtype = package::KvDType(manifest.quantisation);
    engine_ = engine::MakeNativeEngine(engine_options);
    pb::WorkerMessage message;
    pb::Connect& connect = *message.mutable_connect();
    connect.set_protocol_version(wire::kProtocolVersion);
    connect.set_program_version(program::kProgramVersion);
    connect.set_package_format(package::kPackageFormat);
    connect.set_kind("native");
    connect.set_engine("native");
    connect.set_name(options_.name.empty() ? "native worker" : options_.name);
    connect.set_device(options_.device.empty() ? DescribeProcessor(options_.thread_count)
                                               : options_.device);
    connect.set_memory_bytes(options_.memory_bytes);
    connect.set_weight_factor(1.0);
    // A local disk has no link to measure: report a rate that makes downloads free in the plan.
    connect.set_download_bytes_per_s(download_rate > 0 ? download_rate : 1e10);
    connect.set_join_token(options_.join_token);
    connect.set_worker_id(options_.worker_id);
    for (const uint32_t layer : loader_->DownloadedLayers()) connect.add_cached_layers(layer);
    SendControl(message);
  }

  // nullopt (and Finish) when the range is not one of this model.
  std::optional<engine::LayerRange> CheckedRange(const pb::LayerRange& range) {
    if (range.first() < range.end() && range.end() <= LayerCount()) {
      return engine::LayerRange{range.first(), range.end()};
    }
    Finish(Error(ErrorCode::kInvalidData, "The server named layers " +
                                              std::to_string(range.first()) + " to " +
                                              std::to_string(range.end()) + " of a model with " +
                                              std::to_string(LayerCount()) + "."));
    return std::nullopt;
  }

  void OnDownloadLayers(const pb::DownloadLayers& message) {
    for (const uint32_t layer : message.layers()) {
      if (layer >= LayerCount()) {
        return Finish(Error(ErrorCode::kInvalidData,
                            "The server named layer " + std::to_string(layer) + "."));
      }
      downloads_.Push([this, layer] { Download({layer, layer + 1}, 0); });
    }
  }

  void OnSampling(const pb::Sampling& message) {
    Status taken = sampling_.OnMessage(message, loader_->manifest().vocabulary);
    if (!taken.ok()) Finish(std::move(taken).error());
  }

  void OnMeasureSpeed(const pb::MeasureSpeed& message) {
    std::vector<engine::LayerRange> ranges;
    for (const pb::LayerRange& range : message.ranges()) {
      const auto checked = CheckedRange(range);
      if (!checked) return;
      ranges.push_back(*checked);
    }
    const uint32_t runs = std::min(std::max(message.runs(), 1u), kMaxMeasureRuns);
    downloads_.Push([this, ranges, runs] {
      for (const engine::LayerRange range : ranges) {
        if (!Download(range, 0)) return;
      }
      compute_.Push([this, ranges, runs] { Measure(ranges, runs); });
    });
  }

  void Measure(const std::vector<engine::LayerRange>& ranges, uint32_t runs) {
    pb::WorkerMessage message;
    for (const engine::LayerRange range : ranges) {
      const Status loaded = Load(range);
      if (!loaded.ok()) return SendFailed(0, loaded.error());
      auto& timing = *message.mutable_measured()->add_timings();
      timing.mutable_layers()->set_first(range.first);
      timing.mutable_layers()->set_end(range.end);
      for (uint32_t run = 0; run < runs; ++run) {
        const auto elapsed = TimeOneRow(range, run);
        if (!elapsed.ok()) {
          engine_->Release(kMeasureSession);
          return SendFailed(0, elapsed.error());
        }
        timing.add_run_us(static_cast<uint64_t>(elapsed->us));
      }
      engine_->Release(kMeasureSession);
    }
    UnloadUnused();
    SendControl(message);
  }

  Result<Duration> TimeOneRow(engine::LayerRange range, uint32_t position) {
    const bool is_last = range.end == LayerCount();
    const engine::Output output{is_last ? engine::OutputKind::kArgmax : engine::OutputKind::kHidden,
                                0};
    const engine::Run run{kMeasureSession, 0, position, 1, output};
    const std::vector<int32_t> token_ids(range.first == 0 ? 1 : 0, 0);
    const std::vector<float> hidden(range.first == 0 ? 0 : loader_->manifest().hidden_columns,
                                    0.01f);
    const Instant begin = MonotonicNow();
    TRY(engine_->Step({range, {&run, 1}, token_ids, hidden}));
    return MonotonicNow() - begin;
  }

  void OnPrepareStage(const pb::PrepareStage& message) {
    const auto range = CheckedRange(message.layers());
    if (!range) return;
    const uint32_t epoch = message.epoch();
    stages_[epoch] = {message.stage(), *range, false};
    downloads_.Push([this, epoch, range = *range] {
      if (!Download(range, epoch)) return;
      compute_.Push([this, epoch, range] { LoadStage(epoch, range); });
    });
  }

  void LoadStage(uint32_t epoch, engine::LayerRange range) {
    if (!stages_.contains(epoch)) return;  // retired meanwhile
    const Status loaded = Load(range);
    if (!loaded.ok()) {
      stages_.erase(epoch);
      return SendFailed(epoch, loaded.error());
    }
    const engine::MemoryUse use = engine_->memory();
    uint64_t weight_bytes = 0;
    for (uint32_t layer = 0; layer < LayerCount(); ++layer) {
      if (engine_->IsLoaded({layer, layer + 1})) {
        weight_bytes += loader_->manifest().layers[layer].weight_bytes;
      }
    }
    pb::WorkerMessage reply;
    reply.mutable_prepared()->set_epoch(epoch);
    reply.mutable_prepared()->set_used_bytes(use.weight_bytes + use.kv_bytes + use.scratch_bytes);
    reply.mutable_prepared()->set_weight_factor(weight_bytes == 0
                                                    ? 1.0
                                                    : static_cast<double>(use.weight_bytes) /
                                                          static_cast<double>(weight_bytes));
    SendControl(reply);
  }

  void OnCommitStage(const pb::CommitStage& message) {
    const auto stage = stages_.find(message.epoch());
    if (stage == stages_.end()) {
      return SendFailed(message.epoch(), Error(ErrorCode::kInvalidArgument,
                                               "Epoch " + std::to_string(message.epoch()) +
                                                   " was never prepared here."));
    }
    stage->second.committed = true;
    pb::WorkerMessage reply;
    reply.mutable_committed()->set_epoch(message.epoch());
    SendControl(reply);
  }

  void OnRetire(const pb::Retire& message) {
    std::vector<engine::LayerRange> keep;
    for (const pb::LayerRange& range : message.keep()) {
      const auto checked = CheckedRange(range);
      if (!checked) return;
      keep.push_back(*checked);
    }
    std::erase_if(stages_, [&](const auto& entry) {
      const engine::LayerRange layers = entry.second.layers;
      return std::none_of(keep.begin(), keep.end(), [&](engine::LayerRange range) {
        return range.first <= layers.first && layers.end <= range.end;
      });
    });
    UnloadExcept(keep);
  }

  void OnFrame(const Slice& message, Instant arrival) {
    auto frame = wire::DecodeFrame(message);
    if (!frame.ok()) return Finish(std::move(frame).error());
    const Instant begin = MonotonicNow();
    auto reply = RunStep(*frame, begin - arrival);
    if (reply.ok()) return send_(std::move(reply).value());
    pb::WorkerMessage failed;
    failed.mutable_step_failed()->set_sequence(frame->header.sequence);
    failed.mutable_step_failed()->set_epoch(frame->header.epoch);
    failed.mutable_step_failed()->set_stage(frame->header.stage);
    failed.mutable_step_failed()->set_code(std::string(ErrorCodeName(reply.error().code())));
    failed.mutable_step_failed()->set_message(reply.error().ToString());
    SendControl(failed);
  }

  Result<std::vector<Slice>> RunStep(const wire::Frame& frame, Duration queued) {
    const auto entry = stages_.find(frame.header.epoch);
    if (frame.header.type != wire::FrameType::kStep || !loader_ || entry == stages_.end() ||
        !entry->second.committed || entry->second.stage != frame.header.stage) {
      return Error(ErrorCode::kInvalidArgument,
                   "Stage " + std::to_string(frame.header.stage) + " of epoch " +
                       std::to_string(frame.header.epoch) + " is not committed on this worker.");
    }
    const engine::LayerRange layers = entry->second.layers;
    DecodedStep step;
    TRY(DecodeStep(frame, loader_->manifest(), layers, sampling_, &step));
    const Instant begin = MonotonicNow();
    ASSIGN_OR_RETURN(const engine::StepOutput output, engine_->Step(step.input));
    const Duration computed = MonotonicNow() - begin;
    return EncodeResult(frame, loader_->manifest(), layers, output,
                        {static_cast<uint32_t>(queued.us), static_cast<uint32_t>(computed.us)});
  }

  Status Load(engine::LayerRange range) {
    ASSIGN_OR_RETURN(const auto programs, loader_->Programs(range.first, range.end));
    return engine_->Load(programs, *loader_);
  }

  void UnloadUnused() {
    std::vector<engine::LayerRange> keep;
    for (const auto& [epoch, stage] : stages_) keep.push_back(stage.layers);
    UnloadExcept(keep);
  }

  void UnloadExcept(const std::vector<engine::LayerRange>& keep) {
    for (uint32_t layer = 0; layer < LayerCount(); ++layer) {
      const bool kept = std::any_of(keep.begin(), keep.end(), [&](engine::LayerRange range) {
        return range.first <= layer && layer < range.end;
      });
      if (!kept) engine_->Unload({layer, layer + 1});
    }
  }

  uint32_t LayerCount() const { return static_cast<uint32_t>(loader_->manifest().layers.size()); }

  // ---- download thread ----

  // Fetches what is missing, reporting each layer and the progress; false when it failed (reported)
  // or was cancelled.
  bool Download(engine::LayerRange range, uint32_t epoch) {
    DownloadProgress progress(loader_->MissingBytes(range.first, range.end), MonotonicNow());
    const auto report = [&] {
      if (!progress.IsDue(MonotonicNow())) return;
      pb::WorkerMessage message;
      message.mutable_download_progress()->set_done_bytes(progress.done_bytes());
      message.mutable_download_progress()->set_total_bytes(progress.total_bytes());
      SendControl(message);
    };
    const auto on_progress = [&](uint64_t byte_count) {
      progress.Add(byte_count);
      report();
    };
    for (uint32_t layer = range.first; layer < range.end; ++layer) {
      const uint64_t missing_bytes = loader_->MissingBytes(layer, layer + 1);
      const Instant begin = MonotonicNow();
      const Status fetched = loader_->Download(layer, on_progress, cancel_);
      if (!fetched.ok()) {
        if (!cancel_) SendFailed(epoch, fetched.error());
        return false;
      }
      progress.SetMissing(loader_->MissingBytes(range.first, range.end));
      report();
      pb::WorkerMessage message;
      message.mutable_layer_downloaded()->set_layer(layer);
      message.mutable_layer_downloaded()->set_byte_count(missing_bytes);
      message.mutable_layer_downloaded()->set_elapsed_us(
          missing_bytes == 0 ? 0 : static_cast<uint64_t>((MonotonicNow() - begin).us));
      SendControl(message);
    }
    return true;
  }

  // ---- any thread ----

  void SendControl(const pb::WorkerMessage& message) {
    std::vector<uint8_t> bytes(1 + message.ByteSizeLong());
    bytes[0] = wire::kControlByte;
    CHECK(message.SerializeToArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
    send_({Slice(std::move(bytes))});
  }

  void SendFailed(uint32_t epoch, const Error& error) {
    LogWarn("worker: {}", error.ToString());
    pb::WorkerMessage message;
    message.mutable_failed()->set_epoch(epoch);
    message.mutable_failed()->set_code(std::string(ErrorCodeName(error.code())));
    message.mutable_failed()->set_message(error.ToString());
    SendControl(message);
  }

  void Finish(Error error) {
    if (finished_.exchange(true)) return;
    cancel_ = true;
    on_finished_(std::move(error));
  }

  const NativeWorkerOptions options_;
  const std::shared_ptr<PackageSource> source_;
  const std::function<void(std::vector<Slice>)> send_;
  const std::function<void(Error)> on_finished_;
  std::atomic<bool> cancel_ = false;
  std::atomic<bool> finished_ = false;

  // Owned by the compute thread; `loader_` is set before any download is queued and is itself
  // thread-safe.
  bool init_seen_ = false;
  std::unique_ptr<LayerLoader> loader_;
  std::unique_ptr<engine::StageEngine> engine_;
  std::map<uint32_t, Stage> stages_;  // by epoch
  SamplingTable sampling_;

  TaskQueue downloads_;
  TaskQueue compute_;
};

NativeWorker::NativeWorker(NativeWorkerOptions options, std::shared_ptr<PackageSource> source,
                           std::function<void(std::vector<Slice>)> send,
                           std::function<void(Error)> on_finished)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(source), std::move(send),
                                   std::move(on_finished))) {}
NativeWorker::~NativeWorker() = default;
void NativeWorker::OnMessage(Slice message) {
  impl_->OnMessage(std::move(message));
}
void NativeWorker::Leave(const std::string& reason) {
  impl_->Leave(reason);
}

}  // namespace weft::worker
