// A journal of earlier versions that somebody has changed: never a crash, and what is read is
// bounded.
#include "store/old_journal.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  using namespace weft::store;
  const auto read = ReadOldJournal({data, byte_count});
  if (!read.ok()) return 0;
  CHECK(read->good_bytes <= byte_count);
  CHECK(read->secrets.size() <= kMostOldSecrets);
  CHECK(read->requests.size() <= kMostOldRequests);
  CHECK(read->popularities.size() <= kMostOldPopularities);
  CHECK(read->kept_prefixes.size() <= kMostOldPrefixes);
  return 0;
}
