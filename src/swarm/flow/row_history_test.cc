#include "swarm/flow/row_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::swarm {
namespace {

// Rows of two bytes: the position and what it is one of.
std::vector<uint8_t> Rows(uint32_t first, uint32_t count, uint8_t mark = 0) {
  std::vector<uint8_t> rows;
  for (uint32_t i = first; i < first + count; ++i) {
    rows.push_back(static_cast<uint8_t>(i));
    rows.push_back(mark);
  }
  return rows;
}

RowHistory Kept(const std::vector<std::pair<uint32_t, uint32_t>>& blocks) {
  RowHistory history;
  for (const auto& [first, count] : blocks) history.Append(first, count, Rows(first, count));
  return history;
}

std::vector<uint8_t> ReadAll(const RowHistory& history, uint32_t first, uint32_t count) {
  std::vector<uint8_t> read;
  for (const Slice& piece : history.Read(first, count))
    read.insert(read.end(), piece.bytes().begin(), piece.bytes().end());
  return read;
}

TEST(RowHistory, BeginsEmpty) {
  const RowHistory history;
  EXPECT_EQ(history.first(), 0u);
  EXPECT_EQ(history.end(), 0u);
  EXPECT_EQ(history.byte_count(), 0u);
  EXPECT_FALSE(history.Has(0));
}

TEST(RowHistory, RowsAreReadInPiecesOfTheBlocksThatBroughtThem) {
  const RowHistory history = Kept({{0, 4}, {4, 1}, {5, 3}});
  EXPECT_EQ(history.end(), 8u);
  EXPECT_EQ(history.byte_count(), 16u);
  EXPECT_EQ(ReadAll(history, 0, 8), Rows(0, 8));
  // Every part of it, across one block or more.
  for (uint32_t first = 0; first < 8; ++first)
    for (uint32_t count = 1; first + count <= 8; ++count)
      EXPECT_EQ(ReadAll(history, first, count), Rows(first, count)) << first << " " << count;
  EXPECT_EQ(history.Read(1, 3).size(), 1u);
  EXPECT_EQ(history.Read(3, 3).size(), 3u);
}

TEST(RowHistory, WhatWasReadStaysWhateverIsForgotten) {
  RowHistory history = Kept({{0, 4}});
  const std::vector<Slice> read = history.Read(1, 2);
  history.Restart(0);
  EXPECT_EQ(std::vector(read[0].bytes().begin(), read[0].bytes().end()), Rows(1, 2));
}

// A replacement gives once more what its predecessor gave: those rows stay as they were.
TEST(RowHistory, KnownRowsAreLeftOut) {
  RowHistory history = Kept({{0, 4}});
  history.Append(1, 2, Rows(1, 2, 1));
  EXPECT_EQ(ReadAll(history, 0, 4), Rows(0, 4));
  history.Append(2, 4, Rows(2, 4, 1));
  EXPECT_EQ(history.end(), 6u);
  EXPECT_EQ(history.byte_count(), 12u);
  EXPECT_EQ(ReadAll(history, 0, 4), Rows(0, 4));
  EXPECT_EQ(ReadAll(history, 4, 2), Rows(4, 2, 1));
}

TEST(RowHistory, BehindAGapItBeginsAgain) {
  RowHistory history = Kept({{0, 4}});
  history.Append(6, 2, Rows(6, 2));
  EXPECT_EQ(history.first(), 6u);
  EXPECT_EQ(history.end(), 8u);
  EXPECT_EQ(history.byte_count(), 4u);
  EXPECT_FALSE(history.Has(5));
  EXPECT_EQ(ReadAll(history, 6, 2), Rows(6, 2));
  // In front of what it has as well: it never has two parts.
  history.Append(2, 5, Rows(2, 5, 1));
  EXPECT_EQ(history.first(), 2u);
  EXPECT_EQ(history.end(), 7u);
  EXPECT_EQ(ReadAll(history, 2, 5), Rows(2, 5, 1));
}

TEST(RowHistory, TruncateMayCutABlock) {
  RowHistory history = Kept({{0, 4}, {4, 4}});
  history.Truncate(9);
  EXPECT_EQ(history.end(), 8u);
  history.Truncate(6);
  EXPECT_EQ(history.end(), 6u);
  EXPECT_EQ(history.byte_count(), 12u);
  EXPECT_EQ(ReadAll(history, 3, 3), Rows(3, 3));
  history.Append(6, 2, Rows(6, 2, 1));
  EXPECT_EQ(ReadAll(history, 5, 1), Rows(5, 1));
  EXPECT_EQ(ReadAll(history, 6, 2), Rows(6, 2, 1));
  history.Truncate(4);  // between two blocks
  EXPECT_EQ(history.end(), 4u);
  EXPECT_EQ(history.byte_count(), 8u);
  history.Truncate(0);
  EXPECT_EQ(history.end(), 0u);
  EXPECT_EQ(history.byte_count(), 0u);
}

TEST(RowHistory, TruncateInFrontOfAllThatIsKeptLeavesAPosition) {
  RowHistory history = Kept({{0, 4}, {4, 4}});
  history.DropBefore(4);
  history.Truncate(2);
  EXPECT_EQ(history.first(), 2u);
  EXPECT_EQ(history.end(), 2u);
  EXPECT_EQ(history.byte_count(), 0u);
  history.Append(2, 1, Rows(2, 1));
  EXPECT_TRUE(history.Has(2));
}

TEST(RowHistory, DropsWholeBlocksInFrontOfAPosition) {
  RowHistory history = Kept({{0, 4}, {4, 4}, {8, 1}});
  history.DropBefore(3);
  EXPECT_EQ(history.first(), 0u) << "a block of which one row is wanted stays";
  history.DropBefore(4);
  EXPECT_EQ(history.first(), 4u);
  EXPECT_EQ(history.byte_count(), 10u);
  EXPECT_EQ(ReadAll(history, 4, 5), Rows(4, 5));
  history.DropBefore(UINT32_MAX);
  EXPECT_EQ(history.first(), 9u);
  EXPECT_EQ(history.end(), 9u);
  EXPECT_EQ(history.byte_count(), 0u);
  // The next row still continues it.
  history.Append(9, 1, Rows(9, 1));
  EXPECT_EQ(history.first(), 9u);
  EXPECT_EQ(ReadAll(history, 9, 1), Rows(9, 1));
}

TEST(RowHistory, RestartsAtAPosition) {
  RowHistory history = Kept({{0, 4}});
  history.Restart(7);
  EXPECT_EQ(history.first(), 7u);
  EXPECT_EQ(history.byte_count(), 0u);
  history.Append(5, 4, Rows(5, 4));
  EXPECT_EQ(history.first(), 5u) << "rows in front of it are a new beginning";
  EXPECT_EQ(history.end(), 9u);
}

}  // namespace
}  // namespace weft::swarm
