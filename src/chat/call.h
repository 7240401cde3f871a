// Calls of tools, and what of a block of text became some.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::chat {

struct Call {
  std::string name;
  std::string arguments;  // an object of JSON
  std::string id;         // where the model writes one; "" else
  bool operator==(const Call&) const = default;
};

struct BlockCalls {
  std::vector<Call> calls;
  size_t read_bytes =
      0;  // of the block, up to the end of the last call; all of it when it is whole
};

// Whether it can be the name of a function: no white space, quotes or brackets, at most 256 bytes.
bool IsCallName(std::string_view name);

}  // namespace weft::chat
