// The user's wish that this device runs the whole model, and what the server says of it.
import { WholeModel, encodeWholeFrame } from "@weft/wire";

import type { Shown } from "./events.ts";

const kWords: Record<WholeModel, NonNullable<Shown["whole"]>> = {
  [WholeModel.tooLarge]: "no",
  [WholeModel.fits]: "possible",
  [WholeModel.here]: "here",
  [WholeModel.asked]: "asked",
};

function isOpen(state: WholeModel): boolean {
  return state === WholeModel.here || state === WholeModel.asked;
}

export class WholeWish {
  isWanted: boolean;
  apiKey: string; // said with it
  #told: WholeModel = WholeModel.tooLarge; // by the server, last

  constructor(isWanted: boolean, apiKey: string) {
    this.isWanted = isWanted;
    this.apiKey = apiKey;
  }

  frame(): Uint8Array<ArrayBuffer> {
    return encodeWholeFrame({ kind: "runHere", isWanted: this.isWanted, apiKey: this.apiKey });
  }

  // Whether the wish has ended: it was granted or asked about and is not any more, or a sentence
  // says why it is not granted at all.
  onTold(state: WholeModel, message: string): boolean {
    const hasEnded = !isOpen(state) &&
      (isOpen(this.#told) || (this.isWanted && message !== ""));
    if (hasEnded) this.isWanted = false;
    this.#told = state;
    return hasEnded;
  }

  shown(message: string): Shown {
    return { whole: kWords[this.#told], wholeMessage: message };
  }
}
