// tokenizer.json from outside: never a crash; what is accepted encodes and decodes, whole and in
// parts alike.
#include <string>

#include "base/check.h"
#include "text/tokenizer/tokenizer.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  using namespace weft;
  // The file, and after a zero byte a text.
  const std::string_view input = AsText(ByteSpan(data, byte_count));
  const size_t zero = input.find('\0');
  const auto tokenizer = Tokenizer::FromJson(AsBytes(input.substr(0, zero)));
  if (!tokenizer.ok()) return 0;
  const std::string_view text = zero == std::string_view::npos
                                    ? "The text, 123 \xC3\xA9\n\n <s> </s>"
                                    : input.substr(zero + 1);
  for (const bool parse_special : {true, false}) {
    const auto ids = tokenizer->Encode(text, true, parse_special);
    if (!ids.ok()) continue;
    const std::string decoded = tokenizer->Decode(*ids, false);
    CHECK(utf8::FindInvalid(decoded) == std::string::npos);
    Detokenizer detokenizer(*tokenizer, false);
    std::string parts;
    for (const int32_t id : *ids) {
      CHECK(id >= 0 && id < tokenizer->vocab_count());
      const std::string part = detokenizer.Push(id);
      CHECK(utf8::FindInvalid(part) == std::string::npos);
      parts += part;
    }
    CHECK(parts + detokenizer.Flush() == decoded);
  }
  return 0;
}
