// A package whose MLPs are in neuron groups (program/neuron_groups.h), made of one in whole layers.
// Its attention and output head may be in ranges (program/product_ranges.h). Or one whose experts
// are in parts (program/expert_parts.h).
//
// Everything of a group is one blob: gate and up rows, its columns of the down projection, and
// biases. A holder of a group fetches that, and no column is a part of its own. The same is true of
// a part of an expert, and of a range.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "convert/package/package_folder.h"
#include "package/group_norms.h"
#include "package/package.h"
#include "program/ir.h"

namespace weft::convert {

// Weights are stored first, so a whole model's groups can be run before their grids are known. A
// group of the package in whole layers has a part for each row of its down projection. Those are
// more than a program may have.
class GroupPackage {
 public:
  // A layer's program in groups or parts. One layer is cut after the other, as the pieces of a
  // whole mixture of experts would take a gigabyte.
  using Cut = std::function<Result<program::Program>(const program::Program& layer)>;

  // `programs`: those of the package's layers, some of them in groups without grids, or in what
  // `cut` makes of them. The folder is made like that of any package (package_folder.h).
  static Result<GroupPackage> Make(const package::Package& package,
                                   std::vector<program::Program> programs,
                                   const std::filesystem::path& folder, bool replace,
                                   const Cut& cut = nullptr);

  // What is there so far: all blobs, but no programs among them, nor a manifest on disk.
  const package::Package& weights() const { return made_; }
  // The programs with the weights of this package.
  const std::vector<program::Program>& programs() const { return programs_; }
  // Ends it, with the grids of its layers and how large their groups' outputs are usually; parts
  // of experts have neither, and both are empty then. It has no ONNX graph: onnxruntime knows no
  // grids, and a graph of parts would be another one.
  Status Finish(const package::Package& package, std::span<const program::SumGrid> grids = {},
                const package::GroupNorms& norms = {});

 private:
  GroupPackage(PackageFolder folder, package::Package made, std::vector<program::Program> programs)
      : folder_(std::move(folder)), made_(std::move(made)), programs_(std::move(programs)) {}

  PackageFolder folder_;
  package::Package made_;
  std::vector<program::Program> programs_;
};

}  // namespace weft::convert
