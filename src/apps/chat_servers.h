// ChatServers: the servers that a chat in the terminal asks. An answer whose server is lost goes on
// at the next one, with the same key of the request and the number of the last event:
//
//   a   POST ... Idempotency-Key: 5f..     id: 1 "The"  id: 2 " cat"     (killed)
//   b   POST ... Idempotency-Key: 5f..,    id: 3 " sat" ...
//       Last-Event-ID: 2
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/server_list.h"
#include "base/result.h"
#include "net/client.h"

namespace weft::apps {

// Takes complete server-sent events out of a growing text.
class EventSplitter {
 public:
  // `id` is "" where the event has none.
  using OnData = std::function<void(std::string_view data, std::string_view id)>;
  using OnComment = std::function<void(std::string_view comment)>;
  // Calls one of both for each whole event.
  void Push(std::string_view bytes, const OnData& on_data, const OnComment& on_comment);

 private:
  std::string pending_;
};

class ChatServers {
 public:
  explicit ChatServers(std::vector<ServerAddress> given) : list_(std::move(given)) {}

  // Asks the first one that can be reached, which is the current one then.
  Result<net::HttpReply> Call(const net::HttpCall& call);
  // Asks the current server for the others of its cluster that serve the model, if it is in one.
  // `headers`: of a call.
  void FindOthers(const std::string& model, const net::Headers& headers);
  std::string authority() const { return list_.current().url.Authority(); }

  struct Reader {
    // Takes an event's data. False: it is to be asked again, elsewhere.
    std::function<bool(std::string_view data)> on_data;
    EventSplitter::OnComment on_comment;
    // Called when the answer is to go on at another server.
    std::function<void()> on_move;
    // The answer is not wanted any more.
    std::function<bool()> is_stopped;
  };
  // Asks for a stream of events. It has ended well, or as the error or the status of the last reply
  // says. Only where there are several servers it goes on at another one.
  Result<net::HttpReply> Stream(net::HttpCall call, const Reader& reader);

 private:
  net::HttpClient& client();

  ServerList list_;
  std::map<std::string, net::HttpClient> clients_;  // by authority
};

}  // namespace weft::apps
