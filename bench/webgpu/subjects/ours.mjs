// Our engine as a subject of the benchmark, in Node and in a Worker alike: prefill, decode,
// WeInfer's two switches and its interval study, a quarter of the model as a stage.
import { readBandwidth, wake } from "../bandwidth.mjs";
import { shapeOf } from "../shapes.mjs";
import { median, timed } from "../times.mjs";

const kSession = 1;
const kStageSession = 2;
const kInterval = 16;
const kWakeMs = 300; // before every measurement; whoever takes the next turn finds the GPU awake

// WeInfer's table 5 (which of its two parts are on) and table 6 (tokens fetched at once).
const kModes = [
  { mode: "neither", reuse: false, pipelined: false, interval: 1 },
  { mode: "reuse", reuse: true, pipelined: false, interval: 1 },
  { mode: "pipeline", reuse: false, pipelined: true, interval: kInterval },
  ...[1, 2, 4, 8, 16, 32, 64].map((interval) => {
    return { mode: `both, I ${interval}`, reuse: true, pipelined: true, interval };
  }),
];

export class Ours {
  #module;
  #gpuEntry; // navigator.gpu, or Dawn's
  #gpu = null;
  #engine = null;
  #model = null;
  #tuneStore = null;
  #held = 0; // positions that the session has between two measurements
  #generation = 0;

  constructor(engineModule, gpuEntry) {
    this.#module = engineModule;
    this.#gpuEntry = gpuEntry;
  }

  // GB/s that a plain kernel reads on a device of its own.
  async bandwidth() {
    const { device, description } = await this.#module.openGpu(this.#gpuEntry);
    const readGBps = await readBandwidth(device);
    device.destroy();
    return { device: description, readGBps };
  }

  // `tuning`: as the engine takes it. `form`: of the layers' weights.
  async load({ size, tuning, form }) {
    const { DType, RandomModel, WebGpuEngine, openGpu } = this.#module;
    const shape = shapeOf(size);
    this.#gpu = await openGpu(this.#gpuEntry);
    const { arithmetic, detail } = await this.#tune(tuning);
    const options = { ...this.#module.kDefaultOptions, tuning: arithmetic };
    this.#engine = new WebGpuEngine(this.#gpu, options);
    this.#model = new RandomModel(shape, DType[form]);
    const ms = await timed(() => this.#engine.load(this.#model.range, this.#model));
    return { loadMs: Math.round(ms), kernels: detail, ...this.#engine.memory() };
  }

  async #tune(tuning) {
    const { kDefaultOptions, MemoryTuneStore, tuneFor, tunedText } = this.#module;
    this.#tuneStore ??= new MemoryTuneStore();
    const options = { ...kDefaultOptions, tuning };
    const tuned = await tuneFor(this.#gpu, options, this.#tuneStore);
    return { ...tuned, detail: tunedText(tuned) };
  }

  async prefill({ count }) {
    this.#renew();
    await wake(this.#gpu.device, kWakeMs);
    const ms = await timed(() => this.#step(0, count));
    this.#renew();
    return { ms };
  }

  async decode({ context, tokens }) {
    await this.#hold(context);
    await wake(this.#gpu.device, kWakeMs);
    return { ms: await this.#generate(tokens, kInterval, true) };
  }

  // Medians of interleaved rounds for every mode.
  async ablation({ context, tokens, rounds }) {
    await this.#hold(context);
    const { encoder } = this.#engine.machine;
    const before = encoder.dispatchCount;
    await this.#generate(1, 1, true);
    const dispatches = encoder.dispatchCount - before;
    const times = kModes.map(() => []);
    for (let round = 0; round < rounds; ++round) {
      await wake(this.#gpu.device, kWakeMs);
      for (const [index, { reuse, pipelined, interval }] of kModes.entries()) {
        encoder.reuse = reuse;
        times[index].push(await this.#generate(tokens, interval, pipelined));
      }
    }
    encoder.reuse = true;
    const modes = kModes.map(({ mode }, index) => ({ mode, ms: median(times[index]) }));
    return { dispatches, modes };
  }

  // A quarter of the layers, one row a step, hidden rows in and out; with and without pokes of the
  // queue while a result is waited for (run/poker.ts), in turn.
  async stage({ steps, rounds }) {
    const { poker } = this.#engine.machine;
    const { layers: count } = this.#model.shape;
    const layers = { first: 1, end: 1 + Math.max(1, Math.floor(count / 4)) };
    const figures = [];
    const wasOn = poker.isOn;
    for (let round = 0; round < rounds; ++round) {
      for (const poked of [false, true]) {
        await wake(this.#gpu.device, kWakeMs);
        poker.isOn = poked;
        const before = poker.count;
        const times = [];
        this.#engine.release(kStageSession);
        for (let position = 0; position < steps; ++position) {
          times.push(await timed(() => this.#stageStep(layers, position)));
        }
        const pokes = (poker.count - before) / steps;
        figures.push({ poked, ms: median(times.slice(Math.floor(steps / 5))), pokes });
      }
    }
    poker.isOn = wasOn;
    const of = (poked, key) => median(figures.filter((f) => f.poked === poked).map((f) => f[key]));
    return {
      layers: layers.end - 1,
      isOn: wasOn,
      waitedMs: of(false, "ms"),
      pokedMs: of(true, "ms"),
      pokesPerStep: of(true, "pokes"),
    };
  }

  // What each dispatch takes when it runs again and again (us, median of five): of a decode step,
  // then of a layer for a prompt of `prefill` tokens, its last pass.
  async profile({ context, prefill }) {
    await this.#hold(context);
    await wake(this.#gpu.device, kWakeMs);
    const { machine } = this.#engine;
    const head = this.#model.range.end - 1;
    const [body, last] = [1, head].map((layer) => machine.dispatchesOf(layer));
    const lists = [body.layer, last.layer, last.argmax];
    const decode = { rows: 1, chunks: (context >> 8) + 1 };
    const kernels = await this.#times(lists.flat(), decode, 201);
    this.#renew();
    await this.#step(0, prefill);
    const rows = Math.min(prefill, this.#module.kMaxRows);
    const prompt = { rows, chunks: (prefill >> 8) + 1 };
    return { kernels, prompt: await this.#times(machine.dispatchesOf(1).layer, prompt, 21) };
  }

  async #times(dispatches, shape, count) {
    const kernels = [];
    for (const dispatch of dispatches.filter(({ when }) => when(shape))) {
      const grid = dispatch.grid(shape);
      await this.#repeat(dispatch, grid, 1);
      const runs = [];
      for (let i = 0; i < 5; ++i) {
        const many = await this.#repeat(dispatch, grid, count);
        runs.push(((many - (await this.#repeat(dispatch, grid, 1))) * 1e3) / (count - 1));
      }
      kernels.push({ kernel: dispatch.pipeline.label, grid: grid.join("x"), us: median(runs) });
    }
    return kernels;
  }

  async unload() {
    await this.#engine?.dispose();
    this.#engine = null;
    this.#held = 0;
  }

  #repeat(dispatch, grid, count) {
    const { device } = this.#gpu;
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(dispatch.pipeline);
    pass.setBindGroup(0, dispatch.group);
    for (let i = 0; i < count; ++i) pass.dispatchWorkgroups(...grid);
    pass.end();
    return timed(async () => {
      device.queue.submit([encoder.finish()]);
      await device.queue.onSubmittedWorkDone();
    });
  }

  #renew() {
    this.#engine.release(kSession);
    this.#generation = 0;
    this.#held = 0;
  }

  async #hold(context) {
    if (this.#held === context) return;
    this.#renew();
    await this.#step(0, context);
    this.#held = context;
  }

  async #step(firstPosition, count) {
    const { vocabulary } = this.#model.shape;
    const id = (i) => (i * 7919 + 13) % vocabulary;
    await this.#engine.step({
      layers: this.#model.range,
      runs: [this.#run(kSession, firstPosition, count, "argmax")],
      tokenIds: Int32Array.from({ length: count }, (_, i) => id(i)),
      hidden: new Float32Array(0),
    });
  }

  #run(session, firstPosition, count, kind) {
    const generation = this.#generation;
    return { session, generation, firstPosition, count, output: { kind } };
  }

  // ms a token; the session is as long as before.
  async #generate(count, interval, pipelined) {
    const ms = await timed(() =>
      this.#engine.generate(this.#model.range, {
        session: kSession,
        generation: this.#generation,
        firstPosition: this.#held,
        firstToken: 1,
        count,
        interval,
        pipelined,
        onTokens: () => true,
      }),
    );
    await this.#engine.truncate(kSession, ++this.#generation, this.#held);
    return ms / count;
  }

  async #stageStep(layers, position) {
    const { hidden } = this.#model.shape;
    await this.#engine.step({
      layers,
      runs: [{ ...this.#run(kStageSession, position, 1, "hidden"), generation: 0 }],
      tokenIds: new Int32Array(0),
      hidden: new Float32Array(hidden).fill(0.01),
    });
  }
}
