#include "wire/group_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace weft::wire {
namespace {

uint32_t Fragments(uint32_t columns) {
  return (columns + kFragmentColumns - 1) / kFragmentColumns;
}

}  // namespace

std::optional<GroupSet> GroupSet::FromBytes(ByteSpan bytes, uint32_t groups) {
  GroupSet set(groups);
  if (bytes.size() > set.bytes_.size()) return std::nullopt;
  std::ranges::copy(bytes, set.bytes_.begin());
  for (uint32_t beyond = groups; beyond < 8 * set.bytes_.size(); ++beyond)
    if (set.Has(beyond)) return std::nullopt;
  return set;
}

void GroupSet::AddAll(const GroupSet& other) {
  for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] |= other.bytes_[i];
}

bool GroupSet::Overlaps(const GroupSet& other) const {
  for (size_t i = 0; i < bytes_.size(); ++i)
    if ((bytes_[i] & other.bytes_[i]) != 0) return true;
  return false;
}

bool GroupSet::Within(const GroupSet& other) const {
  for (size_t i = 0; i < bytes_.size(); ++i)
    if ((bytes_[i] & ~other.bytes_[i]) != 0) return false;
  return true;
}

uint32_t GroupSet::Count() const {
  uint32_t count = 0;
  for (const uint8_t byte : bytes_) count += static_cast<uint32_t>(std::popcount(byte));
  return count;
}

std::string_view SumsOutcomeName(SumsOutcome outcome) {
  static constexpr std::string_view kNames[kSumsOutcomes] = {"counted", "malformed", "elsewhere",
                                                             "not_asked", "repeated"};
  return kNames[static_cast<size_t>(outcome)];
}

std::vector<uint8_t> SentBody(const SumsOf& of) {
  std::vector<uint8_t> body(kSumsOfBytes, 0);
  StoreLe(body.data(), of.step);
  StoreLe(body.data() + 4, of.layer);
  body[6] = of.block;
  return body;
}

std::optional<SumsOf> ReadSumsOf(ByteSpan body) {
  if (body.size() < kSumsOfBytes || body[7] != 0) return std::nullopt;
  return SumsOf{LoadLe<uint32_t>(body.data()), LoadLe<uint16_t>(body.data() + 4), body[6]};
}

std::vector<std::vector<uint8_t>> SumsBodies(const SumsOf& of, uint16_t row, const GroupSet& groups,
                                             std::span<const float> values) {
  CHECK(!groups.bytes().empty() && groups.bytes().size() <= kMaxGroupSetBytes);
  std::vector<std::vector<uint8_t>> bodies;
  for (size_t first = 0; first < values.size(); first += kFragmentColumns) {
    const auto columns =
        values.subspan(first, std::min<size_t>(kFragmentColumns, values.size() - first));
    std::vector<uint8_t> body = SentBody(of);
    body.resize(kSumsHeadBytes, 0);
    StoreLe(body.data() + 8, row);
    StoreLe(body.data() + 10, static_cast<uint16_t>(first / kFragmentColumns));
    StoreLe(body.data() + 12, static_cast<uint16_t>(groups.bytes().size()));
    body.insert(body.end(), groups.bytes().begin(), groups.bytes().end());
    const ByteSpan bytes = AsBytes(columns);
    body.insert(body.end(), bytes.begin(), bytes.end());
    bodies.push_back(std::move(body));
  }
  return bodies;
}

GroupSums::GroupSums(const SumsOf& of, uint32_t rows, uint32_t columns, uint32_t groups,
                     float largest)
    : of_(of),
      rows_(rows),
      columns_(columns),
      groups_(groups),
      fragments_(Fragments(columns)),
      largest_(largest),
      counted_(size_t{rows} * fragments_, GroupSet(groups)),
      values_(size_t{rows} * columns, 0.0f),
      missing_(pairs()) {}

SumsOutcome GroupSums::Add(ByteSpan body, const GroupSet& asked) {
  const std::optional<SumsOf> of = ReadSumsOf(body);
  if (!of || body.size() < kSumsHeadBytes || LoadLe<uint16_t>(body.data() + 14) != 0)
    return SumsOutcome::kMalformed;
  if (*of != of_) return SumsOutcome::kElsewhere;
  const uint32_t row = LoadLe<uint16_t>(body.data() + 8);
  const uint32_t fragment = LoadLe<uint16_t>(body.data() + 10);
  const size_t set_bytes = LoadLe<uint16_t>(body.data() + 12);
  if (row >= rows_ || fragment >= fragments_) return SumsOutcome::kNotAsked;
  const uint32_t first = fragment * kFragmentColumns;
  const uint32_t columns = std::min(kFragmentColumns, columns_ - first);
  if (body.size() != kSumsHeadBytes + set_bytes + size_t{columns} * 4)
    return SumsOutcome::kMalformed;
  const auto groups = GroupSet::FromBytes(body.subspan(kSumsHeadBytes, set_bytes), groups_);
  if (!groups || groups->Count() == 0) return SumsOutcome::kMalformed;
  if (!groups->Within(asked)) return SumsOutcome::kNotAsked;
  GroupSet& counted = counted_[size_t{row} * fragments_ + fragment];
  if (counted.Overlaps(*groups)) return SumsOutcome::kRepeated;
  std::vector<float> values(columns);
  std::memcpy(values.data(), body.data() + kSumsHeadBytes + set_bytes, values.size() * 4);
  const float largest = largest_ > 0 ? largest_ * static_cast<float>(groups->Count())
                                     : std::numeric_limits<float>::max();
  // No comparison with a NaN is true.
  if (!std::ranges::all_of(values, [&](float value) { return std::abs(value) <= largest; }))
    return SumsOutcome::kMalformed;
  counted.AddAll(*groups);
  missing_ -= groups->Count();
  float* const sums = values_.data() + size_t{row} * columns_ + first;
  for (size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
  return SumsOutcome::kCounted;
}

bool GroupSums::HasAll(const GroupSet& groups) const {
  return std::ranges::all_of(counted_,
                             [&](const GroupSet& counted) { return groups.Within(counted); });
}

uint32_t GroupSums::MissingOf(uint32_t group) const {
  return static_cast<uint32_t>(std::ranges::count_if(
      counted_, [group](const GroupSet& counted) { return !counted.Has(group); }));
}

std::vector<uint32_t> GroupSums::MissingGroups(uint32_t row) const {
  std::vector<uint32_t> missing;
  for (uint32_t group = 0; group < groups_; ++group) {
    bool everywhere = true;
    for (uint32_t fragment = 0; fragment < fragments_; ++fragment)
      everywhere &= counted_[size_t{row} * fragments_ + fragment].Has(group);
    if (!everywhere) missing.push_back(group);
  }
  return missing;
}

}  // namespace weft::wire
