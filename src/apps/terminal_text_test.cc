// Nothing that a model says steers the terminal.
#include "apps/terminal_text.h"

#include <gtest/gtest.h>

namespace weft::apps {
namespace {

TEST(TerminalText, KeepsTextAndItsLines) {
  const std::string text = "Zwei\tWörter,\n二つ, \U0001F600 e\u0301";
  EXPECT_EQ(TerminalText(text), text);
}

TEST(TerminalText, DropsWhatSteersATerminal) {
  EXPECT_EQ(TerminalText("a\x1b[2Jb"), "a[2Jb");                  // clear the screen
  EXPECT_EQ(TerminalText("\x1b]0;title\x07x"), "]0;titlex");      // rename the window
  EXPECT_EQ(TerminalText("safe\rhidden\b\b\x7f"), "safehidden");  // overwrite
  EXPECT_EQ(TerminalText("\u009b31m\u0085"), "31m");              // C1 forms of the same
  EXPECT_EQ(TerminalText("\u202emp3.exe\u2066"), "mp3.exe");      // turned around
  EXPECT_EQ(TerminalText(std::string_view("\0\xff\x9b", 3)), "\uFFFD\uFFFD");
}

}  // namespace
}  // namespace weft::apps
