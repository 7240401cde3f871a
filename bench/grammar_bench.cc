// What structured output costs a token, with a vocabulary of 150,000 tokens of text: to check the
// one that was drawn, and to find all that are allowed. `./dev bench grammar`. The text is a JSON
// object of people with strings, numbers and lists; a check is of its next token, a mask is made
// at each of its tokens, `first` with nothing kept of masks before, else with what a former pass
// over the text has left.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <boost/json/parse.hpp>

#include "base/check.h"
#include "base/random.h"
#include "grammar/grammar.h"
#include "grammar/token_masks.h"

namespace weft::grammar {
namespace {

constexpr size_t kVocabulary = 150'000;

// Words as byte-pair vocabularies have them: with a space in front or without, some with capitals,
// and what JSON is punctuated with.
std::vector<std::string> Vocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  const char* const marks[] = {"\"", "{", "}", "[", "]", ":", ",", " ", "\n", "\\", "."};
  for (const char* a : marks)
    for (const char* b : marks)
      for (const char* c : {"", "\"", " ", "}", "\n", "a", "0"})
        tokens.push_back(std::string(a) + b + c);
  for (int number = 0; number < 1000; ++number) tokens.push_back(std::to_string(number));
  const char* const syllables[] = {"a",  "ing", "the", "er", "on", "re", "st", "é", "th", "an",
                                   "or", "al",  "ti",  "en", "it", "qu", "is", "ö", "ly", "са"};
  SeededRandom random(1);
  while (tokens.size() < kVocabulary) {
    std::string word = random.Below(2) == 0 ? " " : "";
    for (uint64_t i = 0; i < 1 + random.Below(4); ++i) word += syllables[random.Below(20)];
    if (random.Below(20) == 0) word += random.Below(2) == 0 ? "\"" : "\",";
    tokens.push_back(word);
  }
  return tokens;
}

struct Fixture {
  std::shared_ptr<const TokenTrie> trie =
      std::make_shared<TokenTrie>(Vocabulary(), std::vector<int32_t>{});
  std::shared_ptr<const Automaton> automaton;
  std::vector<int32_t> text;

  Fixture() {
    const auto compiled = CompileSchema(boost::json::parse(R"({"type": "object", "properties": {
        "people": {"type": "array", "items": {"type": "object", "properties": {
          "name": {"type": "string", "maxLength": 60}, "age": {"type": "integer", "minimum": 0},
          "tags": {"type": "array", "items": {"type": "string"}},
          "kind": {"enum": ["friend", "stranger"]}, "note": {"type": "string"}},
          "required": ["name", "age", "kind"]}}}, "required": ["people"]})"));
    CHECK(compiled.ok());
    automaton = *compiled;
    std::string json = R"({"people": [)";
    for (int i = 0; i < 8; ++i)
      json +=
          std::string(i > 0 ? ", " : "") + R"({"name": "an en tion)" + std::to_string(i) +
          R"( orer", "age": 4)" + std::to_string(i) +
          R"(, "tags": ["ing the er", "stal"], "kind": "friend", "note": "the is is quen it, )" +
          R"(an éal or on the ly. an er"})";
    Tokenise(json + "]}");
  }

  // The longest token each time.
  void Tokenise(std::string_view json) {
    while (!json.empty()) {
      int32_t best = 0;
      for (size_t id = 0; id < kVocabulary; ++id) {
        const std::string_view token = trie->bytes(static_cast<int32_t>(id));
        if (json.starts_with(token) && token.size() > trie->bytes(best).size() * (best > 0))
          best = static_cast<int32_t>(id);
      }
      text.push_back(best);
      json.remove_prefix(trie->bytes(best).size());
    }
  }
};

Fixture& Shared() {
  static Fixture fixture;
  return fixture;
}

void ReportPerToken(benchmark::State& state) {
  const auto tokens = static_cast<double>(state.iterations() * Shared().text.size());
  state.counters["us_per_token"] =
      benchmark::Counter(tokens / 1e6, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["tokens"] = static_cast<double>(Shared().text.size());
}

// A check and the step, as for a token that is drawn and allowed.
void Check(benchmark::State& state) {
  const Fixture& with = Shared();
  TokenMasks masks(with.automaton, with.trie);
  for (auto run : state) {
    Matcher matcher(with.automaton);
    for (const int32_t id : with.text) {
      CHECK(masks.Allows(matcher, id));
      matcher.Advance(with.trie->bytes(id));
    }
    CHECK(matcher.CanEnd());
  }
  ReportPerToken(state);
}
BENCHMARK(Check);

void PassMasks(TokenMasks& masks) {
  const Fixture& with = Shared();
  Matcher matcher(with.automaton);
  for (const int32_t id : with.text) {
    CHECK(masks.Mask(matcher).Has(id));
    matcher.Advance(with.trie->bytes(id));
  }
}

void MaskFirst(benchmark::State& state) {
  for (auto run : state) {
    TokenMasks masks(Shared().automaton, Shared().trie);
    PassMasks(masks);
  }
  ReportPerToken(state);
}
BENCHMARK(MaskFirst)->Unit(benchmark::kMillisecond);

void MaskAgain(benchmark::State& state) {
  TokenMasks masks(Shared().automaton, Shared().trie);
  PassMasks(masks);
  for (auto run : state) PassMasks(masks);
  ReportPerToken(state);
}
BENCHMARK(MaskAgain)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft::grammar

BENCHMARK_MAIN();
