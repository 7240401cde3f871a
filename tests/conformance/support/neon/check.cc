// Every kernel of panels that runs on this machine, against the scalar one, bit for bit. It needs
// nothing but the kernels, so that a cross compiler alone builds it: ../../kernels.mjs. One
// line a kernel: its name and "ok", "differs" or "lacking".
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <vector>

#include "kernels/panel_matmul.h"
#include "kernels/panels.h"
#include "tensor/half.h"
#include "tensor/kquants.h"
#include "tensor/q4s.h"

namespace weft::kernels {
namespace {

std::mt19937 random_bits(7);

uint32_t Below(uint32_t count) {
  return static_cast<uint32_t>(random_bits()) % count;
}

// A finite f16 of either sign, sometimes subnormal.
uint16_t Half() {
  return static_cast<uint16_t>(Below(2) << 15 | Below(20) << 10 | Below(1024));
}

// Panels of a weight of random bits; `is_extreme`: all bits of levels and scales set, or none.
struct Panels {
  std::vector<uint8_t> data;
  std::vector<uint16_t> words;
  uint8_t* memory = nullptr;
  Matrix matrix;

  Panels(DType dtype, size_t rows, size_t columns, bool is_extreme) {
    matrix.dtype = dtype;
    matrix.rows = rows;
    matrix.columns = columns;
    data.resize(rows * matrix.data_row_bytes());
    for (uint8_t& byte : data) byte = static_cast<uint8_t>(is_extreme ? 0 : Below(256));
    words.resize(rows * matrix.scale_words());
    const auto record_words = static_cast<size_t>(RecordWords(dtype));
    const size_t of_row = matrix.scale_words() / record_words;
    for (size_t b = 0; b < rows * of_row; ++b)
      WriteRecord(&words[b * record_words], record_words, columns - b % of_row * 256, is_extreme);
    Pack();
  }
  ~Panels() { std::free(memory); }
  Panels(const Panels&) = delete;
  Panels& operator=(const Panels&) = delete;

  void WriteRecord(uint16_t* own, size_t count, size_t columns, bool is_extreme) const {
    if (matrix.dtype != DType::kQ4S) {
      for (size_t i = 0; i < count; ++i)
        own[i] = static_cast<uint16_t>(is_extreme ? 0x8080 : Below(65536));
      own[0] = is_extreme ? uint16_t{0x3c01} : Half();
      if (matrix.dtype != DType::kQ6K) own[1] = Half();
      return;
    }
    Q4sRecord record;
    record.scale = is_extreme ? uint16_t{0x3c01} : Half();
    for (size_t i = 0; i < record.multipliers.size(); ++i) {
      const int m = is_extreme ? 15 : 1 + static_cast<int>(Below(15));
      record.multipliers[i] = static_cast<int8_t>(i * 16 >= columns ? 1 : Below(2) != 0 ? m : -m);
    }
    WriteQ4sRecord(record, own);
  }
  void Pack() {
    matrix.data = data.data();
    matrix.scale = words.data();
    const size_t bytes = PanelsBytes(matrix.dtype, matrix.rows, matrix.columns);
    memory = static_cast<uint8_t*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    if (memory == nullptr || !PackPanels(matrix, memory).ok()) std::abort();
    matrix.panels = memory;
    matrix.data = nullptr;
    matrix.scale = nullptr;
  }
};

std::vector<float> Rows(size_t rows, size_t columns, bool is_extreme) {
  std::vector<float> values(rows * columns);
  for (size_t i = 0; i < values.size(); ++i) {
    const float x = static_cast<float>(random_bits()) * 0x1p-31f - 1;
    const int exponent = static_cast<int>(i / columns % 50) - 25 - static_cast<int>(Below(3)) * 4;
    values[i] = is_extreme ? (i / columns % 2 == 0 ? 0x1.fffffep0f : -0x1.fffffep0f)
                           : std::ldexp(x, exponent);
  }
  return values;
}

std::vector<float> Multiply(const PanelKernel& kernel, const Matrix& panels,
                            const std::vector<float>& in, size_t rows) {
  const size_t superblocks = (panels.columns + 255) / 256;
  std::vector<IntegerInput> prepared(rows * superblocks);
  for (size_t r = 0; r < rows; ++r)
    kernel.prepare({&in[r * panels.columns], panels.columns}, &prepared[r * superblocks]);
  std::vector<float> out(rows * panels.rows);
  const PanelProduct product = {prepared.data(), rows, panels, nullptr, out.data(), panels.rows};
  kernel.run(product, product.first_panel(), product.end_panel());
  return out;
}

bool HasTheBits(const PanelKernel& kernel) {
  const PanelKernel& rule = PanelKernels().back();
  bool is_same = true;
  for (const DType dtype : {DType::kQ4S, DType::kQ4K, DType::kQ5K, DType::kQ6K}) {
    for (const size_t columns : {40u, 256u, 300u, 768u}) {
      if (dtype != DType::kQ4S && columns % 256 != 0) continue;
      for (const bool is_extreme : {false, true}) {
        const Panels panels(dtype, 37, columns, is_extreme);
        for (const size_t rows : {1u, 2u, 3u, 8u, 16u, 33u, 100u}) {
          const auto in = Rows(rows, columns, is_extreme);
          const auto got = Multiply(kernel, panels.matrix, in, rows);
          const auto expected = Multiply(rule, panels.matrix, in, rows);
          if (std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0) continue;
          std::fprintf(stderr, "%s: %s, %zu columns, %zu rows\n", std::string(kernel.name).c_str(),
                       std::string(DTypeName(dtype)).c_str(), columns, rows);
          is_same = false;
        }
      }
    }
  }
  return is_same;
}

}  // namespace
}  // namespace weft::kernels

int main() {
  for (const auto& kernel : weft::kernels::PanelKernels()) {
    const char* result = !kernel.runs_here()                 ? "lacking"
                         : weft::kernels::HasTheBits(kernel) ? "ok"
                                                             : "differs";
    std::printf("%s %s\n", std::string(kernel.name).c_str(), result);
  }
}
