#include "registry/registry_replies.h"

#include <boost/json.hpp>
#include <charconv>
#include <optional>

#include "net/http_fields.h"
#include "registry/model_reference.h"

namespace weft::registry {
namespace json = boost::json;

namespace {

constexpr size_t kMaxFiles = 50000;
constexpr size_t kMaxJsonDepth = 32;

std::optional<uint64_t> WholeNumber(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

Error BadListing(const std::string& why) {
  return Error(ErrorCode::kInvalidData,
               "The registry's answer about the model is not as expected: " + why + ".");
}

}  // namespace

Result<RepositoryListing> ParseListing(const std::string& body) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  const json::value value = json::parse(body, error, {}, options);
  if (error) return BadListing("it is no JSON (" + error.message() + ")");
  const json::value* commit = value.is_object() ? value.as_object().if_contains("sha") : nullptr;
  if (commit == nullptr || !commit->is_string() || !IsCommitHash(commit->as_string())) {
    return BadListing("it has no 'sha' with 40 hexadecimal digits");
  }
  const json::value* siblings = value.as_object().if_contains("siblings");
  if (siblings == nullptr || !siblings->is_array()) return BadListing("it has no list 'siblings'");
  if (siblings->as_array().size() > kMaxFiles) {
    return BadListing("it lists more than " + std::to_string(kMaxFiles) + " files");
  }
  RepositoryListing listing;
  listing.commit = std::string(commit->as_string());
  for (const json::value& sibling : siblings->as_array()) {
    const json::value* name =
        sibling.is_object() ? sibling.as_object().if_contains("rfilename") : nullptr;
    if (name == nullptr || !name->is_string()) return BadListing("a file has no 'rfilename'");
    TRY(CheckFileName(name->as_string()));
    listing.files.emplace_back(name->as_string());
  }
  return listing;
}

Result<RemoteFile> ParseLook(const net::HttpReply& reply, const std::string& commit,
                             const std::string& name) {
  const auto either = [&](const char* first, const char* second) {
    const std::string_view value = reply.Header(first);
    return value.empty() ? reply.Header(second) : value;
  };
  const std::string while_looking = "While looking at '" + name + "'";
  RemoteFile file;
  file.name = name;
  ASSIGN_OR_RETURN(
      file.content,
      ContentName::Parse(either("x-linked-etag", "etag")).Context(std::string(while_looking)));
  const auto byte_count = WholeNumber(either("x-linked-size", "content-length"));
  if (!byte_count) {
    return Error(ErrorCode::kInvalidData, "The registry does not say how long '" + name + "' is.");
  }
  file.byte_count = *byte_count;
  const std::string_view stated = reply.Header("x-repo-commit");
  if (!stated.empty() && stated != commit) {
    return Error(ErrorCode::kInvalidData, "The registry was asked for '" + name + "' of commit " +
                                              commit + " and answered for " + Printable(stated) +
                                              ".");
  }
  return file;
}

Result<uint64_t> StartOfBody(const net::HttpReply& head, const RemoteFile& file, uint64_t offset) {
  const std::string file_bytes = std::to_string(file.byte_count);
  if (head.status == 206) {
    const std::string expected = "bytes " + std::to_string(offset) + "-";
    const std::string range = net::LowerCase(net::Trimmed(head.Header("content-range")));
    if (!range.starts_with(expected) || !range.ends_with("/" + file_bytes)) {
      return Error(ErrorCode::kInvalidData, "The registry was asked for '" + file.name +
                                                "' from byte " + std::to_string(offset) + " of " +
                                                file_bytes + " and answered with '" +
                                                Printable(range) + "'.");
    }
    return offset;
  }
  const std::string_view length = head.Header("content-length");
  if (!length.empty() && length != file_bytes) {
    return Error(ErrorCode::kInvalidData, "The registry said that '" + file.name + "' has " +
                                              file_bytes + " bytes and now sends " +
                                              Printable(length) + ".");
  }
  return uint64_t{0};
}

}  // namespace weft::registry
