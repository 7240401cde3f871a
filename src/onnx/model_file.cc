#include "onnx/model_file.h"

#include <algorithm>
#include <string>
#include <vector>

namespace weft::onnx {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> OnnxFiles(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".onnx") files.push_back(it->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<fs::path> FindModelFile(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return path;
  if (!fs::is_directory(path, error)) {
    return Error(ErrorCode::kNotFound, "There is no file or folder '" + path.string() + "'.");
  }
  for (const fs::path& folder : {path, path / "onnx"}) {
    const std::vector<fs::path> files = OnnxFiles(folder);
    const fs::path usual = folder / "model.onnx";
    if (std::find(files.begin(), files.end(), usual) != files.end()) return usual;
    if (files.size() == 1) return files.front();
    if (files.empty()) continue;
    std::string names;
    for (const fs::path& file : files) names += " " + file.filename().string();
    return Error(ErrorCode::kInvalidArgument,
                 "'" + folder.string() + "' holds several ONNX files; name one of:" + names + ".");
  }
  return Error(ErrorCode::kNotFound, "'" + path.string() + "' holds no .onnx file.");
}

}  // namespace weft::onnx
