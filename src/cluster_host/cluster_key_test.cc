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
  EXPECT_EQ(read->Check(), key.Check());
  EXPECT_EQ(read->JoinToken(), key.JoinToken());
  EXPECT_NE(ClusterKey::Random().Check(), key.Check());
  EXPECT_NE(key.JoinToken(), key.ApiKey());
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_THAT(ClusterKey::Read(path).error().message(), testing::HasSubstr("chmod 600"));
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
