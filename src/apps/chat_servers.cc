#include "apps/chat_servers.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/random.h"

namespace weft::apps {
namespace json = boost::json;

namespace {

// Between two rounds through all servers, and until nothing came from any of them for so long.
constexpr std::chrono::milliseconds kRoundPause{500};
constexpr Duration kNothingCame = Seconds(30);
constexpr size_t kKeyBytes = 16;

// Of servers and proxies: another server may answer.
bool IsAway(int status) {
  return status == 502 || status == 503 || status == 504;
}

std::string TextOf(const json::object& object, const char* field) {
  const json::value* value = object.if_contains(field);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

}  // namespace

void EventSplitter::Push(std::string_view bytes, const OnData& on_data,
                         const OnComment& on_comment) {
  pending_ += bytes;
  size_t begin = 0;
  for (size_t end; (end = pending_.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    std::string_view event = std::string_view(pending_).substr(begin, end - begin);
    std::string_view id;
    if (event.starts_with("id: ")) {
      const size_t line = std::min(event.find('\n'), event.size());
      id = event.substr(4, line - 4);
      event.remove_prefix(std::min(line + 1, event.size()));
    }
    if (event.starts_with("data: ")) on_data(event.substr(6), id);
    if (event.starts_with(": ")) on_comment(event.substr(2));
  }
  pending_.erase(0, begin);
}

net::HttpClient& ChatServers::client() {
  const ServerAddress address = list_.current();
  const std::string authority = address.url.Authority();
  const auto found = clients_.find(authority);
  if (found != clients_.end()) return found->second;
  return clients_.emplace(authority, net::HttpClient(address.url, address.tls)).first->second;
}

Result<net::HttpReply> ChatServers::Call(const net::HttpCall& call) {
  while (true) {
    auto reply = client().Call(call);
    if (reply.ok()) list_.Settle();
    if (reply.ok() || reply.error().code() == ErrorCode::kCancelled || !list_.Next()) return reply;
  }
}

void ChatServers::FindOthers(const std::string& model, const net::Headers& headers) {
  net::HttpCall call;
  call.path = "/api/cluster";
  call.headers = headers;
  const auto reply = client().Call(call);
  if (!reply.ok() || reply->status != 200) return;
  boost::system::error_code failed;
  const json::value value = json::parse(reply->body, failed);
  const json::value* servers = failed ? nullptr : value.find_pointer("/servers", failed);
  if (servers == nullptr || !servers->is_array()) return;
  std::vector<wire::pb::Init::Successor> others;
  for (const json::value& each : servers->as_array()) {
    if (!each.is_object()) continue;
    const std::string served = TextOf(each.as_object(), "model");
    if (!served.empty() && served != model) continue;
    wire::pb::Init::Successor& other = others.emplace_back();
    other.set_url(TextOf(each.as_object(), "url"));
    other.set_fingerprint(TextOf(each.as_object(), "fingerprint"));
  }
  list_.SetSuccessors(others);
}

Result<net::HttpReply> ChatServers::Stream(net::HttpCall call, const Reader& reader) {
  call.headers.emplace_back("Idempotency-Key", SecureRandomHex(kKeyBytes));
  const net::Headers first_headers = call.headers;
  const bool has_others = list_.size() > 1;
  std::string last_id;
  Instant heard = MonotonicNow();
  while (true) {
    bool is_whole = false, goes_on = false;
    EventSplitter splitter;
    auto reply = client().Call(call, [&](ByteSpan bytes) {
      heard = MonotonicNow();
      list_.Settle();
      splitter.Push(
          AsText(bytes),
          [&](std::string_view data, std::string_view id) {
            is_whole = is_whole || data == "[DONE]";
            if (!id.empty()) last_id = id;
            if (data != "[DONE]" && !reader.on_data(data)) goes_on = has_others;
          },
          reader.on_comment);
      return !goes_on && !reader.is_stopped();
    });
    const bool was_cut = reply.ok() ? IsAway(reply->status) || (reply->status == 200 && !is_whole)
                                    : reply.error().code() != ErrorCode::kCancelled;
    const bool gives_up = MonotonicNow() - heard > kNothingCame;
    if (reader.is_stopped() || !has_others || (!was_cut && !goes_on) || gives_up) return reply;
    // Each of the others at once; then they get time to find a new leader.
    if (!list_.Next()) std::this_thread::sleep_for(kRoundPause);
    reader.on_move();
    call.headers = first_headers;
    if (!last_id.empty()) call.headers.emplace_back("Last-Event-ID", last_id);
  }
}

}  // namespace weft::apps
