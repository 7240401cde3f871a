#include "wire/protobuf_log.h"

#include <google/protobuf/stubs/logging.h>

namespace weft::wire {

void SilenceProtobuf() {
  google::protobuf::SetLogHandler(nullptr);
}

}  // namespace weft::wire
