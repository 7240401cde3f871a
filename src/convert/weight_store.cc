#include "convert/weight_store.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "convert/row_converter.h"

namespace weft::convert {
namespace {

constexpr uint64_t kSmallBytes = 64 << 10;
constexpr uint64_t kSlabBytes = 8 << 20;  // of the checkpoint, converted at a time
constexpr uint64_t kAlignment = 64;       // of arrays inside a blob: one cache line

uint64_t RowsOf(const StoredWeight& weight) {
  return weight.shape.size() == 1 ? 1 : weight.shape.front();
}

// Rows [first, first + count) of `weight`, counted from its own first one. The elements of a vector
// may be interleaved like rows.
SourceRows RowsFrom(const PlannedWeight& weight, const SourceTensor& source, uint64_t first,
                    uint64_t count) {
  SourceRows rows{.format = *source.format,
                  .data = source.bytes.bytes().data(),
                  .first_row = weight.first_row + first,
                  .rows = count,
                  .columns = weight.shape.back(),
                  .interleaved_rows = source.interleaved_rows};
  if (weight.shape.size() == 1 && source.interleaved_rows > 0) std::swap(rows.rows, rows.columns);
  return rows;
}

// Gives the pages of a mapped file back: they were read and will not be read again.
void DropPages(const uint8_t* data, uint64_t byte_count) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(data) + byte_count) / page * page;
  if (end > first) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

// What a stored weight is made of: a later run with the same key would write the same bytes.
std::string KeyOf(const PlannedWeight& weight, const SourceTensor& source, DType dtype) {
  std::string key = source.file + '/' + source.version;
  for (const uint64_t part :
       {weight.first_row, RowsOf({.shape = weight.shape}), weight.shape.back()}) {
    key += '/' + std::to_string(part);
  }
  return key + '/' + std::string(DTypeName(dtype)) + '/' + weight.source;
}

Status Named(Status status, const PlannedWeight& weight, const SourceTensor& source) {
  if (status.ok()) return status;
  return Error(status.error().code(), "Tensor '" + weight.source + "' of '" + source.file +
                                          "': " + status.error().message());
}

}  // namespace

Status WeightStore::Store(const PlannedWeight& weight, const SourceTensor& source, DType dtype) {
  StoredWeight stored{.dtype = dtype, .shape = weight.shape, .data = {}, .scale = {}};
  const uint64_t rows = RowsOf(stored), columns = weight.shape.back();
  stored.data.byte_count = rows * RowDataBytes(dtype, columns);
  stored.scale.byte_count = rows * RowScaleBytes(dtype, columns);
  if (stored.data.byte_count >= kSmallBytes) return StoreLarge(weight, source, std::move(stored));

  Small small{std::move(stored), {}};
  const uint64_t data_bytes = small.weight.data.byte_count;
  small.bytes.resize(data_bytes + small.weight.scale.byte_count);
  const MutableByteSpan bytes(small.bytes);
  TRY(Named(ConvertRows(RowsFrom(weight, source, 0, rows), dtype, bytes.first(data_bytes),
                        bytes.subspan(data_bytes), 1),
            weight, source));
  progress_(rows * RowBytes(*source.format, columns));
  small_[weight.name] = std::move(small);
  return OkStatus();
}

Status WeightStore::StoreLarge(const PlannedWeight& weight, const SourceTensor& source,
                               StoredWeight stored) {
  const std::string key = KeyOf(weight, source, stored.dtype);
  const uint64_t source_bytes = RowsOf(stored) * RowBytes(*source.format, weight.shape.back());
  // Tied embeddings: the same rows in the same dtype are stored once and converted once.
  if (const auto known = large_.find(key); known != large_.end()) {
    weights_[weight.name] = weights_.at(known->second);
    progress_(source_bytes);
    return OkStatus();
  }
  large_.emplace(key, weight.name);
  if (auto finished = journal_.Find(key)) {
    const StoredWeight& found = finished->weight;
    if (found.dtype == stored.dtype && found.data.byte_count == stored.data.byte_count &&
        found.scale.byte_count == stored.scale.byte_count) {
      stored.data = found.data;
      stored.scale = found.scale;
      blobs_[stored.data.blob] = std::move(finished->info);
      weights_[weight.name] = std::move(stored);
      progress_(source_bytes);
      return OkStatus();
    }
  }
  ASSIGN_OR_RETURN(stored, ConvertLarge(weight, source, std::move(stored)));
  journal_.Add(key, {stored, blobs_.at(stored.data.blob)});
  weights_[weight.name] = std::move(stored);
  return OkStatus();
}

Result<StoredWeight> WeightStore::ConvertLarge(const PlannedWeight& weight,
                                               const SourceTensor& source, StoredWeight stored) {
  const uint64_t rows = RowsOf(stored), columns = weight.shape.back();
  const uint64_t in_bytes = RowBytes(*source.format, columns);
  const uint64_t data_bytes = RowDataBytes(stored.dtype, columns);
  const uint64_t scale_bytes = RowScaleBytes(stored.dtype, columns);
  const uint64_t slab_rows = std::clamp<uint64_t>(kSlabBytes / in_bytes, 1, rows);
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<uint8_t> data(slab_rows * data_bytes);
  std::vector<uint8_t> scales(rows * scale_bytes);
  ASSIGN_OR_RETURN(std::unique_ptr<BlobWriter> writer, BlobWriter::Open(folder_));
  const uint8_t* from = source.bytes.bytes().data() + weight.first_row * in_bytes;
  for (uint64_t first = 0; first < rows; first += slab_rows) {
    const uint64_t count = std::min(slab_rows, rows - first);
    const MutableByteSpan out(data.data(), count * data_bytes);
    const MutableByteSpan out_scales(scales.data() + first * scale_bytes, count * scale_bytes);
    TRY(Named(
        ConvertRows(RowsFrom(weight, source, first, count), stored.dtype, out, out_scales, threads),
        weight, source));
    TRY(writer->Append(out));
    DropPages(from + first * in_bytes, count * in_bytes);
    progress_(count * in_bytes);
  }
  if (!scales.empty()) {
    ASSIGN_OR_RETURN(stored.scale.offset, writer->Align(kAlignment));
    TRY(writer->Append(scales));
  }
  ASSIGN_OR_RETURN(stored.data.blob, Keep(std::move(writer)));
  if (!scales.empty()) stored.scale.blob = stored.data.blob;
  return stored;
}

void WeightStore::StoreVector(const std::string& name, std::span<const float> values) {
  const ByteSpan bytes = AsBytes(values);
  small_[name] = {{.dtype = DType::kF32,
                   .shape = {values.size()},
                   .data = {.blob = {}, .offset = 0, .byte_count = bytes.size()},
                   .scale = {}},
                  {bytes.begin(), bytes.end()}};
}

Status WeightStore::FinishLayer() {
  if (small_.empty()) return OkStatus();
  ASSIGN_OR_RETURN(std::unique_ptr<BlobWriter> writer, BlobWriter::Open(folder_));
  for (auto& [name, small] : small_) {
    const ByteSpan bytes(small.bytes);
    ASSIGN_OR_RETURN(small.weight.data.offset, writer->Align(kAlignment));
    TRY(writer->Append(bytes.first(small.weight.data.byte_count)));
    if (small.weight.scale.byte_count == 0) continue;
    ASSIGN_OR_RETURN(small.weight.scale.offset, writer->Align(kAlignment));
    TRY(writer->Append(bytes.subspan(small.weight.data.byte_count)));
  }
  ASSIGN_OR_RETURN(const package::Digest digest, Keep(std::move(writer)));
  for (auto& [name, small] : small_) {
    small.weight.data.blob = digest;
    if (small.weight.scale.byte_count > 0) small.weight.scale.blob = digest;
    weights_[name] = std::move(small.weight);
  }
  small_.clear();
  return OkStatus();
}

void WeightStore::RemoveLeftovers() {
  journal_.Remove();
  std::error_code ignored;
  std::vector<std::filesystem::path> strangers;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored)) {
    const auto digest = package::Digest::Parse(entry.path().filename().string());
    if (!digest.ok() || !blobs_.contains(*digest)) strangers.push_back(entry.path());
  }
  for (const auto& path : strangers) std::filesystem::remove_all(path, ignored);
}

Result<package::Digest> WeightStore::StoreBlob(ByteSpan bytes) {
  ASSIGN_OR_RETURN(std::unique_ptr<BlobWriter> writer, BlobWriter::Open(folder_));
  TRY(writer->Append(bytes));
  return Keep(std::move(writer));
}

Result<package::Digest> WeightStore::Keep(std::unique_ptr<BlobWriter> writer) {
  ASSIGN_OR_RETURN(BlobWriter::Finished finished, writer->Finish());
  blobs_[finished.digest] = std::move(finished.info);
  return finished.digest;
}

}  // namespace weft::convert
