// Options of the commands that run a model in their own process (`weft generate`, `weft eval`).
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/local_swarm.h"
#include "package/package.h"

namespace weft::apps {

struct LocalOptions {
  std::string package;
  uint32_t workers = 1;
  uint32_t threads = 1;
  bool reference_kernels = false;
};

void AddLocalOptions(CLI::App& command, LocalOptions& options);

// kInvalidArgument when there are more workers than layers, kUnsupported when native workers cannot
// run the package at all.
Status CheckWorkers(const package::Package& package, uint32_t workers);

// A swarm whose sessions hold `positions` tokens.
LocalSwarmOptions SwarmOptions(const LocalOptions& options, size_t positions);

}  // namespace weft::apps
