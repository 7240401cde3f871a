// What this machine is: its processor in words and the memory a worker offers by default.
#include <fstream>
#include <string>

#include "worker/native_worker.h"

namespace weft::worker {

std::string DescribeProcessor(uint32_t thread_count) {
  std::string text = std::to_string(thread_count) + (thread_count == 1 ? " thread" : " threads");
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    text += ", AVX-512";
  } else if (__builtin_cpu_supports("avx2")) {
    text += ", AVX2";
  }
#elif defined(__aarch64__)
  text += ", NEON";
#endif
  return text;
}

namespace {

// A line of /proc/meminfo in bytes; 2 GiB where there is none.
uint64_t MemoryInfo(const std::string& wanted) {
  std::ifstream file("/proc/meminfo");
  std::string key;
  uint64_t kilobytes = 0;
  std::string unit;
  while (file >> key >> kilobytes >> unit)
    if (key == wanted) return kilobytes * 1024;
  return 2ull << 30;
}

}  // namespace

uint64_t DefaultMemoryOffer() {
  return MemoryInfo("MemAvailable:") / 2;
}

uint64_t TotalMemory() {
  return MemoryInfo("MemTotal:");
}

}  // namespace weft::worker
