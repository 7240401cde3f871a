#include "cluster_host/cluster_key.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>

#include "base/file_testing.h"
#include "cluster_host/cluster_member.h"

namespace weft::cluster_host {
namespace {

TEST(ClusterKey, AFileHoldsItForItsOwnerAlone) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "etc" / "cluster.key";
  const ClusterKey key = ClusterKey::Random();
  ASSERT_TRUE(key.WriteNew(path).ok());
  EXPECT_EQ(key.WriteNew(path).error().code(), ErrorCode::kAlreadyExists);
  const auto read = ClusterKey::Read(path);
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ(read->front().Check(), key.Check());
  EXPECT_EQ(read->front().JoinToken(), key.JoinToken());
  EXPECT_NE(ClusterKey::Random().Check(), key.Check());
  EXPECT_NE(key.JoinToken(), key.ApiKey());
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_THAT(ClusterKey::Read(path).error().message(), testing::HasSubstr("chmod 600"));
}

TEST(ClusterKey, AFileMayHaveTwoWhileOneIsExchanged) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "cluster.key";
  const ClusterKey old = ClusterKey::Random(), next = ClusterKey::Random();
  EXPECT_EQ(ClusterKey::Replace(path, {old}).error().code(), ErrorCode::kNotFound);
  ASSERT_TRUE(old.WriteNew(path).ok());
  ASSERT_TRUE(ClusterKey::Replace(path, {old, next}).ok());
  struct stat status = {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  const auto read = ClusterKey::Read(path).value();
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].Check(), old.Check());
  EXPECT_EQ(read[1].Check(), next.Check());
  EXPECT_NE(old.Name(), next.Name());
  std::ofstream(path, std::ios::app) << std::string(64, 'a') << "\n";
  EXPECT_EQ(ClusterKey::Read(path).error().code(), ErrorCode::kInvalidArgument) << "three of them";
}

TEST(ClusterKey, OtherFilesAreNone) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "cluster.key";
  EXPECT_EQ(ClusterKey::Read(path).error().code(), ErrorCode::kNotFound);
  for (const std::string& text : {std::string(), std::string("abcd\n"), std::string(64, 'g')}) {
    std::ofstream(path) << text;
    ASSERT_EQ(chmod(path.c_str(), 0600), 0);
    EXPECT_EQ(ClusterKey::Read(path).error().code(), ErrorCode::kInvalidArgument) << text;
  }
}

TEST(ServerName, IsTheFirstOfTheHostOrItsAddress) {
  const auto name = [](const char* url) { return ServerNameOf(*net::ParseUrl(url)); };
  EXPECT_EQ(name("https://a.weft.school.lan"), "a");
  EXPECT_EQ(name("https://a.weft.school.lan:8443/"), "a:8443");
  EXPECT_EQ(name("https://192.168.1.7"), "192.168.1.7");
  EXPECT_EQ(name("http://127.0.0.1:8080"), "127.0.0.1:8080");
}

}  // namespace
}  // namespace weft::cluster_host
