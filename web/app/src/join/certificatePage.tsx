// "/certificate": how an iPhone or iPad comes to trust a server whose certificate is its own. Their
// browsers open no WebSocket to it before that, and so cannot help.
import type { VNode } from "preact";
import { Notice } from "@weft/ui";

export function CertificatePage(): VNode {
  return (
    <div class="page join-page">
      <header class="join-head">
        <h1>Trust this server</h1>
        <p>
          Its certificate is its own. A warning that you click away is enough to chat, and on most
          devices to help. iPhones and iPads want more before a tab may help.
        </p>
      </header>
      <section class="card stack" aria-label="On an iPhone or iPad">
        <h2>On an iPhone or iPad</h2>
        <ol class="steps">
          <li>
            <a href="/certificate.crt" download="weft-swarm.crt">Download the certificate</a> in
            Safari and allow it.
          </li>
          <li>Settings, Profile Downloaded: Install.</li>
          <li>
            Settings, General, About, Certificate Trust Settings: switch "weft swarm" on.
          </li>
          <li>Close this tab and open the help address again.</li>
        </ol>
        <p class="muted">
          Take it away again under Settings, General, VPN &amp; Device Management.
        </p>
      </section>
      <Notice kind="info" title="What you trust">
        <p>
          This server, until its certificate ends after a year, and nothing else: the key that
          signed it was never kept, so nobody can sign another one with it. A server with new
          addresses makes a new certificate.
        </p>
      </Notice>
    </div>
  );
}
