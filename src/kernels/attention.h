// Causal grouped-query attention over paged f16 or f32 KV, appending the rows' own keys and values
// first.
//
// Query head h reads kv head h / (heads / kv_heads). Row at position p sees positions (p - window,
// p], or [0, p] without a window. score = softcap(q . k * scale); weights = softmax(scores and,
// when given, the head's sink logit, whose weight is dropped); out = sum of weights * v. Keys and
// values are always read back from their page, the new ones too. So a position gives the same bits
// in a prompt and in decoding.
#pragma once

#include "kernels/kv_page.h"
#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

// Where a row's session keeps its KV: page i holds positions [32 i, 32 i + 32). Pages up to the
// row's own exist and are writable from the first appended position on.
struct AttentionRow {
  uint32_t position = 0;
  void* const* pages = nullptr;  // elements of the type that AttentionArgs::kv names

  template <typename Element>
  Element* Page(size_t index) const {
    return static_cast<Element*>(pages[index]);
  }
};

struct AttentionArgs {
  ConstRows q;  // [rows, heads * head_columns]
  // [rows, kv_heads * head_columns], appended; `v` unused where values lie in keys. Of no columns:
  // the pages hold keys and values of these rows already.
  ConstRows k, v;
  size_t heads = 0;
  KvShape kv;  // heads is a multiple of kv.kv_heads
  float scale = 0;
  uint32_t window = 0;
  float softcap = 0;
  std::span<const float> sinks;           // [heads], or empty
  std::span<const AttentionRow> kv_rows;  // [rows]; rows of one session in rising positions
  // [rows, heads * kv.out_columns()]; may be the rows of q where that is as wide
  Rows out;

  bool appends() const { return k.columns > 0; }
  uint32_t FirstVisible(uint32_t position) const {
    return window == 0 || position < window ? 0 : position - window + 1;
  }
};

// Shapes fit each other: a mistake of the caller else.
void CheckAttention(const AttentionArgs& args);

void AttentionReference(const AttentionArgs& args, Workspace& workspace);
void AttentionSimd(const AttentionArgs& args, Workspace& workspace);

// AttentionSimd takes so many rows, and pairs of a row and a head, through widened keys and values
// together. One tile of them has kMostTileOfPairs pairs.
inline constexpr size_t kMostTileRows = 32, kMostTilePairs = 128, kMostTileOfPairs = 6;

// Private floats of Workspace that AttentionSimd needs, and floats of kAttention.
size_t AttentionThreadFloats(const KvShape& kv);
size_t AttentionSharedFloats(const KvShape& kv, size_t heads, size_t rows, size_t end_position);

}  // namespace weft::kernels
