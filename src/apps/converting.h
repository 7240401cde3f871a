// A conversion as commands show it: a line of progress, and sentences about its result.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "convert/convert.h"

namespace weft::apps {

// Converts with a line of progress on stderr. `seconds` receives how long it took. Errors: those of
// convert::ConvertCheckpoint.
Result<convert::ConvertReport> ConvertWithProgress(const convert::ConvertOptions& options,
                                                   double* seconds = nullptr);

// Its warnings, and how much an interrupted conversion had left.
std::vector<std::string> NotesOf(const convert::ConvertReport& report);

// REQUIRES: !report.lowered.
std::string WhyOnlyBrowsers(const convert::ConvertReport& report);

}  // namespace weft::apps
