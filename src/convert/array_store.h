// Writes the arrays of an imported model into the blobs of a package: large ones and those that
// several layers read in a blob of their own, the others together in one blob a layer. Bytes come
// piece by piece, so that peak memory is a few megabytes whatever an array's size.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "convert/blob_writer.h"
#include "convert/stored_weight.h"

namespace weft::convert {

class ArrayStore {
 public:
  using Sink = std::function<Status(ByteSpan)>;
  // Gives an array's bytes to the sink in order.
  using Producer = std::function<Status(const Sink&)>;

  // `folder` is the partial package. `progress` is told bytes as they are written.
  ArrayStore(const std::filesystem::path& folder, std::function<void(uint64_t)> progress)
      : folder_(folder), progress_(std::move(progress)) {}

  // Array `key` of `byte_count` bytes, which `layer` reads. A key that is known gets the layer.
  // REQUIRES: byte_count > 0.
  void Add(const std::string& key, int layer, uint64_t byte_count, Producer producer);
  uint64_t byte_count() const;
  // Writes everything that was added.
  Status Write();
  // REQUIRES: written.
  const StoredArray& At(const std::string& key) const { return arrays_.at(key).stored; }

  // Bytes as a blob of their own.
  Result<package::Digest> StoreBlob(ByteSpan bytes);
  // Removes everything from the partial package that is no blob of it.
  void RemoveLeftovers();
  const std::map<package::Digest, package::BlobInfo>& blobs() const { return blobs_; }

 private:
  struct Array {
    uint64_t byte_count = 0;
    Producer producer;
    std::set<int> layers;
    StoredArray stored;
  };
  Status Append(Array& array, BlobWriter& writer);
  Result<package::Digest> Keep(BlobWriter& writer);

  std::filesystem::path folder_;
  std::function<void(uint64_t)> progress_;
  std::map<std::string, Array> arrays_;
  std::map<package::Digest, package::BlobInfo> blobs_;
};

}  // namespace weft::convert
