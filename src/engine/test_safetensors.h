// For tests only: reads the f32 and i64 tensors of a small safetensors file (8-byte header length,
// JSON, data).
#pragma once

#include <boost/json.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"

namespace weft::engine {

class TestSafetensors {
 public:
  explicit TestSafetensors(const std::filesystem::path& path)
      : file_(MappedFile::Open(path).value()) {
    const auto header_bytes = LoadLe<uint64_t>(file_->bytes().data());
    header_ = boost::json::parse(AsText(file_->bytes().subspan(8, header_bytes))).as_object();
    data_ = file_->bytes().subspan(8 + header_bytes);
  }

  bool Has(const std::string& name) const { return header_.contains(name); }
  std::vector<float> Floats(const std::string& name) const { return Read<float>(name, "F32"); }
  std::vector<int64_t> Ints(const std::string& name) const { return Read<int64_t>(name, "I64"); }

 private:
  template <typename T>
  std::vector<T> Read(const std::string& name, std::string_view dtype) const {
    const auto& entry = header_.at(name).as_object();
    CHECK(entry.at("dtype").as_string() == dtype);
    const auto first = entry.at("data_offsets").at(0).to_number<size_t>();
    const auto end = entry.at("data_offsets").at(1).to_number<size_t>();
    std::vector<T> values((end - first) / sizeof(T));
    std::memcpy(values.data(), data_.subspan(first, end - first).data(), end - first);
    return values;
  }

  std::shared_ptr<const MappedFile> file_;
  boost::json::object header_;
  ByteSpan data_;
};

}  // namespace weft::engine
