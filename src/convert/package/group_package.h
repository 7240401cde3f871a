// A package whose MLPs are in neuron groups (program/neuron_groups.h), made of one in whole layers.
// Everything that a group has, gate and up rows and its columns of the down projection, is one
// blob: who holds a group fetches that, and no column is a part of its own.
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "package/package.h"
#include "program/ir.h"

namespace weft::convert {

// `programs`: those of the package's layers, some of them in groups. The folder is made like that
// of any package (package_folder.h). It has no ONNX graph: onnxruntime knows no grids.
Status WriteGroupPackage(const package::Package& package, std::vector<program::Program> programs,
                         const std::filesystem::path& folder, bool replace);

}  // namespace weft::convert
