#include "wire/probe_rows.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <charconv>
#include <string>

#include "wire/golden_testing.h"

namespace weft::wire {
namespace {

TEST(ProbeRows, AreThoseOfTheFormula) {
  const boost::json::value golden = GoldenJson("probe_rows.json");
  ASSERT_EQ(golden.as_array().size(), 3u);
  for (const boost::json::value& each : golden.as_array()) {
    const std::string digits = String(each, "seed");
    uint64_t seed = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), seed);
    std::vector<float> expected;
    for (const boost::json::value& part : each.at("parts_of_1024").as_array())
      expected.push_back(part.to_number<float>() / 1024);
    const auto columns = Number(each, "columns");
    EXPECT_EQ(ProbeRows(seed, Number(each, "rows"), columns), expected);
    std::vector<uint32_t> chosen;
    for (const boost::json::value& column : each.at("chosen").as_array())
      chosen.push_back(column.to_number<uint32_t>());
    EXPECT_EQ(ProbeColumns(columns), chosen);
  }
}

}  // namespace
}  // namespace weft::wire
