// Lines that a person types: on a terminal with editing and with the lines typed before (libedit),
// from anything else as they are. What was typed stays in memory and is written nowhere.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace weft::apps {

class LineInput {
 public:
  // Prompts and what is typed are shown on `out` where both files are a terminal. The files outlive
  // this object.
  LineInput(std::FILE* in, std::FILE* out);
  ~LineInput();
  LineInput(const LineInput&) = delete;
  LineInput& operator=(const LineInput&) = delete;

  bool is_terminal() const { return editor_ != nullptr; }

  // The next line without its end; nullopt at the end of the input. One thread at a time.
  std::optional<std::string> Read(const std::string& prompt);

 private:
  struct Editor;

  std::FILE* const in_;
  std::unique_ptr<Editor> editor_;  // null where there is no terminal
};

}  // namespace weft::apps
