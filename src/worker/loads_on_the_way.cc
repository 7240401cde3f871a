// Fetching, reading and installing what is to be loaded.
#include <algorithm>

#include "base/check.h"
#include "worker/answers.h"
#include "worker/loads.h"

namespace weft::worker {

namespace pb = wire::pb;

void Loads::FetchNext() {
  if (auto layers = fetches_.Begin()) {
    Fetch fetch{std::move(*layers), {}, LayerForm::kWhole};
    const auto load = loads_.find(*fetches_.served());  // or of DownloadLayers
    if (load != loads_.end()) {
      if (load->second.experts) fetch.experts = *load->second.experts;
      fetch.form = load->second.form;
    }
    out_.Do(std::move(fetch));
  }
  if (fetches_.TakeInterrupt()) out_.Do(InterruptFetch{});
}

// Only what stays loaded may be counted on by what is read.
void Loads::ReadNext() {
  if (!reading_ && !fetched_.empty() && !queue_.IsUnloading()) {
    auto next = std::find_if(fetched_.begin(), fetched_.end(),
                             [this](uint32_t ticket) { return !loads_.at(ticket).standby; });
    if (next == fetched_.end()) next = fetched_.begin();
    reading_ = *next;
    fetched_.erase(next);
    read_interrupted_ = false;
    const Load& load = loads_.at(*reading_);
    out_.Do(ReadLayers{load.ranges, load.experts, load.form});
  }
  if (reading_ && !read_interrupted_ && !loads_.contains(*reading_)) {
    read_interrupted_ = true;
    out_.Do(InterruptRead{});
  }
}

void Loads::OnProgress(const FetchProgressed& event) {
  pb::WorkerMessage message;
  message.mutable_download_progress()->set_done_bytes(event.done_bytes);
  message.mutable_download_progress()->set_total_bytes(event.total_bytes);
  out_.Send(std::move(message));
}

void Loads::OnLayer(const LayerFetched& event) {
  fetches_.LayerCame(event.layer);
  pb::WorkerMessage message;
  message.mutable_layer_downloaded()->set_layer(event.layer);
  message.mutable_layer_downloaded()->set_byte_count(event.byte_count);
  message.mutable_layer_downloaded()->set_elapsed_us(
      event.byte_count == 0 ? 0 : static_cast<uint64_t>(std::max<int64_t>(1, event.elapsed.us)));
  out_.Send(std::move(message));
}

void Loads::OnFetchEnded(const Status& status) {
  using End = FetchQueue::End;
  const bool interrupted = !status.ok() && status.error().code() == ErrorCode::kCancelled;
  const auto ticket = fetches_.Ended(status.ok()   ? End::kComplete
                                     : interrupted ? End::kInterrupted
                                                   : End::kFailed);
  if (!ticket) return;
  if (!status.ok()) return Fail(*ticket, status.error());
  if (loads_.contains(*ticket)) fetched_.push_back(*ticket);  // else it was for standby
}

void Loads::Fail(uint32_t ticket, const Error& error) {
  const auto load = loads_.find(ticket);
  const uint32_t binding = load == loads_.end() ? 0 : load->second.binding;
  if (binding != 0 && !load->second.experts) stages_.Remove(binding);
  if (load != loads_.end()) loads_.erase(load);
  out_.Send(FailedMessage(binding, error));
}

void Loads::OnRead(LayersRead event) {
  CHECK(reading_.has_value());
  const uint32_t ticket = *reading_;
  read_interrupted_ = true;  // too late for that
  if (!loads_.contains(ticket)) return reading_.reset();
  if (!event.layers.ok()) {
    reading_.reset();
    return Fail(ticket, event.layers.error());
  }
  queue_.Push(StepQueue::Install{ticket, std::move(event.layers).value()});
}

std::optional<Work> Loads::TakeInstall(StepQueue::Install install) {
  const auto load = loads_.find(install.ticket);
  if (load == loads_.end()) {
    reading_.reset();
    return std::nullopt;
  }
  if (load->second.experts) return InstallExperts{std::move(install.layers)};
  return InstallLayers{std::move(install.layers), load->second.ranges, load->second.form,
                       load->second.binding};
}

void Loads::OnInstalled(uint32_t ticket, const Result<Outcome>& outcome) {
  const auto found = loads_.find(ticket);
  if (found == loads_.end()) return;  // retired while it was being installed
  if (!outcome.ok()) {
    // Some of its layers may have become part of the engine.
    const bool leaves_layers = !found->second.experts;
    Fail(ticket, outcome.error());
    if (leaves_layers) Unload();
    return;
  }
  const Load load = std::move(found->second);
  loads_.erase(found);
  if (load.experts)
    return experts_.OnInstalled(load.binding, *load.experts,
                                std::get<ExpertsInstalled>(*outcome).used_bytes);
  if (load.binding == 0) return queue_.PushFront(MeasureSpeed{load.timed, load.runs, load.probes});
  stages_.SetLoaded(load.binding);
  const auto& installed = std::get<Installed>(*outcome);
  pb::WorkerMessage reply;
  reply.mutable_prepared()->set_binding(load.binding);
  reply.mutable_prepared()->set_used_bytes(installed.used_bytes);
  reply.mutable_prepared()->set_weight_factor(installed.weight_factor);
  out_.Send(std::move(reply));
}

}  // namespace weft::worker
