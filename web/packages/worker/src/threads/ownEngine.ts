// Our own engine as the host is offered it: in a tab, and in a headless worker on Dawn.
import { kMaxSeats } from "@weft/engine/base/seats.ts";
import { moreForms } from "@weft/engine/gpu/forms.ts";
import type { TuneStore } from "@weft/engine/tune/store.ts";
import type { WebGpuOptions } from "@weft/engine/webgpuEngine.ts";
import { DType } from "@weft/wire";

import type { EngineOffer } from "./hostParts.ts";

// Rows padded to groups of 8, and what is on its way to the GPU.
const kOwnWeightFactor = 1.1;

// `device`: for the picture of the swarm. What computes is loaded when it is first needed.
export function ownEngine(gpu: GPU, device: string, store: TuneStore): EngineOffer {
  return {
    name: "webgpu",
    needsOnnx: false,
    makesTokens: kMaxSeats,
    stepsInFlight: 2,
    stepsFollow: true,
    takesExperts: true,
    keepsState: true,
    statesAhead: true,
    dtypes: moreForms(gpu),
    usesGpu: true,
    device,
    guessWeightFactor: () => kOwnWeightFactor,
    probe: async (memoryBytes) => {
      const { probeWebGpu } = await import("@weft/engine/gpu/find.ts");
      return await probeWebGpu(gpu, memoryBytes);
    },
    make: async (memoryBytes, alsoHeld, { quantisation, boundaryDtype }) => {
      const { makeWebGpuEngine } = await import("@weft/engine/makeWebGpuEngine.ts");
      const options: WebGpuOptions = {
        memoryLimitBytes: memoryBytes,
        alsoHeld,
        kvDtype: quantisation === "f32" ? "f32" : "f16",
        residualDtype: residualOf(boundaryDtype),
        pokes: null,
      };
      return await makeWebGpuEngine(gpu, options, store);
    },
  };
}

function residualOf(boundaryDtype: DType): "f32" | "f16" | "bf16" {
  if (boundaryDtype === DType.f32) return "f32";
  return boundaryDtype === DType.bf16 ? "bf16" : "f16";
}
