// Frames from a peer: decoding never crashes. What it accepts of data and fork frames encodes back
// to the same bytes; whole-model frames ignore some and survive encoding and
// decoding.
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "wire/data_frame.h"
#include "wire/fork_frame.h"
#include "wire/whole_frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  using namespace weft;
  const std::vector<uint8_t> bytes(data, data + byte_count);
  const Result<wire::WholeFrame> generate = wire::DecodeWholeFrame(bytes);
  if (generate.ok()) {
    const std::vector<uint8_t> encoded = wire::EncodeWholeFrame(*generate);
    CHECK(wire::EncodeWholeFrame(*wire::DecodeWholeFrame(encoded)) == encoded);
  }
  if (const auto fork = wire::DecodeFork(bytes); fork.ok()) CHECK(wire::EncodeFork(*fork) == bytes);
  const Result<wire::Frame> frame = wire::DecodeFrame(Slice(bytes));
  if (!frame.ok()) return 0;
  std::vector<uint8_t> again =
      wire::EncodeFrameHead(frame->header, frame->runs, frame->payload.byte_count());
  again.insert(again.end(), frame->payload.bytes().begin(), frame->payload.bytes().end());
  CHECK(again == bytes);
  const Status same = wire::CheckFrame(
      *frame, {frame->header.type, frame->header.sequence, frame->header.binding,
               frame->header.stage, frame->runs, frame->header.columns, frame->header.dtype, 1});
  (void)same.ok();
  (void)wire::DecodeArgmax(frame->payload.bytes(), 1000).ok();
  (void)wire::DecodeCandidates(frame->payload.bytes(), 3, 1000).ok();
  (void)wire::DecodeDraw(frame->payload.bytes(), 3, 1000).ok();
  return 0;
}
