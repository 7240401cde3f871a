// A table that follows its file: changes of other processes, usage, files that go or break.
#include "server/key_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "base/file_testing.h"
#include "base/secret.h"
#include "store/store.h"

namespace weft::server {
namespace {

using testing::SizeIs;

class KeyKeeperTest : public testing::Test {
 protected:
  std::unique_ptr<store::Store> OpenStore() const {
    return store::Store::Open(path_, store::OpenMode::kCreate, UnixNowMs()).value();
  }
  static store::NewKey Named(const std::string& name) {
    store::NewKey key;
    key.name = name;
    return key;
  }
  void Start() {
    keeper_ = KeyKeeper::Open(loop_, {path_, "weft-tiny", 2}).value();
    keeper_->Start("8080");
  }
  // Runs the loop until it holds; false: it did not within a second and a bit.
  bool Becomes(std::function<bool()> holds, Duration limit = Milliseconds(1200)) {
    const Instant end = MonotonicNow() + limit;
    net::EventLoop::Timer timer(loop_);
    std::function<void()> look = [&] {
      if (holds() || MonotonicNow() > end) return loop_.Stop();
      timer.FireAfter(Milliseconds(5), look);
    };
    loop_.Post(look);
    loop_.Run();
    return holds();
  }
  bool IsGood(const std::string& secret) {
    const store::Key* key = keeper_->table().Find(HashSecret(secret));
    return key != nullptr && !keeper_->table().FindEnd(*key);
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "weft" / store::kFileName;
  net::EventLoop loop_;
  std::unique_ptr<KeyKeeper> keeper_;
};

TEST_F(KeyKeeperTest, KnowsTheKeysOfTheFileAtOnce) {
  ASSERT_TRUE(OpenStore()->AddKey(Named("maths"), HashSecret("secret"), UnixNowMs()).ok());
  Start();
  EXPECT_TRUE(IsGood("secret"));
}

TEST_F(KeyKeeperTest, SeesWhatOthersChangeWithinASecond) {
  Start();
  EXPECT_FALSE(std::filesystem::exists(path_)) << "looking makes no file";
  ASSERT_TRUE(OpenStore()->AddKey(Named("maths"), HashSecret("secret"), UnixNowMs()).ok());
  EXPECT_TRUE(Becomes([this] { return IsGood("secret"); }));
  ASSERT_TRUE(OpenStore()->EndKey("maths", UnixNowMs()).ok());
  EXPECT_TRUE(Becomes([this] { return !IsGood("secret"); }));
  EXPECT_NE(keeper_->table().Find(HashSecret("secret")), nullptr) << "it is known as ended";
}

TEST_F(KeyKeeperTest, AFileThatIsGoneLeavesNoKeys) {
  ASSERT_TRUE(OpenStore()->AddKey(Named("maths"), HashSecret("secret"), UnixNowMs()).ok());
  Start();
  EXPECT_TRUE(Becomes([this] { return IsGood("secret"); }));
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path_.string() + suffix);
  EXPECT_TRUE(Becomes([this] { return keeper_->table().keys().empty(); }));
  ASSERT_TRUE(OpenStore()->AddKey(Named("art"), HashSecret("other"), UnixNowMs()).ok());
  EXPECT_TRUE(Becomes([this] { return IsGood("other"); }));
}

TEST_F(KeyKeeperTest, AFileThatCannotBeReadLeavesTheTableAsItWas) {
  ASSERT_TRUE(OpenStore()->AddKey(Named("maths"), HashSecret("secret"), UnixNowMs()).ok());
  Start();
  EXPECT_TRUE(Becomes([this] { return IsGood("secret"); }));
  const std::filesystem::path beside = path_.string() + ".new";
  std::ofstream(beside) << std::string(5000, 'x');
  std::filesystem::permissions(beside, std::filesystem::perms(0600));
  std::filesystem::rename(beside, path_);
  EXPECT_FALSE(Becomes([this] { return !IsGood("secret"); }));
}

TEST_F(KeyKeeperTest, OneThatCannotBeReadAtStartIsAnError) {
  std::filesystem::create_directories(path_.parent_path());
  std::ofstream(path_) << std::string(5000, 'x');
  std::filesystem::permissions(path_, std::filesystem::perms(0600));
  const auto opened = KeyKeeper::Open(loop_, {path_, "weft-tiny", 2});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), ErrorCode::kInvalidData);
}

TEST_F(KeyKeeperTest, MakesAndEndsKeys) {
  Start();
  std::optional<Result<store::Key>> answer;
  const auto take = [&answer](Result<store::Key> key) { answer = std::move(key); };
  keeper_->Add(Named("maths"), HashSecret("secret"), take);
  ASSERT_TRUE(Becomes([&] { return answer.has_value(); }));
  EXPECT_EQ((*answer)->name, "maths");
  EXPECT_TRUE(IsGood("secret")) << "it is in the table before that is told";
  answer.reset();
  keeper_->Add(Named("maths"), HashSecret("other"), take);
  ASSERT_TRUE(Becomes([&] { return answer.has_value(); }));
  EXPECT_EQ(answer->error().code(), ErrorCode::kAlreadyExists);
  answer.reset();
  keeper_->End("maths", take);
  ASSERT_TRUE(Becomes([&] { return answer.has_value(); }));
  EXPECT_FALSE(IsGood("secret"));
}

TEST_F(KeyKeeperTest, WithoutAFileNoneCanBeMade) {
  keeper_ = KeyKeeper::WithoutFile(loop_, "weft-tiny");
  keeper_->Start("8080");
  std::optional<Result<store::Key>> answer;
  keeper_->Add(Named("maths"), HashSecret("secret"),
               [&answer](Result<store::Key> key) { answer = std::move(key); });
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error().code(), ErrorCode::kUnsupported);
}

TEST_F(KeyKeeperTest, UsageIsInTheFileInTheEndOnce) {
  const int64_t key = OpenStore()->AddKey(Named("maths"), HashSecret("secret"), UnixNowMs())->id;
  Start();
  keeper_->table().Count(key, 100, 40, 7);
  EXPECT_TRUE(Becomes([&] { return OpenStore()->UsageSince(0)->contains(key); }, Seconds(3)));
  // Told back by the file, and counted once.
  EXPECT_FALSE(Becomes([] { return false; }));
  EXPECT_EQ(keeper_->table().TodayOf(key), (store::Usage{0, 100, 40, 7}));
  keeper_->table().Count(key, 1, 0, 1);
  keeper_.reset();
  EXPECT_EQ(OpenStore()->UsageSince(0)->at(key), (store::Usage{0, 101, 40, 8}));
}

// The thread has written, and the loop has not heard of it.
TEST_F(KeyKeeperTest, AServerThatEndsWritesNothingTwice) {
  const int64_t key = OpenStore()->AddKey(Named("maths"), HashSecret("secret"), UnixNowMs())->id;
  auto other = store::Database::Open(path_, {}).value();
  std::optional<store::Transaction> lock = store::Transaction::Begin(other).value();
  Start();
  keeper_->table().Count(key, 100, 40, 7);
  bool is_written = false;
  net::EventLoop::Timer timer(loop_);
  timer.FireAfter(Milliseconds(1200), [&] {  // the look after 1,000 ms waits for the lock
    lock.reset();
    const Instant end = MonotonicNow() + Seconds(3);
    while (!is_written && MonotonicNow() < end)
      is_written = OpenStore()->UsageSince(0)->contains(key);
    loop_.Stop();
  });
  loop_.Run();
  ASSERT_TRUE(is_written);
  keeper_.reset();
  EXPECT_EQ(OpenStore()->UsageSince(0)->at(key), (store::Usage{0, 100, 40, 7}));
}

}  // namespace
}  // namespace weft::server
