// The pipelines, each compiled once, and their bind group layouts: of the common bindings those
// that a kernel uses.
import { KernelRefusedError } from "../base/error.ts";
import type { Variant } from "../kernels/common/variant.ts";
import { Binding } from "../kernels/common/bindings.ts";

const kCompute = 4; // GPUShaderStage.COMPUTE

function layoutEntry(binding: number): GPUBindGroupLayoutEntry {
  const isWritten =
    binding === Binding.act || binding === Binding.kv || binding === Binding.aux;
  const type =
    binding === Binding.op ? "uniform" : isWritten ? "storage" : "read-only-storage";
  return { binding, visibility: kCompute, buffer: { type } };
}

const ofDevice = new WeakMap<GPUDevice, Pipelines>();

export class Pipelines {
  // Those of a device: engines that share one share them.
  static of(device: GPUDevice): Pipelines {
    const known = ofDevice.get(device) ?? new Pipelines(device);
    ofDevice.set(device, known);
    return known;
  }

  readonly #device: GPUDevice;
  readonly #layouts = new Map<string, GPUBindGroupLayout>();
  readonly #made = new Map<string, Promise<GPUComputePipeline>>();

  private constructor(device: GPUDevice) {
    this.#device = device;
  }

  groupLayout({ bindings }: Variant): GPUBindGroupLayout {
    const label = `kernel ${bindings.join(" ")}`;
    const known = this.#layouts.get(label);
    if (known) return known;
    const made = this.#device.createBindGroupLayout({
      label,
      entries: bindings.map(layoutEntry),
    });
    this.#layouts.set(label, made);
    return made;
  }

  get(variant: Variant): Promise<GPUComputePipeline> {
    const known = this.#made.get(variant.key);
    if (known) return known;
    const made = this.#compile(variant);
    this.#made.set(variant.key, made);
    return made;
  }

  // An error of the module is told by the pipeline that is made of it. Outside of a scope it would
  // count as one of the device, which then computes nothing any more.
  #moduleOf({ key, code }: Variant): GPUShaderModule {
    this.#device.pushErrorScope("validation");
    const module = this.#device.createShaderModule({ label: key, code });
    void this.#device.popErrorScope().catch(() => null); // the device was lost
    return module;
  }

  async #compile(variant: Variant): Promise<GPUComputePipeline> {
    const { key, simpler } = variant;
    try {
      const module = this.#moduleOf(variant);
      return await this.#device.createComputePipelineAsync({
        label: key,
        layout: this.#device.createPipelineLayout({
          bindGroupLayouts: [this.groupLayout(variant)],
        }),
        compute: { module, entryPoint: "main" },
      });
    } catch (error) {
      if (simpler) return await this.get(simpler);
      throw new KernelRefusedError(key, error instanceof Error ? error.message : String(error));
    }
  }
}
