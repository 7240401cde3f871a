// Regular expressions from model files (pre-tokenizers, normalizers) on PCRE2: Unicode classes,
// compiled to machine code where the platform allows it, and bounded work per match. Patterns are
// written for Oniguruma; regex_syntax.cc turns its spellings into PCRE2's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;

namespace weft {

// Immutable once compiled; any number of threads may search with it, each with its own RegexSearch.
class Regex {
 public:
  // Errors: kInvalidData with the pattern's fault and its place; kUnsupported for syntax that PCRE2
  // lacks.
  static Result<Regex> Compile(std::string_view pattern);

  const std::string& pattern() const { return pattern_; }

 private:
  friend class RegexSearch;
  std::string pattern_;
  std::shared_ptr<const pcre2_real_code_8> code_;
};

// One thread's scratch for one expression.
class RegexSearch {
 public:
  explicit RegexSearch(const Regex& regex);
  ~RegexSearch();
  RegexSearch(const RegexSearch&) = delete;
  RegexSearch& operator=(const RegexSearch&) = delete;

  struct Match {
    size_t begin;
    size_t end;
  };

  // True and `match` for the first match at or after `from`; false when there is none.
  // REQUIRES: `subject` is well-formed UTF-8, `from` at a character's start.
  // Errors: kInvalidData when the expression needs more steps than a limit that is linear in the
  // subject.
  Result<bool> Find(std::string_view subject, size_t from, Match& match);

 private:
  const Regex* regex_;
  pcre2_real_match_data_8* data_ = nullptr;
  pcre2_real_match_context_8* context_ = nullptr;
};

// Oniguruma (Ruby syntax) -> PCRE2. Errors: kUnsupported, naming the construct.
Result<std::string> TranslateOniguruma(std::string_view pattern);

}  // namespace weft
