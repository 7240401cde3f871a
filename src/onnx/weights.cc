#include "onnx/weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "onnx/validate.h"

namespace weft::onnx {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;

// Gives back the whole pages inside `bytes`. Harmless for the content: a private read-only mapping
// of a file is read again from the file when touched.
void DropWholePages(ByteSpan bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = begin / page * page;
  const uintptr_t end = (begin + bytes.size()) / page * page;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

}  // namespace

void VisitBytes(const Tensor& tensor, const std::function<void(ByteSpan)>& visit) {
  CHECK(tensor.has_data(), "VisitBytes needs a tensor with bytes");
  const ByteSpan all = tensor.data.bytes();
  for (size_t begin = 0; begin < all.size(); begin += kPieceBytes) {
    const ByteSpan piece = all.subspan(begin, std::min(kPieceBytes, all.size() - begin));
    visit(piece);
    if (tensor.mapped) DropWholePages(piece);
  }
}

void DropPages(const Tensor& tensor) {
  if (tensor.mapped) DropWholePages(tensor.data.bytes());
}

Result<std::map<std::string, WeightBlob>> ExternalizeWeights(Graph& graph, uint64_t from_bytes) {
  std::map<std::string, WeightBlob> blobs;
  for (auto& [name, tensor] : graph.initializers) {
    if (tensor.byte_count < from_bytes || !tensor.strings.empty()) continue;
    if (!tensor.has_data()) {
      return Error(ErrorCode::kInvalidArgument,
                   "The initializer " + Quoted(name) + " has no bytes to hash.");
    }
    Sha256Stream hash;
    VisitBytes(tensor, [&](ByteSpan bytes) { hash.Update(bytes); });
    const WeightBlob blob{hash.Finish(), tensor.byte_count};
    tensor.location = ToHex(blob.digest);
    tensor.offset = 0;
    blobs.emplace(name, blob);
  }
  return blobs;
}

void DropExternalBytes(Graph& graph) {
  for (auto& [name, tensor] : graph.initializers) {
    if (tensor.location.empty()) continue;
    tensor.data = Slice();
    tensor.mapped = false;
  }
}

}  // namespace weft::onnx
