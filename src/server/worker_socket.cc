#include "server/worker_socket.h"

#include "base/network.h"
#include "wire/version.h"

namespace weft::server {
namespace {

// One control message, and what a browser may wrap it in.
constexpr size_t kStrangerBytes = 1 + wire::kMaxControlBytes + 1024;

}  // namespace

void LimitStranger(net::WebSocket& socket) {
  socket.SetMessageLimit(1 + wire::kMaxControlBytes);
  socket.SetAllowance(kStrangerBytes);
}

net::WebSocketCallbacks AttachWorkerSocket(SwarmHost& host, const std::string& address,
                                           bool trusted,
                                           const std::shared_ptr<net::WebSocket>& socket) {
  LimitStranger(*socket);
  // The sink holds the socket until the host forgets the worker, which it does in DetachWorker and
  // whenever it closes one: the socket's callbacks therefore name the worker, not the sink.
  WorkerSink sink;
  sink.send = [socket](std::vector<Slice> pieces) { socket->Send(std::move(pieces)); };
  sink.close = [socket](const std::string& reason) { socket->Close(reason); };
  // Comes with the accepted Connect first.
  sink.limit_messages = [socket](uint64_t byte_count) {
    socket->SetAllowance(std::nullopt);
    socket->SetMessageLimit(byte_count);
  };
  sink.send_elsewhere = [socket](std::string url) {
    socket->Close(std::move(url), net::kTryElsewhere);
  };
  sink.set_reading = [socket](bool reads) { socket->SetReading(reads); };
  // The worker's id exists once it is attached; the core's first message only goes out through the
  // sink.
  const swarm::WorkerId worker =
      host.AttachWorker(std::move(sink), address, NetworkOf(address), trusted);
  net::WebSocketCallbacks callbacks;
  const std::weak_ptr<const bool> life = host.life();
  callbacks.on_message = [&host, life, worker](Slice message) {
    if (!life.expired()) host.OnWorkerMessage(worker, std::move(message));
  };
  callbacks.on_closed = [&host, life, worker](const std::string& reason) {
    if (!life.expired()) host.DetachWorker(worker, reason);
  };
  return callbacks;
}

}  // namespace weft::server
