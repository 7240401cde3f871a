// Two models that answer at once in one process, as `weft serve A B` has them on one machine. In
// turns, as tokens/s:
//   alone    one model with all threads
//   own      two at once, each with all threads as if it were alone
//   shared   two at once that share the threads, as weft's do
//   half     two at once, each with half of the threads from the start
// and the same while the second reads prompts instead of writing tokens.
//   ./dev bench two-models [--threads 2] [--layers 12] [--hidden 1024] [--width 3072]
//   [--rounds 5] [--seconds 2]
#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/test_model.h"

namespace weft::engine {
namespace {

struct Options {
  uint32_t threads = 2;
  uint32_t layers = 12, hidden = 1024, width = 3072;
  uint32_t rounds = 5;
  uint32_t seconds = 2;
};

constexpr uint32_t kPromptRows = 128;
constexpr uint32_t kLastPosition = 512;

// One model that works until it is told to stop, and counts tokens.
class Model {
 public:
  Model(const ModelSpec& spec, std::unique_ptr<StageEngine> engine)
      : all_{0, spec.layers + 2}, engine_(std::move(engine)) {
    MemorySource source;
    const auto programs = ModelBuilder(spec, nullptr, source).Build();
    CHECK(engine_->Load(programs, source).ok());
  }

  // Tokens/s of writing one after the other, or of reading prompts.
  double Work(bool reads_prompts, const std::atomic<bool>& stop) {
    const auto start = std::chrono::steady_clock::now();
    uint64_t tokens = 0;
    while (!stop) {
      if (reads_prompts || position_ >= kLastPosition) {
        engine_->Release(1);
        position_ = 0;
      }
      const uint32_t rows = position_ == 0 ? kPromptRows : 1;
      const Run run = {1, 0, position_, rows, {OutputKind::kArgmax}};
      CHECK(engine_->Step({all_, {&run, 1}, std::vector<int32_t>(rows, 11), {}}).ok());
      position_ += rows;
      if (reads_prompts || rows == 1) tokens += rows;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    return static_cast<double>(tokens) / took.count();
  }

 private:
  LayerRange all_;
  std::unique_ptr<StageEngine> engine_;
  uint32_t position_ = 0;
};

struct Rates {
  double first = 0, second = 0;
};

// The second model works besides the first one, when there is one.
Rates Measure(Model& first, Model* second, bool second_reads, uint32_t seconds) {
  std::atomic<bool> stop = false;
  Rates rates;
  std::vector<std::thread> threads;
  threads.emplace_back([&] { rates.first = first.Work(false, stop); });
  if (second != nullptr) {
    threads.emplace_back([&] { rates.second = second->Work(second_reads, stop); });
  }
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return rates;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Compare(const Options& options) {
  ModelSpec spec;
  spec.layers = options.layers;
  spec.hidden = options.hidden;
  spec.heads = options.hidden / 64;
  spec.kv_heads = std::max(1u, spec.heads / 2);
  spec.head_columns = 64;
  spec.width = options.width;
  spec.vocabulary = 32000;
  spec.matrix_dtype = DType::kQ4;
  spec.table_dtype = DType::kQ8;
  const auto make = [&](uint32_t thread_count,
                        std::shared_ptr<kernels::SharedThreads> threads = nullptr) {
    return std::make_unique<Model>(
        spec, MakeNativeEngine({.thread_count = thread_count, .threads = std::move(threads)}));
  };
  struct Way {
    const char* name;
    std::unique_ptr<Model> first, second;
  };
  std::vector<Way> ways;
  ways.push_back({"alone", make(options.threads), nullptr});
  ways.push_back({"own", make(options.threads), make(options.threads)});
  const auto threads = ShareThreads(options.threads);
  ways.push_back({"shared", make(0, threads), make(0, threads)});
  const uint32_t half = std::max(1u, options.threads / 2);
  ways.push_back({"half", make(half), make(half)});
  for (const bool reads : {false, true}) {
    std::printf("%u threads, the second model %s:\n", options.threads,
                reads ? "reads prompts" : "writes, too");
    std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> rates;
    for (uint32_t round = 0; round < options.rounds; ++round) {
      for (const Way& way : ways) {
        const Rates now = Measure(*way.first, way.second.get(), reads, options.seconds);
        rates[way.name].first.push_back(now.first);
        rates[way.name].second.push_back(now.second);
      }
    }
    for (const Way& way : ways) {
      std::printf("  %-7s first %8.1f tokens/s, second %8.1f tokens/s (medians)\n", way.name,
                  Median(rates[way.name].first), Median(rates[way.name].second));
    }
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace weft::engine

int main(int argc, char** argv) {
  weft::engine::Options options;
  const std::map<std::string, uint32_t*> numbers = {
      {"--threads", &options.threads}, {"--layers", &options.layers},
      {"--hidden", &options.hidden},   {"--width", &options.width},
      {"--rounds", &options.rounds},   {"--seconds", &options.seconds},
  };
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto found = numbers.find(argv[i]);
    if (found == numbers.end()) {
      std::fprintf(stderr, "unknown option %s\n", argv[i]);
      return 2;
    }
    const std::string text = argv[i + 1];
    std::from_chars(text.data(), text.data() + text.size(), *found->second);
  }
  weft::engine::Compare(options);
  return 0;
}
