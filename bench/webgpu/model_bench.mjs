// One model size: loading, prefill, decode step by step, whole-model decode with WeInfer's two
// switches and several intervals, and a quarter of it as a stage.

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

// Bytes of weights that a token reads: every layer and the head, one row of the embedding.
function bytesPerToken(shape) {
  const { layers, hidden, width, heads, kvHeads, headColumns, vocabulary } = shape;
  const q4 = (rows, columns) => (rows * columns * 18) / 32;
  const qkv = q4((heads + 2 * kvHeads) * headColumns, hidden);
  const attention = qkv + q4(hidden, heads * headColumns);
  return layers * (attention + 3 * q4(width, hidden)) + q4(vocabulary, hidden);
}

class Session {
  constructor(engine, range, vocabulary) {
    Object.assign(this, { engine, range, vocabulary, id: 1, position: 0 });
  }

  renew() {
    this.engine.release(this.id++);
    this.position = 0;
  }

  async prefill(count, outputKind = "argmax") {
    const id = (i) => (i * 7919 + 13) % this.vocabulary;
    const tokenIds = Int32Array.from({ length: count }, (_, i) => id(i));
    await this.engine.step({
      layers: this.range,
      runs: [this.run(count, outputKind)],
      tokenIds,
      hidden: new Float32Array(0),
    });
    this.position += count;
  }

  run(count, kind) {
    const { id: session, position: firstPosition } = this;
    return { session, generation: 0, firstPosition, count, output: { kind } };
  }

  async generate(count, interval, pipelined) {
    const begin = performance.now();
    const made = await this.engine.generate(this.range, {
      session: this.id,
      generation: 0,
      firstPosition: this.position,
      firstToken: 1,
      count,
      interval,
      pipelined,
      onTokens: () => true,
    });
    this.position += made;
    return (performance.now() - begin) / made;
  }
}

export async function benchSize(engineModule, gpu, size, options) {
  const { bandwidth, contexts, prefills, tokens, say } = options;
  const { RandomModel, WebGpuEngine, kShapes } = engineModule;
  const shape = kShapes[size];
  if (!shape) throw new Error(`no shape '${size}'; known: ${Object.keys(kShapes).join(", ")}`);
  const engine = new WebGpuEngine(gpu);
  const model = new RandomModel(shape);
  const begin = performance.now();
  await engine.load(model.range, model);
  say({ size, loadMs: Math.round(performance.now() - begin), ...engine.memory() });
  const session = new Session(engine, model.range, shape.vocabulary);
  for (const count of prefills) {
    await session.prefill(Math.min(count, 128)); // warm
    const runs = [];
    for (let i = 0; i < 3; ++i) {
      session.renew();
      const from = performance.now();
      await session.prefill(count);
      runs.push(performance.now() - from);
    }
    say({ size, prefill: count, tokensPerS: Math.round((1000 * count) / median(runs)) });
    session.renew();
  }
  for (const context of contexts) {
    session.renew();
    await session.prefill(context);
    await profile(session, size, say);
    await decode(session, size, shape, context, tokens, bandwidth, say);
  }
  session.renew();
  await stage(engine, shape, size, say);
  await engine.dispose();
}

// Medians of five interleaved rounds.
async function decode(session, size, shape, context, tokens, bandwidth, say) {
  const { machine } = session.engine;
  const before = machine.encoder.dispatchCount;
  await session.generate(1, 1, true);
  say({ size, context, dispatchesPerToken: machine.encoder.dispatchCount - before });
  const modes = [
    { name: "neither", reuse: false, pipelined: false, interval: 1 },
    { name: "reuse", reuse: true, pipelined: false, interval: 1 },
    { name: "pipeline", reuse: false, pipelined: true, interval: 16 },
    { name: "both", reuse: true, pipelined: true, interval: 16 },
    ...[1, 2, 4, 8, 32, 64].map((interval) => ({
      name: `both, I ${interval}`,
      reuse: true,
      pipelined: true,
      interval,
    })),
  ];
  const times = new Map(modes.map(({ name }) => [name, []]));
  for (let round = 0; round < 5; ++round) {
    for (const { name, reuse, pipelined, interval } of modes) {
      machine.encoder.reuse = reuse;
      times.get(name).push(await session.generate(tokens, interval, pipelined));
    }
  }
  machine.encoder.reuse = true;
  const bytes = bytesPerToken(shape);
  for (const [mode, runs] of times) {
    const ms = median(runs);
    const share = Math.round((100 * bytes) / (ms * 1e6) / bandwidth);
    const tokensPerS = Math.round(1000 / ms);
    say({ size, context, mode, msPerToken: ms.toFixed(3), tokensPerS, share });
  }
}

// What each dispatch of a decode step takes when it runs again and again (us, the median of five).
async function profile(session, size, say) {
  const { machine } = session.engine;
  const { device } = machine.buffers.gpu;
  const head = session.range.end - 1;
  const shape = { rows: 1, chunks: 1 };
  const lists = [machine.plan(1).layer, machine.plan(head).layer, machine.plan(head).argmax];
  for (const dispatch of lists.flat().filter(({ when }) => when(shape))) {
    const time = async (repeats) => {
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(dispatch.pipeline);
      pass.setBindGroup(0, dispatch.group);
      for (let i = 0; i < repeats; ++i) pass.dispatchWorkgroups(...dispatch.grid(shape));
      pass.end();
      const begin = performance.now();
      device.queue.submit([encoder.finish()]);
      await device.queue.onSubmittedWorkDone();
      return performance.now() - begin;
    };
    await time(1);
    const runs = [];
    for (let i = 0; i < 5; ++i) runs.push(((await time(201)) - (await time(1))) * 5);
    const grid = dispatch.grid(shape).join("x");
    say({ size, kernel: dispatch.pipeline.label, grid, us: median(runs).toFixed(1) });
  }
}

// A quarter of the layers, one row a step, hidden rows in and out.
async function stage(engine, shape, size, say) {
  const count = Math.max(1, Math.floor(shape.layers / 4));
  const layers = { first: 1, end: 1 + count };
  const hidden = new Float32Array(shape.hidden).fill(0.01);
  const times = [];
  for (let position = 0; position < 60; ++position) {
    const run = { session: 9999, generation: 0, firstPosition: position, count: 1 };
    const begin = performance.now();
    await engine.step({
      layers,
      runs: [{ ...run, output: { kind: "hidden" } }],
      tokenIds: new Int32Array(0),
      hidden,
    });
    times.push(performance.now() - begin);
  }
  say({ size, stageLayers: count, msPerStep: median(times.slice(10)).toFixed(3) });
}
