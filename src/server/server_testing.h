// For tests of this module: a client that keeps what it is answered.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "net/http.h"

namespace weft::server {

class RecordingResponder : public net::Responder {
 public:
  void Send(net::HttpResponse response) override {
    ++answers;
    status = response.status;
    headers = std::move(response.headers);
    for (const Slice& piece : response.body) body += AsText(piece.bytes());
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
  bool is_stream = false;
  bool has_ended = false;
  std::function<void()> on_closed;
};

}  // namespace weft::server
