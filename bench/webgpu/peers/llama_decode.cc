// How fast llama.cpp decodes a model on a GPU, token after token, for packages_bench.mjs to be
// compared with. It is built against llama.cpp's own libraries, which are no part of this project:
//
//   g++ -O2 -o llama_decode llama_decode.cc -I LLAMA/include -I LLAMA/ggml/include
//       -L LLAMA/build/bin -lllama -lggml -lggml-base
//   LD_LIBRARY_PATH=LLAMA/build/bin ./llama_decode MODEL.gguf ROUNDS TOKENS CONTEXT...
//
// A round fills a context with so many positions and then makes TOKENS tokens behind it, each the
// most likely one, with flash attention. A line has the median of the rounds, the fastest and the
// slowest. The first round, in which kernels are loaded, does not count.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <string_view>
#include <vector>

#include "llama.h"

namespace {

constexpr int kBatchTokens = 512;
constexpr int kContextTokens = 8192;
constexpr int kWarmTokens = 4;
constexpr int kAllLayers = 999;

double NowMs() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(since).count();
}

// The most likely token behind `token`.
llama_token NextToken(llama_context* context, int vocabulary, llama_token token) {
  llama_decode(context, llama_batch_get_one(&token, 1));
  const float* logits = llama_get_logits_ith(context, -1);
  const auto best = std::max_element(logits, logits + vocabulary);
  return static_cast<llama_token>(std::distance(logits, best));
}

void Fill(llama_context* context, int positions) {
  std::vector<llama_token> tokens(positions);
  for (int i = 0; i < positions; ++i) tokens[i] = 3 + i % 1000;
  llama_memory_clear(llama_get_memory(context), true);
  for (int at = 0; at < positions; at += kBatchTokens) {
    const int count = std::min(kBatchTokens, positions - at);
    llama_decode(context, llama_batch_get_one(tokens.data() + at, count));
  }
  llama_synchronize(context);
}

// Milliseconds of a token behind so many positions.
double DecodeMs(llama_context* context, int vocabulary, int positions, int tokens) {
  Fill(context, positions);
  llama_token token = 5;
  for (int i = 0; i < kWarmTokens; ++i) token = NextToken(context, vocabulary, token);
  const double begin = NowMs();
  for (int i = 0; i < tokens; ++i) token = NextToken(context, vocabulary, token);
  return (NowMs() - begin) / tokens;
}

// 0 of what is no number above 0.
int NumberOf(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && number > 0 ? number : 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> numbers;
  for (int i = 2; i < argc; ++i) numbers.push_back(NumberOf(argv[i]));
  if (numbers.size() < 3 || std::count(numbers.begin(), numbers.end(), 0) > 0) {
    std::fprintf(stderr, "usage: llama_decode MODEL.gguf ROUNDS TOKENS CONTEXT...\n");
    return 2;
  }
  const int rounds = numbers[0];
  const int tokens = numbers[1];
  ggml_backend_load_all();
  llama_model_params of_model = llama_model_default_params();
  of_model.n_gpu_layers = kAllLayers;
  llama_model* model = llama_model_load_from_file(argv[1], of_model);
  if (model == nullptr) return 1;
  llama_context_params of_context = llama_context_default_params();
  of_context.n_ctx = kContextTokens;
  of_context.n_ubatch = kBatchTokens;
  of_context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  llama_context* context = llama_init_from_model(model, of_context);
  if (context == nullptr) return 1;
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  for (size_t i = 2; i < numbers.size(); ++i) {
    const int positions = numbers[i];
    std::vector<double> times;
    DecodeMs(context, vocabulary, positions, tokens);
    for (int round = 0; round < rounds; ++round) {
      times.push_back(DecodeMs(context, vocabulary, positions, tokens));
    }
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    std::printf("decode at %d: %.3f ms (%.3f to %.3f), %.0f tokens/s\n", positions, median,
                times.front(), times.back(), 1000 / median);
  }
  llama_free(context);
  llama_model_free(model);
}
