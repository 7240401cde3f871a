// A journal that somebody has changed: never a crash, what is read is bounded, and it is the same
// after it was written and read again.
#include "journal/contents.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  using namespace weft::journal;
  auto read = ReadJournal({data, byte_count});
  if (!read.ok()) return 0;
  CHECK(read->good_bytes <= byte_count);
  read->contents.DropOldRequests(1'700'000'000);
  CHECK(read->contents.secrets().size() <= kMostSecrets);
  CHECK(read->contents.requests().size() <= kMostRequests);
  CHECK(read->contents.popularities().size() <= kMostPopularities);
  constexpr std::string_view kMark = "0123456789abcdef";
  const std::string file = WriteJournal(read->contents, kMark);
  const auto again = ReadJournal(weft::AsBytes(file));
  CHECK(again.ok() && again->good_bytes == file.size());
  CHECK(WriteJournal(again->contents, kMark) == file);
  return 0;
}
