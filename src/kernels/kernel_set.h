// All operations under one roof, so that an engine chooses once between the scalar oracle and the
// vector kernels.
#pragma once

#include "kernels/add.h"
#include "kernels/argmax.h"
#include "kernels/attention.h"
#include "kernels/causal_conv.h"
#include "kernels/delta_rule.h"
#include "kernels/embed.h"
#include "kernels/gate.h"
#include "kernels/gated_activation.h"
#include "kernels/layer_norm.h"
#include "kernels/matmul.h"
#include "kernels/moe_experts.h"
#include "kernels/moe_route.h"
#include "kernels/qk_norm_rope.h"
#include "kernels/rms_norm.h"
#include "kernels/round.h"
#include "kernels/scale.h"
#include "kernels/softcap.h"
#include "kernels/ssm_scan.h"
#include "kernels/top_k.h"

namespace weft::kernels {

template <typename Args>
using Kernel = void (*)(const Args&, Workspace&);

struct KernelSet {
  Kernel<EmbedArgs> embed = EmbedReference;
  Kernel<RmsNormArgs> rms_norm = RmsNormReference;
  Kernel<LayerNormArgs> layer_norm = LayerNormReference;
  void (*matmuls)(std::span<const MatMulArgs>, Workspace&) = MatMulsReference;
  Kernel<AddArgs> add = AddReference;
  Kernel<ScaleArgs> scale = ScaleReference;
  Kernel<SoftcapArgs> softcap = SoftcapReference;
  Kernel<RoundArgs> round = RoundReference;
  Kernel<QkNormRopeArgs> qk_norm_rope = QkNormRopeReference;
  Kernel<AttentionArgs> attention = AttentionReference;
  Kernel<GatedActivationArgs> gated_activation = GatedActivationReference;
  Kernel<GateArgs> gate = GateReference;
  Kernel<CausalConvArgs> causal_conv = CausalConvReference;
  Kernel<DeltaRuleArgs> delta_rule = DeltaRuleReference;
  Kernel<SsmScanArgs> ssm_scan = SsmScanReference;
  Kernel<MoeRouteArgs> moe_route = MoeRouteReference;
  Kernel<MoeExpertsArgs> moe_experts = MoeExpertsReference;
  Kernel<SumSlotsArgs> sum_slots = SumSlotsReference;
  float (*top_k)(const TopKArgs&) = TopKReference;
  double (*scaled_sum)(const ScaledSumArgs&) = ScaledSumReference;
  ArgmaxResult (*argmax)(std::span<const float>) = ArgmaxReference;
};

// The scalar oracle: sums in f64, no threads.
const KernelSet& ReferenceKernels();
// The fastest kernels for this processor.
const KernelSet& FastKernels();
// The instruction set that FastKernels uses, for logs: "AVX3", "AVX2", "SSE4", "NEON", "scalar".
const char* FastKernelsTarget();

}  // namespace weft::kernels
