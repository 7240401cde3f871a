// Which device a worker is: the same when it starts again, another when both run.
#include "apps/device_id.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>

namespace weft::apps {
namespace {

std::filesystem::path EmptyFolder(const std::string& name) {
  auto folder = std::filesystem::path(testing::TempDir()) / ("weft-" + name);
  std::filesystem::remove_all(folder);
  return folder;
}

TEST(DeviceId, IsKeptAndNeverSharedByTwoThatRun) {
  const auto folder = EmptyFolder("worker-id");
  auto first = std::make_unique<DeviceId>(folder);
  auto second = std::make_unique<DeviceId>(folder);
  const std::string one = first->text(), two = second->text();
  EXPECT_EQ(one.size(), 32u);
  EXPECT_NE(one, two);
  // The second one starts again while the first still runs, and is the device that it was.
  second.reset();
  second = std::make_unique<DeviceId>(folder);
  EXPECT_EQ(second->text(), two);
  first.reset();
  first = std::make_unique<DeviceId>(folder);
  EXPECT_EQ(first->text(), one);
}

TEST(DeviceId, AFileThatHoldsSomethingElseIsWrittenAnew) {
  const auto folder = EmptyFolder("worker-id-torn");
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "worker-id") << "short";
  std::string id;
  {
    const DeviceId made(folder);
    id = made.text();
  }
  EXPECT_EQ(id.size(), 32u);
  EXPECT_EQ(DeviceId(folder).text(), id);
}

TEST(DeviceId, WithoutAFolderItIsNew) {
  const DeviceId one("/proc/no-such-folder"), two("/proc/no-such-folder");
  EXPECT_EQ(one.text().size(), 32u);
  EXPECT_NE(one.text(), two.text());
}

}  // namespace
}  // namespace weft::apps
