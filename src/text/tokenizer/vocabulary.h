// The vocabulary of a tokenizer: token texts by id and ids by text. Immutable; texts live in one
// block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft {

class Vocabulary {
 public:
  struct Entry {
    std::string_view text;
    int64_t id;
  };
  // Errors: kInvalidData for an id below zero, an id far beyond the count of entries, or an id
  // given twice.
  static Result<Vocabulary> Build(const std::vector<Entry>& entries);

  std::optional<int32_t> Find(std::string_view text) const;
  // Empty for an id without a token.
  std::string_view Text(int32_t id) const;
  bool Has(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < places_.size() &&
           places_[static_cast<size_t>(id)].present;
  }
  // One more than the largest id.
  int32_t id_limit() const { return static_cast<int32_t>(places_.size()); }

 private:
  struct Place {
    uint32_t offset = 0;
    uint32_t byte_count = 0;
    bool present = false;
  };
  size_t SlotOf(std::string_view text) const;

  std::string texts_;
  std::vector<Place> places_;   // by id
  std::vector<int32_t> slots_;  // open addressing, power of two, -1 is free
};

}  // namespace weft
