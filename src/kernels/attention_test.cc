// Attention over paged KV: the bits of a row depend on its session alone, however prompts are cut,
// whoever shares the batch, whatever the threads; and pages convert to canonical KV and back.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <ostream>

#include "base/random.h"
#include "kernels/kernel_set.h"
#include "kernels/test_case.h"

namespace weft::kernels {
namespace {

constexpr KvShape kShape = {2, 24};  // f16
constexpr size_t kHeads = 6;

// One session's KV.
struct Pages {
  Pages(const KvShape& shape, size_t positions) {
    memory.resize((positions / 32 + 1) * shape.page_bytes(), 0xff);  // not-a-number in any type
    for (size_t i = 0; i <= positions / 32; ++i) {
      addresses.push_back(&memory[i * shape.page_bytes()]);
    }
  }
  std::vector<uint8_t> memory;
  std::vector<void*> addresses;
};

struct Rows3 {
  std::vector<float> q, k, v;
  Rows3(const KvShape& shape, uint32_t seed, size_t rows)
      : q(CaseFloats(seed, rows * kHeads * shape.head_columns, 2)),
        k(CaseFloats(seed + 1, rows * shape.row_columns(), 2)),
        v(CaseFloats(seed + 2, rows * shape.row_columns())) {}
};

struct Case {
  KvShape shape;
  uint32_t window = 0;
  uint32_t rows = 0;
};

void PrintTo(const Case& of, std::ostream* out) {
  *out << of.rows << " rows, window " << of.window << ", " << DTypeName(of.shape.dtype);
}

// Runs rows [first, first + count) of both sessions as one batch.
void RunBoth(const Case& of, const Rows3& a, Pages& pages_a, const Rows3& b, Pages& pages_b,
             uint32_t first, uint32_t count, Workspace& workspace, std::vector<float>& out_a,
             std::vector<float>& out_b) {
  std::vector<float> q, k, v;
  std::vector<AttentionRow> rows;
  const size_t columns = kHeads * of.shape.head_columns, kv_columns = of.shape.row_columns();
  const auto append = [&](const Rows3& from, const Pages& pages) {
    const auto copy = [&](std::vector<float>& to, const std::vector<float>& all, size_t width) {
      to.insert(to.end(), all.begin() + static_cast<ptrdiff_t>(first * width),
                all.begin() + static_cast<ptrdiff_t>((first + count) * width));
    };
    copy(q, from.q, columns);
    copy(k, from.k, kv_columns);
    copy(v, from.v, kv_columns);
    for (uint32_t i = 0; i < count; ++i) rows.push_back({first + i, pages.addresses.data()});
  };
  append(a, pages_a);
  append(b, pages_b);
  const size_t out_columns = kHeads * of.shape.out_columns();
  std::vector<float> out(rows.size() * out_columns, NAN);
  AttentionArgs args;
  args.q = {q.data(), rows.size(), columns, columns};
  args.k = {k.data(), rows.size(), kv_columns, kv_columns};
  args.v = {v.data(), rows.size(), kv_columns, kv_columns};
  args.heads = kHeads;
  args.kv = of.shape;
  args.scale = 0.2f;
  args.window = of.window;
  args.kv_rows = rows;
  args.out = {out.data(), rows.size(), out_columns, out_columns};
  AttentionSimd(args, workspace);
  const auto half = out.begin() + static_cast<ptrdiff_t>(count * out_columns);
  out_a.insert(out_a.end(), out.begin(), half);
  out_b.insert(out_b.end(), half, out.end());
}

class Attention : public testing::TestWithParam<Case> {};

TEST_P(Attention, BitsDependOnTheSessionAlone) {
  const Case& of = GetParam();
  const Rows3 a(of.shape, 1, of.rows), b(of.shape, 50, of.rows), other(of.shape, 99, of.rows);
  std::vector<float> expected_a, expected_b;
  {
    Workspace workspace(1);
    Pages pages_a(of.shape, of.rows), pages_b(of.shape, of.rows);
    for (uint32_t i = 0; i < of.rows; ++i)
      RunBoth(of, a, pages_a, b, pages_b, i, 1, workspace, expected_a, expected_b);
  }
  SeededRandom random(4);
  for (size_t threads = 1; threads <= 3; ++threads) {
    Workspace workspace(threads);
    for (int trial = 0; trial < 4; ++trial) {
      Pages pages_a(of.shape, of.rows), pages_b(of.shape, of.rows);
      std::vector<float> got_a, got_b;
      const Rows3& neighbour = trial % 2 == 0 ? b : other;
      for (uint32_t first = 0; first < of.rows;) {
        const auto most = trial == 3 ? 3 : 40;
        const auto count = std::min(of.rows - first, static_cast<uint32_t>(1 + random.Below(most)));
        RunBoth(of, a, pages_a, neighbour, pages_b, first, count, workspace, got_a, got_b);
        first += count;
      }
      ASSERT_EQ(got_a, expected_a);
      if (trial % 2 == 0) {
        ASSERT_EQ(got_b, expected_b);
      }
    }
  }
}

// Over one chunk of 256 positions and over several; with values in their keys, too.
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::kF16, DType::kF32}) {
    for (const uint32_t window : {0u, 1u, 20u, 64u})
      cases.push_back({{kShape.kv_heads, kShape.head_columns, dtype}, window, 101});
    for (const uint32_t window : {0u, 20u, 300u})
      cases.push_back({{kShape.kv_heads, kShape.head_columns, dtype}, window, 530});
    for (const uint32_t window : {0u, 300u}) cases.push_back({{1, 40, dtype, 33}, window, 530});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, Attention, testing::ValuesIn(Cases()));

TEST(KvPage, KeysWithTheirValuesGoInAndComeOutOnce) {
  constexpr KvShape kLatent{1, 40, DType::kF16, 32};
  EXPECT_EQ(kLatent.page_elements(), 40 * kPagePositions);
  std::vector<uint16_t> page(kLatent.page_elements(), 0);
  std::vector<uint16_t> k(40), k_back(40);
  for (size_t i = 0; i < k.size(); ++i) {
    k[i] = static_cast<uint16_t>(CaseHash(3, static_cast<uint32_t>(i)));
  }
  for (const size_t slot : {0u, 31u}) {
    CopyIn<uint16_t>(kLatent, page.data(), slot, k.data(), nullptr);
    CopyOut<uint16_t>(kLatent, page.data(), slot, k_back.data(), nullptr);
    EXPECT_EQ(k_back, k);
    EXPECT_EQ(page[kLatent.ValueIndex(0, slot, 0)], k[8]);
  }
}

TEST(KvPage, CanonicalRowsGoInAndComeOut) {
  std::vector<uint16_t> page(kShape.page_elements(), 0);
  const size_t columns = kShape.row_columns();
  std::vector<uint16_t> k(columns), v(columns), k_back(columns), v_back(columns);
  for (const size_t slot : {0u, 1u, 31u}) {
    for (size_t i = 0; i < columns; ++i) {
      k[i] = static_cast<uint16_t>(CaseHash(1, static_cast<uint32_t>(slot * columns + i)));
      v[i] = static_cast<uint16_t>(CaseHash(2, static_cast<uint32_t>(slot * columns + i)));
    }
    CopyIn(kShape, page.data(), slot, k.data(), v.data());
    CopyOut(kShape, page.data(), slot, k_back.data(), v_back.data());
    EXPECT_EQ(k_back, k);
    EXPECT_EQ(v_back, v);
  }
}

TEST(KvPage, StoredHeadsComeOutAsTheCanonicalRow) {
  std::vector<uint16_t> page(kShape.page_elements(), 0);
  const std::vector<float> k = CaseFloats(1, kShape.row_columns(), 3);
  const std::vector<float> v = CaseFloats(2, kShape.row_columns(), 3);
  for (size_t head = 0; head < kShape.kv_heads; ++head) {
    const auto part = [&](const std::vector<float>& all) {
      return std::span(all).subspan(head * kShape.head_columns, kShape.head_columns);
    };
    StoreKv(kShape, page.data(), 7, head, part(k), part(v));
  }
  std::vector<uint16_t> k_back(k.size()), v_back(v.size());
  CopyOut(kShape, page.data(), 7, k_back.data(), v_back.data());
  for (size_t i = 0; i < k.size(); ++i) {
    EXPECT_EQ(k_back[i], F32ToF16(k[i]));
    EXPECT_EQ(v_back[i], F32ToF16(v[i]));
  }
}

}  // namespace
}  // namespace weft::kernels
