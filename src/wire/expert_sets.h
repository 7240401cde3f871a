// Experts of layers as control messages name them (ExpertSet), and as lists: the one place that
// knows both forms.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "wire/control.pb.h"

namespace weft::wire {

// Of an expert in a layer; expert frames have 16 bits for it.
inline constexpr uint32_t kMaxExperts = 65536;

struct LayerExperts {
  uint32_t layer = 0;
  std::vector<uint32_t> experts;  // rising, at least one
  bool operator==(const LayerExperts&) const = default;
};

using ExpertSets = google::protobuf::RepeatedPtrField<pb::ExpertSet>;

// REQUIRES: layers and experts rise, experts below kMaxExperts.
void FillExpertSets(const std::vector<LayerExperts>& layers, ExpertSets& out);

// kInvalidData: a layer that the model does not have, or that does not come after the one before.
// Also no experts, more than kMaxExperts, or a last byte of 0.
Result<std::vector<LayerExperts>> ReadExpertSets(const ExpertSets& sets, uint32_t layer_count);

}  // namespace weft::wire
