#include "apps/service_manager.h"

namespace weft::apps {

bool IsKeptInJournal(const Environment& environment, bool is_terminal) {
  return !is_terminal && (!EnvironmentValue(environment, "INVOCATION_ID").empty() ||
                          !EnvironmentValue(environment, "JOURNAL_STREAM").empty());
}

}  // namespace weft::apps
