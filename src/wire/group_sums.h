// What a device's neuron groups add up to, in fragments that each fit a datagram, and the hub's
// account of them. A lost fragment is missing in its own columns only; no group is counted twice.
//
//   body of DatagramType::kSums, little-endian
//   0  u32  step: which exchange of the hub, so that an answer cannot be taken for another's
//   4  u16  layer
//   6  u8   block: 0 attention, 1 MLP
//   7  u8   0
//   8  u16  row of the exchange
//   10 u16  fragment: columns [fragment * kFragmentColumns, ...), the last one may be shorter
//   12 u16  bytes of the set of groups that are in this sum, 1 to kMaxGroupSetBytes
//   14 u16  0
//   16      the set: group g is bit g % 8 of byte g / 8
//   ...     f32 [columns of the fragment]
//
//   body of DatagramType::kSent: the first 8 bytes of those
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "wire/datagram.h"

namespace weft::wire {

inline constexpr size_t kSumsHeadBytes = 16;
inline constexpr size_t kMaxGroupSetBytes = 64;  // 512 groups
inline constexpr uint32_t kFragmentColumns = 256;
static_assert(kSumsHeadBytes + kMaxGroupSetBytes + kFragmentColumns * 4 <= kMaxDatagramBodyBytes);

// A set of the groups of a block.
class GroupSet {
 public:
  explicit GroupSet(uint32_t groups) : bytes_((groups + 7) / 8, 0), groups_(groups) {}
  // Nothing if bits beyond the groups are set, or it is longer. A device may leave out bytes behind
  // its last group: it need not know how many there are.
  static std::optional<GroupSet> FromBytes(ByteSpan bytes, uint32_t groups);

  void Add(uint32_t group) { bytes_[group / 8] |= static_cast<uint8_t>(1u << (group % 8)); }
  bool Has(uint32_t group) const { return (bytes_[group / 8] >> (group % 8) & 1) != 0; }
  void AddAll(const GroupSet& other);
  bool Overlaps(const GroupSet& other) const;
  bool Within(const GroupSet& other) const;
  uint32_t Count() const;
  uint32_t groups() const { return groups_; }
  ByteSpan bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
  uint32_t groups_ = 0;
};

// The exchange that sums belong to.
struct SumsOf {
  uint32_t step = 0;
  uint16_t layer = 0;
  uint8_t block = 0;
  bool operator==(const SumsOf&) const = default;
};
inline constexpr size_t kSumsOfBytes = 8;
inline constexpr uint8_t kMlpBlock = 1;

std::vector<uint8_t> SentBody(const SumsOf& of);
// Of a body of kSums or kSent; nothing where it is too short.
std::optional<SumsOf> ReadSumsOf(ByteSpan body);

// The bodies that carry one row of a device.
// REQUIRES: at most 8 * kMaxGroupSetBytes groups and 65,536 fragments.
std::vector<std::vector<uint8_t>> SumsBodies(const SumsOf& of, uint16_t row, const GroupSet& groups,
                                             std::span<const float> values);

// What became of a body.
enum class SumsOutcome : uint8_t {
  kCounted,
  kMalformed,  // lengths or fields that cannot be, or a value that so many groups cannot add up to
  kElsewhere,  // of another step, layer or block: late, or early
  kNotAsked,   // groups that the device was not asked for, a row or columns that there are not
  kRepeated,   // some of its groups are in these columns already
};
inline constexpr size_t kSumsOutcomes = 5;
std::string_view SumsOutcomeName(SumsOutcome outcome);

// The sums of one exchange on the hub.
class GroupSums {
 public:
  // `largest`: no value of a group's output is further from 0; 0: that is not known.
  GroupSums(const SumsOf& of, uint32_t rows, uint32_t columns, uint32_t groups, float largest = 0);

  // A body from a device that was asked for these groups, or the hub's own sums. Only kCounted
  // changes anything.
  SumsOutcome Add(ByteSpan body, const GroupSet& asked);

  bool complete() const { return missing_ == 0; }
  // Groups that no sum of these columns holds, over all rows and fragments, and how many there are:
  // missing() / pairs() of the block's output is lost.
  uint64_t missing() const { return missing_; }
  uint64_t pairs() const { return uint64_t{rows_} * fragments_ * groups_; }
  // Whether these groups are in all columns of all rows.
  bool HasAll(const GroupSet& groups) const;
  // Of the pairs, those of this group that are missing.
  uint32_t MissingOf(uint32_t group) const;
  // Groups that are missing in some columns of the row.
  std::vector<uint32_t> MissingGroups(uint32_t row) const;
  // [rows, columns]; what is missing is 0.
  std::span<const float> values() const { return values_; }

 private:
  SumsOf of_;
  uint32_t rows_ = 0, columns_ = 0, groups_ = 0, fragments_ = 0;
  float largest_ = 0;
  std::vector<GroupSet> counted_;  // [rows, fragments]
  std::vector<float> values_;
  uint64_t missing_ = 0;
};

}  // namespace weft::wire
