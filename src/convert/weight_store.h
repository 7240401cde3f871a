// Converts weights and stores them in the blobs of a package: large ones in a blob of their own
// (data, then scales), those under 64 KiB together in one blob per layer. Peak memory is a few
// megabytes, whatever the tensor's size.
#pragma once

#include <functional>

#include "convert/blob_writer.h"
#include "convert/journal.h"
#include "convert/source_tensor.h"
#include "convert/stored_weight.h"
#include "convert/weight_plan.h"

namespace weft::convert {

class WeightStore {
 public:
  // `folder` is the partial package, with a folder blobs in it. `progress` is told the bytes of the
  // checkpoint that were converted. Large weights that an interrupted run finished are taken over.
  WeightStore(const std::filesystem::path& folder, std::function<void(uint64_t)> progress)
      : folder_(folder / "blobs"), progress_(std::move(progress)), journal_(folder) {}

  // Stores rows of `source` in `dtype`. Small ones wait for FinishLayer. REQUIRES: CheckWeights
  // passed. Errors: kInvalidData names the tensor that holds a value which is not finite or does
  // not fit the dtype.
  Status Store(const PlannedWeight& weight, const SourceTensor& source, DType dtype);
  // A small f32 vector made by the converter.
  void StoreVector(const std::string& name, std::span<const float> values);
  // Bytes as a blob of their own.
  Result<package::Digest> StoreBlob(ByteSpan bytes);
  // Writes the blob of small weights collected since the last call, if there are any.
  Status FinishLayer();
  // Removes everything from the partial package that is no blob of it. After the last Store.
  void RemoveLeftovers();

  const StoredWeights& weights() const { return weights_; }
  const std::map<package::Digest, package::BlobInfo>& blobs() const { return blobs_; }

 private:
  Status StoreLarge(const PlannedWeight& weight, const SourceTensor& source, StoredWeight stored);
  Result<StoredWeight> ConvertLarge(const PlannedWeight& weight, const SourceTensor& source,
                                    StoredWeight stored);
  Result<package::Digest> Keep(std::unique_ptr<BlobWriter> writer);

  struct Small {
    StoredWeight weight;
    std::vector<uint8_t> bytes;  // data, then scales
  };
  std::filesystem::path folder_;
  std::function<void(uint64_t)> progress_;
  Journal journal_;
  StoredWeights weights_;
  std::map<package::Digest, package::BlobInfo> blobs_;
  std::map<std::string, Small> small_;
  std::map<std::string, std::string> large_;  // what a large weight was made of -> its name
};

}  // namespace weft::convert
