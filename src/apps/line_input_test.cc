// What is typed at a pseudo terminal, key by key, becomes lines.
#include "apps/line_input.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <future>

namespace weft::apps {
namespace {

TEST(LineInput, TakesLinesOfAFileAsTheyAre) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  std::fputs("one\n\nt\x7fwo", file);
  std::rewind(file);
  LineInput input(file, stderr);
  EXPECT_FALSE(input.is_terminal());
  EXPECT_EQ(input.Read("> "), "one");
  EXPECT_EQ(input.Read("> "), "");
  EXPECT_EQ(input.Read("> "), "t\x7fwo");
  EXPECT_EQ(input.Read("> "), std::nullopt);
  std::fclose(file);
}

class LineInputTerminal : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TERM", "xterm", 1);
    keyboard_ = posix_openpt(O_RDWR | O_NOCTTY);
    ASSERT_GE(keyboard_, 0);
    ASSERT_EQ(grantpt(keyboard_), 0);
    ASSERT_EQ(unlockpt(keyboard_), 0);
    const int terminal = open(ptsname(keyboard_), O_RDWR | O_NOCTTY);
    ASSERT_GE(terminal, 0);
    in_ = fdopen(terminal, "r");
    out_ = fdopen(dup(terminal), "w");
    input_ = std::make_unique<LineInput>(in_, out_);
    ASSERT_TRUE(input_->is_terminal());
  }

  void TearDown() override {
    input_.reset();
    std::fclose(in_);
    std::fclose(out_);
    close(keyboard_);
  }

  // libedit shows the prompt, then takes the keys one by one. Between the two the terminal itself
  // still collects lines: it would take Ctrl-R and Ctrl-D for its own.
  void WaitUntilKeysComeSingly() const {
    termios mode{};
    do {
      ASSERT_EQ(tcgetattr(keyboard_, &mode), 0);
    } while ((mode.c_lflag & ICANON) != 0);
  }

  // Types the keys when the prompt is there and the editor listens.
  std::optional<std::string> LineOf(const std::string& keys) {
    const std::string prompt = "line " + std::to_string(++line_count_) + "> ";
    auto line = std::async(std::launch::async, [&] { return input_->Read(prompt); });
    std::string shown;
    while (shown.find(prompt) == std::string::npos) {
      char some[256];
      const ssize_t count = read(keyboard_, some, sizeof some);
      if (count <= 0) return "the terminal is gone";
      shown.append(some, static_cast<size_t>(count));
    }
    WaitUntilKeysComeSingly();
    EXPECT_EQ(write(keyboard_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
    return line.get();
  }

  int keyboard_ = -1;
  int line_count_ = 0;
  std::FILE* in_ = nullptr;
  std::FILE* out_ = nullptr;
  std::unique_ptr<LineInput> input_;
};

TEST_F(LineInputTerminal, EditsALine) {
  EXPECT_EQ(LineOf("hello\r"), "hello");
  EXPECT_EQ(LineOf("tea\x7f\x7fo\r"), "to");
  EXPECT_EQ(LineOf("b\x01"
                   "a\x05"
                   "c\r"),
            "abc");  // to the begin, to the end
  EXPECT_EQ(LineOf("\r"), "");
}

TEST_F(LineInputTerminal, TakesCharactersNotBytes) {
  EXPECT_EQ(LineOf("a\u00fc\x7f"
                   "b\r"),
            "ab");
  EXPECT_EQ(LineOf("gr\u00fc\u00dfe \U0001F98A\r"), "gr\u00fc\u00dfe \U0001F98A");
}

TEST_F(LineInputTerminal, KnowsTheLinesBefore) {
  EXPECT_EQ(LineOf("first\r"), "first");
  EXPECT_EQ(LineOf("second\r"), "second");
  EXPECT_EQ(LineOf("\x1b[A\x1b[A!\r"), "first!");
  EXPECT_EQ(LineOf("\x12sec\r\r"), "second");  // Ctrl-R searches
}

TEST_F(LineInputTerminal, EndsAtTheEnd) {
  EXPECT_EQ(LineOf("\x04"), std::nullopt);
}

}  // namespace
}  // namespace weft::apps
