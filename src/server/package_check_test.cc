#include "server/package_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file_testing.h"

namespace weft::server {
namespace {

using testing::HasSubstr;

class PackageCheckTest : public testing::Test {
 protected:
  PackageCheckTest() {
    package_.blobs =
        std::move(package::BlobStore::Open(folder_.path(), package::DamagedFile::kKeep)).value();
    package_.manifest.lowered = false;
    package_.manifest.layers.resize(2);
    for (uint8_t layer = 0; layer < 2; ++layer) {
      const std::vector<uint8_t> bytes(1000, layer);
      digests_[layer] = package::Digest::Of(bytes);
      EXPECT_TRUE(package_.blobs->Put(digests_[layer], bytes).ok());
      package_.manifest.layers[layer].blobs = {digests_[layer]};
      package_.manifest.blobs.emplace(digests_[layer], package::MakeBlobInfo(bytes));
      // Whoever computes here has looked at it before.
      EXPECT_TRUE(
          package_.blobs->Get(digests_[layer], package_.manifest.blobs.at(digests_[layer])).ok());
    }
  }
  std::filesystem::path PathOf(int layer) const { return folder_.path() / digests_[layer].ToHex(); }

  const TemporaryFolder folder_;
  package::Package package_;
  package::Digest digests_[2];
};

TEST_F(PackageCheckTest, NamesTheBlobThatIsDamagedAndLeavesItWhereItIs) {
  EXPECT_EQ(FindDamage(package_, 0, 2), std::nullopt);
  {
    std::fstream file(PathOf(1), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(500);
    file.put('x');
  }
  const auto damage = FindDamage(package_, 0, 2);
  ASSERT_TRUE(damage.has_value());
  EXPECT_THAT(*damage, HasSubstr("The package on the server is damaged"));
  EXPECT_THAT(*damage, HasSubstr(digests_[1].ToHex()));
  EXPECT_EQ(FindDamage(package_, 0, 1), std::nullopt) << "the other layer is in order";
  EXPECT_TRUE(std::filesystem::exists(PathOf(1)));
}

TEST_F(PackageCheckTest, NamesTheBlobThatIsMissing) {
  std::filesystem::remove(PathOf(0));
  const auto damage = FindDamage(package_, 0, 1);
  ASSERT_TRUE(damage.has_value());
  EXPECT_THAT(*damage, HasSubstr(digests_[0].ToHex()));
}

}  // namespace
}  // namespace weft::server
