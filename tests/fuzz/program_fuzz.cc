// Programs from outside: never a crash, and what is accepted survives a round trip.
#include "program/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  const auto program = weft::program::Decode({data, byte_count});
  if (!program.ok()) return 0;
  const auto bytes = weft::program::Encode(*program);
  const auto again = weft::program::Decode(bytes);
  CHECK(again.ok(), again.error().ToString());
  CHECK(weft::program::Encode(*again) == bytes);
  return 0;
}
