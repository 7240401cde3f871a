// A weight as it lies in the blobs of a package.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "package/digest.h"
#include "tensor/dtype.h"

namespace weft::convert {

// Bytes [offset, offset + byte_count) of a blob.
struct StoredArray {
  package::Digest blob;
  uint64_t offset = 0;
  uint64_t byte_count = 0;
};

struct StoredWeight {
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;  // [columns] or [rows, columns]
  StoredArray data;
  StoredArray scale;  // block formats only
  StoredArray zero;   // q4 with zero points other than 8
};

using StoredWeights = std::map<std::string, StoredWeight>;

}  // namespace weft::convert
