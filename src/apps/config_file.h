// The file of `weft serve --config`: TOML whose keys are flags without their dashes. Here it is
// read; what the keys mean is settings.h.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft::apps {

struct ConfigEntry {
  enum class Kind { kText, kInteger, kNumber, kTruth, kOther };

  std::string key;
  size_t line = 0;  // from 1
  Kind kind = Kind::kOther;
  bool is_list = false;             // then `kind` is that of its members
  std::vector<std::string> values;  // as the flag would have them; one, where it is no list
};

// The entries in the order of their lines; a table's are named "table.key". Errors: kNotFound and
// kIo for the file, kInvalidData with the line for what is no TOML.
Result<std::vector<ConfigEntry>> ReadConfigFile(const std::filesystem::path& path);
Result<std::vector<ConfigEntry>> ParseConfig(const std::string& text, const std::string& path);

}  // namespace weft::apps
