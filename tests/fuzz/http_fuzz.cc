// What strangers send to the HTTP port, through the real connection over a pair of sockets: never a
// crash, no request that the server promises not to pass on, only HTTP back, and nothing left of
// the connection once the client has gone. The first byte says in which pieces the bytes come.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "net/http_connection.h"
#include "net/loop.h"
#include "socket_pair.h"

namespace {

using namespace weft;

// Answers at once, as a stream, or only when the client has said everything; takes WebSockets and
// sends back what they say.
class Handler : public net::ServerHandler {
 public:
  void OnRequest(net::HttpRequest request, std::shared_ptr<net::Responder> responder) override {
    CheckRequest(request);
    if (request.path == "/later") return late_.push_back(std::move(responder));
    if (request.path == "/dropped") return;
    if (request.path == "/stream") {
      responder->StartStream(200, {{"Content-Type", "text/event-stream"}});
      responder->Write("data: x\n\n");
      return responder->End();
    }
    responder->Send(net::TextResponse(200, "text/plain", request.body));
  }
  bool OnHandshake(const net::HttpRequest& request, net::HttpResponse* refusal) override {
    CheckRequest(request);
    if (request.path == "/worker") return true;
    *refusal = net::TextResponse(404, "text/plain", "");
    return false;
  }
  net::WebSocketCallbacks OnWebSocket(const net::HttpRequest&,
                                      std::shared_ptr<net::WebSocket> socket) override {
    net::WebSocketCallbacks callbacks;
    callbacks.on_message = [socket](Slice message) { socket->Send({std::move(message)}); };
    callbacks.on_closed = [](const std::string&) {};
    return callbacks;
  }
  void AnswerLateOnes() {
    for (const auto& responder : late_) responder->Send(net::TextResponse(200, "text/plain", "l"));
    late_.clear();
  }

 private:
  static void CheckRequest(const net::HttpRequest& request) {
    CHECK(request.path.starts_with("/") || (request.path == "*" && request.method == "OPTIONS"));
    CHECK((request.path + "/").find("/../") == std::string::npos);
    CHECK(request.path.find('\0') == std::string::npos);
    CHECK(request.body.size() <= 512);
    for (const auto& [name, value] : request.headers) {
      CHECK(std::none_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; }));
      CHECK(value.find_first_of("\r\n") == std::string::npos);
    }
    static_cast<void>(request.QueryValue("q"));
  }

  std::vector<std::shared_ptr<net::Responder>> late_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  if (byte_count == 0) return 0;
  const size_t piece = data[0] == 0 ? byte_count : data[0];
  std::string_view rest = AsText({data + 1, byte_count - 1});
  net::EventLoop loop;
  Handler handler;
  net::ServerOptions options;
  options.limits.header_bytes = 1024;
  options.limits.body_bytes = 512;
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const auto is_open = ServeAt(loop, ends[0], options, &handler);
  std::string reply;
  while (!rest.empty()) {
    const std::string_view next = rest.substr(0, piece);
    rest.remove_prefix(next.size());
    if (send(ends[1], next.data(), next.size(), MSG_NOSIGNAL) < 0) break;
    RunAll(loop);
    reply += Received(ends[1]);
  }
  shutdown(ends[1], SHUT_WR);
  RunAll(loop);
  handler.AnswerLateOnes();
  RunAll(loop);
  reply += Received(ends[1]);
  CHECK(reply.empty() || reply.starts_with("HTTP/1.1 "), reply);
  close(ends[1]);
  for (int turn = 0; turn < 3; ++turn) RunAll(loop);
  CHECK(is_open.expired(), "the client has gone and its connection has not");
  return 0;
}
