// The rule of seeded weights against tests/data/seeded.json, which the other languages read, too.
#include "tensor/seeded_values_testing.h"

#include <gtest/gtest.h>
#include <weft_source_dir.h>
#include <bit>
#include <boost/json.hpp>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/sha256.h"
#include "tensor/half.h"

namespace weft {
namespace {

struct SeededRun {
  std::string type;
  uint32_t count;
  uint32_t seed;
  double low;
  double high;
  std::string sha256;
};

std::vector<SeededRun> KnownRuns() {
  const auto text = ReadTextFile(std::filesystem::path(WEFT_SOURCE_DIR) / "tests/data/seeded.json");
  if (!text.ok()) return {};
  std::vector<SeededRun> runs;
  const boost::json::value known = boost::json::parse(*text);
  for (const boost::json::value& each : known.as_array()) {
    const auto number = [&](const char* name) { return each.at(name).to_number<double>(); };
    runs.push_back({std::string(each.at("type").as_string()),
                    each.at("count").to_number<uint32_t>(), each.at("seed").to_number<uint32_t>(),
                    number("low"), number("high"), std::string(each.at("sha256").as_string())});
  }
  return runs;
}

// [count x value bytes] of a run, little-endian.
std::string BytesOf(const SeededRun& run) {
  std::string bytes;
  if (run.type == "U8") {
    for (uint32_t i = 0; i < run.count; ++i) {
      const double value = run.low + (run.high - run.low + 1) * SeededUniform(run.seed, i);
      bytes += static_cast<char>(static_cast<uint8_t>(value));
    }
    return bytes;
  }
  for (const float value : SeededValues(run.seed, run.count, run.low, run.high)) {
    uint32_t bits = std::bit_cast<uint32_t>(value);
    int size = 4;
    if (run.type != "F32") {
      bits = run.type == "F16" ? F32ToF16(value) : F32ToBF16(value);
      size = 2;
    }
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(bits >> 8 * i);
  }
  return bytes;
}

TEST(SeededValues, AreThoseOfTheOtherLanguages) {
  const std::vector<SeededRun> runs = KnownRuns();
  ASSERT_EQ(runs.size(), 5u);
  for (const SeededRun& run : runs) {
    SCOPED_TRACE(run.type);
    EXPECT_EQ(ToHex(Sha256(AsBytes(BytesOf(run)))), run.sha256);
  }
}

}  // namespace
}  // namespace weft
