// Oracles: published vectors (SHA-256 of FIPS 180-2, Philox from Random123's kat_vectors).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/file.h"
#include "base/log_budget.h"
#include "base/random.h"
#include "base/result.h"
#include "base/sha256.h"
#include "base/task_queue.h"

namespace weft {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Error(ErrorCode::kInvalidArgument, std::to_string(n) + " is odd.");
  return n / 2;
}
Result<int> Quarter(int n) {
  ASSIGN_OR_RETURN(const int half, Half(n));
  return Half(half).Context("While halving a half");
}

TEST(Result, PropagatesErrorsWithContext) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).error().ToString(), "3 is odd.\n  While halving a half");
  EXPECT_EQ(Quarter(7).error().ToString(), "7 is odd.");
}

// Test case 2 of RFC 4231.
TEST(HmacSha256, IsThatOfItsSpecification) {
  const Sha256Digest mac = HmacSha256(AsBytes(std::string_view("Jefe")),
                                      AsBytes(std::string_view("what do ya want for nothing?")));
  EXPECT_EQ(ToHex(mac), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Sha256, MatchesFipsVector) {
  EXPECT_EQ(ToHex(Sha256(AsBytes("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256Stream stream;
  stream.Update(AsBytes("a"));
  stream.Update(AsBytes("bc"));
  EXPECT_EQ(stream.Finish(), Sha256(AsBytes("abc")));
}

TEST(Random, PhiloxMatchesKnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Bytes, ParsesByteCounts) {
  EXPECT_EQ(ParseByteCount("4GiB"), 4ull << 30);
  EXPECT_EQ(ParseByteCount("1.5 GB"), 1500000000u);
  EXPECT_EQ(ParseByteCount("77"), 77u);
  for (const char* bad : {"", "GiB", "-1", "4 GiBs", "nan", "1e40GB"}) {
    EXPECT_FALSE(ParseByteCount(bad).has_value()) << bad;
  }
  EXPECT_EQ(HumanBytes(1536000), "1.5 MB");
  EXPECT_EQ(HumanBytes(12), "12 B");
}

TEST(Bytes, HexRoundTrips) {
  EXPECT_EQ(FromHex("00fF"), (std::vector<uint8_t>{0, 255}));
  EXPECT_FALSE(FromHex("0").has_value());
  EXPECT_FALSE(FromHex("0g").has_value());
}

TEST(File, MissingFileNamesThePath) {
  const auto missing = ReadTextFile("/nonexistent/weft");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message().find("/nonexistent/weft"), std::string::npos);
}

TEST(File, WritesAtomicallyAndMaps) {
  const auto path = std::filesystem::temp_directory_path() / ("weft-" + SecureRandomHex(8));
  ASSERT_TRUE(WriteFileAtomically(path, AsBytes("one")).ok());
  ASSERT_TRUE(WriteFileAtomically(path, AsBytes("two!")).ok());
  EXPECT_EQ(*ReadTextFile(path), "two!");
  EXPECT_FALSE(ReadTextFile(path, 3).ok());
  const auto mapped = MappedFile::Open(path);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(AsText((*mapped)->bytes()), "two!");
  std::filesystem::remove(path);
}

TEST(File, BringsWhatIsMappedIntoMemory) {
  const auto path = std::filesystem::temp_directory_path() / ("weft-" + SecureRandomHex(8));
  const std::vector<uint8_t> bytes(1 << 20, 7);
  ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  const int fd = open(path.c_str(), O_RDONLY);
  ASSERT_EQ(fsync(fd), 0);
  ASSERT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  close(fd);
  const auto mapped = MappedFile::Open(path);
  ASSERT_TRUE(mapped.ok());
  BringIntoMemory((*mapped)->bytes().subspan(100'000, 500'000));  // ends on no page
  const auto first = reinterpret_cast<uintptr_t>((*mapped)->bytes().data()) + 102'400;
  std::vector<uint8_t> resident(97);
  ASSERT_EQ(mincore(reinterpret_cast<void*>(first), 97 * 4096, resident.data()), 0);
  for (const uint8_t page : resident) EXPECT_EQ(page & 1, 1);
  BringIntoMemory({});
  std::filesystem::remove(path);
}

TEST(TaskQueue, OneThreadRunsTasksInOrder) {
  std::vector<int> order;
  std::promise<void> all;
  TaskQueue queue;
  for (int i = 0; i < 100; ++i) queue.Push([&, i] { order.push_back(i); });
  queue.Push([&] { all.set_value(); });
  all.get_future().wait();
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(order.size(), 100u);
}

TEST(TaskQueue, SeveralThreadsRunAtOnce) {
  std::promise<void> first, second;
  TaskQueue queue(2);
  queue.Push([&] {
    first.set_value();
    second.get_future().wait();
  });
  queue.Push([&] {
    first.get_future().wait();
    second.set_value();
  });
  std::promise<void> after;
  queue.Push([&] { after.set_value(); });
  after.get_future().wait();
}

TEST(TaskQueue, StopFinishesWhatRunsAndDropsTheRest) {
  std::promise<void> begun;
  bool finished = false, dropped_ran = false;
  TaskQueue queue;
  queue.Push([&] {
    begun.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    finished = true;
  });
  const auto held = std::make_shared<int>(7);
  queue.Push([&, held] { dropped_ran = true; });
  begun.get_future().wait();
  queue.Stop();
  EXPECT_TRUE(finished);
  EXPECT_FALSE(dropped_ran);
  EXPECT_EQ(held.use_count(), 1) << "what was dropped is gone";
  queue.Push([&] { dropped_ran = true; });
  EXPECT_FALSE(dropped_ran);
}

TEST(Descriptor, ClosesOnceWhoeverHoldsIt) {
  const auto is_open = [](int fd) { return fcntl(fd, F_GETFD) != -1; };
  const int number = open("/dev/null", O_RDONLY);
  ASSERT_GE(number, 0);
  {
    Descriptor first(number);
    Descriptor second(std::move(first));
    EXPECT_EQ(first.get(), -1);  // NOLINT: what is left of it
    first = std::move(second);
    EXPECT_EQ(first.get(), number);
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
  Descriptor replaced(open("/dev/null", O_RDONLY));
  const int before = replaced.get();
  replaced = Descriptor(open("/dev/zero", O_RDONLY));
  EXPECT_FALSE(is_open(before));
  const int released = replaced.Release();
  EXPECT_TRUE(is_open(released));
  close(released);
}

TEST(LogBudget, LeavesOutWhatIsTooMuchAndCountsIt) {
  LogBudget budget(10, 3);
  Instant now;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(budget.Take(now).write);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(budget.Take(now).write);
  now = now + Milliseconds(110);  // a little more than one line's time
  const LogBudget::Verdict verdict = budget.Take(now);
  EXPECT_TRUE(verdict.write);
  EXPECT_EQ(verdict.left_out, 5u);
  EXPECT_FALSE(budget.Take(now).write);
  now = now + Seconds(3600);  // a long silence saves up no more than the burst
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(budget.Take(now).write);
  EXPECT_FALSE(budget.Take(now).write);
}

}  // namespace
}  // namespace weft
