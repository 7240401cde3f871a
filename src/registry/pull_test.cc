// Pull against a registry of our own on loopback (registry_testing.h).
#include "registry/pull.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/file.h"
#include "registry/proxy_testing.h"
#include "registry/registry_cache.h"
#include "registry/registry_testing.h"

namespace weft::registry {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kIndex = R"({"weight_map":{"a":"model-00001-of-00002.safetensors",)"
                               R"("b":"model-00002-of-00002.safetensors"}})";

class PullTest : public testing::Test {
 protected:
  void SetUp() override {
    weights_.resize(3 << 20);
    for (size_t i = 0; i < weights_.size(); ++i) {
      weights_[i] = static_cast<char>((i * 2654435761u) >> 13);
    }
    registry_.state.files = {{"config.json", "{}"},
                             {"tokenizer.json", "{\"a\":1}"},
                             {"README.md", "not needed"},
                             {"pytorch_model.bin", "never"},
                             {"model.safetensors", weights_}};
    registry_.state.large = {"model.safetensors"};
  }
  Result<PulledModel> PullIt(const std::string& text = "org/name",
                             const std::string& revision = "") {
    PullCallbacks callbacks;
    callbacks.on_note = [this](const std::string& note) { notes_.push_back(note); };
    callbacks.on_summary = [this](const PullSummary& summary) -> Status {
      summary_ = summary;
      return OkStatus();
    };
    callbacks.on_progress = [this](const PullProgress& progress) {
      EXPECT_LE(progress.done_bytes, progress.total_bytes);
      last_ = progress;
    };
    return Pull(registry_.settings, *ParseModelReference(text, revision), callbacks, cancelled_);
  }
  std::string ErrorOf(const Result<PulledModel>& pulled) {
    EXPECT_FALSE(pulled.ok());
    return pulled.ok() ? "" : pulled.error().ToString();
  }
  std::string Read(const fs::path& path) { return *ReadTextFile(path); }
  fs::path Repository() const { return registry_.settings.cache / "models--org--name"; }
  fs::path WeightsBlob(const std::string& ending = "") const {
    return Repository() / "blobs" / (ToHex(Sha256(AsBytes(weights_))) + ending);
  }

  FakeRegistry registry_;
  std::string weights_;
  std::atomic<bool> cancelled_ = false;
  std::vector<std::string> notes_;
  PullSummary summary_;
  PullProgress last_;
};

TEST_F(PullTest, PutsWhatIsNeededIntoTheStandardCache) {
  const auto pulled = PullIt();
  ASSERT_TRUE(pulled.ok()) << pulled.error().ToString();
  EXPECT_EQ(pulled->commit, registry_.state.commit);
  EXPECT_EQ(pulled->folder, Repository() / "snapshots" / registry_.state.commit);
  EXPECT_EQ(pulled->source, pulled->folder);
  EXPECT_EQ(Read(pulled->folder / "model.safetensors"), weights_);
  EXPECT_EQ(Read(Repository() / "refs" / "main"), registry_.state.commit);
  // Relative links to blobs that are named by the registry's hash.
  EXPECT_EQ(fs::read_symlink(pulled->folder / "config.json"),
            fs::path("../../blobs") / GitHash("{}"));
  EXPECT_TRUE(fs::exists(WeightsBlob()));
  EXPECT_FALSE(fs::exists(pulled->folder / "README.md"));
  EXPECT_FALSE(fs::exists(pulled->folder / "pytorch_model.bin"));
  EXPECT_EQ(summary_.file_count, 3u);
  EXPECT_EQ(summary_.missing_bytes, weights_.size() + 9);
  EXPECT_EQ(last_.done_bytes, last_.total_bytes);
  EXPECT_EQ(pulled->fresh_bytes, weights_.size() + 9);

  const auto again = PullIt();  // nothing is downloaded twice
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_EQ(again->fresh_bytes, 0u);
  EXPECT_EQ(summary_.missing_bytes, 0u);
}

TEST_F(PullTest, TheTokenGoesToTheRegistryAndNowhereElse) {
  registry_.state.token = "hf_secret";
  EXPECT_THAT(ErrorOf(PullIt()), HasSubstr("set HF_TOKEN"));
  registry_.settings.token = "hf_wrong";
  EXPECT_THAT(ErrorOf(PullIt()), HasSubstr("does not accept the token"));
  registry_.settings.token = "hf_secret";
  const auto pulled = PullIt();
  ASSERT_TRUE(pulled.ok()) << pulled.error().ToString();
  EXPECT_GT(registry_.CountRequests("cdn /model.safetensors"), 0u);
  EXPECT_TRUE(registry_.state.leaked_tokens.empty());
}

TEST_F(PullTest, SaysWhatToDoAboutGatedAndMissingModels) {
  registry_.state.gated_code = "GatedRepo";
  EXPECT_THAT(ErrorOf(PullIt()), HasSubstr("accept the conditions"));
  registry_.state.gated_code.clear();
  EXPECT_THAT(ErrorOf(PullIt("org/other")), HasSubstr("There is no model 'org/other'"));
  EXPECT_THAT(ErrorOf(PullIt("org/name", "none")), HasSubstr("has no revision 'none'"));
  EXPECT_TRUE(notes_.empty());  // none of this passes by waiting
}

TEST_F(PullTest, GoesOnAfterABreak) {
  registry_.state.cut["model.safetensors"] = 1000000;
  registry_.state.busy["tokenizer.json"] = 2;
  const auto pulled = PullIt();
  ASSERT_TRUE(pulled.ok()) << pulled.error().ToString();
  EXPECT_EQ(Read(pulled->folder / "model.safetensors"), weights_);
  EXPECT_EQ(registry_.CountRequests("GET cdn /model.safetensors bytes=1000000-"), 1u);
  EXPECT_EQ(notes_.size(), 3u);
  EXPECT_EQ(pulled->fresh_bytes, weights_.size() + 9);
}

TEST_F(PullTest, BeginsAgainWhereThereAreNoRanges) {
  registry_.state.serves_ranges = false;
  registry_.state.cut["model.safetensors"] = 1000000;
  const auto pulled = PullIt();
  ASSERT_TRUE(pulled.ok()) << pulled.error().ToString();
  EXPECT_EQ(Read(pulled->folder / "model.safetensors"), weights_);
  EXPECT_EQ(last_.done_bytes, last_.total_bytes);
}

TEST_F(PullTest, ResumesWhatAnEarlierRunLeft) {
  fs::create_directories(WeightsBlob().parent_path());
  ASSERT_TRUE(
      WriteFileAtomically(WeightsBlob(".incomplete"), AsBytes(weights_.substr(0, 777))).ok());
  const auto pulled = PullIt();
  ASSERT_TRUE(pulled.ok()) << pulled.error().ToString();
  EXPECT_EQ(Read(pulled->folder / "model.safetensors"), weights_);
  EXPECT_EQ(registry_.CountRequests("GET cdn /model.safetensors bytes=777-"), 1u);
  EXPECT_EQ(pulled->fresh_bytes, weights_.size() + 9 - 777);
}

TEST_F(PullTest, DownloadsAnewWhatACrashDamaged) {
  fs::create_directories(WeightsBlob().parent_path());
  ASSERT_TRUE(
      WriteFileAtomically(WeightsBlob(".incomplete"), AsBytes(std::string(5000, '?'))).ok());
  const auto pulled = PullIt();
  ASSERT_TRUE(pulled.ok()) << pulled.error().ToString();
  EXPECT_EQ(Read(pulled->folder / "model.safetensors"), weights_);
}

TEST_F(PullTest, RemovesWhatDoesNotMatchItsHash) {
  std::string wrong = weights_;
  wrong[12345] ^= 1;
  registry_.state.wrong_bytes["model.safetensors"] = wrong;
  const std::string error = ErrorOf(PullIt());
  EXPECT_THAT(error, HasSubstr("hashes to"));
  EXPECT_THAT(error, HasSubstr("It was removed"));
  EXPECT_FALSE(fs::exists(WeightsBlob()));
  EXPECT_FALSE(fs::exists(WeightsBlob(".incomplete")));
  fs::remove_all(registry_.settings.cache);
  registry_.state.wrong_bytes = {{"config.json", "{]"}};  // the same for git's hashes
  EXPECT_THAT(ErrorOf(PullIt()), HasSubstr("config.json"));
}

TEST_F(PullTest, RefusesSizesThatLie) {
  registry_.state.stated_bytes["model.safetensors"] = 1000;
  EXPECT_THAT(ErrorOf(PullIt()), HasSubstr("has 1000 bytes and now sends"));
  registry_.state.cut["model.safetensors"] = 5000;  // without a Content-Length
  EXPECT_THAT(ErrorOf(PullIt()), HasSubstr("has 1000 bytes and sends more"));
}

TEST_F(PullTest, LooksForRoomFirst) {
  registry_.state.stated_bytes["model.safetensors"] = 1ull << 60;
  EXPECT_THAT(ErrorOf(PullIt()), HasSubstr("are free. Make room"));
  EXPECT_EQ(registry_.CountRequests("GET /org/name/resolve"), 0u);
  registry_.state.stated_bytes["model.safetensors"] = std::numeric_limits<uint64_t>::max();
  EXPECT_THAT(ErrorOf(PullIt()), HasSubstr("no disk can hold"));
}

TEST_F(PullTest, RefusesNamesThatLeadOutOfTheCache) {
  for (const char* name : {"../config.json", "/etc/passwd", "a/../../b", "a//b", "a\\\\b", "."}) {
    registry_.state.siblings = {name};
    EXPECT_THAT(ErrorOf(PullIt()), HasSubstr("nothing was downloaded")) << name;
  }
  EXPECT_EQ(registry_.CountRequests("resolve"), 0u);
}

TEST_F(PullTest, RefusesListingsThatAreNone) {
  for (const char* text :
       {"<html>", "[]", "{}", R"({"sha":"../../x","siblings":[]})",
        R"({"sha":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})",
        R"({"sha":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","siblings":[1]})"}) {
    registry_.state.listing = text;
    EXPECT_THAT(ErrorOf(PullIt()), HasSubstr("not as expected")) << text;
  }
}

TEST_F(PullTest, ReadsFilesOfTheIndex) {
  registry_.state.files.erase("model.safetensors");
  registry_.state.files["model.safetensors.index.json"] = kIndex;
  registry_.state.files["model-00001-of-00002.safetensors"] = weights_.substr(0, 1000);
  registry_.state.files["model-00002-of-00002.safetensors"] = weights_.substr(1000);
  registry_.state.files["consolidated.safetensors"] = "another form of the same";
  registry_.state.large = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
  const auto pulled = PullIt("org/name:q8");
  ASSERT_TRUE(pulled.ok()) << pulled.error().ToString();
  EXPECT_EQ(pulled->quantisation, "q8");
  EXPECT_EQ(Read(pulled->folder / "model-00002-of-00002.safetensors"), weights_.substr(1000));
  EXPECT_FALSE(fs::exists(pulled->folder / "consolidated.safetensors"));

  registry_.state.files.erase("model-00002-of-00002.safetensors");
  EXPECT_THAT(ErrorOf(PullIt()), HasSubstr("which the repository does not have"));
}

TEST_F(PullTest, OfflineUsesTheCacheAlone) {
  registry_.settings.offline = true;
  EXPECT_THAT(ErrorOf(PullIt()), HasSubstr("told to stay offline"));
  registry_.settings.offline = false;
  ASSERT_TRUE(PullIt().ok());
  const size_t requests = registry_.CountRequests("");
  registry_.settings.offline = true;
  const auto pulled = PullIt();
  ASSERT_TRUE(pulled.ok()) << pulled.error().ToString();
  EXPECT_EQ(pulled->total_bytes, weights_.size() + 9);
  EXPECT_EQ(registry_.CountRequests(""), requests);
}

TEST_F(PullTest, ACancelledPullKeepsWhatItHas) {
  cancelled_ = true;
  const auto pulled = PullIt();
  ASSERT_FALSE(pulled.ok());
  EXPECT_EQ(pulled.error().code(), ErrorCode::kCancelled);
}

TEST_F(PullTest, TwoPullsAtOnceShareTheWork) {
  PullCallbacks callbacks;
  const ModelReference reference = *ParseModelReference("org/name");
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const auto pulled = Pull(registry_.settings, reference, callbacks, cancelled_);
      if (pulled.ok() && Read(pulled->folder / "model.safetensors") == weights_) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 3);
  EXPECT_EQ(registry_.CountRequests("GET cdn /model.safetensors"), 1u);
}

TEST_F(PullTest, SaysThatTheRegistryCannotBeReached) {
  registry_.settings.endpoint_text = "http://127.0.0.1:1";
  registry_.settings.endpoint = *net::ParseUrl(registry_.settings.endpoint_text);
  registry_.settings.endpoint.path.clear();
  const std::string error = ErrorOf(PullIt());
  EXPECT_THAT(error, HasSubstr("Cannot reach 127.0.0.1:1"));
  EXPECT_THAT(error, HasSubstr("--offline"));
}

TrustedCertificates CertificateOf(const FakeRegistry& fake) {
  for (const auto& file : fs::directory_iterator(fake.folder / "tls")) {
    const auto text = ReadTextFile(file.path());
    if (text.ok() && text->find("BEGIN CERTIFICATE") != std::string::npos) return {file.path(), ""};
  }
  return {};
}

TEST(PullOverTls, TrustsCertificatesOfTheSystemAlone) {
  FakeRegistry fake(true);
  fake.state.files = {{"config.json", "{}"}, {"model.safetensors", "weights"}};
  const std::atomic<bool> cancelled = false;
  size_t note_count = 0;
  PullCallbacks callbacks;
  callbacks.on_note = [&](const std::string&) { ++note_count; };
  const ModelReference reference = *ParseModelReference("org/name");
  const auto refused = Pull(fake.settings, reference, callbacks, cancelled);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("self-signed certificate"));
  EXPECT_THAT(refused.error().message(), HasSubstr("SSL_CERT_FILE"));
  EXPECT_EQ(note_count, 0u);  // trying again would not help

  fake.settings.certificates = CertificateOf(fake);
  const auto pulled = Pull(fake.settings, reference, callbacks, cancelled);
  EXPECT_TRUE(pulled.ok()) << pulled.error().ToString();

  // A registry on https does not lead to plain http.
  fake.state.files["model.safetensors"] = "other weights";
  fake.state.large = {"model.safetensors"};
  const auto downgraded = Pull(fake.settings, reference, callbacks, cancelled);
  ASSERT_FALSE(downgraded.ok());
  EXPECT_THAT(downgraded.error().message(), HasSubstr("from https to plain http"));
}

// Files of a megabyte are large here, and have six ranges.
class RangesTest : public PullTest {
 protected:
  RangesTest() {
    registry_.settings.split_bytes = 1 << 20;
    registry_.settings.range_bytes = 512 << 10;
  }
  fs::path Ranges() const { return WeightsBlob().string() + ".ranges"; }
  // Ends a pull after so many bytes: a number of whole ranges.
  void StopAfter(uint64_t bytes) {
    registry_.state.answers_left = static_cast<int>(bytes / registry_.settings.range_bytes);
    const auto stopped = PullIt();
    registry_.state.answers_left = 1 << 30;
    ASSERT_FALSE(stopped.ok());
    ASSERT_TRUE(fs::exists(Ranges()));
    notes_.clear();
  }
  void ExpectWhole(const Result<PulledModel>& pulled) {
    ASSERT_TRUE(pulled.ok()) << pulled.error().ToString();
    EXPECT_TRUE(Read(pulled->folder / "model.safetensors") == weights_);
    EXPECT_FALSE(fs::exists(Ranges()));
    EXPECT_FALSE(fs::exists(Ranges().string() + ".done"));
  }
};

TEST_F(RangesTest, DownloadALargeFileInParts) {
  const auto pulled = PullIt();
  ExpectWhole(pulled);
  EXPECT_EQ(pulled->fresh_bytes, pulled->total_bytes);
  EXPECT_EQ(registry_.CountRequests("GET cdn /model.safetensors bytes="), 6u);
  EXPECT_EQ(registry_.CountRequests("bytes=524288-1048575"),
            2u);  // at the registry, and where it leads
  EXPECT_TRUE(notes_.empty());
}

TEST_F(RangesTest, GoOnWhereTheyWere) {
  StopAfter(1 << 20);
  const auto pulled = PullIt();
  ExpectWhole(pulled);
  EXPECT_LE(pulled->fresh_bytes, weights_.size() + 9 - (1 << 20));
  EXPECT_EQ(summary_.missing_bytes, pulled->fresh_bytes);
}

TEST_F(RangesTest, SurviveBrokenConnectionsAndBusyServers) {
  registry_.state.cut["model.safetensors"] = 100000;
  registry_.state.busy["model.safetensors"] = 2;
  ExpectWhole(PullIt());
  EXPECT_GE(notes_.size(), 3u);
}

TEST_F(RangesTest, BytesThatADiskDamagedAreDownloadedAgain) {
  StopAfter(2 << 20);
  std::string bytes = Read(Ranges());
  for (size_t i = 0; i < bytes.size(); i += 1000) bytes[i] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(Ranges(), AsBytes(bytes)).ok());
  ExpectWhole(PullIt());
}

TEST_F(RangesTest, WhatIsSaidOfThemIsNotBelievedBlindly) {
  StopAfter(1 << 20);
  const fs::path done = Ranges().string() + ".done";
  for (const std::string& text : {std::string(), std::string("x"), std::string(64, '\xff'),
                                  std::string(48, '\0'), Read(done).substr(0, 40)}) {
    ASSERT_TRUE(WriteFileAtomically(done, AsBytes(text)).ok());
    const auto pulled = PullIt();
    ExpectWhole(pulled);
    EXPECT_EQ(pulled->fresh_bytes, weights_.size()) << text.size();
    fs::rename(WeightsBlob(), Ranges());  // as if it had not been finished
  }
}

TEST_F(RangesTest, TakeOverABeginning) {
  ASSERT_TRUE(PullIt().ok());
  fs::remove(WeightsBlob());
  ASSERT_TRUE(WriteFileAtomically(WeightsBlob().string() + ".incomplete",
                                  AsBytes(weights_.substr(0, 700000)))
                  .ok());
  const auto pulled = PullIt();
  ExpectWhole(pulled);
  EXPECT_EQ(pulled->fresh_bytes, weights_.size() - 700000);
  EXPECT_FALSE(fs::exists(WeightsBlob().string() + ".incomplete"));
}

TEST_F(RangesTest, AreDoneWithoutWhereAServerHasNone) {
  registry_.state.serves_ranges = false;
  ExpectWhole(PullIt());
  registry_.settings.connections = 1;
  fs::remove(WeightsBlob());
  ExpectWhole(PullIt());
}

TEST_F(RangesTest, WrongBytesAreRemoved) {
  std::string wrong = weights_;
  wrong[2000000] ^= 1;
  registry_.state.wrong_bytes["model.safetensors"] = wrong;
  EXPECT_THAT(ErrorOf(PullIt()), HasSubstr("It was removed"));
  EXPECT_FALSE(fs::exists(Ranges()));
  EXPECT_FALSE(fs::exists(WeightsBlob()));
}

// A proxy of our own between us and the registry: passes on what it is asked for, and counts.
TEST(PullThroughAProxy, AsksItForEverything) {
  for (const bool with_tls : {false, true}) {
    FakeRegistry fake(with_tls);
    FakeProxy proxy;
    fake.state.files = {{"config.json", "{}"}, {"model.safetensors", "weights"}};
    const std::map<std::string, std::string> variables = {
        {with_tls ? "https_proxy" : "http_proxy", proxy.address("user:p%40ss@")}};
    fake.settings.proxies = *Proxies::Read([&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
    if (with_tls) fake.settings.certificates = CertificateOf(fake);
    const std::atomic<bool> cancelled = false;
    const auto pulled = Pull(fake.settings, *ParseModelReference("org/name"), {}, cancelled);
    ASSERT_TRUE(pulled.ok()) << pulled.error().ToString();
    const std::vector<std::string> seen = proxy.requests();
    ASSERT_FALSE(seen.empty());
    const std::string host = fake.settings.endpoint.Authority();
    for (const std::string& request : seen) {
      EXPECT_THAT(request,
                  HasSubstr(with_tls ? "CONNECT " + host + " HTTP/1.1" : " http://" + host + "/"));
      EXPECT_THAT(request, HasSubstr("Basic dXNlcjpwQHNz"));  // user:p@ss
    }
    EXPECT_LE(seen.size(), fake.CountRequests(""));  // a tunnel may serve several
  }
}

TEST(PullThroughAProxy, ErrorsNameTheProxy) {
  FakeRegistry fake;
  FakeProxy proxy;
  const auto error_with = [&](const std::string& address, const std::string& endpoint) {
    RegistrySettings settings = fake.settings;
    settings.endpoint_text = endpoint;
    settings.endpoint = *net::ParseUrl(endpoint);
    settings.endpoint.path.clear();
    settings.proxies = *Proxies::Read([&](const char* name) {
      return std::string_view(name) == "all_proxy" ? address.c_str() : nullptr;
    });
    const std::atomic<bool> cancelled = false;
    const auto pulled = Pull(settings, *ParseModelReference("org/name"), {}, cancelled);
    EXPECT_FALSE(pulled.ok());
    return pulled.ok() ? "" : pulled.error().message();
  };
  for (const std::string endpoint : {"http://registry.example", "https://registry.example"}) {
    EXPECT_THAT(error_with("http://127.0.0.1:1", endpoint),
                HasSubstr("through the proxy 127.0.0.1:1"));
    proxy.refuse_with = 407;
    EXPECT_THAT(error_with(proxy.address(), endpoint),
                AllOf(HasSubstr("The proxy 127.0.0.1:"), HasSubstr("name and a password")));
    proxy.refuse_with = 0;
  }
  proxy.refuse_with = 502;
  EXPECT_THAT(error_with(proxy.address(), "https://registry.example"),
              AllOf(HasSubstr("The proxy 127.0.0.1:"), HasSubstr("registry.example:443"),
                    HasSubstr("502")));
}

TEST_F(PullTest, RemovesWhatNoOtherSnapshotUses) {
  ASSERT_TRUE(PullIt().ok());
  const std::string first = registry_.state.commit;
  registry_.state.commit = std::string(40, 'b');
  registry_.state.files["config.json"] = "{\"new\":1}";  // the weights stay the same
  ASSERT_TRUE(PullIt("org/name", "dev").ok());
  const RegistryCache cache(registry_.settings.cache, "org/name");
  const auto freed = cache.RemoveSnapshot(first);
  ASSERT_TRUE(freed.ok()) << freed.error().ToString();
  EXPECT_EQ(*freed, 2u);  // the old config.json
  EXPECT_TRUE(fs::exists(WeightsBlob()));
  EXPECT_FALSE(fs::exists(Repository() / "refs" / "main"));
  EXPECT_EQ(cache.ReadRef("dev"), registry_.state.commit);
  const auto rest = cache.RemoveSnapshot(registry_.state.commit);
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(*rest, weights_.size() + 7 + 9);
  EXPECT_FALSE(fs::exists(Repository()));
}

}  // namespace
}  // namespace weft::registry
