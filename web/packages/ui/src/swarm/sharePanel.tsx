// How another device gets in: the join link, a button that copies it, a QR code.
import type { VNode } from "preact";
import { CopyField, Notice } from "../elements/controls.tsx";
import { formatBytes } from "../words/format.ts";
import type { SwarmPicture } from "./picture.ts";

// GET /api/share.
export interface Share {
  joinUrl: string;
  chatUrl: string;
  qrSvg: string | null;
  isLan: boolean; // other devices can reach the address
}

export function readShare(json: unknown): Share | null {
  if (typeof json !== "object" || json === null) return null;
  const share = json as Partial<Record<string, unknown>>;
  if (typeof share["join_url"] !== "string") return null;
  return {
    joinUrl: share["join_url"],
    chatUrl: typeof share["chat_url"] === "string" ? share["chat_url"] : "",
    qrSvg: typeof share["qr_svg"] === "string" && share["qr_svg"] !== "" ? share["qr_svg"] : null,
    isLan: share["lan"] === true,
  };
}

export function SharePanel({ share }: { share: Share }): VNode {
  return (
    <div class="share">
      {share.qrSvg !== null && (
        // The code is shown as an image: whatever an SVG holds, it runs no script there.
        <img
          class="share-qr"
          width="148"
          height="148"
          alt="QR code of the join link"
          src={`data:image/svg+xml,${encodeURIComponent(share.qrSvg)}`}
        />
      )}
      <div class="share-words">
        <p>
          {share.isLan
            ? "Open this link on a device in your network and press “Help compute”."
            : "Open this link in another tab or browser of this computer and press “Help compute”."}
        </p>
        <CopyField label="Join link" text={share.joinUrl} />
        {share.isLan && share.joinUrl.startsWith("http:") && (
          <p class="muted">
            A phone or another computer can help only over <code>https://</code>. Start{" "}
            <code>weft serve --share</code> to get such an address.
          </p>
        )}
        {!share.isLan && (
          <p class="muted">
            Other devices cannot reach this address. Start <code>weft serve --share</code> to let
            them join.
          </p>
        )}
      </div>
    </div>
  );
}

interface NotServingProps {
  picture: SwarmPicture;
  share: Share | null;
}

// Above the chat while the swarm cannot answer: what is missing and what to do.
export function NotServing({ picture, share }: NotServingProps): VNode | null {
  if (picture.state === "up" || picture.state === "idle") return null;
  if (picture.state !== "down") {
    return (
      <Notice kind="info" title="The swarm is getting ready">
        <p>{picture.message}</p>
      </Notice>
    );
  }
  const missing = picture.missingMemoryBytes;
  return (
    <Notice
      kind="warning"
      title={missing > 0
        ? `This swarm needs ${formatBytes(missing)} more memory` : "This swarm cannot answer yet"}
    >
      {(missing === 0 || !share) && <p>{picture.message}</p>}
      {share && <SharePanel share={share} />}
    </Notice>
  );
}
