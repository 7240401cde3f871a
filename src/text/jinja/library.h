// The names a chat template can use: filters, tests, methods of strings, arrays and objects, and
// functions.
#pragma once

#include <string_view>

#include "text/jinja/eval.h"

namespace weft::jinja {

// Gives nullptr for an unknown name.
FilterFunction FindFilter(std::string_view name);
TestFunction FindTest(std::string_view name);
MethodFunction FindMethod(const Value& self, std::string_view name);

FilterFunction FindTextFilter(std::string_view name);
FilterFunction FindListFilter(std::string_view name);

// The functions range, namespace, dict, raise_exception, strftime_now.
void AddFunctions(Evaluator& evaluator);

// All of the above, for an Evaluator.
inline constexpr NameLookup kLibrary = {FindFilter, FindTest, FindMethod, AddFunctions};

// strftime of the C locale. `seconds`: local wall clock, as seconds since 1970.
Result<std::string> FormatTime(std::string_view format, int64_t local_seconds);

// ---- shared by the functions ----

// The text argument at `index` or of this name. Errors: kInvalidData, naming `what`.
Result<std::string> TextArgument(const CallArguments& arguments, size_t index,
                                 std::string_view name, std::string_view what);
Result<int64_t> IntegerArgument(const CallArguments& arguments, size_t index, std::string_view name,
                                int64_t fallback, std::string_view what);
bool FlagArgument(const CallArguments& arguments, size_t index, std::string_view name,
                  bool fallback);

std::string StripText(std::string_view text, bool left, bool right,
                      const std::string* characters = nullptr);
std::string Capitalize(std::string_view text);
Result<std::string> ReplaceAll(Evaluator& evaluator, std::string_view text, std::string_view from,
                               std::string_view to, int64_t count);

}  // namespace weft::jinja
