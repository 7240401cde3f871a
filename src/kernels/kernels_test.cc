// What all kernels share: not-a-number comes through, rows do not mix, views stay inside their
// columns, selection over a whole vocabulary, and the thread pool.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "kernels/kernel_set.h"
#include "kernels/shared_threads.h"
#include "kernels/test_case.h"

namespace weft::kernels {
namespace {

constexpr size_t kRows = 5, kColumns = 37, kStride = 50;
constexpr float kUntouched = 12345.678f;

// A [5, 37] view with 13 columns beside it that must stay as they are.
struct Wide {
  std::vector<float> data = std::vector<float>(kRows * kStride, kUntouched);
  explicit Wide(uint32_t seed) {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t i = 0; i < kColumns; ++i) {
        data[r * kStride + i] = CaseFloat(seed, static_cast<uint32_t>(r * kColumns + i), 2);
      }
    }
  }
  Rows rows() { return {data.data(), kRows, kColumns, kStride}; }
};

using Operation =
    std::function<void(const KernelSet&, Workspace&, ConstRows a, ConstRows b, Rows out)>;

// Operations on rows of one width, by name.
std::vector<std::pair<std::string, Operation>> RowOperations() {
  static const std::vector<float> weight = CaseFloats(1, kColumns, 0.5, 1);
  static const std::vector<float> bias = CaseFloats(2, kColumns);
  std::vector<std::pair<std::string, Operation>> list = {
      {"rms_norm",
       [](auto& k, auto& w, ConstRows a, ConstRows, Rows out) {
         k.rms_norm({a, weight, 1e-6f, out}, w);
       }},
      {"layer_norm",
       [](auto& k, auto& w, ConstRows a, ConstRows, Rows out) {
         k.layer_norm({a, weight, bias, 1e-6f, out}, w);
       }},
      {"add",
       [](auto& k, auto& w, ConstRows a, ConstRows b, Rows out) {
         k.add({a, b, out}, w);
       }},
      {"scale",
       [](auto& k, auto& w, ConstRows a, ConstRows, Rows out) {
         k.scale({a, 3, out}, w);
       }},
      {"softcap",
       [](auto& k, auto& w, ConstRows a, ConstRows, Rows out) {
         k.softcap({a, 3, out}, w);
       }},
      {"norm_head",
       [](auto& k, auto& w, ConstRows a, ConstRows, Rows out) {
         static const std::vector<uint32_t> positions = {3, 4, 5, 6, 7};
         static const std::vector<float> inv_freq = CaseFloats(9, 16, 0.5, 0.5);
         k.qk_norm_rope({a, 1, kColumns, weight, 1e-6f, inv_freq, 1, false, positions, out}, w);
       }},
  };
  for (const auto kind : {ActivationKind::kSilu, ActivationKind::kGeluTanh, ActivationKind::kGelu,
                          ActivationKind::kSwigluOai, ActivationKind::kRelu}) {
    list.emplace_back("activation" + std::to_string(static_cast<int>(kind)),
                      [kind](auto& k, auto& w, ConstRows a, ConstRows b, Rows out) {
                        k.gated_activation({a, b, kind, out}, w);
                      });
  }
  return list;
}

TEST(RowKernels, VectorAgreesWithScalarInPlaceAndApartAndStaysInItsColumns) {
  Workspace workspace(2);
  for (const auto& [name, run] : RowOperations()) {
    SCOPED_TRACE(name);
    Wide a(3), b(4), expected(5), apart(6);
    run(ReferenceKernels(), workspace, a.rows(), b.rows(), expected.rows());
    run(FastKernels(), workspace, a.rows(), b.rows(), apart.rows());
    Wide in_place = a;
    run(FastKernels(), workspace, in_place.rows(), b.rows(), in_place.rows());
    for (size_t i = 0; i < apart.data.size(); ++i) {
      ASSERT_NEAR(apart.data[i], expected.data[i], 2e-5f * (1 + std::fabs(expected.data[i]))) << i;
    }
    EXPECT_EQ(in_place.data, apart.data);
  }
}

TEST(RowKernels, NotANumberComesThroughInItsRowOnly) {
  Workspace workspace(1);
  for (const KernelSet* kernels : {&ReferenceKernels(), &FastKernels()}) {
    for (const auto& [name, run] : RowOperations()) {
      SCOPED_TRACE(name);
      Wide a(3), b(4), out(5);
      a.data[2 * kStride + 7] = NAN;
      run(*kernels, workspace, a.rows(), b.rows(), out.rows());
      for (size_t r = 0; r < kRows; ++r) {
        size_t bad = 0;
        for (const float x : out.rows().Row(r)) bad += std::isnan(x) ? 1 : 0;
        EXPECT_EQ(bad > 0, r == 2) << "row " << r;
      }
    }
  }
}

TEST(AttentionKernels, NotANumberInQueryKeyOrValueComesThrough) {
  Workspace workspace(1);
  const KvShape shape = {1, 16};
  for (const KernelSet* kernels : {&ReferenceKernels(), &FastKernels()}) {
    for (int which = 0; which < 3; ++which) {
      for (const bool with_sinks : {false, true}) {
        std::vector<float> rows[3] = {CaseFloats(1, 48), CaseFloats(2, 48), CaseFloats(3, 48)};
        rows[which][16 + 5] = NAN;  // row 1
        const std::vector<float> sinks = {0.5f};
        std::vector<uint16_t> page(shape.page_elements());
        void* const address = page.data();
        const std::vector<AttentionRow> kv_rows = {{0, &address}, {1, &address}, {2, &address}};
        std::vector<float> out(48);
        AttentionArgs args;
        args.q = {rows[0].data(), 3, 16, 16};
        args.k = {rows[1].data(), 3, 16, 16};
        args.v = {rows[2].data(), 3, 16, 16};
        args.heads = 1;
        args.kv = shape;
        args.scale = 0.25f;
        if (with_sinks) args.sinks = sinks;
        args.kv_rows = kv_rows;
        args.out = {out.data(), 3, 16, 16};
        kernels->attention(args, workspace);
        const auto bad = [&](size_t row) {
          return std::any_of(out.begin() + static_cast<ptrdiff_t>(row * 16),
                             out.begin() + static_cast<ptrdiff_t>(row * 16 + 16),
                             [](float x) { return std::isnan(x); });
        };
        EXPECT_FALSE(bad(0));
        EXPECT_TRUE(bad(1));
        EXPECT_EQ(bad(2), which != 0);  // later rows read the broken key or value
      }
    }
  }
}

TEST(TopK, AgreesWithSortingOverAWholeVocabulary) {
  for (const size_t vocabulary : {1u, 17u, 300u, 151936u}) {
    for (const uint32_t seed : {1u, 2u}) {
      std::vector<float> logits = CaseFloats(seed, vocabulary, 12);
      if (seed == 2) {  // many ties
        for (float& l : logits) l = std::round(l);
      }
      for (const size_t k : {1u, 2u, 40u, 256u}) {
        if (k > vocabulary) continue;
        std::vector<TokenLogit> got(k), expected(k);
        const float got_sum = TopKSimd({logits, got});
        const float expected_sum = TopKReference({logits, expected});
        EXPECT_NEAR(got_sum, expected_sum, 2e-6f * std::fabs(expected_sum));
        for (size_t i = 0; i < k; ++i) {
          ASSERT_EQ(got[i].token_id, expected[i].token_id) << i;
          ASSERT_EQ(got[i].logit, expected[i].logit);
        }
      }
      const ArgmaxResult best = ArgmaxReference(logits);
      std::vector<TokenLogit> two(std::min<size_t>(2, vocabulary));
      TopKReference({logits, two});
      EXPECT_EQ(best.best.token_id, two.front().token_id);
      EXPECT_EQ(best.second.token_id, two.back().token_id);
      const ArgmaxResult fast = ArgmaxSimd(logits);
      EXPECT_EQ(fast.best.token_id, best.best.token_id);
      EXPECT_EQ(fast.best.logit, best.best.logit);
      EXPECT_EQ(fast.second.token_id, best.second.token_id);
      EXPECT_EQ(fast.second.logit, best.second.logit);
    }
  }
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (const size_t threads : {0u, 1u, 2u, 5u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.thread_count(), std::max<size_t>(1, threads));
    for (const size_t tasks : {0u, 1u, 2u, 3u, 100u}) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<std::atomic<int>> runs(tasks);
        pool.Run(tasks, [&](size_t task, size_t thread) {
          EXPECT_LT(thread, pool.thread_count());
          ++runs[task];
        });
        for (const auto& count : runs) ASSERT_EQ(count, 1);
      }
    }
  }
}

// The first thread's share is half of the tasks, and it hangs in the first of them.
TEST(ThreadPool, TakesTasksFromAThreadThatIsSlow) {
  ThreadPool pool(2);
  constexpr int kTasks = 64;
  std::atomic<int> done = 0;
  const Instant deadline = MonotonicNow() + Seconds(60);
  pool.Run(kTasks, [&](size_t task, size_t) {
    while (task == 0 && done < kTasks - 1 && MonotonicNow() < deadline) std::this_thread::yield();
    ++done;
  });
  EXPECT_EQ(done, kTasks);
  EXPECT_LT(MonotonicNow(), deadline);
}

TEST(ThreadPool, SleepsBetweenRegions) {
  ThreadPool pool(3);
  pool.Run(3, [](size_t, size_t) {});
  timespec pause = {0, 50'000'000};
  nanosleep(&pause, nullptr);  // past the moment of spinning
  const std::clock_t before = std::clock();
  pause = {0, 300'000'000};
  nanosleep(&pause, nullptr);
  const double busy_seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(busy_seconds, 0.05);
}

TEST(SharedThreads, AreDividedAmongThoseAtWork) {
  SharedThreads shared(5);
  SharedThreads::Work first(shared);
  ThreadPool& all = first.Threads();
  EXPECT_EQ(all.thread_count(), 5u);
  EXPECT_EQ(&first.Threads(), &all);  // nobody came, so it keeps them
  {
    SharedThreads::Work second(shared), third(shared);
    EXPECT_EQ(second.Threads().thread_count(), 1u);
    EXPECT_EQ(first.Threads().thread_count(), 1u);
    EXPECT_NE(&second.Threads(), &first.Threads());
  }
  SharedThreads::Work second(shared);
  EXPECT_EQ(second.Threads().thread_count(), 2u);
  EXPECT_EQ(first.Threads().thread_count(), 2u);
  EXPECT_NE(&second.Threads(), &first.Threads());
}

TEST(SharedThreads, AreUsedAgain) {
  SharedThreads shared(3);
  const auto threads_now = [&] { return &SharedThreads::Work(shared).Threads(); };
  const ThreadPool* const first = threads_now();
  EXPECT_EQ(threads_now(), first);
  EXPECT_EQ(threads_now(), first);
  SharedThreads none(0);
  EXPECT_EQ(SharedThreads::Work(none).Threads().thread_count(), 1u);
}

}  // namespace
}  // namespace weft::kernels
