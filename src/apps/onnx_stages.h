// The stages of a package that was made from an ONNX model, cut from its graph for the server.
#pragma once

#include <filesystem>
#include <memory>

#include "server/stage_graphs.h"

namespace weft::apps {

// `file`: the package's model.onnx, which is read when a stage is first asked for. Errors of Cut:
// those of reading and cutting it.
std::unique_ptr<server::StageGraphs> MakeOnnxStages(std::filesystem::path file);

}  // namespace weft::apps
