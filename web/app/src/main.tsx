// Starts the one page: secrets out of the address, theme, route, then the app.
import { effect } from "@preact/signals";
import { render } from "preact";
import { applyTheme, savedTheme } from "@weft/ui";
import "@weft/ui/styles/index.css";
import { apiKey, takeSecretsFromAddress } from "./api/secrets.ts";
import { restartFeed } from "./api/swarmFeed.ts";
import { App } from "./app.tsx";
import { startRouting } from "./route.ts";

applyTheme(savedTheme());
takeSecretsFromAddress();
addEventListener("hashchange", takeSecretsFromAddress);
startRouting();

// Another key may see what the last one could not.
let keyInUse = apiKey.peek();
effect(() => {
  if (apiKey.value === keyInUse) return;
  keyInUse = apiKey.value;
  restartFeed();
});

const root = document.getElementById("app");
if (root) render(<App />, root);
