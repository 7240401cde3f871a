#include "net/websocket.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket.hpp>
#include <deque>
#include <utility>

#include "net/write_watch.h"

namespace weft::net {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using beast::error_code;

namespace {

constexpr size_t kLongestReason = 120;  // a close frame holds 123 bytes
// Clients mask what they send, so many bytes at a time, and write each lot by itself. With Beast's
// 4,096 a row of 2,048 columns in f32 was three segments instead of one.
constexpr size_t kMaskedBytes = 64 * 1024;

// What both ends have in common of ServerLimits and WebSocketClientLimits.
struct Limits {
  size_t message_bytes = 0;
  size_t queue_bytes = 0;
  size_t all_queue_bytes = SIZE_MAX;
  Duration handshake;
  Duration silence;  // 0: never
  Duration write_stall;
  Duration close_linger;
};

// Lifetime: a timer holds the connection from Start until a moment after Finish, when what was
// pending has failed. Operations hold it weakly: Beast parks those that wait for one another inside
// the stream (a peer that breaks the protocol during a close makes the read wait for the close and
// the close for the read), where nothing ends them but the stream's own end.
class WebSocketConnection : public WebSocket,
                            public std::enable_shared_from_this<WebSocketConnection> {
 public:
  WebSocketConnection(AnyStream stream, const Limits& limits, std::string remote_address,
                      std::shared_ptr<ConnectionPlace> place)
      : socket_(std::move(stream)),
        limits_(limits),
        silence_(limits.silence),
        remote_address_(std::move(remote_address)),
        place_(std::move(place)),
        write_watch_(socket_.get_executor(), limits.write_stall),
        close_timer_(socket_.get_executor()),
        hold_timer_(socket_.get_executor()) {
    socket_.read_message_max(limits.message_bytes);
    socket_.auto_fragment(false);
    socket_.write_buffer_bytes(kMaskedBytes);
    socket_.binary(true);
    SetTimeouts();
  }

  websocket::stream<AnyStream>& stream() { return socket_; }

  void Start(const WebSocketOpened& on_open) {
    hold_timer_.expires_at(asio::steady_timer::time_point::max());
    Hold();
    callbacks_ = on_open(shared_from_this());
    if (!callbacks_.on_message) return Close("nobody waits for it any more");
    Read();
  }

  void Send(std::vector<Slice> pieces) override {
    if (closing_ || finished_) return;
    size_t byte_count = 0;
    for (const Slice& piece : pieces) byte_count += piece.byte_count();
    if (!HasRoomFor(byte_count)) {
      Finish("the peer reads too slowly: more than " + HumanBytes(limits_.queue_bytes) +
             " wait to be sent to it, or too much to all");
      return;
    }
    SetQueuedBytes(queued_bytes_ + byte_count);
    queue_.push_back({std::move(pieces), byte_count});
    if (queue_.size() > 1) return;
    Write();
    WatchWrites();
  }

  // A peer that takes nothing, or never answers the close frame, is left after the linger time.
  using WebSocket::Close;
  void Close(std::string reason, uint16_t code) override {
    if (closing_ || finished_) return;
    closing_ = true;
    close_code_ = code;
    close_reason_ = reason.substr(0, kLongestReason);
    close_timer_.expires_after(std::chrono::microseconds(limits_.close_linger.us));
    close_timer_.async_wait([weak = weak_from_this()](const error_code& error) {
      const auto self = weak.lock();
      if (self && !error) self->Finish(self->close_reason_);
    });
    if (queue_.empty()) SendClose();
  }

  // Beast reads it when the head of the next frame is there.
  void SetMessageLimit(size_t byte_count) override { socket_.read_message_max(byte_count); }

  void SetAllowance(std::optional<size_t> byte_count) override {
    socket_.next_layer().SetReadAllowance(byte_count);
  }

  void SetReading(bool reads) override {
    reads_ = reads;
    if (!reads || !std::exchange(is_parked_, false) || finished_ || closing_) return;
    Read();
  }

  void SetSilence(Duration silence) override {
    if (closing_ || finished_) return;
    silence_ = silence;
    SetTimeouts();
  }

  std::string remote_address() const override { return remote_address_; }
  size_t queued_bytes() const override { return queued_bytes_; }

 private:
  struct Message {
    std::vector<Slice> pieces;
    size_t byte_count = 0;
  };

  // The idle timeout counts from the last byte that came. Keep-alive pings are off: the protocol on
  // top has its own, and a peer that answers only Beast's would still be of no use.
  void SetTimeouts() {
    websocket::stream_base::timeout timeout;
    timeout.handshake_timeout = std::chrono::microseconds(limits_.handshake.us);
    timeout.idle_timeout =
        silence_.us > 0 ? std::chrono::microseconds(silence_.us) : websocket::stream_base::none();
    timeout.keep_alive_pings = false;
    socket_.set_option(timeout);
  }

  void Hold() {
    hold_timer_.async_wait([self = shared_from_this()](const error_code&) {});
  }

  bool HasRoomFor(size_t byte_count) const {
    if (place_) return MayQueue(*place_, byte_count, limits_.queue_bytes, limits_.all_queue_bytes);
    return byte_count <= limits_.queue_bytes && queued_bytes_ <= limits_.queue_bytes - byte_count;
  }

  void SetQueuedBytes(size_t byte_count) {
    queued_bytes_ = byte_count;
    if (place_) place_->SetQueuedBytes(byte_count);
  }

  void Read() {
    // A piece at a time, and none once a close has begun: the close reads what still comes itself,
    // and Beast asserts when it finds a message half read by both.
    socket_.async_read_some(buffer_, 0, [weak = weak_from_this()](const error_code& error, size_t) {
      if (const auto self = weak.lock()) self->OnRead(error);
    });
  }

  void OnRead(const error_code& error) {
    if (finished_ || closing_) return;
    if (error == websocket::error::closed) TellCloseFrame();
    if (error) return Finish(ReasonOf(error));
    if (!socket_.is_message_done()) return Read();
    auto held = std::make_shared<beast::flat_buffer>(std::move(buffer_));
    buffer_ = beast::flat_buffer();
    const auto data = held->cdata();
    const ByteSpan bytes(static_cast<const uint8_t*>(data.data()), data.size());
    callbacks_.on_message(Slice(std::move(held), bytes));
    if (finished_ || closing_) return;
    is_parked_ = !reads_;
    if (reads_) Read();
  }

  std::string ReasonOf(const error_code& error) const {
    if (error == beast::error::timeout) {
      return "nothing came for " + std::to_string(silence_.us / 1000) + " ms";
    }
    if (error == asio::error::no_buffer_space) return "the peer sent more than it may";
    if (error != websocket::error::closed) return error.message();
    const auto& reason = socket_.reason().reason;
    return reason.empty() ? "closed by the peer" : std::string(reason.data(), reason.size());
  }

  void TellCloseFrame() {
    const websocket::close_reason& said = socket_.reason();
    if (callbacks_.on_close_frame)
      callbacks_.on_close_frame(said.code, std::string(said.reason.data(), said.reason.size()));
  }

  void Write() {
    std::vector<asio::const_buffer> buffers;
    for (const Slice& piece : queue_.front().pieces) {
      buffers.emplace_back(piece.bytes().data(), piece.byte_count());
    }
    socket_.async_write(buffers, [weak = weak_from_this()](const error_code& error, size_t) {
      if (const auto self = weak.lock()) self->OnWritten(error);
    });
  }

  void WatchWrites() {
    write_watch_.Start(
        [this]() -> std::optional<Instant> {
          if (queue_.empty()) return std::nullopt;
          return socket_.next_layer().last_write_at();
        },
        [this] {
          Finish("the peer took nothing for " + std::to_string(limits_.write_stall.us / 1000000) +
                 " s");
        });
  }

  void OnWritten(const error_code& error) {
    if (finished_) return queue_.clear();
    if (error) return Finish(ReasonOf(error));
    SetQueuedBytes(queued_bytes_ - queue_.front().byte_count);
    queue_.pop_front();
    if (!queue_.empty()) {
      Write();
    } else if (closing_) {
      SendClose();
    }
  }

  void SendClose() {
    const websocket::close_reason reason(websocket::close_code{close_code_}, close_reason_);
    socket_.async_close(reason, [weak = weak_from_this()](const error_code&) {
      if (const auto self = weak.lock()) self->Finish(self->close_reason_);
    });
  }

  void Finish(const std::string& reason) {
    if (finished_) return;
    finished_ = true;
    write_watch_.Stop();
    close_timer_.cancel();
    SetQueuedBytes(0);
    // The first message may be in the hands of a write that is under way; OnWritten drops it.
    if (queue_.size() > 1) queue_.erase(queue_.begin() + 1, queue_.end());
    socket_.next_layer().Abort();
    hold_timer_.expires_after(std::chrono::microseconds(limits_.close_linger.us));
    Hold();
    // The owner may hold this object on; its place among the connections ends here.
    place_.reset();
    const WebSocketCallbacks callbacks = std::exchange(callbacks_, {});
    if (callbacks.on_closed) callbacks.on_closed(reason);
  }

  websocket::stream<AnyStream> socket_;
  const Limits limits_;
  Duration silence_;  // 0: never
  const std::string remote_address_;
  std::shared_ptr<ConnectionPlace> place_;  // null at the client's end
  WebSocketCallbacks callbacks_;
  WriteWatch write_watch_;
  asio::steady_timer close_timer_;
  asio::steady_timer hold_timer_;
  beast::flat_buffer buffer_;
  std::deque<Message> queue_;
  size_t queued_bytes_ = 0;
  bool reads_ = true;
  bool is_parked_ = false;  // a message came, and the next one is not read yet
  bool closing_ = false;
  bool finished_ = false;
  uint16_t close_code_ = kNormalClosure;
  std::string close_reason_;
};

// 401 and 403 do not change by asking again.
Error HandshakeFailed(const std::string& address, const error_code& error,
                      const websocket::response_type& response) {
  const unsigned status = response.result_int();
  const bool is_declined = error == websocket::error::upgrade_declined;
  const std::string why =
      is_declined ? "the server answered " + std::to_string(status) + ": " + response.body()
                  : error.message();
  const bool is_final = is_declined && (status == 401 || status == 403);
  return Error(is_final ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable,
               "No WebSocket at " + address + ": " + why + ".");
}

}  // namespace

void AcceptWebSocket(AnyStream stream,
                     const beast::http::request<beast::http::string_body>& request,
                     const ServerLimits& limits, std::string remote_address,
                     std::shared_ptr<ConnectionPlace> place, WebSocketOpened on_open) {
  Limits own;
  own.message_bytes = limits.websocket_message_bytes;
  own.queue_bytes = limits.websocket_queue_bytes;
  own.all_queue_bytes = limits.all_queue_bytes;
  own.handshake = limits.handshake;
  own.write_stall = limits.write_stall;
  own.close_linger = limits.close_linger;
  auto connection = std::make_shared<WebSocketConnection>(std::move(stream), own,
                                                          std::move(remote_address), place);
  // Nobody needs to know which library and version this is.
  connection->stream().set_option(websocket::stream_base::decorator(
      [](websocket::response_type& response) { response.erase(beast::http::field::server); }));
  connection->stream().async_accept(request,
                                    [connection, place = std::move(place),
                                     on_open = std::move(on_open)](const error_code& error) {
                                      if (!error && !place->server_is_gone())
                                        connection->Start(on_open);
                                    });
}

void RequestWebSocket(AnyStream stream, const std::string& host, const std::string& target,
                      Headers headers, const WebSocketClientLimits& limits, WebSocketOpened on_open,
                      std::function<void(Error)> on_failed) {
  Limits own;
  own.message_bytes = limits.message_bytes;
  own.queue_bytes = limits.queue_bytes;
  own.handshake = limits.handshake;
  own.silence = limits.silence;
  own.write_stall = limits.write_stall;
  own.close_linger = limits.close_linger;
  auto connection = std::make_shared<WebSocketConnection>(std::move(stream), own, host, nullptr);
  connection->stream().set_option(websocket::stream_base::decorator(
      [headers = std::move(headers)](websocket::request_type& request) {
        for (const auto& [name, value] : headers) request.set(name, value);
      }));
  auto response = std::make_shared<websocket::response_type>();
  connection->stream().async_handshake(
      *response, host, target,
      [connection, response, address = host + target, on_open = std::move(on_open),
       on_failed = std::move(on_failed)](const error_code& error) {
        if (error) return on_failed(HandshakeFailed(address, error, *response));
        connection->Start(on_open);
      });
}

}  // namespace weft::net
