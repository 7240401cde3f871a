#include "net/server_handler.h"

namespace weft::net {

HttpResponse ServerHandler::MakeError(int status, const std::string& sentence) {
  return TextResponse(status, "text/plain; charset=utf-8", sentence + "\n");
}

}  // namespace weft::net
