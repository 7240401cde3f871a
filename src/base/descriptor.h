// Descriptor: a file, a folder or a socket of the operating system, closed when it goes out of
// scope.
#pragma once

#include <unistd.h>

#include <utility>

namespace weft {

class Descriptor {
 public:
  Descriptor() = default;
  // Takes over what open, socket and so on returned; below 0: nothing was opened.
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) Close();
    fd_ = other.Release();
    return *this;
  }
  ~Descriptor() { Close(); }

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Hands it over: it stays open.
  int Release() { return std::exchange(fd_, -1); }

 private:
  void Close() const {
    if (fd_ >= 0) close(fd_);
  }

  int fd_ = -1;
};

}  // namespace weft
