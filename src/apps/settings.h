// Settings of a command that come from somewhere else than its command line:
//
//   weft serve --port 9000        counts most,
//   WEFT_PORT=9000                less,
//   port = 9000                   (in the file of --config) less still, then the default.
//
// The command's own options are the table: names, types, ranges and sentences are theirs, so that
// a new flag is a variable and a key at once.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "apps/config_file.h"
#include "base/environment.h"
#include "base/result.h"

namespace weft::apps {

// "WEFT_WORKER_MEMORY" for "worker-memory".
std::string VariableOf(const std::string& key);

// What is wrong with the entries, a sentence each that begins with `path` and the line.
std::vector<std::string> FindConfigProblems(CLI::App& command, const std::string& path,
                                            const std::vector<ConfigEntry>& entries);

// Gives every option that the command line left alone what the environment has for it, else the
// file that the option --config or WEFT_CONFIG names. REQUIRES: the command line is parsed. Errors:
// those of ReadConfigFile, and kInvalidArgument with every problem of the file or the environment.
Status ApplySettings(CLI::App& command, const Environment& environment);

// Variables that begin with WEFT_ and are nearly those of an option, a sentence each.
std::vector<std::string> FindMistypedVariables(const CLI::App& command,
                                               const std::vector<std::string>& names);

}  // namespace weft::apps
