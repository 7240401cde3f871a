// The layout of one KV page: 32 positions of one layer of one session, in f16 or f32.
//   keys    [kv_heads][head_columns][32]  positions innermost: a vector of scores is built without
//                                         horizontal sums
//   values  [kv_heads][32][head_columns]
// or, where values are the last columns of keys and are not kept again:
//   keys    [kv_heads][32][head_columns]  a column more or less is none of a page's business, and
//                                         the longer sum, that over values, reads front to back
// What holds pages passes them as void*; what computes takes an `Element`: uint16_t (an f16) or
// float.
// Canonical KV (export, import, the wire) is [k|v][position][kv_head][head_columns], without v
// where values lie in keys; CopyOut and CopyIn convert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace weft::kernels {

inline constexpr size_t kPagePositions = 32;

struct KvShape {
  size_t kv_heads = 0;
  size_t head_columns = 0;
  DType dtype = DType::kF16;  // or kF32
  size_t value_columns = 0;   // 0: values are kept apart; else keys end with them

  bool values_in_keys() const { return value_columns > 0; }
  size_t row_columns() const { return kv_heads * head_columns; }
  // Of keys and values of a position.
  size_t position_elements() const { return (values_in_keys() ? 1 : 2) * row_columns(); }
  size_t page_elements() const { return position_elements() * kPagePositions; }
  // Columns that attention gives for a query head.
  size_t out_columns() const { return values_in_keys() ? value_columns : head_columns; }
  size_t element_bytes() const { return dtype == DType::kF32 ? sizeof(float) : sizeof(uint16_t); }
  size_t page_bytes() const { return page_elements() * element_bytes(); }

  // The place of key column d of head h at slot s (position % 32), in elements. Slots are 1 apart
  // and columns 32, or columns 1 and slots head_columns where values lie in keys.
  size_t KeyIndex(size_t h, size_t d, size_t s) const {
    if (values_in_keys()) return (h * kPagePositions + s) * head_columns + d;
    return (h * head_columns + d) * kPagePositions + s;
  }
  // Where value column d lies; columns are 1 apart, slots head_columns.
  size_t ValueIndex(size_t h, size_t s, size_t d) const {
    if (values_in_keys()) return KeyIndex(h, head_columns - value_columns + d, s);
    return row_columns() * kPagePositions + (h * kPagePositions + s) * head_columns + d;
  }
  bool operator==(const KvShape&) const = default;
};

// Stores kv head `head` of one position. `k` and `v` are that head's f32 columns [head_columns];
// of `v`, here and below, nothing is read or written where values lie in keys.
template <typename Element>
void StoreKv(const KvShape& shape, Element* page, size_t slot, size_t head,
             std::span<const float> k, std::span<const float> v);

// One position's keys and values, [kv_heads * head_columns] each, from and to a page.
template <typename Element>
void CopyOut(const KvShape& shape, const Element* page, size_t slot, Element* k, Element* v);
template <typename Element>
void CopyIn(const KvShape& shape, Element* page, size_t slot, const Element* k, const Element* v);

// Calls `f` with a value of the type that pages of `dtype` hold; only its type matters.
template <typename F>
decltype(auto) WithKvElement(DType dtype, const F& f) {
  return dtype == DType::kF32 ? f(float{}) : f(uint16_t{});
}

}  // namespace weft::kernels
