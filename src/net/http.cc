#include "net/http.h"

#include <boost/url/pct_string_view.hpp>

namespace weft::net {

namespace {

std::string_view FirstOf(const Headers& headers, std::string_view lower_case_name) {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return {};
}

}  // namespace

std::optional<uint32_t> HttpRequest::peer_user() const {
  return find_peer_user ? find_peer_user() : std::nullopt;
}

std::string_view HttpRequest::Header(std::string_view lower_case_name) const {
  return FirstOf(headers, lower_case_name);
}

std::string HttpRequest::HeaderList(std::string_view lower_case_name) const {
  std::string list;
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) list += (list.empty() ? "" : ", ") + value;
  }
  return list;
}

std::string_view HttpReply::Header(std::string_view lower_case_name) const {
  return FirstOf(headers, lower_case_name);
}

std::string HttpRequest::QueryValue(std::string_view wanted) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const size_t equals = pair.find('=');
    if (pair.substr(0, equals) != wanted || equals == std::string_view::npos) continue;
    const auto encoded = boost::urls::make_pct_string_view(
        boost::core::string_view(pair.data() + equals + 1, pair.size() - equals - 1));
    return encoded ? encoded->decode() : std::string();
  }
  return {};
}

HttpResponse TextResponse(int status, std::string_view content_type, std::string text) {
  HttpResponse response;
  response.status = status;
  response.headers.emplace_back("Content-Type", content_type);
  response.body.push_back(Slice::OfText(std::move(text)));
  return response;
}

}  // namespace weft::net
