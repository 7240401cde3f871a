// Files that secrets are read from: `weft worker --token-file`, `weft keys --api-key-file`.
#pragma once

#include <string>

#include "base/result.h"

namespace weft::apps {

// Its first line, without spaces around it. kNotFound, kIo: it cannot be read. kInvalidArgument:
// the line is empty, or longer than any of ours. `what`: "join token".
Result<std::string> ReadSecretFile(const std::string& path, const std::string& what);

}  // namespace weft::apps
