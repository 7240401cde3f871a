// The graph of an imported model when its constants lie in the blobs of a package. They may be in
// another order than the exporter had them, or experts one by one; nodes put them together again.
#pragma once

#include <map>
#include <set>
#include <string>

#include "convert/weights/array_store.h"
#include "onnx/graph.h"

namespace weft::convert {

// Initializers that lie in blobs, by name.
struct PlacedConstants {
  std::set<std::string> kept;    // as they are
  std::set<std::string> turned;  // with the last two axes exchanged
  // Experts whose gate and up rows are kept deinterleaved -> the key of their array.
  std::map<std::string, std::string> deinterleaved;
};

// `model` with external data at the blobs' digests and no bytes of it. REQUIRES: `store` is
// written.
onnx::Model GraphOverBlobs(const onnx::Model& model, const PlacedConstants& placed,
                           const ArrayStore& store);

}  // namespace weft::convert
