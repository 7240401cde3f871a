#include "apps/plan_devices.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <set>
#include <sstream>

#include "base/file.h"

namespace weft::apps {
namespace json = boost::json;

namespace {

// Reads one worker of the file; remembers the first thing that is wrong.
class WorkerReader {
 public:
  // `where`: the device in sentences about it.
  WorkerReader(const json::value& value, std::string where) : where_(std::move(where)) {
    if (value.is_object()) {
      object_ = &value.as_object();
    } else {
      Fail("is not an object");
    }
  }

  std::string Text(const char* name, const std::string& if_absent) {
    const json::value* value = Find(name);
    if (value == nullptr) return if_absent;
    if (!value->is_string()) Fail(std::string("has a '") + name + "' that is no text");
    return value->is_string() ? std::string(value->as_string()) : if_absent;
  }

  std::string OneOf(const char* name, const std::string& if_absent, const std::string& other) {
    std::string text = Text(name, if_absent);
    if (text != if_absent && text != other) {
      Fail(std::string("has '") + name + "' = \"" + text + "\"; expected \"" + if_absent +
           "\" or \"" + other + "\"");
    }
    return text;
  }

  bool Flag(const char* name) {
    const json::value* value = Find(name);
    if (value != nullptr && !value->is_bool()) {
      Fail(std::string("has a '") + name + "' that is neither true nor false");
    }
    return value != nullptr && value->is_bool() && value->as_bool();
  }

  std::optional<double> Number(const char* name, double lowest) {
    const json::value* value = Find(name);
    if (value == nullptr) return std::nullopt;
    const double number = value->is_number() ? value->to_number<double>() : std::nan("");
    if (number >= lowest && std::isfinite(number)) return number;
    Fail(std::string("has '") + name + "' = " + json::serialize(*value) +
         "; expected a number from " + std::to_string(lowest));
    return std::nullopt;
  }

  uint64_t Bytes(const char* name) {
    const json::value* value = Find(name);
    std::optional<uint64_t> byte_count;
    if (value != nullptr && value->is_string()) byte_count = ParseByteCount(value->as_string());
    if (value != nullptr && value->is_int64() && value->as_int64() > 0) {
      byte_count = static_cast<uint64_t>(value->as_int64());
    }
    if (!byte_count) Fail(std::string("needs '") + name + "' such as \"4GiB\"");
    return byte_count.value_or(0);
  }

  std::vector<bool> Layers(const char* name, size_t layer_count) {
    std::vector<bool> layers(layer_count, false);
    const json::value* value = Find(name);
    if (value == nullptr) return layers;
    if (!value->is_array())
      return Fail(std::string("has '") + name + "' that is no array of layers"), layers;
    for (const json::value& item : value->as_array()) {
      const auto layer = item.is_int64() ? item.as_int64() : -1;
      if (layer < 0 || static_cast<size_t>(layer) >= layer_count) {
        Fail(std::string("names layer ") + json::serialize(item) + " of " +
             std::to_string(layer_count));
        return layers;
      }
      layers[static_cast<size_t>(layer)] = true;
    }
    return layers;
  }

  // REQUIRES: everything that there can be has been asked for.
  void RefuseOthers() {
    if (object_ == nullptr) return;
    for (const auto& member : *object_) {
      if (asked_.count(std::string(member.key())) > 0) continue;
      std::string names;
      for (const std::string& name : asked_) names += (names.empty() ? "" : ", ") + name;
      Fail("has an unknown '" + std::string(member.key()) + "'; there are: " + names);
    }
  }

  const std::string& problem() const { return problem_; }

 private:
  const json::value* Find(const char* name) {
    asked_.insert(name);
    return object_ == nullptr ? nullptr : object_->if_contains(name);
  }
  void Fail(const std::string& what) {
    if (problem_.empty()) problem_ = where_ + " " + what + ".";
  }

  std::string where_;
  const json::object* object_ = nullptr;
  std::set<std::string> asked_;
  std::string problem_;
};

swarm::DeviceNumbers ReadDevice(WorkerReader& reader, const std::string& if_nameless,
                                size_t layer_count) {
  swarm::DeviceNumbers device;
  device.name = reader.Text("name", if_nameless);
  device.native = device.messages = reader.OneOf("kind", "native", "web") == "native";
  device.needs_onnx = reader.Flag("needs_onnx");
  device.rows_to_server = !device.native && !device.needs_onnx;
  device.memory_bytes = reader.Bytes("memory");
  device.weight_factor = reader.Number("weight_factor", 0.01).value_or(1);
  const auto scaled = [&](const char* name, double lowest, double factor) -> std::optional<double> {
    const std::optional<double> number = reader.Number(name, lowest);
    if (!number) return std::nullopt;
    return *number * factor;
  };
  device.bytes_per_us = scaled("read_gb_per_s", 1e-6, 1e3);
  device.overhead_us = reader.Number("overhead_us", 0);
  device.latency_us = scaled("latency_ms", 0, 1e3);
  device.download_bytes_per_s = scaled("download_mb_per_s", 1e-6, 1e6).value_or(0);
  device.upload_bytes_per_s = scaled("upload_mb_per_s", 1e-6, 1e6).value_or(0);
  device.cached_layers = reader.Layers("cached_layers", layer_count);
  if (const auto lifetime_s = scaled("lifetime_minutes", 1e-3, 60)) {
    device.losses_per_s = 1 / *lifetime_s;
  }
  reader.RefuseOthers();
  return device;
}

// "field=value" as a member of the JSON that the file would have; false: it is no such thing.
bool AddField(const std::string& text, json::object& object) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
  boost::system::error_code error;
  const json::value number_or_flag = json::parse(value, error);
  const bool is_text = error || !(number_or_flag.is_number() || number_or_flag.is_bool());
  object[name] = is_text ? json::value(value) : number_or_flag;
  return true;
}

}  // namespace

Result<std::vector<swarm::DeviceNumbers>> ReadDevices(const std::string& path, size_t layer_count) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, 1 << 20));
  boost::system::error_code error;
  const json::value document = json::parse(text, error);
  const json::value* list =
      !error && document.is_object() ? document.as_object().if_contains("workers") : nullptr;
  if (list == nullptr || !list->is_array() || list->as_array().empty()) {
    return Error(
        ErrorCode::kInvalidData,
        "'" + path +
            "' must be JSON like {\"workers\": [{\"name\": \"laptop\", \"memory\": \"4GiB\", "
            "\"read_gb_per_s\": 20, \"latency_ms\": 2, \"download_mb_per_s\": 50}]}" +
            (error ? ": " + error.message() : "") + ".");
  }
  std::vector<swarm::DeviceNumbers> devices;
  for (size_t i = 0; i < list->as_array().size(); ++i) {
    WorkerReader reader(list->as_array()[i], "workers[" + std::to_string(i) + "]");
    devices.push_back(ReadDevice(reader, "worker " + std::to_string(i + 1), layer_count));
    if (!reader.problem().empty()) {
      return Error(ErrorCode::kInvalidData, "In '" + path + "', " + reader.problem());
    }
  }
  return devices;
}

Result<swarm::DeviceNumbers> ParseDevice(const std::string& text, size_t layer_count) {
  std::istringstream parts(text);
  std::string part;
  json::object object;
  bool understood = true;
  for (bool first = true; std::getline(parts, part, ','); first = false) {
    if (!first) {
      understood = understood && AddField(part, object);
      continue;
    }
    const size_t equals = part.find('=');
    understood = equals != std::string::npos && equals > 0;
    if (!understood) break;
    object["name"] = part.substr(0, equals);
    object["memory"] = part.substr(equals + 1);
  }
  if (!understood || object.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + text +
                     "' is no device; expected one such as laptop=8GB or "
                     "laptop=8GB,read_gb_per_s=20,kind=web.");
  }
  const json::value value = std::move(object);  // that the reader points into
  WorkerReader reader(value, "'" + text + "'");
  swarm::DeviceNumbers device = ReadDevice(reader, "", layer_count);
  if (!reader.problem().empty()) return Error(ErrorCode::kInvalidArgument, reader.problem());
  return device;
}

Status RemoveDevice(std::vector<swarm::DeviceNumbers>& devices, const std::string& name) {
  const auto found =
      std::find_if(devices.begin(), devices.end(),
                   [&](const swarm::DeviceNumbers& device) { return device.name == name; });
  if (found != devices.end()) {
    devices.erase(found);
    return OkStatus();
  }
  std::string names;
  for (const swarm::DeviceNumbers& device : devices) {
    names += (names.empty() ? "" : ", ") + device.name;
  }
  return Error(ErrorCode::kInvalidArgument,
               "There is no device '" + name + "' to remove; there are: " + names + ".");
}

}  // namespace weft::apps
