#include "base/result.h"

namespace weft {

std::string_view ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kInvalidData:
      return "invalid_data";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kAlreadyExists:
      return "already_exists";
    case ErrorCode::kLimitExceeded:
      return "limit_exceeded";
    case ErrorCode::kOutOfMemory:
      return "out_of_memory";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kPermissionDenied:
      return "permission_denied";
    case ErrorCode::kIo:
      return "io";
  }
  return "unknown";
}

Error Error::Context(std::string while_doing) && {
  context_.push_back(std::move(while_doing));
  return std::move(*this);
}

std::string Error::ToString() const {
  std::string text = message_;
  for (const std::string& line : context_) {
    text += "\n  ";
    text += line;
  }
  return text;
}

}  // namespace weft
