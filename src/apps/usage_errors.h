// What is said of a command line that makes no sense.
#pragma once

#include <CLI/CLI.hpp>

namespace weft::apps {

// Help, version, or a sentence with what may have been meant on stderr; the exit code.
int ReportParseError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace weft::apps
