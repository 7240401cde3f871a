#include "apps/grammar_tools.h"

#include <algorithm>
#include <boost/json.hpp>
#include <istream>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "api/answer_form.h"
#include "base/random.h"
#include "base/sentence.h"
#include "grammar/matcher.h"
#include "grammar/token_masks.h"

namespace weft::apps {
namespace {

namespace json = boost::json;

constexpr size_t kMaxJsonDepth = 128;
// From so many tokens on a sample takes the shortest way to an end.
constexpr size_t kFreeTokens = 60;
constexpr int64_t kMostSamples = 10'000;

// One token that is allowed: any, or the one nearest to an end.
int32_t Choose(const std::vector<int32_t>& allowed, const grammar::TokenTrie& trie,
               const grammar::Matcher& matcher, bool is_free, SeededRandom& random) {
  if (is_free) return allowed[random.Below(allowed.size())];
  int32_t best = allowed[0];
  uint32_t least = UINT32_MAX;
  for (const int32_t id : allowed) {
    grammar::Matcher tried = matcher;
    tried.Advance(trie.bytes(id));
    if (tried.BytesToEnd() >= least) continue;
    least = tried.BytesToEnd();
    best = id;
  }
  return best;
}

std::string Sample(const std::shared_ptr<const grammar::Automaton>& automaton,
                   const std::shared_ptr<const grammar::TokenTrie>& trie,
                   grammar::TokenMasks& masks, SeededRandom& random) {
  grammar::Matcher matcher(automaton);
  std::string text;
  for (size_t count = 0;; ++count) {
    const bool is_free = count < kFreeTokens;
    // As an answer is drawn: a token that happens to be allowed needs no mask.
    const auto drawn = static_cast<int32_t>(random.Below(trie->vocabulary()));
    if (is_free && !trie->is_end(drawn) && masks.Allows(matcher, drawn)) {
      text += trie->bytes(drawn);
      matcher.Advance(trie->bytes(drawn));
      continue;
    }
    if (matcher.CanEnd() && (!is_free || matcher.IsOver() || random.Below(3) == 0)) return text;
    std::vector<int32_t> allowed = masks.Mask(matcher).Ids();
    std::erase_if(allowed, [&](int32_t id) { return trie->is_end(id); });
    if (allowed.empty()) return text;
    const std::string_view bytes = trie->bytes(Choose(allowed, *trie, matcher, is_free, random));
    matcher.Advance(bytes);
    text += bytes;
  }
}

void Check(const grammar::Matcher& begin, const json::array& texts, json::object& out) {
  constexpr size_t kMostForcedBytes = 200;
  json::array accepted, failed_at, must_follow;
  for (const json::value& value : texts) {
    const std::string_view text = value.as_string();
    grammar::Matcher matcher = begin;
    const size_t count = matcher.AcceptedBytes(text);
    matcher.Advance(text.substr(0, count));
    const bool is_whole = count == text.size() && matcher.CanEnd();
    accepted.push_back(is_whole);
    failed_at.push_back(is_whole ? json::value(nullptr) : json::value(count));
    must_follow.push_back(json::value(matcher.ForcedBytes(kMostForcedBytes)));
  }
  out["accepted"] = std::move(accepted);
  out["failed_at"] = std::move(failed_at);
  out["must_follow"] = std::move(must_follow);
}

// nullopt: something is not as it should be.
std::optional<json::object> Answer(json::object question,
                                   const std::shared_ptr<const grammar::TokenTrie>& trie) {
  const auto take = [&question](const char* name) {
    json::value taken;
    if (const json::value* value = question.if_contains(name)) taken = *value;
    question.erase(name);
    return taken;
  };
  const json::value check = take("check"), sample = take("sample"), seed = take("seed");
  const bool is_good =
      (check.is_null() || (check.is_array() && std::ranges::all_of(check.as_array(),
                                                                   [](const json::value& text) {
                                                                     return text.is_string();
                                                                   }))) &&
      (sample.is_null() ||
       (sample.is_int64() && sample.as_int64() >= 0 && sample.as_int64() <= kMostSamples)) &&
      (seed.is_null() || seed.is_int64());
  if (!is_good) return std::nullopt;
  const auto read = api::ReadForm(question, "");
  if (const auto* error = std::get_if<api::ApiError>(&read))
    return json::object{{"error", error->message}};
  const auto compiled = std::get<api::AnswerForm>(read).Compile();
  if (!compiled.ok()) return json::object{{"error", compiled.error().ToString()}};
  json::object out;
  if (check.is_array()) Check(grammar::Matcher(*compiled), check.as_array(), out);
  if (!sample.is_null()) {
    grammar::TokenMasks masks(*compiled, trie);
    SeededRandom random(seed.is_null() ? 0 : static_cast<uint64_t>(seed.as_int64()));
    json::array samples;
    for (int64_t i = 0; i < sample.as_int64(); ++i)
      samples.emplace_back(Sample(*compiled, trie, masks, random));
    out["samples"] = std::move(samples);
  }
  return out;
}

}  // namespace

Status RunGrammarLines(std::shared_ptr<const grammar::TokenTrie> trie, std::istream& in,
                       std::ostream& out) {
  std::string line;
  for (size_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    json::parse_options options;
    options.max_depth = kMaxJsonDepth;
    boost::system::error_code error;
    const json::value question = json::parse(line, error, {}, options);
    std::optional<json::object> answer;
    if (!error && question.is_object()) answer = Answer(question.as_object(), trie);
    if (!answer)
      return Error(ErrorCode::kInvalidData,
                   Sentence("Line ", number,
                            " of the input is no question; expected a JSON object with one of "
                            "'json', 'json_object', 'regex', 'choice' and 'grammar', and 'check' "
                            "(a list of texts), 'sample' (a number of texts) or 'seed'."));
    out << *answer << std::endl;
  }
  return OkStatus();
}

}  // namespace weft::apps
