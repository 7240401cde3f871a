// For tests of this module: a client that keeps what it is answered, and a model's text.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>
#include <weft_source_dir.h>

#include <filesystem>
#include <map>
#include <memory>

#include "api/model_text.h"
#include "base/file.h"
#include "net/http.h"

namespace weft::server {

// That of models/weft-tiny, with a chat template of one's own where one is given.
inline std::shared_ptr<const api::ModelText> TinyText(const std::string& chat_template = "") {
  std::map<std::string, std::string> files;
  const auto folder = std::filesystem::path(WEFT_SOURCE_DIR) / "models" / "weft-tiny";
  for (const char* name : api::kTextFiles) {
    auto file = ReadTextFile(folder / name);
    if (file.ok()) files[name] = std::move(file).value();
  }
  if (!chat_template.empty()) files["chat_template.jinja"] = chat_template;
  auto loaded = api::ModelText::Load(files);
  EXPECT_TRUE(loaded.ok());
  return std::make_shared<const api::ModelText>(std::move(loaded).value());
}

class RecordingResponder : public net::Responder {
 public:
  void Send(net::HttpResponse sent) override {
    ++answers;
    status = sent.status;
    headers = sent.headers;
    for (const Slice& piece : sent.body) body += AsText(piece.bytes());
    response = std::move(sent);
  }
  void StartStream(int stream_status, net::Headers stream_headers) override {
    ++answers;
    status = stream_status;
    headers = std::move(stream_headers);
    is_stream = true;
  }
  void Write(std::string chunk) override { body += chunk; }
  void End() override { has_ended = true; }
  void OnClosed(std::function<void()> callback) override { on_closed = std::move(callback); }

  // All values of that header, as they stand; "" when there is none.
  std::string Header(std::string_view name) const {
    std::string values;
    for (const auto& [key, value] : headers) {
      if (key == name) values += (values.empty() ? "" : ", ") + value;
    }
    return values;
  }

  int answers = 0;
  int status = 0;
  net::Headers headers;
  std::string body;
  net::HttpResponse response;  // as it was sent; of a stream none
  bool is_stream = false;
  bool has_ended = false;
  std::function<void()> on_closed;
};

}  // namespace weft::server
