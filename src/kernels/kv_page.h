// The layout of one KV page: 32 positions of one layer of one session, f16.
//   keys    [kv_heads][head_columns][32]  positions innermost: a vector of scores is built without
//   horizontal sums values  [kv_heads][32][head_columns]
// Canonical KV (export, import, the wire) is [k|v][position][kv_head][head_columns]; CopyOut and
// CopyIn convert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::kernels {

inline constexpr size_t kPagePositions = 32;

struct KvShape {
  size_t kv_heads = 0;
  size_t head_columns = 0;

  size_t row_columns() const { return kv_heads * head_columns; }
  // f16 elements of a page.
  size_t page_elements() const { return 2 * row_columns() * kPagePositions; }

  // Where key column d of head h at slot s (position % 32) lies, in elements; slots are 1 apart,
  // columns 32.
  size_t KeyIndex(size_t h, size_t d, size_t s) const {
    return (h * head_columns + d) * kPagePositions + s;
  }
  // Where value column d lies; columns are 1 apart, slots head_columns.
  size_t ValueIndex(size_t h, size_t s, size_t d) const {
    return row_columns() * kPagePositions + (h * kPagePositions + s) * head_columns + d;
  }
  bool operator==(const KvShape&) const = default;
};

// Stores kv head `head` of one position. `k` and `v` are that head's f32 columns [head_columns].
void StoreKv(const KvShape& shape, uint16_t* page, size_t slot, size_t head,
             std::span<const float> k, std::span<const float> v);

// One position's keys and values, f16 [kv_heads * head_columns] each, from and to a page.
void CopyOut(const KvShape& shape, const uint16_t* page, size_t slot, uint16_t* k, uint16_t* v);
void CopyIn(const KvShape& shape, uint16_t* page, size_t slot, const uint16_t* k,
            const uint16_t* v);

}  // namespace weft::kernels
