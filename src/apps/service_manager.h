// Whether what a program prints is kept by systemd, where more people read it than a terminal has.
#pragma once

#include "base/environment.h"

namespace weft::apps {

// INVOCATION_ID or JOURNAL_STREAM is set, as systemd does for all that it starts, and
// `is_terminal` (standard output) is false: shells inside of services print to one.
bool IsKeptInJournal(const Environment& environment, bool is_terminal);

}  // namespace weft::apps
