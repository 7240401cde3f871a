// The values of HTTP header fields in every form that RFC 9110 allows: lists, weights, entity tags,
// parameters, dates. Nothing here knows what a field is for.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::net {

// ASCII letters alone: names in HTTP know no others.
std::string LowerCase(std::string_view text);
bool EqualsIgnoringCase(std::string_view a, std::string_view b);
// Without spaces and tabs at both ends.
std::string_view Trimmed(std::string_view text);
// A field's name, a method: at least one character, none that separates (RFC 9110 5.6.2).
bool IsFieldToken(std::string_view text);

// The members of a list, `a, "b, c",, d` being three: empty ones do not count (RFC 9110 5.6.1).
std::vector<std::string_view> ListMembers(std::string_view value);

// How welcome `coding` (lower case) is, 0 to 1000: what Accept-Encoding gives it by name, else by
// "*", else 0; 1000 for "identity" that is not named. "x-gzip" is gzip.
int EncodingWeight(std::string_view accept_encoding, std::string_view coding);

enum class EtagComparison { kStrong, kWeak };
// Whether the value of If-Match (strong), If-None-Match (weak) or If-Range (strong) names `etag`.
// "*" names every one.
bool NamesEtag(std::string_view value, std::string_view etag, EtagComparison comparison);

// The parameter of a media type, `text/plain; charset="UTF-8"`, without its quotes and in lower
// case; nullopt without it.
std::optional<std::string> MediaTypeParameter(std::string_view media_type, std::string_view name);

// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string HttpDate(std::time_t time);
// In each of the three forms that there are (RFC 9110 5.6.7); nullopt for what is none.
std::optional<std::time_t> ParseHttpDate(std::string_view text);

}  // namespace weft::net
