// Converts weights and stores them in the blobs of a package. Large ones have a blob of their own
// (data, then scales). Those named so (an expert's) go together in one, and those under 64 KiB go
// together in one blob per layer. Peak memory is a few megabytes, whatever the tensor's size.
#pragma once

#include <functional>
#include <span>

#include "convert/source/source_tensor.h"
#include "convert/weights/blob_writer.h"
#include "convert/weights/journal.h"
#include "convert/weights/row_converter.h"
#include "convert/weights/stored_weight.h"
#include "convert/weights/weight_specs.h"

namespace weft::convert {

// A weight and what it becomes.
struct StoreJob {
  const WeightSpec* weight = nullptr;
  DType dtype = DType::kF32;
};

class WeightStore {
 public:
  // Told the bytes of the checkpoint that were converted, or taken over from an interrupted run.
  using Progress = std::function<void(uint64_t byte_count, bool taken_over)>;

  // `folder` is the partial package, with a folder blobs in it. `tensors` outlives the store.
  WeightStore(const std::filesystem::path& folder, const TensorMap& tensors, Progress progress)
      : folder_(folder / "blobs"),
        tensors_(tensors),
        progress_(std::move(progress)),
        journal_(folder) {}

  // Stores the weights of one blob, or a single weight; small single ones wait for FinishLayer.
  // REQUIRES: CheckWeights passed. Errors: kInvalidData names the tensor that holds a value which
  // is not finite or does not fit the dtype.
  Status Store(std::span<const StoreJob> jobs);
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
  Status StoreSmall(const StoreJob& job, StoredWeight stored);
  Status StoreLarge(std::span<const StoreJob> jobs, std::vector<StoredWeight> stored);
  Result<package::Digest> WriteBlob(std::span<const StoreJob> jobs,
                                    std::vector<StoredWeight>* stored);
  Status AppendWeight(const StoreJob& job, BlobWriter* writer, StoredWeight* stored);
  Status AppendPiece(const StoreJob& job, const SourcePiece& piece, BlobWriter* writer,
                     TargetRows* rest);
  void Enter(std::span<const StoreJob> jobs, std::vector<StoredWeight> stored);
  Result<package::Digest> Keep(std::unique_ptr<BlobWriter> writer);

  struct Small {
    StoredWeight weight;
    std::vector<uint8_t> bytes;  // data, then scales
  };
  std::filesystem::path folder_;
  const TensorMap& tensors_;
  Progress progress_;
  Journal journal_;
  StoredWeights weights_;
  std::map<package::Digest, package::BlobInfo> blobs_;
  std::map<std::string, Small> small_;
  // What a large blob was made of -> the names of its weights.
  std::map<std::string, std::vector<std::string>> large_;
};

}  // namespace weft::convert
