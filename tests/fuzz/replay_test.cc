// The fuzz targets without a fuzzer, linked with what everybody else runs: every input of the
// corpus, and some that were changed at random, the same in every run. A target that finds
// something ends the process. Sanitizers and inputs that follow the code: `./dev fuzz`.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <weft_source_dir.h>

#include "base/random.h"

// WEFT_FUZZ_TARGETS(X) is X(chat_fuzz) X(config_fuzz) ..., a line for every *_fuzz.cc here.
#include <fuzz_targets.h>

#define DECLARE(target) extern "C" int target(const uint8_t* data, size_t byte_count);
WEFT_FUZZ_TARGETS(DECLARE)
#undef DECLARE

namespace weft {
namespace {

constexpr int kChangedInputs = 10'000;

using Bytes = std::vector<uint8_t>;

struct Target {
  const char* name;
  int (*run)(const uint8_t* data, size_t byte_count);
};

// A folder has the target's name, or that without "_fuzz".
std::vector<Bytes> CorpusOf(std::string name) {
  const std::filesystem::path all = WEFT_SOURCE_DIR "/tests/fuzz/corpus";
  if (!std::filesystem::exists(all / name)) name.resize(name.size() - std::string("_fuzz").size());
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(all / name))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Bytes> corpus;
  for (const std::filesystem::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

// One to four of: a byte changes, a piece goes, the end goes, a piece of another input comes in.
Bytes Changed(Bytes input, const std::vector<Bytes>& corpus, SeededRandom& random) {
  for (uint64_t left = 1 + random.Below(4); left > 0; --left) {
    const size_t at = random.Below(input.size() + 1);
    const size_t end = at + random.Below(input.size() - at + 1);
    const auto position = input.begin() + static_cast<ptrdiff_t>(at);
    switch (random.Below(4)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<uint8_t>(random.Next());
        break;
      case 1:
        input.erase(position, input.begin() + static_cast<ptrdiff_t>(std::min(end, at + 16)));
        break;
      case 2:
        input.resize(end);
        break;
      default: {
        const Bytes& other = corpus[random.Below(corpus.size())];
        const size_t from = random.Below(other.size() + 1);
        const size_t count = random.Below(std::min<size_t>(other.size() - from, 64) + 1);
        const auto piece = other.begin() + static_cast<ptrdiff_t>(from);
        input.insert(position, piece, piece + static_cast<ptrdiff_t>(count));
      }
    }
  }
  return input;
}

class ReplayTest : public testing::TestWithParam<Target> {};

TEST_P(ReplayTest, TakesEveryInput) {
  const std::vector<Bytes> corpus = CorpusOf(GetParam().name);
  ASSERT_FALSE(corpus.empty());
  for (const Bytes& input : corpus) GetParam().run(input.data(), input.size());
  SeededRandom random(1);
  for (int i = 0; i < kChangedInputs; ++i) {
    const Bytes input = Changed(corpus[random.Below(corpus.size())], corpus, random);
    GetParam().run(input.data(), input.size());
  }
}

#define TARGET(target) Target{#target, target},
INSTANTIATE_TEST_SUITE_P(Fuzz, ReplayTest,
                         testing::ValuesIn(std::vector<Target>{WEFT_FUZZ_TARGETS(TARGET)}),
                         [](const auto& each) { return std::string(each.param.name); });
#undef TARGET

}  // namespace
}  // namespace weft
