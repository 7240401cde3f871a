// Datagrams and sums from a peer: opening never crashes, nothing that was not sealed is accepted,
// and a body that is counted is counted once.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "wire/datagram.h"
#include "wire/group_sums.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  using namespace weft;
  const ByteSpan bytes(data, byte_count);
  const AeadKey key{};
  const wire::DatagramChannel channel{1, 2};
  wire::DatagramOpener opener(channel, key);
  // With a key that is known a fuzzer can still not make up 16 bytes of tag.
  CHECK(!opener.Open(bytes) && opener.accepted() == 0);

  const ByteSpan body = bytes.first(std::min(byte_count, wire::kMaxDatagramBodyBytes));
  wire::DatagramSealer sealer(channel, key);
  const std::vector<uint8_t> datagram = sealer.Seal(wire::DatagramType::kSums, body);
  const auto opened = opener.Open(datagram);
  CHECK(opened && std::equal(body.begin(), body.end(), opened->body.begin(), opened->body.end()));
  CHECK(!opener.Open(datagram));

  wire::GroupSet asked(12);
  for (uint32_t group = 0; group < 12; group += 2) asked.Add(group);
  wire::GroupSums sums({0, 0, 0}, 2, 300, 12);
  const wire::SumsOutcome outcome = sums.Add(body, asked);
  if (outcome != wire::SumsOutcome::kCounted) {
    CHECK(sums.missing() == sums.pairs());
    return 0;
  }
  CHECK(sums.missing() < sums.pairs() && sums.missing() + 6 >= sums.pairs());
  CHECK(sums.Add(body, asked) == wire::SumsOutcome::kRepeated);
  return 0;
}
