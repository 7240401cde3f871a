#include "net/websocket.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket.hpp>
#include <deque>

namespace weft::net {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using beast::error_code;

namespace {

class WebSocketConnection : public WebSocket,
                            public std::enable_shared_from_this<WebSocketConnection> {
 public:
  WebSocketConnection(AnyStream stream, const WebSocketLimits& limits, std::string remote_address)
      : socket_(std::move(stream)), limits_(limits), remote_address_(std::move(remote_address)) {
    socket_.read_message_max(limits.message_bytes);
    socket_.auto_fragment(false);
    socket_.binary(true);
  }

  websocket::stream<AnyStream>& stream() { return socket_; }

  void Start(const WebSocketOpened& on_open, std::function<void()> on_finished) {
    on_finished_ = std::move(on_finished);
    callbacks_ = on_open(shared_from_this());
    Read();
  }

  void Send(std::vector<Slice> pieces) override {
    if (closing_ || finished_) return;
    size_t byte_count = 0;
    for (const Slice& piece : pieces) byte_count += piece.byte_count();
    if (queued_bytes_ + byte_count > limits_.write_queue_bytes) {
      closing_ = true;
      Finish("the peer reads too slowly: more than " + HumanBytes(limits_.write_queue_bytes) +
             " wait to be sent");
      return;
    }
    queued_bytes_ += byte_count;
    queue_.push_back({std::move(pieces), byte_count});
    if (queue_.size() == 1) Write();
  }

  void Close(std::string reason) override {
    if (closing_ || finished_) return;
    closing_ = true;
    close_reason_ = reason.substr(0, 120);
    if (queue_.empty()) SendClose();
  }

  std::string remote_address() const override { return remote_address_; }

 private:
  struct Message {
    std::vector<Slice> pieces;
    size_t byte_count = 0;
  };

  void Read() {
    socket_.async_read(buffer_, [self = shared_from_this()](const error_code& error, size_t) {
      self->OnRead(error);
    });
  }

  void OnRead(const error_code& error) {
    if (finished_) return;
    if (error) {
      const std::string& said = socket_.reason().reason.c_str();
      Finish(error == websocket::error::closed ? (said.empty() ? "closed by the peer" : said)
                                               : error.message());
      return;
    }
    auto held = std::make_shared<beast::flat_buffer>(std::move(buffer_));
    buffer_ = beast::flat_buffer();
    const auto data = held->cdata();
    const ByteSpan bytes(static_cast<const uint8_t*>(data.data()), data.size());
    callbacks_.on_message(Slice(std::move(held), bytes));
    if (!finished_) Read();
  }

  void Write() {
    std::vector<asio::const_buffer> buffers;
    for (const Slice& piece : queue_.front().pieces) {
      buffers.emplace_back(piece.bytes().data(), piece.byte_count());
    }
    socket_.async_write(buffers, [self = shared_from_this()](const error_code& error, size_t) {
      self->OnWritten(error);
    });
  }

  void OnWritten(const error_code& error) {
    if (finished_) return;
    if (error) {
      Finish(error.message());
      return;
    }
    queued_bytes_ -= queue_.front().byte_count;
    queue_.pop_front();
    if (!queue_.empty()) {
      Write();
    } else if (closing_) {
      SendClose();
    }
  }

  void SendClose() {
    const websocket::close_reason reason(websocket::close_code::normal, close_reason_);
    socket_.async_close(reason, [self = shared_from_this()](const error_code&) {
      self->Finish(self->close_reason_);
    });
  }

  void Finish(const std::string& reason) {
    if (finished_) return;
    finished_ = true;
    queue_.clear();
    socket_.next_layer().Abort();
    if (callbacks_.on_closed) callbacks_.on_closed(reason);
    callbacks_ = {};
    if (on_finished_) on_finished_();
    on_finished_ = nullptr;
  }

  websocket::stream<AnyStream> socket_;
  const WebSocketLimits limits_;
  const std::string remote_address_;
  WebSocketCallbacks callbacks_;
  std::function<void()> on_finished_;
  beast::flat_buffer buffer_;
  std::deque<Message> queue_;
  size_t queued_bytes_ = 0;
  bool closing_ = false;
  bool finished_ = false;
  std::string close_reason_;
};

}  // namespace

void AcceptWebSocket(AnyStream stream, std::string request_head, const WebSocketLimits& limits,
                     std::string remote_address, WebSocketOpened on_open,
                     std::function<void()> on_finished) {
  auto connection =
      std::make_shared<WebSocketConnection>(std::move(stream), limits, std::move(remote_address));
  auto head = std::make_shared<std::string>(std::move(request_head));
  connection->stream().async_accept(
      asio::buffer(*head), [connection, head, on_open = std::move(on_open),
                            on_finished = std::move(on_finished)](const error_code& error) {
        if (error) {
          on_finished();
          return;
        }
        connection->Start(on_open, on_finished);
      });
}

void RequestWebSocket(AnyStream stream, const std::string& host, const std::string& target,
                      Headers headers, const WebSocketLimits& limits, WebSocketOpened on_open,
                      std::function<void(Error)> on_failed) {
  auto connection = std::make_shared<WebSocketConnection>(std::move(stream), limits, host);
  connection->stream().set_option(websocket::stream_base::decorator(
      [headers = std::move(headers)](websocket::request_type& request) {
        for (const auto& [name, value] : headers) request.set(name, value);
      }));
  auto response = std::make_shared<websocket::response_type>();
  connection->stream().async_handshake(
      *response, host, target,
      [connection, response, host, target, on_open = std::move(on_open),
       on_failed = std::move(on_failed)](const error_code& error) {
        if (error) {
          const unsigned status = response->result_int();
          std::string why = error.message();
          if (error == websocket::error::upgrade_declined) {
            why = "the server answered " + std::to_string(status) + ": " + response->body();
          }
          on_failed(Error(ErrorCode::kUnavailable,
                          "No WebSocket at " + host + target + ": " + why + "."));
          return;
        }
        connection->Start(on_open, nullptr);
      });
}

}  // namespace weft::net
