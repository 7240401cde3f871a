#include "convert/weights/row_converter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <thread>

#include "tensor/blocks.h"
#include "tensor/mxfp4.h"

namespace weft::convert {
namespace {

// A value that has no place in the target dtype.
struct Misfit {
  uint64_t row = 0;
  uint64_t column = 0;
  float value = 0;
};

// Above these magnitudes a value, or the scale of its block, overflows f16.
float Limit(DType to) {
  switch (to) {
    case DType::kF16:
      return 65504.0f;
    case DType::kQ8:
      return 65504.0f * 127;
    case DType::kQ4:
      return 65504.0f * 6;  // the smallest divisor that the scale search tries
    case DType::kQ4S:
      return 65504.0f * 60;  // kLargestX / kMostUnit of the search
    case DType::kQ6K:
      return 65504.0f * (127 * 28);  // kMostMultiplier * kNearLevel of the search, rounded down
    default:
      return std::numeric_limits<float>::max();
  }
}

// Magnitudes as bit patterns are ordered like the numbers, with infinities and NaNs above all: one
// integer maximum, which vectorises, decides for a row.
std::optional<uint64_t> FirstMisfit(std::span<const float> values, float limit) {
  const auto magnitude = [](float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffu; };
  const uint32_t most = std::bit_cast<uint32_t>(limit);
  uint32_t largest = 0;
  for (const float x : values) largest = std::max(largest, magnitude(x));
  if (largest <= most) return std::nullopt;
  for (uint64_t i = 0; i < values.size(); ++i) {
    if (magnitude(values[i]) > most) return i;
  }
  return std::nullopt;
}

struct Job {
  SourceRows in;
  DType to;
  TargetRows out;
};

// Where row `row` lies in the tensor.
uint64_t PlaceOf(const SourceRows& in, uint64_t row) {
  if (in.interleaved_rows == 0) return row;
  const uint64_t head = row / in.interleaved_rows * in.interleaved_rows;
  const uint64_t within = row - head, half = in.interleaved_rows / 2;
  return head + (within < half ? 2 * within : 2 * (within - half) + 1);
}

// Reads rows of a job.
class RowReader {
 public:
  explicit RowReader(const SourceRows& in) : in_(in) {}

  // Row `row` of the job as bytes of its format. REQUIRES: not transposed, no separate exponents.
  const uint8_t* Bytes(uint64_t row) const {
    return in_.data + Place(row) * RowBytes(in_.format, in_.columns);
  }

  // The same of a MXFP4 tensor, wherever its exponents lie.
  Mxfp4Blocks Blocks(uint64_t row) const {
    if (in_.exponents == nullptr) {
      const auto stride = static_cast<size_t>(BlockBytes(RowFormat::kMxfp4));
      return {Bytes(row) + 1, stride, Bytes(row), stride, Mxfp4Order::kHalves};
    }
    const uint64_t first = Place(row) * (in_.columns / kBlockValues);
    return {in_.data + first * kMxfp4Bytes, kMxfp4Bytes, in_.exponents + first, 1,
            Mxfp4Order::kPairs};
  }

  void Values(uint64_t row, std::span<float> values) const {
    if (in_.coded != nullptr) {
      CodedValues(row, values);
    } else if (in_.transposed_rows > 0) {
      const uint64_t bytes = RowBytes(in_.format, 1);
      const uint8_t* from = in_.data + (in_.first_row + row * in_.row_step) * bytes;
      for (float& value : values) {
        ReadRow(in_.format, from, {&value, 1});
        from += in_.transposed_rows * bytes;
      }
    } else if (in_.format == RowFormat::kMxfp4) {
      Mxfp4ToF32(Blocks(row), values);
    } else {
      ReadRow(in_.format, Bytes(row), values);
    }
    if (in_.minus_exp) {
      for (float& value : values) value = -std::exp(value);
    }
    if (in_.offset != 0) {
      for (float& value : values) value += in_.offset;
    }
    if (in_.factor == 1) return;
    for (float& value : values) value *= in_.factor;
  }

  // REQUIRES: a coded format that is exact in `to`.
  void Repack(uint64_t row, DType to, MutableByteSpan data, std::span<uint16_t> scales,
              MutableByteSpan zeros) const {
    if (in_.coded != nullptr) return in_.coded->Repack(Place(row), to, data, scales, zeros);
    RepackRow(in_.format, Bytes(row), in_.columns, to, data, scales);
    std::fill(zeros.begin(), zeros.end(), uint8_t{0x88});
  }

 private:
  uint64_t Place(uint64_t row) const { return PlaceOf(in_, in_.first_row + row * in_.row_step); }

  void CodedValues(uint64_t row, std::span<float> values) const {
    if (in_.transposed_rows == 0) return in_.coded->Values(Place(row), 0, values);
    const uint64_t column = in_.first_row + row * in_.row_step;
    for (size_t i = 0; i < values.size(); ++i) {
      in_.coded->Values(in_.matrix_first_row + i, column, values.subspan(i, 1));
    }
  }

  const SourceRows& in_;
};

std::optional<Misfit> ConvertRange(const Job& job, uint64_t first, uint64_t end) {
  const bool needs_zeros = job.in.format == RowFormat::kGroups4Zero && job.to == DType::kQ4;
  const bool exact = IsExact(job.in.format, job.to) && job.in.transposed_rows == 0 &&
                     job.in.offset == 0 && !job.in.minus_exp && job.in.factor == 1 &&
                     (!needs_zeros || !job.out.zero.empty());
  const uint64_t zero_bytes = job.out.zero.empty() ? 0 : RowZeroBytes(job.in.columns);
  const uint64_t data_bytes = RowDataBytes(job.to, job.in.columns);
  const uint64_t scale_bytes = RowScaleBytes(job.to, job.in.columns);
  const float limit = exact ? std::numeric_limits<float>::max() : Limit(job.to);
  const RowReader reader(job.in);
  std::vector<float> values(job.in.columns);
  std::vector<uint16_t> scales(scale_bytes / 2);
  const bool is_mxfp4 = exact && job.in.format == RowFormat::kMxfp4;
  for (uint64_t row = first; row < end; ++row) {
    uint8_t* data = job.out.data.data() + row * data_bytes;
    uint8_t* scale = job.out.scale.data() + row * scale_bytes;
    const MutableByteSpan zeros = job.out.zero.subspan(row * zero_bytes, zero_bytes);
    // The common case: all scales are f16, so that all values are finite.
    if (is_mxfp4 && Mxfp4ToQ8(reader.Blocks(row), data, scales)) {
      std::memcpy(scale, scales.data(), scale_bytes);
      continue;
    }
    reader.Values(row, values);
    if (const auto column = FirstMisfit(values, limit))
      return Misfit{row, *column, values[*column]};
    if (exact && !IsBlockFormat(job.to)) {
      std::memcpy(data, reader.Bytes(row), data_bytes);
    } else if (IsBlockFormat(job.to)) {
      if (is_mxfp4) {
        Mxfp4ToNearestQ8(reader.Blocks(row), {data, data_bytes}, scales);
      } else if (exact) {
        reader.Repack(row, job.to, {data, data_bytes}, scales, zeros);
      } else {
        QuantizeRow(job.to, values, {data, data_bytes}, scales);
        std::fill(zeros.begin(), zeros.end(), uint8_t{0x88});
      }
      std::memcpy(scale, scales.data(), scale_bytes);
    } else {
      FromF32(values, job.to, data);
    }
  }
  return std::nullopt;
}

}  // namespace

uint64_t RowDataBytes(DType dtype, uint64_t columns) {
  if (!IsBlockFormat(dtype)) return columns * static_cast<uint64_t>(ElementBytes(dtype));
  const auto blocks = static_cast<uint64_t>(BlockCount(static_cast<int64_t>(columns)));
  return blocks * static_cast<uint64_t>(BlockDataBytes(dtype));
}

uint64_t RowScaleBytes(DType dtype, uint64_t columns) {
  if (!IsBlockFormat(dtype)) return 0;
  return 2 * static_cast<uint64_t>(ScaleWords(dtype, static_cast<int64_t>(columns)));
}

uint64_t RowZeroBytes(uint64_t columns) {
  return (static_cast<uint64_t>(BlockCount(static_cast<int64_t>(columns))) + 1) / 2;
}

Status ConvertRows(const SourceRows& in, DType to, const TargetRows& out, unsigned threads) {
  const uint64_t rows = in.rows;
  CHECK(out.data.size() == rows * RowDataBytes(to, in.columns) &&
        out.scale.size() == rows * RowScaleBytes(to, in.columns) &&
        (out.zero.empty() || out.zero.size() == rows * RowZeroBytes(in.columns)));
  CHECK(IsCoded(in.format) == (in.coded != nullptr));
  const Job job{in, to, out};
  const uint64_t workers = std::clamp<uint64_t>(threads, 1, rows);
  std::vector<std::optional<Misfit>> misfits(workers);
  std::vector<std::thread> running;
  for (uint64_t w = 1; w < workers; ++w) {
    running.emplace_back(
        [&, w] { misfits[w] = ConvertRange(job, rows * w / workers, rows * (w + 1) / workers); });
  }
  misfits[0] = ConvertRange(job, 0, rows / workers);
  for (std::thread& thread : running) thread.join();
  for (const auto& misfit : misfits) {
    if (!misfit) continue;
    return Error(ErrorCode::kInvalidData,
                 "the value " + std::to_string(misfit->value) + " in row " +
                     std::to_string(in.first_row + misfit->row * in.row_step) + ", column " +
                     std::to_string(misfit->column) + " cannot be stored as " +
                     std::string(DTypeName(to)) +
                     (std::isfinite(misfit->value)
                          ? "; its magnitude is at most " + std::to_string(Limit(to)) + "."
                          : "."));
  }
  return OkStatus();
}

}  // namespace weft::convert
