// A program's weight lies in memory, ready for kernels. If the source's bytes lie in one piece and
// are aligned, they are used in place: a mapped file is never copied then. Otherwise the weight is
// a copy. Matrices in superblocks that are multiplied become panels, and what was read is let go.
// Tables in k-quants do, too, and rows are read from these. A head that is tied to one shares them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/large_memory.h"
#include "engine/weight_source.h"
#include "kernels/view.h"
#include "program/ir.h"

namespace weft::engine {

// One piece of memory. Weights that share it (tied embeddings) name the same address.
struct HeldBytes {
  const uint8_t* address = nullptr;
  uint64_t byte_count = 0;
};

// What operations do with a weight.
enum class WeightUse {
  kMultiplied,
  kLookedUp,  // row by row: kept as it is stored, but for k-quants
  kValues,    // the elements as f32, too, by values(): norm weights, biases, frequencies
};

// Panels of weights that are loaded, by where the weights lie. Safe to use from several threads.
class PanelStore {
 public:
  using Panels = std::shared_ptr<const LargeMemory>;

  // Gives the panels of the same form, shape and parts; null where no weight holds such.
  Panels Find(const program::Weight& weight);
  void Add(const program::Weight& weight, const Panels& panels);

 private:
  std::mutex mutex_;
  std::map<std::vector<uint64_t>, std::weak_ptr<const LargeMemory>> panels_;
};

class LoadedWeight {
 public:
  // Reads all parts and checks their lengths, and records of superblocks. REQUIRES: `weight` passed
  // program::Validate. Errors name the weight.
  static Result<LoadedWeight> Load(const program::Weight& weight, WeightUse use,
                                   WeightSource& source, PanelStore& panels);

  // [columns] is one matrix of one row, [rows, columns] one matrix, [experts, rows, columns] one an
  // expert.
  std::span<const kernels::Matrix> matrices() const { return matrices_; }
  std::span<const float> values() const { return values_; }
  std::span<const HeldBytes> held() const { return held_; }

 private:
  // Makes panels of the matrices, in one piece of memory.
  Status Pack();
  // Makes the matrices those of `panels`. REQUIRES: their forms and sizes are known.
  void Use(PanelStore::Panels panels);
  Status CheckRecords() const;

  std::vector<kernels::Matrix> matrices_;
  std::span<const float> values_;
  std::vector<float> converted_values_;
  std::vector<Slice> slices_;  // own the memory above
  PanelStore::Panels panels_;  // or this does
  std::vector<HeldBytes> held_;
};

}  // namespace weft::engine
