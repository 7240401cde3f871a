// What is on its way into memory: bindings, experts and measurements, from their first byte until
// they are loaded or dropped; and what stays loaded. The same part in C++: src/worker/loads.h.
import type { LayerRange } from "@weft/engine";
import type { HoldExperts, MeasureSpeed, PrepareStage, Retire } from "@weft/wire";

import type { Event, Fault, Outcome, Work } from "./events.ts";
import type { ExpertWork } from "./expertWork.ts";
import { FetchQueue, wantedOf } from "./fetchQueue.ts";
import type { Fetch } from "./fetchQueue.ts";
import type { Outbox } from "./outbox.ts";
import { checkedRange, measurementOf } from "./ranges.ts";
import { installedBytes, unpreparable } from "./stageTable.ts";
import type { Binding, StageTable } from "./stageTable.ts";
import type { StepQueue } from "./stepQueue.ts";
import type { Turn } from "./turns.ts";

type Installing = Extract<Work, { kind: "installLayers" }>;

export class Loads {
  readonly #out: Outbox;
  readonly #stages: StageTable;
  readonly #experts: ExpertWork;
  readonly #queue: StepQueue;
  readonly #fetches = new FetchQueue();
  #layerBytes: readonly number[] = []; // of the package
  #kept: readonly LayerRange[] = []; // what the last Retire named
  #urgentInstalls = 0; // turns that install a layer which somebody waits for
  isDownloading = false;

  constructor(out: Outbox, stages: StageTable, experts: ExpertWork, queue: StepQueue) {
    this.#out = out;
    this.#stages = stages;
    this.#experts = experts;
    this.#queue = queue;
  }

  // What is loaded from now on is of this package.
  begin(layerBytes: readonly number[]): void {
    this.#layerBytes = layerBytes;
  }

  get layerCount(): number {
    return this.#layerBytes.length;
  }

  get isFetching(): boolean {
    return this.#fetches.isUnderWay;
  }

  // Whether the fetch under way is of a stage, whose layers are installed as they come.
  get isFetchingStage(): boolean {
    return this.#fetches.current?.purpose.kind === "stage";
  }

  // Throws where one of them is not of this model.
  #checked(ranges: readonly (LayerRange | undefined)[]): LayerRange[] {
    return ranges.map((range) => checkedRange(range, this.layerCount));
  }

  // ---- what the server asks for ----

  download(layers: readonly number[]): void {
    const ranges = this.#checked(layers.map((layer) => ({ first: layer, end: layer + 1 })));
    this.#fetches.push({ purpose: { kind: "standby" }, ranges });
  }

  measure(message: MeasureSpeed): void {
    this.#fetches.push(measurementOf(message, this.layerCount));
  }

  prepare({ binding: id, stage, layers, standby, isHub }: PrepareStage): void {
    const range = checkedRange(layers, this.layerCount);
    if (!this.#stages.prepare(id, stage, range, standby, isHub)) {
      return this.#out.finish("retry", unpreparable(id));
    }
    const purpose = { kind: "stage", binding: id, isStandby: standby, isHub } as const;
    this.#fetches.push({ purpose, ranges: [range] });
  }

  holdExperts(message: HoldExperts): void {
    const fetch = this.#experts.hold(message, this.layerCount);
    this.#forgetFetches(); // of earlier statements
    this.#fetches.push(fetch);
    this.#out.hasChanged = true;
  }

  retire({ keep, bindings: ids }: Retire): void {
    const ranges = this.#checked(keep);
    this.#stages.keepOnly(ids, ranges);
    this.#queue.stopOver();
    this.#kept = ranges;
    this.#forgetFetches();
    this.#queue.push({ kind: "keepLayers", keep: ranges, hubs: this.#stages.ranges(true) });
  }

  release(): void {
    this.#stages.clear();
    this.#experts.clear();
    this.#queue.releaseSessions();
    this.#kept = [];
    this.#forgetFetches();
    this.#queue.push({ kind: "releaseAll" });
  }

  // Begins what can be begun, and interrupts what has to make way.
  fetchNext(): void {
    const fetch = this.#fetches.next();
    if (fetch === "interrupt") this.#out.do({ kind: "interruptFetch" });
    else if (fetch) this.#out.do({ kind: "fetch", ...wantedOf(fetch) });
  }

  #forgetFetches(): void {
    this.#fetches.keep((purpose) => {
      if (purpose.kind === "experts") return this.#experts.isWanted(purpose.binding);
      return purpose.kind !== "stage" || this.#stages.unfinished(purpose.binding) !== undefined;
    });
  }

  onProgress(doneBytes: number, totalBytes: number): void {
    this.isDownloading = true;
    const value = { doneBytes: BigInt(doneBytes), totalBytes: BigInt(totalBytes) };
    this.#out.send({ case: "downloadProgress", value });
    const download = { doneBytes, totalBytes };
    this.#out.show({ phase: "downloading", message: "Downloading its layers.", download });
  }

  onLayer({ layer, byteCount, elapsedUs }: Extract<Event, { kind: "layerFetched" }>): void {
    const value = { layer, byteCount: BigInt(byteCount), elapsedUs: BigInt(elapsedUs) };
    this.#out.send({ case: "layerDownloaded", value });
    this.#fetches.layerCame(layer);
    const purpose = this.#fetches.current?.purpose; // the next ones are fetched meanwhile
    if (purpose?.kind === "stage") this.#install(purpose.binding, layer + 1);
  }

  onFetchEnded(fault: Fault | null): void {
    this.isDownloading = false;
    const fetch = this.#fetches.ended(fault === null);
    this.#out.show({ download: null });
    if (fetch && fault) this.#onFetchFailed(fetch, fault);
    else if (fetch) this.#onFetched(fetch);
    this.#out.hasChanged = true;
  }

  #onFetchFailed({ purpose }: Fetch, fault: Fault): void {
    if (purpose.kind === "stage") this.onStageFailed(purpose.binding, fault);
    else this.#out.sendFailed("binding" in purpose ? purpose.binding : 0, fault);
  }

  #onFetched({ purpose }: Fetch): void {
    if (purpose.kind === "measurement") {
      const { timed, runs, probes } = purpose;
      this.#queue.push({ kind: "measureSpeed", ranges: timed, runs, probes });
    } else if (purpose.kind === "experts") {
      this.#queue.pushTurn(this.#experts.installing(purpose.binding));
    } else if (purpose.kind === "stage") {
      this.#install(purpose.binding, Infinity);
    }
  }

  // ---- installing ----

  // The stage's layers before `thereEnd` are on this device.
  #install(binding: number, thereEnd: number): void {
    const stage = this.#stages.unfinished(binding);
    if (!stage) return; // retired or released meanwhile
    stage.thereEnd = Math.min(Math.max(stage.thereEnd, thereEnd), stage.layers.end);
    if (!stage.hasTurn) this.#installNext(binding, stage);
  }

  // One layer at a time, each behind the steps that came before its turn, and a standby's behind
  // those that somebody waits for.
  #installNext(binding: number, { isStandby }: Binding): void {
    const take = (): Work | null => {
      if (isStandby && this.#urgentInstalls > 0) {
        this.#queue.pushTurn({ take, forgets: false });
        return null;
      }
      if (!isStandby) --this.#urgentInstalls;
      const stage = this.#stages.unfinished(binding);
      if (!stage) return null;
      const { next, isHub } = stage;
      const [doneBytes, totalBytes] = installedBytes(this.#layerBytes, stage);
      const layers = { first: next, end: next + 1 };
      const isLast = layers.end === stage.layers.end;
      const bytes = { doneBytes, totalBytes };
      return { kind: "installLayers", binding, layers, isHub, isLast, ...bytes };
    };
    const stage = this.#stages.unfinished(binding)!;
    stage.hasTurn = stage.next < stage.thereEnd;
    if (!stage.hasTurn) return; // it comes
    if (!isStandby) ++this.#urgentInstalls;
    this.#queue.pushTurn({ take, forgets: false });
  }

  onInstalled({ binding, layers }: Installing, of: Extract<Outcome, { kind: "installed" }>): void {
    const stage = this.#stages.unfinished(binding);
    if (!stage) return;
    stage.next = layers.end;
    if (stage.next < stage.layers.end) return this.#installNext(binding, stage);
    this.#stages.setLoaded(binding);
    this.#out.fault = "";
    const { weightFactor, usedBytes } = of;
    const value = { binding, weightFactor, usedBytes: BigInt(usedBytes) };
    this.#out.send({ case: "prepared", value });
  }

  // What was installed of the binding goes.
  onStageFailed(binding: number, fault: Fault): void {
    const stage = this.#stages.unfinished(binding);
    if (!stage) return;
    this.#stages.remove(binding);
    if (stage.hasTurn || stage.next > stage.layers.first) this.unload();
    this.#out.sendFailed(binding, fault);
  }

  // What nobody needs goes, before anything else is done.
  unload(): void {
    this.#queue.unshiftTurn(this.#keepingWhatIsNeeded());
  }

  // Steps and Generates that wait came before whatever has dropped their binding since, and are
  // still computed.
  #keepingWhatIsNeeded(): Turn {
    const needed = (isHub: boolean): LayerRange[] =>
      [...this.#stages.ranges(isHub), ...this.#queue.layersNeeded(isHub)];
    const take = (): Work => {
      const keep = [...needed(false), ...this.#keptWhole()];
      return { kind: "keepLayers", keep, hubs: needed(true) };
    };
    return { take, forgets: true };
  }

  // Layers that are kept for more than what a hub runs of them.
  #keptWhole(): readonly LayerRange[] {
    const hubs = this.#stages.ranges(true);
    if (hubs.length === 0) return this.#kept;
    const isHub = (layer: number): boolean =>
      hubs.some(({ first, end }) => first <= layer && layer < end);
    return this.#kept.flatMap(({ first, end }) =>
      Array.from({ length: end - first }, (_, index) => first + index)
        .filter((layer) => !isHub(layer))
        .map((layer) => ({ first: layer, end: layer + 1 })));
  }

  // What is neither loaded nor under way ends.
  drop(): void {
    const loads = ["installLayers", "measureSpeed"].includes(this.#queue.current?.kind ?? "");
    const isUnfinished = this.#stages.bindings().some(([, { isLoaded }]) => !isLoaded);
    const holdsMore = loads || isUnfinished || this.#kept.length > 0;
    this.#experts.lost();
    this.#stages.removeUnloaded();
    this.#kept = [];
    this.#fetches.clear();
    if (holdsMore) this.#queue.pushTurn(this.#keepingWhatIsNeeded());
  }

  // Turns that wait go as well.
  onConnectionLost(): void {
    this.drop();
    this.#urgentInstalls = 0;
    this.isDownloading = false;
  }

  // Nothing that is held means anything any more.
  forget(): void {
    this.#stages.reset();
    this.#kept = [];
    this.#queue.sessions.clear();
    this.#forgetFetches();
    this.#queue.push({ kind: "releaseAll" });
  }
}
