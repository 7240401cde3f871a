// weft.json from outside: never a crash, and what is accepted survives a round trip.
#include "package/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  const auto manifest = weft::package::ParseManifest({data, byte_count});
  if (!manifest.ok()) return 0;
  const std::string text = weft::package::ToJson(*manifest);
  const auto again = weft::package::ParseManifest(weft::AsBytes(text));
  CHECK(again.ok(), again.error().ToString());
  CHECK(weft::package::ToJson(*again) == text);
  weft::package::DownloadBytes(*manifest, 0, UINT32_MAX);
  return 0;
}
