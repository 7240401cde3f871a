// q4s with AMX, from 8 rows on: tiles of 16 rows and 16 outputs (amx-inl.h). Fewer rows, and forms
// whose weights are no bytes, are multiplied with AVX-512 VNNI.
#include "kernels/panel_x86.h"
#include "kernels/q4s_panels.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include <cstring>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace weft::kernels {
namespace {

// Tiles are 8 KiB of state a thread, which the kernel keeps for who asks only. All threads of the
// process have the permission then.
bool IsAllowedTiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

bool HasAmx() {
  static const bool has_amx = [] {
    constexpr unsigned kTileBits = 1u << 24 | 1u << 25;  // AMX-TILE, AMX-INT8
    unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
    return HasVnni512() && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 &&
           (edx & kTileBits) == kTileBits && IsAllowedTiles();
  }();
  return has_amx;
}

WEFT_BEGIN_TARGET("amx-tile,amx-int8,avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c");

namespace {

#include "kernels/registers_512-inl.h"

constexpr int kByteZero = 0;

#include "kernels/q4s_parts-inl.h"
// Behind what it needs.
#include "kernels/q4s_bytes-inl.h"

struct alignas(64) TileSums {
  int32_t high[16][16];
  int32_t low[16][16];
};

// What ldtilecfg reads.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// Registers: 0 and 1 are A, high and low; 2 is B; 3 and 4 are C, high and low.
class Tiles {
 public:
  void Begin(size_t rows) {
    TileConfig config;
    for (const size_t tile : {0, 1, 2, 3, 4}) {
      config.row_bytes[tile] = 64;
      config.rows[tile] = static_cast<uint8_t>(tile == 2 ? 16 : rows);
    }
    _tile_loadconfig(&config);
  }
  void End() { _tile_release(); }
  void Clear() {
    // The compiler need not know that loads of tiles read what was stored before.
    __asm__ volatile("" ::: "memory");
    _tile_zero(3);
    _tile_zero(4);
  }
  void Multiply(const int8_t* high, const int8_t* low, size_t stride_bytes, const uint8_t* b) {
    _tile_loadd(2, b, 64);
    _tile_loadd(0, high, stride_bytes);
    _tile_loadd(1, low, stride_bytes);
    _tile_dpbssd(3, 0, 2);
    _tile_dpbssd(4, 1, 2);
  }
  void Store(TileSums* sums) {
    _tile_stored(3, sums->high, 64);
    _tile_stored(4, sums->low, 64);
    __asm__ volatile("" ::: "memory");
  }
};

void AddTileSums(const TileSums& sums, const PanelPart& part, const IntegerInput* in, size_t stride,
                 size_t rows, float (*y)[kPanelOutputs]) {
  const Floats scales = ScalesOf(part, 0);
  for (size_t r = 0; r < rows; ++r) {
    const Ints high = LoadInts(reinterpret_cast<const uint8_t*>(sums.high[r]));
    const Ints low = LoadInts(reinterpret_cast<const uint8_t*>(sums.low[r]));
    const Ints sum = AddInts(ShiftLeft(high, 8), low);
    StoreFloats(y[r], AddScaled(sum, scales, in[r * stride].scale, LoadFloats(y[r])));
  }
}

#include "kernels/amx-inl.h"

}  // namespace

void RunAmx(const PanelProduct& product, size_t first, size_t end) {
  const size_t done = IsKQuant(product.weight.dtype) ? 0 : RunTiles(product, first, end);
  if (done == product.rows) return;
  RunVnni512(product.Rows(done, product.rows - done), first, end);
}

WEFT_END_TARGET;

}  // namespace weft::kernels

#endif  // __x86_64__
