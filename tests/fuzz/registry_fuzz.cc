// What a registry sends, and names that people type: never a crash, and nothing that is accepted
// leads out of the folder it is meant for.
#include <filesystem>

#include "registry/content_hash.h"
#include "registry/file_selection.h"
#include "registry/model_reference.h"
#include "registry/registry_replies.h"

namespace {

void CheckStaysBelow(const std::string& name) {
  const std::filesystem::path folder = "/cache/snapshots/x";
  const auto path = (folder / name).lexically_normal();
  CHECK(path.string().starts_with(folder.string() + "/"), path.string());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  using namespace weft;
  const std::string text(AsText({data, byte_count}));
  if (const auto listing = registry::ParseListing(text); listing.ok()) {
    CHECK(registry::IsCommitHash(listing->commit));
    for (const std::string& name : listing->files) CheckStaysBelow(name);
    for (const char* form : {"", "q4", "q4_k_m", "q4f16"}) {
      const auto selection = registry::SelectFiles(listing->files, form, "org/name");
      if (selection.ok()) CHECK(!selection->files.empty() || !selection->index_file.empty());
    }
  }
  if (const auto reference = registry::ParseModelReference(text); reference.ok()) {
    CheckStaysBelow(reference->PackageName());
    CHECK(reference->PackageName().find('/') == std::string::npos);
  }
  if (const auto files = registry::FilesOfIndex(text, {"a.safetensors"}); files.ok()) {
    CHECK(files->size() <= 1);
  }
  if (registry::CheckFileName(text).ok()) CheckStaysBelow(text);
  if (const auto content = registry::ContentName::Parse(text); content.ok()) {
    CheckStaysBelow(content->hex());
  }
  net::HttpReply reply;
  reply.status = byte_count % 2 == 0 ? 200 : 206;
  for (const char* name : {"etag", "content-length", "content-range", "x-repo-commit"}) {
    reply.headers.emplace_back(name, text);
  }
  registry::RemoteFile file;
  file.byte_count = byte_count;
  if (registry::ParseLook(reply, std::string(40, 'a'), "a").ok()) CHECK(!text.empty());
  const auto start = registry::StartOfBody(reply, file, byte_count / 2);
  CHECK(!start.ok() || *start <= byte_count);
  return 0;
}
