#include "registry/content_hash.h"

#include "registry/model_reference.h"

namespace weft::registry {

Result<ContentName> ContentName::Parse(std::string_view etag) {
  std::string_view text = etag;
  if (text.starts_with("W/")) text.remove_prefix(2);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  const bool is_hex = text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  if (!is_hex || (text.size() != 64 && text.size() != 40)) {
    return Error(ErrorCode::kInvalidData,
                 "The registry names the content '" + Printable(etag) +
                     "'; expected a SHA-256 (64 hexadecimal digits) or a git hash (40), since "
                     "weft uses no file that it cannot verify.");
  }
  ContentName name;
  name.hex_ = std::string(text);
  return name;
}

ContentHash::ContentHash(const ContentName& name, uint64_t byte_count) {
  if (name.is_sha256()) return;
  Sha1Stream& stream = stream_.emplace<Sha1Stream>();
  stream.Update(AsBytes("blob " + std::to_string(byte_count)));
  const uint8_t end_of_header = 0;
  stream.Update(ByteSpan(&end_of_header, 1));
}

void ContentHash::Update(ByteSpan bytes) {
  std::visit([&](auto& stream) { stream.Update(bytes); }, stream_);
}

std::string ContentHash::Finish() {
  return std::visit([](auto& stream) { return ToHex(stream.Finish()); }, stream_);
}

}  // namespace weft::registry
