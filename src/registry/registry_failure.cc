#include "registry/registry_failure.h"

#include <algorithm>
#include <charconv>
#include <ctime>

#include "net/http_fields.h"
#include "registry/model_reference.h"

namespace weft::registry {
namespace {

std::optional<Duration> RetryAfter(const net::HttpReply& reply) {
  const std::string_view text = net::Trimmed(reply.Header("retry-after"));
  if (const auto date = net::ParseHttpDate(text)) {
    const auto now = net::ParseHttpDate(reply.Header("date"));  // our clock may be wrong
    if (!now) return {};
    return Seconds(std::max<std::time_t>(*date - *now, 0));
  }
  uint32_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return Seconds(seconds);
}

std::string Named(const Subject& subject) {
  return subject.file.empty() ? "'" + subject.repository + "'"
                              : "'" + Printable(subject.file) + "' of '" + subject.repository + "'";
}

Error AccessRefused(const net::HttpReply& reply, const Subject& subject,
                    const RegistrySettings& settings) {
  const std::string tokens = settings.endpoint_text + "/settings/tokens";
  const std::string status = " (" + std::to_string(reply.status) + ")";
  if (reply.Header("x-error-code") == "GatedRepo" ||
      (reply.status == 403 && !settings.token.empty())) {
    return Error(
        ErrorCode::kPermissionDenied,
        "The registry does not give " + Named(subject) + " to this account" + status +
            ": its owners ask for consent first. Open " + settings.endpoint_text + "/" +
            subject.repository + " in a browser, accept the conditions" +
            (settings.token.empty() ? ", make a token at " + tokens + " and set HF_TOKEN to it."
                                    : ", and try again with the same account's token."));
  }
  if (settings.token.empty()) {
    return Error(ErrorCode::kPermissionDenied,
                 "The registry wants to know who asks for " + Named(subject) + status +
                     ": the model is private or gated, or there is none of that name. If it is "
                     "yours to use, make a token at " +
                     tokens + " and set HF_TOKEN to it.");
  }
  return Error(ErrorCode::kPermissionDenied,
               "The registry does not accept the token (HF_TOKEN or the token file) for " +
                   Named(subject) + status + ". Tokens are made at " + tokens +
                   "; the name may be wrong, too.");
}

Error NotFound(const net::HttpReply& reply, const Subject& subject,
               const RegistrySettings& settings) {
  if (reply.Header("x-error-code") == "RevisionNotFound") {
    return Error(ErrorCode::kNotFound, "'" + subject.repository + "' on " + settings.endpoint_text +
                                           " has no revision '" + subject.revision + "'.");
  }
  if (!subject.file.empty()) {
    return Error(ErrorCode::kNotFound,
                 "The registry lists " + Named(subject) + " but does not have it (404).");
  }
  return Error(ErrorCode::kNotFound,
               "There is no model '" + subject.repository + "' with the revision '" +
                   subject.revision + "' on " + settings.endpoint_text +
                   " (404). Names are ORGANISATION/NAME, as in its address on the registry.");
}

}  // namespace

Failure FailureOf(const net::HttpReply& reply, const Subject& subject,
                  const RegistrySettings& settings) {
  const int status = reply.status;
  if (status == 401 || status == 403) {
    return {AccessRefused(reply, subject, settings)};
  }
  if (status == 404) return {NotFound(reply, subject, settings)};
  const std::string answered =
      settings.endpoint_text + " answered " + std::to_string(status) + " for " + Named(subject);
  if (status == 429) {
    return {
        Error(ErrorCode::kUnavailable, answered + ": too many requests. Wait, or set HF_TOKEN: "
                                                  "the registry allows more to those it knows."),
        true, RetryAfter(reply)};
  }
  if (status >= 500) {
    return {Error(ErrorCode::kUnavailable, answered + ": the registry has a problem of its own."),
            true, RetryAfter(reply)};
  }
  return {Error(ErrorCode::kUnavailable, answered + "; expected 200, 206 or a redirection.")};
}

Failure FailureOf(const Error& error, const RegistrySettings& settings) {
  const ErrorCode code = error.code();
  if (code == ErrorCode::kUnavailable) {
    return {
        Error(code, error.message() + " Is this machine online? HF_ENDPOINT names the registry (" +
                        settings.endpoint_text + "); --offline uses what was downloaded before."),
        true};
  }
  return {error, code == ErrorCode::kIo || code == ErrorCode::kTimeout};
}

}  // namespace weft::registry
