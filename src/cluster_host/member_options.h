// What a server of a cluster is told.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cluster_host/cluster_key.h"

namespace weft::cluster_host {

struct MemberOptions {
  std::string database_url;  // "postgres://weft@db/weft"
  std::string url;           // "https://a.weft.school.lan": how other servers and workers reach it
  std::vector<ClusterKey> keys;    // the first one counts; the other one is valid, too
  std::filesystem::path key_file;  // where they are from
  std::filesystem::path id_file;   // holds the server's id from start to start
};

}  // namespace weft::cluster_host
