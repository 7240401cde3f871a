// The names a chat template can use: filters, tests, methods of strings, arrays and objects, and
// functions.
#pragma once

#include <string_view>

#include "text/jinja/eval.h"

namespace weft::jinja {

// Gives nullptr for an unknown name.
const FilterEntry* FindFilter(std::string_view name);
const TestEntry* FindTest(std::string_view name);
const MethodEntry* FindMethod(const Value& self, std::string_view name);

bool IsFunctionName(std::string_view name);

const FilterEntry* FindTextFilter(std::string_view name);
const FilterEntry* FindMarkupFilter(std::string_view name);
const FilterEntry* FindListFilter(std::string_view name);
const MethodEntry* FindStringMethod(std::string_view name);

// The functions range, namespace, dict, cycler, joiner, raise_exception, strftime_now.
void AddFunctions(Evaluator& evaluator);

// All of the above, for an Evaluator.
inline constexpr NameLookup kLibrary = {FindFilter, FindTest, FindMethod, AddFunctions};

// strftime of the C locale. `seconds`: local wall clock, as seconds since 1970.
Result<std::string> FormatTime(std::string_view format, int64_t local_seconds);

// ---- shared by the functions ----

// The entry of that name in a table; nullptr when there is none.
template <typename Entry, size_t kCount>
const Entry* FindIn(const Entry (&table)[kCount], std::string_view name) {
  for (const Entry& entry : table) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

// What was given for a parameter, or what counts without it. Errors name `what`: kInvalidData for
// another kind. None counts as not given where `none_is_absent`.
Result<Text> TextArgument(const Value* given, std::string_view what);
Result<int64_t> IntegerArgument(const Value* given, int64_t fallback, std::string_view what,
                                bool none_is_absent = false);
inline bool FlagArgument(const Value* given, bool fallback) {
  return given == nullptr ? fallback : given->Truthy();
}
// Neither absent nor none.
inline bool IsGiven(const Value* given) {
  return given != nullptr && !given->IsNone();
}

Text StripText(const Text& text, bool left, bool right, const std::string* characters = nullptr);
// At most `count` times, or as often as it occurs where that is negative.
Result<Text> ReplaceAll(Evaluator& evaluator, const Text& text, std::string_view from,
                        const Text& to, int64_t count);
// The lines of `text` as str.splitlines cuts it.
std::vector<Text> LinesOf(const Text& text, bool keep_ends);
// &, <, >, and both quotes as HTML writes them. The result is markup.
Text EscapeHtml(const Text& text);

}  // namespace weft::jinja
