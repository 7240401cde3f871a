// Multidirectional broadcasting of two shapes, as ONNX and NumPy do it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace weft::onnx {

// The common shape; nullopt when the two do not broadcast. How many elements it has is the caller's
// to check.
inline std::optional<std::vector<int64_t>> BroadcastShape(const std::vector<int64_t>& a,
                                                          const std::vector<int64_t>& b) {
  std::vector<int64_t> out(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

// Index into a tensor of shape `dims` for the flat index `flat` of its broadcast to `out`.
inline size_t BroadcastIndex(size_t flat, const std::vector<int64_t>& out,
                             const std::vector<int64_t>& dims) {
  size_t index = 0, stride = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t from_back = dims.size() - 1 - i;
    const auto extent = static_cast<size_t>(out[out.size() - 1 - i]);
    if (dims[from_back] != 1) index += flat % extent * stride;
    stride *= static_cast<size_t>(dims[from_back]);
    flat /= extent;
  }
  return index;
}

}  // namespace weft::onnx
