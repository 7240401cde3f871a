// References, file names, settings, hashes and the choice of files: everything without a network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/random.h"
#include "hub/content_hash.h"
#include "hub/file_selection.h"
#include "hub/hub_settings.h"
#include "hub/library.h"
#include "hub/model_reference.h"

namespace weft::hub {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ModelReference, ReadsWhatPeopleType) {
  const auto plain = ParseModelReference("Qwen/Qwen3-0.6B");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->repository, "Qwen/Qwen3-0.6B");
  EXPECT_EQ(plain->PackageName(), "Qwen--Qwen3-0.6B");
  const auto quantised = ParseModelReference("Qwen/Qwen3-0.6B:Q4_K_M", "refs/pr/7");
  ASSERT_TRUE(quantised.ok());
  EXPECT_EQ(quantised->form, "q4_k_m");
  EXPECT_EQ(quantised->PackageName(), "Qwen--Qwen3-0.6B-q4_k_m@refs--pr--7");
  EXPECT_EQ(ParseModelReference("gpt2:q8")->PackageName(), "gpt2-q8");
}

TEST(ModelReference, RefusesWhatCouldLeaveAFolder) {
  for (const char* text :
       {"", "/", "a/", "/a", "a/b/c", "../b", "a/..", "a/b:", "a/b:q4:q8", "a b/c", "a/b?x",
        "a--b/c", "a/b:../c", "a/b%2f", "-a/b", "~/b", ".", "a/.b"}) {
    EXPECT_FALSE(ParseModelReference(text).ok()) << text;
  }
  for (const char* revision : {"../x", "/x", "a//b", "a b", "x/", "a\nb", "."}) {
    EXPECT_FALSE(ParseModelReference("a/b", revision).ok()) << revision;
  }
}

TEST(ContentHash, AgreesWithGitAndSha256sum) {
  // printf 'hello world\n' | git hash-object --stdin, and | sha256sum
  const std::string text = "hello world\n";
  const char* git = "3b18e512dba79e4c8300dd08aeb37f8e728b8dad";
  const char* sha256 = "a948904f2f0f479b8f8197694b30184b0d2ed1c1cd2a1ec0fb85d299a192a447";
  for (const std::string& name : {std::string(git), std::string(sha256)}) {
    const auto content = ContentName::Parse("W/\"" + name + "\"");
    ASSERT_TRUE(content.ok());
    ContentHash hash(*content, text.size());
    hash.Update(AsBytes(text.substr(0, 5)));
    hash.Update(AsBytes(text.substr(5)));
    EXPECT_EQ(hash.Finish(), name);
  }
  for (const char* etag :
       {"", "\"\"", "abc", "../../../../etc/passwd", "\"5d41402abc4b2a76b9719d9\""}) {
    EXPECT_FALSE(ContentName::Parse(etag).ok()) << etag;
  }
  EXPECT_FALSE(ContentName::Parse(std::string(39, 'a') + "/").ok());
}

TEST(HubSettings, FollowTheEnvironment) {
  const fs::path folder = fs::temp_directory_path() / ("weft-settings-" + SecureRandomHex(6));
  fs::create_directories(folder);
  std::map<std::string, std::string> variables = {{"HOME", "/u"}};
  const Environment environment = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  auto settings = ReadHubSettings(environment);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->endpoint.Authority(), "huggingface.co:443");
  EXPECT_TRUE(settings->endpoint.tls);
  EXPECT_EQ(settings->cache, "/u/.cache/huggingface/hub");
  EXPECT_FALSE(settings->offline);
  EXPECT_EQ(LibraryFolder(environment), "/u/.local/share/weft/packages");

  ASSERT_TRUE(WriteFileAtomically(folder / "token", AsBytes(std::string("hf_file\n"))).ok());
  variables = {{"HF_HOME", folder.string()},
               {"HF_ENDPOINT", "http://127.0.0.1:9/mirror/"},
               {"HF_HUB_OFFLINE", "True"},
               {"XDG_DATA_HOME", "/data"}};
  settings = ReadHubSettings(environment);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->token, "hf_file");
  EXPECT_EQ(settings->cache, folder / "hub");
  EXPECT_EQ(settings->endpoint.path, "/mirror");
  EXPECT_TRUE(settings->offline);
  EXPECT_EQ(LibraryFolder(environment), "/data/weft/packages");

  variables["HF_TOKEN"] = "hf_a\r\nX-Evil: 1";
  EXPECT_FALSE(ReadHubSettings(environment).ok());
  variables["HF_TOKEN"] = " hf_env ";
  variables["HF_HUB_CACHE"] = "/elsewhere";
  variables["WEFT_HOME"] = "/weft";
  EXPECT_EQ(ReadHubSettings(environment)->token, "hf_env");
  EXPECT_EQ(ReadHubSettings(environment)->cache, "/elsewhere");
  EXPECT_EQ(LibraryFolder(environment), "/weft/packages");
  for (const char* endpoint : {"huggingface.co", "ftp://x", "http://"}) {
    variables["HF_ENDPOINT"] = endpoint;
    EXPECT_FALSE(ReadHubSettings(environment).ok()) << endpoint;
  }
  fs::remove_all(folder);
}

std::string SelectionError(const std::vector<std::string>& names, const std::string& form = "") {
  const auto selection = SelectFiles(names, form, "org/name");
  EXPECT_FALSE(selection.ok());
  return selection.ok() ? "" : selection.error().message();
}

TEST(SelectFiles, TakesSafetensorsAndText) {
  const std::vector<std::string> names = {
      "README.md",         "config.json",         "tokenizer.json",  "tokenizer_config.json",
      "model.safetensors", "pytorch_model.bin",   "onnx/model.onnx", "original/config.json",
      "x-Q4_K_M.gguf",     "chat_template.jinja", "training_args.pt"};
  const auto plain = SelectFiles(names, "", "org/name");
  ASSERT_TRUE(plain.ok());
  EXPECT_THAT(plain->files, ElementsAre("config.json", "tokenizer.json", "tokenizer_config.json",
                                        "chat_template.jinja", "model.safetensors"));
  EXPECT_EQ(plain->quantisation, "keep");
  EXPECT_EQ(SelectFiles(names, "q4", "org/name")->quantisation, "q4");
  EXPECT_EQ(SelectFiles(names, "q4_k_m", "org/name")->gguf_file, "x-Q4_K_M.gguf");
  EXPECT_THAT(SelectionError(names, "q5_k_m"), HasSubstr("x-Q4_K_M.gguf"));
}

TEST(SelectFiles, ChoosesAmongGgufFiles) {
  const std::vector<std::string> names = {"a-Q4_K_M.gguf",
                                          "a-Q4_K_S.gguf",
                                          "Q8_0/a-Q8_0-00001-of-00002.gguf",
                                          "Q8_0/a-Q8_0-00002-of-00002.gguf",
                                          "a.f16.gguf",
                                          "mmproj-a-f16.gguf",
                                          "imatrix.dat"};
  const auto shards = SelectFiles(names, "q8_0", "org/name");
  ASSERT_TRUE(shards.ok());
  EXPECT_EQ(shards->files.size(), 2u);
  EXPECT_EQ(shards->gguf_file, "Q8_0/a-Q8_0-00001-of-00002.gguf");
  EXPECT_EQ(shards->quantisation, "keep");
  EXPECT_EQ(SelectFiles(names, "f16", "org/name")->gguf_file, "a.f16.gguf");
  EXPECT_THAT(SelectionError(names), HasSubstr("several GGUF files; say which"));
  EXPECT_THAT(SelectionError(names, "q4"), HasSubstr("no GGUF file with 'q4'"));  // no prefix
  EXPECT_THAT(SelectionError(names, "q6_k"), HasSubstr("a-Q4_K_S.gguf"));
  EXPECT_THAT(SelectionError({"a-Q2_K.gguf", "b-Q2_K.gguf"}, "q2_k"), HasSubstr("several"));
  EXPECT_THAT(SelectionError({"a-00001-of-00003.gguf", "a-00002-of-00003.gguf"}),
              HasSubstr("there are 2"));
  const auto only = SelectFiles({"a-Q8_0.gguf"}, "q4", "org/name");  // ours, from the one file
  ASSERT_TRUE(only.ok());
  EXPECT_EQ(only->quantisation, "q4");
}

TEST(SelectFiles, SaysWhyThereIsNothing) {
  EXPECT_THAT(SelectionError({"config.json", "pytorch_model.bin"}), HasSubstr("pickles"));
  EXPECT_THAT(SelectionError({"adapter_config.json", "adapter_model.safetensors"}),
              HasSubstr("is an adapter"));
  EXPECT_THAT(SelectionError({"README.md"}), HasSubstr("README.md"));
  EXPECT_THAT(SelectionError({"model.safetensors"}), HasSubstr("no config.json"));
  EXPECT_THAT(SelectionError({}), HasSubstr("neither"));
}

TEST(ShardsOfIndex, RefusesOtherFiles) {
  const std::vector<std::string> names = {"a.safetensors", "b.bin"};
  EXPECT_TRUE(ShardsOfIndex(R"({"weight_map":{"t":"a.safetensors"}})", names).ok());
  for (const char* bad :
       {"", "{}", R"({"weight_map":1})", R"({"weight_map":{"t":1}})",
        R"({"weight_map":{"t":"../a.safetensors"}})", R"({"weight_map":{"t":"b.bin"}})"}) {
    EXPECT_FALSE(ShardsOfIndex(bad, names).ok()) << bad;
  }
}

TEST(Library, FindsListsAndRemoves) {
  const fs::path library = fs::temp_directory_path() / ("weft-library-" + SecureRandomHex(6));
  package::Manifest manifest;
  manifest.name = "tiny";
  manifest.architecture = "llama";
  manifest.quantisation = "q4";
  manifest.hidden_columns = 64;
  manifest.vocabulary = 512;
  manifest.context_length = 512;
  manifest.lowered = false;
  for (const char* kind : {"embedding", "transformer", "head"}) {
    package::LayerInfo layer;
    layer.index = static_cast<uint32_t>(manifest.layers.size());
    layer.kind = kind;
    manifest.layers.push_back(layer);
  }
  manifest.files["model.onnx"] = package::Digest::Of({});
  const fs::path folder = library / "org--name-q4";
  fs::create_directories(folder / "blobs");
  ASSERT_TRUE(WriteFileAtomically(folder / "weft.json", AsBytes(package::ToJson(manifest))).ok());
  const PackageSource source{"https://hub", "org/name", "main", std::string(40, 'c'), {"a"}};
  ASSERT_TRUE(WriteSource(folder, source).ok());
  fs::create_directories(library / "broken");
  ASSERT_TRUE(WriteFileAtomically(library / "broken" / "weft.json", AsBytes("{}")).ok());
  fs::create_directories(library / "not-a-package");

  std::vector<std::string> problems;
  const auto entries = ListLibrary(library, &problems);
  ASSERT_EQ(entries.size(), 1u) << testing::PrintToString(problems);
  EXPECT_EQ(problems.size(), 1u);
  EXPECT_EQ(entries[0].name, "org--name-q4");
  EXPECT_GT(entries[0].byte_count, 100u);
  EXPECT_GT(entries[0].made_at_seconds, 1600000000);
  ASSERT_TRUE(entries[0].source.has_value());
  EXPECT_EQ(entries[0].source->repository, "org/name");
  EXPECT_EQ(entries[0].source->commit, source.commit);

  for (const std::string& text : {std::string("org--name-q4"), std::string("org/name:q4"),
                                  folder.string(), folder.string() + "/"}) {
    const auto found = FindPackage(library, text);
    ASSERT_TRUE(found.ok()) << text;
    EXPECT_TRUE(fs::equivalent(*found, folder));
  }
  for (const char* text : {"", ".", "..", "org/name", "not-a-package", "../x"}) {
    EXPECT_FALSE(FindPackage(library, text).ok()) << text;
  }
  EXPECT_FALSE(RemovePackage(library / "not-a-package").ok());
  EXPECT_FALSE(RemovePackage(library).ok());
  const auto freed = RemovePackage(folder);
  ASSERT_TRUE(freed.ok()) << freed.error().ToString();
  EXPECT_EQ(*freed, entries[0].byte_count);
  EXPECT_FALSE(fs::exists(folder));

  // A source.json that leads elsewhere is not believed: `weft rm --cache` follows it.
  fs::create_directories(folder);
  ASSERT_TRUE(WriteFileAtomically(folder / "weft.json", AsBytes(package::ToJson(manifest))).ok());
  ASSERT_TRUE(
      WriteSource(folder, {"https://hub", "../../etc", "main", std::string(40, 'c'), {}}).ok());
  EXPECT_FALSE(ReadEntry(folder)->source.has_value());
  fs::remove_all(library);
}

}  // namespace
}  // namespace weft::hub
