#include "convert/weights/weight_store.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "convert/weights/row_converter.h"
#include "convert/weights/source_rows.h"

namespace weft::convert {
namespace {

constexpr uint64_t kSlabBytes = 8 << 20;  // of the checkpoint, converted at a time

uint64_t RowsOf(const StoredWeight& weight) {
  return weight.shape.size() == 1 ? 1 : weight.shape.front();
}

// Whether the bytes of a row lie together.
bool LiesInRows(const SourceRows& rows) {
  return rows.transposed_rows == 0 && rows.coded == nullptr;
}

// Where `rows` rows of a piece from the `first`-th on lie in memory.
ByteSpan SpanOf(const SourceRows& all, uint64_t first, uint64_t rows) {
  // Blocks of MXFP4 without their exponents.
  const uint64_t row_bytes = all.exponents != nullptr ? all.columns / kBlockValues * 16
                                                      : RowBytes(all.format, all.columns);
  return {all.data + (all.first_row + first * all.row_step) * row_bytes,
          ((rows - 1) * all.row_step + 1) * row_bytes};
}

// Gives the pages of a mapped file back: they were read and will not be read again.
void DropPages(ByteSpan bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size()) / page * page;
  if (end > first) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

// What a blob is made of: a later run with the same key would write the same bytes.
std::string KeyOf(std::span<const StoreJob> jobs, const TensorMap& tensors) {
  std::string key;
  for (const StoreJob& job : jobs) {
    key += std::string(DTypeName(job.dtype)) + '+' + std::to_string(job.weight->offset);
    if (job.weight->minus_exp) key += "-exp";
    if (job.weight->factor != 1) key += '*' + std::to_string(job.weight->factor);
    for (const SourcePiece& piece : job.weight->pieces) {
      const SourceTensor& tensor = tensors.find(piece.tensor)->second;
      key += '/' + tensor.file + '/' + tensor.version + '/' + piece.tensor;
      for (const uint64_t part :
           {piece.rows, piece.columns, piece.first_row, piece.row_step, uint64_t{piece.transposed},
            piece.matrix, piece.matrix_rows, piece.factor_index}) {
        key += '/' + std::to_string(part);
      }
      key += piece.factors;
    }
    key += ';';
  }
  return key;
}

// The first `rows` rows of `rest`, which are taken off it.
TargetRows TakeRows(uint64_t rows, uint64_t columns, DType dtype, TargetRows* rest) {
  const auto take = [](MutableByteSpan* from, uint64_t byte_count) {
    const MutableByteSpan taken = from->first(byte_count);
    *from = from->subspan(byte_count);
    return taken;
  };
  const uint64_t zero_bytes = rest->zero.empty() ? 0 : rows * RowZeroBytes(columns);
  return {take(&rest->data, rows * RowDataBytes(dtype, columns)),
          take(&rest->scale, rows * RowScaleBytes(dtype, columns)), take(&rest->zero, zero_bytes)};
}

Status Named(Status status, const SourcePiece& piece, const TensorMap& tensors) {
  if (status.ok()) return status;
  const SourceTensor& tensor = tensors.find(piece.tensor)->second;
  return Error(status.error().code(), "Tensor '" + NameInFile(piece.tensor, tensor) + "' of '" +
                                          tensor.file + "': " + status.error().message());
}

// Experts are stacked, and what multiplies with stacks takes no zero points.
bool KeepsZeroPoints(const StoreJob& job, const TensorMap& tensors) {
  return job.dtype == DType::kQ4 && job.weight->role != WeightRole::kExpert &&
         HasZeroPoints(*job.weight, tensors);
}

// Bytes of the weight's arrays, before it is known where they lie.
StoredWeight Described(const StoreJob& job, const TensorMap& tensors) {
  StoredWeight stored{
      .dtype = job.dtype, .shape = job.weight->shape, .data = {}, .scale = {}, .zero = {}};
  const uint64_t rows = RowsOf(stored), columns = stored.shape.back();
  stored.data.byte_count = rows * RowDataBytes(job.dtype, columns);
  stored.scale.byte_count = rows * RowScaleBytes(job.dtype, columns);
  if (KeepsZeroPoints(job, tensors)) stored.zero.byte_count = rows * RowZeroBytes(columns);
  return stored;
}

}  // namespace

Status WeightStore::Store(std::span<const StoreJob> jobs) {
  std::vector<StoredWeight> stored;
  for (const StoreJob& job : jobs) stored.push_back(Described(job, tensors_));
  const bool is_small =
      jobs.size() == 1 && jobs[0].weight->blob.empty() && stored[0].data.byte_count < kSmallBytes;
  if (is_small) return StoreSmall(jobs[0], std::move(stored[0]));
  return StoreLarge(jobs, std::move(stored));
}

Status WeightStore::StoreSmall(const StoreJob& job, StoredWeight stored) {
  Small small{std::move(stored), {}};
  const StoredWeight& weight = small.weight;
  small.bytes.resize(weight.data.byte_count + weight.scale.byte_count + weight.zero.byte_count);
  MutableByteSpan rest(small.bytes);
  TargetRows out;
  for (auto [span, array] :
       {std::pair(&out.data, &weight.data), std::pair(&out.scale, &weight.scale),
        std::pair(&out.zero, &weight.zero)}) {
    *span = rest.first(array->byte_count);
    rest = rest.subspan(array->byte_count);
  }
  for (const SourcePiece& piece : job.weight->pieces) {
    const SourceRows rows = RowsOf(*job.weight, piece, tensors_);
    TRY(Named(ConvertRows(rows, job.dtype, TakeRows(rows.rows, rows.columns, job.dtype, &out), 1),
              piece, tensors_));
  }
  progress_(SourceByteCount(*job.weight, tensors_), false);
  small_[job.weight->name] = std::move(small);
  return OkStatus();
}

void WeightStore::Enter(std::span<const StoreJob> jobs, std::vector<StoredWeight> stored) {
  for (size_t i = 0; i < jobs.size(); ++i) weights_[jobs[i].weight->name] = std::move(stored[i]);
}

Status WeightStore::StoreLarge(std::span<const StoreJob> jobs, std::vector<StoredWeight> stored) {
  const std::string key = KeyOf(jobs, tensors_);
  uint64_t source_bytes = 0;
  for (const StoreJob& job : jobs) source_bytes += SourceByteCount(*job.weight, tensors_);
  // Tied embeddings: the same rows in the same dtype are stored once and converted once.
  if (const auto known = large_.find(key); known != large_.end()) {
    for (size_t i = 0; i < jobs.size(); ++i) stored[i] = weights_.at(known->second[i]);
    Enter(jobs, std::move(stored));
    progress_(source_bytes, false);
    return OkStatus();
  }
  std::vector<std::string>& names = large_[key];
  for (const StoreJob& job : jobs) names.push_back(job.weight->name);
  if (auto finished = journal_.Find(key)) {
    bool fits = finished->weights.size() == stored.size();
    for (size_t i = 0; fits && i < stored.size(); ++i) {
      const StoredWeight& found = finished->weights[i];
      fits = found.dtype == stored[i].dtype && found.data.byte_count == stored[i].data.byte_count &&
             found.scale.byte_count == stored[i].scale.byte_count &&
             found.zero.byte_count == stored[i].zero.byte_count;
      stored[i].data = found.data;
      stored[i].scale = found.scale;
      stored[i].zero = found.zero;
    }
    if (fits) {
      blobs_[finished->blob] = std::move(finished->info);
      Enter(jobs, std::move(stored));
      progress_(source_bytes, true);
      return OkStatus();
    }
    for (size_t i = 0; i < stored.size(); ++i) stored[i] = Described(jobs[i], tensors_);
  }
  ASSIGN_OR_RETURN(const package::Digest digest, WriteBlob(jobs, &stored));
  journal_.Add(key, {digest, stored, blobs_.at(digest)});
  Enter(jobs, std::move(stored));
  return OkStatus();
}

Result<package::Digest> WeightStore::WriteBlob(std::span<const StoreJob> jobs,
                                               std::vector<StoredWeight>* stored) {
  ASSIGN_OR_RETURN(std::unique_ptr<BlobWriter> writer, BlobWriter::Open(folder_));
  for (size_t i = 0; i < jobs.size(); ++i) {
    TRY(AppendWeight(jobs[i], writer.get(), &(*stored)[i]));
  }
  ASSIGN_OR_RETURN(const package::Digest digest, Keep(std::move(writer)));
  for (StoredWeight& weight : *stored) {
    weight.data.blob = digest;
    if (weight.scale.byte_count > 0) weight.scale.blob = digest;
    if (weight.zero.byte_count > 0) weight.zero.blob = digest;
  }
  return digest;
}

// Data, then scales, then zero points.
Status WeightStore::AppendWeight(const StoreJob& job, BlobWriter* writer, StoredWeight* stored) {
  std::vector<uint8_t> scales(stored->scale.byte_count), zeros(stored->zero.byte_count);
  ASSIGN_OR_RETURN(stored->data.offset, writer->Align(kAlignment));
  TargetRows rest{.data = {}, .scale = scales, .zero = zeros};
  for (const SourcePiece& piece : job.weight->pieces) TRY(AppendPiece(job, piece, writer, &rest));
  for (auto [bytes, array] :
       {std::pair(&scales, &stored->scale), std::pair(&zeros, &stored->zero)}) {
    if (bytes->empty()) continue;
    ASSIGN_OR_RETURN(array->offset, writer->Align(kAlignment));
    TRY(writer->Append(*bytes));
  }
  return OkStatus();
}

// Writes the data of a piece; its scales and zero points are taken off `rest`.
Status WeightStore::AppendPiece(const StoreJob& job, const SourcePiece& piece, BlobWriter* writer,
                                TargetRows* rest) {
  const SourceRows all = RowsOf(*job.weight, piece, tensors_);
  const uint64_t source_bytes = SourceByteCount(piece, tensors_);
  const uint64_t data_bytes = RowDataBytes(job.dtype, all.columns);
  const uint64_t row_bytes = std::max<uint64_t>(1, source_bytes / all.rows);
  const uint64_t slab_rows = std::clamp<uint64_t>(kSlabBytes / row_bytes, 1, all.rows);
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<uint8_t> data(slab_rows * data_bytes);
  for (uint64_t first = 0; first < all.rows; first += slab_rows) {
    SourceRows slab = all;
    slab.rows = std::min(slab_rows, all.rows - first);
    slab.first_row += first * all.row_step;
    rest->data = MutableByteSpan(data).first(slab.rows * data_bytes);
    const TargetRows out = TakeRows(slab.rows, slab.columns, job.dtype, rest);
    TRY(Named(ConvertRows(slab, job.dtype, out, threads), piece, tensors_));
    TRY(writer->Append(out.data));
    // Not further than the last row reaches: what follows may be other memory than this file's.
    if (LiesInRows(all)) DropPages(SpanOf(all, first, slab.rows));
    progress_(slab.rows * (source_bytes / all.rows), false);
  }
  // Every slab of other pieces reads all of its matrix.
  if (all.coded != nullptr) {
    DropPages(tensors_.find(piece.tensor)->second.bytes.bytes());
  } else if (piece.transposed) {
    DropPages({all.data, RowBytes(all.format, piece.columns) * all.transposed_rows});
  }
  if (all.exponents != nullptr) {
    const uint64_t blocks = all.columns / kBlockValues;
    DropPages({all.exponents + all.first_row * blocks, (all.rows - 1) * all.row_step * blocks});
  }
  return OkStatus();
}

void WeightStore::StoreVector(const std::string& name, std::span<const float> values) {
  const ByteSpan bytes = AsBytes(values);
  small_[name] = {{.dtype = DType::kF32,
                   .shape = {values.size()},
                   .data = {.blob = {}, .offset = 0, .byte_count = bytes.size()},
                   .scale = {},
                   .zero = {}},
                  {bytes.begin(), bytes.end()}};
}

Status WeightStore::FinishLayer() {
  if (small_.empty()) return OkStatus();
  ASSIGN_OR_RETURN(std::unique_ptr<BlobWriter> writer, BlobWriter::Open(folder_));
  for (auto& [name, small] : small_) {
    ByteSpan rest(small.bytes);
    for (StoredArray* array : {&small.weight.data, &small.weight.scale, &small.weight.zero}) {
      if (array->byte_count == 0) continue;
      ASSIGN_OR_RETURN(array->offset, writer->Align(kAlignment));
      TRY(writer->Append(rest.first(array->byte_count)));
      rest = rest.subspan(array->byte_count);
    }
  }
  ASSIGN_OR_RETURN(const package::Digest digest, Keep(std::move(writer)));
  for (auto& [name, small] : small_) {
    small.weight.data.blob = digest;
    if (small.weight.scale.byte_count > 0) small.weight.scale.blob = digest;
    if (small.weight.zero.byte_count > 0) small.weight.zero.blob = digest;
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
