// libedit behind one class. It takes bytes for characters unless the locale says UTF-8, which the
// thread that reads gets for the time of a line: the program's own locale stays as it is.
#include "apps/line_input.h"

#include <histedit.h>
#include <locale.h>
#include <unistd.h>

#include <string_view>

namespace weft::apps {

namespace {

constexpr int kKeptLines = 1000;

class Utf8Locale {
 public:
  Utf8Locale() : locale_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (locale_ != nullptr) before_ = uselocale(locale_);
  }
  ~Utf8Locale() {
    if (locale_ == nullptr) return;
    uselocale(before_);
    freelocale(locale_);
  }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  const locale_t locale_;  // null where the system has none
  locale_t before_ = nullptr;
};

std::optional<std::string> ReadPlain(std::FILE* in) {
  std::string line;
  for (int byte = std::fgetc(in); byte != EOF; byte = std::fgetc(in)) {
    if (byte == '\n') return line;
    line += static_cast<char>(byte);
  }
  if (line.empty()) return std::nullopt;
  return line;
}

}  // namespace

struct LineInput::Editor {
  Editor(std::FILE* in, std::FILE* out) : lines(history_init()) {
    HistEvent event;
    history(lines, &event, H_SETSIZE, kKeptLines);
    history(lines, &event, H_SETUNIQUE, 1);
    line = el_init("weft", in, out, out);
    el_set(line, EL_CLIENTDATA, this);
    el_set(line, EL_PROMPT, &Editor::Prompt);
    el_set(line, EL_EDITOR, "emacs");
    el_set(line, EL_HIST, history, lines);
    el_set(line, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_set(line, EL_BIND, "\\e[3~", "ed-delete-next-char", nullptr);
    el_source(line, nullptr);  // the user's own ~/.editrc
  }
  ~Editor() {
    el_end(line);
    history_end(lines);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  static char* Prompt(EditLine* line) {
    void* self = nullptr;
    el_get(line, EL_CLIENTDATA, &self);
    return static_cast<Editor*>(self)->prompt.data();
  }

  std::optional<std::string> Read() {
    el_resize(line);  // the window may have another size
    int count = 0;
    const char* const text = el_gets(line, &count);
    if (text == nullptr || count <= 0) return std::nullopt;
    std::string_view typed(text, static_cast<size_t>(count));
    if (typed.ends_with('\n')) typed.remove_suffix(1);
    if (!typed.empty()) {
      HistEvent event;
      history(lines, &event, H_ENTER, std::string(typed).c_str());
    }
    return std::string(typed);
  }

  History* const lines;
  EditLine* line = nullptr;
  std::string prompt;
};

LineInput::LineInput(std::FILE* in, std::FILE* out) : in_(in) {
  if (isatty(fileno(in)) == 0 || isatty(fileno(out)) == 0) return;
  const Utf8Locale locale;
  editor_ = std::make_unique<Editor>(in, out);
}

LineInput::~LineInput() = default;

std::optional<std::string> LineInput::Read(const std::string& prompt) {
  if (!editor_) return ReadPlain(in_);
  const Utf8Locale locale;
  editor_->prompt = prompt;
  return editor_->Read();
}

}  // namespace weft::apps
