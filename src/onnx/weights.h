// Going through the bytes of weights without keeping them in memory, and naming weights by their
// SHA-256.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "base/sha256.h"
#include "onnx/graph.h"

namespace weft::onnx {

// Calls `visit` with the tensor's bytes piece by piece (a few MiB); pages of mapped files are given
// back after each piece, so that peak memory does not grow with the weights. REQUIRES:
// tensor.has_data().
void VisitBytes(const Tensor& tensor, const std::function<void(ByteSpan)>& visit);

// Gives back the memory of a mapped tensor's pages that were read; they are read from the file
// again when touched.
void DropPages(const Tensor& tensor);

// Which blob holds an initializer's bytes.
struct WeightBlob {
  Sha256Digest digest;
  uint64_t byte_count = 0;
};

// Gives every initializer of the graph (not of subgraphs) that has at least `from_bytes` the
// location ToHex(SHA-256 of its bytes), offset 0 (dynamic-graph-partitioning 6.2.1 "externalize
// weights"), keeping `data` so that the caller can still write the blobs. Equal tensors share a
// blob. Smaller ones stay inline. Returns name -> blob. Errors: kInvalidArgument when an
// initializer has no bytes.
Result<std::map<std::string, WeightBlob>> ExternalizeWeights(Graph& graph, uint64_t from_bytes);

// Forgets the bytes of every tensor that has a location: what is left is the graph-only model that
// servers hand out.
void DropExternalBytes(Graph& graph);

}  // namespace weft::onnx
