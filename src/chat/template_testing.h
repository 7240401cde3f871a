// For tests: chat templates as chat/detect.h asks them.
#pragma once

#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <string>
#include <utility>

#include "chat/detect.h"
#include "text/jinja/chat_template.h"

namespace weft::chat {

inline RenderTemplate RenderOf(const ChatTemplate& chat) {
  return [chat](boost::json::object variables) -> Result<std::string> {
    variables.emplace("bos_token", "<s>");
    variables.emplace("eos_token", "</s>");
    ASSIGN_OR_RETURN(QuotedText text, chat.Render(variables));
    return std::move(text.text);
  };
}

inline ChatTemplate Template(const std::string& source) {
  auto parsed = ChatTemplate::Parse(source);
  EXPECT_TRUE(parsed.ok());
  return std::move(parsed).value();
}

}  // namespace weft::chat
