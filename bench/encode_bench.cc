// What a tokenizer costs on one thread: to load it, text to ids and back. `./dev bench encode`.
// The text is that of docs/, the tokenizers are those of the reference data. For a comparison with
// another version, this file is compiled with that version's src/text and src/base.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "text/tokenizer/tokenizer.h"

namespace weft {
namespace {

const char* const kTokenizers[] = {"gpt2", "phi3"};

std::string ContentsOf(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string FileOf(const benchmark::State& state) {
  const char* data = std::getenv("WEFT_DATA");
  return ContentsOf(std::filesystem::path(data != nullptr ? data : "build/test-data") /
                    "tokenizers" / kTokenizers[state.range(0)] / "tokenizer.json");
}

// All documents, in the order of their names.
std::string Text() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator("docs"))
    if (entry.path().extension() == ".md") paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::string text;
  for (const auto& path : paths) text += ContentsOf(path);
  return text;
}

Result<Tokenizer> Load(const std::string& file) {
  return Tokenizer::FromJson(ByteSpan(reinterpret_cast<const uint8_t*>(file.data()), file.size()));
}

void LoadTokenizer(benchmark::State& state) {
  const std::string file = FileOf(state);
  for (auto _ : state) CHECK(Load(file).ok());
  state.SetLabel(kTokenizers[state.range(0)]);
}
BENCHMARK(LoadTokenizer)->DenseRange(0, 1)->Unit(benchmark::kMillisecond);

void Encode(benchmark::State& state) {
  const auto tokenizer = Load(FileOf(state));
  CHECK(tokenizer.ok());
  const std::string text = Text();
  size_t ids = 0;
  for (auto _ : state) ids += tokenizer->Encode(text, false)->size();
  state.SetItemsProcessed(static_cast<int64_t>(ids));
  state.SetLabel(kTokenizers[state.range(0)]);
}
BENCHMARK(Encode)->DenseRange(0, 1)->Unit(benchmark::kMillisecond);

void Decode(benchmark::State& state) {
  const auto tokenizer = Load(FileOf(state));
  CHECK(tokenizer.ok());
  const std::vector<int32_t> ids = *tokenizer->Encode(Text(), false);
  size_t count = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(tokenizer->Decode(ids, false));
    count += ids.size();
  }
  state.SetItemsProcessed(static_cast<int64_t>(count));
  state.SetLabel(kTokenizers[state.range(0)]);
}
BENCHMARK(Decode)->DenseRange(0, 1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft

BENCHMARK_MAIN();
