// While helping: what this device does now, and a large button that stops it.
import type { VNode } from "preact";
import {
  Figure, Icon, Notice, ProgressBar, formatBytes, formatCount, formatInteger, formatMemoryOf,
  formatMilliseconds, formatPercent, formatRate, layersText, shareText,
} from "@weft/ui";
import { furtherWords, kPhaseWords } from "@weft/worker";
import type { WorkerStatus } from "@weft/worker";
import { dataUse } from "./dataUse.ts";
import { gpuMemory } from "./gpuMemory.ts";
import {
  choices, forgetCache, isHelping, pausedBecause, runItAllHere, shownPhase, status, stopHelping,
} from "./helper.ts";
import { modelState } from "./model.ts";
import { ownProblem } from "./ownState.ts";
import { suspension } from "./suspension.ts";

export function Helping(): VNode {
  const now = { ...status.value, phase: shownPhase.value };
  const isPaused = !isHelping.value;
  return (
    <section class="card helping stack" aria-label="This device">
      {isPaused && (
        <Notice kind="info" title="Paused" isAlert>
          <p>{pausedBecause.value} Helping goes on by itself then.</p>
        </Notice>
      )}
      {now.phase === "reconnecting" && (
        <Notice kind="warning" title="Connection lost, reconnecting" isAlert>
          <p>{now.message}</p>
        </Notice>
      )}
      <Suspended />
      {!isPaused && ownProblem.value !== "" && (
        <Notice kind="warning" title="The swarm does without this device for now">
          <p>{ownProblem.value} It stays connected, and is asked again by itself.</p>
        </Notice>
      )}
      <div class="helping-head">
        <Pulse status={now} isPaused={isPaused} />
        <div role="status">
          <p class="helping-phase">{isPaused ? "Paused" : kPhaseWords[now.phase]}</p>
          <p class="muted helping-message">{isPaused ? "" : furtherWords(now)}</p>
        </div>
        <HelpProgress status={now} />
      </div>
      <button type="button" class="button button-stop button-large" onClick={stopHelping}>
        <Icon name="stop" />
        Stop helping
      </button>
      {!isPaused && <WholeModel status={now} />}
      <HelpFigures status={now} />
      <div class="row row-between">
        <span class="muted">
          {now.keepsWeights
            ? `${formatBytes(now.cachedBytes)} of weights are kept in this browser.`
            : "This browser keeps no weights: they are downloaded again the next time."}
        </span>
        <button type="button" class="button" onClick={forgetCache}>Forget cached weights</button>
      </div>
    </section>
  );
}

function Suspended(): VNode | null {
  const slept = suspension.value;
  if (!slept) return null;
  const time = slept.until.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return (
    <Notice kind="info" title={`This tab was suspended for ${durationText(slept.durationMs)}`}>
      <p>
        The browser or the device put it to sleep, until {time}. It helped nobody then; no answer
        was lost. A tab that stays in view is not put to sleep.
      </p>
    </Notice>
  );
}

function durationText(durationMs: number): string {
  const minutes = Math.round(durationMs / 60_000);
  return minutes < 1 ? formatCount(Math.round(durationMs / 1000), "second")
    : formatCount(minutes, "minute");
}

const kWholeWords = {
  possible: "This device can hold the whole model: alone, it waits for no other device.",
  asked: "This device can hold the whole model.",
  here: "This device computes the whole model by itself. Closing the tab gives it back to the " +
    "other devices; no answer is lost.",
};

const kWholeButtons = {
  possible: "Run it all here",
  asked: "Ask no longer",
  here: "Share the work again",
};

// Offered where this device can hold all of the model, and taken back with the same button. Why the
// server did not do it, or whom it asks, stands beside it.
function WholeModel({ status: { whole, wholeMessage } }: { status: WorkerStatus }): VNode | null {
  if (whole !== "possible" && whole !== "asked" && whole !== "here") {
    return wholeMessage ? <p class="muted" role="status">{wholeMessage}</p> : null;
  }
  return (
    <div class="row row-between whole-model">
      <div>
        <p class="muted">{kWholeWords[whole]}</p>
        <p role="status">{wholeMessage}</p>
      </div>
      <button type="button" class={`button ${whole === "possible" ? "button-primary" : ""}`}
        onClick={() => runItAllHere(whole === "possible")}>
        {kWholeButtons[whole]}
      </button>
    </div>
  );
}

function Pulse({ status: now, isPaused }: { status: WorkerStatus; isPaused: boolean }): VNode {
  const isBusy = !isPaused && now.phase === "computing";
  return (
    <span class={`pulse ${isBusy ? "is-computing" : ""}`} aria-hidden="true">
      <Icon name={isPaused ? "stop" : "bolt"} />
    </span>
  );
}

// The bar stands beside the words on a wide screen, under them on a phone.
function HelpProgress({ status: now }: { status: WorkerStatus }): VNode {
  const { download } = now;
  const warmsUp = now.phase === "loading" || now.phase === "measuring";
  return (
    <div class="help-progress">
      {download && download.totalBytes > 0 && download.doneBytes < download.totalBytes ? (
        <ProgressBar
          label="Download"
          done={download.doneBytes}
          total={download.totalBytes}
          text={`${formatBytes(download.doneBytes)} of ${formatBytes(download.totalBytes)} ` +
            `(${formatPercent(download.doneBytes, download.totalBytes)})`}
        />
      ) : warmsUp && (
        <div class="progress">
          <div class="progress-text"><span>Warm-up</span></div>
          <progress aria-label="Warm-up" />
        </div>
      )}
    </div>
  );
}

function isOnGpu({ engine }: WorkerStatus): boolean {
  return engine.includes("webgpu");
}

function dataText(): string {
  const { dataLimitBytes } = choices.value;
  const used = formatBytes(dataUse.value.bytes);
  return dataLimitBytes === null ? used : `${used} of ${formatBytes(dataLimitBytes)}`;
}

function HelpFigures({ status: now }: { status: WorkerStatus }): VNode {
  const layerCount = modelState.value.kind === "known" ? modelState.value.model.layerCount : 0;
  const layers = now.layers
    ? layersText(now.layers[0], now.layers[1], layerCount || now.layers[1] + 1)
    : now.expertsHeld > 0 ? "experts only" : "none yet";
  return (
    <dl class="figures figures-wide">
      <Figure name="Holds" value={layers} />
      {(now.expertsHeld > 0 || now.expertCalls > 0) && (
        <>
          <Figure name="Experts held" value={formatInteger(now.expertsHeld)} />
          <Figure name="Expert calls" value={formatInteger(now.expertCalls)} />
        </>
      )}
      <Figure name="Speed" value={formatRate(now.rowsPerSecond, "rows")} />
      <Figure name="Last step" value={now.lastStepMs > 0
        ? formatMilliseconds(now.lastStepMs) : "–"} />
      <Figure name="Rows computed" value={formatInteger(now.rowsComputed)} />
      <Figure name="Memory used" value={now.memoryBytes > 0
        ? formatMemoryOf(now.usedBytes, now.memoryBytes) : "–"} />
      <Figure name="Data today" value={dataText()} />
      {choices.value.share < 1 && <Figure name="Computes" value={shareText(choices.value.share)} />}
      {gpuMemory.value && isOnGpu(now) && (
        <Figure name="Lent of what was found"
          value={formatMemoryOf(now.memoryBytes, gpuMemory.value.bytes)} />
      )}
      <Figure name="Engine" value={now.engine || "–"} />
      {now.engineDetail !== "" && <Figure name="Computes with" value={now.engineDetail} isWide />}
    </dl>
  );
}
