#include "kernels/kv_page.h"

#include <algorithm>

#include "tensor/half.h"

namespace weft::kernels {

void StoreKv(const KvShape& shape, uint16_t* page, size_t slot, size_t head,
             std::span<const float> k, std::span<const float> v) {
  for (size_t d = 0; d < shape.head_columns; ++d) {
    page[shape.KeyIndex(head, d, slot)] = F32ToF16(k[d]);
    page[shape.ValueIndex(head, slot, d)] = F32ToF16(v[d]);
  }
}

void CopyOut(const KvShape& shape, const uint16_t* page, size_t slot, uint16_t* k, uint16_t* v) {
  for (size_t h = 0; h < shape.kv_heads; ++h) {
    for (size_t d = 0; d < shape.head_columns; ++d) {
      k[h * shape.head_columns + d] = page[shape.KeyIndex(h, d, slot)];
    }
    std::copy_n(page + shape.ValueIndex(h, slot, 0), shape.head_columns,
                v + h * shape.head_columns);
  }
}

void CopyIn(const KvShape& shape, uint16_t* page, size_t slot, const uint16_t* k,
            const uint16_t* v) {
  for (size_t h = 0; h < shape.kv_heads; ++h) {
    for (size_t d = 0; d < shape.head_columns; ++d) {
      page[shape.KeyIndex(h, d, slot)] = k[h * shape.head_columns + d];
    }
    std::copy_n(v + h * shape.head_columns, shape.head_columns,
                page + shape.ValueIndex(h, slot, 0));
  }
}

}  // namespace weft::kernels
