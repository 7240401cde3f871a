// For tests: an HTTP proxy on loopback, on plain sockets so that it shares nothing with our client.
// It passes on whole addresses and opens tunnels (CONNECT), one thread a connection.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"

namespace weft::registry {

class FakeProxy {
 public:
  FakeProxy() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at = Loopback(0);
    socklen_t bytes = sizeof(at);
    CHECK(bind(listener_, Generic(&at), bytes) == 0);
    CHECK(listen(listener_, 16) == 0);
    CHECK(getsockname(listener_, Generic(&at), &bytes) == 0);
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this] { Accept(); });
  }
  ~FakeProxy() {
    stop_ = true;
    thread_.join();
    for (std::thread& each : connections_) each.join();
    close(listener_);
  }
  FakeProxy(const FakeProxy&) = delete;
  FakeProxy& operator=(const FakeProxy&) = delete;

  // "http://user:password@127.0.0.1:port" as it stands in the environment.
  std::string address(const std::string& user = "") const {
    return "http://" + user + "127.0.0.1:" + std::to_string(port_);
  }
  // Heads of requests, as they came.
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::atomic<int> refuse_with = 0;  // a status to answer everything with

 private:
  static sockaddr_in Loopback(uint16_t port) {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
  }
  static sockaddr* Generic(sockaddr_in* at) {
    void* raw = at;
    return static_cast<sockaddr*>(raw);
  }
  bool Readable(int fd) const {
    pollfd wait = {fd, POLLIN, 0};
    while (!stop_) {
      if (poll(&wait, 1, 50) > 0) return true;
    }
    return false;
  }

  void Accept() {
    while (Readable(listener_)) {
      const int client = accept(listener_, nullptr, nullptr);
      if (client >= 0) connections_.emplace_back([this, client] { Serve(client); });
    }
  }

  void Serve(int client) {
    std::string head;
    char byte = 0;
    while (!head.ends_with("\r\n\r\n") && Readable(client) && read(client, &byte, 1) == 1) {
      head += byte;
    }
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(head);
    }
    if (refuse_with != 0) {
      Send(client, "HTTP/1.1 " + std::to_string(refuse_with) + " No\r\nContent-Length: 0\r\n\r\n");
    } else if (head.ends_with("\r\n\r\n")) {
      PassOn(client, head);
    }
    close(client);
  }

  // The target's host is 127.0.0.1 in all tests.
  void PassOn(int client, const std::string& head) {
    const bool tunnel = head.starts_with("CONNECT ");
    const size_t host = tunnel ? 8 : head.find("http://") + 7;
    const size_t path = tunnel ? head.find(' ', host) : head.find('/', host);
    const std::string authority = head.substr(host, path - host);
    uint16_t port = 0;
    const char* end = authority.data() + authority.size();
    std::from_chars(authority.data() + authority.rfind(':') + 1, end, port);
    sockaddr_in at = Loopback(port);
    const int server = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(server, Generic(&at), sizeof(at)) != 0) {
      Send(client, "HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n");
    } else if (tunnel) {
      Send(client, "HTTP/1.1 200 OK\r\n\r\n");
      Pump(client, server);
    } else {
      const size_t line = head.find("\r\n");
      Send(server, head.substr(0, head.find(' ') + 1) + head.substr(path, line - path) +
                       "\r\nConnection: close" + head.substr(line));
      Pump(client, server);
    }
    close(server);
  }

  static void Send(int fd, const std::string& text) { (void)!write(fd, text.data(), text.size()); }

  // Both ways until one side closes.
  void Pump(int a, int b) const {
    std::vector<char> piece(1 << 16);
    while (!stop_) {
      pollfd wait[2] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
      if (poll(wait, 2, 50) <= 0) continue;
      for (int i = 0; i < 2; ++i) {
        if (wait[i].revents == 0) continue;
        const ssize_t count = read(wait[i].fd, piece.data(), piece.size());
        if (count <= 0) return;
        for (ssize_t sent = 0; sent < count;) {
          const ssize_t now = send(i == 0 ? b : a, piece.data() + sent,
                                   static_cast<size_t>(count - sent), MSG_NOSIGNAL);
          if (now <= 0) return;
          sent += now;
        }
      }
    }
  }

  int listener_;
  uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
  std::vector<std::thread> connections_;  // by Accept's thread; read after its end
  std::mutex mutex_;                      // requests_
  std::vector<std::string> requests_;
};

}  // namespace weft::registry
