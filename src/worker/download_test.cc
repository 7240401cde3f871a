// What a worker says of its downloads: shared blobs once, never more than all, and all at the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "worker/download_progress.h"
#include "worker/downloader.h"
#include "worker/layer_loader.h"

namespace weft::worker {
namespace {

using testing::Each;
using testing::Le;

package::Digest DigestOf(uint8_t number) {
  Sha256Digest bytes{};
  bytes[0] = number;
  return package::Digest(bytes);
}

// Blobs that are there, and those that are not: of a server that gives them in two pieces, the
// first of them twice.
class FakeSource : public PackageSource {
 public:
  explicit FakeSource(std::map<package::Digest, bool> held) : held_(std::move(held)) {}

  Result<package::Manifest> FetchManifest(const package::Digest&) override {
    return Error(ErrorCode::kUnsupported, "not here");
  }
  bool Has(const package::Digest& blob) override { return held_.at(blob); }
  Status Fetch(const package::Digest& blob, const package::BlobInfo& info,
               const std::function<void(uint64_t)>& on_progress,
               const std::atomic<bool>&) override {
    if (held_.at(blob)) return OkStatus();
    for (int piece = 0; piece < 3; ++piece) on_progress(info.byte_count / 2);
    held_[blob] = true;
    return OkStatus();
  }
  Result<Slice> Read(const package::Digest&, const package::BlobInfo&) override {
    return Error(ErrorCode::kUnsupported, "not here");
  }
  double MeasureDownload(uint64_t) override { return 0; }

 private:
  std::map<package::Digest, bool> held_;
};

// Three layers of which the first and the last share blob 1, as tied embeddings do.
package::Manifest TiedManifest() {
  package::Manifest manifest;
  manifest.lowered = false;  // no programs
  manifest.layers.resize(3);
  manifest.layers[0].blobs = {DigestOf(1)};
  manifest.layers[1].blobs = {DigestOf(2)};
  manifest.layers[2].blobs = {DigestOf(1), DigestOf(3)};
  manifest.blobs[DigestOf(1)].byte_count = 1000;
  manifest.blobs[DigestOf(2)].byte_count = 200;
  manifest.blobs[DigestOf(3)].byte_count = 30;
  return manifest;
}

TEST(LayerLoader, ABlobThatTwoLayersShareIsMissingOnce) {
  const auto source = std::make_shared<FakeSource>(std::map<package::Digest, bool>{
      {DigestOf(1), false}, {DigestOf(2), false}, {DigestOf(3), true}});
  const LayerLoader loader(TiedManifest(), source);
  EXPECT_EQ(loader.MissingBytes({0, 1, 2}), 1200u);
  EXPECT_EQ(loader.MissingBytes({0}), 1000u);
  EXPECT_EQ(loader.MissingBytes({2}), 1000u);
  EXPECT_EQ(loader.MissingBytes({}), 0u);
}

TEST(LayerLoader, APackageWithoutProgramsIsRefusedInWords) {
  const auto source = std::make_shared<FakeSource>(std::map<package::Digest, bool>{});
  LayerLoader loader(TiedManifest(), source);
  const auto programs = loader.Programs(0, 1);
  ASSERT_FALSE(programs.ok());
  EXPECT_EQ(programs.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(programs.error().message().find("onnxruntime-web"), std::string::npos);
}

TEST(DownloadProgress, OfTiedLayersWithBytesThatCameTwiceEndsAtTheTotal) {
  const auto source = std::make_shared<FakeSource>(std::map<package::Digest, bool>{
      {DigestOf(1), false}, {DigestOf(2), false}, {DigestOf(3), false}});
  LayerLoader loader(TiedManifest(), source);
  DownloadProgress progress(loader.MissingBytes({0, 1, 2}), Instant{0});
  std::vector<uint64_t> heard;
  Instant now{0};
  for (uint32_t layer = 0; layer < 3; ++layer) {
    const Status fetched = loader.Download(
        layer,
        [&](uint64_t byte_count) {
          progress.Add(byte_count);
          now = now + Milliseconds(150);
          if (progress.IsDue(now)) heard.push_back(progress.done_bytes());
        },
        std::atomic<bool>(false));
    ASSERT_TRUE(fetched.ok());
    progress.SetMissing(loader.MissingBytes({0, 1, 2}));
    if (progress.IsDue(now)) heard.push_back(progress.done_bytes());
  }
  EXPECT_EQ(progress.total_bytes(), 1230u);
  EXPECT_THAT(heard, Each(Le(1230u)));
  EXPECT_EQ(heard.front(), 1000u);
  EXPECT_EQ(heard.back(), 1230u);
}

// The line breaks at the moment at which nobody wants the rest any more.
class BreakingSource : public FakeSource {
 public:
  explicit BreakingSource(std::atomic<bool>* interrupted)
      : FakeSource({{DigestOf(1), true}, {DigestOf(2), false}, {DigestOf(3), false}}),
        interrupted_(interrupted) {}
  Status Fetch(const package::Digest& blob, const package::BlobInfo&,
               const std::function<void(uint64_t)>&, const std::atomic<bool>&) override {
    if (Has(blob)) return OkStatus();
    if (interrupted_ != nullptr) *interrupted_ = true;
    return Error(ErrorCode::kUnavailable, "The line broke.");
  }

 private:
  std::atomic<bool>* interrupted_;
};

TEST(Downloader, WhatBreaksOffBecauseItWasInterruptedIsNoFailureOfTheSource) {
  std::atomic<bool> interrupted = false;
  for (const bool at_once : {false, true}) {
    LayerLoader loader(TiedManifest(),
                       std::make_shared<BreakingSource>(at_once ? &interrupted : nullptr));
    std::vector<uint32_t> came;
    Downloader downloader(loader, [&](const Event& event) {
      if (const auto* layer = std::get_if<LayerFetched>(&event)) came.push_back(layer->layer);
    });
    const Status status = downloader.Fetch({0, 1, 2}, interrupted);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), at_once ? ErrorCode::kCancelled : ErrorCode::kUnavailable);
    EXPECT_THAT(came, testing::ElementsAre(0u));
  }
}

TEST(DownloadProgress, IsSaidEvery200MsAndWhenAllIsThere) {
  DownloadProgress progress(100, Instant{0});
  progress.Add(10);
  EXPECT_FALSE(progress.IsDue(Instant{0} + Milliseconds(199)));
  EXPECT_TRUE(progress.IsDue(Instant{0} + Milliseconds(200)));
  EXPECT_FALSE(progress.IsDue(Instant{0} + Milliseconds(300)));
  progress.Add(500);  // after a connection that broke: as much as it could be
  EXPECT_EQ(progress.done_bytes(), 100u);
  EXPECT_FALSE(progress.IsDue(Instant{0} + Milliseconds(300)));
  progress.SetMissing(0);
  EXPECT_TRUE(progress.IsDue(Instant{0} + Milliseconds(300)));
  EXPECT_FALSE(progress.IsDue(Instant{0} + Milliseconds(900)));  // said already
}

TEST(DownloadProgress, NothingIsSaidWhereNothingIsMissing) {
  DownloadProgress progress(0, Instant{0});
  progress.SetMissing(0);
  EXPECT_FALSE(progress.IsDue(Instant{0} + Seconds(5)));
}

}  // namespace
}  // namespace weft::worker
