// A program's weight lies in memory, ready for kernels. If the source's bytes lie in one piece and
// are aligned, they are used in place: a mapped file is never copied then. Otherwise the weight is
// a copy. Matrices in superblocks that are multiplied become panels, and what was read is let go.
// Tables in k-quants do, too, and rows are read from these. A head that is tied to one shares them.
//
// A shard of experts shares each expert's panels with the shard that it takes the place of:
//
//   held    experts 1 2 3    one piece of memory
//   wanted  experts   2 3 4  2 and 3 stay where they are, 4 is read and packed; 1 goes with the old
//                            shard, and its pages go back to the system
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

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

// The panels of one matrix. They go when nobody holds them any more.
using Panels = std::shared_ptr<const uint8_t>;

// Panels that are loaded, by where their matrices lie. Safe to use from several threads.
class PanelStore {
 public:
  // Gives the panels of the same form, shape and parts, one a matrix of the weight; null where
  // nobody holds such.
  std::vector<Panels> Find(const program::Weight& weight);
  // REQUIRES: one a matrix, none of them null.
  void Add(const program::Weight& weight, std::span<const Panels> panels);

 private:
  using Key = std::vector<uint64_t>;
  static std::vector<Key> KeysOf(const program::Weight& weight);

  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const uint8_t>> panels_;
  size_t sweep_at_ = 0;  // so many entries, of which some may be nobody's
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
  // As Load, for weights that are kept in panels.
  Status LoadPanels(const program::Weight& weight, WeightSource& source, PanelStore& panels);
  Status CheckRecords() const;

  std::vector<kernels::Matrix> matrices_;
  std::span<const float> values_;
  std::vector<float> converted_values_;
  std::vector<Slice> slices_;   // own the memory above
  std::vector<Panels> panels_;  // or these do
  std::vector<HeldBytes> held_;
};

}  // namespace weft::engine
