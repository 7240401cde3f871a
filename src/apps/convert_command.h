// `weft convert SOURCE PACKAGE`: the command line of convert/convert.h.
#pragma once

#include <CLI/App.hpp>

namespace weft::apps {

// Adds the subcommand; when it runs it sets *exit_code (0, or 1 after an error that was printed).
void AddConvertCommand(CLI::App& app, int* exit_code);

}  // namespace weft::apps
