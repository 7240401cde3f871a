// The bytes of a journal: a line that names the format, then records to the end of the file.
//
//   "weft journal 1 0123456789abcdef\n"          the mark of this file: 16 random hex digits
//   mark | u32 payload bytes | first 8 bytes of the payload's SHA-256 | payload     (little-endian)
//   ...
//
// A program that is killed leaves whole records; a machine that loses power may leave a torn one,
// and a disk may change any. What is not right is passed over up to the next mark. Nobody who has a
// say in what a payload holds knows the mark, so no part of a payload is taken for a record.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace weft::journal {

// Longer than any record: a prompt's token ids take at most 5 bytes for each of a body's 2^20.
inline constexpr size_t kMaxPayloadBytes = 8u << 20;
inline constexpr size_t kMarkBytes = 16;

std::string NewMark();
// REQUIRES: kMarkBytes hex digits.
std::string FormatLine(std::string_view mark);
// The payload with its frame. REQUIRES: at most kMaxPayloadBytes.
std::string EncodeRecord(std::string_view mark, std::string_view payload);

struct DecodedRecords {
  std::vector<std::string_view> payloads;  // of `file`
  size_t good_bytes = 0;                   // of the first line and of all records that are right
};
// kUnsupported: a journal of another version. kInvalidData: no journal at all.
Result<DecodedRecords> DecodeRecords(ByteSpan file);

}  // namespace weft::journal
