// What all subcommands share: how they report and how they read amounts of memory.
#include "apps/commands.h"

#include <csignal>
#include <iostream>

#include "base/bytes.h"
#include "base/marks.h"
#include "net/address.h"

namespace weft::apps {

int ExitCodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return kExitUsage;
    case ErrorCode::kNotFound:
      return 3;
    case ErrorCode::kInvalidData:
      return 4;
    case ErrorCode::kAlreadyExists:
      return 5;
    case ErrorCode::kOutOfMemory:
      return 6;
    default:
      return kExitFailed;
  }
}

int ReportStatus(const Status& status) {
  if (status.ok()) return 0;
  std::cerr << "weft: " << status.error().ToString() << "\n";
  return ExitCodeOf(status.error().code());
}

void OutliveReaders() {
  std::signal(SIGPIPE, SIG_IGN);
}

CLI::Validator AddressOption() {
  return CLI::Validator(
      [](const std::string& text) {
        return net::IsIpAddress(text) ? std::string() : "'" + text + "' is no IP address";
      },
      "ADDRESS");
}

CLI::Validator ByteCountOption() {
  return CLI::Validator(
      [](const std::string& text) {
        return ParseByteCount(text)
                   ? std::string()
                   : "'" + text +
                         "' is no amount of memory; write 4GiB, 512MiB or a number of bytes";
      },
      "BYTES");
}

void AddMarksOption(CLI::App& command, uint32_t& marks) {
  command
      .add_option("--marks", marks,
                  "Positions of a conversation that recurrent layers keep their state of, so that "
                  "a later request can go on from them; each takes the memory of a state")
      ->capture_default_str()
      ->check(CLI::Range(size_t{0}, kMaxMarks));
}

}  // namespace weft::apps
