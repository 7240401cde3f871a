// What systemd does with a service, and what it is told, without its library.
#pragma once

#include "base/environment.h"

namespace weft::apps {

// INVOCATION_ID or JOURNAL_STREAM is set, as systemd does for all that it starts, and
// `is_terminal` (standard output) is false: shells inside of services print to one. What a program
// prints is then kept where more people read it than a terminal has.
bool IsKeptInJournal(const Environment& environment, bool is_terminal);

// Tells the service manager of a service of Type=notify (sd_notify(3)) that the server answers.
// Nothing happens where no NOTIFY_SOCKET is set; it is taken out of the environment. Whoever cannot
// be told is not told: the service manager ends what it does not hear of. Before other threads read
// the environment.
void NotifyReady();

}  // namespace weft::apps
