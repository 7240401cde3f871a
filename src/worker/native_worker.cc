#include "worker/native_worker.h"

#include <atomic>
#include <mutex>

#include "base/alarm.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/task_queue.h"
#include "package/manifest.h"
#include "wire/version.h"
#include "worker/downloader.h"
#include "worker/layer_loader.h"
#include "worker/membership.h"
#include "worker/stage_host.h"

namespace weft::worker {
namespace {

Offer OfferOf(const NativeWorkerOptions& options) {
  Offer offer;
  offer.name = options.name.empty() ? "native worker" : options.name;
  offer.device = options.device.empty() ? DescribeProcessor(options.thread_count) : options.device;
  offer.worker_id = options.worker_id;
  offer.join_token = options.join_token;
  offer.memory_bytes = options.memory_bytes;
  offer.steps_in_flight = 2;
  offer.takes_experts = true;
  offer.keeps_state = true;
  offer.can_be_hub = true;
  offer.runs_groups = true;
  offer.divides_heads = true;
  offer.divides_products = true;
  offer.half_rows = true;
  offer.sum_steps = true;
  offer.integer_rows = true;
  offer.dtypes = {DType::kQ4S, DType::kQ4K, DType::kQ5K, DType::kQ6K};
  if (options.datagrams) {
    offer.datagrams = offer.messages = true;
    offer.datagram_addresses = options.datagrams->Addresses();
  }
  return offer;
}

ModelShape ShapeOf(const package::Manifest& manifest) {
  ModelShape model;
  const std::vector<package::SharedBlobs> shared = package::FindSharedBlobs(manifest);
  for (size_t layer = 0; layer < shared.size(); ++layer)
    model.layers.push_back({manifest.layers[layer].weight_bytes, shared[layer]});
  model.vocabulary = manifest.vocabulary;
  model.hidden_columns = manifest.hidden_columns;
  model.boundary_dtype = manifest.boundary_dtype;
  model.embeds = manifest.embedding.has_value();
  return model;
}

// A source that stops giving when nobody wants the rest.
class InterruptibleSource : public engine::WeightSource {
 public:
  InterruptibleSource(engine::WeightSource& source, const std::atomic<bool>& interrupted)
      : source_(source), interrupted_(interrupted) {}
  Result<Slice> Read(const program::Part& part) override {
    if (interrupted_) return Error(ErrorCode::kCancelled, "Reading layers was interrupted.");
    return source_.Read(part);
  }

 private:
  engine::WeightSource& source_;
  const std::atomic<bool>& interrupted_;
};

}  // namespace

class NativeWorker::Impl {
 public:
  Impl(NativeWorkerOptions options, std::shared_ptr<PackageSource> source, SendMessage send,
       NativeWorkerHooks hooks)
      : options_(std::move(options)),
        source_(std::move(source)),
        hooks_(std::move(hooks)),
        send_(std::move(send)),
        membership_(OfferOf(options_), options_.dispatch, SecureRandomBytes),
        alarm_([this] { Ring(); }) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      Interrupt();
    }
    alarm_.Stop();
    alive_.reset();  // which the alarm's thread looks at
    downloads_.Stop();
    reads_.Stop();
    compute_.Stop();
  }

  // Any thread. The lock makes what is carried out, and what is sent, follow the order in which it
  // was decided; carrying out is never more than putting something on a queue.
  void Feed(Event event) {
    const std::lock_guard lock(mutex_);
    FeedLocked(std::move(event));
  }

  void ConnectedAgain(SendMessage send) {
    const std::lock_guard lock(mutex_);
    send_ = std::move(send);
    FeedLocked(worker::ConnectedAgain{});
  }

 private:
  // What came in time, and was not read yet, is not late.
  void Ring() {
    if (!options_.datagrams) return Feed(TimerDue{});
    options_.datagrams->AfterReceived([this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) Feed(TimerDue{});
    });
  }

  void FeedLocked(Event event) {
    for (Action& action : membership_.Handle(std::move(event), MonotonicNow()))
      std::visit([this](auto& each) { Carry(each); }, action);
    if (membership_.ended()) Interrupt();
  }

  // Under the lock, as everything that sets these.
  void Interrupt() {
    stopping_ = true;
    fetch_interrupted_ = true;
    read_interrupted_ = true;
  }

  // ---- under the lock ----

  void Carry(SendControl& action) {
    const wire::pb::WorkerMessage& message = action.message;
    if (message.has_failed()) LogWarn("worker: {}", message.failed().message());
    std::vector<uint8_t> bytes(1 + message.ByteSizeLong());
    bytes[0] = wire::kControlByte;
    CHECK(message.SerializeToArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
    send_({Slice(std::move(bytes))});
  }
  void Carry(SendFrame& action) { send_(std::move(action.message)); }
  void Carry(SendShards& action) { send_(wire::EncodeShardMessage(action.peer, action.frames)); }
  void Carry(SendDatagrams& action) { options_.datagrams->Send(action.datagrams); }
  void Carry(Finish& action) { hooks_.on_finished(std::move(action.error)); }
  void Carry(HangUp& action) { hooks_.hang_up(std::move(action.reason), action.later); }
  void Carry(KnowSuccessors& action) { hooks_.know_successors(std::move(action.successors)); }
  void Carry(KeepFor& action) { hooks_.keep_for(action.time); }
  void Carry(WakeAt& action) { alarm_.Set(action.at); }
  void Carry(LimitSilence& action) { hooks_.limit_silence(action.time); }

  void Carry(Join& action) {
    downloads_.Push([this, join = action] { Feed(Joined{OnJoin(join)}); });
  }
  void Carry(Fetch& action) {
    fetch_interrupted_ = stopping_.load();
    downloads_.Push([this, fetch = std::move(action)] {
      Downloader downloader(*loader_, [this](Event event) { Feed(std::move(event)); });
      std::vector<LayerPart> parts;
      for (const wire::LayerExperts& set : fetch.experts) parts.push_back({set.layer, set.experts});
      if (IsHub(fetch.form))
        for (const uint32_t layer : fetch.layers) parts.push_back({layer, {}});
      Feed(FetchEnded{parts.empty() ? downloader.Fetch(fetch.layers, fetch_interrupted_)
                                    : downloader.FetchParts(parts, fetch_interrupted_)});
    });
  }
  void Carry(InterruptFetch&) { fetch_interrupted_ = true; }
  void Carry(ReadLayers& action) {
    read_interrupted_ = stopping_.load();
    reads_.Push([this, read = std::move(action)] {
      Feed(
          LayersRead{read.experts ? OnReadExperts(*read.experts) : OnRead(read.ranges, read.form)});
    });
  }
  void Carry(InterruptRead&) { read_interrupted_ = true; }
  void Carry(Compute& action) {
    // A task is copyable, work is not.
    compute_.Push([this, work = std::make_shared<Work>(std::move(action.work))] {
      const bool is_of_exchange = NoteBegin(*work);
      auto outcome = host_->Do(std::move(*work));
      const bool waits = outcome.ok() && std::holds_alternative<StepWaits>(*outcome);
      Feed(WorkDone{std::move(outcome)});
      ended_at_ = MonotonicNow();
      if (is_of_exchange || waits) PollForWork();
    });
  }

  // ---- the thread that computes ----

  // Whether it is a part of what hub and holders do in a layer.
  bool NoteBegin(const Work& work) {
    const bool is_of_exchange =
        std::holds_alternative<RunExperts>(work) || std::holds_alternative<ResumeStep>(work);
    if (!is_of_exchange) return false;
    const auto wait_us = static_cast<double>((MonotonicNow() - ended_at_).us);
    usual_wait_us_ += (std::min(wait_us, kLongestNotedWaitUs) - usual_wait_us_) / 16;
    return true;
  }

  // The rows of a layer are away for about as long as a thread takes to fall asleep and to be
  // woken. So this one looks by itself at what comes, a few times as long as that usually takes.
  void PollForWork() {
    if (!options_.datagrams || usual_wait_us_ > kLongestUsualWaitUs) return;
    const Instant until =
        MonotonicNow() + Microseconds(static_cast<int64_t>(4 * usual_wait_us_ + 100));
    options_.datagrams->SetPolled(true);
    while (compute_.IsEmpty() && !stopping_ && MonotonicNow() < until)
      options_.datagrams->TakeReceived(
          [this](ReceivedDatagram datagram) { Feed(DatagramReceived{std::move(datagram)}); });
    options_.datagrams->SetPolled(false);
  }

  // ---- the thread that downloads ----

  // Nothing else is under way, so what was made for another package can go.
  Result<JoinedPackage> OnJoin(const Join& join) {
    host_.reset();
    loader_.reset();
    ASSIGN_OR_RETURN(package::Manifest manifest,
                     source_->FetchManifest(package::Digest(join.package_digest)));
    engine::NativeEngineOptions engine_options;
    engine_options.threads =
        options_.threads ? options_.threads : engine::ShareThreads(options_.thread_count);
    engine_options.reference_kernels = options_.reference_kernels;
    engine_options.memory = options_.memory
                                ? options_.memory
                                : std::make_shared<engine::MemoryLimit>(options_.memory_bytes);
    // Rows are what they would be if they crossed the wire between any two layers, so the answer
    // does not depend on the plan (docs/decisions/0006-cut-invariance.md).
    engine_options.residual_dtype = manifest.boundary_dtype;
    engine_options.kv_dtype = package::KvDType(manifest.quantisation);
    host_ = std::make_unique<StageHost>(ShapeOf(manifest), engine::MakeNativeEngine(engine_options),
                                        MonotonicNow);
    host_->BeHubWith(engine::MakeNativeEngine(engine_options));
    // Rows of experts are not the residual stream: they are given back as they were computed.
    engine_options.residual_dtype = DType::kF32;
    host_->HoldExpertsWith(std::make_unique<ExpertHost>(engine::MakeNativeEngine(engine_options)));
    loader_ = std::make_unique<LayerLoader>(std::move(manifest), source_);
    host_->PredictWith([this](uint32_t layer) { return FindPredictor(layer); });
    JoinedPackage joined;
    joined.layer_count = static_cast<uint32_t>(loader_->manifest().layers.size());
    joined.cached_layers = loader_->DownloadedLayers();
    joined.download_bytes_per_s = source_->MeasureDownload(join.probe_bytes);
    return joined;
  }

  // ---- the thread that reads ----

  Result<std::unique_ptr<engine::LoadedLayers>> OnRead(const std::vector<LayerRange>& ranges,
                                                       LayerForm form) {
    std::map<uint32_t, program::Program> programs;  // by layer: ranges may overlap
    for (const LayerRange range : ranges) {
      ASSIGN_OR_RETURN(auto some, loader_->Programs(range.first, range.end));
      for (program::Program& program : some)
        programs.emplace(program.layer_index, std::move(program));
    }
    std::vector<program::Program> each;
    each.reserve(programs.size());
    for (auto& [layer, program] : programs) each.push_back(std::move(program));
    InterruptibleSource source(*loader_, read_interrupted_);
    return IsHub(form) ? host_->ReadHubs(each, source) : host_->Read(each, source);
  }

  // Without one the hub goes by the groups' mean norms.
  std::optional<package::GroupPredictor> FindPredictor(uint32_t layer) {
    auto predictor = loader_->Predictor(layer);
    if (predictor.ok()) return std::move(*predictor);
    LogWarn("worker: {}", predictor.error().ToString());
    return std::nullopt;
  }

  Result<std::unique_ptr<engine::LoadedLayers>> OnReadExperts(
      const std::vector<wire::LayerExperts>& sets) {
    std::vector<program::Program> layers;
    for (const wire::LayerExperts& set : sets) {
      ASSIGN_OR_RETURN(auto one, loader_->Programs(set.layer, set.layer + 1));
      layers.push_back(std::move(one.front()));
    }
    InterruptibleSource source(*loader_, read_interrupted_);
    return host_->experts().Read(sets, layers, source);
  }

  const NativeWorkerOptions options_;
  const std::shared_ptr<PackageSource> source_;
  const NativeWorkerHooks hooks_;

  // Made by the thread that downloads before membership hears of Joined, which lets the other two
  // begin. Outlives what membership keeps of the engine.
  std::unique_ptr<LayerLoader> loader_;
  std::unique_ptr<StageHost> host_;

  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::mutex mutex_;
  SendMessage send_;       // under mutex_, of the connection that there is
  Membership membership_;  // under mutex_
  Alarm alarm_;            // set under mutex_, and rings without it
  std::atomic<bool> stopping_ = false, fetch_interrupted_ = false, read_interrupted_ = false;

  // The thread that computes has these.
  static constexpr double kLongestUsualWaitUs = 600, kLongestNotedWaitUs = 1500;
  Instant ended_at_ = MonotonicNow();
  double usual_wait_us_ = kLongestUsualWaitUs;

  TaskQueue downloads_;
  TaskQueue reads_;
  TaskQueue compute_;
};

NativeWorker::NativeWorker(NativeWorkerOptions options, std::shared_ptr<PackageSource> source,
                           SendMessage send, NativeWorkerHooks hooks)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(source), std::move(send),
                                   std::move(hooks))) {}
NativeWorker::~NativeWorker() = default;
void NativeWorker::OnMessage(Slice message) {
  impl_->Feed(MessageReceived{std::move(message)});
}
void NativeWorker::OnDatagram(ReceivedDatagram datagram) {
  impl_->Feed(DatagramReceived{std::move(datagram)});
}
void NativeWorker::OnConnectionLost() {
  impl_->Feed(ConnectionLost{});
}
void NativeWorker::OnConnectedAgain(SendMessage send) {
  impl_->ConnectedAgain(std::move(send));
}
void NativeWorker::OnKeptLongEnough() {
  impl_->Feed(KeptLongEnough{});
}
void NativeWorker::Leave(const std::string& reason) {
  impl_->Feed(LeaveAsked{reason, true});
}

}  // namespace weft::worker
