#include "convert/weights/array_store.h"

#include <algorithm>

#include "base/check.h"

namespace weft::convert {

void ArrayStore::Add(const std::string& key, int layer, uint64_t byte_count, Producer producer,
                     uint64_t shares) {
  CHECK(byte_count > 0 && shares > 0 && byte_count % shares == 0,
        "an array without bytes, or of unequal shares: " + key);
  auto [entry, added] = arrays_.try_emplace(key);
  Array& array = entry->second;
  array.layers.insert(layer);
  array.shares = std::max(array.shares, shares);
  if (!added) return;
  array.byte_count = byte_count;
  array.producer = std::move(producer);
}

uint64_t ArrayStore::byte_count() const {
  uint64_t total = 0;
  for (const auto& [key, array] : arrays_) total += array.byte_count;
  return total;
}

std::vector<ArrayStore::Blob> ArrayStore::LayOutBlobs() {
  std::vector<Blob> blobs;
  std::map<int, Blob> small;                         // layer -> arrays
  std::map<std::pair<int, uint64_t>, Blob> experts;  // layer, expert -> arrays
  for (auto& [key, array] : arrays_) {
    const bool is_shared = array.layers.size() > 1;
    if (is_shared) array.shares = 1;
    array.parts.resize(array.shares);
    const int layer = *array.layers.begin();
    if (array.shares > 1) {
      for (uint64_t i = 0; i < array.shares; ++i) {
        experts[{layer, i}].push_back({&key, &array, {i, array.shares}});
      }
    } else if (array.byte_count < kSmallBytes && !is_shared) {
      small[layer].push_back({&key, &array, {}});
    } else {
      blobs.push_back(Blob{Item{&key, &array, {}}});
    }
  }
  for (auto& [expert, blob] : experts) blobs.push_back(std::move(blob));
  for (auto& [layer, blob] : small) blobs.push_back(std::move(blob));
  return blobs;
}

Result<StoredArray> ArrayStore::Append(const Item& item, BlobWriter& writer) {
  StoredArray stored;
  ASSIGN_OR_RETURN(stored.offset, writer.Align(kAlignment));
  TRY(item.array->producer(item.share, [&](ByteSpan bytes) -> Status {
    progress_(bytes.size(), false);
    return writer.Append(bytes);
  }));
  stored.byte_count = writer.byte_count() - stored.offset;
  CHECK(stored.byte_count == item.share.Size(item.array->byte_count),
        "an array of other length than announced");
  return stored;
}

Status ArrayStore::Write() {
  for (const Blob& blob : LayOutBlobs()) {
    const std::string key = JournalKey(blob);
    if (TakeOver(blob, key)) continue;
    TRY(WriteBlob(blob));
    const package::Digest digest = blob.front().array->parts[blob.front().share.index].blob;
    Journal::Entry entry{digest, {}, blobs_.at(digest)};
    if (entry.info.byte_count < kSmallBytes) continue;  // as quick to make as to find again
    for (const Item& item : blob) {
      entry.weights.push_back(
          {.shape = {}, .data = item.array->parts[item.share.index], .scale = {}});
    }
    journal_.Add(key, entry);
  }
  return OkStatus();
}

Status ArrayStore::WriteBlob(const Blob& blob) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BlobWriter> writer, BlobWriter::Open(folder_ / "blobs"));
  for (const Item& item : blob) {
    ASSIGN_OR_RETURN(item.array->parts[item.share.index], Append(item, *writer));
  }
  ASSIGN_OR_RETURN(const package::Digest digest, Keep(*writer));
  for (const Item& item : blob) item.array->parts[item.share.index].blob = digest;
  return OkStatus();
}

// A later run with the same key would write the same bytes.
std::string ArrayStore::JournalKey(const Blob& blob) const {
  std::string key = source_version_;
  for (const Item& item : blob) {
    key += ';' + *item.key + '/' + std::to_string(item.array->byte_count) + '/' +
           std::to_string(item.share.index) + '/' + std::to_string(item.share.count);
  }
  return key;
}

bool ArrayStore::TakeOver(const Blob& blob, const std::string& key) {
  const auto entry = journal_.Find(key);
  if (!entry || entry->weights.size() != blob.size()) return false;
  uint64_t total = 0;
  for (size_t i = 0; i < blob.size(); ++i) {
    const uint64_t byte_count = blob[i].share.Size(blob[i].array->byte_count);
    if (entry->weights[i].data.byte_count != byte_count) return false;
    total += byte_count;
  }
  for (size_t i = 0; i < blob.size(); ++i) {
    blob[i].array->parts[blob[i].share.index] = entry->weights[i].data;
  }
  blobs_[entry->blob] = entry->info;
  progress_(total, true);
  return true;
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
  journal_.Remove();
  std::error_code ignored;
  std::vector<std::filesystem::path> strangers;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "blobs", ignored)) {
    const auto digest = package::Digest::Parse(entry.path().filename().string());
    if (!digest.ok() || !blobs_.contains(*digest)) strangers.push_back(entry.path());
  }
  for (const auto& path : strangers) std::filesystem::remove_all(path, ignored);
}

}  // namespace weft::convert
