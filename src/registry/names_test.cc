// References, file names, settings, hashes and the choice of files: everything without a network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/random.h"
#include "registry/content_hash.h"
#include "registry/file_selection.h"
#include "registry/library.h"
#include "registry/model_reference.h"
#include "registry/registry_settings.h"

namespace weft::registry {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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

TEST(RegistrySettings, FollowTheEnvironment) {
  const fs::path folder = fs::temp_directory_path() / ("weft-settings-" + SecureRandomHex(6));
  fs::create_directories(folder);
  std::map<std::string, std::string> variables = {{"HOME", "/u"}};
  const Environment environment = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  auto settings = ReadRegistrySettings(environment);
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
               {"SSL_CERT_FILE", "/own.pem"},
               {"XDG_DATA_HOME", "/data"}};
  settings = ReadRegistrySettings(environment);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->token, "hf_file");
  EXPECT_EQ(settings->cache, folder / "hub");
  EXPECT_EQ(settings->endpoint.path, "/mirror");
  EXPECT_EQ(settings->certificates.file, "/own.pem");
  EXPECT_EQ(settings->certificates.folder, "");
  EXPECT_TRUE(settings->offline);
  EXPECT_EQ(LibraryFolder(environment), "/data/weft/packages");

  variables["HF_TOKEN"] = "hf_a\r\nX-Evil: 1";
  EXPECT_FALSE(ReadRegistrySettings(environment).ok());
  variables["HF_TOKEN"] = " hf_env ";
  variables["HF_HUB_CACHE"] = "/elsewhere";
  variables["WEFT_HOME"] = "/weft";
  EXPECT_EQ(ReadRegistrySettings(environment)->token, "hf_env");
  EXPECT_EQ(ReadRegistrySettings(environment)->cache, "/elsewhere");
  EXPECT_EQ(LibraryFolder(environment), "/weft/packages");
  // As huggingface_hub reads them: older names, "~" and other variables in paths.
  variables = {{"HOME", "/u"},
               {"HF_HOME", "~/hf/${WHO}/$WHAT"},
               {"WHO", "me"},
               {"HUGGING_FACE_HUB_TOKEN", "hf_old"},
               {"TRANSFORMERS_OFFLINE", "ON"}};
  EXPECT_EQ(ReadRegistrySettings(environment)->cache, "/u/hf/me/$WHAT/hub");
  EXPECT_EQ(ReadRegistrySettings(environment)->token, "hf_old");
  EXPECT_TRUE(ReadRegistrySettings(environment)->offline);
  variables["HF_HUB_OFFLINE"] = "0";
  variables["HUGGINGFACE_HUB_CACHE"] = "~/old";
  variables["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1";
  EXPECT_FALSE(ReadRegistrySettings(environment)->offline);
  EXPECT_EQ(ReadRegistrySettings(environment)->cache, "/u/old");
  EXPECT_EQ(ReadRegistrySettings(environment)->token, "");
  variables = {{"HOME", "/u"}, {"XDG_CACHE_HOME", "relative"}, {"XDG_DATA_HOME", "./x"}};
  EXPECT_EQ(ReadRegistrySettings(environment)->cache, "/u/.cache/huggingface/hub");
  EXPECT_EQ(LibraryFolder(environment), "/u/.local/share/weft/packages");
  for (const char* endpoint : {"huggingface.co", "ftp://x", "http://"}) {
    variables["HF_ENDPOINT"] = endpoint;
    EXPECT_FALSE(ReadRegistrySettings(environment).ok()) << endpoint;
  }
  fs::remove_all(folder);
}

std::string SelectionError(const std::vector<std::string>& names, const std::string& form = "") {
  const auto selection = SelectFiles(names, form, "org/name");
  EXPECT_FALSE(selection.ok());
  return selection.ok() ? "" : selection.error().message();
}

TEST(Proxies, AreThoseOfTheEnvironment) {
  std::map<std::string, std::string> variables;
  const Environment environment = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  const auto proxy_of = [&](const std::string& server) {
    const auto proxies = Proxies::Read(environment);
    EXPECT_TRUE(proxies.ok());
    return proxies->For(*net::ParseUrl(server)).authority;
  };
  EXPECT_EQ(proxy_of("https://registry.example"), "");
  variables = {{"https_proxy", "http://proxy.example:3128/"}, {"HTTP_PROXY", "other:8080"}};
  EXPECT_EQ(proxy_of("https://registry.example"), "proxy.example:3128");
  EXPECT_EQ(proxy_of("http://registry.example"), "other:8080");
  variables["HTTPS_PROXY"] = "http://loud:1";  // lower case is asked first
  variables["no_proxy"] = "localhost, .example.org,registry.example:444,10.0.0.1";
  EXPECT_EQ(proxy_of("https://registry.example"), "proxy.example:3128");
  for (const char* server :
       {"http://localhost:80", "https://example.org", "https://a.B.example.ORG",
        "https://registry.example:444", "http://10.0.0.1"}) {
    EXPECT_EQ(proxy_of(server), "") << server;
  }
  EXPECT_NE(proxy_of("https://badexample.org"), "");
  variables["no_proxy"] = "*";
  EXPECT_EQ(proxy_of("https://registry.example"), "");
  variables["no_proxy"] =
      "*.Example.ORG 10.1.0.0/16\t[2001:db8::]/32, [::1]:8080;FULL.example., 192.168.1.7:81";
  for (const char* server :
       {"https://a.example.org", "http://10.1.200.3", "https://[2001:DB8:1::5]",
        "http://[0:0::1]:8080", "http://full.example", "http://192.168.1.7:81"}) {
    EXPECT_EQ(proxy_of(server), "") << server;
  }
  for (const char* server : {"http://10.2.0.1", "http://[2001:db9::1]", "http://[::1]:8081",
                             "http://192.168.1.7:80", "http://1.192.168.1.7"}) {
    EXPECT_NE(proxy_of(server), "") << server;
  }
  variables["no_proxy"] = "0.0.0.0/0, 10.0.0.0/33, ::/x, user@host, ,";
  EXPECT_EQ(proxy_of("http://10.2.0.1"), "");
  EXPECT_NE(proxy_of("http://[::1]"), "");
  // What is set to nothing is set; of a web server's client is nothing.
  variables = {{"http_proxy", ""}, {"HTTP_PROXY", "http://loud:1"}, {"ALL_PROXY", " all:2 "}};
  EXPECT_EQ(proxy_of("http://registry.example"), "all:2");
  variables.erase("http_proxy");
  EXPECT_EQ(proxy_of("http://registry.example"), "loud:1");
  variables["REQUEST_METHOD"] = "GET";
  EXPECT_EQ(proxy_of("http://registry.example"), "all:2");
  variables = {{"all_proxy", "http://name:p%40ss@proxy.example"}};
  EXPECT_EQ(proxy_of("https://registry.example"), "proxy.example:80");  // http's port
  EXPECT_EQ(Proxies::Read(environment)->For(*net::ParseUrl("http://a")).address,
            "http://name:p%40ss@proxy.example:80/");
  for (const char* bad : {"socks5://secret@host:1", "https://secret@host", "http://secret@",
                          "http://secret@host:99999"}) {
    variables = {{"HTTPS_PROXY", bad}};
    const auto refused = Proxies::Read(environment);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_THAT(refused.error().message(), HasSubstr("HTTPS_PROXY"));
    EXPECT_THAT(refused.error().message(), Not(HasSubstr("secret")));
  }
}

TEST(SelectFiles, TakesWhatSaysHowEmbeddingsAreMade) {
  const auto selection =
      SelectFiles({"1_Pooling/config.json", "2_Normalize/README.md", "config.json",
                   "config_sentence_transformers.json", "model.safetensors", "modules.json",
                   "onnx/config.json", "sentence_bert_config.json", "x_Pooling/config.json"},
                  "", "org/name");
  ASSERT_TRUE(selection.ok());
  EXPECT_THAT(selection->files, ElementsAre("1_Pooling/config.json", "config.json",
                                            "config_sentence_transformers.json", "modules.json",
                                            "sentence_bert_config.json", "model.safetensors"));
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
  EXPECT_EQ(SelectFiles(names, "q4s", "org/name")->quantisation, "q4s");
  EXPECT_EQ(SelectFiles(names, "q4_k_m", "org/name")->model_file, "x-Q4_K_M.gguf");
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
  const auto parts = SelectFiles(names, "q8_0", "org/name");
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(parts->files.size(), 2u);
  EXPECT_EQ(parts->model_file, "Q8_0/a-Q8_0-00001-of-00002.gguf");
  EXPECT_EQ(parts->quantisation, "keep");
  EXPECT_EQ(SelectFiles(names, "f16", "org/name")->model_file, "a.f16.gguf");
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

// As exporters' repositories look: one graph in many forms, most with their weights beside them.
TEST(SelectFiles, ChoosesAmongOnnxModels) {
  const std::vector<std::string> names = {".gitattributes",
                                          "README.md",
                                          "config.json",
                                          "generation_config.json",
                                          "tokenizer.json",
                                          "tokenizer_config.json",
                                          "onnx/model.onnx",
                                          "onnx/model.onnx_data",
                                          "onnx/model.onnx_data_1",
                                          "onnx/model_bnb4.onnx",
                                          "onnx/model_fp16.onnx",
                                          "onnx/model_fp16.onnx_data",
                                          "onnx/model_int8.onnx",
                                          "onnx/model_q4.onnx",
                                          "onnx/model_q4.onnx_data",
                                          "onnx/model_q4f16.onnx",
                                          "onnx/model_quantized.onnx",
                                          "onnx/model_uint8.onnx",
                                          "onnx/vision_encoder.onnx"};
  const auto chosen = [&](const std::string& form) {
    const auto selection = SelectFiles(names, form, "org/name");
    EXPECT_TRUE(selection.ok()) << form;
    return selection.ok() ? selection->model_file : "";
  };
  EXPECT_EQ(chosen(""), "onnx/model_fp16.onnx");
  EXPECT_EQ(chosen("fp16"), "onnx/model_fp16.onnx");
  EXPECT_EQ(chosen("f16"), "onnx/model_fp16.onnx");
  EXPECT_EQ(chosen("f32"), "onnx/model.onnx");
  EXPECT_EQ(chosen("q4f16"), "onnx/model_q4f16.onnx");
  EXPECT_EQ(chosen("int8"), "onnx/model_int8.onnx");
  EXPECT_EQ(chosen("q8"), "onnx/model_quantized.onnx");
  const auto q4 = SelectFiles(names, "q4", "org/name");
  ASSERT_TRUE(q4.ok());
  EXPECT_EQ(q4->quantisation, "keep");  // taken as it is
  EXPECT_THAT(q4->files, ElementsAre("config.json", "generation_config.json", "tokenizer.json",
                                     "tokenizer_config.json", "onnx/model_q4.onnx",
                                     "onnx/model_q4.onnx_data"));
  EXPECT_THAT(SelectFiles(names, "f32", "org/name")->files,
              AllOf(Contains("onnx/model.onnx_data"), Contains("onnx/model.onnx_data_1"),
                    Not(Contains("onnx/model_q4.onnx_data"))));
  EXPECT_THAT(SelectionError(names, "q3"),
              AllOf(HasSubstr("no ONNX model ':q3'"), HasSubstr("onnx/model_q4f16.onnx (:q4f16)"),
                    Not(HasSubstr("vision_encoder"))));
  const auto next_best = SelectFiles({"config.json", "onnx/model_q4f16.onnx"}, "q4", "org/name");
  ASSERT_TRUE(next_best.ok());
  EXPECT_EQ(next_best->model_file, "onnx/model_q4f16.onnx");
  EXPECT_THAT(SelectionError({"model_int8.onnx", "model_uint8.onnx"}), HasSubstr("say which"));
}

// As the builder's repositories look: a folder for each form, with a configuration of its own.
TEST(SelectFiles, ChoosesAmongFoldersOfOnnxModels) {
  const std::string cpu = "cpu_and_mobile/cpu-int4-rtn-block-32/", cuda = "cuda/cuda-fp16/";
  std::vector<std::string> names = {"README.md", "config.json"};
  for (const std::string& folder : {cpu, cuda}) {
    for (const char* file :
         {"genai_config.json", "model.onnx", "model.onnx.data", "tokenizer.json"})
      names.push_back(folder + file);
  }
  const auto selection = SelectFiles(names, "cpu-int4-rtn-block-32", "org/name");
  ASSERT_TRUE(selection.ok()) << selection.error().ToString();
  EXPECT_EQ(selection->model_file, cpu + "model.onnx");
  EXPECT_THAT(selection->files, ElementsAre(cpu + "genai_config.json", cpu + "tokenizer.json",
                                            cpu + "model.onnx", cpu + "model.onnx.data"));
  EXPECT_EQ(SelectFiles(names, "cuda", "org/name")->model_file, cuda + "model.onnx");
  EXPECT_THAT(SelectionError(names), HasSubstr("(:cuda-fp16)"));
}

TEST(SelectFiles, SaysWhyThereIsNothing) {
  EXPECT_THAT(SelectionError({"config.json", "pytorch_model.bin"}), HasSubstr("pickles"));
  EXPECT_THAT(SelectionError({"adapter_config.json", "adapter_model.safetensors"}),
              HasSubstr("is an adapter"));
  EXPECT_THAT(SelectionError({"README.md"}), HasSubstr("README.md"));
  EXPECT_THAT(SelectionError({"model.safetensors"}), HasSubstr("no config.json"));
  EXPECT_THAT(SelectionError({}), HasSubstr("neither"));
}

TEST(FilesOfIndex, RefusesOtherFiles) {
  const std::vector<std::string> names = {"a.safetensors", "b.bin"};
  EXPECT_TRUE(FilesOfIndex(R"({"weight_map":{"t":"a.safetensors"}})", names).ok());
  for (const char* bad :
       {"", "{}", R"({"weight_map":1})", R"({"weight_map":{"t":1}})",
        R"({"weight_map":{"t":"../a.safetensors"}})", R"({"weight_map":{"t":"b.bin"}})"}) {
    EXPECT_FALSE(FilesOfIndex(bad, names).ok()) << bad;
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
  const PackageSource source{"https://registry", "org/name", "main", std::string(40, 'c'), {"a"}};
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
      WriteSource(folder, {"https://registry", "../../etc", "main", std::string(40, 'c'), {}})
          .ok());
  EXPECT_FALSE(ReadEntry(folder)->source.has_value());
  fs::remove_all(library);
}

}  // namespace
}  // namespace weft::registry
