// What a registry's replies say, checked: nothing in them is trusted until it was read here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/http.h"
#include "registry/content_hash.h"

namespace weft::registry {

struct RepositoryListing {
  std::string commit;              // that the revision stands for
  std::vector<std::string> files;  // checked names (model_reference.h)
};

struct RemoteFile {
  std::string name;
  ContentName content;  // what the bytes must hash to
  uint64_t byte_count = 0;
};

// The body of GET /api/models/<repository>/revision/<revision>. All errors are kInvalidData, but
// for names of files that would lead out of the cache (kPermissionDenied).
Result<RepositoryListing> ParseListing(const std::string& body);

// Hash and length of a file from the headers of HEAD: those of the linked (large) file come first.
Result<RemoteFile> ParseLook(const net::HttpReply& reply, const std::string& commit,
                             const std::string& name);

// Where the bytes of a reply to "Range: bytes=<offset>-" begin; the length that it states must be
// the file's.
Result<uint64_t> StartOfBody(const net::HttpReply& head, const RemoteFile& file, uint64_t offset);

}  // namespace weft::registry
