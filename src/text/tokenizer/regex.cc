#include "text/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

namespace weft {
namespace {

// Patterns of real tokenizers are under 1 KiB.
constexpr size_t kMaxPatternBytes = 64 * 1024;
// Steps of the matcher for one search: enough for patterns that look at each byte a few times and
// step back over it, far too few for exponential ones.
constexpr uint64_t kStepsBase = 200'000;
constexpr uint64_t kStepsPerByte = 32;
constexpr uint32_t kHeapLimitKib = 64 * 1024;

std::string PcreMessage(int code) {
  PCRE2_UCHAR buffer[256];
  const int length = pcre2_get_error_message(code, buffer, sizeof(buffer));
  if (length < 0) return "error " + std::to_string(code);
  return std::string(reinterpret_cast<const char*>(buffer), static_cast<size_t>(length));
}

PCRE2_SPTR AsPcre(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

}  // namespace

Result<Regex> Regex::Compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return Error(ErrorCode::kInvalidData,
                 "A regular expression of " + std::to_string(pattern.size()) +
                     " bytes is over the limit of " + std::to_string(kMaxPatternBytes) + ".");
  }
  ASSIGN_OR_RETURN(const std::string translated, TranslateOniguruma(pattern));
  std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  int error_code = 0;
  PCRE2_SIZE error_offset = 0;
  // Ruby's ^ and $ match at every line.
  pcre2_code* code =
      pcre2_compile(AsPcre(translated), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error_code,
                    &error_offset, context.get());
  if (code == nullptr) {
    return Error(ErrorCode::kInvalidData, "The regular expression \"" + translated +
                                              "\" does not compile: " + PcreMessage(error_code) +
                                              " at offset " + std::to_string(error_offset) + ".");
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it, matching is slower and still right
  Regex regex;
  regex.pattern_ = pattern;
  regex.code_ = std::shared_ptr<const pcre2_code>(
      code, [](const pcre2_code* held) { pcre2_code_free(const_cast<pcre2_code*>(held)); });
  return regex;
}

RegexSearch::RegexSearch(const Regex& regex)
    : regex_(&regex),
      data_(pcre2_match_data_create(1, nullptr)),
      context_(pcre2_match_context_create(nullptr)) {
  CHECK(data_ != nullptr && context_ != nullptr, "PCRE2 could not allocate its match data");
  pcre2_set_heap_limit(context_, kHeapLimitKib);
}

RegexSearch::~RegexSearch() {
  pcre2_match_data_free(data_);
  pcre2_match_context_free(context_);
}

Result<bool> RegexSearch::Find(std::string_view subject, size_t from, Match& match) {
  const uint64_t steps = kStepsBase + kStepsPerByte * (subject.size() - from);
  pcre2_set_match_limit(context_, static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
  const auto search = [&](uint32_t options) {
    // PCRE2 would check the whole subject's UTF-8 at every call: quadratic. The caller has checked
    // it once.
    return pcre2_match(regex_->code_.get(), AsPcre(subject), subject.size(), from,
                       options | PCRE2_NO_UTF_CHECK, data_, context_);
  };
  int found = search(0);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = search(PCRE2_NO_JIT);
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0) {
    return Error(ErrorCode::kInvalidData,
                 "The regular expression \"" + regex_->pattern_ + "\" gave up on a text of " +
                     std::to_string(subject.size()) + " bytes: " + PcreMessage(found) + ".");
  }
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data_);
  // \K inside a lookahead can put the start behind the end; treat it as an empty match.
  match.begin = std::min(offsets[0], offsets[1]);
  match.end = offsets[1];
  return true;
}

}  // namespace weft
