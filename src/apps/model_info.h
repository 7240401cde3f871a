// From a package's manifest to what the core is told about the model.
#pragma once

#include <map>
#include <string>

#include "api/model_text.h"
#include "package/package.h"
#include "swarm/options.h"

namespace weft::apps {

// What --plan takes.
inline const std::map<std::string, swarm::PlanKind> kPlanKinds = {
    {"auto", swarm::PlanKind::kAuto},
    {"layers", swarm::PlanKind::kLayers},
    {"experts", swarm::PlanKind::kExperts},
    {"tensor", swarm::PlanKind::kTensor}};

swarm::ModelInfo ModelInfoOf(const package::Package& package);

// Tokenizer, template and end tokens from the package's own files.
Result<api::ModelText> LoadModelText(const package::Package& package);

}  // namespace weft::apps
