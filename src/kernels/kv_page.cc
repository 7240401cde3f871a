#include "kernels/kv_page.h"

#include <algorithm>
#include <type_traits>

#include "tensor/half.h"

namespace weft::kernels {
namespace {

template <typename Element>
Element ToElement(float value) {
  if constexpr (std::is_same_v<Element, float>) {
    return value;
  } else {
    return F32ToF16(value);
  }
}

}  // namespace

template <typename Element>
void StoreKv(const KvShape& shape, Element* page, size_t slot, size_t head,
             std::span<const float> k, std::span<const float> v) {
  for (size_t d = 0; d < shape.head_columns; ++d) {
    page[shape.KeyIndex(head, d, slot)] = ToElement<Element>(k[d]);
    if (!shape.values_in_keys()) page[shape.ValueIndex(head, slot, d)] = ToElement<Element>(v[d]);
  }
}

template <typename Element>
void CopyOut(const KvShape& shape, const Element* page, size_t slot, Element* k, Element* v) {
  for (size_t h = 0; h < shape.kv_heads; ++h) {
    for (size_t d = 0; d < shape.head_columns; ++d) {
      k[h * shape.head_columns + d] = page[shape.KeyIndex(h, d, slot)];
    }
    if (shape.values_in_keys()) continue;
    std::copy_n(page + shape.ValueIndex(h, slot, 0), shape.head_columns,
                v + h * shape.head_columns);
  }
}

template <typename Element>
void CopyIn(const KvShape& shape, Element* page, size_t slot, const Element* k, const Element* v) {
  for (size_t h = 0; h < shape.kv_heads; ++h) {
    for (size_t d = 0; d < shape.head_columns; ++d) {
      page[shape.KeyIndex(h, d, slot)] = k[h * shape.head_columns + d];
    }
    if (shape.values_in_keys()) continue;
    std::copy_n(v + h * shape.head_columns, shape.head_columns,
                page + shape.ValueIndex(h, slot, 0));
  }
}

template void StoreKv(const KvShape&, float*, size_t, size_t, std::span<const float>,
                      std::span<const float>);
template void StoreKv(const KvShape&, uint16_t*, size_t, size_t, std::span<const float>,
                      std::span<const float>);
template void CopyOut(const KvShape&, const float*, size_t, float*, float*);
template void CopyOut(const KvShape&, const uint16_t*, size_t, uint16_t*, uint16_t*);
template void CopyIn(const KvShape&, float*, size_t, const float*, const float*);
template void CopyIn(const KvShape&, uint16_t*, size_t, const uint16_t*, const uint16_t*);

}  // namespace weft::kernels
