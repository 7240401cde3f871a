#include "kernels/read_ahead.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace weft::kernels {

namespace {

#if defined(__x86_64__)
constexpr unsigned kZen5Family = 0x1a;

// As CPUID has it: in two parts, of which the second counts where the first is full.
unsigned Family() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return 0;
  const unsigned base = eax >> 8 & 0xf;
  return base == 0xf ? base + (eax >> 20 & 0xff) : base;
}
#endif

ReadAhead Find() {
#if defined(__x86_64__)
  if (__builtin_cpu_is("amd"))
    return Family() >= kZen5Family ? ReadAhead::kHintedStream : ReadAhead::kOneStream;
#endif
  return ReadAhead::kSideBySide;
}

}  // namespace

ReadAhead ReadAheadOfOneRow() {
  static const ReadAhead found = Find();
  return found;
}

}  // namespace weft::kernels
