// Events that are counted, and those that a client has already.
#include "server/numbered_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace weft::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Recorded : public net::Responder {
 public:
  void Send(net::HttpResponse) override {}
  void StartStream(int, net::Headers) override {}
  void Write(std::string chunk) override { written.push_back(std::move(chunk)); }
  void End() override { has_ended = true; }
  void OnClosed(std::function<void()>) override {}

  std::vector<std::string> written;
  bool has_ended = false;
};

void Tell(NumberedStream& stream) {
  stream.Write("data: {\"a\":1}\n\n");
  stream.Write(": waiting\n\n");
  stream.Write("data: {\"b\":2}\n\ndata: {\"c\":3}\n\n");
  stream.Write("data: [DONE]\n\n");
  stream.End();
}

TEST(NumberedStream, CountsEventsAndNoComments) {
  const auto client = std::make_shared<Recorded>();
  NumberedStream stream(client, 0);
  Tell(stream);
  EXPECT_THAT(client->written, ElementsAre("id: 1\ndata: {\"a\":1}\n\n", ": waiting\n\n",
                                           "id: 2\ndata: {\"b\":2}\n\nid: 3\ndata: {\"c\":3}\n\n",
                                           "data: [DONE]\n\n"));
  EXPECT_TRUE(client->has_ended);
}

TEST(NumberedStream, LeavesOutWhatTheClientHas) {
  const auto client = std::make_shared<Recorded>();
  NumberedStream stream(client, 2);
  Tell(stream);
  EXPECT_THAT(client->written,
              ElementsAre(": waiting\n\n", "id: 3\ndata: {\"c\":3}\n\n", "data: [DONE]\n\n"));
}

// Whoever went on behind it would lose the event that was to come.
TEST(NumberedStream, AnErrorHasNoNumber) {
  const auto client = std::make_shared<Recorded>();
  NumberedStream stream(client, 9);
  stream.Write("data: {\"error\":{\"message\":\"no\"}}\n\n");
  EXPECT_THAT(client->written, ElementsAre("data: {\"error\":{\"message\":\"no\"}}\n\n"));
}

TEST(LastEventId, IsANumberOfARequestWithAKey) {
  const auto number = [](std::string_view header, std::string_view key) {
    return std::get<uint64_t>(ParseLastEventId(header, key));
  };
  const auto message = [](std::string_view header, std::string_view key) {
    return std::get<api::ApiError>(ParseLastEventId(header, key)).message;
  };
  EXPECT_EQ(number("", ""), 0u);
  EXPECT_EQ(number("", "key"), 0u);
  EXPECT_EQ(number("17", "key"), 17u);
  EXPECT_THAT(message("17", ""), HasSubstr("Idempotency-Key"));
  for (const char* wrong : {"x", "-1", "1 ", "99999999999999999999999"})
    EXPECT_THAT(message(wrong, "key"), HasSubstr("expected the id of an event")) << wrong;
}

}  // namespace
}  // namespace weft::server
