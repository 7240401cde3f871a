#include "engine/loaded_weight.h"

#include <algorithm>

#include "engine/pack_panels.h"
#include "kernels/panels.h"

namespace weft::engine {
namespace {

// One array of a weight (data, scales or zero points) cut into equal segments, one an expert.
struct Array {
  std::vector<const uint8_t*> segments;
  std::vector<Slice> slices;
  std::vector<HeldBytes> held;
};

void AddHeld(std::vector<HeldBytes>& held, const uint8_t* address, uint64_t byte_count) {
  if (!held.empty() && held.back().address + held.back().byte_count == address) {
    held.back().byte_count += byte_count;
  } else {
    held.push_back({address, byte_count});
  }
}

// Hands out the bytes of consecutive slices as segments of a given length.
class SegmentReader {
 public:
  explicit SegmentReader(std::span<const Slice> slices) : slices_(slices) {}

  // The pieces that make up the next `byte_count` bytes. REQUIRES: that many are left.
  std::vector<ByteSpan> Next(uint64_t byte_count) {
    std::vector<ByteSpan> pieces;
    while (byte_count > 0) {
      const ByteSpan bytes = slices_[slice_].bytes().subspan(offset_);
      const size_t take = std::min<uint64_t>(byte_count, bytes.size());
      if (!pieces.empty() && pieces.back().data() + pieces.back().size() == bytes.data()) {
        pieces.back() = {pieces.back().data(), pieces.back().size() + take};
      } else if (take > 0) {
        pieces.push_back(bytes.first(take));
      }
      byte_count -= take;
      offset_ += take;
      if (offset_ == slices_[slice_].byte_count()) {
        ++slice_;
        offset_ = 0;
      }
    }
    return pieces;
  }

 private:
  std::span<const Slice> slices_;
  size_t slice_ = 0;
  size_t offset_ = 0;
};

Result<std::vector<Slice>> ReadParts(std::span<const program::Part> parts, WeightSource& source) {
  std::vector<Slice> slices;
  for (const program::Part& part : parts) {
    ASSIGN_OR_RETURN(Slice slice, source.Read(part));
    if (slice.byte_count() != part.byte_count) {
      return Error(ErrorCode::kInvalidData, "A part of " + std::to_string(part.byte_count) +
                                                " bytes at offset " + std::to_string(part.offset) +
                                                " of blob " + ToHex(part.digest) + " was read as " +
                                                std::to_string(slice.byte_count()) + " bytes.");
    }
    slices.push_back(std::move(slice));
  }
  return slices;
}

Result<Array> ReadArray(std::span<const program::Part> parts, size_t segment_count,
                        uint64_t segment_bytes, size_t alignment, WeightSource& source) {
  ASSIGN_OR_RETURN(const std::vector<Slice> slices, ReadParts(parts, source));
  uint64_t total = 0;
  for (const Slice& slice : slices) total += slice.byte_count();
  if (total != segment_count * segment_bytes) {
    return Error(ErrorCode::kInvalidData, "Its parts hold " + std::to_string(total) + " bytes; " +
                                              std::to_string(segment_count * segment_bytes) +
                                              " were expected.");
  }
  Array array;
  SegmentReader reader(slices);
  bool any_in_place = false;
  for (size_t i = 0; i < segment_count; ++i) {
    const std::vector<ByteSpan> pieces = reader.Next(segment_bytes);
    const bool in_place =
        pieces.size() == 1 && reinterpret_cast<uintptr_t>(pieces[0].data()) % alignment == 0;
    any_in_place |= in_place;
    const uint8_t* address = pieces[0].data();
    if (!in_place) {
      std::vector<uint8_t> copy;
      copy.reserve(segment_bytes);
      for (const ByteSpan piece : pieces) copy.insert(copy.end(), piece.begin(), piece.end());
      array.slices.emplace_back(std::move(copy));
      address = array.slices.back().bytes().data();
    }
    array.segments.push_back(address);
    AddHeld(array.held, address, segment_bytes);
  }
  if (any_in_place) array.slices.insert(array.slices.end(), slices.begin(), slices.end());
  return array;
}

size_t MatrixCount(const program::Weight& weight) {
  return weight.shape.size() == 3 ? weight.shape[0] : 1;
}

// A matrix of the weight, without contents.
kernels::Matrix EmptyMatrix(const program::Weight& weight) {
  kernels::Matrix matrix;
  matrix.dtype = weight.dtype;
  matrix.columns = weight.shape.back();
  matrix.rows = weight.shape.size() == 1 ? 1 : weight.shape[weight.shape.size() - 2];
  return matrix;
}

// Whether the weight is kept in panels. Rows of q4s are looked up as they are stored.
bool HasPanels(const program::Weight& weight, WeightUse use) {
  return use == WeightUse::kMultiplied ? IsSuperblockFormat(weight.dtype)
                                       : use == WeightUse::kLookedUp && IsKQuant(weight.dtype);
}

// Form, shape and parts as numbers.
std::vector<uint64_t> KeyOf(const program::Weight& weight) {
  std::vector<uint64_t> key = {static_cast<uint64_t>(weight.dtype), weight.shape.size()};
  key.insert(key.end(), weight.shape.begin(), weight.shape.end());
  for (const auto* parts : {&weight.data, &weight.scale}) {
    key.push_back(parts->size());
    for (const program::Part& part : *parts) {
      for (size_t i = 0; i < part.digest.size(); i += sizeof(uint64_t))
        key.push_back(LoadLe<uint64_t>(&part.digest[i]));
      key.insert(key.end(), {part.offset, part.byte_count});
    }
  }
  return key;
}

Status LoadMatrices(const program::Weight& weight, WeightSource& source,
                    std::vector<kernels::Matrix>& matrices, std::vector<Slice>& slices,
                    std::vector<HeldBytes>& held) {
  const size_t count = MatrixCount(weight);
  kernels::Matrix matrix = EmptyMatrix(weight);
  const bool block = IsBlockFormat(weight.dtype);
  const size_t alignment = block ? 1 : static_cast<size_t>(ElementBytes(weight.dtype));

  ASSIGN_OR_RETURN(Array data, ReadArray(weight.data, count, matrix.rows * matrix.data_row_bytes(),
                                         alignment, source));
  Array scale, zero;
  if (block) {
    ASSIGN_OR_RETURN(scale, ReadArray(weight.scale, count, matrix.rows * matrix.scale_words() * 2,
                                      alignof(uint16_t), source));
  }
  if (!weight.zero.empty()) {
    ASSIGN_OR_RETURN(
        zero, ReadArray(weight.zero, count, matrix.rows * matrix.zero_row_bytes(), 1, source));
  }
  for (size_t i = 0; i < count; ++i) {
    matrix.data = data.segments[i];
    if (block) matrix.scale = reinterpret_cast<const uint16_t*>(scale.segments[i]);
    if (!zero.segments.empty()) matrix.zero = zero.segments[i];
    matrices.push_back(matrix);
  }
  for (Array* array : {&data, &scale, &zero}) {
    slices.insert(slices.end(), array->slices.begin(), array->slices.end());
    held.insert(held.end(), array->held.begin(), array->held.end());
  }
  return OkStatus();
}

}  // namespace

PanelStore::Panels PanelStore::Find(const program::Weight& weight) {
  const std::lock_guard lock(mutex_);
  const auto found = panels_.find(KeyOf(weight));
  return found == panels_.end() ? nullptr : found->second.lock();
}

void PanelStore::Add(const program::Weight& weight, const Panels& panels) {
  const std::lock_guard lock(mutex_);
  std::erase_if(panels_, [](const auto& entry) { return entry.second.expired(); });
  panels_[KeyOf(weight)] = panels;
}

Status LoadedWeight::Pack() {
  const size_t each =
      kernels::PanelsBytes(matrices_[0].dtype, matrices_[0].rows, matrices_[0].columns);
  const auto panels = std::make_shared<LargeMemory>(each * matrices_.size());
  TRY(PackAllPanels(matrices_, each, panels->data()));
  Use(panels);
  slices_.clear();
  return OkStatus();
}

void LoadedWeight::Use(PanelStore::Panels panels) {
  const size_t each =
      kernels::PanelsBytes(matrices_[0].dtype, matrices_[0].rows, matrices_[0].columns);
  const uint8_t* at = panels->data();
  held_ = {{at, each * matrices_.size()}};
  for (kernels::Matrix& matrix : matrices_) {
    matrix = {matrix.dtype, matrix.rows, matrix.columns, nullptr, nullptr, nullptr, at, 0};
    at += each;
  }
  panels_ = std::move(panels);
}

Status LoadedWeight::CheckRecords() const {
  for (const kernels::Matrix& matrix : matrices_) TRY(kernels::CheckRecords(matrix));
  return OkStatus();
}

Result<LoadedWeight> LoadedWeight::Load(const program::Weight& weight, WeightUse use,
                                        WeightSource& source, PanelStore& panels) {
  LoadedWeight loaded;
  const bool has_panels = HasPanels(weight, use);
  if (PanelStore::Panels shared = has_panels ? panels.Find(weight) : nullptr) {
    loaded.matrices_.assign(MatrixCount(weight), EmptyMatrix(weight));
    loaded.Use(std::move(shared));
    return loaded;
  }
  Status status = LoadMatrices(weight, source, loaded.matrices_, loaded.slices_, loaded.held_);
  if (!status.ok()) {
    return std::move(status).error().Context("While reading weight '" + weight.name + "'");
  }
  if (IsSuperblockFormat(weight.dtype)) {
    status = has_panels ? loaded.Pack() : loaded.CheckRecords();
    if (!status.ok())
      return std::move(status).error().Context("While reading weight '" + weight.name + "'");
  }
  if (has_panels) panels.Add(weight, loaded.panels_);
  if (use != WeightUse::kValues) return loaded;
  const kernels::Matrix& matrix = loaded.matrices_[0];
  const size_t value_count = matrix.rows * matrix.columns;
  if (loaded.matrices_.size() == 1 && weight.dtype == DType::kF32) {
    loaded.values_ = {reinterpret_cast<const float*>(matrix.data), value_count};
    return loaded;
  }
  loaded.converted_values_.resize(loaded.matrices_.size() * value_count);
  float* out = loaded.converted_values_.data();
  for (const kernels::Matrix& part : loaded.matrices_) {
    for (size_t row = 0; row < part.rows; ++row, out += part.columns) {
      kernels::ReadRow(part, row, {out, part.columns});
    }
  }
  loaded.values_ = loaded.converted_values_;
  AddHeld(loaded.held_, reinterpret_cast<const uint8_t*>(loaded.converted_values_.data()),
          loaded.converted_values_.size() * sizeof(float));
  return loaded;
}

}  // namespace weft::engine
