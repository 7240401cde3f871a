// Variables of the environment as their specifications read them: XDG base directories, NO_COLOR.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace weft {

// A variable of the environment; nullptr when it is not set.
using Environment = std::function<const char*(const char*)>;

// The variable's value; "" when it is not set.
std::string EnvironmentValue(const Environment& environment, const char* name);

// The folder that an XDG_..._HOME names, else `below_home` in HOME; "" where neither is set. A
// relative path in the variable counts as none, as the specification demands.
std::filesystem::path BaseFolder(const Environment& environment, const char* variable,
                                 const std::filesystem::path& below_home);

// NO_COLOR is set to something, or the terminal is one that cannot show colours (TERM=dumb).
bool WantsPlainText(const Environment& environment);

}  // namespace weft
