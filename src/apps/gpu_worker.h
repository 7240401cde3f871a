// `weft worker --gpu`: the headless worker (web/packages/headless), which computes with the
// engine of a tab on Node.js and Dawn. It is a program of its own; this one becomes it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace weft::apps {

// Replaces this process, with `arguments` as the worker's command line. Returns only when that
// cannot be: kNotFound says what to install or to build.
Error BecomeGpuWorker(const std::vector<std::string>& arguments);

}  // namespace weft::apps
