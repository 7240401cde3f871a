// What browsers do that the ones at hand do not: this worker's browser is changed to do so before
// anything else of it is loaded. The worker's name says which.

// iPhones refuse a shared memory that may grow to 4 GiB.
function limitMemory() {
  const Real = WebAssembly.Memory;
  WebAssembly.Memory = function (descriptor) {
    if (descriptor.shared && descriptor.maximum > 16384) throw new RangeError("Out of memory");
    return new Real(descriptor);
  };
  WebAssembly.Memory.prototype = Real.prototype;
}

// iPhones refuse sockets to a server whose certificate is its own, without a word.
function refuseSockets() {
  self.WebSocket = class {
    constructor() {
      setTimeout(() => this.onclose?.(new CloseEvent("close", { code: 1006 })));
    }

    close() {}
  };
}

// Older Safaris do not say what an adapter is.
function hideAdapterInfo() {
  delete GPUAdapter.prototype.info;
}

// A compiler that does not know what the kernels are written in.
function refuseKernels() {
  const { createShaderModule } = GPUDevice.prototype;
  GPUDevice.prototype.createShaderModule = function ({ label }) {
    return createShaderModule.call(this, { label, code: "this is no WGSL" });
  };
}

const kOddities = { limitMemory, refuseSockets, hideAdapterInfo, refuseKernels };

kOddities[self.name]();
