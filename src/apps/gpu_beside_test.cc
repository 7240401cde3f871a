#include "apps/gpu_beside.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace weft::apps {
namespace {

TEST(HasGpu, LooksForTheFilesOfDrivers) {
  namespace fs = std::filesystem;
  std::string pattern = (fs::temp_directory_path() / "weft-devices-XXXXXX").string();
  const fs::path devices = mkdtemp(pattern.data());
  fs::create_directory(devices / "dri");
  const auto with = [&](const char* name) {
    std::ofstream(devices / name).put(' ');
    const bool has_gpu = HasGpu(devices);
    fs::remove(devices / name);
    return has_gpu;
  };
  EXPECT_FALSE(HasGpu(devices));
  EXPECT_FALSE(with("nvidiactl"));
  EXPECT_FALSE(with("nvidia"));
  EXPECT_FALSE(with("dri/card0"));  // a screen
  EXPECT_TRUE(with("nvidia0"));
  EXPECT_TRUE(with("dri/renderD128"));
  EXPECT_TRUE(with("dxg"));
  fs::remove_all(devices);
  EXPECT_FALSE(HasGpu(devices));
}

TEST(GpuBeside, IsNothingWhereNoneIsWanted) {
  EXPECT_EQ(
      GpuBeside::Start({.use = GpuUse::kOff, .server = "", .join_token = "", .fingerprint = ""}),
      nullptr);
}

}  // namespace
}  // namespace weft::apps
