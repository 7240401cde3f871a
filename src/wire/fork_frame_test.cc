// Fork frames against tests/golden/forks.json, which an independent packer wrote.
#include "wire/fork_frame.h"

#include <gtest/gtest.h>

#include "wire/golden_testing.h"

namespace weft::wire {
namespace {

TEST(ForkFrame, IsTheGoldenBytes) {
  const auto golden = GoldenJson("forks.json");
  ASSERT_GE(golden.at("frames").as_array().size(), 2u);
  for (const auto& frame : golden.at("frames").as_array()) {
    const Fork fork = {Number(frame, "binding"),    Number<uint16_t>(frame, "stage"),
                       Number(frame, "from"),       Number(frame, "session"),
                       Number(frame, "generation"), Number(frame, "position_count")};
    const std::string hex = String(frame, "hex");
    EXPECT_EQ(ToHex(EncodeFork(fork)), hex);
    const std::vector<uint8_t> bytes = FromHex(hex).value();
    EXPECT_TRUE(IsForkFrame(bytes));
    const auto decoded = DecodeFork(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
    EXPECT_EQ(*decoded, fork);
  }
}

TEST(ForkFrame, RefusesEachBrokenField) {
  const auto golden = GoldenJson("forks.json");
  ASSERT_GE(golden.at("refused").as_array().size(), 8u);
  for (const auto& bad : golden.at("refused").as_array()) {
    const auto decoded = DecodeFork(FromHex(String(bad, "hex")).value());
    ASSERT_FALSE(decoded.ok()) << String(bad, "name");
    EXPECT_NE(decoded.error().message().find(String(bad, "problem")), std::string::npos)
        << String(bad, "name") << ": " << decoded.error().message();
  }
}

}  // namespace
}  // namespace weft::wire
