// What tells caches whether a file of the page is still the same.
#include "server/static_files.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/file_testing.h"

namespace weft::server {
namespace {

void Write(const std::filesystem::path& path, std::string_view text) {
  ASSERT_TRUE(WriteFileAtomically(path, AsBytes(text)).ok());
}

// The tag of a file that a server has whose page stands in `root`.
std::string TagOf(const std::filesystem::path& root, const std::string& url) {
  const auto files = StaticFiles::Load(root);
  EXPECT_TRUE(files.ok());
  net::HttpRequest request;
  request.method = "GET";
  request.path = url;
  const net::HttpResponse response = files->Answer(request);
  for (const auto& [name, value] : response.headers) {
    if (name == "ETag") return value;
  }
  return "";
}

TEST(StaticFiles, ChangedPageHasAnotherTag) {
  const TemporaryFolder folder;
  Write(folder.path() / "index.html", "one page");
  const std::string before = TagOf(folder.path(), "/index.html");
  EXPECT_EQ(TagOf(folder.path(), "/"), before);
  Write(folder.path() / "index.html", "two pages");
  EXPECT_NE(TagOf(folder.path(), "/index.html"), before);
}

// Their content is in their names, and their tags are of these.
TEST(StaticFiles, AssetsHaveTagsOfTheirNames) {
  const TemporaryFolder folder;
  Write(folder.path() / "index.html", "a page");
  std::filesystem::create_directory(folder.path() / "assets");
  Write(folder.path() / "assets/a-1234.js", "same");
  Write(folder.path() / "assets/b-5678.js", "same");
  const std::string a = TagOf(folder.path(), "/assets/a-1234.js");
  EXPECT_EQ(TagOf(folder.path(), "/assets/a-1234.js"), a);
  EXPECT_NE(TagOf(folder.path(), "/assets/b-5678.js"), a);
  EXPECT_NE(TagOf(folder.path(), "/"), a);
}

}  // namespace
}  // namespace weft::server
