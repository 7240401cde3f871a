// The words of src/program that lowering speaks in, made names of this module's own.
#pragma once

#include "program/ir.h"

namespace weft::lower {

using program::Activation;
using program::Add;
using program::Attention;
using program::Buffer;
using program::BufferId;
using program::CausalConv;
using program::DeltaRule;
using program::Embed;
using program::Exchange;
using program::Gate;
using program::GatedActivation;
using program::GateKind;
using program::KeyGroups;
using program::LayerNorm;
using program::MatMul;
using program::MoeExperts;
using program::MoeRoute;
using program::Op;
using program::Part;
using program::Program;
using program::QkNormRope;
using program::RmsNorm;
using program::Rope;
using program::RouteKind;
using program::Scale;
using program::Softcap;
using program::SsmScan;
using program::View;
using program::Weight;
using program::WeightId;
using program::WeightView;

}  // namespace weft::lower
