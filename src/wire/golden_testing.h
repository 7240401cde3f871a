// What tests read from the golden files of tests/golden, which packers in Python wrote.
#pragma once

#include <weft_source_dir.h>
#include <boost/json.hpp>
#include <cstdint>
#include <string>

#include "base/file.h"

namespace weft::wire {

// Path of a file of tests/golden.
inline std::string GoldenPath(const std::string& name) {
  return std::string(WEFT_SOURCE_DIR) + "/tests/golden/" + name;
}

// The JSON of a file of tests/golden.
inline boost::json::value GoldenJson(const std::string& name) {
  return boost::json::parse(ReadTextFile(GoldenPath(name)).value());
}

// A member of an object as a number, or as text.
template <typename T = uint32_t>
T Number(const boost::json::value& object, const char* name) {
  return object.at(name).to_number<T>();
}
inline std::string String(const boost::json::value& object, const char* name) {
  return boost::json::value_to<std::string>(object.at(name));
}

}  // namespace weft::wire
