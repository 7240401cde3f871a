// Bytes after a WebSocket handshake, and instead of one, at both ends and over a pair of sockets:
// never a crash, no message beyond the limit, and nothing left of the connection once the peer has
// gone. The first byte chooses: 0 frames to the server, 1 frames to the client, 2 the server's
// answer to the client's handshake.
#include <openssl/evp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/check.h"
#include "base/sha1.h"
#include "net/http_connection.h"
#include "net/loop.h"
#include "net/websocket.h"
#include "socket_pair.h"

namespace {

using namespace weft;

constexpr size_t kMessageLimit = 300;

// Sends every message back, and closes at the message "x". Counts the sockets that are open.
net::WebSocketCallbacks Echo(const std::shared_ptr<net::WebSocket>& socket, int* open_count) {
  ++*open_count;
  net::WebSocketCallbacks callbacks;
  callbacks.on_message = [socket](Slice message) {
    CHECK(message.byte_count() <= kMessageLimit);
    if (AsText(message.bytes()) == "x") return socket->Close("as you wish");
    socket->Send({std::move(message)});
  };
  callbacks.on_closed = [open_count](const std::string&) { --*open_count; };
  return callbacks;
}

class Handler : public net::ServerHandler {
 public:
  void OnRequest(net::HttpRequest, std::shared_ptr<net::Responder>) override {}
  bool OnHandshake(const net::HttpRequest&, net::HttpResponse*) override { return true; }
  net::WebSocketCallbacks OnWebSocket(const net::HttpRequest&,
                                      std::shared_ptr<net::WebSocket> socket) override {
    socket->SetMessageLimit(kMessageLimit);
    return Echo(socket, &open_count);
  }
  int open_count = 0;
};

// Closing waits for the peer for a while: here for none.
constexpr Duration kNoLinger;

// The right answer to the handshake that the client sent (RFC 6455 4.2.2).
std::string AnswerTo(const std::string& request) {
  constexpr std::string_view kName = "Sec-WebSocket-Key: ";
  const size_t begin = request.find(kName) + kName.size();
  const std::string key = request.substr(begin, request.find("\r\n", begin) - begin) +
                          "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  Sha1Stream hash;
  hash.Update(AsBytes(key));
  const Sha1Digest digest = hash.Finish();
  unsigned char accept[64] = {};
  const int count = EVP_EncodeBlock(accept, digest.data(), static_cast<int>(digest.size()));
  return "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
         "Sec-WebSocket-Accept: " +
         std::string(accept, accept + count) + "\r\n\r\n";
}

// Sends `bytes` to the other end, takes what comes, and leaves.
void TalkAndLeave(net::EventLoop& loop, int fd, std::string_view bytes) {
  send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  RunAll(loop);
  Received(fd);
  RunAll(loop);
  close(fd);
  for (int turn = 0; turn < 5; ++turn) RunAll(loop);
}

void ToServer(net::EventLoop& loop, const int (&ends)[2], std::string_view bytes) {
  Handler handler;
  net::ServerOptions options;
  options.limits.close_linger = kNoLinger;
  const auto is_open = ServeAt(loop, ends[0], options, &handler);
  const std::string handshake =
      "GET /worker HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
  TalkAndLeave(loop, ends[1], handshake + std::string(bytes));
  CHECK(handler.open_count == 0 && is_open.expired(), "the peer has gone and the socket has not");
}

void ToClient(net::EventLoop& loop, const int (&ends)[2], std::string_view bytes,
              bool with_handshake) {
  int open_count = 0;
  int failed_count = 0;
  net::WebSocketClientLimits limits;
  limits.message_bytes = kMessageLimit;
  limits.close_linger = kNoLinger;
  net::RequestWebSocket(
      StreamOf(loop, ends[0]), "x:1", "/worker", {}, limits,
      [&](std::shared_ptr<net::WebSocket> socket) { return Echo(socket, &open_count); },
      [&](const Error&) { ++failed_count; });
  RunAll(loop);
  const std::string request = Received(ends[1]);
  const std::string answer = with_handshake ? AnswerTo(request) : std::string();
  TalkAndLeave(loop, ends[1], answer + std::string(bytes));
  CHECK(open_count == 0, "the server has gone and the socket has not");
  CHECK(failed_count == (with_handshake ? 0 : 1));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  if (byte_count == 0 || data[0] > 2) return -1;
  const std::string_view bytes = AsText({data + 1, byte_count - 1});
  net::EventLoop loop;
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  if (data[0] == 0) {
    ToServer(loop, ends, bytes);
  } else {
    ToClient(loop, ends, bytes, data[0] == 1);
  }
  return 0;
}
