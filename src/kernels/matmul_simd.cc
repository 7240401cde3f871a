// Matrix product with vectors. Weights are used as stored, even from a mapped file: q4's nibbles
// come out in steps of eight (a 32-bit lane holds eight weights), so the activations are put in
// that order once per call instead.
//
// out[r][n] = bias[n] + sum_k in[r][k] * w[n][k]. Decoding has one row and reads every weight once:
// it is as fast as memory, so a weight is used as it is stored and turned into f32 in registers. A
// prompt has many rows: a tile then loads a weight once for up to kMaxTileRows of them.
//
// q8: a block of 32 weights w = scale * (q - 128) is summed without its scale, which is applied
// once a block: sum += scale * sum_i (q_i - 128) * x_i. q4 does so with four blocks at a time.
//
// One tile computes kRows x kColumns outputs; each output has its own accumulators and the same
// sequence of operations in every tile shape, which is what makes a row's bits independent of the
// batch.
#include "kernels/matmul.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/panel_matmul.h"
#include "kernels/read_ahead.h"
#include "kernels/simd_targets.h"
#include "kernels/superblock_row.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

// What does not depend on the target is compiled once.
#ifndef WEFT_KERNELS_MATMUL_SIMD_ONCE
#define WEFT_KERNELS_MATMUL_SIMD_ONCE
namespace weft::kernels {
namespace {

inline constexpr size_t kRowUnit = 16;       // f32, f16 and bf16 rows are read 16 values at a time
inline constexpr size_t kQ8Unit = 32;        // q8 rows are read in whole blocks
inline constexpr size_t kGroupValues = 128;  // q4 activations are reordered in groups of 4 blocks
inline constexpr size_t kFewCalls = 16;      // products of a region that need no memory

size_t RoundUp(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The activations of a call as the tiles read them: rows of whole groups, zero past K.
struct Prepared {
  const float* rows = nullptr;
  size_t stride = 0;
  std::span<const uint32_t> picked;  // as MatMulArgs has it

  const float* Row(size_t r) const { return rows + (picked.empty() ? r : picked[r]) * stride; }
};

// One call with its place among the region's tasks.
struct Call {
  MatMulArgs args;
  const float* all = nullptr;  // the rows of args.in, prepared
  Prepared in;
  float* copies = nullptr;  // of some of `all`, which `in` are then
  size_t step = 0;          // output columns of a task; of panels: panels
  size_t row_step = 0;      // rows of a task
  size_t first_task = 0;
  size_t column_tasks = 0;  // of the same rows
  size_t task_count = 0;

  bool is_panels() const { return args.weight.panels != nullptr; }
};

PanelProduct ProductOf(const Call& call) {
  const MatMulArgs& args = call.args;
  return {reinterpret_cast<const IntegerInput*>(call.in.rows), args.out.rows, args.weight,
          args.bias.empty() ? nullptr : args.bias.data(),      args.out.data, args.out.stride};
}

// Weight j of lane l in a group is weight 8 l + j of the row: see Q4Tile.
void ReorderForQ4(std::span<const float> in, float* out) {
  for (size_t first = 0; first < in.size(); first += kGroupValues) {
    const size_t count = std::min(kGroupValues, in.size() - first);
    if (count < kGroupValues) std::fill_n(out + first, kGroupValues, 0.0f);
    for (size_t i = 0; i < count; ++i) out[first + (i % 8) * 16 + i / 8] = in[first + i];
  }
}

// Weights that are not panels: one output after another.
void StoredSuperblockColumns(const Call& call, size_t first, size_t end) {
  const MatMulArgs& args = call.args;
  SuperblockRow weights(args.weight);
  const auto* in = reinterpret_cast<const IntegerInput*>(call.in.rows);
  for (size_t n = first; n < end; ++n) {
    weights.Read(n);
    for (size_t r = 0; r < args.out.rows; ++r) {
      const float y = weights.Dot(in + r * weights.count());
      args.out.Row(r)[n] = args.bias.empty() ? y : y + args.bias[n];
    }
  }
}

void CopyPadded(std::span<const float> in, float* out, size_t padded_count) {
  std::copy(in.begin(), in.end(), out);
  std::fill(out + in.size(), out + padded_count, 0.0f);
}

}  // namespace
}  // namespace weft::kernels
#endif  // WEFT_KERNELS_MATMUL_SIMD_ONCE

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

// Registers decide how many rows share a loaded weight.
inline constexpr size_t kMaxTileRows = kWidth == 16 ? 8 : 4;
// One column is one stream (read_ahead.h).
constexpr size_t TileColumns(size_t rows, bool one_stream) {
  if (one_stream) return 1;
  if (kWidth < 16) return rows > 2 ? 1 : 2;
  return rows > 2 ? 2 : 4;
}

inline constexpr size_t kChunkBlocks = 128;  // scales converted at a time

// Where a tile reads and writes. Rows and columns beyond what a call has repeat the last one and
// are not stored.
template <size_t kRows, size_t kColumns, bool kHints>
struct Tile {
  const MatMulArgs* args;
  const float* x[kRows];
  size_t column[kColumns];
  size_t first_row, row_count, column_count;

  HWY_INLINE void Store(const Lanes (&sum)[kRows][kColumns]) const {
    for (size_t r = 0; r < row_count; ++r) {
      float* out = args->out.data + (first_row + r) * args->out.stride;
      for (size_t c = 0; c < column_count; ++c) {
        const size_t n = column[c];
        out[n] = SumOf(sum[r][c]) + (args->bias.empty() ? 0.0f : args->bias[n]);
      }
    }
  }
};

// Rows of a weight are too short for the processor to notice a stream: ask for what lies
// kPrefetchBytes further on. The tiles that follow need all of it, as rows lie behind each other.
// Past the end of the weight this hint does nothing.
inline constexpr size_t kPrefetchBytes = 6144;  // measured: 2 KiB is too late, 12 KiB no better
template <size_t kDistance = kPrefetchBytes>
HWY_INLINE void PrefetchAhead(const void* at) {
  // As a number: the address may lie outside the object.
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(at) + kDistance), 0,
                     3);
}

// f32, f16, bf16: T is float, Half or BHalf.
template <typename T>
struct PlainFormat {
  template <size_t kRows, size_t kColumns, bool kHints>
  static HWY_INLINE void Run(const Tile<kRows, kColumns, kHints>& tile) {
    const size_t k_count = tile.args->weight.columns;
    const T* w[kColumns];
    Lanes sum[kRows][kColumns];
    HWY_UNROLL(16)
    for (size_t c = 0; c < kColumns; ++c) {
      w[c] = reinterpret_cast<const T*>(tile.args->weight.DataRow(tile.column[c]));
      HWY_UNROLL(16)
      for (size_t r = 0; r < kRows; ++r) sum[r][c] = Splat(0);
    }
    const size_t whole = k_count / kLanes * kLanes;
    for (size_t k = 0; k < whole; k += kLanes) {
      const T* at[kColumns];
      HWY_UNROLL(16)
      for (size_t c = 0; c < kColumns; ++c) {
        at[c] = w[c] + k;
        if constexpr (kHints) PrefetchAhead(at[c]);
      }
      Step(tile, at, k, sum);
    }
    if (whole < k_count) {  // the row's end, zero-padded
      alignas(64) T padded[kColumns][kLanes] = {};
      const T* at[kColumns];
      for (size_t c = 0; c < kColumns; ++c) {
        std::memcpy(padded[c], w[c] + whole, (k_count - whole) * sizeof(T));
        at[c] = padded[c];
      }
      Step(tile, at, whole, sum);
    }
    tile.Store(sum);
  }

 private:
  template <size_t kRows, size_t kColumns, bool kHints>
  static HWY_INLINE void Step(const Tile<kRows, kColumns, kHints>& tile,
                              const T* const (&at)[kColumns], size_t k,
                              Lanes (&sum)[kRows][kColumns]) {
    Lanes weight[kColumns];
    HWY_UNROLL(16)
    for (size_t c = 0; c < kColumns; ++c) weight[c] = LoadWiden(at[c]);
    HWY_UNROLL(16)
    for (size_t r = 0; r < kRows; ++r) {
      const Lanes x = LoadLanes(tile.x[r] + k);
      HWY_UNROLL(16)
      for (size_t c = 0; c < kColumns; ++c) sum[r][c] = MulAdd(weight[c], x, sum[r][c]);
    }
  }
};

// `count` f16 values as f32; zeros up to a whole number of lanes.
HWY_INLINE void WidenF16(const uint16_t* from, size_t count, float* to) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    StoreLanes(LoadWiden(reinterpret_cast<const Half*>(from + i)), to + i);
  }
  if (i < count) {
    Half padded[kLanes] = {};
    std::memcpy(padded, from + i, (count - i) * sizeof(uint16_t));
    StoreLanes(LoadWiden(padded), to + i);
  }
}

// The scales of `count` blocks of a row as f32. They are asked for as far ahead as the data: a
// block has 2 bytes of scale to 16 or 32 bytes of data.
template <size_t kDataBytes>
HWY_INLINE void LoadScales(const Matrix& weight, size_t row, size_t first, size_t count,
                           float* to) {
  const uint16_t* from = weight.ScaleRow(row) + first;
  for (size_t i = 0; i < count; i += 32) {
    PrefetchAhead<2 * kPrefetchBytes / kDataBytes>(from + i);
  }
  WidenF16(from, count, to);
}

// 16 unsigned bytes - 128, as f32.
HWY_INLINE Lanes LoadQ8(const uint8_t* from) {
  const hn::Rebind<uint8_t, DF> d8;
  const hn::Rebind<int32_t, DF> d32;
  return MakeLanes([&](size_t p) HWY_ATTR {
    const auto q = hn::PromoteTo(d32, hn::LoadU(d8, from + p * kWidth));
    return hn::ConvertTo(df, hn::Sub(q, hn::Set(d32, 128)));
  });
}

struct Q8Format {
  template <size_t kRows, size_t kColumns, bool kHints>
  static HWY_INLINE void Run(const Tile<kRows, kColumns, kHints>& tile) {
    const Matrix& weight = tile.args->weight;
    const size_t blocks = weight.blocks();
    Lanes sum[kRows][kColumns];
    HWY_UNROLL(16)
    for (size_t c = 0; c < kColumns; ++c) {
      HWY_UNROLL(16)
      for (size_t r = 0; r < kRows; ++r) sum[r][c] = Splat(0);
    }
    alignas(64) float scale[kColumns][kChunkBlocks];
    for (size_t first = 0; first < blocks; first += kChunkBlocks) {
      const size_t count = std::min(kChunkBlocks, blocks - first);
      const uint8_t* w[kColumns];
      HWY_UNROLL(16)
      for (size_t c = 0; c < kColumns; ++c) {
        LoadScales<32>(weight, tile.column[c], first, count, scale[c]);
        w[c] = weight.DataRow(tile.column[c]) + first * 32;
      }
      for (size_t b = 0; b < count; ++b) {
        HWY_UNROLL(16)
        for (size_t c = 0; c < kColumns; ++c) {
          if constexpr (kHints) PrefetchAhead(w[c] + b * 32);
          const Lanes low = LoadQ8(w[c] + b * 32);
          const Lanes high = LoadQ8(w[c] + b * 32 + 16);
          const Lanes s = Splat(scale[c][b]);
          HWY_UNROLL(16)
          for (size_t r = 0; r < kRows; ++r) {
            const float* x = tile.x[r] + (first + b) * 32;
            const Lanes block = MulAdd(high, LoadLanes(x + 16), Mul(low, LoadLanes(x)));
            sum[r][c] = MulAdd(block, s, sum[r][c]);
          }
        }
      }
    }
    tile.Store(sum);
  }
};

// A group is four blocks of a row: 64 bytes, sixteen 32-bit lanes, lane l holds weights 8 l .. 8 l
// + 7, four bits each. Shifting all lanes by 4 j brings weight j of each lane to the bottom; `x`
// was reordered to match.
template <bool kHasZero>
struct Q4Format {
  using DU = hn::Rebind<uint32_t, DF>;
  struct Nibbles {
    hn::Vec<DU> part[kParts];
  };

  // The value of nibble kJ of each lane, minus 8 unless the zero points come separately.
  template <int kJ>
  static HWY_INLINE Lanes Take(const Nibbles& nibbles, const Lanes& table) {
    return MakeLanes([&](size_t p) HWY_ATTR {
#if HWY_TARGET == HWY_AVX3
      // The permutation looks at the low four bits only: one instruction masks, converts and
      // subtracts.
      const auto shifted = hn::ShiftRight<4 * kJ>(nibbles.part[p]);
      return VF{_mm512_permutexvar_ps(shifted.raw, table.part[p].raw)};
#else
      (void)table;
      const DU du;
      const hn::Rebind<int32_t, DF> di;
      const auto q = hn::And(hn::ShiftRight<4 * kJ>(nibbles.part[p]), hn::Set(du, 15));
      const auto signed_q = hn::BitCast(di, q);
      return hn::ConvertTo(df, kHasZero ? signed_q : hn::Sub(signed_q, hn::Set(di, 8)));
#endif
    });
  }

  static HWY_INLINE Nibbles LoadNibbles(const uint8_t* from) {
    const hn::Repartition<uint8_t, DU> d8;
    Nibbles result;
    HWY_UNROLL(16)
    for (size_t p = 0; p < kParts; ++p) {
      result.part[p] = hn::BitCast(DU(), hn::LoadU(d8, from + p * kWidth * 4));
    }
    return result;
  }

  // Four values, one a block, each in the four lanes of its block.
  static HWY_INLINE Lanes SpreadBlocks(const float* four) {
    return MakeLanes([&](size_t p) HWY_ATTR {
      alignas(64) static constexpr int32_t kBlockOfLane[kLanes] = {0, 0, 0, 0, 1, 1, 1, 1,
                                                                   2, 2, 2, 2, 3, 3, 3, 3};
      return hn::TableLookupLanes(hn::LoadDup128(df, four),
                                  hn::SetTableIndices(df, kBlockOfLane + p * kWidth));
    });
  }

  template <int kJ, size_t kRows, size_t kColumns, bool kHints>
  static HWY_INLINE void Accumulate(const Tile<kRows, kColumns, kHints>& tile, size_t k,
                                    const Nibbles (&nibbles)[kColumns], const Lanes& table,
                                    const Lanes (&zero)[kColumns],
                                    Lanes (&group)[kRows][kColumns]) {
    Lanes weight[kColumns];
    HWY_UNROLL(16)
    for (size_t c = 0; c < kColumns; ++c) {
      weight[c] = Take<kJ>(nibbles[c], table);
      if constexpr (kHasZero) weight[c] = Sub(weight[c], zero[c]);
    }
    HWY_UNROLL(16)
    for (size_t r = 0; r < kRows; ++r) {
      const Lanes x = LoadLanes(tile.x[r] + k + kJ * kLanes);
      HWY_UNROLL(16)
      for (size_t c = 0; c < kColumns; ++c) {
        group[r][c] = kJ == 0 ? Mul(weight[c], x) : MulAdd(weight[c], x, group[r][c]);
      }
    }
  }

  // One group of each column: its nibbles lie `byte` bytes behind `data`, its four scales and zero
  // points `block` values behind `scale` and `zero`, its activations at `k`.
  template <size_t kRows, size_t kColumns, bool kHints>
  static HWY_INLINE void Group(const Tile<kRows, kColumns, kHints>& tile, size_t k, size_t byte,
                               size_t block, const uint8_t* const (&data)[kColumns],
                               const float (&scale)[kColumns][kChunkBlocks],
                               const float (&zero)[kColumns][kHasZero ? kChunkBlocks : 4],
                               const Lanes& table, Lanes (&sum)[kRows][kColumns]) {
    Nibbles nibbles[kColumns];
    Lanes zeros[kColumns];
    Lanes group[kRows][kColumns];
    HWY_UNROLL(16)
    for (size_t c = 0; c < kColumns; ++c) {
      PrefetchAhead(data[c] + byte);
      nibbles[c] = LoadNibbles(data[c] + byte);
      if constexpr (kHasZero) zeros[c] = SpreadBlocks(zero[c] + block);
    }
    Accumulate<0>(tile, k, nibbles, table, zeros, group);
    Accumulate<1>(tile, k, nibbles, table, zeros, group);
    Accumulate<2>(tile, k, nibbles, table, zeros, group);
    Accumulate<3>(tile, k, nibbles, table, zeros, group);
    Accumulate<4>(tile, k, nibbles, table, zeros, group);
    Accumulate<5>(tile, k, nibbles, table, zeros, group);
    Accumulate<6>(tile, k, nibbles, table, zeros, group);
    Accumulate<7>(tile, k, nibbles, table, zeros, group);
    HWY_UNROLL(16)
    for (size_t c = 0; c < kColumns; ++c) {
      const Lanes scales = SpreadBlocks(scale[c] + block);
      HWY_UNROLL(16)
      for (size_t r = 0; r < kRows; ++r) sum[r][c] = MulAdd(group[r][c], scales, sum[r][c]);
    }
  }

  static void WidenZeros(const uint8_t* row, size_t first, size_t count, float* to) {
    for (size_t b = 0; b < count; ++b) {
      const size_t block = first + b;
      to[b] = static_cast<float>((row[block / 2] >> (block % 2 * 4)) & 15);
    }
    for (size_t b = count; b % 4 != 0; ++b) to[b] = 0;
  }

  static HWY_INLINE Lanes Table() {
    alignas(64) static constexpr float kValues[2][kLanes] = {
        {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7},
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
    return LoadLanes(kValues[kHasZero ? 1 : 0]);
  }

  template <size_t kRows, size_t kColumns, bool kHints>
  static HWY_INLINE void Run(const Tile<kRows, kColumns, kHints>& tile) {
    const Matrix& weight = tile.args->weight;
    const size_t blocks = weight.blocks();
    const Lanes table = Table();
    Lanes sum[kRows][kColumns];
    HWY_UNROLL(16)
    for (size_t c = 0; c < kColumns; ++c) {
      HWY_UNROLL(16)
      for (size_t r = 0; r < kRows; ++r) sum[r][c] = Splat(0);
    }
    alignas(64) float scale[kColumns][kChunkBlocks];
    alignas(64) float zero[kColumns][kHasZero ? kChunkBlocks : 4];
    for (size_t first = 0; first < blocks; first += kChunkBlocks) {
      const size_t count = std::min(kChunkBlocks, blocks - first);
      const uint8_t* data[kColumns];
      for (size_t c = 0; c < kColumns; ++c) {
        data[c] = weight.data + (tile.column[c] * blocks + first) * 16;
        LoadScales<16>(weight, tile.column[c], first, count, scale[c]);
        if constexpr (kHasZero) WidenZeros(weight.ZeroRow(tile.column[c]), first, count, zero[c]);
      }
      size_t b = 0;
      for (; b + 4 <= count; b += 4) {
        Group(tile, (first + b) * 32, b * 16, b, data, scale, zero, table, sum);
      }
      if (b < count) {  // the row's last one to three blocks, zero-padded
        alignas(64) uint8_t padded[kColumns][64] = {};
        for (size_t c = 0; c < kColumns; ++c) {
          std::memcpy(padded[c], data[c] + b * 16, (count - b) * 16);
          data[c] = padded[c];
        }
        Group(tile, (first + b) * 32, 0, b, data, scale, zero, table, sum);
      }
    }
    tile.Store(sum);
  }
};

// Columns [first, end) of rows [first_row, first_row + row_count), row_count <= kRows.
template <typename Format, size_t kRows, ReadAhead kAhead = ReadAhead::kSideBySide>
HWY_NOINLINE void RunTiles(const Call& call, size_t first, size_t end, size_t first_row,
                           size_t row_count) {
  constexpr size_t kColumns = TileColumns(kRows, kAhead != ReadAhead::kSideBySide);
  Tile<kRows, kColumns, kAhead != ReadAhead::kOneStream> tile;
  tile.args = &call.args;
  tile.first_row = first_row;
  tile.row_count = row_count;
  for (size_t r = 0; r < kRows; ++r) {
    tile.x[r] = call.in.Row(first_row + std::min(r, row_count - 1));
  }
  for (size_t n = first; n < end; n += kColumns) {
    tile.column_count = std::min(kColumns, end - n);
    for (size_t c = 0; c < kColumns; ++c) tile.column[c] = n + std::min(c, tile.column_count - 1);
    Format::Run(tile);
  }
}

template <typename Format>
HWY_INLINE void RunColumns(const Call& call, size_t first, size_t end) {
  const size_t rows = call.args.out.rows;
  for (size_t r = 0; r < rows;) {
    const size_t count = std::min(kMaxTileRows, rows - r);
    if (count > 4) {
      RunTiles<Format, kMaxTileRows>(call, first, end, r, count);
    } else if (count > 2) {
      RunTiles<Format, 4>(call, first, end, r, count);
    } else if (count == 2) {
      RunTiles<Format, 2>(call, first, end, r, count);
    } else if (const ReadAhead ahead = ReadAheadOfOneRow(); ahead == ReadAhead::kOneStream) {
      RunTiles<Format, 1, ReadAhead::kOneStream>(call, first, end, r, count);
    } else if (ahead == ReadAhead::kHintedStream) {
      RunTiles<Format, 1, ReadAhead::kHintedStream>(call, first, end, r, count);
    } else {
      RunTiles<Format, 1>(call, first, end, r, count);
    }
    r += count;
  }
}

void MatMulColumns(const Call& call, size_t first, size_t end) {
  switch (call.args.weight.dtype) {
    case DType::kF32:
      return RunColumns<PlainFormat<float>>(call, first, end);
    case DType::kF16:
      return RunColumns<PlainFormat<Half>>(call, first, end);
    case DType::kBF16:
      return RunColumns<PlainFormat<BHalf>>(call, first, end);
    case DType::kQ8:
      return RunColumns<Q8Format>(call, first, end);
    case DType::kQ4S:
    case DType::kQ4K:
    case DType::kQ5K:
    case DType::kQ6K:
      return StoredSuperblockColumns(call, first, end);
    case DType::kQ4:
      if (call.args.weight.zero != nullptr) return RunColumns<Q4Format<true>>(call, first, end);
      return RunColumns<Q4Format<false>>(call, first, end);
    default:
      CHECK(false, "matmul takes floats and block formats");
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {
namespace {

HWY_EXPORT(MatMulColumns);

// How the tiles of a format read a row of activations.
enum class Reading {
  kInPlace,    // where it lies: it ends on a whole number of what the format reads at once
  kPadded,     // a copy with zeros past K
  kReordered,  // a copy in the order of q4's nibbles (ReorderForQ4)
  kIntegers,   // whole numbers (IntegerInput), which superblocks multiply
};

Reading ReadingOf(const MatMulArgs& args) {
  if (args.weight.dtype == DType::kQ4) return Reading::kReordered;
  if (IsSuperblockFormat(args.weight.dtype)) return Reading::kIntegers;
  const size_t unit = args.weight.dtype == DType::kQ8 ? kQ8Unit : kRowUnit;
  return args.in.columns % unit == 0 ? Reading::kInPlace : Reading::kPadded;
}

// Whether a copy made for one product serves the other. A product that reads in place has none:
// f16 reads 48 columns where they are, q8 beside it needs them padded to 64.
bool SameCopy(const MatMulArgs& a, const MatMulArgs& b) {
  return a.in.data == b.in.data && a.in.rows == b.in.rows && a.in.columns == b.in.columns &&
         a.in.stride == b.in.stride && ReadingOf(a) == ReadingOf(b);
}

// Floats of a prepared row.
size_t StrideOf(const MatMulArgs& args) {
  return ReadingOf(args) == Reading::kIntegers ? IntegerInputFloats(args.in.columns)
                                               : RoundUp(args.in.columns, kGroupValues);
}

void PrepareRows(const MatMulArgs& args, float* out, size_t stride, Workspace& workspace) {
  ForRows(args.in.rows, workspace, [&](size_t row) {
    if (IsSuperblockFormat(args.weight.dtype)) {
      UsedPanelKernel().prepare(args.in.Row(row),
                                reinterpret_cast<IntegerInput*>(out + row * stride));
    } else if (args.weight.dtype == DType::kQ4) {
      ReorderForQ4(args.in.Row(row), out + row * stride);
    } else {
      CopyPadded(args.in.Row(row), out + row * stride, stride);
    }
  });
}

// Whether rows are picked that do not lie behind each other. Kernels of panels read them as one
// block; tiles find each for itself.
bool Gathers(const MatMulArgs& args) {
  if (ReadingOf(args) != Reading::kIntegers) return false;
  for (size_t r = 1; r < args.picked.size(); ++r)
    if (args.picked[r] != args.picked[0] + r) return true;
  return false;
}

void GatherRows(const Call& call) {
  const size_t stride = call.in.stride;
  for (size_t r = 0; r < call.args.out.rows; ++r)
    std::copy_n(call.all + call.args.picked[r] * stride, stride, call.copies + r * stride);
}

// Fills Call::in of all calls; calls with the same input share one copy.
void PrepareInputs(std::span<Call> calls, Workspace& workspace) {
  const auto shares = [&](size_t i) { return i > 0 && SameCopy(calls[i].args, calls[i - 1].args); };
  size_t float_count = 0;
  bool gathers = false;
  for (size_t i = 0; i < calls.size(); ++i) {
    const MatMulArgs& args = calls[i].args;
    const size_t stride = StrideOf(args);
    if (ReadingOf(args) != Reading::kInPlace && !shares(i)) float_count += args.in.rows * stride;
    if (!Gathers(args)) continue;
    gathers = true;
    float_count += args.out.rows * stride;
  }
  float* free = workspace.Shared(Workspace::kMatMulInput, float_count);
  for (size_t i = 0; i < calls.size(); ++i) {
    const MatMulArgs& args = calls[i].args;
    if (ReadingOf(args) == Reading::kInPlace) {
      calls[i].in = {args.in.data, args.in.stride, args.picked};
      continue;
    }
    if (shares(i)) {
      calls[i].all = calls[i - 1].all;
    } else {
      PrepareRows(args, free, StrideOf(args), workspace);
      calls[i].all = free;
      free += args.in.rows * StrideOf(args);
    }
    calls[i].in = {calls[i].all, StrideOf(args), args.picked};
    if (ReadingOf(args) != Reading::kIntegers || args.picked.empty()) continue;
    calls[i].in = {calls[i].all + args.picked[0] * StrideOf(args), StrideOf(args), {}};
    if (!Gathers(args)) continue;
    calls[i].copies = free;
    calls[i].in.rows = free;
    free += args.out.rows * StrideOf(args);
  }
  if (!gathers) return;
  workspace.threads().Run(calls.size(), [&](size_t i, size_t) {
    if (calls[i].copies != nullptr) GatherRows(calls[i]);
  });
}

// Rows of one task with panels. A thread's tasks are of the same rows for as long as possible, so
// these stay in its second cache. A prompt of 512 rows of 38 superblocks has 13.7 MB, which each of
// 16 threads would read again for every few panels: with AMX that took 2.1 times as long.
size_t RowsPerTask(const PanelProduct& product) {
  constexpr size_t kTaskBytes = size_t{1} << 20;
  constexpr size_t kMostRows = 96;  // of a pass of the kernels
  constexpr size_t kTileRows = 16;
  const size_t row_bytes = product.superblocks() * sizeof(IntegerInput);
  const size_t most = std::clamp(kTaskBytes / row_bytes, 2 * kTileRows, kMostRows);
  const size_t tasks = std::max<size_t>(1, RoundUp(product.rows, most) / most);
  return std::max(kTileRows, RoundUp(RoundUp(product.rows, tasks) / tasks, kTileRows));
}

// Output columns of one task. Tasks are handed out as threads become free, so about eight a thread
// even out threads of unequal speed; below 16 columns handing out costs more than that saves.
size_t ColumnsPerTask(size_t all_columns, size_t thread_count) {
  return std::clamp<size_t>(RoundUp(all_columns / (thread_count * 8), 4), 16, 64);
}

// Tasks of a call from `first_task` on: all columns of the first rows, then those of the next.
void PlanTasks(Call& call, size_t columns, size_t first_task) {
  const size_t rows = call.args.out.rows;
  size_t all = call.args.out.columns;
  call.step = columns;
  call.row_step = std::max<size_t>(rows, 1);
  if (call.is_panels()) {
    const PanelProduct product = ProductOf(call);
    all = product.end_panel() - product.first_panel();
    call.step = RoundUp(columns, kPanelOutputs) / kPanelOutputs;
    call.row_step = RowsPerTask(product);
  }
  call.first_task = first_task;
  call.column_tasks = RoundUp(all, call.step) / call.step;
  call.task_count = RoundUp(rows, call.row_step) / call.row_step * call.column_tasks;
}

void RunPanels(const Call& call, size_t task) {
  const PanelProduct product = ProductOf(call);
  const size_t row = task / call.column_tasks * call.row_step;
  const size_t first = product.first_panel() + task % call.column_tasks * call.step;
  UsedPanelKernel().run(product.Rows(row, std::min(call.row_step, product.rows - row)), first,
                        std::min(first + call.step, product.end_panel()));
}

void RunCalls(std::span<const MatMulArgs> calls, Workspace& workspace) {
  std::array<Call, kFewCalls> few;
  std::vector<Call> many(calls.size() > few.size() ? calls.size() : 0);
  const std::span<Call> used = many.empty() ? std::span<Call>(few).first(calls.size()) : many;
  size_t all_columns = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    CHECK(calls[i].Fits());
    used[i].args = calls[i];
    all_columns += calls[i].out.columns;
  }
  PrepareInputs(used, workspace);
  const size_t step = ColumnsPerTask(all_columns, workspace.threads().thread_count());
  size_t task_count = 0;
  for (Call& call : used) {
    PlanTasks(call, step, task_count);
    task_count += call.task_count;
  }
  workspace.threads().Run(task_count, [&](size_t task, size_t) {
    // The last call that begins there: one without tasks begins where the next one does.
    const auto behind = std::ranges::upper_bound(used, task, {}, &Call::first_task);
    const Call& call = *std::prev(behind);
    if (call.is_panels()) return RunPanels(call, task - call.first_task);
    const size_t first = (task - call.first_task) * call.step;
    HWY_DYNAMIC_DISPATCH(MatMulColumns)
    (call, first, std::min(first + call.step, call.args.out.columns));
  });
}

}  // namespace

void MatMulsSimd(std::span<const MatMulArgs> calls, Workspace& workspace) {
  if (!calls.empty()) RunCalls(calls, workspace);
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
