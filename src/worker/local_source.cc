// A package source for workers on the machine that has the package: nothing is downloaded.
#include "worker/package_source.h"

namespace weft::worker {
namespace {

class LocalSource : public PackageSource {
 public:
  explicit LocalSource(package::Package package) : package_(std::move(package)) {}

  Result<package::Manifest> FetchManifest(const package::Digest& digest) override {
    if (digest != package_.digest) {
      return Error(ErrorCode::kInvalidData, "The server serves package " + digest.ToHex() +
                                                ", this worker holds " + package_.digest.ToHex() +
                                                ".");
    }
    return package_.manifest;
  }
  bool Has(const package::Digest& blob) override { return package_.blobs->Contains(blob); }
  Status Fetch(const package::Digest& blob, const package::BlobInfo& info,
               const std::function<void(uint64_t)>&, const std::atomic<bool>&) override {
    TRY(package_.blobs->Get(blob, info));
    return OkStatus();
  }
  Result<Slice> Read(const package::Digest& blob, const package::BlobInfo& info) override {
    return package_.blobs->Get(blob, info);
  }
  double MeasureDownload(uint64_t) override { return 0; }

 private:
  package::Package package_;
};

}  // namespace

std::shared_ptr<PackageSource> MakeLocalSource(package::Package package) {
  return std::make_shared<LocalSource>(std::move(package));
}

}  // namespace weft::worker
