// Chat templates from outside: parsing and rendering never crash and always end; what comes out is
// UTF-8.
#include <boost/json.hpp>
#include <string>

#include "base/bytes.h"
#include "base/check.h"
#include "text/jinja/chat_template.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  using namespace weft;
  const auto chat = ChatTemplate::Parse(std::string(AsText(ByteSpan(data, byte_count))));
  if (!chat.ok()) return 0;
  static const boost::json::object kContext = {
      {"messages",
       boost::json::array{
           {{"role", "system"}, {"content", "Be brief."}},
           {{"role", "user"}, {"content", " Hello\n\xE2\x82\xAC "}},
           {{"role", "assistant"},
            {"content", nullptr},
            {"tool_calls",
             boost::json::array{{{"function", {{"name", "f"}, {"arguments", {{"x", 1}}}}}}}}}}},
      {"tools", boost::json::array{{{"type", "function"}, {"function", {{"name", "f"}}}}}},
      {"add_generation_prompt", true},
      {"bos_token", "<s>"},
      {"eos_token", "</s>"},
      {"number", 2.5}};
  RenderOptions options;
  options.limits.steps = 100'000;
  options.limits.text_bytes = 1 << 20;
  options.local_now_s = 1'721'908'800;
  const auto text = chat->Render(kContext, options);
  if (text.ok()) CHECK(utf8::FindInvalid(text->text) == std::string::npos);
  return 0;
}
