// The formats of JSON Schema's strings that are followed, as regular expressions. Some allow less
// than their standards do, none more: an e-mail address, say, has no quoted parts and no comments.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft::grammar {

// nullopt: not followed.
std::optional<std::string> FormatPattern(std::string_view name);
// "date, time, ..." of all.
std::string FormatNames();

}  // namespace weft::grammar
