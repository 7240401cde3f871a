// Which page is shown. Links are plain <a href>: this only saves the reload, so that an answer goes
// on, and helping too, while another page of the app is looked at.
import { signal } from "@preact/signals";

export type Route = "/" | "/swarm" | "/join" | "/certificate" | "/admin";

const kRoutes: readonly Route[] = ["/", "/swarm", "/join", "/certificate", "/admin"];

export function routeOf(path: string): Route {
  const trimmed = path.replace(/\/+$/, "") || "/";
  return kRoutes.find((route) => route === trimmed) ?? "/";
}

const kKnown: readonly string[] = [...kRoutes, "/chat"];

// The address to show for a click, or null when the browser shall do what it does.
function followedLink(event: MouseEvent): URL | null {
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey &&
    !event.altKey && !event.defaultPrevented;
  if (!isPlain || !(event.target instanceof Element)) return null;
  const link = event.target.closest("a");
  if (!link || link.target !== "" || link.hasAttribute("download")) return null;
  const url = new URL(link.href, location.href);
  return url.origin === location.origin && url.hash === "" && kKnown.includes(url.pathname)
    ? url : null;
}

export const route = signal<Route>("/");

export function startRouting(): void {
  route.value = routeOf(location.pathname);
  addEventListener("popstate", () => {
    route.value = routeOf(location.pathname);
  });
  document.addEventListener("click", (event) => {
    const url = followedLink(event);
    if (!url) return;
    event.preventDefault();
    if (url.pathname !== location.pathname) history.pushState(null, "", url);
    route.value = routeOf(url.pathname);
    scrollTo(0, 0);
  });
}
