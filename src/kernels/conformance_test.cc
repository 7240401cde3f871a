// Every case of tests/conformance through the scalar and the vector kernels, on every instruction
// set that this processor has, and the cases themselves against double precision.
#include <gtest/gtest.h>

#include <weft_source_dir.h>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "hwy/highway.h"
#include "kernels/test_naive.h"
#include "kernels/test_run_case.h"

namespace weft::kernels {
namespace {

std::vector<std::filesystem::path> CaseFiles() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(WEFT_SOURCE_DIR) / "tests/conformance")) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

template <typename Expected>
void ExpectClose(const ConformanceCase& c, const std::vector<float>& got,
                 const Expected& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const auto wanted = static_cast<double>(expected[i]);
    ASSERT_LE(std::fabs(got[i] - wanted), c.tolerance * std::max(1.0, std::fabs(wanted)))
        << "element " << i << " is " << got[i] << ", expected " << wanted;
  }
}

// One case as one line of JSON, with nine digits: enough for any f32.
std::string Line(const ConformanceCase& c, const std::vector<float>& expected) {
  boost::json::object object = {
      {"name", c.name}, {"op", c.op}, {"params", c.params}, {"inputs", c.inputs}};
  std::string line = boost::json::serialize(object);
  char number[40];
  std::snprintf(number, sizeof number, ",\"tolerance\":%g,\"expected\":[", c.tolerance);
  line.back() = ' ';
  line.pop_back();
  line += number;
  for (size_t i = 0; i < expected.size(); ++i) {
    std::snprintf(number, sizeof number, "%s%.9g", i == 0 ? "" : ",",
                  static_cast<double>(expected[i]));
    line += number;
  }
  return line + "]}";
}

// Rewrites the files with what the scalar kernels compute.
void WriteExpectedValues() {
  Workspace workspace(1);
  CaseRunner runner(ReferenceKernels(), workspace);
  for (const auto& path : CaseFiles()) {
    std::string text = "[\n";
    for (const ConformanceCase& c : ReadCases(path)) {
      text += (text.size() > 2 ? ",\n" : "") + Line(c, runner.Run(c));
    }
    std::ofstream(path) << text << "\n]\n";
  }
}

TEST(Conformance, ExpectedValuesAreThoseOfDoublePrecision) {
  if (std::getenv("WEFT_WRITE_CONFORMANCE") != nullptr) WriteExpectedValues();
  size_t count = 0;
  for (const auto& path : CaseFiles()) {
    for (const ConformanceCase& c : ReadCases(path)) {
      SCOPED_TRACE(c.op + " " + c.name);
      const std::vector<float> expected(c.expected.begin(), c.expected.end());
      ExpectClose(c, expected, NaiveCase(c).Run());
      ++count;
    }
  }
  EXPECT_GE(count, 120u);
}

TEST(Conformance, ScalarKernels) {
  Workspace workspace(1);
  CaseRunner runner(ReferenceKernels(), workspace);
  for (const auto& path : CaseFiles()) {
    for (const ConformanceCase& c : ReadCases(path)) {
      SCOPED_TRACE(c.op + " " + c.name);
      ExpectClose(c, runner.Run(c), c.expected);
    }
  }
}

TEST(Conformance, VectorKernelsOnEveryInstructionSet) {
  const int64_t supported = hwy::SupportedTargets();
  for (int64_t left = supported; left != 0; left &= left - 1) {
    const int64_t target = left & -left;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    Workspace workspace(2);
    CaseRunner runner(FastKernels(), workspace);
    for (const auto& path : CaseFiles()) {
      for (const ConformanceCase& c : ReadCases(path)) {
        SCOPED_TRACE(c.op + " " + c.name);
        ExpectClose(c, runner.Run(c), c.expected);
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace
}  // namespace weft::kernels
