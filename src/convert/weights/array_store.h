// Writes the arrays of an imported model into the blobs of a package. The share of one expert in
// the arrays of a layer's experts goes together in one blob. Other large arrays, and those that
// several layers read, have a blob of their own. The rest goes together in one blob a layer. Bytes
// come piece by piece, so that peak memory is a few megabytes whatever an array's size. Blobs that
// an interrupted run finished are taken over (journal.h).
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "convert/weights/blob_writer.h"
#include "convert/weights/journal.h"
#include "convert/weights/stored_weight.h"

namespace weft::convert {

// The index-th of `count` equal shares of an array's rows; {0, 1} is all of it.
struct Share {
  uint64_t index = 0;
  uint64_t count = 1;

  // Where the share begins among `total` of something.
  uint64_t First(uint64_t total) const { return total / count * index; }
  uint64_t Size(uint64_t total) const { return total / count; }
};

class ArrayStore {
 public:
  using Sink = std::function<Status(ByteSpan)>;
  // Gives the bytes of a share of an array to the sink in order.
  using Producer = std::function<Status(const Share&, const Sink&)>;
  // Told bytes as they are in the package: written, or taken over from an interrupted run.
  using Progress = std::function<void(uint64_t byte_count, bool taken_over)>;

  // `folder` is the partial package. Two runs with the same `source_version` get the same bytes for
  // the same keys.
  ArrayStore(const std::filesystem::path& folder, std::string source_version, Progress progress)
      : folder_(folder),
        source_version_(std::move(source_version)),
        progress_(std::move(progress)),
        journal_(folder) {}

  // Array `key` of `byte_count` bytes, which `layer` reads. A key that is known gets the layer.
  // `shares` > 1: the array stacks that many experts. REQUIRES: byte_count > 0, a multiple of
  // `shares`.
  void Add(const std::string& key, int layer, uint64_t byte_count, Producer producer,
           uint64_t shares = 1);
  uint64_t byte_count() const;
  // Writes everything that was added.
  Status Write();
  // The array's parts in order: one, or one an expert. REQUIRES: written.
  const std::vector<StoredArray>& At(const std::string& key) const { return arrays_.at(key).parts; }

  // Bytes as a blob of their own.
  Result<package::Digest> StoreBlob(ByteSpan bytes);
  // Removes everything from the partial package that is no blob of it.
  void RemoveLeftovers();
  const std::map<package::Digest, package::BlobInfo>& blobs() const { return blobs_; }

 private:
  struct Array {
    uint64_t byte_count = 0;
    uint64_t shares = 1;
    Producer producer;
    std::set<int> layers;
    std::vector<StoredArray> parts;
  };
  // What lies in a blob: a share of an array.
  struct Item {
    const std::string* key = nullptr;
    Array* array = nullptr;
    Share share;
  };
  using Blob = std::vector<Item>;

  std::vector<Blob> LayOutBlobs();
  Status WriteBlob(const Blob& blob);
  bool TakeOver(const Blob& blob, const std::string& key);
  std::string JournalKey(const Blob& blob) const;
  Result<StoredArray> Append(const Item& item, BlobWriter& writer);
  Result<package::Digest> Keep(BlobWriter& writer);

  std::filesystem::path folder_;
  std::string source_version_;
  Progress progress_;
  Journal journal_;
  std::map<std::string, Array> arrays_;
  std::map<package::Digest, package::BlobInfo> blobs_;
};

}  // namespace weft::convert
