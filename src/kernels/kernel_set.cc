#include "kernels/kernel_set.h"

#include "kernels/simd_targets.h"

#include "hwy/highway.h"

namespace weft::kernels {
namespace {

// The *_simd.cc files need at least the baseline of simd_targets.h.
bool HasVectors() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2") != 0;
#else
  return HWY_TARGET != HWY_SCALAR;
#endif
}

KernelSet MakeFast() {
  KernelSet set;
  if (!HasVectors()) return set;
  set.rms_norm = RmsNormSimd;
  set.layer_norm = LayerNormSimd;
  set.matmuls = MatMulsSimd;
  set.add = AddRows;
  set.softcap = SoftcapSimd;
  set.round = RoundSimd;
  set.qk_norm_rope = QkNormRopeSimd;
  set.attention = AttentionSimd;
  set.gated_activation = GatedActivationSimd;
  set.gate = GateSimd;
  set.causal_conv = CausalConvSimd;
  set.delta_rule = DeltaRuleSimd;
  set.ssm_scan = SsmScanSimd;
  set.moe_experts = MoeExpertsSimd;
  set.sum_slots = SumSlotsSimd;
  set.argmax = ArgmaxSimd;
  set.top_k = TopKSimd;
  set.scaled_sum = ScaledSumSimd;
  return set;
}

}  // namespace

const KernelSet& ReferenceKernels() {
  static const KernelSet set;
  return set;
}

const KernelSet& FastKernels() {
  static const KernelSet set = MakeFast();
  return set;
}

const char* FastKernelsTarget() {
  if (!HasVectors()) return "scalar";
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(usable & -usable);
}

}  // namespace weft::kernels
