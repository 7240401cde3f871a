#include "net/server_handler.h"

#include <limits>

namespace weft::net {

size_t ServerHandler::BodyLimit(const HttpRequest&) {
  return std::numeric_limits<size_t>::max();
}

HttpResponse ServerHandler::MakeError(int status, const std::string& sentence, const HttpRequest&) {
  return TextResponse(status, "text/plain; charset=utf-8", sentence + "\n");
}

}  // namespace weft::net
