// The API key and the join token: they come in the part of a link after '#', which browsers send to
// nobody, are kept in this browser, and leave the address bar at once.
import { signal } from "@preact/signals";
import { load, remove, save } from "../browser/storage.ts";

const kApiKey = "weft.apiKey";
const kJoinToken = "weft.joinToken";
// Secrets are made of hexadecimal digits; people may set others of at least 32 characters. An
// anchor of the page, like "#main", is neither.
const kSecret = /^[\w.~+/=-]{16,512}$/;

export interface HashSecrets {
  apiKey?: string;
  joinToken?: string;
}

// "#key=..." on any page, "#<token>" on the join page.
export function readHash(path: string, hash: string): HashSecrets {
  const text = hash.replace(/^#/, "");
  const key = /^key=(.*)$/.exec(text)?.[1];
  if (key !== undefined) {
    const decoded = decode(key);
    return kSecret.test(decoded) ? { apiKey: decoded } : {};
  }
  const token = decode(text);
  return path === "/join" && kSecret.test(token) ? { joinToken: token } : {};
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const apiKey = signal(load(kApiKey) ?? "");
export const joinToken = signal(load(kJoinToken) ?? "");

export function setApiKey(key: string): void {
  apiKey.value = key;
  if (key === "") remove(kApiKey);
  else save(kApiKey, key);
}

export function setJoinToken(token: string): void {
  joinToken.value = token;
  if (token === "") remove(kJoinToken);
  else save(kJoinToken, token);
}

// A link with a secret may be opened in a page that is open already, too.
export function takeSecretsFromAddress(): void {
  const { pathname, search, hash } = location;
  const secrets = readHash(pathname, hash);
  if (secrets.apiKey !== undefined) setApiKey(secrets.apiKey);
  if (secrets.joinToken !== undefined) setJoinToken(secrets.joinToken);
  if (secrets.apiKey !== undefined || secrets.joinToken !== undefined) {
    history.replaceState(history.state, "", pathname + search);
  }
}

// A page that may see the join link may help as well.
export function learnJoinToken(joinUrl: string): void {
  if (!URL.canParse(joinUrl)) return;
  const { joinToken: token } = readHash("/join", new URL(joinUrl).hash);
  if (token !== undefined) setJoinToken(token);
}
