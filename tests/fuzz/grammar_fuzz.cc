// Grammars from outside: compiling never crashes and always ends; a grammar that compiles has a
// text that the shortest way leads to, and its masks are the tokens that are allowed one by one.
#include <boost/json.hpp>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "grammar/token_masks.h"

namespace {

using namespace weft;
using namespace weft::grammar;

// The first byte says what the source is.
Compiled Compile(char kind, std::string_view source) {
  switch (kind) {
    case 'r':
      return CompileRegex(source);
    case 'g':
      return CompileGbnf(source);
    case 'c':
      return CompileChoice({std::string(source), "another"});
    default:
      break;
  }
  boost::system::error_code error;
  boost::json::parse_options options;
  options.max_depth = 64;
  const boost::json::value schema = boost::json::parse(source, error, {}, options);
  if (error) return Error(ErrorCode::kInvalidArgument, "The schema is not JSON.");
  return CompileSchema(schema);
}

std::shared_ptr<const TokenTrie> Tokens() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* text : {"\"", "\",", "{\"", "\": ", "}]", "ab", "the", "12", "\xE2\x82"})
    tokens.emplace_back(text);
  return std::make_shared<TokenTrie>(tokens, std::vector<int32_t>{300});
}

void Walk(const Compiled& compiled, std::string_view steps) {
  static const auto trie = Tokens();
  TokenMasks masks(*compiled, trie);
  Matcher matcher(*compiled);
  for (const char step : steps.substr(0, 24)) {
    const std::vector<int32_t> ids = masks.Mask(matcher).Ids();
    CHECK(!ids.empty() || matcher.CanEnd());
    for (const int32_t id : ids) CHECK(masks.Allows(matcher, id));
    const int32_t other = static_cast<uint8_t>(step);
    CHECK(masks.Allows(matcher, other) == masks.Mask(matcher).Has(other));
    CHECK(matcher.Accepts(matcher.ForcedBytes(64)));
    if (ids.empty()) break;
    const int32_t chosen = ids[static_cast<uint8_t>(step) % ids.size()];
    CHECK(matcher.Advance(trie->bytes(chosen)));
  }
  for (uint32_t left = std::min(matcher.BytesToEnd(), 200u); left > 0; --left) {
    const uint32_t before = matcher.BytesToEnd();
    const auto next = matcher.NextBytes();
    bool found = false;
    for (int byte = 0; byte < 256 && !found; ++byte) {
      Matcher tried = matcher;
      const char c = static_cast<char>(byte);
      if (!next[static_cast<size_t>(byte)]) continue;
      CHECK(tried.Advance({&c, 1}));
      if (tried.BytesToEnd() + 1 != before) continue;
      matcher = tried;
      found = true;
    }
    CHECK(found || before == UINT32_MAX);
    if (!found) return;
  }
}

}  // namespace

// The kind, the source, and after a zero byte the steps of a walk.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  const std::string_view input = AsText(ByteSpan(data, byte_count));
  if (input.empty()) return 0;
  const size_t zero = input.find('\0');
  const Compiled compiled =
      Compile(input[0], input.substr(1, zero == input.npos ? zero : zero - 1));
  if (!compiled.ok()) return 0;
  Walk(compiled, zero == input.npos ? "abc" : input.substr(zero + 1));
  return 0;
}
