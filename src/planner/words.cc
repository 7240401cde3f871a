#include "planner/words.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace weft::planner {
namespace {

constexpr size_t kMaxNameBytes = 40;

std::string OneDecimal(double value, const char* unit) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.1f %s", value, unit);
  return buffer;
}

}  // namespace

// Names come from strangers and go to terminals: no control characters, and short.
std::string ShownName(const std::vector<WorkerMetrics>& workers, int worker) {
  std::string name = workers[static_cast<size_t>(worker)].name;
  if (name.empty()) return "worker " + std::to_string(worker);
  if (name.size() > kMaxNameBytes) {
    size_t end = kMaxNameBytes;
    // Not inside a UTF-8 sequence: its further bytes are 10xxxxxx.
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
    name.resize(end);
  }
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return name;
}

std::string Padded(std::string text, size_t characters) {
  const auto count = static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // not a further byte of one
  }));
  return text + std::string(characters - std::min(count, characters), ' ');
}

std::string FormatBytes(double bytes) {
  if (bytes >= 1e9) return OneDecimal(bytes / 1e9, "GB");
  if (bytes >= 1e6) return OneDecimal(bytes / 1e6, "MB");
  if (bytes >= 1e3) return OneDecimal(bytes / 1e3, "kB");
  return std::to_string(std::lround(bytes)) + " B";
}

std::string FormatMicroseconds(double us) {
  if (us >= 1e6) return OneDecimal(us / 1e6, "s");
  if (us >= 1e3) return OneDecimal(us / 1e3, "ms");
  return std::to_string(std::lround(us)) + " us";
}

std::string FormatLayers(int first, int end, int layer_count) {
  const bool has_embedding = first == 0;
  const bool has_head = end == layer_count && layer_count > 1;
  if (has_embedding && has_head) return "the whole model";
  const int first_inner = std::max(first, 1), last_inner = std::min(end, layer_count - 1) - 1;
  std::string text = has_embedding ? "the embedding" : "";
  const auto append = [&](const std::string& part) {
    text += (text.empty() ? "" : " and ") + part;
  };
  if (last_inner > first_inner) {
    append("layers " + std::to_string(first_inner) + "-" + std::to_string(last_inner));
  } else if (last_inner == first_inner) {
    append("layer " + std::to_string(first_inner));
  }
  if (has_head) append("the head");
  return text;
}

}  // namespace weft::planner
