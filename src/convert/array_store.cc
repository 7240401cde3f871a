#include "convert/array_store.h"

#include "base/check.h"
#include "convert/journal.h"

namespace weft::convert {
namespace {

constexpr uint64_t kSmallBytes = 64 << 10;
constexpr uint64_t kAlignment = 64;  // of arrays inside a blob: one cache line

}  // namespace

void ArrayStore::Add(const std::string& key, int layer, uint64_t byte_count, Producer producer) {
  CHECK(byte_count > 0, "an array without bytes: " + key);
  auto [entry, added] = arrays_.try_emplace(key);
  entry->second.layers.insert(layer);
  if (!added) return;
  entry->second.byte_count = byte_count;
  entry->second.producer = std::move(producer);
}

uint64_t ArrayStore::byte_count() const {
  uint64_t total = 0;
  for (const auto& [key, array] : arrays_) total += array.byte_count;
  return total;
}

Status ArrayStore::Append(Array& array, BlobWriter& writer) {
  ASSIGN_OR_RETURN(array.stored.offset, writer.Align(kAlignment));
  TRY(array.producer([&](ByteSpan bytes) -> Status {
    progress_(bytes.size());
    return writer.Append(bytes);
  }));
  array.stored.byte_count = writer.byte_count() - array.stored.offset;
  CHECK(array.stored.byte_count == array.byte_count, "an array of other length than announced");
  return OkStatus();
}

Status ArrayStore::Write() {
  std::map<int, std::vector<Array*>> small;  // layer -> arrays
  for (auto& [key, array] : arrays_) {
    if (array.byte_count < kSmallBytes && array.layers.size() == 1) {
      small[*array.layers.begin()].push_back(&array);
      continue;
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<BlobWriter> writer, BlobWriter::Open(folder_ / "blobs"));
    TRY(Append(array, *writer));
    ASSIGN_OR_RETURN(array.stored.blob, Keep(*writer));
  }
  for (auto& [layer, arrays] : small) {
    ASSIGN_OR_RETURN(const std::unique_ptr<BlobWriter> writer, BlobWriter::Open(folder_ / "blobs"));
    for (Array* array : arrays) TRY(Append(*array, *writer));
    ASSIGN_OR_RETURN(const package::Digest digest, Keep(*writer));
    for (Array* array : arrays) array->stored.blob = digest;
  }
  return OkStatus();
}

Result<package::Digest> ArrayStore::StoreBlob(ByteSpan bytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BlobWriter> writer, BlobWriter::Open(folder_ / "blobs"));
  TRY(writer->Append(bytes));
  return Keep(*writer);
}

Result<package::Digest> ArrayStore::Keep(BlobWriter& writer) {
  ASSIGN_OR_RETURN(BlobWriter::Finished finished, writer.Finish());
  blobs_[finished.digest] = std::move(finished.info);
  return finished.digest;
}

void ArrayStore::RemoveLeftovers() {
  Journal(folder_).Remove();
  std::error_code ignored;
  std::vector<std::filesystem::path> strangers;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "blobs", ignored)) {
    const auto digest = package::Digest::Parse(entry.path().filename().string());
    if (!digest.ok() || !blobs_.contains(*digest)) strangers.push_back(entry.path());
  }
  for (const auto& path : strangers) std::filesystem::remove_all(path, ignored);
}

}  // namespace weft::convert
