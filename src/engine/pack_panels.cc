#include "engine/pack_panels.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "kernels/panels.h"

namespace weft::engine {
namespace {

constexpr size_t kMostThreads = 4;
constexpr size_t kPieceRows = 16 * kernels::kPanelOutputs;
constexpr size_t kThreadBytes = size_t{2} << 20;  // fewer are not worth a thread

}  // namespace

Status PackAllPanels(std::span<const kernels::Matrix> stored, size_t each, uint8_t* to) {
  const size_t pieces = (stored[0].rows + kPieceRows - 1) / kPieceRows;
  const size_t panel_bytes = kernels::PanelBytes(stored[0].dtype, stored[0].columns);
  std::atomic<size_t> next = 0;
  std::atomic<bool> is_good = true;
  const auto pack = [&] {
    for (size_t piece = next++; piece < pieces * stored.size(); piece = next++) {
      const size_t matrix = piece / pieces, first = piece % pieces * kPieceRows;
      const kernels::Matrix rows =
          stored[matrix].Sub(first, std::min(kPieceRows, stored[matrix].rows - first));
      uint8_t* at = to + matrix * each + first / kernels::kPanelOutputs * panel_bytes;
      if (!kernels::PackPanels(rows, at).ok()) is_good = false;
    }
  };
  const size_t threads =
      std::min({kMostThreads, std::max<size_t>(1, std::thread::hardware_concurrency()),
                std::max<size_t>(1, each * stored.size() / kThreadBytes)});
  std::vector<std::jthread> others(threads - 1);
  for (std::jthread& other : others) other = std::jthread(pack);
  pack();
  others.clear();
  if (is_good) return OkStatus();
  // Pieces count rows from their own first one.
  for (const kernels::Matrix& matrix : stored) TRY(kernels::CheckRecords(matrix));
  return OkStatus();
}

}  // namespace weft::engine
