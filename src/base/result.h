// Result<T>: a value or an Error, for everything that can fail because of input, files, peers or
// the network. Our own bugs are not Results: they hit CHECK (check.h). No exception crosses a
// module.
//
//   Result<Config> ParseConfig(ByteSpan json);
//   ASSIGN_OR_RETURN(const Config config, ParseConfig(bytes).Context("While reading " + path));
//
// An Error is one of about ten canonical codes and one full sentence with the value, the limit and
// what was expected. A chain of "While ..." context follows, innermost first.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"

namespace weft {

enum class ErrorCode {
  kInvalidArgument,  // the caller or the user asked for something that makes no sense
  kInvalidData,      // a file or a peer sent bytes that break their format
  kUnsupported,      // well-formed, but outside what weft does
  kNotFound,
  kAlreadyExists,
  kLimitExceeded,  // what was asked for is longer than a limit that the sentence names
  kOutOfMemory,    // an offer, a limit or the machine cannot hold it
  kUnavailable,    // try again later: a peer is gone, no plan
  kTimeout,
  kCancelled,
  kPermissionDenied,
  kIo,  // the operating system refused
};

// Stable lower-case name such as "invalid_data", for JSON and logs.
std::string_view ErrorCodeName(ErrorCode code);

class [[nodiscard]] Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // Adds "While ..." context around this error; returns itself so that it chains.
  Error Context(std::string while_doing) &&;

  // "sentence\n  While a\n  While b", innermost first.
  std::string ToString() const;

 private:
  ErrorCode code_;
  std::string message_;
  std::vector<std::string> context_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok().
  T& value() & {
    CheckOk();
    return std::get<0>(state_);
  }
  const T& value() const& {
    CheckOk();
    return std::get<0>(state_);
  }
  T&& value() && {
    CheckOk();
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok().
  const Error& error() const& {
    CHECK(!ok(), "error() called on a Result that holds a value");
    return std::get<1>(state_);
  }
  Error&& error() && {
    CHECK(!ok(), "error() called on a Result that holds a value");
    return std::get<1>(std::move(state_));
  }

  Result Context(std::string while_doing) && {
    if (ok()) return std::move(*this);
    return std::get<1>(std::move(state_)).Context(std::move(while_doing));
  }

 private:
  void CheckOk() const {
    CHECK(ok(),
          "value() called on a Result that holds an error: " + std::get<1>(state_).ToString());
  }
  std::variant<T, Error> state_;
};

// Result<void>: OkStatus() or an Error.
struct Ok {};
using Status = Result<Ok>;
inline Status OkStatus() {
  return Ok{};
}

#define WEFT_CONCAT_INNER(a, b) a##b
#define WEFT_CONCAT(a, b) WEFT_CONCAT_INNER(a, b)

// TRY(status_or_result): returns the error from the enclosing function, drops the value.
#define TRY(expression)                                                   \
  do {                                                                    \
    auto weft_try_result = (expression);                                  \
    if (!weft_try_result.ok()) return std::move(weft_try_result).error(); \
  } while (false)

// ASSIGN_OR_RETURN(auto x, F()): declares or assigns the value, or returns the error.
#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_INNER(WEFT_CONCAT(weft_result_, __LINE__), declaration, expression)
#define ASSIGN_OR_RETURN_INNER(name, declaration, expression) \
  auto name = (expression);                                   \
  if (!name.ok()) return std::move(name).error();             \
  declaration = std::move(name).value()

}  // namespace weft
