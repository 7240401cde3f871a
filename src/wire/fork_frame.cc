#include "wire/fork_frame.h"

#include "base/sentence.h"
#include "wire/version.h"

namespace weft::wire {
namespace {

Error BadFork(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

}  // namespace

bool IsForkFrame(ByteSpan message) {
  return message.size() >= sizeof(uint32_t) && LoadLe<uint32_t>(message.data()) == kForkMagic;
}

std::vector<uint8_t> EncodeFork(const Fork& fork) {
  std::vector<uint8_t> bytes(kForkBytes);
  uint8_t* at = bytes.data();
  StoreLe<uint32_t>(at, kForkMagic);
  StoreLe<uint16_t>(at + 4, static_cast<uint16_t>(kProtocolVersion));
  StoreLe<uint32_t>(at + 8, fork.binding);
  StoreLe<uint16_t>(at + 12, fork.stage);
  StoreLe<uint32_t>(at + 16, fork.from);
  StoreLe<uint32_t>(at + 20, fork.session);
  StoreLe<uint32_t>(at + 24, fork.generation);
  StoreLe<uint32_t>(at + 28, fork.position_count);
  return bytes;
}

Result<Fork> DecodeFork(ByteSpan message) {
  if (message.size() != kForkBytes || !IsForkFrame(message))
    return BadFork(Sentence("The message is no fork frame: it has ", message.size(),
                            " bytes, expected ", kForkBytes, " that begin with \"WFRK\"."));
  const uint8_t* at = message.data();
  const uint16_t version = LoadLe<uint16_t>(at + 4);
  if (version != kProtocolVersion)
    return BadFork(Sentence("The fork frame has protocol version ", version, ", expected ",
                            kProtocolVersion, "."));
  for (const size_t zero : {6, 14})
    if (LoadLe<uint16_t>(at + zero) != 0)
      return BadFork(Sentence("The fork frame has ", LoadLe<uint16_t>(at + zero), " at byte ", zero,
                              ", expected 0."));
  Fork fork;
  fork.binding = LoadLe<uint32_t>(at + 8);
  fork.stage = LoadLe<uint16_t>(at + 12);
  fork.from = LoadLe<uint32_t>(at + 16);
  fork.session = LoadLe<uint32_t>(at + 20);
  fork.generation = LoadLe<uint32_t>(at + 24);
  fork.position_count = LoadLe<uint32_t>(at + 28);
  if (fork.from == fork.session)
    return BadFork(Sentence("The fork frame shares session ", fork.from,
                            " with itself, expected another one."));
  if (fork.position_count == 0)
    return BadFork("The fork frame shares 0 positions, expected at least 1.");
  return fork;
}

}  // namespace weft::wire
