// What a server is told that cannot take part in a cluster, before it has a database.
#include "cluster_host/cluster_member.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"

namespace weft::cluster_host {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

// Nobody listens at port 1.
constexpr char kNoDatabase[] = "postgres://weft@127.0.0.1:1/weft";

class ClusterMemberTest : public testing::Test {
 protected:
  ClusterMemberTest() { std::filesystem::remove_all(folder_); }
  ~ClusterMemberTest() override { std::filesystem::remove_all(folder_); }

  std::string Join(const std::filesystem::path& id_file,
                   const std::string& url = "https://a.weft.school.lan",
                   const std::string& database = kNoDatabase) {
    const MemberOptions options{database, url, {ClusterKey::Random()}, {}, id_file};
    const auto joined = ClusterMember::Join(loop_, options, {}, {{"tiny", {1, 2, 3}, {}}});
    return joined.ok() ? "" : joined.error().message();
  }

  net::EventLoop loop_;
  const std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / "member";
};

TEST_F(ClusterMemberTest, AServersNameIsTheFirstPartOfItsAddress) {
  const std::pair<const char*, const char*> cases[] = {
      {"https://a.weft.school.lan", "a"},
      {"https://a.weft.school.lan:8443", "a:8443"},
      {"http://192.168.1.7:8080", "192.168.1.7:8080"},
      {"http://localhost", "localhost"},
      {"https://[::1]:8443", "[::1]:8443"},
  };
  for (const auto& [url, name] : cases) EXPECT_EQ(ServerNameOf(*net::ParseUrl(url)), name);
}

TEST_F(ClusterMemberTest, AServerNeedsAPlaceForItsId) {
  EXPECT_THAT(Join(""), AllOf(HasSubstr("XDG_STATE_HOME"), HasSubstr("--port")));
}

TEST_F(ClusterMemberTest, TwoProcessesAreNotOneServer) {
  const auto path = folder_ / "server-8080.id";
  std::filesystem::create_directories(folder_);
  const Descriptor held(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(held.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_THAT(Join(path), HasSubstr("this server runs already"));
}

TEST_F(ClusterMemberTest, ADatabaseThatIsNotThereIsASentence) {
  const auto path = folder_ / "server-8080.id";
  const auto is_about_database = AnyOf(HasSubstr("The cluster's database cannot be used"),
                                       HasSubstr("libpq is not installed"));
  EXPECT_THAT(Join(path), is_about_database);
  const auto id = ReadTextFile(path, 64);
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(id->size(), 17u);
  EXPECT_THAT(Join(path), is_about_database) << "the lock went with the one before";
  EXPECT_EQ(*ReadTextFile(path, 64), *id) << "a server keeps its id";
}

TEST_F(ClusterMemberTest, AnIdThatCannotBeReadIsMadeAnew) {
  const auto path = folder_ / "server-8080.id";
  std::filesystem::create_directories(folder_);
  std::ofstream(path) << "no id at all";
  Join(path);
  const std::string id = *ReadTextFile(path, 64);
  EXPECT_EQ(id.size(), 17u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef\n"), std::string::npos) << id;
}

TEST_F(ClusterMemberTest, AddressesAreChecked) {
  EXPECT_THAT(Join(folder_ / "id", "ftp://a"), HasSubstr("ftp"));
  EXPECT_THAT(Join(folder_ / "id", "https://a", "mysql://db/weft"), HasSubstr("postgres"));
}

}  // namespace
}  // namespace weft::cluster_host
