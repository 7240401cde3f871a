// What is kept of responses, for whom and for how long.
#include "server/response_store.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace weft::server {
namespace {

StoredResponse Stored(const std::string& id, const std::string& salt, int64_t created_s,
                      const std::string& item) {
  StoredResponse stored{id, salt, created_s, {{"id", id}}, {}, {}};
  stored.items.push_back(boost::json::object{{"id", item}, {"type", "message"}});
  return stored;
}

TEST(ResponseStore, FindsWhatTheSenderKept) {
  ResponseStore store;
  store.Keep(Stored("resp_1", "a key", 100, "msg_1"));
  ASSERT_TRUE(store.Find("a key", "resp_1", 100));
  EXPECT_EQ(store.Find("a key", "resp_1", 100)->response.at("id"), "resp_1");
  EXPECT_TRUE(store.FindItem("a key", "msg_1", 100));
  EXPECT_FALSE(store.FindItem("a key", "msg_2", 100));
  for (const char* stranger : {"", "another"}) {
    EXPECT_FALSE(store.Find(stranger, "resp_1", 100));
    EXPECT_FALSE(store.FindItem(stranger, "msg_1", 100));
    EXPECT_FALSE(store.Forget(stranger, "resp_1", 100));
  }
  EXPECT_TRUE(store.Forget("a key", "resp_1", 100));
  EXPECT_FALSE(store.Find("a key", "resp_1", 100));
  EXPECT_FALSE(store.Forget("a key", "resp_1", 100)) << "it is gone";
}

TEST(ResponseStore, KeepsForAnHour) {
  ResponseStore store;
  store.Keep(Stored("resp_1", "", 100, "msg_1"));
  EXPECT_TRUE(store.Find("", "resp_1", 3699));
  EXPECT_FALSE(store.Find("", "resp_1", 3700));
  EXPECT_FALSE(store.FindItem("", "msg_1", 3700));
  EXPECT_FALSE(store.Forget("", "resp_1", 3700));
}

TEST(ResponseStore, TheOldestMakeRoom) {
  ResponseStore store({.count = 2});
  for (int i = 1; i <= 3; ++i)
    store.Keep(Stored("resp_" + std::to_string(i), "", 100 + i, "msg_" + std::to_string(i)));
  EXPECT_FALSE(store.Find("", "resp_1", 103));
  EXPECT_TRUE(store.Find("", "resp_2", 103));
  EXPECT_TRUE(store.Find("", "resp_3", 103));
}

TEST(ResponseStore, BytesAreLimitedAndComeBack) {
  const std::string long_item(100, 'x');
  ResponseStore store({.bytes = 400});
  for (int i = 1; i <= 19; ++i) {
    const std::string id = "resp_" + std::to_string(i);
    store.Keep(Stored(id, "", 100, long_item));
    EXPECT_TRUE(store.Find("", id, 100));
    if (i % 2 == 0) store.Forget("", id, 100);
  }
  EXPECT_FALSE(store.Find("", "resp_1", 100));
  EXPECT_TRUE(store.Find("", "resp_19", 100));
  EXPECT_TRUE(store.Find("", "resp_17", 100)) << "what was forgotten counts no more";
  store.Keep(Stored("resp_99", "", 100, std::string(500, 'x')));
  EXPECT_FALSE(store.Find("", "resp_99", 100)) << "it is more than all may be";
}

}  // namespace
}  // namespace weft::server
