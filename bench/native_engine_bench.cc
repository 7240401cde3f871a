// Decode and prefill of a model with Qwen3-0.6B's shapes and random weights, against the read
// bandwidth of the same machine in the same run.
//   ./dev bench native-engine [--dtype q4] [--table q8] [--threads 2] [--layers 28]
//   [--hidden 1024] [--width 3072] [--heads 16] [--kv-heads 8] [--rounds 9] [--prompt 128]
//   [--experts 128 --used 8]   --width is that of one expert
// Reading memory, decoding and reading again alternate; medians are reported, so that other work on
// the machine hits both.
// With --follow yes it does what lines of its input say, and answers each with a line of JSON:
//   prefill 512     a prompt of 512 rows in a session of its own    {"ms":...,"cpu_ms":...}
//   decode 128 32   32 steps of one row behind 128 positions        the same of all, together
//   decode 128 32 8   the same for 8 sessions, whose rows are one step
//   read            256 MiB read by all threads
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/test_model.h"
#include "kernels/kernel_set.h"
#include "kernels/panel_matmul.h"

namespace weft::engine {
namespace {

struct Options {
  DType dtype = DType::kQ4;
  DType table = DType::kQ8;  // of a quantised model; as `weft convert` makes it
  uint32_t threads = 2;
  uint32_t layers = 28, hidden = 1024, width = 3072, heads = 16, kv_heads = 8;
  uint32_t experts = 0, used_experts = 0;
  uint32_t prompt = 128;
  int rounds = 9;
  bool follow = false;
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of the whole process.
double ProcessorNow() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

struct Seconds {
  double wall = 0, processor = 0;
};
template <typename F>
Seconds Measured(const F& f) {
  const double wall = Now(), processor = ProcessorNow();
  f();
  return {Now() - wall, ProcessorNow() - processor};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

ModelSpec Qwen3Shapes(const Options& options) {
  ModelSpec spec;
  spec.layers = options.layers;
  spec.hidden = options.hidden;
  spec.heads = options.heads;
  spec.kv_heads = options.kv_heads;
  spec.head_columns = 128;
  spec.width = options.width;
  spec.experts = options.experts;
  spec.top_k = options.used_experts;
  spec.vocabulary = 151936;
  spec.qk_norm = true;
  spec.rope_theta = 1e6f;
  spec.matrix_dtype = options.dtype;
  if (options.dtype == DType::kQ4 || IsSuperblockFormat(options.dtype))
    spec.table_dtype = options.table;
  return spec;
}

// GB/s of summing a large array with all threads.
double ReadBandwidth(const std::vector<uint64_t>& memory, kernels::ThreadPool& threads) {
  constexpr size_t kChunk = 1 << 15;
  std::vector<uint64_t> sums(memory.size() / kChunk);
  const double start = Now();
  threads.Run(sums.size(), [&](size_t task, size_t) {
    const uint64_t* from = memory.data() + task * kChunk;
    uint64_t lanes[32] = {};
    for (size_t i = 0; i < kChunk; i += 32) {
      for (size_t lane = 0; lane < 32; ++lane) lanes[lane] += from[i + lane];
    }
    sums[task] = std::accumulate(lanes, lanes + 32, uint64_t{0});
  });
  const double seconds = Now() - start;
  if (std::accumulate(sums.begin(), sums.end(), uint64_t{0}) == 0) std::printf("?");
  return static_cast<double>(memory.size() * 8) / seconds * 1e-9;
}

// Seconds of one step of `ids` at the session's end.
double Step(StageEngine& engine, LayerRange all, uint32_t position,
            const std::vector<int32_t>& ids) {
  const Run run = {1, 0, position, static_cast<uint32_t>(ids.size()), {OutputKind::kArgmax}};
  const double start = Now();
  const auto output = engine.Step({all, {&run, 1}, ids, {}});
  CHECK(output.ok(), output.ok() ? "" : output.error().ToString());
  return Now() - start;
}

// Different tokens, so that rows have different experts. llama.cpp is given the same.
std::vector<int32_t> PromptOf(uint32_t count) {
  std::vector<int32_t> ids(count);
  for (uint32_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>(100 + 7 * i % 150);
  return ids;
}

// `count` steps that have a row of each session, behind `first` positions.
Seconds Decode(StageEngine& engine, LayerRange all, uint32_t first, uint32_t count,
               uint32_t sessions) {
  constexpr uint32_t kFirstSession = 2;  // Step's is for prompts
  std::vector<Run> runs(sessions);
  const std::vector<int32_t> prompt = PromptOf(first);
  for (uint32_t i = 0; i < sessions; ++i) {
    runs[i] = {kFirstSession + i, 0, 0, first, {OutputKind::kArgmax}};
    engine.Release(runs[i].session);
    CHECK(engine.Step({all, {&runs[i], 1}, prompt, {}}).ok());
    runs[i].count = 1;
  }
  const Seconds seconds = Measured([&] {
    for (uint32_t step = 0; step < count; ++step) {
      std::vector<int32_t> ids(sessions);
      for (uint32_t i = 0; i < sessions; ++i) {
        ids[i] = static_cast<int32_t>(step + 17 * i);
        runs[i].first_position = first + step;
      }
      CHECK(engine.Step({all, runs, ids, {}}).ok());
    }
  });
  for (const Run& run : runs) engine.Release(run.session);
  return seconds;
}

// What lines ask for.
class Answers {
 public:
  Answers(StageEngine& engine, LayerRange all, uint32_t threads)
      : engine_(engine), all_(all), threads_(threads) {}

  Seconds Of(const std::string& line) {
    std::istringstream words(line);
    std::string what;
    uint32_t first = 0, count = 0, sessions = 1;
    words >> what >> first >> count;
    words >> sessions;
    if (what == "prefill") {
      engine_.Release(1);
      return Measured([&] { Step(engine_, all_, 0, PromptOf(first)); });
    }
    if (what == "read") {
      if (memory_.empty()) memory_.assign(kReadBytes / sizeof(uint64_t), 1);
      return Measured([&] { ReadBandwidth(memory_, threads_); });
    }
    CHECK(what == "decode", line);
    return Decode(engine_, all_, first, count, std::max(sessions, 1u));
  }

 private:
  static constexpr size_t kReadBytes = 256 << 20;
  StageEngine& engine_;
  LayerRange all_;
  kernels::ThreadPool threads_;
  std::vector<uint64_t> memory_;
};

void Follow(StageEngine& engine, LayerRange all, const Options& options) {
  std::printf("{\"bytes\": %llu, \"kernels\": \"%s\"}\n",
              static_cast<unsigned long long>(engine.memory().weight_bytes),
              IsSuperblockFormat(options.dtype)
                  ? std::string(kernels::UsedPanelKernel().name).c_str()
                  : kernels::FastKernelsTarget());
  std::fflush(stdout);
  Answers answers(engine, all, options.threads);
  for (std::string line; std::getline(std::cin, line);) {
    const Seconds seconds = answers.Of(line);
    std::printf("{\"ms\": %.3f, \"cpu_ms\": %.3f}\n", 1e3 * seconds.wall, 1e3 * seconds.processor);
    std::fflush(stdout);
  }
}

void Measure(const Options& options) {
  const ModelSpec spec = Qwen3Shapes(options);
  const LayerRange all = {0, spec.layers + 2};
  MemorySource source;
  const auto programs = ModelBuilder(spec, nullptr, source).Build();
  const auto engine = MakeNativeEngine({.thread_count = options.threads});
  CHECK(engine->Load(programs, source).ok());
  if (options.follow) return Follow(*engine, all, options);
  // Embedding and head are tied: every byte that is held is read once a token.
  const auto weight_bytes = static_cast<double>(engine->memory().weight_bytes);
  const std::vector<uint64_t> memory((256 << 20) / 8, 1);
  kernels::ThreadPool threads(options.threads);

  std::vector<double> bandwidth, decode_seconds, shares;
  uint32_t position = 0;
  const std::vector<int32_t> prompt(options.prompt, 11);
  const double prefill_seconds = Step(*engine, all, position, prompt);
  position += options.prompt;
  for (int round = 0; round < options.rounds; ++round) {
    const double before = ReadBandwidth(memory, threads);
    std::vector<double> seconds;
    for (int token = 0; token < 5; ++token) {
      seconds.push_back(Step(*engine, all, position++, {token}));
    }
    const double after = ReadBandwidth(memory, threads);
    bandwidth.push_back((before + after) / 2);
    decode_seconds.push_back(Median(seconds));
    shares.push_back(weight_bytes / decode_seconds.back() * 1e-9 / bandwidth.back());
  }
  const double decode = Median(decode_seconds);
  std::printf(
      "%s, %u threads, %s: %u layers, %s of weights\n"
      "  read bandwidth   %6.2f GB/s (median; best %.2f)\n"
      "  decode           %6.2f tokens/s (median; best %.2f), %.2f GB/s of weights\n"
      "  share of bandwidth %4.0f%% (median of rounds)\n"
      "  prefill of %-5u %6.1f tokens/s\n"
      "  scratch %s, KV %s\n",
      std::string(DTypeName(options.dtype)).c_str(), options.threads, kernels::FastKernelsTarget(),
      spec.layers, HumanBytes(engine->memory().weight_bytes).c_str(), Median(bandwidth),
      *std::max_element(bandwidth.begin(), bandwidth.end()), 1 / decode,
      1 / *std::min_element(decode_seconds.begin(), decode_seconds.end()),
      weight_bytes / decode * 1e-9, 100 * Median(shares), options.prompt,
      options.prompt / prefill_seconds, HumanBytes(engine->memory().scratch_bytes).c_str(),
      HumanBytes(engine->memory().kv_bytes).c_str());
}

}  // namespace
}  // namespace weft::engine

// 0 when the text is no number.
int NumberOf(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

int main(int argc, char** argv) {
  weft::engine::Options options;
  const std::map<std::string, uint32_t*> numbers = {
      {"--threads", &options.threads},   {"--layers", &options.layers},
      {"--hidden", &options.hidden},     {"--width", &options.width},
      {"--heads", &options.heads},       {"--prompt", &options.prompt},
      {"--kv-heads", &options.kv_heads}, {"--experts", &options.experts},
      {"--used", &options.used_experts},
  };
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--dtype" || name == "--table") {
      const auto dtype = weft::DTypeFromName(argv[i + 1]);
      if (!dtype) {
        std::fprintf(stderr, "%s is no form of weights: %s\n", name.c_str(), argv[i + 1]);
        return 2;
      }
      (name == "--dtype" ? options.dtype : options.table) = *dtype;
    } else if (numbers.contains(name)) {
      *numbers.at(name) = static_cast<uint32_t>(NumberOf(argv[i + 1]));
    } else if (name == "--rounds") {
      options.rounds = NumberOf(argv[i + 1]);
    } else if (name == "--follow") {
      options.follow = std::string_view(argv[i + 1]) == "yes";
    } else {
      std::fprintf(stderr, "unknown option %s\n", argv[i]);
      return 2;
    }
  }
  weft::engine::Measure(options);
  return 0;
}
