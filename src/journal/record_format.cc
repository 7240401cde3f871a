#include "journal/record_format.h"

#include <algorithm>
#include <optional>

#include "base/random.h"
#include "base/sha256.h"

namespace weft::journal {
namespace {

constexpr std::string_view kAnyFormat = "weft journal ";
constexpr std::string_view kFormat = "weft journal 1 ";
constexpr size_t kHashBytes = 8;
constexpr size_t kHeadBytes = kMarkBytes + sizeof(uint32_t) + kHashBytes;

bool IsMark(std::string_view text) {
  return text.size() == kMarkBytes && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// What the first line says where it begins as ours does, made fit for a message.
std::string VersionOf(std::string_view text) {
  std::string version;
  for (const char c : text.substr(kAnyFormat.size(), 10)) {
    if (c < '0' || c > '9') break;
    version += c;
  }
  return version.empty() ? "unknown" : version;
}

// The mark of a file that begins as a journal does.
Result<std::string_view> MarkOf(std::string_view text) {
  if (text.starts_with(kFormat)) {
    const std::string_view mark = text.substr(kFormat.size(), kMarkBytes);
    if (IsMark(mark) && text.substr(kFormat.size() + kMarkBytes).starts_with('\n')) return mark;
  } else if (text.starts_with(kAnyFormat)) {
    return Error(ErrorCode::kUnsupported,
                 "The journal has the version " + VersionOf(text) + "; this weft reads version 1.");
  }
  return Error(ErrorCode::kInvalidData,
               "The file does not begin as a journal does (\"weft journal 1\" and its mark).");
}

// The payload of the record that begins with a mark at this place; nullopt: there is none.
std::optional<std::string_view> PayloadAt(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at);
  if (rest.size() < kHeadBytes) return std::nullopt;
  const ByteSpan head = AsBytes(rest).subspan(kMarkBytes);
  const auto payload_bytes = LoadLe<uint32_t>(head.data());
  if (payload_bytes > kMaxPayloadBytes || payload_bytes > rest.size() - kHeadBytes)
    return std::nullopt;
  const std::string_view payload = rest.substr(kHeadBytes, payload_bytes);
  const Sha256Digest digest = Sha256(AsBytes(payload));
  if (!std::equal(digest.begin(), digest.begin() + kHashBytes, head.begin() + sizeof(uint32_t)))
    return std::nullopt;
  return payload;
}

}  // namespace

std::string NewMark() {
  return SecureRandomHex(kMarkBytes / 2);
}

std::string FormatLine(std::string_view mark) {
  CHECK(IsMark(mark), "the mark of a journal");
  return std::string(kFormat).append(mark) + "\n";
}

std::string EncodeRecord(std::string_view mark, std::string_view payload) {
  CHECK(payload.size() <= kMaxPayloadBytes && mark.size() == kMarkBytes);
  const Sha256Digest digest = Sha256(AsBytes(payload));
  uint8_t head[sizeof(uint32_t) + kHashBytes];
  StoreLe(head, static_cast<uint32_t>(payload.size()));
  std::copy_n(digest.begin(), kHashBytes, head + sizeof(uint32_t));
  std::string record(mark);
  record += AsText(head);
  record += payload;
  return record;
}

Result<DecodedRecords> DecodeRecords(ByteSpan file) {
  const std::string_view text = AsText(file);
  ASSIGN_OR_RETURN(const std::string_view mark, MarkOf(text));
  DecodedRecords records;
  size_t at = kFormat.size() + kMarkBytes + 1;
  records.good_bytes = at;
  while ((at = text.find(mark, at)) != std::string_view::npos) {
    const auto payload = PayloadAt(text, at);
    if (payload) records.payloads.push_back(*payload);
    const size_t record_bytes = payload ? kHeadBytes + payload->size() : 0;
    records.good_bytes += record_bytes;
    at += std::max<size_t>(record_bytes, 1);
  }
  return records;
}

}  // namespace weft::journal
