#include "engine/loaded_weight.h"

#include <algorithm>

#include "base/large_memory.h"
#include "engine/pack_panels.h"
#include "kernels/panels.h"
#include "program/shards.h"

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

// Form, shape and parts of one matrix as numbers.
std::vector<uint64_t> KeyOf(const program::Weight& matrix) {
  const kernels::Matrix empty = EmptyMatrix(matrix);
  std::vector<uint64_t> key = {static_cast<uint64_t>(matrix.dtype), empty.rows, empty.columns};
  for (const auto* parts : {&matrix.data, &matrix.scale}) {
    key.push_back(parts->size());
    for (const program::Part& part : *parts) {
      for (size_t i = 0; i < part.digest.size(); i += sizeof(uint64_t))
        key.push_back(LoadLe<uint64_t>(&part.digest[i]));
      key.insert(key.end(), {part.offset, part.byte_count});
    }
  }
  return key;
}

// A matrix whose panels are bytes [begin, end) of a piece of memory that it shares with others.
Panels PanelsIn(const std::shared_ptr<LargeMemory>& memory, size_t begin, size_t end) {
  return {memory->data() + begin, [memory, begin, end](const uint8_t*) {
            // The last one takes all of it along.
            if (memory.use_count() > 1) memory->GiveBack(begin, end);
          }};
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

std::vector<PanelStore::Key> PanelStore::KeysOf(const program::Weight& weight) {
  if (weight.shape.size() != 3) return {KeyOf(weight)};
  std::vector<Key> keys;
  for (uint32_t i = 0; i < MatrixCount(weight); ++i)
    keys.push_back(KeyOf(program::WeightOfExperts(weight, {&i, 1})));
  return keys;
}

std::vector<Panels> PanelStore::Find(const program::Weight& weight) {
  std::vector<Panels> found;
  const std::vector<Key> keys = KeysOf(weight);
  const std::lock_guard lock(mutex_);
  for (const Key& key : keys) {
    const auto known = panels_.find(key);
    found.push_back(known == panels_.end() ? nullptr : known->second.lock());
  }
  return found;
}

void PanelStore::Add(const program::Weight& weight, std::span<const Panels> panels) {
  const std::vector<Key> keys = KeysOf(weight);
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < keys.size(); ++i) panels_[keys[i]] = panels[i];
  if (panels_.size() < sweep_at_) return;
  std::erase_if(panels_, [](const auto& entry) { return entry.second.expired(); });
  sweep_at_ = 2 * panels_.size();
}

Status LoadedWeight::LoadPanels(const program::Weight& weight, WeightSource& source,
                                PanelStore& store) {
  panels_ = store.Find(weight);
  std::vector<uint32_t> missing;
  for (uint32_t i = 0; i < panels_.size(); ++i)
    if (panels_[i] == nullptr) missing.push_back(i);
  const kernels::Matrix form = EmptyMatrix(weight);
  const size_t each = kernels::PanelsBytes(form.dtype, form.rows, form.columns);
  if (!missing.empty()) {
    std::vector<kernels::Matrix> stored;
    std::vector<Slice> slices;
    std::vector<HeldBytes> read;
    TRY(LoadMatrices(
        missing.size() == panels_.size() ? weight : program::WeightOfExperts(weight, missing),
        source, stored, slices, read));
    const auto memory = std::make_shared<LargeMemory>(each * missing.size());
    TRY(PackAllPanels(stored, each, memory->data()));
    for (size_t i = 0; i < missing.size(); ++i)
      panels_[missing[i]] = PanelsIn(memory, i * each, (i + 1) * each);
    store.Add(weight, panels_);
  }
  for (const Panels& panels : panels_) {
    held_.push_back({panels.get(), each});
    matrices_.push_back(
        {form.dtype, form.rows, form.columns, nullptr, nullptr, nullptr, panels.get(), 0});
  }
  return OkStatus();
}

Status LoadedWeight::CheckRecords() const {
  for (const kernels::Matrix& matrix : matrices_) TRY(kernels::CheckRecords(matrix));
  return OkStatus();
}

Result<LoadedWeight> LoadedWeight::Load(const program::Weight& weight, WeightUse use,
                                        WeightSource& source, PanelStore& panels) {
  LoadedWeight loaded;
  const std::string what = "While reading weight '" + weight.name + "'";
  if (HasPanels(weight, use)) {
    TRY(loaded.LoadPanels(weight, source, panels).Context(what));
    return loaded;
  }
  TRY(LoadMatrices(weight, source, loaded.matrices_, loaded.slices_, loaded.held_).Context(what));
  if (IsSuperblockFormat(weight.dtype)) TRY(loaded.CheckRecords().Context(what));
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
