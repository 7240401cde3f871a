// wllama (llama.cpp in WebAssembly, its kernels in WebGPU) as a subject. It is llama-server inside,
// so prompts are text, one token a letter here, and the server's own timings count.
const kRoom = 512;

export class WllamaSubject {
  #wllama = null;
  #prompts = 0;

  async load({ size, context = 4096 }) {
    const { Wllama } = await import("/wllama/index.min.js");
    const about = await (await fetch(`/models/${size}/gguf.json`)).json();
    const blobs = [];
    for (const file of about.files) {
      blobs.push(await (await fetch(`/models/${size}/${file}`)).blob());
    }
    const adapter = await navigator.gpu.requestAdapter();
    const onGpu = adapter?.features.has("shader-f16") ?? false;
    this.#wllama = new Wllama({ default: "/wllama/wllama.wasm" }, { suppressNativeLog: true });
    this.#wllama.setCompat(null);
    const begin = performance.now();
    await this.#wllama.loadModel(blobs, {
      n_ctx: context + kRoom,
      n_batch: 512,
      n_parallel: 1,
      n_gpu_layers: onGpu ? 99999 : 0,
    });
    return { loadMs: Math.round(performance.now() - begin), onGpu };
  }

  // A prompt that shares no beginning with the one before it.
  async prefill({ count }) {
    const first = "bcdefghijklmnopqrstuvwxyz"[this.#prompts++ % 25];
    const { prompt_n: rows, prompt_ms: ms } = await this.#complete(first, count, 1);
    return { ms: (ms * count) / rows };
  }

  // The prompt is in the cache from the second time on; its last row gives the first token.
  async decode({ context, tokens }) {
    const { predicted_n: made, predicted_ms: ms } = await this.#complete("A", context, tokens);
    return { ms: ms / (made - 1) };
  }

  async unload() {
    await this.#wllama?.exit();
  }

  async #complete(first, count, tokens) {
    const letters = "bdfhjlnprtvxzcegikmoqsuwy";
    const prompt = first + Array.from({ length: count - 1 }, (_, i) => letters[i % 25]).join("");
    const { timings } = await this.#wllama.createCompletion({
      prompt,
      max_tokens: tokens,
      temperature: 0,
      ignore_eos: true,
      cache_prompt: true,
    });
    return timings;
  }
}
