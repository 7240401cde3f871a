// `weft worker --gpu`: the headless worker (web/packages/headless), which computes with the
// engine of a tab on Node.js and Dawn. It is a program of its own; this one becomes it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft::apps {

// The worker's one file, built or installed; whether it is there is another question.
std::filesystem::path GpuWorkerFile();

// Replaces this process, with `arguments` as the worker's command line. Returns only when that
// cannot be: kNotFound says what to install or to build.
Error BecomeGpuWorker(const std::vector<std::string>& arguments);

}  // namespace weft::apps
