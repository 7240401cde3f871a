// What can go wrong with a registry, as sentences that say what to do, and whether asking again may
// help.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "net/http.h"
#include "registry/registry_settings.h"

namespace weft::registry {

struct Failure {
  Error error;
  bool may_pass = false;                // 429, 5xx, connections that broke
  std::optional<Duration> retry_after;  // when the registry said so
};

// What a request was about, for the sentence.
struct Subject {
  std::string repository;
  std::string revision;
  std::string file;  // "" for the repository itself
};

// A reply whose status is not 2xx.
Failure FailureOf(const net::HttpReply& reply, const Subject& subject,
                  const RegistrySettings& settings);

// A call that gave no reply.
Failure FailureOf(const Error& error, const RegistrySettings& settings);

}  // namespace weft::registry
