// What the kernel alone costs a server for one hop on loopback: one message in, one message out, by
// epoll, without any work between them. The floor under `./dev bench swarm`'s CPU time per hop.
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <thread>

#include "base/check.h"

namespace weft {
namespace {

constexpr size_t kMessageBytes = 600;  // one row of 256 f16 columns with its frame

// Two connected TCP sockets: the first is the server's.
std::array<int, 2> ConnectedPair() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t bytes = sizeof(address);
  CHECK(bind(listener, generic, bytes) == 0 && listen(listener, 1) == 0);
  CHECK(getsockname(listener, generic, &bytes) == 0);
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(client, generic, bytes) == 0);
  const int server = accept(listener, nullptr, nullptr);
  close(listener);
  for (const int one : {client, server}) {
    const int yes = 1;
    CHECK(setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) == 0);
  }
  return {server, client};
}

double ThreadCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

bool ReadAll(int from, char* bytes, int flags) {
  size_t done = 0;
  while (done < kMessageBytes) {
    const ssize_t count = recv(from, bytes + done, kMessageBytes - done, flags);
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

// Google Benchmark's CPU column is this thread's: the server's side of the hop.
void LoopbackHop(benchmark::State& state) {
  const auto [server, client] = ConnectedPair();
  std::thread peer([client = client, pause = state.range(0)] {
    std::array<char, kMessageBytes> message{};
    while (usleep(static_cast<useconds_t>(pause)) == 0 &&
           send(client, message.data(), message.size(), MSG_NOSIGNAL) > 0 &&
           ReadAll(client, message.data(), 0)) {
    }
  });
  const int poll = epoll_create1(0);
  epoll_event wanted{};
  wanted.events = EPOLLIN | EPOLLET;
  CHECK(epoll_ctl(poll, EPOLL_CTL_ADD, server, &wanted) == 0);
  std::array<char, kMessageBytes> message{};
  const double begin = ThreadCpuSeconds();
  for (auto _ : state) {
    epoll_event event{};
    CHECK(epoll_wait(poll, &event, 1, -1) == 1);
    CHECK(ReadAll(server, message.data(), 0));
    CHECK(send(server, message.data(), message.size(), MSG_NOSIGNAL) > 0);
  }
  state.counters["cpu_us_per_hop"] = benchmark::Counter((ThreadCpuSeconds() - begin) * 1e6 /
                                                        static_cast<double>(state.iterations()));
  shutdown(server, SHUT_RDWR);
  peer.join();
  for (const int one : {server, client, poll}) close(one);
}
// range: microseconds that the peer sleeps before it answers, as a worker computes for a while.
BENCHMARK(LoopbackHop)->Arg(0)->Arg(1000)->Arg(50000)->UseRealTime();

}  // namespace
}  // namespace weft

BENCHMARK_MAIN();
