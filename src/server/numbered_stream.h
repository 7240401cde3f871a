// NumberedStream: a stream of server-sent events whose events have numbers, so that a client that
// lost it can go on where it was:
//
//   id: 17
//   data: {"choices":[{"delta":{"content":" mat"}}]}
//
// The same request with the same Idempotency-Key has the same events at any server, so their count
// is their id. Comments have none: they come at other moments each time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/openai_request.h"
#include "net/http.h"

namespace weft::server {

// Reads the header Last-Event-ID; 0 where there is none. 400: it is no number, or the request has
// no Idempotency-Key (`key`) by which its answer would be the same again.
api::ApiResult<uint64_t> ParseLastEventId(std::string_view header, std::string_view key);

class NumberedStream : public net::Responder {
 public:
  // Leaves out events up to `known`, which the client has. `responder`: of a stream of events.
  NumberedStream(std::shared_ptr<net::Responder> responder, uint64_t known)
      : responder_(std::move(responder)), known_(known) {}

  void Send(net::HttpResponse response) override { responder_->Send(std::move(response)); }
  void StartStream(int status, net::Headers headers) override {
    responder_->StartStream(status, std::move(headers));
  }
  void Write(std::string chunk) override;
  void End() override { responder_->End(); }
  void OnClosed(std::function<void()> callback) override {
    responder_->OnClosed(std::move(callback));
  }

 private:
  const std::shared_ptr<net::Responder> responder_;
  const uint64_t known_;
  uint64_t count_ = 0;  // of events
};

}  // namespace weft::server
