// Forms that other servers send are compiled once, on a thread, and handed over on the loop.
#include "server/constraint_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace weft::server {
namespace {

using Constraint = ConstraintCache::Constraint;

class Empty : public sampling::Constraint {
 public:
  std::unique_ptr<sampling::AnswerState> Begin() const override { return nullptr; }
};

class ConstraintCacheTest : public testing::Test {
 protected:
  Result<Constraint> Compile(const std::string& source) {
    ++compiled_;
    EXPECT_NE(std::this_thread::get_id(), loop_thread_);
    if (source.empty()) return Error(ErrorCode::kInvalidArgument, "There is no form.");
    return Constraint(std::make_shared<Empty>());
  }
  Result<Constraint> Make(const std::string& source) {
    std::optional<Result<Constraint>> made;
    bool waits = false;
    cache_.Make(source, [&](Result<Constraint> result) {
      EXPECT_EQ(std::this_thread::get_id(), loop_thread_);
      made = std::move(result);
      if (waits) loop_.Stop();
    });
    waits = !made;
    if (waits) loop_.Run();
    return *std::move(made);
  }

  const std::thread::id loop_thread_ = std::this_thread::get_id();
  std::atomic<int> compiled_ = 0;
  net::EventLoop loop_;
  ConstraintCache cache_{loop_, [this](const std::string& source) { return Compile(source); }};
};

TEST_F(ConstraintCacheTest, AFormIsCompiledOnce) {
  const Constraint first = Make("a").value();
  EXPECT_EQ(Make("a").value(), first);
  EXPECT_NE(Make("b").value(), first);
  EXPECT_EQ(Make("a").value(), first);
  EXPECT_EQ(compiled_, 2);
}

TEST_F(ConstraintCacheTest, WhatCannotBeFollowedIsNotKept) {
  EXPECT_EQ(Make("").error().message(), "There is no form.");
  EXPECT_FALSE(Make("").ok());
  EXPECT_EQ(compiled_, 2);
}

TEST_F(ConstraintCacheTest, TheOneThatWasUsedTheLongestTimeAgoGoes) {
  const Constraint first = Make("first").value();
  for (int i = 0; i < 63; ++i) (void)Make(std::to_string(i));
  EXPECT_EQ(Make("first").value(), first);
  (void)Make("one more");
  EXPECT_EQ(compiled_, 65);
  EXPECT_EQ(Make("first").value(), first);
  EXPECT_EQ(compiled_, 65);
  (void)Make("0");
  EXPECT_EQ(compiled_, 66) << "it made room";
}

}  // namespace
}  // namespace weft::server
