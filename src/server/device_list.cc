#include "server/device_list.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <optional>
#include <utility>

#include "server/responses.h"

namespace weft::server {
namespace json = boost::json;

namespace {

constexpr Duration kLongestAnswer = Seconds(25);
constexpr Duration kDeviceLook = Seconds(1);
// A device that does not ask again for so long is gone.
constexpr Duration kDeviceGone = Seconds(5);
constexpr size_t kMostDevices = 4096;
constexpr uint64_t kMostMemoryBytes = 1ull << 50;

std::optional<uint64_t> NumberIn(const net::HttpRequest& request, const char* name) {
  const std::string text = request.QueryValue(name);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

DeviceList::DeviceList(net::EventLoop& loop, Models& models, const Evictions& evictions)
    : models_(models), evictions_(evictions), timer_(loop) {
  Look();
}

void DeviceList::Answer(const net::HttpRequest& request, std::shared_ptr<net::Responder> client) {
  const std::string id = request.QueryValue("device");
  const auto memory_bytes = NumberIn(request, "memory");
  const auto seen = NumberIn(request, "seen");
  if (id.empty() || id.size() > 64 || !memory_bytes || *memory_bytes > kMostMemoryBytes || !seen) {
    return client->Send(ErrorResponse(
        {400,
         "Expected ?device=ID&memory=BYTES&seen=VERSION: an id of at most 64 characters, at most "
         "2^50 bytes, and the version of the last answer, or 0.",
         "invalid_request_error", "", ""}));
  }
  if (!devices_.contains(id) && devices_.size() >= kMostDevices)
    return client->Send(ErrorResponse(Overloaded("Too many devices help here already.")));
  Device& device = devices_[id];
  // Its request before this one has nobody who reads the answer.
  if (device.waiting) Send(device);
  device.memory_bytes = *memory_bytes;
  device.heard_at = device.waits_since = MonotonicNow();
  device.waiting = std::move(client);
  if (*seen != version_) {
    Send(device);
  } else {
    device.waiting->OnClosed(
        [this, alive = std::weak_ptr(alive_), id, gone = device.waiting.get()] {
          if (alive.expired()) return;
          const auto found = devices_.find(id);
          if (found == devices_.end() || found->second.waiting.get() != gone) return;
          devices_.erase(found);
          CountMemory();
        });
  }
  CountMemory();
}

void DeviceList::Changed() {
  ++version_;
  for (auto& [id, device] : devices_)
    if (device.waiting) Send(device);
}

void DeviceList::Send(Device& device) {
  json::array cells;
  for (const auto& [name, loaded] : models_.loaded())
    cells.push_back(json::object{
        {"cell", loaded->number}, {"model", name}, {"need_bytes", loaded->need_bytes}});
  device.heard_at = MonotonicNow();
  std::exchange(device.waiting, nullptr)
      ->Send(JsonResponse(
          200, json::serialize(json::object{{"version", version_}, {"cells", std::move(cells)}})));
}

void DeviceList::Look() {
  const Instant now = MonotonicNow();
  for (auto& [id, device] : devices_)
    if (device.waiting && now - device.waits_since > kLongestAnswer) Send(device);
  std::erase_if(devices_, [&](const auto& each) {
    return !each.second.waiting && now - each.second.heard_at > kDeviceGone;
  });
  CountMemory();
  timer_.FireAfter(kDeviceLook, [this] { Look(); });
}

void DeviceList::CountMemory() {
  std::vector<uint64_t> bytes;
  const Instant now = MonotonicNow();
  for (const auto& [id, device] : devices_)
    if (!evictions_.Find(id, now)) bytes.push_back(device.memory_bytes);
  if (std::exchange(told_bytes_, bytes) != bytes) models_.SetDeviceMemory(std::move(bytes));
}

}  // namespace weft::server
