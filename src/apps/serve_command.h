// `weft serve` as a part of other commands: a server of one model in the background.
#pragma once

#include <memory>
#include <string>

#include "apps/commands.h"
#include "apps/serve_options.h"
#include "base/result.h"

namespace weft::apps {

// All flags of `weft serve`.
void AddServeOptions(CLI::App& command, ServeOptions& options);

// Serves on a thread of its own until it is destroyed.
class BackgroundServer {
 public:
  static Result<BackgroundServer> Start(const ServeOptions& options);
  BackgroundServer(BackgroundServer&&) noexcept;
  ~BackgroundServer();

  std::string url() const;             // "http://127.0.0.1:40123"
  const std::string& api_key() const;  // "": none is demanded

 private:
  struct State;
  explicit BackgroundServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft::apps
